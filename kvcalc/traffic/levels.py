"""A level over time, as tokens in a pool or sequences in a batch: its mean, its percentiles by time, and its peak.

Between events a level runs straight; so each stretch spends its time evenly on the values that it passes.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Event", "Gauge", "Levels", "levels", "percentiles"]

SHARES = (50.0, 95.0, 99.0)


class Event(NamedTuple):
    """At a time in seconds, the level jumps by `rise` and its slope, a second, changes by `bend`."""

    time: float
    rise: float
    bend: float = 0.0


class Levels(NamedTuple):
    """What a level came to: the mean over time, values that it did not exceed for so much of the time, its highest."""

    mean: float
    p50: float
    p95: float
    p99: float
    peak: float
    peak_at: float
    seconds: float


class _Stretch(NamedTuple):
    low: float
    high: float
    seconds: float


def levels(events: Iterable[Event], *, mean: float | None = None) -> Levels:
    """The statistics of a level that starts and ends at nothing; at equal times what falls comes first.

    `mean`: where it is known exactly, by another sum.
    """
    ordered = sorted(events, key=lambda event: (event.time, event.rise))
    if not ordered:
        return Levels(0, 0, 0, 0, 0, 0, 0)
    level = slope = area = peak = 0.0
    peak_at = ordered[0].time
    stretches = []
    for event, after in pairwise([*ordered, ordered[-1]]):
        level, slope = level + event.rise, slope + event.bend
        seconds = after.time - event.time
        if level > peak:
            peak, peak_at = level, event.time
        if seconds > 0:
            end = level + slope * seconds
            stretches.append(_Stretch(min(level, end), max(level, end), seconds))
            area += (level + end) / 2 * seconds
            level = end
            if level > peak:
                peak, peak_at = level, after.time
    whole = ordered[-1].time - ordered[0].time
    p50, p95, p99 = percentiles(stretches, SHARES)
    found = area / whole if whole > 0 else 0.0
    return Levels(found if mean is None else mean, p50, p95, p99, peak, peak_at, whole)


class Gauge:
    """A level of whole numbers that is told stretch by stretch, from however many sides. What it takes of memory grows
    with the levels that there are and not with the stretches.
    """

    def __init__(self) -> None:
        self._at_once: dict[int, float] = {}  # seconds on a level
        self._bends: dict[int, float] = {}  # how many more seconds each unit takes from a level on
        self._area = self._seconds = 0.0
        self._peak = 0

    def add(self, low: int, high: int, seconds: float) -> None:
        """So long between two levels, evenly, or on one."""
        if low == high:
            self._at_once[low] = self._at_once.get(low, 0.0) + seconds
        else:
            rate, bends = seconds / (high - low), self._bends
            bends[low] = bends.get(low, 0.0) + rate
            bends[high] = bends.get(high, 0.0) - rate
        self._area += (low + high) / 2 * seconds
        self._seconds += seconds
        self._peak = max(self._peak, high)

    def levels(self) -> Levels:
        """What it came to; the time of the peak is not kept."""
        if not self._seconds:
            return Levels(0, 0, 0, 0, 0, 0, 0)
        at_once, bends = self._at_once, self._bends
        steps = [
            (float(level), at_once.get(level, 0.0), bends.get(level, 0.0))
            for level in sorted(at_once.keys() | bends.keys())
        ]
        p50, p95, p99 = _passed(steps, self._seconds, SHARES)
        return Levels(self._area / self._seconds, p50, p95, p99, self._peak, 0.0, self._seconds)


def percentiles(stretches: Sequence[tuple[float, float, float]], shares: Sequence[float]) -> list[float]:
    """The least values that are not exceeded for so many of 100 parts of the time; `stretches` are (low, high,
    seconds).
    """
    total = sum(seconds for _, _, seconds in stretches)
    if not total:
        return [0.0] * len(shares)
    steps: list[tuple[float, float, float]] = []
    for low, high, seconds in stretches:
        if high - low <= 1e-9 * max(high, 1.0):
            steps.append((low, seconds, 0.0))
        else:
            steps += [(low, 0.0, seconds / (high - low)), (high, 0.0, -seconds / (high - low))]
    steps.sort()
    return _passed(steps, total, shares)


def _passed(steps: Sequence[tuple[float, float, float]], total: float, shares: Sequence[float]) -> list[float]:
    """Values below which so much of the time is; a step is a value, what it takes at once, and how much more each unit
    above it takes.
    """
    found: list[float] = []
    passed = rate = 0.0
    last, left = steps[0][0], [share / 100 * total * (1 - 1e-12) for share in sorted(shares)]
    for value, at_once, more in steps:
        while left and rate > 0 and passed + rate * (value - last) >= left[0]:
            found.append(last + (left.pop(0) - passed) / rate)
        passed += rate * (value - last) + at_once
        last, rate = value, rate + more
        while left and passed >= left[0]:
            found.append(value)
            left.pop(0)
    return [*found, *[last] * len(left)]
