"""Which GPUs, how many, split how, with which cache: the question of the verb `plan`, and the search for its answer."""

from collections.abc import Callable
from functools import partial

from kvcalc.core.images import image_tokens
from kvcalc.core.memory import warnings as memory_warnings
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction, many
from kvcalc.errors import KvcalcError
from kvcalc.launch.beside import NAMES
from kvcalc.perf.demand import Found
from kvcalc.perf.workload import Length, Lengths, lengths
from kvcalc.planner.proposal import propose
from kvcalc.planner.question import Backend, ExactBackend, PlanQuestion
from kvcalc.planner.replica import replica_layouts
from kvcalc.planner.rows import PlanRow
from kvcalc.planner.search import Search
from kvcalc.queries.candidates import SLOWEST, candidates_of, check_number, order_of
from kvcalc.queries.company import neighbours
from kvcalc.queries.options import DEFAULT_UTILIZATION
from kvcalc.queries.plan_question import DeploymentQuestion, PlanAnswer
from kvcalc.queries.precisions import NamedEngine, PrecisionMaker, engine_named
from kvcalc.queries.source import load_model

__all__ = ["DeploymentQuestion", "PlanAnswer", "answer", "planned"]


def answer(question: DeploymentQuestion, tick: Callable[[int, int], None] | None = None) -> PlanAnswer:
    """Search for what is asked. `tick` is told how many of how many searches are done. Raises KvcalcError."""
    model = load_model(question.source)
    asked = _with_images(question, model)
    return planned(asked, model, _lengths(asked), tick)._replace(question=question)


def planned(
    question: DeploymentQuestion,
    model: Model,
    sizes: Lengths | None,
    tick: Callable[[int, int], None] | None = None,
    *,
    limit: int | None = None,
) -> PlanAnswer:
    """The same for lengths that are known, of which the longest request has up to `limit` tokens."""
    engine = engine_named(question.engine, model, question.run)
    wanted = _wanted(question, limit - 1 if limit else _context(model, question, sizes), sizes)
    if question.shared_prefix > wanted.context:
        raise KvcalcError(
            f"--shared-prefix: expected at most the {wanted.context:,} tokens of a sequence, "
            f"got {question.shared_prefix:,}"
        )
    maker = PrecisionMaker(model, wanted, engine, question.encoder_tokens)
    precisions = list(maker.every(question.kv_dtypes, question.weights))
    others = [] if question.trace else list(maker.smaller(question.kv_dtypes, question.weights, precisions[0]))
    candidates, note = candidates_of(question)
    check_number(question, candidates)
    backend = _backend(question, engine)
    widest = wanted.most_gpus if wanted.across else max(candidate.card.machine for candidate in candidates)
    _check_targets(wanted)
    most = max([wanted.most_gpus, *(candidate.fixed or 0 for candidate in candidates)])
    split = question.split
    pinned = Layout(split.tp or 0, split.pp or 0, 0, split.dcp or 0)
    found = propose(
        Search(wanted, backend),
        candidates,
        precisions,
        others,
        replica_layouts(model, most, widest, pinned, context_parallel=backend.context_parallel),
        order=order_of(question, candidates),
        tick=tick,
    )
    warnings = [*request_warnings(precisions[0].request._replace(context=wanted.allowed))]
    warnings += engine.warnings if engine else ()
    if found.best is not None:
        warnings += _row_warnings(found.best, backend, wanted)
        if question.run.enforce_eager and wanted.lengths is not None:
            warnings.append("--enforce-eager: times are those of captured graphs; without them tokens take longer")
    return PlanAnswer(
        question,
        model,
        found,
        engine,
        tuple(precisions),
        tuple(candidates),
        tuple(dict.fromkeys(warnings)),
        (note,) if note else (),
    )


def _with_images(question: DeploymentQuestion, model: Model) -> DeploymentQuestion:
    """The question with the tokens of its images in prompts and contexts."""
    images = question.images
    if images is None:
        return question
    tokens = images.number * image_tokens(model, *images.pixels)
    prompt, context = question.input, question.context
    if prompt is not None:
        prompt = Length(prompt.mean + tokens, None if prompt.p95 is None else prompt.p95 + tokens)
    if context is None and prompt is None:
        context = ask(model, encoder_tokens=question.encoder_tokens).context
    return question._replace(input=prompt, context=context + tokens if isinstance(context, int) else context)


def _backend(question: DeploymentQuestion, engine: NamedEngine | None) -> Backend:
    if engine is None:
        share = question.utilization or (Fraction(1, 1) if question.vram is not None else DEFAULT_UTILIZATION)
        return ExactBackend(share, question.shared_prefix)
    from kvcalc.planner.engine_fit import EngineBackend

    started = engine.started
    grows, limit, settings = question.overhead is None, started.engine.limit, engine.settings
    pinned = question.run.max_num_seqs
    if limit is not None and question.rate is None and pinned is None:  # no command of the answer allows more
        settings = {**settings, limit: question.users}
    return EngineBackend(
        started.engine, started.version, settings, question.utilization, question.shared_prefix, grows=grows,
        most=pinned,
    )  # fmt: skip


def _row_warnings(row: PlanRow, backend: Backend, wanted: PlanQuestion) -> list[str]:
    """What to know of the best row."""
    found = [*memory_warnings(row.fit.memory), *backend.replica_memory(row.config, row.card).warnings]
    low = row.max_sequences_low
    if low is not None and low < wanted.users:
        of = f"{low:,} of {many(wanted.users, 'sequence')} fit"
        found.append(f"if the overheads are the most that was seen, {of}: measure, or take more headroom")
    token = None if row.load is None else row.load.seconds_per_token
    if token is not None and token > SLOWEST and row.candidate.slowest is None and wanted.targets is None:
        found.append(f"a token takes some {1000 * token:.0f} ms, which readers find slow: --tpot sets a target")
    return found


def _lengths(question: DeploymentQuestion) -> Lengths | None:
    if question.input is None and question.output is None:
        if question.rate is not None:
            raise KvcalcError("--rate: needs the lengths of requests", "add --input and --output, such as --input 1155")
        return None
    if question.input is None or question.output is None:
        given, other = ("output", "input") if question.input is None else ("input", "output")
        raise KvcalcError(f"--{given}: needs --{other} beside it", f"add --{other} TOKENS")
    return lengths(question.input, question.output)


def _context(model: Model, question: DeploymentQuestion, sizes: Lengths | None) -> int:
    """The longest sequence: as given, or the 95th percentiles together (the last token is never written)."""
    if question.context is not None or sizes is None:
        context = ask(model, context=question.context, encoder_tokens=question.encoder_tokens).context
        if sizes is not None:
            _check_room(context, question)
        return context
    return max(1, _longest(question) - 1)


def _longest(question: DeploymentQuestion) -> int:
    """Tokens of prompt and answer: by the 95th percentiles together, or where a context is given by the means."""
    given = [each for each in (question.input, question.output) if each is not None]
    if question.context is not None:
        return round(sum(each.mean for each in given))
    return round(sum(each.p95 or each.mean for each in given))


def _check_room(context: int, question: DeploymentQuestion) -> None:
    """A context must have room for a request of the mean lengths, and for the 95th percentile of either."""
    least = _longest(question) - 1
    if context < least:
        raise KvcalcError(
            f"--context: {context:,} contradicts --input {question.input} and --output {question.output}, "
            f"which need {least:,} tokens",
            "leave --context out, or give a longer one",
        )
    for name, each in (("input", question.input), ("output", question.output)):
        if each is not None and each.p95 is not None and context < each.p95:
            raise KvcalcError(
                f"--context: {context:,} contradicts --{name} {each}, of which one in twenty is longer",
                "leave --context out, or give a longer one",
            )


def _wanted(question: DeploymentQuestion, context: int, sizes: Lengths | None) -> PlanQuestion:
    if question.overhead is not None:
        for name in NAMES:
            if name in question.overheads:
                raise KvcalcError(f"--{name}: contradicts --overhead, which stands for all of them", "leave one out")
    return PlanQuestion(
        context=context,
        limit=None if sizes is None else max(context, _longest(question) or context + 1),
        users=question.users,
        sequences=question.run.max_num_seqs,
        lengths=sizes,
        rate=question.rate,
        found=Found(share=question.prefix_hit, tokens=question.shared_prefix),
        targets=question.targets,
        pinned=question.split.tp is not None or question.split.pp is not None or question.every_count,
        most_gpus=question.max_gpus,
        dp=question.split.dp,
        across=question.across_machines,
        overhead=question.overhead,
        stated=question.overheads,
        company=partial(neighbours, question.source, lora=question.lora, beside=question.beside)
        if question.lora or question.beside
        else None,
    )


def _check_targets(wanted: PlanQuestion) -> None:
    """Targets are of requests, whose lengths say what they take."""
    if wanted.targets is not None and wanted.lengths is None:
        name = next(name for name in ("ttft", "tpot", "e2e") if getattr(wanted.targets, name) is not None)
        raise KvcalcError(f"--{name}: needs the lengths of requests", "add --input and --output, such as --input 1155")
