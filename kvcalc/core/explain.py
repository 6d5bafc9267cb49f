"""Each term of the sum in words: its rule, its numbers, and where the rule comes from. What --explain prints."""

from typing import NamedTuple, assert_never

from kvcalc.core.dtypes import DType
from kvcalc.core.fitting import Fit
from kvcalc.core.formula import Widths, attention_tokens, recurrent_state, size
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, RecurrentKind, Shared
from kvcalc.core.overheads import Overhead
from kvcalc.core.sharding import fullest_stage, rank_tokens
from kvcalc.core.sizing import Size
from kvcalc.core.units import ceil_div, format_bytes, many

__all__ = ["Term", "cache_name", "terms"]


class Term(NamedTuple):
    """One line of the sum.

    Attributes:
        name: What the line is about: a cache, the batch, a limit.
        sum: The product of its numbers in words: `32 layers x 4,096 tokens x 2 x 8 KV heads x 128 x 2 B`.
        bytes: Its result in bytes.
        source: The rule in a few words, and the paper or file that it is from.
    """

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


def terms(sized: Size, fit: Fit | None) -> list[Term]:
    """The terms of a size, and of a fit where there is one, in the order in which they are summed."""
    request = sized.request
    widths, encoder_tokens = request.widths, request.encoder_tokens
    found = [
        Term(
            cache_name(group.cache),
            _sum(group.cache, group.copies, request.context, widths, encoder_tokens),
            group.bytes_per_sequence,
            _source(group.cache),
        )
        for group in sized.groups
    ]
    if len(found) > 1:
        total = " + ".join(f"{group.bytes_per_sequence:,}" for group in sized.groups)
        found.append(Term("one sequence", f"{total} B", sized.bytes_per_sequence, "the sum of the layers"))
    batch = f"{many(request.batch, 'sequence')} x {sized.bytes_per_sequence:,} B"
    found.append(Term("batch", batch, sized.bytes_total, "each sequence keeps its own cache"))
    if request.layout.gpus > 1:
        found += _per_gpu(sized)
    if sized.textbook is not None:
        source = "the formula people learn first, every query head cached: true only for multi-head attention"
        found.append(Term("textbook", sized.textbook.formula, sized.textbook.bytes_total, source))
    return found if fit is None else found + _room(fit, sized)


def _sum(cache: Cache, copies: int, context: int, widths: Widths, encoder_tokens: int | None) -> str:
    """What `copies` equal caches hold for one sequence, as a product of its numbers."""
    layers = f"{many(copies, 'layer')} x "
    k = _width(widths.k)
    match cache:
        case Attention():
            tokens = many(attention_tokens(cache, context, encoder_tokens), _token_noun(cache, context))
            return f"{layers}{tokens} x {_elements(cache, widths)}"
        case Latent():
            return f"{layers}{many(context, 'token')} x ({cache.rank} latent + {cache.rope} rotary) x {k}"
        case Indexer():
            each = f"({cache.dim} x 1 B + one 4 B scale)" if cache.store else f"{cache.dim} x {k}"
            return f"{layers}{many(context, 'token')} x {each}"
        case Compressed():
            width = f"({cache.dim} + {cache.indexer} index)" if cache.indexer else f"{cache.dim}"
            return f"{layers}floor({context:,} / {cache.ratio}) entries x {width} x {k}"
        case Recurrent():
            return f"{layers}({_state(cache, widths)}), whatever the context"
        case Shared():
            return f"{layers}0 B"
        case _:
            assert_never(cache)


def _token_noun(cache: Attention, context: int) -> str:
    """What an attention layer counts its tokens in: those of the context, of its window, or of the encoder."""
    match cache.pattern:
        case "full":
            return "token"
        case "sliding" | "chunked" as pattern:
            full = cache.span is not None and context >= cache.span
            return ("window" if pattern == "sliding" else "chunk") + " token" if full else "token"
        case "cross":
            return "encoder token"
        case _:
            assert_never(cache.pattern)


def _elements(cache: Attention, widths: Widths) -> str:
    heads = many(cache.kv_heads, "KV head")
    k, v = _width(widths.k), _width(widths.v)
    if not cache.v_dim:
        return f"{heads} x {cache.k_dim} (key and value in one) x {k}"
    if k != v:
        return f"{heads} x ({cache.k_dim} x {k} + {cache.v_dim} x {v})"
    return (
        f"2 x {heads} x {cache.k_dim} x {k}"
        if cache.k_dim == cache.v_dim
        else (f"{heads} x ({cache.k_dim} + {cache.v_dim}) x {k}")
    )


def _state(cache: Recurrent, widths: Widths) -> str:
    state = recurrent_state(cache)
    parts = []
    if state.columns:
        parts.append(f"{state.conv_width:,} x {many(state.columns, 'column')} x {_width(widths.conv)}")
    if state.state:
        parts.append(f"{state.state:,} state x {_width(widths.state)}")
    return " + ".join(parts)


def _width(dtype: DType) -> str:
    return f"{dtype.block_bytes / dtype.block:g} B"


def cache_name(cache: Cache) -> str:
    """A cache in a few words: `sliding window 1,024`, `latent 512 + 64`."""
    match cache:
        case Attention():
            return _attention_name(cache)
        case Latent():
            return f"latent {cache.rank} + {cache.rope}"
        case Indexer():
            return f"index key {cache.dim}"
        case Compressed():
            return f"compressed {cache.ratio}:1"
        case Recurrent():
            return f"{cache.kind} state"
        case Shared(of=of):
            return f"{cache_name(of)}, shared"
        case _:
            assert_never(cache)


def _attention_name(cache: Attention) -> str:
    match cache.pattern:
        case "full":
            return "full attention"
        case "sliding":
            return f"sliding window {cache.span:,}"
        case "chunked":
            return f"chunks of {cache.span:,}"
        case "cross":
            return "cross-attention"
        case _:
            assert_never(cache.pattern)


def _source(cache: Cache) -> str:
    """The rule of a cache and where it comes from."""
    match cache:
        case Attention():
            return _attention_source(cache)
        case Latent():
            return "DeepSeek-V2 2024, arXiv 2405.04434: one latent and one shared rotary key for all heads"
        case Indexer(store=store):
            return "DeepSeek-V3.2 2025: 8-bit keys with an fp32 scale" if store else "index keys in the KV dtype"
        case Compressed():
            return "DeepSeek-V4 2026: one entry for every few tokens, key and value in one vector"
        case Recurrent(kind=kind):
            return _RECURRENT_SOURCES[kind]
        case Shared():
            return "another layer's keys and values are read: Brandon et al. 2024, arXiv 2405.12981"
        case _:
            assert_never(cache)


def _attention_source(cache: Attention) -> str:
    match cache.pattern:
        case "full":
            return "KV heads alone are cached: Shazeer 2019, arXiv 1911.02150; Ainslie et al. 2023, arXiv 2305.13245"
        case "sliding":
            return "nothing older than the window is read again: Jiang et al. 2023, arXiv 2310.06825"
        case "chunked":
            return "a token attends within its own chunk: Llama 4's attention_chunk_size"
        case "cross":
            return "the encoder's keys and values, once per sequence: Vaswani et al. 2017, arXiv 1706.03762"
        case _:
            assert_never(cache.pattern)


def _per_gpu(sized: Size) -> list[Term]:
    """What the fullest GPU holds of one sequence, cache by cache, and of its share of the batch."""
    request, layout = sized.request, sized.request.layout
    stage, caches = fullest_stage(sized.placement, request.context, request.widths, request.encoder_tokens)
    name = f"GPU of stage {stage + 1} of {layout.pp}" if layout.pp > 1 else "each GPU"
    found = []
    for cache, copies in caches.items():
        tokens = rank_tokens(cache, request.context, layout.dcp)
        held = copies * size(cache, tokens, request.widths, request.encoder_tokens)
        sum_ = _sum(cache, copies, tokens, request.widths, request.encoder_tokens)
        found.append(Term(f"{name}, {cache_name(cache)}", sum_, held, _sharding_source(cache, sized)))
    local = sized.rank_bytes(request.context)
    sum_ = f"{many(request.sequences_per_replica, 'sequence')} x {local:,} B"
    source = f"the fullest of dp {layout.dp} replicas holds ceil({request.batch:,} / {layout.dp}) sequences"
    return [
        *found,
        Term("fullest GPU", sum_, sized.bytes_per_gpu, source if layout.dp > 1 else "its share of the batch"),
    ]


def _sharding_source(cache: Cache, sized: Size) -> str:
    """Which degrees of parallelism make a cache smaller on one GPU, and which do not."""
    layout = sized.request.layout
    whole = _whole_on_ranks(cache)
    parts = []
    if layout.tp > 1:
        parts.append(
            f"tp {layout.tp} leaves it whole" if whole else f"tp {layout.tp} splits heads, at least one on each"
        )
    if layout.pp > 1:
        parts.append(f"pp {layout.pp} splits layers")
    if layout.dcp > 1:
        split = rank_tokens(cache, layout.dcp, layout.dcp) == 1
        parts.append(f"dcp {layout.dcp} splits tokens" if split else f"dcp {layout.dcp} leaves its tokens whole")
    return "; ".join(parts) or "a whole replica"


def _whole_on_ranks(cache: Cache) -> bool:
    """Whether every rank of tp holds all of a cache, since one vector serves all heads (`sharding.shard`)."""
    match cache:
        case Latent() | Indexer() | Compressed():
            return True
        case Attention() | Recurrent() | Shared():
            return False
        case _:
            assert_never(cache)


def _overhead_name(line: Overhead) -> str:
    """What a line of the memory is called, with its range."""
    where = "" if line.inside else ", outside of the share"
    low, likely, high = line.size
    between = "" if low == likely == high else f", {format_bytes(low)} to {format_bytes(high)}"
    return f"{line.name}{where}{between}"


def _overhead_rule(line: Overhead) -> str:
    """How it is found, and what would give memory back."""
    return f"{line.rule}; {line.saving}" if line.saving else line.rule


def _room(fit: Fit, sized: Size) -> list[Term]:
    room, request = fit.memory, sized.request
    layout, each = request.layout, sized.rank_bytes(request.context)
    found = []
    if room.vram is not None and room.weights is not None:
        sum_ = f"ceil({room.whole_weights:,} B / (tp {layout.tp} x pp {layout.pp}))"
        if room.weights != ceil_div(room.whole_weights or 0, layout.tp * layout.pp):
            sum_ = f"the parts of the fullest rank at tp {layout.tp} x pp {layout.pp}, some whole on each"
        if room.on_host is not None:
            held, more = room.weights + room.on_host.likely, room.on_host.high - room.on_host.likely
            sum_ = f"{held:,} B of this rank - {room.on_host.likely:,} B of its layers on the host"
            sum_ += f", or up to {more:,} B more, as tensors go whole"
        found.append(Term("weights per GPU", sum_, room.weights, room.weights_source or ""))
        found += [
            Term(_overhead_name(line), _overhead_rule(line), line.size.likely, line.source) for line in room.overheads
        ]
        beside = f"{room.weights:,} weights - {room.overhead:,} overhead"
        sum_, rule = f"floor({room.vram:,} x {room.utilization}) - {beside}", "VRAM x utilization - weights - overhead"
        if room.of_free:
            sum_, rule = (
                f"floor(({room.vram:,} - {beside}) x {room.utilization})",
                "share of what weights leave",
            )
        found.append(Term("budget per GPU", sum_, room.kv_budget, rule))
    if each and fit.max_batch is not None:
        local, budget = fit.max_batch // layout.dp, max(room.kv_budget, 0)
        sum_ = f"floor({budget:,} / {each:,}) = {many(local, 'sequence')} of {each:,} B"
        rule = "whole sequences at the asked context"
        if layout.dp > 1:
            rule += f", on each of {layout.dp} replicas: {fit.max_batch:,}"
        found.append(Term("largest batch", sum_, local * each, rule))
    return found
