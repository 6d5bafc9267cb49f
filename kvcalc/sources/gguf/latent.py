"""Architectures with latent or compressed attention, and the index keys of sparse attention.

Rules: src/models/ARCH.cpp, create_memory in src/llama-model.cpp, src/llama-kv-cache-{dsa,msa,dsv4,dsa-iswa}.cpp and
src/llama-memory-hybrid-idx.cpp (llama.cpp 0c1e57098).
"""

from collections.abc import Callable

from kvcalc.sources.gguf.blocks import MOST_BLOCKS, Blocks, Cache, Layer, Value

__all__ = ["LATENT", "glm5_attention", "latent", "qwen4_attention"]

_Family = Callable[[Blocks], Callable[[int], Layer]]

_PER_HEAD = {"k_dim": "key", "v_dim": "value"}
_LEGACY = frozenset({"deepseek2", "deepseek32", "glm-dsa", "mistral4"})  # where llama.cpp can do without their keys

_KEY_LENGTH = "attention.indexer.key_length"
_TYPES = "attention.indexer.types"

# How the models keep their index keys: DeepSeek V3.2 and GLM 5 as 8-bit floats with one fp32 scale (presets/README.md).
_STORE: dict[str, Value] = {"store": "fp8+scale"}


def latent(blocks: Blocks) -> Callable[[int], Layer]:
    """One vector of kv_lora_rank + rope elements for all heads, where the file has the per-head sizes apart."""
    keys = blocks.keys
    per_head = {part: keys.number(f"attention.{name}_length_mla") for part, name in _PER_HEAD.items()}
    rank = keys.required("attention.kv_lora_rank")
    if not any(per_head.values()) and keys.arch in _LEGACY:
        keys.notes.append(
            f"The model's attention is latent, of rank {rank:,}, but this file is from before llama.cpp kept it so "
            "and keeps all heads, as is written here. Convert it again for a cache of a fraction of the size."
        )
        return lambda i: (blocks.attention(i),)
    for part, name in _PER_HEAD.items():
        if not per_head[part]:
            keys.refuse(f"attention.{name}_length_mla", "the width of one head before compression")
    width = keys.required("attention.key_length")
    if width < rank or keys.number("attention.value_length") not in (None, rank):
        keys.refuse(
            "attention.key_length", f"kv_lora_rank and the rotary part, at least {rank:,}, with values of {rank:,}"
        )
    fields: dict[str, Value] = {"rank": rank, "rope": width - rank}
    fields |= {part: number for part, number in per_head.items() if number}

    def layer(i: int) -> Layer:
        return (Cache("latent", "latent", {**fields, "heads": blocks.heads[i] or blocks.first_heads()}),)

    return layer


def _indexed(
    attend: _Family, owners: Callable[[Blocks], list[int]], extra: Callable[[Blocks], dict[str, Value]]
) -> _Family:
    """The attention of `attend`, with an index key in the blocks that own one. Draft blocks have one as well."""

    def family(blocks: Blocks) -> Callable[[int], Layer]:
        layer, own = attend(blocks), owners(blocks)
        if not any(own):
            return layer
        fields = {"dim": blocks.keys.required(_KEY_LENGTH), **extra(blocks)}
        index = Cache("indexer", "indexer", fields)
        return lambda i: (*layer(i), index) if own[i] else layer(i)

    return family


def _all(blocks: Blocks) -> list[int]:
    return [1] * blocks.total


def _typed(blocks: Blocks, default: list[int]) -> list[int]:
    """indexer.types says for each block of the trunk whether it owns an indexer."""
    types = blocks.keys.each(_TYPES, blocks.trunk, among=(blocks.total,)) or default
    return types[: blocks.trunk] + [1] * (blocks.total - blocks.trunk)


def _glm_dsa(blocks: Blocks) -> list[int]:
    """Without types: every block up to GLM-5.1; in GLM-5.2, told by its limit, two and every fourth (glm-dsa.cpp)."""
    newer = (blocks.keys.number("context_length", high=1 << 40) or 0) >= 1 << 20
    if blocks.keys.get(_TYPES) is None:
        blocks.keys.default(_TYPES, "two and every fourth block, by the context_length" if newer else "every block")
    return _typed(blocks, [int(not newer or i < 2 or i % 4 == 2) for i in range(blocks.trunk)])


def _hy_v4(blocks: Blocks) -> list[int]:
    """Files whose attention is full everywhere choose no tokens, and have no indexer."""
    if not blocks.keys.number("attention.indexer.top_k"):
        return [0] * blocks.total
    return _typed(blocks, [0] * blocks.trunk)


def _minimax_m3(blocks: Blocks) -> list[int]:
    """The leading dense blocks attend to everything."""
    dense = blocks.keys.number("leading_dense_block_count") or 0
    return [int(i >= dense) for i in range(blocks.total)]


def _plain(blocks: Blocks) -> Callable[[int], Layer]:
    return lambda i: (blocks.attention(i),)


def _store(_: Blocks) -> dict[str, Value]:
    return _STORE


def _as_is(_: Blocks) -> dict[str, Value]:
    return {}


def _block(blocks: Blocks) -> dict[str, Value]:
    """Sparse attention chooses whole blocks of tokens."""
    return {"block": blocks.keys.required("attention.indexer.block_size")}


def _three_keys(blocks: Blocks) -> dict[str, Value]:
    """GLM-5.3 Flash pools its index keys: key, gate and pooled key of each token stand side by side."""
    keys = blocks.keys
    keys.required("attention.indexer.kpool", 2)
    keys.notes.append("The index key counts as three, key, gate and pooled key, which is what llama.cpp keeps.")
    return {"dim": 3 * keys.required(_KEY_LENGTH)}


def _one_vector(blocks: Blocks) -> None:
    """Attention in which one vector is key and value of all heads."""
    for i, kv_heads in enumerate(blocks.kv_heads):
        if kv_heads != 1:
            blocks.keys.refuse("attention.head_count_kv", f"1 in block {i}, one vector as key and value")
        if not blocks.heads[i]:
            blocks.keys.refuse("attention.head_count", f"a number above zero in block {i}")


def _deepseek4(blocks: Blocks) -> Callable[[int], Layer]:
    """A window in every block, and entries that stand for 4 or for 128 tokens in most."""
    keys = blocks.keys
    _one_vector(blocks)
    lengths = tuple(range(blocks.total, MOST_BLOCKS + 1))  # the draft layer has a ratio even where the file lacks it
    ratios = keys.each("attention.compress_ratios", blocks.total, among=lengths)
    if ratios is None or not {*ratios} <= {0, 4, 128}:
        keys.refuse("attention.compress_ratios", "0, 4 or 128 for each block")
    dim, _ = blocks.widths()
    common: dict[str, Value] = {"rope": keys.number("rope.dimension_count", 0, dim) or 0}
    window: dict[str, Value] = {"window": keys.required("attention.sliding_window"), "kv_heads": 1, **common}
    index = keys.required(_KEY_LENGTH)

    def layer(i: int) -> Layer:
        heads: dict[str, Value] = {"heads": blocks.heads[i]}
        sliding = Cache("window", "sliding", {**heads, "k_dim": dim, "v_dim": 0, **window})
        compressed: dict[str, Value] = {**heads, "ratio": ratios[i], "dim": dim, **common}
        if ratios[i] == 4:
            return sliding, Cache("csa", "compressed", {**compressed, "overlap": True, "indexer": index})
        return (sliding, Cache("hca", "compressed", compressed)) if ratios[i] else (sliding,)

    return layer


def _dots3(blocks: Blocks) -> Callable[[int], Layer]:
    """Latent attention in all blocks, of two sizes: index keys in the full ones, a window in the others."""
    keys = blocks.keys
    _one_vector(blocks)
    full = _indexed(latent, lambda own: _typed(own, [0] * own.trunk), _as_is)(blocks)
    slides = keys.each("attention.sliding_window_pattern", blocks.total, among=(blocks.trunk,))
    if slides is None:
        keys.refuse("attention.sliding_window_pattern", "a list with one entry for each layer")
    window, rank = keys.required("attention.sliding_window"), keys.required("attention.kv_lora_rank_swa")
    width = keys.required("attention.key_length_swa", rank)
    for name in _PER_HEAD.values():
        keys.required(f"attention.{name}_length_mla_swa")
    keys.notes.append("The latent of the sliding layers is written as one vector that is key and value.")
    fields: dict[str, Value] = {"kv_heads": 1, "k_dim": width, "v_dim": 0, "rope": width - rank, "window": window}

    def layer(i: int) -> Layer:
        if i >= blocks.trunk or not slides[i]:
            return full(i)
        return (Cache("sliding", "sliding", {"heads": blocks.heads[i], **fields}),)

    return layer


qwen4_attention = _indexed(_plain, _all, _as_is)
glm5_attention = _indexed(latent, lambda blocks: _typed(blocks, [1] * blocks.trunk), _three_keys)

LATENT: dict[str, _Family] = {
    "deepseek2": latent,
    "mistral4": latent,
    "deepseek32": _indexed(latent, _all, _store),
    "glm-dsa": _indexed(latent, _glm_dsa, _store),
    "hy_v4": _indexed(latent, _hy_v4, _as_is),
    "minimax-m3": _indexed(_plain, _minimax_m3, _block),
    "deepseek4": _deepseek4,
    "dots3note": _dots3,
}
