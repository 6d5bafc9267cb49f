"""A plan in words for people."""

from collections.abc import Iterator, Sequence
from itertools import compress

from kvcalc.core.card import MEMORY_SOURCES
from kvcalc.core.durations import format_seconds
from kvcalc.core.overheads import Overhead
from kvcalc.core.units import many
from kvcalc.errors import escape
from kvcalc.planner.proposal import Proposal
from kvcalc.planner.ranking import leading, price
from kvcalc.planner.reasons import Refused, nearest
from kvcalc.planner.rows import PlanRow
from kvcalc.queries.plan import PlanAnswer
from kvcalc.queries.starts import starts_of
from kvcalc.views.model import model_facts
from kvcalc.views.plan import cache_name, machine_types
from kvcalc.views.plan_trace import replayed_notes, replayed_table
from kvcalc.views.report import Bytes, Cell, Count, Part, Report, Section
from kvcalc.views.words import limited_by

__all__ = ["plan_report", "row_names"]

_MOST_REFUSED = 3  # JSON has all


def plan_report(answer: PlanAnswer) -> Report:
    """The best of each card first, then why, what would change it, and the best one's memory and commands."""
    proposal = answer.proposal
    best = proposal.best
    sections = [] if best is None else [_table(proposal, answer.question.top)]
    if best is not None and answer.simulated:
        sections = [replayed_table(answer, [(_name(row), split_words(row)) for row in proposal.rows])]
    if said := list(_said(proposal)):
        sections.append(Section("why", ("why", ""), said))
    bar: list[Part] = []
    if best is not None:
        memory, bar = _memory(best)
        sections += [memory, *_starts(best, answer)]
        if answer.question.machines:
            sections.append(_machines(leading(proposal.rows)[: answer.question.top]))
    return Report(
        sections,
        title=proposal.facts.name,
        facts=model_facts(proposal.facts),
        bar=bar,
        whole=0 if best is None else best.card.memory,
        verdict=_verdict(proposal),
        fits=best is not None,
        notes=[*_notes(proposal), *replayed_notes(answer), *answer.notes],
        warnings=list(answer.warnings),
    )


def split_words(row: PlanRow) -> str:
    """How a model is spread: `tp 4 x dp 2`."""
    sizes = [f"{name} {size}" for name, size in row.layout.sizes.items()]
    return " x ".join(sizes) or "one GPU"


def _name(row: PlanRow) -> str:
    return f"{row.gpus:,} x {row.card.name}" if row.card.name else many(row.gpus, "GPU")


def row_names(rows: Sequence[PlanRow]) -> list[str]:
    """Each row in a few words, with its formats where they differ."""
    formats = [(cache_name(row), row.config.precision.weights_name) for row in rows]
    several = [len({each[i] for each in formats}) > 1 for i in (0, 1)]
    found = []
    for row, named in zip(rows, formats, strict=True):
        words = [f"{name} {of}" for name, of in zip(named, ("cache", "weights"), strict=True)]
        found.append(", ".join([_name(row), split_words(row), *compress(words, several)]))
    return found


def _table(proposal: Proposal, top: int) -> Section:
    shown = leading(proposal.rows)[:top]
    formats = {(cache_name(row), row.config.precision.weights_name) for row in proposal.rows}
    several = [len({each[i] for each in formats}) > 1 for i in (0, 1)]
    heads = ["GPUs", "split"]
    heads += [head for head, named in zip(("cache", "weights"), several, strict=True) if named]
    heads += ["seqs", "range", "headroom", "limit"]
    heads += ["TPOT", "TTFT", "most req/s"] if any(row.load for row in shown) else ["context"]
    heads += ["an hour"] if any(row.card.price is not None for row in shown) else []
    rows: list[tuple[Cell, ...]] = []
    for row in shown:
        named = (cache_name(row), row.config.precision.weights_name)
        cells: list[Cell] = [_name(row), split_words(row)]
        cells += [name for name, wanted in zip(named, several, strict=True) if wanted]
        spread = (
            ""
            if row.max_sequences_low == row.max_sequences_high or row.max_sequences_low is None
            else f"{row.max_sequences_low:,}-{row.max_sequences_high:,}"
        )
        cells += [Count(row.max_sequences), spread, f"{100 * row.headroom:.0f} %", limited_by(row.binding)]
        if "TPOT" in heads:
            seconds = [None, None] if row.load is None else [row.load.seconds_per_token, row.load.ttft_seconds]
            cells += ["" if each is None else f"~{format_seconds(each)}" for each in seconds]
            cells.append("" if row.load is None else f"~{row.load.capacity * row.layout.dp:.3g}")
        else:
            cells.append(Count(row.fit.max_context))
        if "an hour" in heads:  # in whatever money the user's file has
            cells.append("" if row.card.price is None else f"{price(row):,.2f}")
        rows.append(tuple(cells))
    narrow = tuple(heads.index(head) for head in ("most req/s", "range", "limit", "TTFT", "headroom") if head in heads)
    return Section("plan", tuple(heads), rows, keys=True, drop=narrow)


def _machines(rows: list[PlanRow]) -> Section:
    """The machine types of each card, for one replica."""
    found = {_replica(row): ", ".join(machine_types(row)) or "no machine type of the catalogue" for row in rows}
    return Section("machine types", ("replica", "machine types"), list(found.items()))


def _replica(row: PlanRow) -> str:
    return f"{row.layout.tp * row.layout.pp} x {row.card.name}" if row.card.name else "no card is named"


def _said(proposal: Proposal) -> Iterator[tuple[Cell, ...]]:
    """Why there is no cheaper one, what other formats change, and which cards are out."""
    why = proposal.why_not
    if why is not None:
        yield f"not {_number(why)}", why.why
    for change in proposal.changes:
        what, _, effect = change.words.partition(": ")
        yield what, effect
    refused = sorted(proposal.refused, key=lambda each: (-each.max_sequences, each.card))
    for each in refused[:_MOST_REFUSED]:
        yield (
            f"not {_number(each)}",
            f"{each.why} (limited by {limited_by(each.binding)})" if each.binding not in each.why else each.why,
        )
    if len(refused) > _MOST_REFUSED:
        yield f"nor {many(len(refused) - _MOST_REFUSED, 'other card')}", "--json says why"


def _number(refused: Refused) -> str:
    return f"{refused.gpus:,} x {refused.card}" if refused.card else many(refused.gpus, "GPU")


def _memory(row: PlanRow) -> tuple[Section, list[Part]]:
    """Where one GPU's memory goes: each overhead with its range."""
    memory = row.fit.memory
    found = [(f"outside utilization {memory.utilization}", memory.outside or 0, "")] if memory.outside else []
    found.append(("weights", memory.weights or 0, ""))
    found += [(f"overhead: {line.name}", line.size.likely, _range(line)) for line in row.lines if line.inside]
    found += [("KV cache asked for", row.fit.kv_asked, ""), ("headroom", memory.kv_budget - row.fit.kv_asked, "")]
    found.append(("total", row.card.memory, ""))
    rows: list[tuple[Cell, ...]] = [(name, Bytes(amount), note) for name, amount, note in found]
    return Section("memory of one GPU", ("", "", ""), rows, exact=False), [
        Part(name, amount) for name, amount, _ in found
    ]


def _range(line: Overhead) -> str:
    low, _, high = line.size
    if low < high:
        return f"{low / 2**30:.2g} to {high / 2**30:.2g} GiB"
    return line.rule if line.rule == "as given" else "known"


def _starts(row: PlanRow, answer: PlanAnswer) -> Iterator[Section]:
    found = starts_of(answer)(row)
    rows: list[tuple[Cell, ...]] = [
        (
            f"{name} x {line.servers}" if line.servers > 1 and line.words else name,
            escape(line.words or f"none: {line.why}"),
        )
        for name, line in found.items()
        if line.words or line.why
    ]
    if rows:
        yield Section("start", ("start with", ""), rows)


def _verdict(proposal: Proposal) -> str:
    best, question = proposal.best, proposal.search.question
    if best is None:
        miss = nearest(proposal.refused)
        fixed = miss.gpus > question.most_gpus or all(each.fixed for each in proposal.refused)
        limit = "no plan" if fixed else f"no plan within {many(question.most_gpus, 'GPU')}"
        return f"{limit}: nearest is {_number(miss)}, limited by {limited_by(miss.binding)}: {miss.why}"
    words = f"plan: {_name(best)}, {split_words(best)}" if best.gpus > 1 else f"plan: {_name(best)}"
    words += "" if best.sure else "; tight: not with the most that overheads may take"
    if best.max_sequences_low is None or best.max_sequences_low == best.max_sequences_high:
        return words
    low, high = best.max_sequences_low, best.max_sequences_high
    return f"{words}; fits {low:,} to {high:,} sequences, depending on runtime overhead"


def _notes(proposal: Proposal) -> list[str]:
    question, best = proposal.search.question, proposal.best
    found = [] if best is None else ["seqs and context: the most concurrent sequences and tokens that fit"]
    if best is not None:
        found.append(f"weights: {best.config.precision.whole.source}")
        if best.card.name:
            found.append(f"memory of {best.card.label}: {MEMORY_SOURCES[best.card.memory_source]}")
        if any(line.size.low < line.size.high for line in best.lines):
            found.append("overheads are estimates, each with its observed range")
    slowest = None if best is None else best.candidate.slowest
    if slowest is not None and question.lengths is not None:
        found.append(f"no card was taken whose token takes more than {format_seconds(slowest)}, which --tpot changes")
    if question.lengths is not None:
        found.append(question.lengths.words)
        found.append(f"{question.lengths.context:,.0f} tokens of a sequence on average over its time")
        if best is not None and best.load is not None:
            found.append(f"attained: {best.load.clock.machine.words}; {best.load.doubt}")
    return found
