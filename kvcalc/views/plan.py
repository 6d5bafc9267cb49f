"""A plan as values for JSON, and each of its rows as a command."""

from typing import TYPE_CHECKING

from kvcalc.core.overheads import total
from kvcalc.perf.latency import Targets
from kvcalc.perf.load import Load
from kvcalc.planner.ranking import price
from kvcalc.planner.reasons import Refused
from kvcalc.planner.rows import PlanRow
from kvcalc.queries.plan import PlanAnswer
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.queries.starts import Starts, command, starts_of
from kvcalc.version import __version__
from kvcalc.views.model import model_values
from kvcalc.views.plan_trace import mix_values, replayed_values
from kvcalc.views.size import overhead_lines

if TYPE_CHECKING:
    from kvcalc.views.types.plan import PlanDocument, PlanOption, PlanRequest, RefusedGpus, ReplicaLoad, TokenCost

__all__ = ["cache_name", "machine_types", "plan_document", "rows"]


def plan_document(answer: PlanAnswer) -> "PlanDocument":
    """The document of `plan`: every row that no other of the same card and formats beats."""
    proposal, starts = answer.proposal, starts_of(answer)
    options = [_option(row, answer, starts) for row in proposal.rows]
    for option, row, replay in zip(options, proposal.rows, answer.simulated, strict=False):
        _replay(option, answer, row, replay)
    facts = proposal.facts
    return {
        "schema": "kvcalc.plan/1",
        "kvcalc_version": __version__,
        "model": model_values(facts),
        "request": _request(answer),
        "warnings": list(answer.warnings),
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


def rows(document: "PlanDocument") -> "list[PlanOption]":
    """The options, as CSV has them."""
    return document["options"]


def _request(answer: PlanAnswer) -> "PlanRequest":
    """Every input and default in force."""
    question, wanted, engine = answer.question, answer.proposal.search.question, answer.engine
    candidates, split = answer.candidates, question.split
    return {
        "context": wanted.context,
        "users": wanted.users,
        "input": None if question.input is None else str(question.input),
        "output": None if question.output is None else str(question.output),
        "rate": wanted.rate,
        "shared_prefix": question.shared_prefix,
        "encoder_tokens": answer.precisions[0].request.encoder_tokens,
        "images": None if question.images is None else str(question.images),
        "gpus": [f"{each.fixed}x{each.card.name}" if each.fixed else each.card.name or None for each in candidates],
        "max_gpus": wanted.most_gpus,
        "vram_bytes": candidates[0].card.memory if not candidates[0].card.name else None,
        "utilization": None if question.utilization is None else str(question.utilization),
        "lora": None if question.lora is None else f"{question.lora.number}:{question.lora.rank}",
        "beside": list(question.beside),
        "kv_dtype": list(dict.fromkeys(precision.kv for precision in answer.precisions)),
        "weights": list(question.weights),
        "engine": engine.started.engine.name if engine else None,
        "engine_version": engine.started.version.name if engine else None,
        "max_num_seqs": question.run.max_num_seqs,
        "max_num_batched_tokens": question.run.max_num_batched_tokens,
        "enforce_eager": question.run.enforce_eager,
        "language_model_only": question.run.language_model_only,
        "tp": split.tp,
        "pp": split.pp,
        "dp": split.dp,
        "dcp": split.dcp,
        "across_machines": wanted.across,
        "overhead_bytes": wanted.overhead,
        "prefix_hit": question.prefix_hit,
        "ttft_seconds": None if question.targets is None else question.targets.ttft,
        "tpot_seconds": None if question.targets is None else question.targets.tpot,
        "e2e_seconds": None if question.targets is None else question.targets.e2e,
        "percentile": Targets().percentile if question.targets is None else question.targets.percentile,
        "count": "any" if question.every_count else "machine",
        "sort": question.sort,
        "trace": None if answer.mix is None else mix_values(answer),
    }


def _replay(option: "PlanOption", answer: PlanAnswer, row: PlanRow, replay: SimulateAnswer) -> None:
    """The times of a row are those of its replay, within the range of the clock."""
    from kvcalc.queries.plan_trace import command_of

    assert row.load is not None
    option["replayed"] = found = replayed_values(replay, command_of(answer, row, replay))
    option["requests_per_second"] = found["requests_per_second"]
    around = row.load.doubt.around
    tpot, ttft = around(found["tpot_seconds"]["mean"]), around(found["ttft_seconds"]["mean"])
    option["tpot_seconds_low"], option["tpot_seconds"], option["tpot_seconds_high"] = tpot
    option["ttft_seconds_low"], option["ttft_seconds"], option["ttft_seconds_high"] = ttft


def _option(row: PlanRow, answer: PlanAnswer, starts: Starts) -> "PlanOption":
    memory, size, load = row.fit.memory, total(row.lines), row.load
    flags = starts(row)
    tpot, ttft, prefill = (None, None, None) if load is None else (load.tpot, load.ttft, load.prefill)
    return {
        "gpu": row.card.name or None,
        "gpus": row.gpus,
        "tp": row.layout.tp,
        "pp": row.layout.pp,
        "dp": row.layout.dp,
        "dcp": row.layout.dcp,
        "ep": row.layout.ep,
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
        "overheads": overhead_lines(row.lines),
        "tight": not row.sure,
        "machines": list(machine_types(row)),
        "load": None if load is None else _load(load),
        "tpot_seconds": tpot and tpot.likely,
        "tpot_seconds_low": tpot and tpot.low,
        "tpot_seconds_high": tpot and tpot.high,
        "ttft_seconds": ttft and ttft.likely,
        "ttft_seconds_low": ttft and ttft.low,
        "ttft_seconds_high": ttft and ttft.high,
        "prefill_seconds": prefill and prefill.likely,
        "prefill_seconds_low": prefill and prefill.low,
        "prefill_seconds_high": prefill and prefill.high,
        "requests_per_second": None if load is None else load.rate * row.layout.dp,
        "max_requests_per_second": None if load is None else load.capacity * row.layout.dp,
        "replayed": None,
        "price_per_hour": None if row.card.price is None else price(row),
        "cost_per_million_tokens": _cost(row, answer),
        "command": command(answer, row),
        "engine_flags": {name: line.words for name, line in flags.items()},
        "engine_lacks": {name: line.why for name, line in flags.items() if line.why is not None},
        "servers": {name: line.servers for name, line in flags.items() if line.words is not None},
    }


def machine_types(row: PlanRow) -> tuple[str, ...]:
    """The machine types that have the cards of one replica, or the largest where it takes several of them."""
    from kvcalc.cards.shipped import rented

    types = rented().get(row.card.name, {})
    gpus = row.layout.tp * row.layout.pp
    return types.get(gpus) or (types[max(types)] if types and gpus > max(types) else ())


def _cost(row: PlanRow, answer: PlanAnswer) -> "TokenCost | None":
    """What a million tokens cost at the rate of the row."""
    lengths = answer.proposal.search.question.lengths
    if row.card.price is None or row.load is None or lengths is None or not row.load.rate:
        return None
    requests = 3600 * row.load.rate * row.layout.dp
    each = 1e6 * price(row) / requests
    return {"input": each / lengths.prompt, "output": each / lengths.generated}


def _load(load: Load) -> "ReplicaLoad":
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
            "bandwidth": load.clock.machine.bandwidth_share,
            "compute": load.clock.machine.compute_share,
            "fixed_seconds": load.clock.fixed,
        },
    }


def _refused(refused: Refused) -> "RefusedGpus":
    return {
        "gpu": refused.card or None,
        "gpus": refused.gpus,
        "max_batch": refused.max_sequences,
        "binding": refused.binding,
        "why": refused.why,
    }


def cache_name(row: PlanRow) -> str:
    """The format of the cache. A card without bf16 computes in fp16, which is as large."""
    precision, widths = row.config.precision, row.request.widths
    if precision.packed:
        return precision.packed
    auto = row.config.precision.kv == "auto"
    return "fp16" if auto and widths.k.name == "bf16" and not row.card.bf16 else widths.k.name
