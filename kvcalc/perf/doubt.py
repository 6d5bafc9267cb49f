"""How far an answer in seconds may be off, and why."""

from typing import NamedTuple

__all__ = ["Doubt", "Span"]

# Nine of ten published measurements lie within a factor of 1.5 of the clock; a tenth of repeated measurements of one
# configuration differ by a quarter, which no closed form can tell apart (bench/times.py has the table).
_MEASURED = 1.5
_EACH_CAUSE = 1.3


class Span(NamedTuple):
    """A quantity as the least that is likely, the likely, and the most."""

    low: float
    likely: float
    high: float


class Doubt(NamedTuple):
    """What is not known, in words: each cause widens the range of an answer."""

    causes: tuple[str, ...] = ()

    @property
    def factor(self) -> float:
        """By how much an answer may be above or below."""
        return float(_MEASURED * _EACH_CAUSE ** len(self.causes))

    def around(self, likely: float) -> Span:
        """The range of an answer."""
        return Span(likely / self.factor, likely, likely * self.factor)

    def __str__(self) -> str:
        known = f"nine of ten published measurements lie within a factor of {_MEASURED:g}"
        return "; ".join((known, *self.causes))
