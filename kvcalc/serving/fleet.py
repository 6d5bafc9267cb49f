"""Several replicas behind a router, and what their requests met."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from math import isnan
from typing import Literal, NamedTuple, TypeAlias

from kvcalc.serving.records import Gauges, Times
from kvcalc.serving.replica import Replica
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.sessions import converse
from kvcalc.serving.steps import StepClock
from kvcalc.traffic.course import Course
from kvcalc.traffic.levels import Levels
from kvcalc.traffic.trace import Trace

__all__ = ["Router", "Served", "Spread", "Watch", "left_over", "router_of", "serve", "spread", "summed"]

Watch: TypeAlias = Callable[[int, int], None]  # is told how many of how many requests have come
Router: TypeAlias = Literal["round-robin", "least-loaded", "prefix"]

_OFTEN = 1024  # requests between two looks at a watch
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
    """What a fleet did with a trace. `times` has each request, and `tokens` are those of one replica's pool.
    `front_end` are the seconds before and behind the scheduler, which the first token's time has.

    `loaded` are the trace's blocks that came from each tier, `slower` those that a tier had but that are computed again
    since that is quicker, and `loading_seconds` those that steps of all replicas waited for tiers.
    """

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
    front_end: float = 0.0
    loaded: tuple[int, ...] = ()
    slower: int = 0
    loading_seconds: float = 0.0


def serve(
    trace: Trace,
    replicas: int,
    router: Router,
    rules: Scheduler,
    clock: StepClock,
    course: Course | None = None,
    watch: Watch | None = None,
) -> Served:
    """Replay a trace on equal replicas; `course` is told what they hold as time goes on, `watch` how far it is."""
    times = Times(trace.arrivals)
    gauges = Gauges(course)
    fleet = [Replica(trace, rules, clock, times, gauges) for _ in range(replicas)]
    choose = router_of(trace, fleet, router)
    if trace.turns is not None:
        times.arrived = trace.arrivals[:]
        overloaded = _many(converse(trace.turns, times, fleet, choose, clock.front_end), trace)
        return summed(trace, fleet, times, gauges, clock, overloaded=overloaded)
    for index, arrival in enumerate(trace.arrivals):
        one = choose(index, arrival)
        one.advance(arrival, coming=True)
        one.push(index)
        if watch is not None and not index % _OFTEN:
            watch(index, len(trace))
    if watch is not None:
        watch(len(trace), len(trace))
    overloaded = left_over(trace, fleet)
    return summed(trace, fleet, times, gauges, clock, overloaded=overloaded)


def left_over(trace: Trace, fleet: Sequence[Replica]) -> bool:
    """Work to the end; whether more wait when the last request arrives than a rate that is carried leaves."""
    left = 0
    for one in fleet:
        one.advance(trace.arrivals[-1])
        left += len(one.waiting)
        one.advance()
    return _many(left, trace)


def _many(left: int, trace: Trace) -> bool:
    return left > max(_LEAST_LEFT, _LEFT_OVER * len(trace))


def router_of(trace: Trace, fleet: Sequence[Replica], router: Router) -> Callable[[int, float], Replica]:
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


def summed(
    trace: Trace, fleet: Sequence[Replica], times: Times, gauges: Gauges, clock: StepClock, *, overloaded: bool
) -> Served:
    done = array("q", (i for i in range(len(trace)) if not isnan(times.done[i])))
    front = clock.front_end
    arrivals, outputs = times.arrived, trace.outputs
    ttft = spread(times.first[i] - arrivals[i] + front for i in done)
    e2e = spread(times.done[i] - arrivals[i] + front for i in done)
    queue = spread(times.begun[i] - arrivals[i] for i in done)
    tpot = spread((times.done[i] - times.first[i]) / (outputs[i] - 1) for i in done if outputs[i] > 1)
    last = max((times.done[i] for i in done), default=arrivals[0])
    return Served(
        times,
        ttft=ttft,
        tpot=tpot,
        e2e=e2e,
        queue=queue,
        tokens=gauges.tokens.levels(),
        sequences=gauges.sequences.levels(),
        preemptions=sum(times.taken_off),
        preempted=sum(count > 0 for count in times.taken_off),
        refused=sum(one.refused for one in fleet),
        seconds=last - arrivals[0],
        output_tokens=sum(outputs[i] for i in done),
        found_tokens=sum(times.found),
        overloaded=overloaded,
        front_end=front,
        loaded=tuple(map(sum, zip(*(one.tiers.loaded for one in fleet), strict=True))),
        slower=sum(one.tiers.slower for one in fleet),
        loading_seconds=sum(one.tiers.seconds for one in fleet),
    )


def spread(values: Iterable[float]) -> Spread:
    """The mean and the percentiles, linear between two values as numpy's default is."""
    ordered = sorted(values)
    if not ordered:
        return Spread(*[float("nan")] * 5)
    last = len(ordered) - 1
    found = []
    for share in _QUANTILES:
        at = share / 100 * last
        low = int(at)
        high = min(low + 1, last)
        found.append(ordered[low] + (at - low) * (ordered[high] - ordered[low]))
    return Spread(sum(ordered) / len(ordered), *found)
