"""What is shown of a model: its facts as values, and in one line."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

from kvcalc.core.kinds import attends, attention_class
from kvcalc.core.model import Attention, Compressed, Latent, Model
from kvcalc.core.units import format_count, many

if TYPE_CHECKING:
    from kvcalc.views.types.model import ModelFacts

__all__ = ["model_facts", "model_values"]


def model_values(model: Model) -> "ModelFacts":
    """A model's facts. What differs by layer is null here and stands under kv.layers."""
    attending = _attending(model)
    return {
        "id": model.ids[0] if model.ids else None,
        "ids": list(model.ids),
        "preset": model.origin,
        "name": model.name,
        "family": model.family,
        "model_type": model.model_type,
        "source": model.source,
        "confidence": model.confidence,
        "note": model.note,
        "layers": len(model.layers),
        "heads": _same(cache.heads for cache in attending),
        "kv_heads": _same(cache.kv_heads if isinstance(cache, Attention) else 1 for cache in attending),
        "head_dim": _same(width for cache in attending for width in _cached_widths(cache)),
        "attention": attention_class(model),
        "max_context": model.max_context,
        "parameters": model.parameters,
        "active_parameters": model.active_parameters,
        "dtype": model.dtype.name,
        "weights_dtype": (model.weights_dtype or model.dtype).name,
        "kv_dtype": model.kv_dtype.name if model.kv_dtype else None,
        "state_dtype": model.state_dtype.name if model.state_dtype else None,
        "draft_layers": len(model.draft),
    }


def _attending(model: Model) -> list[Attention | Latent | Compressed]:
    """The caches that heads look at, pruned layers left out."""
    return [
        cache
        for cache in model.distinct_caches
        if attends(cache) and not (isinstance(cache, Attention) and not cache.kv_heads)
    ]


def _cached_widths(cache: Attention | Latent | Compressed) -> tuple[int, ...]:
    match cache:
        case Attention(k_dim=k_dim, v_dim=v_dim):
            return (k_dim, v_dim) if v_dim else (k_dim,)
        case Latent(rank=rank, rope=rope):
            return (rank + rope,)
        case Compressed(dim=dim):
            return (dim,)
        case _:
            assert_never(cache)


def _same(values: Iterator[int]) -> int | None:
    """The value that all share, or None."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def model_facts(model: Model) -> list[str]:
    """The model in one line."""
    facts = [attention_class(model), f"{len(model.layers)} layers"]
    per_head = {(c.heads, c.kv_heads) for c in model.distinct_caches if isinstance(c, Attention) and c.kv_heads}
    latent = {(c.heads, c.rank, c.rope) for c in model.distinct_caches if isinstance(c, Latent)}
    if len(latent) == 1 and not per_head:
        heads, rank, rope = next(iter(latent))
        facts.append(f"{heads} query heads, one latent of {rank} + {rope}")
    if len(per_head) == 1:
        heads, kv_heads = next(iter(per_head))
        facts.append(f"{heads} query heads, {many(kv_heads, 'KV head')}")
    if model.parameters:
        active = f" ({format_count(model.active_parameters)} active)" if model.active_parameters else ""
        facts.append(f"{format_count(model.parameters)} parameters{active}")
    facts.append(model.dtype.name)
    facts.append(f"limit {model.max_context:,} tokens" if model.max_context else "no published limit")
    return facts
