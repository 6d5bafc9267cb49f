"""The terms of the memory that a start prints beside the estimate of each. None of them decides about the log."""

from collections.abc import Iterator, Mapping

from kvcalc.core.memory import MemorySplit
from kvcalc.engines.log_form import Expected, MatchedLine, StartLog
from kvcalc.engines.log_numbers import Printed, digits
from kvcalc.engines.log_terms import Parts
from kvcalc.logs.compare import Compared

__all__ = ["card_names", "estimated", "worst"]


_LEFT = ("cache", "after", "pooled")


def estimated(run: StartLog, terms: Mapping[str, Parts], memory: MemorySplit) -> tuple[Compared, ...]:
    """Each printed term with its estimate, in the order of the log; those that have none are left out."""
    found = []
    for name, (number, printed) in _printed(run, terms).items():
        parts = terms[name]
        size = parts.estimate(memory)
        if size is not None:
            expected = Expected(
                number, parts.quantity, printed, parts.unit, parts.scale, size.low, size.likely, size.high
            )
            found.append(Compared(expected, "estimate"))
    return tuple(sorted(found, key=lambda each: each.expected.number))


def worst(compared: tuple[Compared, ...]) -> Compared | None:
    """The term whose estimate is off most, in bytes: none of those that others leave."""
    terms = [each for each in compared if each.expected.quantity not in _LEFT]
    return max(terms, key=lambda each: abs(each.difference or 0), default=None)


def _printed(run: StartLog, terms: Mapping[str, Parts]) -> dict[str, tuple[int, Printed]]:
    """What was printed last of each term, or of all devices together."""
    found: dict[str, tuple[int, Printed]] = {}
    for name, parts in terms.items():
        lines = [each for each in run.found if name in each.says]
        last: dict[str, MatchedLine] = {each.says.get("device", "") if parts.summed else "": each for each in lines}
        numbers = [number for each in last.values() if (number := digits(each.says[name])) is not None]
        if numbers:
            found[name] = next(iter(last.values())).number, _sum(numbers)
    return found


def _sum(numbers: list[Printed]) -> Printed:
    places = max(each.places for each in numbers)
    return Printed(sum(each.value * 10 ** (places - each.places) for each in numbers), places)


def card_names(run: StartLog) -> Iterator[str]:
    """What the log calls the card, as `--gpu` takes it."""
    for each in run.found:
        if "card" in each.says:
            yield each.says["card"].replace("_", " ")
