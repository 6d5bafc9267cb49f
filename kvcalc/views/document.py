"""The answer as a tree of plain values: what --json prints, --get picks from and CSV flattens.

Keys never change meaning within `/1`. Integers under a key with `bytes` are bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from kvcalc.core.fitting import Budget, Fit
from kvcalc.core.formula import attention_tokens, has_state, recurrent_state
from kvcalc.core.model import (
    Attention,
    Cache,
    Compressed,
    Indexer,
    Latent,
    Model,
    Recurrent,
    Shared,
    attention_class,
    kind,
)
from kvcalc.core.request import Request
from kvcalc.core.sizing import CacheGroup, Size, Textbook
from kvcalc.errors import KvcalcError, nearest, shown
from kvcalc.queries.size import SizeAnswer
from kvcalc.version import __version__

__all__ = ["Value", "flat", "kv_values", "model_values", "opening", "pick", "size_document"]

Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"


def opening(verb: str, model: Value, request: Value, warnings: Sequence[str]) -> dict[str, Value]:
    """What every document begins with."""
    return {
        "schema": f"kvcalc.{verb}/1",
        "kvcalc_version": __version__,
        "model": model,
        "request": request,
        "warnings": list(warnings),
    }


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


def model_values(model: Model) -> dict[str, Value]:
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
        if isinstance(cache, Latent | Compressed) or (isinstance(cache, Attention) and cache.kv_heads)
    ]


def _cached_widths(cache: Attention | Latent | Compressed) -> tuple[int, ...]:
    match cache:
        case Attention(k_dim=k_dim, v_dim=v_dim):
            return (k_dim, v_dim) if v_dim else (k_dim,)
        case Latent(rank=rank, rope=rope):
            return (rank + rope,)
        case Compressed(dim=dim):
            return (dim,)


def _same(values: Iterator[int]) -> int | None:
    """The value that all share, or None."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _request(request: Request, budget: Budget | None) -> dict[str, Value]:
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


def _memory_asked(budget: Budget | None) -> dict[str, Value]:
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


def _fit(fit: Fit, size: Size) -> dict[str, Value]:
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


# Keys of a plan's option that --get knows although there may be none.
_OF_A_PLAN = (
    "gpu", "gpus", "tp", "pp", "dp", "dcp", "kv_dtype", "weights_dtype", "users", "max_batch", "max_context",
    "capacity_tokens", "kv_budget_bytes_per_gpu", "headroom", "binding", "command", "price_per_hour", "engine_flags",
)  # fmt: skip


def pick(document: Mapping[str, Value], path: str) -> Value:
    """The value at a dotted path; a number picks from a list. Raises KvcalcError for a path that is not there."""
    value: Value = dict(document)
    for i, part in enumerate(parts := path.split(".")):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part[:9]) < len(value):
            value = value[int(part[:9])]
        elif value is None and parts[:1] == ["textbook"] and part in Textbook._fields:
            return None  # a model without attention has no textbook size
        elif value is None and parts[0] == "best" and part in _OF_A_PLAN:
            return None  # no plan: a script sees that from the exit status
        elif value is None and parts[0] == "fit" and i == 1:
            raise KvcalcError(f"--get: {shown(path)} needs a budget", "add --vram SIZE or --kv-memory SIZE")
        elif value is None and parts[0] in ("memory", "seconds", "prefix") and i == 1:
            raise KvcalcError(f"--get: {shown(path)} needs a GPU", "add --gpu NAME")
        elif value is None and parts[0] == "engine" and i == 1:
            raise KvcalcError(f"--get: {shown(path)} needs an engine", "add --engine NAME")
        else:
            close = nearest(path, known := [key for key, _ in flat(document)])
            raise KvcalcError(
                f"--get: no value is called {shown(path)}",
                f"did you mean {' or '.join(close)}?" if close else f"such as {', '.join(known[:3])}; --json shows all",
            )
    return value


def flat(values: Mapping[str, Value], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Every single value with its dotted path, lists left out; what is null as a whole is null in each of its parts.

    So the columns of CSV are the same for every model and question.
    """
    for key, value in values.items():
        path = prefix + key
        if value is None and path in _PARTS:
            yield from ((f"{path}.{part}", None) for part in _PARTS[path])
        elif isinstance(value, dict):
            yield from flat(value, f"{path}.")
        elif not isinstance(value, list):
            yield path, value


_PARTS = {
    "memory": ("vram_bytes_per_gpu", "utilization", "weights_bytes_per_gpu", "kv_budget_bytes_per_gpu", "fits"),
    "seconds": (
        *(f"{of}.{part}" for of in ("token", "generation") for part in ("with_cache", "without_cache", "ratio")),
        "ridge_tokens", "saves_time", "tokens_whose_cache_equals_weights",
    ),
    "prefix": (
        "tokens", "bytes", "recompute_seconds", "recompute_seconds_per_token", "break_even_bytes_per_second",
    ),
    "textbook": Textbook._fields,
    "engine": ("name", "version", "reserved_bytes_total", "reserved_bytes_per_gpu"),
    "fit": (
        "vram_bytes_per_gpu", "memory_source", "gpus", "utilization", "weights_bytes_per_gpu", "overhead_bytes_per_gpu",
        "kv_budget_bytes_per_gpu", "kv_bytes_per_gpu", "max_batch", "max_context", "capacity_tokens", "fits",
        "binding", "context_binding", "gpus_for_weights",
    ),
}  # fmt: skip
