"""Why a plan is as it is: why the next cheaper one fails, why a card is out, and what other formats would change."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kvcalc.core.overheads import total
from kvcalc.core.units import format_bytes, many
from kvcalc.errors import KvcalcError
from kvcalc.planner.question import Candidate, ParallelConfig, Precision, unsupported
from kvcalc.planner.ranking import simplicity
from kvcalc.planner.rows import Deployment, PlanRow
from kvcalc.planner.search import Search

__all__ = ["Binding", "Change", "Refused", "changed", "fewer", "nearest", "refuse"]

Binding = Literal["weights", "overhead", "kv", "model", "engine", "compute", "bandwidth", "latency", "dtype", "unknown"]


class Refused(NamedTuple):
    """A number of a card that does not do: the most sequences that it would hold, and what binds."""

    card: str
    label: str
    gpus: int
    max_sequences: int
    binding: Binding
    why: str
    fixed: bool = False  # the number was


class Change(NamedTuple):
    """What other formats would come to; `best` is None where they help nothing."""

    option: str
    precision: Precision
    best: PlanRow | None
    words: str


class _Miss(NamedTuple):
    """One way that falls short: the sequences that it holds, and the bytes that are missing for one."""

    max_sequences: int
    free: int
    config: ParallelConfig
    gpus: int


def refuse(search: Search, candidate: Candidate, configs: Sequence[ParallelConfig], most: int) -> Refused:
    """Why no more than `most` of a card do: the way that comes nearest, and what binds it."""
    card = candidate.card
    precision = configs[0].precision if configs else None

    def refused(gpus: int, sequences: int, binding: Binding, why: str) -> Refused:
        return Refused(card.name, card.label, gpus, sequences, binding, why, candidate.fixed is not None)

    if precision is not None and (lacking := unsupported(card, precision, search.backend)):
        return refused(most, 0, "dtype", lacking)
    misses = [miss for config in configs if (miss := _miss(search, candidate, config, most)) is not None]
    if not misses:
        known = search.trouble.get((card.name, precision.kv, precision.weights_name)) if precision else None
        return refused(most, 0, "engine" if known else "model", known or "no way to split the model has so many GPUs")
    enough = [miss for miss in misses if miss.max_sequences >= search.question.users]
    best = _quickest(search, candidate, enough) or max(
        misses,
        key=lambda miss: (
            miss.max_sequences,
            miss.free,
            -miss.gpus,
            *(-size for size in simplicity(miss.config.layout)),
        ),
    )
    sequences, binding, why = _short(search, candidate, best)
    if not search.question.pinned and candidate.fixed is None and candidate.counts and len(candidate.counts) < most:
        some = ", ".join(map(str, candidate.counts[:-1]))
        why += (
            f" (a machine has {some} or {candidate.counts[-1]})" if some else f" (a machine has {candidate.counts[0]})"
        )
    return refused(best.gpus, sequences, binding, why)


def _quickest(search: Search, candidate: Candidate, misses: Sequence[_Miss]) -> _Miss | None:
    """Of ways that hold the users, the one that comes nearest to a target that none meets; None without one."""
    if search.question.rate is not None or search.question.lengths is None:
        return None
    found: list[tuple[float, int, _Miss]] = []
    for i, miss in enumerate(misses):
        try:
            missed = search.times.missed(candidate, miss.config, miss.free, miss.gpus // miss.config.ranks)
        except KvcalcError:
            return None
        if missed is not None:
            found.append((missed.excess, i, miss))
    return min(found)[2] if found else None


def _miss(search: Search, candidate: Candidate, config: ParallelConfig, most: int) -> _Miss | None:
    dp = search.question.dp or most // config.ranks
    if dp < 1 or dp * config.ranks > most or not search.spans(candidate, config):
        return None
    if candidate.fixed and dp * config.ranks != candidate.fixed == most:
        return None
    try:
        free = search.free(candidate.card, config)
        return _Miss(search.max_sequences(candidate.card, config, free) * dp, free, config, dp * config.ranks)
    except KvcalcError:
        return None


def _short(search: Search, candidate: Candidate, miss: _Miss) -> tuple[int, Binding, str]:
    """Sequences that are held, what binds, and the sentence."""
    card, question, config = candidate.card, search.question, miss.config
    usable = search.backend.share(config, card).floor(card.memory)
    split = _split(config)
    weights = f"weights take {format_bytes(config.weights)} of {format_bytes(usable)}{split}"
    if miss.free <= 0:
        lines = total(search.lines(card, config)).likely
        if config.weights >= usable:
            return 0, "weights", weights
        return 0, "overhead" if lines > config.weights else "weights", f"{weights}, and the rest {format_bytes(lines)}"
    if not miss.max_sequences:
        one = search.backend.replica_memory(config, card).needed(1, question.allowed)
        return 0, "kv", (f"{weights}, one sequence needs {format_bytes(one)} and finds {format_bytes(miss.free)}")
    if miss.max_sequences < question.users:
        return miss.max_sequences, "kv", f"{weights}, {miss.max_sequences:,} of {many(question.users, 'sequence')} fit"
    if question.lengths is not None:
        try:
            if (slow := _slow(search, candidate, miss)) is not None:
                return miss.max_sequences, slow[0], f"{slow[1]}{split}"
        except KvcalcError as error:  # a rate of the card that is not published
            return miss.max_sequences, "unknown", error.message.removeprefix("--gpu: ")
    return miss.max_sequences, "unknown", weights


def _slow(search: Search, candidate: Candidate, miss: _Miss) -> tuple[Binding, str] | None:
    """What gives out as requests come, or the target that the users miss."""
    question, config = search.question, miss.config
    if question.rate is None:
        missed = search.times.missed(candidate, config, miss.free, miss.gpus // config.ranks)
        return None if missed is None else ("latency", str(missed))
    rate = question.rate * config.ranks / miss.gpus
    load = search.times.load(candidate.card, config, miss.free, rate=rate, slowest=candidate.slowest)
    return None if load.binding is None else (load.binding, load.reason or "")


def _split(config: ParallelConfig) -> str:
    sizes = [f"{name} {size}" for name, size in zip(("tp", "pp"), config.layout[:2], strict=True) if size > 1]
    return f" at {' x '.join(sizes)}" if sizes else ""


def fewer(search: Search, row: PlanRow, configs: Sequence[ParallelConfig]) -> Refused | None:
    """Why one GPU less than in a row does not do; None where there is no such."""
    if row.gpus == 1 or row.candidate.fixed:
        return None
    return refuse(search, row.candidate, configs, row.gpus - 1)


def nearest(refusals: Sequence[Refused]) -> Refused:
    """What comes nearest to what is asked."""
    return max(refusals, key=lambda each: (each.max_sequences, -each.gpus, each.card))


def changed(
    search: Search, option: str, precision: Precision, before: PlanRow | None, found: Sequence[Deployment]
) -> Change:
    """What other formats change: on the same card where it is possible there, else on the best."""
    what = f"{precision.kv} cache" if option == "--kv-dtype" else f"{precision.weights_name} weights"
    same = [one for one in found if before is not None and one.candidate == before.candidate]
    candidates = same or found
    best = search.row(candidates[0]) if candidates else None
    if best is None:
        effect = "no plan either" if before is None else f"none of these has {precision.kv if 'kv' in option else what}"
    elif before is None:
        effect = f"{_number(best)} would do"
    else:
        effect = _difference(before, best, same=bool(same))
    return Change(option, precision, best, f"{what}: {effect}")


def _number(row: PlanRow) -> str:
    return f"{row.gpus:,} x {row.card.name}" if row.card.name else many(row.gpus, "GPU")


def _difference(before: PlanRow, after: PlanRow, *, same: bool) -> str:
    saved = before.gpus - after.gpus
    if saved > 0:
        return f"{many(saved, 'GPU')} less: {_number(after)}"
    if not same:
        return f"not with {before.card.name}, and no fewer GPUs with others"
    if saved < 0:
        return f"{many(-saved, 'GPU')} more: {_number(after)}"
    if before.max_sequences is None or after.max_sequences is None:
        return "as many GPUs"
    return f"as many GPUs, {after.max_sequences:,} sequences instead of {before.max_sequences:,}"
