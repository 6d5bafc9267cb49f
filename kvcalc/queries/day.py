"""How many requests a second one replica carries, and so how many replicas a day needs."""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.serving.day import Part
from kvcalc.serving.fleet import Served
from kvcalc.traffic.trace import Trace
from kvcalc.traffic.turns import paced

__all__ = ["DayPlan", "Highest", "busiest", "highest", "parts_of"]

_FINE = 0.01  # of the rate; requests by chance make more
_MOST = 20_000  # requests of a long trace; a replay of them takes half a second, and some fifteen are needed
_SPAN = 2.0**20  # about the rate of the trace, either way


class DayPlan(NamedTuple):
    """A file of hours and rates, or the requests themselves in parts of so many seconds.

    Attributes:
        path: The file; None where `part` says how the requests are divided.
        start_seconds: Until a replica that starts is ready.
        part: Seconds of a part.
        prices: An hour of one GPU, by names of cards; they come before that of a file.
    """

    path: str | None
    start_seconds: float = 0.0
    part: float | None = None
    prices: Mapping[str, float] = {}

    @property
    def option(self) -> str:
        """What asks for it on the command line."""
        return "--day" if self.path is not None else "--bin"


class Highest(NamedTuple):
    """The highest rate that is carried, in requests a second, and what those requests meet."""

    rate: float
    trace: Trace
    served: Served


def parts_of(trace: Trace, seconds: float) -> tuple[Part, ...]:
    """The rates of a trace in parts of so many seconds; the last one ends with the last request."""
    last = trace.arrivals[-1]
    counts = [0] * (int(last / seconds) + 1)
    for time in trace.arrivals:
        counts[int(time / seconds)] += 1
    rest = last - (len(counts) - 1) * seconds
    if len(counts) > 1 and rest < seconds / 2:  # too short for a rate of its own
        few = counts.pop()
        counts[-1] += few
        rest += seconds
    lasts = [seconds] * (len(counts) - 1) + [rest]
    return tuple(
        Part(i * seconds / 3600, count / wide, wide / 3600)
        for i, (count, wide) in enumerate(zip(counts, lasts, strict=True))
    )


def busiest(trace: Trace, parts: Sequence[Part]) -> Trace:
    """Of a long trace, as many requests as are replayed again and again, about its part with the highest rate."""
    if len(trace) <= _MOST:
        return trace
    peak = max(parts, key=lambda part: part.rate)
    middle = bisect_left(trace.arrivals, (peak.hour + peak.hours / 2) * 3600)
    first = max(0, min(middle - _MOST // 2, len(trace) - _MOST))
    kept = slice(first, first + _MOST)
    start, prefixes = trace.arrivals[first], trace.prefixes
    return Trace(
        array("d", (time - start for time in trace.arrivals[kept])),
        trace.prompts[kept],
        trace.outputs[kept],
        None if prefixes is None else replace(prefixes, blocks=prefixes.blocks[kept]),
        None if trace.sessions is None else trace.sessions[kept],
    )


def highest(
    what: str, trace: Trace, replay: Callable[[Trace], Served], met: Callable[[Trace, Served], bool]
) -> Highest:
    """By bisection over how fast the requests come; `what` asks for it. Raises KvcalcError where none or any is
    carried.
    """
    seconds = trace.arrivals[-1] - trace.arrivals[0]
    if len(trace) < 2 or seconds <= 0:
        raise KvcalcError(f"{what}: the requests all arrive at once, so that they have no rate", "--spread-ties")

    def tried(factor: float) -> tuple[Trace, Served] | None:
        faster = paced(trace, factor)
        served = replay(faster)
        return (faster, served) if met(faster, served) else None

    factor, best = 1.0, tried(1.0)
    up = best is not None
    while True:
        other = factor * 2 if up else factor / 2
        if not 1 / _SPAN <= other <= _SPAN:
            raise KvcalcError(
                f"{what}: " + ("any rate is carried" if up else "no rate is carried within the targets"),
                "more --requests" if up else "slower targets, or a faster card",
            )
        found = tried(other)
        if (found is not None) != up:
            break
        factor, best = other, found
    low, high = (factor, other) if up else (other, factor)
    best = best if up else found
    while high - low > _FINE * low:
        middle = (low + high) / 2
        found = tried(middle)
        low, high, best = (middle, high, found) if found is not None else (low, middle, best)
    assert best is not None
    return Highest((len(trace) - 1) / seconds * low, *best)
