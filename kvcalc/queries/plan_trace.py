"""A plan for the requests of a trace: their own rate, lengths and prefixes, and its first rows judged by a replay."""

from collections.abc import Callable, Sequence
from math import ceil
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvcalc.core.units import many
from kvcalc.errors import KvcalcError
from kvcalc.jobs import Workers
from kvcalc.perf.load import Margins
from kvcalc.perf.workload import sampled
from kvcalc.planner.ranking import leading, rank
from kvcalc.planner.reasons import Binding, Refused
from kvcalc.planner.rows import Deployment, PlanRow
from kvcalc.queries import simulate
from kvcalc.queries.options import CacheFormat, EngineChoice, Memory, NamedGpu, Split
from kvcalc.queries.plan import planned
from kvcalc.queries.plan_question import DeploymentQuestion, Mix, PlanAnswer, Spread
from kvcalc.queries.requests import Requests, requests_of
from kvcalc.queries.simulation import SimulateAnswer, SimulateQuestion
from kvcalc.queries.source import load_model
from kvcalc.traffic.reuse import reuse
from kvcalc.traffic.trace import Trace

if TYPE_CHECKING:
    from kvcalc.planner.ranking import Order

__all__ = ["answer", "command_of"]

# What a trace says itself, or a replay has no rule for, with what takes its place.
_CONTRADICTED = {
    "context": "whose longest request counts",
    "input": "which has the lengths",
    "output": "which has the lengths",
    "rate": "which has the times",
    "shared_prefix": "whose prefixes count where it has them",
    "prefix_hit": "whose prefixes count where it has them",
    "images": "whose prompts have them",
    "encoder_tokens": "and the other side of an encoder is not replayed",
    "vram": "since a size says nothing of how fast a step goes",
    "overheads": "and --overhead stands for all of them in a replay",
}


_BINDINGS: dict[str, Binding] = {"kv": "kv", "engine": "engine", "compute": "compute"}
_MOST_TRIES = 3  # rows for each that is shown
_LESS = 0.1  # of the rate: ways that the closed form finds for so much are tried after those for all of it
_WAIT = Margins().wait_seconds  # that one request in 20 may wait where nothing is promised, as in every plan


class _Met(NamedTuple):
    """A row whose replay met what is asked, on as many replicas as that takes."""

    deployment: Deployment
    replay: SimulateAnswer


def answer(
    question: DeploymentQuestion, tick: Callable[[int, int], None] | None = None, workers: Workers | None = None
) -> PlanAnswer:
    """The rows of a plan, fewest GPUs first as in every plan, each replayed until so many have met what is asked.

    The closed form of a plan says which ways to try, and the replay on how many replicas: the fewest that meet the
    targets, or where there are none, with which 19 of 20 requests wait no longer than in every plan.
    Raises KvcalcError.
    """
    assert question.trace is not None
    _refuse(question)
    model, found = load_model(question.source), requests_of(question.trace)
    mix = _mix_of(found.trace)
    longest = max(p + g for p, g in zip(found.trace.prompts, found.trace.outputs, strict=True))
    limit = min(longest, model.max_context or longest)
    words = f"lengths and prefixes of the trace's {many(mix.requests, 'request')}, {mix.rate:.3g} a second"
    sizes = sampled(zip(found.trace.prompts, found.trace.outputs, strict=True), words)
    asked = question._replace(rate=mix.rate, prefix_hit=mix.token_hit_rate or 0.0, sort=_order(question))

    def planned_at(share: float) -> PlanAnswer:
        plan = planned(asked._replace(rate=share * mix.rate), model, sizes, tick, limit=limit)
        return plan._replace(question=question, mix=mix)

    plan = planned_at(1)
    tried = _Tried(plan, found, workers)
    tried.go_through(plan.proposal.rows)
    if len(tried.met) < question.top:  # what the closed form refuses for its margins the replay may carry
        tried.go_through(planned_at(_LESS).proposal.rows)
    met = {id(each.deployment): each.replay for each in tried.met}
    ordered = rank((each.deployment for each in tried.met), order=_order(question))
    if question.sort == "tpot":
        ordered.sort(key=lambda each: _tpot(met[id(each)]))
    simulated = tuple(met[id(each)] for each in ordered)
    names = {each.card.name for each in ordered} | {each.card for each in tried.refused}
    refused = [*tried.refused, *(each for each in plan.proposal.refused if each.card not in names)]
    rows = [plan.proposal.search.row(each) for each in ordered]
    proposal = plan.proposal._replace(rows=rows, refused=refused, why_not=None, changes=[])
    said = [*plan.warnings, *(simulated[0].warnings if simulated else found.warnings)]
    left = f"{many(tried.left, 'other way')} that may do were not replayed: --top N"
    notes = (*plan.notes, *([left] if tried.left else []))
    return plan._replace(proposal=proposal, warnings=tuple(dict.fromkeys(said)), notes=notes, simulated=simulated)


def _order(question: DeploymentQuestion) -> "Order":
    return "price" if question.sort == "price" else "rank"


def _refuse(question: DeploymentQuestion) -> None:
    for name, why in _CONTRADICTED.items():
        if getattr(question, name):
            option = "rate" if name == "rate" else next(iter(question.overheads)) if name == "overheads" else name
            raise KvcalcError(f"--{option.replace('_', '-')}: contradicts --trace, {why}", "leave it out")
    if question.users != 1:
        raise KvcalcError("--users: contradicts --trace, whose requests come by themselves", "leave it out")
    if question.sort == "rate":
        raise KvcalcError("--sort: rate is that of the trace for all rows", "tpot, rank or price")


def _mix_of(trace: Trace) -> Mix:
    """What a trace asks for as a whole. Raises KvcalcError where its requests have no rate."""
    seconds = trace.arrivals[-1] - trace.arrivals[0]
    if len(trace) < 2 or seconds <= 0:
        raise KvcalcError("--trace: the requests all arrive at once, so that they have no rate", "times, in a column")
    hits = None if trace.prefixes is None else reuse(trace, None).token_hit_rate
    return Mix(len(trace), seconds, (len(trace) - 1) / seconds, _spread(trace.prompts), _spread(trace.outputs), hits)


def _spread(lengths: Sequence[int]) -> Spread:
    """The mean, and the least lengths that so many of 1,000 do not exceed."""
    ordered = sorted(lengths)
    p95, p999 = (ordered[ceil(share * len(ordered)) - 1] for share in (0.95, 0.999))
    return Spread(sum(ordered) / len(ordered), p95, p999)


def _tpot(replay: SimulateAnswer) -> float:
    assert replay.served is not None
    return replay.served.tpot.mean


class _Tried:
    """Rows that were replayed: those that met what is asked, and those that did not."""

    def __init__(self, plan: PlanAnswer, found: Requests, workers: Workers | None) -> None:
        self._plan, self._found, self._workers = plan, found, workers
        self._seen: set[tuple[object, ...]] = set()
        self.met: list[_Met] = []
        self.refused: list[Refused] = []
        self.left = 0

    def go_through(self, rows: Sequence[PlanRow]) -> None:
        """In their order, the best of each card first, until as many as are shown have met what is asked."""
        top = self._plan.question.top
        for row in leading(rows):
            precision, way = row.config.precision, row.layout._replace(dp=1)
            key = row.card.name, row.candidate.fixed, way, precision.kv, precision.weights_name
            if key in self._seen:
                continue
            if len(self.met) >= top or len(self._seen) >= _MOST_TRIES * top:
                self.left += 1
                continue
            self._seen.add(key)
            self._try(row)

    def _try(self, row: PlanRow) -> None:
        plan = self._plan
        try:
            replay = _replayed(plan, row, self._found, self._workers)
        except KvcalcError as error:
            why = error.message.partition(": ")[2] or error.message
            self.refused.append(_refused(row, row.layout.dp, why))
            return
        if (missed := _missed(replay)) is not None:
            self.refused.append(_refused(row, replay.replicas, missed, replay))
            return
        deployment = plan.proposal.search.deployment(row.candidate, row.config, replay.replicas, sure=row.sure)
        self.met.append(_Met(deployment, replay))


def _replayed(plan: PlanAnswer, row: PlanRow, found: Requests, workers: Workers | None) -> SimulateAnswer:
    """A row on the fewest replicas that meet what is asked, or on those that are fixed."""
    question, ranks = plan.question, row.layout.tp * row.layout.pp
    fixed = question.split.dp or (row.candidate.fixed and row.candidate.fixed // ranks)
    asked = _replay_of(plan, row, fixed or "auto")
    most = max(1, question.max_gpus // ranks)
    return simulate.answer(asked, workers, requests=found, most=most, longest_wait=_longest_wait(question))


def _longest_wait(question: DeploymentQuestion) -> float | None:
    return _WAIT if question.targets is None else None


def _replay_of(plan: PlanAnswer, row: PlanRow, replicas: int | Literal["auto"]) -> SimulateQuestion:
    """The question of `simulate` that has a row's replicas."""
    question, precision, layout = plan.question, row.config.precision, row.layout
    assert question.trace is not None
    return SimulateQuestion(
        source=question.source._replace(model=plan.model),
        traffic=question.trace,
        form=CacheFormat(None if precision.kv == "auto" else precision.packed or precision.kv),
        split=Split(
            tp=layout.tp, pp=layout.pp, dcp=layout.dcp, ep=layout.ep if layout.ep > 1 else None,
            dp_attention=layout.sharing > 1 or None,
        ),
        memory=Memory(
            gpu=NamedGpu(row.card.name, None, row.card), utilization=question.utilization,
            weights=None if precision.weights == "auto" else precision.weights, overhead=question.overhead,
            lora=question.lora, beside=question.beside,
        ),
        engine=EngineChoice(question.engine, run=question.run),
        replicas=replicas,
        prefix_cache=plan.mix is not None and plan.mix.token_hit_rate is not None,
        targets=question.targets,
    )  # fmt: skip


def _missed(replay: SimulateAnswer) -> str | None:
    """What a replay missed, in words; None where it met all that is asked."""
    served, targets = replay.served, replay.question.targets
    assert served is not None
    if served.overloaded:
        return "the queue grows from the first request to the last"
    if targets is None:
        late = served.queue.p95 > _WAIT
        return f"1 request in 20 waits longer than {_WAIT:g} s" if late else None
    shares = {} if replay.attainment is None else replay.attainment._asdict()
    missed = ", ".join(f"{name.upper()} for {100 * shares[name]:.1f} %" for name in replay.missed)
    return f"meets {missed} of the requests, below {targets.percentile:g} %" if missed else None


def _refused(row: PlanRow, replicas: int, why: str, replay: SimulateAnswer | None = None) -> Refused:
    gpus = row.layout.tp * row.layout.pp * replicas
    binding = _BINDINGS.get((replay and replay.binding) or "", "latency")
    return Refused(row.card.name, row.card.label, gpus, row.max_sequences or 0, binding, f"replayed: {why}")


def command_of(plan: PlanAnswer, row: PlanRow, replay: SimulateAnswer) -> str:
    """The command that replays a row again."""
    import shlex

    question, precision, targets = plan.question, row.config.precision, plan.question.targets
    assert question.trace is not None
    words = ["kvcalc", "simulate", question.source.text, question.trace.path or "", "--gpu", row.card.name]
    sizes = row.layout._replace(dp=1).sizes
    options: list[tuple[str, object]] = [
        *((name, size) for name, size in sizes.items() if size > 1),
        ("replicas", replay.replicas),
        ("time-unit", question.trace.unit),
        ("rate-scale", None if question.trace.rate_scale == 1 else f"{question.trace.rate_scale:.12g}"),
        ("kv-dtype", replay.question.form.kv_dtype),
        ("engine", question.engine),
        ("gpu-file", question.gpu_file),
        ("overhead", None if question.overhead is None else f"{question.overhead}B"),
        ("lora", None if question.lora is None else f"{question.lora.number}:{question.lora.rank}"),
        *(("beside", name) for name in question.beside),
    ]
    if precision.weights != "auto":
        weights = precision.weights if isinstance(precision.weights, int | str) else precision.weights.name
        options.append(("weights", f"{weights}B" if isinstance(weights, int) else weights))
    if question.utilization is not None:
        options.append(("utilization", f"{question.utilization.part / question.utilization.of:.12g}"))
    if targets is not None:
        stated = {"ttft": targets.ttft, "tpot": targets.tpot, "e2e": targets.e2e}
        options += [(name, f"{seconds:.12g}s") for name, seconds in stated.items() if seconds is not None]
        options.append(("percentile", f"p{targets.percentile:g}"))
    words += [word for name, value in options if value is not None for word in (f"--{name}", str(value))]
    for name, value in question.run.stated.items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    words += ["--dp-attention"] * (row.layout.sharing > 1) + ["--prefix-cache"] * replay.question.prefix_cache
    return shlex.join([*words, *(["--assume-dense"] if question.source.assume_dense else [])])
