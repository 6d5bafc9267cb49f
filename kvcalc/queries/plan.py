"""Which GPUs, how many, split how, with which cache: the question of the verb `plan`, and the search for its answer."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Literal, NamedTuple

from kvcalc.core.card import Card
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
from kvcalc.planner.proposal import Proposal, propose
from kvcalc.planner.question import Backend, Candidate, ExactBackend, PlanQuestion, Precision
from kvcalc.planner.replica import replica_layouts
from kvcalc.planner.rows import PlanRow
from kvcalc.planner.search import Search
from kvcalc.queries.options import DEFAULT_UTILIZATION, NamedGpu, Split
from kvcalc.queries.precisions import NamedEngine, PrecisionMaker, engine_named
from kvcalc.queries.source import Source, load_model

__all__ = ["DeploymentQuestion", "PlanAnswer", "answer"]

# What can be rented by the hour at most clouds; every other card has to be named.
_USUAL = ("l4", "l40s", "a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")


class DeploymentQuestion(NamedTuple):
    """What is to be served, and what may be taken for it.

    Attributes:
        source: The model.
        context: Tokens of the longest sequence, or `max`. Default: by the lengths, else 4,096 or the limit if less.
        users: Sequences at the same time, over all replicas.
        input: Tokens of a prompt; None where sequences count with their full length.
        output: Tokens that are generated.
        rate: Requests a second; needs the lengths.
        shared_prefix: Tokens that all sequences begin with, held once in each replica.
        encoder_tokens: Tokens on the encoder's side.
        kv_dtypes: Formats of the cache to choose from, by their names.
        weights: Formats of the weights to choose from, or their size, as words.
        engine: `NAME[@VERSION]`, whose sizes count; None for the exact size.
        gpus: Cards to choose from; None for the usual ones of clouds.
        gpu_file: A file of cards that the asker has beside the shipped ones.
        max_gpus: The most GPUs in all.
        vram: Bytes of one GPU, where no card is named.
        utilization: The fraction of the memory that is used. Default: the engine's own, else 0.9, with `vram` 1.
        split: What of the split is fixed; `dp` fixes the number of replicas.
        across_machines: tp may span machines.
        overhead: Bytes on each GPU beside weights and cache, instead of the estimates.
        overheads: The same for single ones, by their names in `launch.beside`.
        sort: The order of rows.
        top: Rows of the table.
    """

    source: Source
    context: int | Literal["max"] | None = None
    users: int = 1
    input: Length | None = None
    output: Length | None = None
    rate: float | None = None
    shared_prefix: int = 0
    encoder_tokens: int | None = None
    kv_dtypes: Sequence[str] = ("auto",)
    weights: Sequence[str] = ("auto",)
    engine: str | None = None
    gpus: Sequence[NamedGpu] | None = None
    gpu_file: str | None = None
    max_gpus: int = 64
    vram: int | None = None
    utilization: Fraction | None = None
    split: Split = Split()
    across_machines: bool = False
    overhead: int | None = None
    overheads: Mapping[str, int] = {}
    sort: Literal["rank", "price"] = "rank"
    top: int = 10


class PlanAnswer(NamedTuple):
    """The answer.

    Attributes:
        question: What was asked.
        model: The model.
        proposal: The rows in order, why cheaper ones fail, and what other formats would change.
        engine: The engine that was named.
        precisions: The formats that were asked for.
        candidates: The cards that were chosen from.
        warnings: What the asker should know, one sentence each.
        notes: How the answer was found, one sentence each.
    """

    question: DeploymentQuestion
    model: Model
    proposal: Proposal
    engine: NamedEngine | None
    precisions: tuple[Precision, ...]
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def best(self) -> PlanRow | None:
        """The first row; None where there is no plan."""
        return self.proposal.best


def answer(question: DeploymentQuestion, tick: Callable[[int, int], None] | None = None) -> PlanAnswer:
    """Search for what is asked. `tick` is told how many of how many searches are done. Raises KvcalcError."""
    model = load_model(question.source)
    engine = engine_named(question.engine, model)
    sizes = _lengths(question)
    wanted = _wanted(question, _context(model, question, sizes), sizes)
    if question.shared_prefix > wanted.context:
        raise KvcalcError(
            f"--shared-prefix: expected at most the {wanted.context:,} tokens of a sequence, "
            f"got {question.shared_prefix:,}"
        )
    maker = PrecisionMaker(model, wanted, engine, question.encoder_tokens)
    precisions = list(maker.every(question.kv_dtypes, question.weights))
    others = list(maker.smaller(question.kv_dtypes, question.weights, precisions[0]))
    candidates, note = _candidates(question)
    _check_number(question, candidates)
    backend = _backend(question, engine)
    widest = wanted.most_gpus if wanted.across else max(candidate.card.machine for candidate in candidates)
    most = max([wanted.most_gpus, *(candidate.fixed or 0 for candidate in candidates)])
    split = question.split
    pinned = Layout(split.tp or 0, split.pp or 0, 0, split.dcp or 0)
    found = propose(
        Search(wanted, backend),
        candidates,
        precisions,
        others,
        replica_layouts(model, most, widest, pinned, context_parallel=backend.context_parallel),
        by_price=_by_price(question, candidates),
        tick=tick,
    )
    warnings = [*request_warnings(precisions[0].request._replace(context=wanted.allowed))]
    warnings += engine.warnings if engine else ()
    if found.best is not None:
        warnings += _row_warnings(found.best, backend, wanted)
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


def _backend(question: DeploymentQuestion, engine: NamedEngine | None) -> Backend:
    if engine is None:
        share = question.utilization or (Fraction(1, 1) if question.vram is not None else DEFAULT_UTILIZATION)
        return ExactBackend(share, question.shared_prefix)
    from kvcalc.planner.engine_fit import EngineBackend

    started = engine.started
    grows = question.overhead is None
    return EngineBackend(
        started.engine, started.version, engine.settings, question.utilization, question.shared_prefix, grows=grows
    )


def _row_warnings(row: PlanRow, backend: Backend, wanted: PlanQuestion) -> list[str]:
    """What to know of the best row."""
    found = [*memory_warnings(row.fit.memory), *backend.replica_memory(row.config, row.card).warnings]
    low = row.max_sequences_low
    if low is not None and low < wanted.users:
        of = f"{low:,} of {many(wanted.users, 'sequence')} fit"
        found.append(f"if the overheads are the most that was seen, {of}: measure, or take more headroom")
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
        limit=None if sizes is None else max(context, _longest(question)),
        users=question.users,
        lengths=sizes,
        rate=question.rate,
        found=Found(tokens=question.shared_prefix),
        most_gpus=question.max_gpus,
        dp=question.split.dp,
        across=question.across_machines,
        overhead=question.overhead,
        stated=question.overheads,
    )


def _candidates(question: DeploymentQuestion) -> tuple[list[Candidate], str]:
    """The cards to choose from, and a note where nobody named one."""
    from kvcalc.cards.names import all_cards

    if question.vram is not None:
        if question.gpus is not None or question.gpu_file is not None:
            option = "--gpu-file" if question.gpus is None else "--gpu"
            raise KvcalcError(f"{option}: contradicts --vram, since it says how much memory there is", "leave one out")
        return [Candidate(Card("", "such GPUs", question.vram))], ""
    if question.gpus is not None:
        return [Candidate(gpu.card, gpu.number) for gpu in question.gpus], ""
    cards = all_cards(question.gpu_file)
    priced = [card for card in cards if card.price is not None]
    chosen = priced or [card for card in cards if card.name in _USUAL]
    names = ", ".join(card.name for card in chosen)
    return [Candidate(card) for card in chosen], f"chosen from {names}; --gpu all takes every card"


def _check_number(question: DeploymentQuestion, candidates: Sequence[Candidate]) -> None:
    """Some number of GPUs that may be taken must be one that the split, as far as it is fixed, comes to."""
    split = question.split
    sizes = {"tp": split.tp, "pp": split.pp, "dp": split.dp}
    fixed = {name: size for name, size in sizes.items() if size is not None}
    least = prod(fixed.values())

    def possible(number: int | None) -> bool:
        if number is None:
            return least <= question.max_gpus
        return number == least if len(fixed) == len(sizes) else number % least == 0

    if any(possible(candidate.fixed) for candidate in candidates):
        return
    number, words = candidates[0].fixed, " x ".join(f"--{name} {size}" for name, size in fixed.items())
    option, most = ("--max-gpus", question.max_gpus) if number is None else ("--gpu", number)
    raise KvcalcError(f"{option}: {most:,} contradicts {words}", "leave one of them out, or let them agree")


def _by_price(question: DeploymentQuestion, candidates: Sequence[Candidate]) -> bool:
    if question.sort == "price" and all(candidate.card.price is None for candidate in candidates):
        raise KvcalcError("--sort: no price is known, since none is shipped", "your own GPU file may carry prices")
    return question.sort == "price"
