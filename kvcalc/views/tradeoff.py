"""What a cache buys, as values for JSON and as words for people."""

from typing import TYPE_CHECKING

from kvcalc.core.kinds import attention_class
from kvcalc.core.model import Recurrent
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import Size
from kvcalc.core.units import Units, format_bytes, format_count, many
from kvcalc.perf.clock import Clock
from kvcalc.perf.reads import cache_reads
from kvcalc.perf.tradeoff import Comparison, Pair, Prefix, Times
from kvcalc.queries.tradeoff import PromptPool, TradeoffAnswer
from kvcalc.version import __version__
from kvcalc.views.chart import amount
from kvcalc.views.model import model_values
from kvcalc.views.report import Cell, Report, Section

if TYPE_CHECKING:
    from kvcalc.views.types.tradeoff import (
        MachineRates,
        MemoryValues,
        PairValues,
        PrefixValues,
        SecondsValues,
        TradeoffDocument,
        TradeoffRequest,
    )

__all__ = ["answer_facts", "tradeoff_document", "tradeoff_report"]

_NO_RATES: "MachineRates" = {
    "weights_bytes": None,
    "weights_bytes_of_one_token": None,
    "bandwidth_bytes_per_second": None,
    "flops_per_second": None,
    "bandwidth_share": None,
    "compute_share": None,
    "fixed_seconds": None,
}


def tradeoff_document(answer: TradeoffAnswer) -> "TradeoffDocument":
    """The document of `tradeoff`. FLOPs are those of one sequence, seconds those of the whole batch."""
    found, size = answer.comparison, answer.size
    seconds = None if found.times is None or found.clock is None else _seconds(found.times, found.clock, size)
    return {
        "schema": "kvcalc.tradeoff/1",
        "kvcalc_version": __version__,
        "model": model_values(found.request.facts),
        "request": _asked(answer),
        "warnings": list(answer.warnings),
        "flops": {
            "parameters": found.flops.parameters,
            "per_token_outside_attention": found.flops.linear,
            "token": _pair(found.token),
            "generation": _pair(found.generation),
            "attention_is_upper_bound": found.flops.dense,
            "attention_per_cache_byte": _intensity(found),
        },
        "kv": {
            "bytes_per_token": size.bytes_per_token,
            "bytes_per_sequence": size.bytes_per_sequence,
            "bytes_total": size.bytes_total,
            "bytes_total_per_gpu": size.bytes_per_gpu,
        },
        "memory": _memory(answer),
        "seconds": seconds,
        "prefix": None if found.prefix is None else _prefix(found.prefix, answer),
    }


def _asked(answer: TradeoffAnswer) -> "TradeoffRequest":
    found, request = answer.comparison, answer.comparison.request
    return {
        "context": request.context,
        "input": found.prompt,
        "output": found.output,
        "batch": request.batch,
        "k_dtype": request.widths.k.name,
        "v_dtype": request.widths.v.name,
        "kv_heads": request.kv_heads,
        "encoder_tokens": request.encoder_tokens,
        "tp": request.layout.tp,
        "gpu": None if answer.card is None else answer.card.name,
        **(_NO_RATES if found.clock is None else _rates(found.clock)),
    }


def _rates(clock: Clock) -> "MachineRates":
    machine = clock.machine
    return {
        "weights_bytes": clock.demand.held,
        "weights_bytes_of_one_token": round(clock.demand.read(1)),
        "bandwidth_bytes_per_second": round(machine.peak_bandwidth * machine.gpus),
        "flops_per_second": round(machine.peak_matrices * machine.gpus),
        "bandwidth_share": machine.bandwidth_share,
        "compute_share": machine.compute_share,
        "fixed_seconds": clock.fixed,
    }


def _memory(answer: TradeoffAnswer) -> "MemoryValues | None":
    memory = answer.memory
    if memory is None or memory.utilization is None:
        return None
    return {
        "vram_bytes_per_gpu": memory.vram,
        "utilization": memory.utilization.part / memory.utilization.of,
        "weights_bytes_per_gpu": memory.weights,
        "kv_budget_bytes_per_gpu": memory.kv_budget,
        "fits": answer.fits,
    }


def _pair(pair: Pair) -> "PairValues":
    return {"with_cache": pair.with_cache, "without_cache": pair.without_cache, "ratio": pair.ratio}


def _seconds(times: Times, clock: Clock, size: Size) -> "SecondsValues":
    per_token = size.bytes_per_token
    return {
        "token": _pair(times.token),
        "generation": _pair(times.generation),
        "ridge_tokens": times.ridge,
        "saves_time": times.saves,
        "tokens_whose_cache_equals_weights": clock.demand.held // per_token if per_token else None,
    }


def _prefix(prefix: Prefix, answer: TradeoffAnswer) -> "PrefixValues":
    return {
        "tokens": prefix.tokens,
        "bytes": prefix.bytes,
        "recompute_seconds": prefix.recompute,
        "recompute_seconds_per_token": prefix.recompute / prefix.tokens,
        "break_even_bytes_per_second": prefix.break_even,
        "links": [
            {
                "name": link.name,
                "bytes_per_second": link.bytes_per_second,
                "load_seconds": seconds,
                "load_is_faster": seconds < prefix.recompute,
            }
            for link, seconds in prefix.loaded
        ],
        "gpu_prompts": None if answer.pool is None else answer.pool.prompts,
        "gpu_tokens": None if answer.pool is None else answer.pool.tokens,
        "tiers": [
            {
                "name": kept.tier.name,
                "bytes": kept.tier.size,
                "bytes_per_second": kept.tier.rate,
                "prompts": kept.prompts,
                "tokens": kept.tokens,
                "load_seconds": kept.load,
                "pays_from_hit_rate": kept.pays_from,
            }
            for kept in answer.tiers
        ],
    }


def _intensity(found: Comparison) -> float | None:
    """FLOPs of attention for each byte of the cache that one new token reads: the same at any batch."""
    read = sum(term.each * term.seen.at(found.last) for term in cache_reads(found.request, Layout()))
    return (found.flops.token(found.last) - found.flops.linear) / read if read else None


def tradeoff_report(answer: TradeoffAnswer, units: Units) -> Report:
    """A small table, what it means for this model, and a prompt's cache loaded or computed again."""
    found = answer.comparison
    return Report(
        [
            _costs(answer, units),
            *([] if found.prefix is None else [_links(found.prefix, units)]),
            *([] if answer.pool is None else [_tiers(answer, answer.pool, units)]),
        ],
        title=found.request.facts.name,
        facts=answer_facts(answer),
        verdict=_verdict(answer, units),
        notes=_notes(answer, units),
        warnings=answer.warnings,
    )


def answer_facts(answer: TradeoffAnswer) -> list[str]:
    found, request = answer.comparison, answer.comparison.request
    k, v, tp = request.widths.k.name, request.widths.v.name, request.layout.tp
    facts = [f"{many(found.prompt, 'token')} of prompt and {found.output:,} new", many(request.batch, "sequence")]
    if any(not isinstance(cache, Recurrent) for cache in request.model.distinct_caches):
        facts.append(f"K and V in {k}" if k == v else f"K in {k}, V in {v}")
    if answer.card is not None:
        facts.append(f"{tp} x {answer.card.label}" if tp > 1 else answer.card.label)
    return facts


def _costs(answer: TradeoffAnswer, units: Units) -> Section:
    found, times, batch = answer.comparison, answer.comparison.times, answer.comparison.request.batch
    every = "" if batch == 1 else f", batch {batch:,}"
    token, text = f"token {found.last + 1:,}", f"whole text of {found.last + 1:,}"
    rows: list[tuple[Cell, ...]] = [
        (f"compute: {name}", *(amount(each, "FLOP", units) for each in pair), _times(pair.ratio))
        for name, pair in ((token, found.token), (text, found.generation))
    ]
    if times is not None:
        rows += [
            (f"time: {name}{every}", *map(_time, pair), _times(pair.ratio) if times.saves else "below the ridge")
            for name, pair in ((token, times.token), (text, times.generation))
        ]
    rows.append((f"memory{every}", format_bytes(answer.size.bytes_total, units), "none", ""))
    return Section("what caching buys", ("", "with the cache", "without", "without / with"), rows)


def _links(prefix: Prefix, units: Units) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (link.label, _rate(link.bytes_per_second), _time(seconds), _against(seconds, prefix.recompute))
        for link, seconds in prefix.loaded
    ]
    rows.append(("compute it again", "", _time(prefix.recompute), ""))
    held = format_bytes(prefix.bytes, units)
    return Section(f"prompt back, {held}", ("", "rate", "time", ""), rows)


def _tiers(answer: TradeoffAnswer, pool: PromptPool, units: Units) -> Section:
    """Prompts that stay on the GPUs and behind them, and the share of them that must be found."""
    rows: list[tuple[Cell, ...]] = [("GPUs", "", f"{pool.prompts:,}", f"{pool.tokens:,}", "", "")]
    for kept in answer.tiers:
        name = f"{kept.tier.name}, {format_bytes(kept.tier.size, units)}"
        pays = "never" if kept.pays_from is None else f"{100 * kept.pays_from:.3g} % hits"
        rows.append((name, _rate(kept.tier.rate), f"{kept.prompts:,}", f"{kept.tokens:,}", _time(kept.load), pays))
    return Section(
        f"prompts of {answer.comparison.prompt:,} kept", ("", "rate", "prompts", "tokens", "load", "pays from"), rows
    )


def _against(load: float, recompute: float) -> str:
    if load < recompute:
        return f"{_times(recompute / load)} faster than computing"
    return f"{_times(load / recompute)} slower than computing"


def _verdict(answer: TradeoffAnswer, units: Units) -> str:
    found, times = answer.comparison, answer.comparison.times
    buys = f"{format_bytes(answer.size.bytes_total, units)} of cache buy {_times(found.generation.ratio)} less compute"
    if times is None:
        return buys
    if not times.saves:
        experts = found.clock is not None and found.clock.demand.routed > 0
        time = "time only as far as it reads fewer experts" if experts else "no time"
        return f"{buys} and {time}: {found.last:,} tokens are below the ridge, {times.ridge:,}"
    return f"{buys} and {_times(times.generation.ratio)} less time"


def _notes(answer: TradeoffAnswer, units: Units) -> list[str]:
    found = answer.comparison
    if found.clock is None or found.times is None:
        alone = "no GPU is named, so this is compute and memory, and no time: --gpu NAME adds it"
        return [_lesson(found), _counted(found), alone]
    notes = [_lesson(found), _counted(found), _ridge(found.times, found.clock, units)]
    if found.prefix is None:
        notes.append("running the encoder again is not counted, so loading its cache is not weighed up")
    else:
        notes.append(f"loading pays above {_rate(found.prefix.break_even)}")
    notes.append(f"times are estimates: {found.clock.machine.words}; {found.clock.doubt}")
    if answer.tiers:
        notes.append("a tier pays from that share of prompts found, even if the GPUs wait for it to be written")
    if found.clock.machine.gpus > 1:
        notes.append(f"one link serves all {found.clock.machine.gpus} GPUs")
    return notes


def _lesson(found: Comparison) -> str:
    """The O(n) against O(n^2) of the textbook, for these lengths."""
    last, before = found.last, found.prompt - 1
    passes = (last * (last + 1) - before * (before + 1)) // 2
    return (
        f"without a cache each new token computes all text before it again, O(n^2): {many(passes, 'token')} here; "
        f"with it each is computed once, O(n): {last:,}"
    )


def _counted(found: Comparison) -> str:
    each = "" if found.request.batch == 1 else "of each sequence, "
    whose = "of encoder and decoder" if attention_class(found.request.facts) == "encoder-decoder" else "of a token"
    parameters = format_count(found.flops.parameters)
    bound = (
        " to every token: an upper bound, since how many its index chooses is not known" if found.flops.dense else ""
    )
    return f"compute is {each}2 FLOP for each of the {parameters} parameters {whose}, and attention{bound}"


def _ridge(times: Times, clock: Clock, units: Units) -> str:
    """Why there may be no time to save. With experts, a pass over more tokens also reads more weights."""
    if not times.ridge:
        return "even one token takes longer to compute than the weights to read, so the cache saves time at any length"
    weights, tokens = format_bytes(round(clock.demand.read(1)), units), many(times.ridge, "token")
    held = f"reading the {weights} of weights that a token needs takes as long as computing {tokens}, at peak rates"
    if clock.demand.routed > 0:
        return f"{held}; more tokens read more experts, so that a pass without the cache may take longer before that"
    return f"{held}: up to there, the cache saves no time at batch 1"


def _times(ratio: float) -> str:
    """A ratio with three digits."""
    return f"{ratio:,.0f} x" if ratio >= 99.95 else f"{ratio:.3g} x"


def _rate(bytes_per_second: float) -> str:
    """Three digits, in powers of 1000 as rates of links are written everywhere."""
    return amount(float(f"{bytes_per_second:.3g}"), "B/s", "si")


def _time(seconds: float) -> str:
    """Three digits, in units that people know."""
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.3g} {unit}" if seconds < 1000 * length else f"{seconds / length:,.0f} {unit}"
    return amount(float(f"{seconds:.3g}"), "s", "iec")
