"""The exact size of a cache and, beside it, the textbook size."""

from collections import Counter
from typing import NamedTuple

from kvcalc.core.formula import (
    Attending,
    Rate,
    Widths,
    attending,
    fixed,
    head_dims,
    size,
    slope,
    textbook_rate,
    total_rate,
)
from kvcalc.core.model import Attention, Cache
from kvcalc.core.request import Request
from kvcalc.core.sharding import Placement, place, rank_bytes
from kvcalc.core.units import MOST_TOKENS, many
from kvcalc.errors import KvcalcError

__all__ = ["CacheGroup", "Size", "Textbook", "measure", "slope_and_fixed"]


class CacheGroup(NamedTuple):
    """All caches of a model that are equal, and what they hold together for one sequence.

    Attributes:
        cache: One of them, whole.
        copies: How many there are.
        slope: Bytes a token that they add at the asked context.
        slope_below: The same below the window.
        slope_past: The same past the window; all three are equal where there is none.
        fixed_bytes: Bytes that no longer grow at the asked context.
        bytes_per_sequence: All bytes at the asked context.
    """

    cache: Cache
    copies: int
    slope: Rate
    slope_below: Rate
    slope_past: Rate
    fixed_bytes: int
    bytes_per_sequence: int


class Textbook(NamedTuple):
    """2 x batch x heads x layers x context x d_k x bytes per element, with every query head counted.

    Attributes:
        bytes_per_token: Bytes that one token adds, always.
        bytes_per_sequence: Bytes of one sequence at the asked context.
        bytes_total: Bytes of the batch.
        formula: The product with this model's numbers.
    """

    bytes_per_token: int
    bytes_per_sequence: int
    bytes_total: int
    formula: str


class Size(NamedTuple):
    """The answer to a request. Its `repr` is one line.

    Attributes:
        request: The question.
        placement: The model as it is spread.
        groups: The caches, equal ones together, in order of first occurrence.
        slope: Bytes a token that the whole model adds at the asked context.
        slope_below: The same below all windows.
        slope_past: The same past all windows that the model's limit lets fill.
        fixed_bytes_per_sequence: Bytes of a sequence that no longer grow at the asked context.
        bytes_per_sequence: Bytes of one sequence at the asked context, over all GPUs.
        bytes_total: Bytes of the batch, over all GPUs.
        bytes_per_gpu: Bytes of the fullest GPU.
        textbook: The textbook formula beside it; None for a model without attention.
    """

    request: Request
    placement: Placement
    groups: tuple[CacheGroup, ...]
    slope: Rate
    slope_below: Rate
    slope_past: Rate
    fixed_bytes_per_sequence: int
    bytes_per_sequence: int
    bytes_total: int
    bytes_per_gpu: int
    textbook: Textbook | None

    def __repr__(self) -> str:
        request = self.request
        what = f"{request.facts.name}, batch {request.batch:,} at {request.context:,} tokens"
        return f"<Size of {what}: {self.bytes_total:,} B>"

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one more token adds at the asked context, rounded up once."""
        return self.slope.per_token

    def rank_bytes(self, tokens: int) -> int:
        """Bytes of one sequence of `tokens` tokens on the fullest GPU."""
        return rank_bytes(self.placement, tokens, self.request.widths, self.request.encoder_tokens)


def measure(request: Request) -> Size:
    """Size the cache that a request asks for.

    Raises KvcalcError where the layout does not map onto the model, and for a model that caches nothing.
    """
    placement = place(request.model, request.layout)
    groups = tuple(
        _group(cache, copies, request)
        for cache, copies in request.model.distinct_caches.items()
        if not (isinstance(cache, Attention) and not cache.kv_heads)  # pruned away: there is no cache to speak of
    )
    if not any(group.bytes_per_sequence or group.slope_below.bytes for group in groups):
        raise KvcalcError(f"{request.model.name} caches nothing: there is nothing to size")
    per_sequence = sum(group.bytes_per_sequence for group in groups)
    local = rank_bytes(placement, request.context, request.widths, request.encoder_tokens)
    return Size(
        request,
        placement,
        groups,
        total_rate([group.slope for group in groups]),
        total_rate([group.slope_below for group in groups]),
        total_rate([group.slope_past for group in groups]),
        sum(group.fixed_bytes for group in groups),
        per_sequence,
        per_sequence * request.batch,
        local * request.sequences_per_replica,
        _textbook(request),
    )


def slope_and_fixed(request: Request) -> tuple[Rate, int]:
    """The two numbers of a long context alone: bytes a token, and bytes for one sequence that no longer grow."""
    caches, tokens = request.model.distinct_caches.items(), request.context
    rates = [slope(cache, tokens, request.widths).times(copies) for cache, copies in caches]
    fixed_parts = (fixed(cache, tokens, request.widths, request.encoder_tokens) * copies for cache, copies in caches)
    return total_rate(rates), sum(fixed_parts)


def _group(cache: Cache, count: int, request: Request) -> CacheGroup:
    tokens, widths, encoder_tokens = request.context, request.widths, request.encoder_tokens
    # A window above the model's limit is never full (Phi-3 128K states one of 262,144 tokens).
    most = max(tokens, request.facts.max_context or MOST_TOKENS)
    below, now, past = (slope(cache, at, widths).times(count) for at in (0, tokens, most))
    return CacheGroup(
        cache,
        count,
        now,
        below,
        past,
        fixed(cache, tokens, widths, encoder_tokens) * count,
        size(cache, tokens, widths, encoder_tokens) * count,
    )


def _textbook(request: Request) -> Textbook | None:
    modules: Counter[Attending] = Counter()
    for layer, copies in request.model.distinct_layers.items():
        for module in attending(layer):
            modules[module] += copies
    if not modules:
        return None
    per_token = sum(textbook_rate(module, request.widths) * count for module, count in modules.items())
    per_sequence = per_token * request.context
    return Textbook(per_token, per_sequence, per_sequence * request.batch, _formula(modules, request))


def _formula(modules: Counter[Attending], request: Request) -> str:
    """The textbook formula with this model's numbers, one term for each size of head."""
    terms: Counter[tuple[int, str]] = Counter()
    for module, count in modules.items():
        terms[module.heads, _head_bytes(*head_dims(module), request.widths)] += count
    parts = [f"{many(count, 'layer')} x {many(heads, 'head')} x {head}" for (heads, head), count in terms.items()]
    inside = parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
    return f"{many(request.batch, 'sequence')} x {request.context:,} tokens x {inside}"


def _head_bytes(k_dim: int, v_dim: int, widths: Widths) -> str:
    k, v = (f"{d.block_bytes / d.block:g} B" for d in (widths.k, widths.v))
    if k != v:
        return f"({k_dim} x {k} + {v_dim} x {v})"
    return f"2 x {k_dim} x {k}" if k_dim == v_dim else f"({k_dim} + {v_dim}) x {k}"
