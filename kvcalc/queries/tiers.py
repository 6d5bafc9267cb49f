"""Tiers behind the pool of a simulation: what requests find there, and what that is good for."""

from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.durations import format_seconds
from kvcalc.core.model import Model, Recurrent
from kvcalc.core.units import many
from kvcalc.errors import KvcalcError
from kvcalc.perf.tiers import Tier
from kvcalc.serving.fleet import Served
from kvcalc.serving.tiers import Level
from kvcalc.traffic.trace import Trace

__all__ = ["TierFound", "found_in", "levels_of", "worth"]


class TierFound(NamedTuple):
    """What a tier did: the trace's blocks that it holds and that were loaded, and their share of all prompt tokens."""

    tier: Tier
    blocks: int
    loaded: int
    token_hit_rate: float


def levels_of(tiers: Sequence[Tier], model: Model, trace: Trace, bytes_per_token: int) -> tuple[Level, ...]:
    """The tiers in blocks of the trace. Raises KvcalcError where the bytes of a block are not known."""
    if not tiers:
        return ()
    if trace.prefixes is None:
        raise KvcalcError("--tier: the requests have no prefixes", "a trace with hash_ids has them")
    if any(isinstance(cache, Recurrent) for cache in model.distinct_caches):
        raise KvcalcError("--tier: how many recurrent states engines store in tiers is not known here", "leave it out")
    each = trace.prefixes.tokens * bytes_per_token
    return tuple(Level(tier.size // each, each / tier.rate) for tier in tiers)


def found_in(tiers: Sequence[Tier], levels: Sequence[Level], trace: Trace, served: Served) -> tuple[TierFound, ...]:
    """What each tier did."""
    if not tiers or trace.prefixes is None:
        return ()
    each, all_tokens = trace.prefixes.tokens, sum(trace.prompts)
    return tuple(
        TierFound(tier, level.blocks, loaded, loaded * each / all_tokens)
        for tier, level, loaded in zip(tiers, levels, served.loaded, strict=True)
    )


_NOISE = 1.01  # of a mean time; one order of steps or another makes as much


def worth(served: Served, without: Served) -> list[str]:
    """Warnings where tiers bring nothing, or make it worse than the same replay without them."""
    found = []
    if not any(served.loaded) and not served.slower:
        found.append("--tier brings nothing: what is found of prompts stands in the pool")
    if served.slower:
        found.append(f"--tier: {many(served.slower, 'block')} computed again, which takes less time than loading them")
    if served.ttft.mean > _NOISE * without.ttft.mean:
        times = f"{format_seconds(served.ttft.mean)} to the first token on average, {format_seconds(without.ttft.mean)}"
        found.append(f"--tier makes it worse: {times} without")
    return found
