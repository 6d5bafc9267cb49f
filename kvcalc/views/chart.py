"""A chart as values: lines over an axis, or bars with names; which ticks it has, and no word of how it is drawn."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from typing import Literal, NamedTuple, TypeAlias

from kvcalc.core.units import Units, format_bytes, format_tokens

__all__ = [
    "MOST_POINTS", "MOST_SERIES", "Axis", "Bar", "Bars", "Chart", "Limit", "Lines", "Number", "Point", "Scale",
    "Series", "amount", "extent", "position", "scale_of", "ticks",
]  # fmt: skip

MOST_SERIES = 24  # as many lines as can be told apart without colour, and named beside the chart
MOST_POINTS = 20_000  # of all series; a browser still scrolls such a page at once

Scale: TypeAlias = Literal["linear", "log2", "log10"]
Number: TypeAlias = int | float


class Axis(NamedTuple):
    """What is measured. `unit`: bytes, tokens, nothing for a count, else a unit that takes prefixes (s, FLOP, B/s)."""

    title: str
    unit: str = ""
    scale: Scale = "linear"


class Point(NamedTuple):
    """One value. `note` is what a reader is told who points at it, beside the two numbers."""

    x: Number
    y: Number
    note: str = ""


class Series(NamedTuple):
    """Points from left to right, joined by a line."""

    name: str
    points: tuple[Point, ...]


class Limit(NamedTuple):
    """A line across the whole chart, named by its label and value: at a value of y, or of x if `upright`."""

    label: str
    at: Number
    upright: bool = False


class Lines(NamedTuple):
    """Series over two axes. `about` says what was asked, and stands below the title."""

    title: str
    about: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    limits: tuple[Limit, ...] = ()


class Bar(NamedTuple):
    """One amount with its name; `limit` is what it is held against, None where there is nothing. `note`: as a Point's.

    An amount of None has a name and no bar: the note says why.
    """

    name: str
    amount: Number | None
    limit: Number | None = None
    note: str = ""


class Bars(NamedTuple):
    """Amounts side by side, each from zero. `limit` names what the bars' limits are."""

    title: str
    about: str
    axis: Axis
    bars: tuple[Bar, ...]
    limit: str = ""


Chart: TypeAlias = Lines | Bars


def extent(values: Sequence[Number], scale: Scale) -> tuple[float, float]:
    """The part of an axis that shows all values: from zero if it is linear, with some air at open ends."""
    low, high = min(values), max(values)
    if scale == "linear":
        low, high = min(low, 0), max(high, 0)
        air = (high - low or 1) * 0.05
        return float(low - air if low < 0 else 0), float(high + air if high > 0 else 1)
    assert low > 0, "a logarithmic axis has no zero"
    air = max(high / low, 2) ** 0.05
    return low / air, high * air


def position(value: Number, ends: tuple[float, float], scale: Scale) -> float:
    """Where a value lies between the ends of an axis, from 0 to 1."""
    low, high = ends
    if scale == "linear":
        return (value - low) / (high - low)
    return log10(value / low) / log10(high / low)


def scale_of(values: Sequence[Number]) -> Scale:
    """Doubled values stand at equal distances, counted ones too: by where the middle one lies."""
    ordered = sorted(set(values))
    if len(ordered) < 3 or ordered[0] <= 0 or ordered[-1] < 8 * ordered[0]:
        return "linear"
    return "log2" if 4 * ordered[len(ordered) // 2] < ordered[0] + ordered[-1] else "linear"


def amount(value: Number, unit: str, units: Units) -> str:
    """A value as people read it: `1.25 GiB`, `128k`, `3.2 ms`."""
    if unit == "bytes":
        return format_bytes(round(value), units)
    if unit == "tokens" and value == round(value):
        return format_tokens(round(value))
    if not unit:
        return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"
    if unit == "tokens":
        return f"{value:,.4g}"
    power = min(max(floor(log10(abs(value)) / 3 + 1e-9), -3), 6) if value else 0
    prefix = ("n", "µ", "m", "", "k", "M", "G", "T", "P", "E")[power + 3]
    return f"{value / 1000.0**power:.4g} {prefix}{unit}"


def ticks(axis: Axis, ends: tuple[float, float], units: Units, most: int = 8) -> list[tuple[float, str]]:
    """At most `most` values on an axis, at round numbers, each with its text."""
    if axis.scale == "linear":
        found = _even(ends, _round_step(ends, axis, units, most))
    else:
        base = 10 if axis.scale == "log10" or (axis.unit == "bytes" and units == "si") else 2
        found = _powers(ends, base, most)
        if len(found) < 3 and base == 10:
            found = [
                value for power in _powers((ends[0] / 10, ends[1]), 10, most) for value in (power, 2 * power, 5 * power)
            ]
            found = [value for value in found if ends[0] <= value <= ends[1]]
        if len(found) < 3:  # less than two powers: round numbers between them
            found = [value for value in _even(ends, _round_step(ends, axis, units, most)) if value > 0]
    return [(value, amount(value, axis.unit, units)) for value in found]


def _round_step(ends: tuple[float, float], axis: Axis, units: Units, most: int) -> float:
    """1, 2 or 5 times a power of ten of the unit in which the larger end is read: 20 GiB, 50k; counts stay whole."""
    high = max(abs(end) for end in ends)
    unit = 1.0
    if axis.unit == "tokens" or (axis.unit == "bytes" and units == "iec"):
        while unit * 1024 <= high and (axis.unit == "bytes" or unit < 1024**2):
            unit *= 1024
    rough = (ends[1] - ends[0]) / most / unit
    power = 10.0 ** floor(log10(rough))
    step = unit * next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
    return max(step, 1.0) if axis.unit in ("", "tokens", "bytes") and high >= 2 else step


def _even(ends: tuple[float, float], step: float) -> list[float]:
    first, last = ceil(ends[0] / step - 1e-9), floor(ends[1] / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _powers(ends: tuple[float, float], base: int, most: int) -> list[float]:
    """Powers of the base, every second or fourth or ... where they are many."""
    first, last = (log10(end) / log10(base) for end in ends)
    inside = range(ceil(first - 1e-9), floor(last + 1e-9) + 1)
    stride = next(stride for stride in _strides() if len(inside) <= most * stride)
    return [float(base) ** power for power in inside if power % stride == 0]


def _strides() -> Iterator[int]:
    yield 1
    yield 2
    yield 5
    stride = 10
    while True:
        yield stride
        stride *= 2
