"""A plan as values for JSON, and each of its rows as a command."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kvcalc.commands.start import Start
from kvcalc.core.overheads import total
from kvcalc.perf.load import Load
from kvcalc.planner.proposal import Proposal
from kvcalc.planner.ranking import price
from kvcalc.planner.reasons import Refused
from kvcalc.planner.search import PlanRow
from kvcalc.views.document import Value, model_values, opening

__all__ = ["Asked", "Line", "cache_name", "command", "plan_document", "rows", "start_of"]


class Line(NamedTuple):
    """The command of one of `servers` equal servers of an engine; or none, and `why` where that is worth a word."""

    words: str | None
    servers: int = 1
    why: str | None = None


class Asked(NamedTuple):
    """What the words of an answer need beside the proposal. `model` is MODEL as it was typed; `options` those words of
    the command line that size a row again as well; `starts` writes the commands of engines, each with a reason where
    there is none.
    """

    model: str
    hub_id: str
    options: tuple[str, ...]
    request: Mapping[str, Value]
    starts: Callable[[PlanRow, Start], Mapping[str, "Line"]]
    engine: str | None = None
    version: str | None = None
    utilization: bool = False
    shared_prefix: int = 0
    top: int = 10
    notes: tuple[str, ...] = ()


def plan_document(proposal: Proposal, asked: Asked, warnings: Sequence[str]) -> dict[str, Value]:
    """The document of `plan`: every row that no other of the same card and formats beats."""
    options: list[Value] = [_option(row, proposal, asked) for row in proposal.rows]
    facts = proposal.facts
    return {
        **opening("plan", model_values(facts), dict(asked.request), warnings),
        "best": options[0] if options else None,
        "options": options,
        "why_not": None if proposal.why_not is None else _refused(proposal.why_not),
        "refused": [_refused(each) for each in proposal.refused],
        "changes": [
            {
                "option": change.option,
                "kv_dtype": change.precision.request.widths.k.name,
                "weights_dtype": change.precision.weights_name,
                "gpu": None if change.best is None else change.best.card.name or None,
                "gpus": None if change.best is None else change.best.gpus,
                "max_batch": None if change.best is None else change.best.max_sequences,
                "words": change.words,
            }
            for change in proposal.changes
        ],
    }


def rows(document: Mapping[str, Value]) -> list[Mapping[str, Value]]:
    """The options, as CSV has them."""
    options = document["options"]
    assert isinstance(options, list)
    return [option for option in options if isinstance(option, dict)]


def _option(row: PlanRow, proposal: Proposal, asked: Asked) -> dict[str, Value]:
    memory, size = row.fit.memory, total(row.lines)
    flags = asked.starts(row, start_of(row, proposal, asked))
    return {
        "gpu": row.card.name or None,
        "gpus": row.gpus,
        "tp": row.layout.tp,
        "pp": row.layout.pp,
        "dp": row.layout.dp,
        "dcp": row.layout.dcp,
        "kv_dtype": cache_name(row),
        "weights_dtype": row.config.precision.weights_name or None,
        "users": row.request.batch,
        "max_batch": row.max_sequences,
        "max_batch_low": row.max_sequences_low,
        "max_batch_high": row.max_sequences_high,
        "max_context": row.fit.max_context,
        "capacity_tokens": row.fit.capacity_tokens,
        "headroom": round(row.headroom, 4),
        "binding": row.binding,
        "vram_bytes_per_gpu": memory.vram,
        "memory_source": row.card.memory_source if row.card.name else "given",
        "utilization": None if memory.utilization is None else memory.utilization.part / memory.utilization.of,
        "weights_bytes_per_gpu": memory.weights,
        "overhead_bytes_per_gpu": size.likely,
        "kv_budget_bytes_per_gpu": memory.kv_budget,
        "kv_bytes_per_gpu": row.fit.kv_asked,
        "overheads": [
            {
                "name": line.name,
                "bytes": line.size.likely,
                "bytes_low": line.size.low,
                "bytes_high": line.size.high,
                "rule": line.rule,
                "source": line.source,
            }
            for line in row.lines
        ],
        "load": None if row.load is None else _load(row.load),
        "price_per_hour": None if row.card.price is None else price(row),
        "command": command(row, asked),
        "engine_flags": {name: line.words for name, line in flags.items()},
        "engine_lacks": {name: line.why for name, line in flags.items() if line.why is not None},
        "servers": {name: line.servers for name, line in flags.items() if line.words is not None},
    }


def _load(load: Load) -> dict[str, Value]:
    """One replica at work."""
    return {
        "requests_per_second": load.rate,
        "requests_per_second_at_full_pool": load.capacity,
        "concurrency": load.concurrency,
        "seconds_per_token": load.seconds_per_token,
        "prefill_load": load.prefill_load,
        "prefill_seconds": load.prefill_seconds,
        "wait_seconds": load.wait_seconds,
        "context": load.context,
        "mean_tokens": load.mean_tokens,
        "p99_tokens": load.p99_tokens,
        "mean_share": load.mean_share,
        "p99_share": load.p99_share,
        "attained": {
            "bandwidth": load.attained.bandwidth,
            "compute": load.attained.compute,
            "fixed_seconds": load.attained.fixed_seconds,
        },
    }


def _refused(refused: Refused) -> dict[str, Value]:
    return {
        "gpu": refused.card or None,
        "gpus": refused.gpus,
        "max_batch": refused.memory,
        "binding": refused.binding,
        "why": refused.why,
    }


def cache_name(row: PlanRow) -> str:
    """The format of the cache. A card without bf16 computes in fp16, which is as large."""
    precision, widths = row.config.precision, row.request.widths
    if precision.packed:
        return precision.packed
    return "fp16" if widths.k.name == "bf16" and not row.card.bf16 else widths.k.name


def command(row: PlanRow, asked: Asked) -> str | None:
    """The command that sizes this row again; a prefix that is shared has no option there."""
    if asked.shared_prefix:
        return None
    memory, layout = row.fit.memory, row.layout
    share = "" if memory.utilization is None else f"{memory.utilization.part / memory.utilization.of:.12g}"
    gpu = ["--gpu", row.card.name] if row.card.name else ["--vram", f"{row.card.memory}B"]
    words = ["kvcalc", asked.model, "-c", str(row.request.context), "-b", str(row.request.batch), *gpu]
    words += [word for name, size in layout._asdict().items() if size > 1 for word in (f"--{name}", str(size))]
    precision = row.config.precision
    words += ["--kv-dtype", precision.kv] if precision.kv != "auto" else []
    if precision.weights != "auto":
        weights = precision.weights if isinstance(precision.weights, int | str) else precision.weights.name
        words += ["--weights", f"{weights}B" if isinstance(weights, int) else weights]
    words += ["--utilization", share] if asked.utilization or (not row.card.name and share != "1") else []
    words += ["--overhead", f"{total(row.lines).likely}B"] if total(row.lines).likely else []
    return shlex.join([*words, *asked.options])


def start_of(row: PlanRow, proposal: Proposal, asked: Asked) -> Start:
    precision, question = row.config.precision, proposal.search.question
    sequences = row.request.sequences_per_replica
    if question.rate is not None and row.max_sequences is not None:  # as many as come together at times, not on average
        sequences = row.max_sequences // row.layout.dp
    # What an engine takes by itself may depend on the rest of its command.
    share = row.fit.memory.utilization if asked.engine or asked.utilization else None
    return Start(
        asked.hub_id,
        question.context,
        sequences,
        row.layout,
        precision.packed or (None if precision.kv == "auto" else precision.kv),
        None if isinstance(precision.weights, int | str) else precision.weights.name,
        share,
        row.card if row.card.name else None,
        asked.version,
    )
