"""A simulation as values for JSON, and as words for people."""

from typing import TYPE_CHECKING

from kvcalc.core.durations import format_seconds
from kvcalc.core.units import many
from kvcalc.perf.latency import Targets
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.serving.fleet import Served, Spread
from kvcalc.traffic.levels import Levels
from kvcalc.version import __version__
from kvcalc.views.model import model_facts, model_values
from kvcalc.views.report import Bytes, Cell, Count, Report, Section
from kvcalc.views.simulate_tiers import tier_sections, tier_values
from kvcalc.views.words import limited_by

if TYPE_CHECKING:
    from kvcalc.views.types.simulate import (
        LevelValues,
        OccupancyValues,
        PrefixCacheValues,
        SimulateDocument,
        SimulateRequest,
        TimeValues,
        TraceFacts,
    )

__all__ = ["csv_rows", "headline", "simulate_document", "simulate_report"]


def simulate_document(answer: SimulateAnswer) -> "SimulateDocument":
    """The document of `simulate`."""
    served, level = answer.served, _tokens(answer)
    attained = answer.attainment
    return {
        "schema": "kvcalc.simulate/1",
        "kvcalc_version": __version__,
        "model": model_values(answer.model),
        "request": _request(answer),
        "warnings": list(answer.warnings),
        "trace": _trace(answer),
        "occupancy": None if level is None else _occupancy(level, timed=served is None),
        "concurrency": None if (crowd := _sequences(answer)) is None else _level(crowd),
        "peak_bytes": None if level is None else answer.peak_bytes,
        "preemptions": None if served is None else served.preemptions,
        "preempted_requests": None if served is None else served.preempted,
        "refused_requests": None if served is None else served.refused,
        "queue_seconds": None if served is None else _times(served.queue),
        "ttft_seconds": None if served is None else _times(served.ttft),
        "tpot_seconds": None if served is None else _times(served.tpot),
        "e2e_seconds": None if served is None else _times(served.e2e),
        "requests_per_second": None if served is None else served.rate(len(answer.trace) - served.refused),
        "output_tokens_per_second": None if served is None else served.rate(served.output_tokens),
        "overloaded": None if served is None else served.overloaded,
        "binding": answer.binding,
        "attainment": None
        if attained is None
        else {"ttft": attained.ttft, "tpot": attained.tpot, "e2e": attained.e2e, "all": attained.all},
        "goodput_requests_per_second": None if attained is None else attained.goodput,
        "prefix_cache": _prefix_cache(answer),
        "tiers": tier_values(answer),
    }


def csv_rows(document: "SimulateDocument") -> "list[SimulateDocument]":
    """CSV has one line."""
    return [document]


def headline(answer: SimulateAnswer) -> object:
    """What --quiet prints: the number of replicas where that was asked, else the p95 of the time to the first token; in
    the open loop the most tokens at once; of a curve alone its hit rate without end.
    """
    if answer.served is not None:
        return answer.replicas if answer.question.replicas == "auto" else answer.served.ttft.p95
    return round(answer.open.tokens.peak) if answer.open is not None else answer.curve[-1].token_hit_rate


def _request(answer: SimulateAnswer) -> "SimulateRequest":
    question = answer.question
    traffic, made = question.traffic, question.traffic.made_up
    targets = question.targets or Targets()
    scheduler, size = answer.scheduler, answer.size
    reserved = None if size is None else size.reservation
    dtype = question.form.kv_dtype or (answer.model.kv_dtype or answer.model.dtype).name
    return {
        "trace": traffic.path,
        "input": None if made is None else str(made.input),
        "output": None if made is None else str(made.output),
        "rate": None if traffic.arrivals is None else traffic.arrivals.rate,
        "requests": len(answer.trace),
        "seed": None if made is None else made.seed,
        "rate_scale": traffic.rate_scale,
        "step_seconds": None if question.open is None else question.open.step,
        "block_size": scheduler.block if scheduler else None if question.open is None else question.open.block,
        "k_dtype": question.form.k_dtype or dtype,
        "v_dtype": question.form.v_dtype or dtype,
        "gpu": None if question.memory.gpu is None else question.memory.gpu.card.name,
        "engine": None if reserved is None else reserved.engine.name,
        "engine_version": None if reserved is None else reserved.question.version.name,
        "tp": 1 if size is None else size.size.request.layout.tp,
        "pp": 1 if size is None else size.size.request.layout.pp,
        "replicas": answer.replicas,
        "router": question.router,
        "prefix_cache": question.prefix_cache,
        "max_num_seqs": None if scheduler is None else scheduler.limits.sequences,
        "max_num_batched_tokens": None if scheduler is None else scheduler.limits.tokens,
        "pool_tokens": None if scheduler is None else scheduler.block * scheduler.blocks,
        "ttft_seconds": targets.ttft,
        "tpot_seconds": targets.tpot,
        "e2e_seconds": targets.e2e,
        "percentile": targets.percentile,
    }


def _trace(answer: SimulateAnswer) -> "TraceFacts":
    trace = answer.trace
    return {
        "requests": len(trace),
        "dropped": sum(each.rows for each in answer.dropped),
        "dropped_rows": [{"reason": each.reason, "rows": each.rows, "line": each.first} for each in answer.dropped],
        "duration_seconds": trace.arrivals[-1] - trace.arrivals[0],
        "mean_input_tokens": sum(trace.prompts) / len(trace),
        "mean_output_tokens": sum(trace.outputs) / len(trace),
    }


def _tokens(answer: SimulateAnswer) -> Levels | None:
    if answer.served is not None:
        return answer.served.tokens
    return None if answer.open is None else answer.open.tokens


def _sequences(answer: SimulateAnswer) -> Levels | None:
    if answer.served is not None:
        return answer.served.sequences
    return None if answer.open is None else answer.open.sequences


def _occupancy(level: Levels, *, timed: bool) -> "OccupancyValues":
    return {
        "mean_tokens": level.mean,
        "p50_tokens": level.p50,
        "p95_tokens": level.p95,
        "p99_tokens": level.p99,
        "peak_tokens": level.peak,
        "peak_at_seconds": level.peak_at if timed else None,
    }


def _level(level: Levels) -> "LevelValues":
    return {"mean": level.mean, "p50": level.p50, "p95": level.p95, "p99": level.p99, "peak": level.peak}


def _times(spread: Spread) -> "TimeValues":
    return {"mean": spread.mean, "p50": spread.p50, "p90": spread.p90, "p95": spread.p95, "p99": spread.p99}


def _hit_rate(answer: SimulateAnswer) -> float | None:
    if answer.served is None or not answer.question.prefix_cache:
        return None
    return answer.served.found_tokens / sum(answer.trace.prompts)


def _prefix_cache(answer: SimulateAnswer) -> "PrefixCacheValues | None":
    prefixes = answer.trace.prefixes
    if prefixes is None or not answer.curve:
        return None
    return {
        "token_hit_rate": _hit_rate(answer),
        "block_tokens": prefixes.tokens,
        "blocks": answer.curve[-1].blocks,
        "curve": [
            {
                "capacity_tokens": None if each.capacity is None else each.capacity * prefixes.tokens,
                "capacity_bytes": None
                if each.capacity is None
                else each.capacity * prefixes.tokens * answer.bytes_per_token,
                "token_hit_rate": each.token_hit_rate,
                "hit_blocks": each.hits,
            }
            for each in answer.curve
        ],
    }


def simulate_report(answer: SimulateAnswer) -> Report:
    """Tables that fit 80 columns: what requests met, what the pool held, what a prefix cache would find."""
    sections = []
    if answer.served is not None:
        sections += [_met(answer.served), _served(answer, answer.served)]
    if (level := _tokens(answer)) is not None:
        sections.append(_held(answer, level))
    sections += tier_sections(answer)
    if answer.curve:
        sections.append(_curve(answer))
    return Report(
        sections,
        title=answer.model.name,
        facts=model_facts(answer.model),
        verdict=_verdict(answer),
        fits=None if answer.served is None else not answer.served.overloaded,
        notes=_notes(answer),
        warnings=list(answer.warnings),
    )


def _met(served: Served) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (name, *(format_seconds(each) for each in spread))
        for name, spread in (
            ("in the queue", served.queue),
            ("to the first token (TTFT)", served.ttft),
            ("per output token (TPOT)", served.tpot),
            ("end to end", served.e2e),
        )
    ]
    return Section("time of a request", ("time of a request", "mean", "p50", "p90", "p95", "p99"), rows)


def _served(answer: SimulateAnswer, served: Served) -> Section:
    done = len(answer.trace) - served.refused
    rows: list[tuple[Cell, ...]] = [
        ("requests a second", f"{served.rate(done):.3g}"),
        ("output tokens a second", f"{served.rate(served.output_tokens):,.0f}"),
        ("preemptions", Count(served.preemptions)),
        ("requests that were preempted", Count(served.preempted)),
    ]
    if (hits := _hit_rate(answer)) is not None:
        rows.append(("prompt tokens found in the cache", f"{100 * hits:.1f} %"))
    if answer.attainment is not None:
        named = answer.attainment._asdict()
        rows += [
            (f"meet {'all targets' if name == 'all' else name.upper()}", f"{100 * share:.1f} %")
            for name, share in named.items()
            if name != "goodput" and share is not None
        ]
        rows.append(("good requests a second", f"{answer.attainment.goodput:.3g}"))
    return Section("served", ("served", ""), rows)


def _held(answer: SimulateAnswer, level: Levels) -> Section:
    crowd = _sequences(answer)
    assert crowd is not None
    rows: list[tuple[Cell, ...]] = [
        ("tokens", *(Count(round(each)) for each in (level.mean, level.p50, level.p95, level.p99, level.peak))),
        (
            "sequences",
            f"{crowd.mean:.1f}",
            *(Count(round(each)) for each in (crowd.p50, crowd.p95, crowd.p99, crowd.peak)),
        ),
    ]
    what = "held at once" if answer.served is None else "in the pool of a replica"
    return Section(what, (what, "mean", "p50", "p95", "p99", "peak"), rows)


def _curve(answer: SimulateAnswer) -> Section:
    assert answer.trace.prefixes is not None
    each = answer.trace.prefixes.tokens
    rows: list[tuple[Cell, ...]] = []
    for point in answer.curve:
        tokens = None if point.capacity is None else point.capacity * each
        size = "" if tokens is None else Bytes(tokens * answer.bytes_per_token)
        rows.append((Count(tokens), size, f"{100 * point.token_hit_rate:.1f} %"))
    return Section("prefix cache", ("prefix cache, tokens", "of the model", "prompt tokens found"), rows, exact=False)


def _verdict(answer: SimulateAnswer) -> str:
    served = answer.served
    if served is None:
        return ""
    fleet = many(answer.replicas, "replica")
    if served.overloaded:
        limit = "" if answer.binding is None else f", limited by {limited_by(answer.binding)}"
        return f"overloaded: {fleet} cannot keep up, and the queue grows{limit}"
    waits = "" if answer.binding is None else f"; some wait, limited by {limited_by(answer.binding)}"
    return f"carried by {fleet}{waits}"


def _notes(answer: SimulateAnswer) -> list[str]:
    trace, scheduler, question = answer.trace, answer.scheduler, answer.question
    seconds = trace.arrivals[-1] - trace.arrivals[0]
    found = [f"{many(len(trace), 'request')} over {seconds:,.0f} s"]
    found.append(
        f"{sum(trace.prompts) / len(trace):,.0f} tokens in and {sum(trace.outputs) / len(trace):,.0f} out on average"
    )
    if question.open is not None:
        found.append(f"a token each {format_seconds(question.open.step)}, without a limit of memory")
    if scheduler is not None and answer.size is not None and answer.size.reservation is not None:
        asked = answer.size.reservation.question
        engine = answer.size.reservation.engine.name
        pool = scheduler.block * scheduler.blocks
        found.append(f"{engine} {asked.version.name}, {pool:,} tokens in the pool of a replica")
        limits = scheduler.limits
        found.append(f"at most {many(limits.sequences, 'sequence')} and {many(limits.tokens, 'token')} in a step")
        found.append("times are estimates: nine of ten published measurements lie within a factor of 1.5")
    if answer.curve:
        found.append("the curve is LRU over the trace's own blocks, in the order of the requests")
    return found
