"""The default verb's answer as values for JSON: the size, what fits, and what an engine reserves."""

from typing import TYPE_CHECKING

from kvcalc.core.formula import attention_tokens, has_state, recurrent_state
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared, kind
from kvcalc.core.request import Request
from kvcalc.core.sizing import CacheGroup, Size
from kvcalc.queries.size import SizeAnswer
from kvcalc.views.document import Value, opening
from kvcalc.views.model import model_values

if TYPE_CHECKING:
    from kvcalc.core.fitting import Budget, Fit

__all__ = ["kv_values", "size_document"]


def size_document(answer: SizeAnswer, *, explain: bool = False) -> dict[str, Value]:
    """The document of the default verb; `explain` adds the terms of the sum."""
    size, fit, engine = answer.size, answer.fit, None
    if answer.reservation is not None:
        from kvcalc.views.engine import engine_values

        engine = engine_values(answer.reservation, fit)
    request = _request(size.request, answer.budget) | _engine_asked(engine)
    document: dict[str, Value] = {
        **opening("size", model_values(size.request.facts), request, answer.warnings),
        "kv": kv_values(size),
        "textbook": _textbook(size),
        "fit": None if fit is None else _fit(fit, size),
        "engine": engine,
    }
    if explain:
        from kvcalc.core.explain import terms

        document["explain"] = [dict(term._asdict()) for term in terms(size, fit)]
    return document


def _request(request: Request, budget: "Budget | None") -> dict[str, Value]:
    layout = request.layout
    values: dict[str, Value] = {
        "context": request.context,
        "batch": request.batch,
        "k_dtype": request.widths.k.name,
        "v_dtype": request.widths.v.name,
        "state_dtype": request.widths.state.name if has_state(request.model) else None,
        "kv_heads": request.kv_heads,
        "encoder_tokens": request.encoder_tokens,
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp,
        "dcp": layout.dcp,
        "gpus": layout.gpus,
    }
    counted = budget is not None and budget.kv_memory is None
    if budget is None or not counted:
        values |= dict.fromkeys(("vram_bytes", "utilization", "weights", "overhead_bytes"))
    else:
        weights = budget.weights if isinstance(budget.weights, str | int) else budget.weights.name
        share = budget.utilization.part / budget.utilization.of if budget.utilization else 1.0
        values |= {
            "vram_bytes": budget.vram,
            "utilization": share,
            "weights": weights,
            "overhead_bytes": budget.overhead,
        }
    values |= _memory_asked(budget)
    values["kv_memory_bytes"] = budget.kv_memory if budget is not None else None
    return values


def _memory_asked(budget: "Budget | None") -> dict[str, Value]:
    """Which card, and where its memory comes from: a word of MEMORY_SOURCES, or `given`."""
    card = None if budget is None else budget.card
    given = "given" if budget is not None and budget.vram is not None else None
    return {"gpu": None if card is None else card.name, "memory_source": given if card is None else card.memory_source}


def _engine_asked(engine: dict[str, Value] | None) -> dict[str, Value]:
    keys = {"engine": "name", "engine_version": "version", "block_size": "block_size"}
    return {key: None if engine is None else engine.get(part) for key, part in keys.items()}


def kv_values(size: Size) -> dict[str, Value]:
    """The sizes of a cache, and of each group of equal layers."""
    return {
        "bytes_per_token": size.bytes_per_token,
        "bytes_per_token_below_windows": size.slope_below.per_token,
        "bytes_per_token_past_windows": size.slope_past.per_token,
        "fixed_bytes_per_sequence": size.fixed_bytes_per_sequence,
        "bytes_per_sequence": size.bytes_per_sequence,
        "bytes_total": size.bytes_total,
        "bytes_total_per_gpu": size.bytes_per_gpu,
        "layers": [_group(group, size.request) for group in size.groups],
    }


def _group(group: CacheGroup, request: Request) -> dict[str, Value]:
    """One group of equal caches. Bytes are those of the whole group, so that the groups add up to the model."""
    values: dict[str, Value] = {
        "kind": kind(group.cache),
        "count": group.copies,
        "kv_heads": None,
        "k_dim": None,
        "v_dim": None,
        "window": None,
        **_cache_values(group.cache, request),
        "bytes_per_token": group.slope.per_token,
        "fixed_bytes_per_sequence": group.fixed_bytes,
        "bytes_per_sequence": group.bytes_per_sequence,
    }
    return values


def _cache_values(cache: Cache, request: Request) -> dict[str, Value]:
    match cache:
        case Attention(reach=reach):
            values: dict[str, Value] = {"kv_heads": cache.kv_heads, "k_dim": cache.k_dim, "v_dim": cache.v_dim}
            if reach in ("sliding", "chunked"):
                values["window"] = cache.span
            if reach == "cross":
                values["encoder_tokens"] = attention_tokens(cache, request.context, request.encoder_tokens)
            return values
        case Latent():
            return {"kv_heads": 1, "k_dim": cache.rank + cache.rope, "v_dim": 0, "rank": cache.rank, "rope": cache.rope}
        case Indexer():
            return {"kv_heads": 1, "k_dim": cache.dim, "v_dim": 0, "store": cache.store}
        case Compressed():
            return {"kv_heads": 1, "k_dim": cache.dim, "v_dim": 0, "ratio": cache.ratio, "indexer_dim": cache.indexer}
        case Recurrent():
            state = recurrent_state(cache)
            return {
                "recurrent_kind": cache.kind,
                "conv_elements": state.conv_width * state.columns,
                "conv_dtype": request.widths.conv.name,
                "state_elements": state.state,
                "state_dtype": request.widths.state.name if state.state else None,
            }
        case Shared(of=of):
            return {"shares": kind(of)} | _cache_values(of, request)


def _textbook(size: Size) -> Value:
    if size.textbook is None:
        return None
    return dict(size.textbook._asdict())


def _fit(fit: "Fit", size: Size) -> dict[str, Value]:
    memory, counted = fit.memory, fit.memory.vram is not None
    return {
        "vram_bytes_per_gpu": memory.vram,
        "memory_source": None if not counted else memory.card.memory_source if memory.card else "given",
        "gpus": size.request.layout.gpus if counted else None,
        "utilization": memory.utilization.part / memory.utilization.of if memory.utilization else None,
        "weights_bytes_per_gpu": memory.weights,
        "overhead_bytes_per_gpu": memory.overhead,
        "kv_budget_bytes_per_gpu": memory.kv_budget,
        "kv_bytes_per_gpu": fit.kv_asked,
        "max_batch": fit.max_batch,
        "max_context": fit.max_context,
        "capacity_tokens": fit.capacity_tokens,
        "fits": fit.fits,
        "binding": fit.binding,
        "context_binding": fit.context_binding,
        "gpus_for_weights": memory.gpus_for_weights,
    }
