"""Each term of the sum in words: its rule, its numbers, and where the rule comes from. What --explain prints."""

from typing import NamedTuple, assert_never

from kvcalc.dtypes import DType
from kvcalc.fitting import Fit
from kvcalc.formula import attention_tokens, recurrent_state
from kvcalc.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, RecurrentKind, Shared
from kvcalc.sizing import Group, Size
from kvcalc.units import many

__all__ = ["Term", "cache_name", "terms"]


class Term(NamedTuple):
    """One line of the sum. `bytes` is its result."""

    name: str
    sum: str
    bytes: int
    source: str


_RECURRENT_SOURCES: dict[RecurrentKind, str] = {
    "mamba1": "Gu and Dao 2023, arXiv 2312.00752",
    "mamba2": "Dao and Gu 2024, arXiv 2405.21060",
    "deltanet": "Yang, Kautz and Hatamizadeh 2024, arXiv 2412.06464",
    "kda": "Kimi Linear 2025, arXiv 2510.26692",
    "shortconv": "LFM2: a gated short convolution",
    "lightning": "MiniMax-01 2025, arXiv 2501.08313",
    "rglru": "De et al. 2024 (Griffin), arXiv 2402.19427",
    "rwkv": "Peng et al. 2024 (Eagle and Finch), arXiv 2404.05892",
    "rwkv4": "Peng et al. 2023, arXiv 2305.13048",
}


def terms(size: Size, fit: Fit | None) -> list[Term]:
    """The terms of a size, and of a fit where there is one, in the order in which they are summed."""
    request = size.request
    found = [_group(group, size) for group in size.groups]
    if len(found) > 1:
        total = " + ".join(f"{group.bytes_per_sequence:,}" for group in size.groups)
        found.append(Term("one sequence", f"{total} B", size.bytes_per_sequence, "the sum of the layers"))
    found.append(
        Term(
            "batch",
            f"{many(request.batch, 'sequence')} x {size.bytes_per_sequence:,} B",
            size.bytes_total,
            "each sequence keeps its own cache",
        )
    )
    if request.layout.gpus > 1:
        found.append(_per_gpu(size))
    if size.textbook is not None:
        source = "the formula people learn first, every query head cached: true only for multi-head attention"
        found.append(Term("textbook", size.textbook.formula, size.textbook.bytes_total, source))
    if fit is not None:
        found += _room(fit, size)
    return found


def _group(group: Group, size: Size) -> Term:
    request, cache = size.request, group.cache
    k, v = request.widths.k, request.widths.v
    layers = f"{many(group.copies, 'layer')} x "
    match cache:
        case Attention():
            tokens = attention_tokens(cache, request.context, request.encoder_tokens)
            each = _elements(cache.kv_heads, cache.k_dim, cache.v_dim, k, v)
            return Term(
                cache_name(cache), f"{layers}{_tokens(cache, tokens)} x {each}", *_end(group, _attention_source(cache))
            )
        case Latent():
            sum_ = f"{layers}{request.context:,} tokens x ({cache.rank} latent + {cache.rope} rotary) x {_width(k)}"
            source = "DeepSeek-V2 2024, arXiv 2405.04434: one latent and one shared rotary key for all heads"
            return Term(cache_name(cache), sum_, *_end(group, source))
        case Indexer():
            each = f"({cache.dim} x 1 B + one 4 B scale)" if cache.store else f"{cache.dim} x {_width(k)}"
            source = (
                "DeepSeek-V3.2 2025: 8-bit keys with an fp32 scale" if cache.store else "index keys in the KV dtype"
            )
            return Term(cache_name(cache), f"{layers}{request.context:,} tokens x {each}", *_end(group, source))
        case Compressed():
            entries = f"floor({request.context:,} / {cache.ratio}) entries"
            width = f"({cache.dim} + {cache.indexer} index)" if cache.indexer else f"{cache.dim}"
            source = "DeepSeek-V4 2026: one entry for every few tokens, key and value in one vector"
            return Term(cache_name(cache), f"{layers}{entries} x {width} x {_width(k)}", *_end(group, source))
        case Recurrent():
            state = recurrent_state(cache)
            parts = [
                f"{state.conv_width:,} x {state.columns} columns x {_width(request.widths.conv)}"
                if state.columns
                else "",
                f"{state.state:,} state x {_width(request.widths.state)}" if state.state else "",
            ]
            sum_ = f"{layers}({' + '.join(part for part in parts if part)}), whatever the context"
            return Term(cache_name(cache), sum_, *_end(group, _RECURRENT_SOURCES[cache.kind]))
        case Shared():
            source = "another layer's keys and values are read: Brandon et al. 2024, arXiv 2405.12981"
            return Term(cache_name(cache), f"{layers}0 B", *_end(group, source))
        case _:
            assert_never(cache)


def _end(group: Group, source: str) -> tuple[int, str]:
    return group.bytes_per_sequence, source


def cache_name(cache: Cache) -> str:
    """A cache in a few words: `sliding window 1,024`, `latent 512 + 64`."""
    match cache:
        case Attention(reach="full"):
            return "full attention"
        case Attention(reach="sliding"):
            return f"sliding window {cache.span:,}"
        case Attention(reach="chunked"):
            return f"chunks of {cache.span:,}"
        case Attention():
            return "cross-attention"
        case Latent():
            return f"latent {cache.rank} + {cache.rope}"
        case Indexer():
            return f"index key {cache.dim}"
        case Compressed():
            return f"compressed {cache.ratio}:1"
        case Recurrent():
            return f"{cache.kind} state"
        case Shared(of=of):
            return f"shares {cache_name(of)}"
        case _:
            assert_never(cache)


def _tokens(cache: Attention, tokens: int) -> str:
    match cache.reach:
        case "full":
            return f"{tokens:,} tokens"
        case "sliding" | "chunked":
            return f"min(context, {cache.span:,}) = {tokens:,} tokens"
        case "cross":
            return f"{tokens:,} encoder tokens"
        case _:
            assert_never(cache.reach)


def _elements(kv_heads: int, k_dim: int, v_dim: int, k: DType, v: DType) -> str:
    if not v_dim:
        return f"{kv_heads} KV heads x {k_dim} (key and value in one) x {_width(k)}"
    if k == v and k_dim == v_dim:
        return f"2 x {kv_heads} KV heads x {k_dim} x {_width(k)}"
    if k == v:
        return f"{kv_heads} KV heads x ({k_dim} + {v_dim}) x {_width(k)}"
    return f"{kv_heads} KV heads x ({k_dim} x {_width(k)} + {v_dim} x {_width(v)})"


def _width(dtype: DType) -> str:
    return f"{dtype.block_bytes / dtype.block:g} B"


def _attention_source(cache: Attention) -> str:
    match cache.reach:
        case "full":
            return "KV heads alone are cached: Shazeer 2019, arXiv 1911.02150; Ainslie et al. 2023, arXiv 2305.13245"
        case "sliding":
            return "nothing older than the window is read again: Jiang et al. 2023, arXiv 2310.06825"
        case "chunked":
            return "a token attends within its own chunk: Llama 4's attention_chunk_size"
        case "cross":
            return "the encoder's keys and values, once per sequence: Vaswani et al. 2017, arXiv 1706.03762"
        case _:
            assert_never(cache.reach)


def _per_gpu(size: Size) -> Term:
    request, layout = size.request, size.request.layout
    local = size.rank_bytes(request.context)
    sum_ = f"{many(request.sequences_per_replica, 'sequence')} x {local:,} B"
    source = (
        f"tp {layout.tp} splits heads (latents and at least one head stay whole), pp {layout.pp} splits layers, "
        f"dp {layout.dp} splits the batch, dcp {layout.dcp} splits tokens"
    )
    return Term("fullest GPU", sum_, size.bytes_per_gpu, source)


def _room(fit: Fit, size: Size) -> list[Term]:
    room, each = fit.room, size.rank_bytes(size.request.context)
    found = []
    if room.vram is not None:
        sum_ = f"floor({room.vram:,} x {room.utilization}) - {room.weights:,} weights - {room.overhead:,} overhead"
        found.append(
            Term("budget per GPU", sum_, room.kv_budget, "VRAM x utilization - weights / (tp x pp) - overhead")
        )
    if each and fit.max_batch is not None:
        dp = size.request.layout.dp
        sum_ = f"floor({max(room.kv_budget, 0):,} / {each:,}) x dp {dp} = {fit.max_batch:,} sequences"
        found.append(Term("largest batch", sum_, fit.max_batch // dp * each, "whole sequences at the asked context"))
    return found
