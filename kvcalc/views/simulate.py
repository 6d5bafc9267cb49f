"""A simulation as values for JSON."""

from math import isnan
from typing import TYPE_CHECKING

from kvcalc.perf.latency import Targets
from kvcalc.queries.sessions import SessionFacts
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.serving.fleet import Served
from kvcalc.traffic.levels import Levels
from kvcalc.version import __version__
from kvcalc.views.model import model_values
from kvcalc.views.simulate_day import day_values, hour_values
from kvcalc.views.simulate_pools import pool_values, times
from kvcalc.views.simulate_seeds import seed_values
from kvcalc.views.simulate_tiers import tier_values

if TYPE_CHECKING:
    from kvcalc.views.types.simulate import (
        LevelValues,
        OccupancyValues,
        PrefixCacheValues,
        SessionValues,
        SimulateDocument,
        SimulateRequest,
        TraceFacts,
    )

__all__ = ["csv_rows", "duration", "headline", "hit_rate", "rate", "sequences", "simulate_document", "times", "tokens"]


def simulate_document(answer: SimulateAnswer) -> "SimulateDocument":
    """The document of `simulate`."""
    served, level = answer.served, tokens(answer)
    attained = answer.attainment
    return {
        "schema": "kvcalc.simulate/1",
        "kvcalc_version": __version__,
        "model": model_values(answer.model),
        "request": _request(answer),
        "warnings": list(answer.warnings),
        "trace": _trace(answer),
        "occupancy": None if level is None else _occupancy(level, timed=served is None),
        "concurrency": None if (crowd := sequences(answer)) is None else _level(crowd),
        "peak_bytes": None if level is None else answer.peak_bytes,
        "preemptions": None if served is None else served.preemptions,
        "preempted_requests": None if served is None else served.preempted,
        "refused_requests": None if served is None else served.refused,
        "queue_seconds": None if served is None else times(served.queue),
        "ttft_seconds": None if served is None else times(served.ttft),
        "tpot_seconds": None if served is None else times(served.tpot),
        "e2e_seconds": None if served is None else times(served.e2e),
        "requests_per_second": None if served is None else rate(served, len(answer.trace) - served.refused),
        "output_tokens_per_second": None if served is None else rate(served, served.output_tokens),
        "overloaded": None if served is None else served.overloaded,
        "binding": answer.binding,
        "attainment": None
        if attained is None
        else {"ttft": attained.ttft, "tpot": attained.tpot, "e2e": attained.e2e, "all": attained.all},
        "goodput_requests_per_second": None if attained is None else attained.goodput,
        "prefix_cache": _prefix_cache(answer),
        "sessions": None if answer.sessions is None else _sessions(answer.sessions),
        "tiers": tier_values(answer),
        "pools": pool_values(answer),
        "day": day_values(answer),
        "replicas_by_hour": hour_values(answer),
        "by_seed": seed_values(answer),
    }


def csv_rows(document: "SimulateDocument") -> "list[SimulateDocument]":
    """CSV has one line."""
    return [document]


def headline(answer: SimulateAnswer) -> object:
    """What --quiet prints: the number of replicas where that was asked (for a day those of its peak), else the p95 of
    the time to the first token; in the open loop the most tokens at once; of a curve alone its hit rate without end.
    """
    if answer.day is not None:
        return answer.day.peak
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
        "turns": None if made is None or made.turns is None else str(made.turns),
        "think_seconds": None if made is None or made.think is None else made.think.mean / 1000,
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
        "duration_seconds": duration(answer),
        "mean_input_tokens": sum(trace.prompts) / len(trace),
        "mean_output_tokens": sum(trace.outputs) / len(trace),
    }


def duration(answer: SimulateAnswer) -> float:
    """From the first arrival to the last."""
    arrived = answer.trace.arrivals if answer.served is None else answer.served.times.arrived
    return max(time for time in arrived if not isnan(time)) - arrived[0]


def tokens(answer: SimulateAnswer) -> Levels | None:
    """The tokens that are held, of one replica or of the open loop."""
    if answer.served is not None:
        return answer.served.tokens
    return None if answer.open is None else answer.open.tokens


def sequences(answer: SimulateAnswer) -> Levels | None:
    """The sequences that are active at once."""
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


def _sessions(facts: SessionFacts) -> "SessionValues":
    return {
        "sessions": facts.sessions,
        "mean_turns": facts.turns,
        "mean_returning_tokens": facts.returning,
        "mean_pause_seconds": facts.pause,
        "coexisting_sessions": facts.coexist,
        "tokens_of_others_in_a_pause": facts.between,
    }


def _level(level: Levels) -> "LevelValues":
    return {"mean": level.mean, "p50": level.p50, "p95": level.p95, "p99": level.p99, "peak": level.peak}


def rate(served: Served, count: int) -> float:
    """So many of them a second, from the first arrival until the last request is done."""
    return count / served.seconds if served.seconds else 0.0


def hit_rate(answer: SimulateAnswer) -> float | None:
    """The share of all tokens of prompts that was found in the pool."""
    if answer.served is None or not answer.question.prefix_cache:
        return None
    return answer.served.found_tokens / sum(answer.trace.prompts)


def _prefix_cache(answer: SimulateAnswer) -> "PrefixCacheValues | None":
    prefixes = answer.trace.prefixes
    if prefixes is None or not answer.curve:
        return None
    return {
        "token_hit_rate": hit_rate(answer),
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
