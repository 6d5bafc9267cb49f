"""The default verb's answer as values for JSON: the size, what fits, and what an engine reserves."""

from typing import TYPE_CHECKING, assert_never

from kvcalc.core.formula import attention_tokens, has_state, recurrent_state
from kvcalc.core.kinds import kind
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.core.request import Request
from kvcalc.core.sizing import CacheGroup, Size
from kvcalc.queries.size import SizeAnswer
from kvcalc.version import __version__
from kvcalc.views.model import model_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvcalc.core.fitting import Fit
    from kvcalc.core.memory import Budget
    from kvcalc.core.overheads import Overhead
    from kvcalc.queries.devices import HeldDevice
    from kvcalc.queries.savings import Saving
    from kvcalc.views.types.model import CacheShape, KvSizes, LayerGroup
    from kvcalc.views.types.size import (
        DeviceLine,
        EngineSizes,
        FitValues,
        OverheadLine,
        SizeDocument,
        SizeRequest,
        TextbookSize,
    )

__all__ = ["kv_values", "overhead_lines", "size_document"]


def size_document(answer: SizeAnswer, given_back: "Sequence[Saving]" = (), *, explain: bool = False) -> "SizeDocument":
    """The document of the default verb; `explain` adds the terms of the sum, and what would give memory back."""
    size, fit, engine = answer.size, answer.fit, None
    if answer.reservation is not None:
        from kvcalc.views.engine import engine_values

        engine = engine_values(answer.reservation, fit)
    document: SizeDocument = {
        "schema": "kvcalc.size/1",
        "kvcalc_version": __version__,
        "model": model_values(size.request.facts),
        "request": _request(answer, engine),
        "warnings": list(answer.warnings),
        "kv": kv_values(size),
        "textbook": _textbook(size),
        "fit": None if fit is None else _fit(fit, size, answer),
        "engine": engine,
    }
    if answer.devices:
        document["devices"] = [_device(each) for each in answer.devices]
    if explain:
        from kvcalc.core.explain import terms

        document["explain"] = [
            {"name": term.name, "sum": term.sum, "bytes": term.bytes, "source": term.source}
            for term in terms(size, fit)
        ]
        document["savings"] = [
            {"change": each.change, "bytes": each.gained, "kv_budget_bytes_per_gpu": each.budget,
             "capacity_tokens": each.tokens}
            for each in given_back
        ]  # fmt: skip
    return document


def _device(held: "HeldDevice") -> "DeviceLine":
    device = held.device
    return {
        "name": device.name,
        "layers": device.layers,
        "weights_bytes": device.weights,
        "cache_bytes": device.cache,
        "compute_bytes": device.compute.likely,
        "compute_bytes_low": device.compute.low,
        "compute_bytes_high": device.compute.high,
        "output_bytes": device.output,
        "beside_bytes": held.beside,
        "fits": held.fits,
    }


def _request(answer: SizeAnswer, engine: "EngineSizes | None") -> "SizeRequest":
    request, budget, run, asked = answer.size.request, answer.budget, answer.run, answer.memory
    layout = request.layout
    whole = budget if budget is not None and budget.kv_memory is None else None
    card = None if budget is None else budget.card
    return {
        "context": request.context,
        "batch": request.batch,
        "k_dtype": request.widths.k.name,
        "v_dtype": request.widths.v.name,
        "state_dtype": request.widths.state.name if has_state(request.model) else None,
        "kv_heads": request.kv_heads,
        "encoder_tokens": request.encoder_tokens,
        "images": None if answer.workload.images is None else str(answer.workload.images),
        "image_tokens": _image_tokens(answer),
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp,
        "dcp": layout.dcp,
        "ep": layout.ep,
        "dp_attention": layout.sharing > 1,
        "gpus": layout.gpus,
        "vram_bytes": None if whole is None else whole.vram,
        "utilization": None if whole is None else _share(whole),
        "weights": None if whole is None else _weights(whole),
        "overhead_bytes": None if whole is None else whole.overhead,
        "lora": None if asked.lora is None else f"{asked.lora.number}:{asked.lora.rank}",
        "draft": asked.draft,
        "beside": list(asked.beside),
        "gpu": None if card is None else card.name,
        "memory_source": _memory_source(budget),
        "kv_memory_bytes": None if budget is None else budget.kv_memory,
        "engine": None if engine is None else engine["name"],
        "engine_version": None if engine is None else engine["version"],
        "block_size": None if engine is None else engine.get("block_size"),
        "max_num_seqs": run.max_num_seqs,
        "max_num_batched_tokens": run.max_num_batched_tokens,
        "enforce_eager": run.enforce_eager,
        "language_model_only": run.language_model_only,
    }


def _image_tokens(answer: SizeAnswer) -> int | None:
    """Tokens of one image, of those that the context has."""
    if answer.workload.images is None:
        return None
    from kvcalc.core.images import image_tokens

    return image_tokens(answer.size.request.facts, *answer.workload.images.pixels)


def _share(budget: "Budget") -> float:
    return 1.0 if budget.utilization is None else budget.utilization.part / budget.utilization.of


def _weights(budget: "Budget") -> str | int:
    return budget.weights if isinstance(budget.weights, str | int) else budget.weights.name


def _memory_source(budget: "Budget | None") -> str | None:
    """Where the card's memory comes from: a word of MEMORY_SOURCES, or `given`."""
    if budget is not None and budget.card is not None:
        return budget.card.memory_source
    return None if budget is None or budget.vram is None else "given"


def kv_values(size: Size) -> "KvSizes":
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


def _group(group: CacheGroup, request: Request) -> "LayerGroup":
    """One group of equal caches. Bytes are those of the whole group, so that the groups add up to the model."""
    return {
        "kind": kind(group.cache),
        "count": group.copies,
        **_cache_values(group.cache, request),
        "bytes_per_token": group.slope.per_token,
        "fixed_bytes_per_sequence": group.fixed_bytes,
        "bytes_per_sequence": group.bytes_per_sequence,
    }


def _cache_values(cache: Cache, request: Request) -> "CacheShape":
    match cache:
        case Attention():
            return _attention_values(cache, request)
        case Latent(rank=rank, rope=rope):
            return {**_one_vector(rank + rope), "rank": rank, "rope": rope}
        case Indexer():
            return {**_one_vector(cache.dim), "store": cache.store}
        case Compressed():
            return {**_one_vector(cache.dim), "ratio": cache.ratio, "indexer_dim": cache.indexer}
        case Recurrent():
            state = recurrent_state(cache)
            return {
                "kv_heads": None,
                "k_dim": None,
                "v_dim": None,
                "window": None,
                "recurrent_kind": cache.kind,
                "conv_elements": state.conv_width * state.columns,
                "conv_dtype": request.widths.conv.name,
                "state_elements": state.state,
                "state_dtype": request.widths.state.name if state.state else None,
            }
        case Shared(of=of):
            return {**_cache_values(of, request), "shares": kind(of)}
        case _:
            assert_never(cache)


def _one_vector(width: int) -> "CacheShape":
    """One head for all, of which a vector is key and value."""
    return {"kv_heads": 1, "k_dim": width, "v_dim": 0, "window": None}


def _attention_values(cache: Attention, request: Request) -> "CacheShape":
    values: CacheShape = {"kv_heads": cache.kv_heads, "k_dim": cache.k_dim, "v_dim": cache.v_dim, "window": None}
    match cache.pattern:
        case "full":
            return values
        case "sliding" | "chunked":
            return {**values, "window": cache.span}
        case "cross":
            return {**values, "encoder_tokens": attention_tokens(cache, request.context, request.encoder_tokens)}
        case _:
            assert_never(cache.pattern)


def _textbook(size: Size) -> "TextbookSize | None":
    textbook = size.textbook
    if textbook is None:
        return None
    return {
        "bytes_per_token": textbook.bytes_per_token,
        "bytes_per_sequence": textbook.bytes_per_sequence,
        "bytes_total": textbook.bytes_total,
        "formula": textbook.formula,
    }


def overhead_lines(lines: "Sequence[Overhead]") -> "list[OverheadLine]":
    """What a GPU holds beside weights and cache."""
    return [
        {
            "name": line.name,
            "bytes": line.size.likely,
            "bytes_low": line.size.low,
            "bytes_high": line.size.high,
            "rule": line.rule,
            "source": line.source,
            "inside": line.inside,
            "saving": line.saving or None,
        }
        for line in lines
    ]


def _fit(fit: "Fit", size: Size, answer: SizeAnswer) -> "FitValues":
    memory, counted = fit.memory, fit.memory.vram is not None
    return {
        "vram_bytes_per_gpu": memory.vram,
        "memory_source": None if not counted else memory.card.memory_source if memory.card else "given",
        "gpus": size.request.layout.gpus if counted else None,
        "utilization": memory.utilization.part / memory.utilization.of if memory.utilization else None,
        "weights_bytes_per_gpu": memory.weights,
        "weights_on_host_bytes_per_gpu": None if memory.on_host is None else memory.on_host.likely,
        "overhead_bytes_per_gpu": memory.overhead,
        "overheads": overhead_lines(memory.overheads),
        "overheads_of": None if answer.beside is None else answer.beside.engine or None,
        "kv_budget_bytes_per_gpu": memory.kv_budget,
        "kv_budget_bytes_per_gpu_low": memory.kv_budget_low,
        "kv_budget_bytes_per_gpu_high": memory.kv_budget_high,
        "kv_bytes_per_gpu": fit.kv_asked,
        "max_batch": fit.max_batch,
        "max_context": fit.max_context,
        "capacity_tokens": fit.capacity_tokens,
        "fits": fit.fits,
        "binding": fit.binding,
        "context_binding": fit.context_binding,
        "gpus_for_weights": memory.gpus_for_weights,
    }
