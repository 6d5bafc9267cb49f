"""A simulation as charts: how many requests are as fast as that, and what a prefix cache of each size finds."""

from collections.abc import Iterator, Sequence

from kvcalc.core.units import many
from kvcalc.errors import KvcalcError
from kvcalc.perf.latency import Targets
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.serving.fleet import Served
from kvcalc.traffic.course import Course
from kvcalc.views.chart import Axis, Chart, Limit, Lines, Point, Series

__all__ = ["request_rows", "simulate_charts"]

_POINTS = 100  # of a curve over requests: one for each per cent


def simulate_charts(answer: SimulateAnswer, option: str) -> list[Chart]:
    """The share of requests over their times, with targets as lines; the hit rate over the capacity. Raises KvcalcError
    naming the `option` where there is neither.
    """
    charts: list[Chart] = []
    if answer.served is not None:
        charts.append(_times(answer, answer.served))
    if answer.course is not None:
        charts += _over_time(answer, answer.course)
    sized = [each for each in answer.curve if each.capacity]
    if answer.trace.prefixes is not None and sized:
        tokens = answer.trace.prefixes.tokens
        points = tuple(
            Point((each.capacity or 0) * tokens, 100 * each.token_hit_rate)
            for each in sorted(sized, key=lambda each: each.capacity or 0)
        )
        ceiling = Limit("without end", 100 * answer.curve[-1].token_hit_rate)
        axes = Axis("capacity", "tokens", "log2"), Axis("prompt tokens found, %")
        charts.append(
            Lines("What a prefix cache finds", answer.model.name, *axes, (Series("LRU", points),), (ceiling,))
        )
    if not charts:
        raise KvcalcError(f"{option}: nothing here is a curve", "add --gpu NAME, or --capacity")
    return charts


def _over_time(answer: SimulateAnswer, course: Course) -> list[Chart]:
    """Tokens that are held, against the pool where there is one, and requests that wait."""
    replicas, scheduler = 1 if answer.day is not None else max(1, answer.replicas), answer.scheduler
    points = course.points(replicas)
    about = f"{answer.model.name}, {many(len(answer.trace), 'request')}"
    held = Series("held", tuple(Point(time, tokens) for time, tokens, _ in points))
    time = Axis("time", "s")
    if scheduler is None:
        return [Lines("Tokens that are held", about, time, Axis("tokens"), (held,))]
    pool = Limit("pool", scheduler.block * scheduler.blocks)
    waiting = Series("waiting", tuple(Point(time, count) for time, _, count in points))
    several = "" if replicas == 1 else f", mean of {replicas} replicas"
    return [
        Lines("Tokens in the pool of a replica", about + several, time, Axis("tokens"), (held,), (pool,)),
        Lines("Requests that wait", about, time, Axis("requests"), (waiting,)),
    ]


def _times(answer: SimulateAnswer, served: Served) -> Lines:
    times, trace, targets = served.times, answer.trace, answer.question.targets or Targets()
    front = served.front_end
    done = [i for i in range(len(trace)) if times.done[i] == times.done[i]]  # not NaN
    each = {
        "in the queue": [times.begun[i] - times.arrived[i] for i in done],
        "TTFT": [times.first[i] - times.arrived[i] + front for i in done],
        "TPOT": [(times.done[i] - times.first[i]) / (trace.outputs[i] - 1) for i in done if trace.outputs[i] > 1],
        "end to end": [times.done[i] - times.arrived[i] + front for i in done],
    }
    named = (("--ttft", targets.ttft), ("--tpot", targets.tpot), ("--e2e", targets.e2e))
    limits = tuple(Limit(name, at, upright=True) for name, at in named if at is not None)
    series = tuple(Series(name, _shares(values)) for name, values in each.items() if values)
    about = f"{answer.model.name}, {many(len(trace), 'request')}, {many(answer.replicas, 'replica')}"
    axes = Axis("time", "s", "log10"), Axis("requests that are as fast, %")
    return Lines("Times of requests", about, *axes, series, limits)


def _shares(values: Sequence[float]) -> tuple[Point, ...]:
    """The share of the values up to each, from a millisecond on."""
    ordered = sorted(max(value, 1e-3) for value in values)
    last = len(ordered) - 1
    return tuple(Point(ordered[round(share / _POINTS * last)], share) for share in range(_POINTS + 1))


def request_rows(answer: SimulateAnswer) -> Iterator[tuple[object, ...]]:
    """A row for each request, behind a row of names: times in seconds, nothing where a request was refused."""
    yield (
        "request", "arrival_seconds", "input_tokens", "output_tokens", "found_tokens", "preemptions", "queue_seconds",
        "ttft_seconds", "tpot_seconds", "e2e_seconds",
    )  # fmt: skip
    assert answer.served is not None
    times, trace, front = answer.served.times, answer.trace, answer.served.front_end
    for i, arrival in enumerate(times.arrived):
        row = (i + 1, round(arrival, 6), trace.prompts[i], trace.outputs[i], times.found[i], times.taken_off[i])
        if times.done[i] != times.done[i]:  # NaN
            yield (*row, "", "", "", "")
            continue
        steps = trace.outputs[i] - 1
        seconds = (
            times.begun[i] - arrival,
            times.first[i] - arrival + front,
            (times.done[i] - times.first[i]) / steps if steps else None,
            times.done[i] - arrival + front,
        )
        yield (*row, *("" if value is None else round(value, 6) for value in seconds))
