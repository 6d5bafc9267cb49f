"""Several replicas behind a router, and what their requests met."""

from collections.abc import Callable, Sequence
from math import isnan
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from kvcalc.serving.replica import Replica, Times
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.steps import StepClock
from kvcalc.traffic.levels import Levels, percentiles
from kvcalc.traffic.trace import Trace

if TYPE_CHECKING:
    from array import array

__all__ = ["Router", "Served", "Spread", "serve"]

Router: TypeAlias = Literal["round-robin", "least-loaded", "prefix"]

_QUANTILES = (50.0, 90.0, 95.0, 99.0)
# Requests that still wait when the last one arrives: at a rate that is carried a few, else as many as came too much.
_LEFT_OVER, _LEAST_LEFT = 0.02, 10


class Spread(NamedTuple):
    """A time over requests, each of which counts once, in seconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


class Served(NamedTuple):
    """What a fleet did with a trace. `times` has each request, and `tokens` are those of one replica's pool."""

    times: Times
    ttft: Spread
    tpot: Spread
    e2e: Spread
    queue: Spread
    tokens: Levels
    sequences: Levels
    preemptions: int
    preempted: int
    refused: int
    seconds: float
    output_tokens: int
    found_tokens: int
    overloaded: bool


def serve(
    trace: Trace,
    replicas: int,
    router: Router,
    rules: Scheduler,
    clock: StepClock,
) -> Served:
    """Replay a trace on equal replicas."""
    times = Times(len(trace))
    fleet = [Replica(trace, rules, clock, times) for _ in range(replicas)]
    choose = _router(trace, fleet, router)
    for index, arrival in enumerate(trace.arrivals):
        one = choose(index, arrival)
        one.advance(arrival)
        one.push(index)
    left = 0
    for one in fleet:
        one.advance(trace.arrivals[-1])
        left += len(one.waiting)
        one.advance()
    return _summed(trace, fleet, times, clock, overloaded=left > max(_LEAST_LEFT, _LEFT_OVER * len(trace)))


def _router(trace: Trace, fleet: Sequence[Replica], router: Router) -> Callable[[int, float], Replica]:
    def in_turn(index: int, _arrival: float) -> Replica:
        return fleet[index % len(fleet)]

    def least(_index: int, arrival: float) -> Replica:
        for one in fleet:
            one.advance(arrival)
        return min(fleet, key=lambda one: one.load)

    def by_prefix(index: int, arrival: float) -> Replica:
        """Where most of the prompt is found, and of equals the least loaded."""
        assert trace.prefixes is not None
        ids = trace.prefixes.blocks[index]
        for one in fleet:
            one.advance(arrival)
        return min(fleet, key=lambda one: (-one.pool.leading(ids), one.load))

    return {"round-robin": in_turn, "least-loaded": least, "prefix": by_prefix}[router]


def _summed(trace: Trace, fleet: Sequence[Replica], times: Times, clock: StepClock, *, overloaded: bool) -> Served:
    done = [i for i in range(len(trace)) if not isnan(times.done[i])]
    front = clock.front_end
    arrivals, outputs = trace.arrivals, trace.outputs
    ttft = [times.first[i] - arrivals[i] + front for i in done]
    e2e = [times.done[i] - arrivals[i] + front for i in done]
    queue = [times.begun[i] - arrivals[i] for i in done]
    tpot = [(times.done[i] - times.first[i]) / (outputs[i] - 1) for i in done if outputs[i] > 1]
    ends = [times.done[i] for i in done]
    return Served(
        times,
        ttft=_spread(ttft),
        tpot=_spread(tpot),
        e2e=_spread(e2e),
        queue=_spread(queue),
        tokens=_level([one.stretches for one in fleet]),
        sequences=_crowd([one.crowds for one in fleet]),
        preemptions=sum(times.taken_off),
        preempted=sum(count > 0 for count in times.taken_off),
        refused=sum(one.refused for one in fleet),
        seconds=max(ends) - arrivals[0] if ends else 0.0,
        output_tokens=sum(outputs[i] for i in done),
        found_tokens=sum(times.found),
        overloaded=overloaded,
    )


def _spread(values: Sequence[float]) -> Spread:
    """The mean and the percentiles, linear between two values as numpy's default is."""
    if not values:
        return Spread(*[float("nan")] * 5)
    ordered, last = sorted(values), len(values) - 1
    found = []
    for share in _QUANTILES:
        at = share / 100 * last
        low = int(at)
        high = min(low + 1, last)
        found.append(ordered[low] + (at - low) * (ordered[high] - ordered[low]))
    return Spread(sum(values) / len(values), *found)


def _level(each: "Sequence[array[float]]") -> Levels:
    """The pools of all replicas as one level: the mean of a replica, and its percentiles over all of them."""
    stretches = [
        (part[i], part[i + 1], part[i + 2]) if part[i] <= part[i + 1] else (part[i + 1], part[i], part[i + 2])
        for part in each
        for i in range(0, len(part), 3)
    ]
    return _of(stretches)


def _crowd(each: "Sequence[array[float]]") -> Levels:
    return _of([(part[i], part[i], part[i + 1]) for part in each for i in range(0, len(part), 2)])


def _of(stretches: Sequence[tuple[float, float, float]]) -> Levels:
    seconds = sum(part[2] for part in stretches)
    if not seconds:
        return Levels(0, 0, 0, 0, 0, 0, 0)
    mean = sum((low + high) / 2 * part for low, high, part in stretches) / seconds
    p50, p95, p99 = percentiles(stretches, (50.0, 95.0, 99.0))
    return Levels(mean, p50, p95, p99, max(part[1] for part in stretches), 0.0, seconds)
