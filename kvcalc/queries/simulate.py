"""A trace on a deployment: the question of the verb `simulate`, and the replay that answers it."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING

from kvcalc.core.model import Attention, Model
from kvcalc.core.request import Request
from kvcalc.core.sizing import measure
from kvcalc.core.units import many, parse_size
from kvcalc.errors import KvcalcError
from kvcalc.jobs import Begun, Fewest, Workers, in_order
from kvcalc.queries.attainment import attained, binding_of
from kvcalc.queries.day import DayPlan, busiest, highest, parts_of
from kvcalc.queries.options import Workload, request_for
from kvcalc.queries.pools import check_pools, mean_handed, served_split, split_warnings, staging
from kvcalc.queries.requests import Requests, requests_of
from kvcalc.queries.sessions import evicted, session_facts
from kvcalc.queries.simulation import OpenLoop, SimulateAnswer, SimulateQuestion
from kvcalc.queries.source import load_model
from kvcalc.queries.tiers import found_in, levels_of, worth
from kvcalc.serving.day import Day, staffed
from kvcalc.serving.fleet import Served, Watch, serve
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.steps import StepClock
from kvcalc.traffic.course import Course
from kvcalc.traffic.occupancy import occupancy
from kvcalc.traffic.reuse import Reuse, reuse
from kvcalc.traffic.trace import Trace
from kvcalc.traffic.turns import arrivals_after, in_blocks, ordered

if TYPE_CHECKING:
    from kvcalc.queries.deployment import Deployment

__all__ = ["SimulateQuestion", "answer"]

_MOST_REPLICAS = 1024


def answer(
    question: SimulateQuestion,
    workers: Workers | None = None,
    *,
    requests: Requests | None = None,
    most: int = _MOST_REPLICAS,
    longest_wait: float | None = None,
    watch: Watch | None = None,
) -> SimulateAnswer:
    """Replay the requests; `workers` do what is independent. `requests` are those of the question where they are known
    already, `most` the replicas that are tried, and `longest_wait` the seconds that 19 of 20 requests may wait where
    the fewest replicas are asked for without a target. `watch` is told how many requests have come. Raises
    KvcalcError.
    """
    model = load_model(question.source)
    found = requests_of(question.traffic) if requests is None else requests
    trace, warnings = found.trace, [*found.warnings, *_above_limit(model, found.trace)]
    _check(question, trace)
    size = measure(_request(question, model, ceil(sum(trace.prompts) / len(trace))))
    curve = _curve(question, trace, size.bytes_per_token, workers)
    found_so_far = SimulateAnswer(
        question, model, trace, found.dropped, curve, size.bytes_per_token, warnings=tuple(warnings)
    )
    if question.open is not None:
        return _open(found_so_far, question.open)._replace(sessions=session_facts(trace))
    if question.memory.gpu is None and curve:
        return found_so_far
    from kvcalc.queries.deployment import deployment_of

    going = deployment_of(question, model, trace)
    trace = in_blocks(trace, going.scheduler.block)
    levels = levels_of(question.tiers, model, trace, size.bytes_per_token)
    scheduler, day = going.scheduler._replace(tiers=levels), None
    without = _without_tiers(question, trace, going, workers) if levels else None
    handover = None
    if question.pools is not None:
        replicas = question.pools.prefill + question.pools.decode
        served, handover = served_split(question, question.pools, trace, going)
        warnings += split_warnings(handover, staging(trace, going))
    elif question.day is None:
        replicas, served = _served(
            question, trace, going._replace(scheduler=scheduler), workers, most, longest_wait, watch
        )
    else:
        day, trace, served = _day(question, question.day, trace, scheduler, going.clock)
        replicas = day.peak
    facts = session_facts(trace, served, scheduler, replicas) if day is None else None
    warnings += [*going.warnings, *evicted(facts, scheduler)]
    if without is not None:
        warnings += worth(served, without(trace, 1 if day else replicas))
    if served.refused:
        warnings.append(f"{many(served.refused, 'request')} can never be held: longer than the pool of a replica")
    return found_so_far._replace(
        trace=trace,
        course=_course(question, trace, 1 if day else replicas, scheduler, going.clock),
        day=day,
        served=served,
        size=going.size,
        scheduler=going.scheduler,
        replicas=replicas,
        handover=handover,
        staging=staging(trace, going) if handover else 0,
        handed_bytes=mean_handed(trace, going) if handover else 0,
        tiers=found_in(question.tiers, levels, trace, served),
        attainment=None if question.targets is None else attained(question.targets, trace, served, going.clock),
        peak_bytes=round(served.tokens.peak * going.bytes_per_token),
        sessions=facts,
        binding=binding_of(served, going.scheduler),
        warnings=tuple(warnings),
    )


def _check(question: SimulateQuestion, trace: Trace) -> None:
    """Refuse what has no effect, or does not go together."""
    if question.prefix_cache and trace.prefixes is None:
        raise KvcalcError("--prefix-cache: the requests have no prefixes", "a trace with hash_ids has them")
    if question.open is not None or (question.memory.gpu is None and question.capacities):
        _refuse_deployment(question)
    if question.tiers and not question.prefix_cache:
        raise KvcalcError("--tier: has no effect without --prefix-cache", "add --prefix-cache")
    check_pools(question)
    if trace.turns is not None and (question.day is not None or question.pools is not None):
        name = question.day.option if question.day is not None else "--prefill"
        raise KvcalcError(f"{name}: turns that wait for their answers do not go with it here", "leave one out")


def _without_tiers(
    question: SimulateQuestion, trace: Trace, going: "Deployment", workers: Workers | None
) -> Callable[[Trace, int], Served]:
    """The same replay without tiers, at which workers begin at once where it is known."""
    if question.day is None and question.replicas != "auto":
        begun = Begun(workers, serve, trace, question.replicas, question.router, going.scheduler, going.clock)
        return lambda _trace, _replicas: begun.result()
    return lambda trace, replicas: serve(trace, replicas, question.router, going.scheduler, going.clock)


def _course(
    question: SimulateQuestion, trace: Trace, replicas: int, scheduler: Scheduler, clock: StepClock
) -> Course | None:
    """The same replay once more for a picture, so that nobody else waits for it."""
    if not question.drawn or question.pools is not None:
        return None
    course = Course()
    serve(trace, replicas, question.router, scheduler, clock, course)
    return course


def _refuse_deployment(question: SimulateQuestion) -> None:
    """What says how a replica runs is not passed over where none runs."""
    said: dict[str, object] = {
        **question.memory._asdict(),
        **question.split._asdict(),
        "engine": question.engine.name,
        **question.engine.run.stated,
        "replicas": None if question.replicas == 1 else question.replicas,
        "router": None if question.router == "round-robin" else question.router,
        "prefix_cache": question.prefix_cache if question.open is not None else None,
        "tier": question.tiers,
        question.day.option[2:] if question.day else "day": question.day,
        "prefill": question.pools,
        "percentile": question.targets,
    }
    targets = question.targets
    if targets is not None:
        said |= {"ttft": targets.ttft, "tpot": targets.tpot, "e2e": targets.e2e}
    for name in ("ttft", "tpot", "e2e", *said):
        if said.get(name):
            why = "no limit of memory is asked for" if question.open is not None else "no --gpu is named"
            raise KvcalcError(f"--{name.replace('_', '-')}: says how a replica runs, and {why}", "leave it out")


def _open(answer: SimulateAnswer, loop: OpenLoop) -> SimulateAnswer:
    """What the requests would hold without a limit, in tokens and in the model's own bytes."""
    question, model = answer.question, answer.model
    request = _request(question, model, 1)

    def held(tokens: int) -> int:
        return measure(request._replace(context=max(tokens, 1))).bytes_per_sequence

    spans = [cache.span for cache in model.distinct_caches if isinstance(cache, Attention) and cache.span]
    trace = answer.trace
    if trace.turns is not None:  # each token takes as long, so that the arrivals are known beforehand
        outputs = trace.outputs
        trace = ordered(replace(trace, arrivals=arrivals_after(trace, lambda i: outputs[i] * loop.step)))
        answer = answer._replace(trace=trace)
    course = Course() if question.drawn else None
    if course is not None:
        for arrival, prompt, generated in zip(trace.arrivals, trace.prompts, trace.outputs, strict=True):
            course.add(arrival, generated * loop.step, prompt, prompt + generated)
    found = occupancy(trace, loop.step, loop.block, held, spans)
    return answer._replace(open=found, course=course, peak_bytes=round(found.bytes.peak))


def _request(question: SimulateQuestion, model: Model, tokens: int) -> Request:
    return request_for(model, Workload(context=max(tokens, 1), batch=1), question.form, question.split)


def _above_limit(model: Model, trace: Trace) -> list[str]:
    limit = model.max_context
    if limit is None:
        return []
    above = sum(p + g > limit for p, g in zip(trace.prompts, trace.outputs, strict=True))
    share = 100 * above / len(trace)
    return (
        [f"{above:,} requests ({share:.1f} %) are longer than the model's limit of {limit:,} tokens"] if above else []
    )


def _curve(
    question: SimulateQuestion, trace: Trace, bytes_per_token: int, workers: Workers | None
) -> tuple[Reuse, ...]:
    """Hit rates at the capacities that are asked for, and without end."""
    if not question.capacities and not (question.prefix_cache and trace.prefixes is not None):
        return ()
    if trace.prefixes is None:
        raise KvcalcError("--capacity: the requests have no prefixes", "a trace with hash_ids has them")
    each = trace.prefixes.tokens
    tokens = [
        capacity if isinstance(capacity, int) else parse_size(capacity, "--capacity") // bytes_per_token
        for capacity in question.capacities
    ]
    return tuple(in_order(workers, reuse, [*((trace, capacity // each) for capacity in tokens), (trace, None)]))


def _served(
    question: SimulateQuestion,
    trace: Trace,
    going: "Deployment",
    workers: Workers | None,
    most: int,
    longest_wait: float | None,
    watch: Watch | None,
) -> tuple[int, Served]:
    """The replay, on so many replicas, or on the fewest that meet the targets."""
    router, scheduler, clock = question.router, going.scheduler, going.clock
    if router == "prefix" and trace.prefixes is None:
        raise KvcalcError("--router: prefix needs requests with prefixes", "a trace with hash_ids has them")
    watched = () if watch is None or workers is not None else (None, watch)  # who watches is no other process
    if question.replicas != "auto":
        return question.replicas, serve(trace, question.replicas, router, scheduler, clock, *watched)
    targets = question.targets
    if targets is None and longest_wait is None:
        raise KvcalcError("--replicas: auto needs a target", "add --ttft, --tpot or --e2e")

    def met(served: Served) -> bool:
        if served.overloaded or (longest_wait is not None and served.queue.p95 > longest_wait):
            return False
        return targets is None or not attained(targets, trace, served, clock).missed(targets.percentile)

    fewest = Fewest(workers, most)
    best = fewest.search(serve, lambda count: (trace, count, router, scheduler, clock, *watched), met)
    if best is None:
        raise KvcalcError(f"--replicas: no {most:,} replicas meet the targets", "a faster card, or slower targets")
    return best


def _day(
    question: SimulateQuestion, plan: DayPlan, trace: Trace, scheduler: Scheduler, clock: StepClock
) -> tuple[Day, Trace, Served]:
    """The replicas of a day, and one of them at the highest rate that it carries within the targets."""
    if question.replicas != 1 or question.router != "round-robin":
        name = "--replicas" if question.replicas != 1 else "--router"
        raise KvcalcError(f"{name}: contradicts {plan.option}, which finds the replicas of each hour", "leave it out")
    from kvcalc.sources.traces.day import read_day

    if plan.path is not None:
        parts = read_day(plan.path)
    else:
        assert plan.part is not None
        parts = parts_of(trace, plan.part)
        trace = busiest(trace, parts)

    def met(asked: Trace, served: Served) -> bool:
        return not served.overloaded and not (
            question.targets and attained(question.targets, asked, served, clock).missed(question.targets.percentile)
        )

    found = highest(plan.option, trace, lambda asked: serve(asked, 1, "round-robin", scheduler, clock), met)
    return staffed(parts, found.rate, plan.start_seconds), found.trace, found.served
