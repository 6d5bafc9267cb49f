"""What replays a trace: the scheduler, the pool and the clock of one replica, by the engine's own rules."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError
from kvcalc.perf.clock import clock_of
from kvcalc.perf.flops import Flops, Term
from kvcalc.perf.pace import pace_of
from kvcalc.perf.reads import cache_reads
from kvcalc.queries.options import EngineChoice, Workload
from kvcalc.queries.simulation import SimulateQuestion
from kvcalc.queries.size import SizeAnswer, SizeQuestion
from kvcalc.queries.size import answer as size_answer
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.steps import StepClock
from kvcalc.traffic.trace import Trace

__all__ = ["Deployment", "deployment_of"]


class Deployment(NamedTuple):
    """One replica: what schedules it, how fast it goes, what its memory is, and the bytes of a token in its pool."""

    scheduler: Scheduler
    clock: StepClock
    size: SizeAnswer
    bytes_per_token: float
    warnings: tuple[str, ...]


def deployment_of(question: SimulateQuestion, model: Model, trace: Trace) -> Deployment:
    """The deployment that a question names. Raises KvcalcError where there is no card, or no rule of the engine."""
    gpu = question.memory.gpu
    if gpu is None:
        raise KvcalcError(
            "--gpu: expected a GPU, which says how fast a step goes and what the pool holds",
            "or --step 30ms --unlimited for what requests would hold without one",
        )
    if question.memory.draft is not None:
        raise KvcalcError(
            "--draft: how many drafted tokens are right is not known, and so is how fast it goes", "leave it out"
        )
    if (question.split.dp or 1) > 1:
        raise KvcalcError("--dp: replicas of a fleet are --replicas here", "leave it out")
    sized = _sized(question, model, trace)
    reservation, fit, budget = sized.reservation, sized.fit, sized.budget
    assert reservation is not None
    engine, asked = reservation.engine, reservation.question
    if engine.scheduler is None:
        raise KvcalcError(
            f"--engine: how {engine.name} schedules requests is not known here", "vllm, sglang or tensorrt-llm"
        )
    block = reservation.allocation.values.get("block_size")
    if fit is None or budget is None or not isinstance(block, int) or not fit.capacity_tokens:
        why = "" if fit is None else ": its weights leave no room for the cache"
        raise KvcalcError(f"--gpu: no request fits{why}", "more GPUs (--tp), or one with more memory")
    limits = engine.scheduler(asked, gpu.card.memory)
    scheduler = Scheduler(limits, block, fit.capacity_tokens // block, question.prefix_cache)
    weights = fit.memory.whole_weights or 0
    stored = budget.weights if not isinstance(budget.weights, int | str) else model.weights_dtype or model.dtype
    layout = sized.size.request.layout
    pace = pace_of(engine.name, asked.version.name, dense=not model.active_parameters)
    clock = clock_of(gpu.card, layout, model, weights, stored.name, pace=pace)
    terms = cache_reads(sized.size.request, layout)
    steps = StepClock(clock, partial(_read, terms, layout.pp), partial(_attention, clock.demand.flops))
    pool = fit.memory.free * layout.gpus / fit.capacity_tokens
    warnings = (*sized.warnings, *clock.doubt.causes)
    if limits.by_piece and max(trace.prompts) > limits.tokens:
        said = f"{engine.name} {asked.version.name} admits a prompt when its first {limits.tokens:,} tokens fit"
        warnings += (f"{said}: where the pool is short it takes off more than this replay, for which all must fit",)
    return Deployment(scheduler, steps, sized, pool, warnings)


def _read(terms: Sequence[Term], pp: int, tokens: float) -> float:
    """Bytes of the cache that one stage reads for a new token; no closure, so that a clock goes to other processes."""
    return sum(term.each * term.seen.at(int(tokens)) for term in terms) / pp


def _attention(flops: Flops, tokens: float) -> float:
    return flops.token(int(tokens)) - flops.linear


def _sized(question: SimulateQuestion, model: Model, trace: Trace) -> SizeAnswer:
    """The memory split and the pool of one replica, as the size verb has them for sequences of the mean length."""
    held = sum(p + g // 2 for p, g in zip(trace.prompts, trace.outputs, strict=True))
    return size_answer(
        SizeQuestion(
            question.source._replace(model=model),
            Workload(context=max(ceil_div(held, len(trace)), 1), batch=1),
            question.form,
            question.split,
            question.memory,
            _choice(question),
        )
    )


def _choice(question: SimulateQuestion) -> EngineChoice:
    """The engine that is asked, or the usual one of the card."""
    choice, gpu = question.engine, question.memory.gpu
    if choice.name is None:
        from kvcalc.launch.beside import usual_engine

        assert gpu is not None
        choice = choice._replace(name=usual_engine(gpu.card).name)
    return choice
