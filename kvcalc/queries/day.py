"""How many requests a second one replica carries, and so how many replicas a day needs."""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.serving.fleet import Served
from kvcalc.traffic.trace import Trace
from kvcalc.traffic.turns import paced

__all__ = ["DayPlan", "Highest", "highest"]

_FINE = 0.01  # of the rate; requests by chance make more
_SPAN = 2.0**20  # about the rate of the trace, either way


class DayPlan(NamedTuple):
    """A file of hours and rates, and the seconds until a replica that starts is ready."""

    path: str
    start_seconds: float = 0.0


class Highest(NamedTuple):
    """The highest rate that is carried, in requests a second, and what those requests meet."""

    rate: float
    trace: Trace
    served: Served


def highest(trace: Trace, replay: Callable[[Trace], Served], met: Callable[[Trace, Served], bool]) -> Highest:
    """By bisection over how fast the requests come. Raises KvcalcError where no rate is carried, or any is."""
    seconds = trace.arrivals[-1] - trace.arrivals[0]
    if len(trace) < 2 or seconds <= 0:
        raise KvcalcError("--day: the requests all arrive at once, so that they have no rate", "--spread-ties")

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
                "--day: " + ("any rate is carried" if up else "no rate is carried within the targets"),
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
