"""Families with a rule of their own for other caches: compressed ones, indexers, recurrent states."""

from collections.abc import Sequence

from kvcalc.notation import SHARED, Names
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import Fields, Numbers

__all__ = [
    "bailing_kda",
    "compressed",
    "inkling_conv",
    "inkling_sliding",
    "m3_indexer",
    "olmo_deltanet",
    "source_sharing",
    "v4_heads",
    "v4_window",
    "zamba2_heads",
    "zamba_heads",
]


def source_sharing(config: Config, layers: list[Names]) -> list[Names]:
    """Mistral Large 4: `kv_source_layers` names the layer whose latent each layer uses; its indexer stays its own."""
    sources = config.integers("kv_source_layers", 0, len(layers) - 1)
    if sources is None:
        return layers
    config.per_layer("kv_source_layers", sources)
    if any(source > i for i, source in enumerate(sources[: len(layers)])) or sources[0] != 0:
        config.refuse("expected earlier layers only", "kv_source_layers")
    return [
        names if source == i else (SHARED + names[0], *names[1:])
        for i, (names, source) in enumerate(zip(layers, sources, strict=False))
    ]


def m3_indexer(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """MiniMax-M3: one index key in the KV dtype; tokens are chosen in blocks, which become an engine's block size."""
    inner = config.inner("sparse_attention_config") or config
    return {
        "dim": inner.integer("sparse_index_dim") or config.number("index_head_dim"),
        "block": inner.integer("sparse_block_size") or config.number("index_block_size"),
    }


def v4_heads(config: Config) -> Fields:
    return {"heads": n.query_heads(config)}


def v4_window(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """DeepSeek V4: one vector is key and value of the window that every layer has."""
    dim, rope = config.number("head_dim"), config.number("qk_rope_head_dim")
    config.ignore(*n.KV_HEADS)
    return {
        "kind": "sliding",
        "kv_heads": 1,
        "k_dim": dim,
        "v_dim": 0,
        "rope": rope,
        "window": config.number("sliding_window"),
    }


def compressed(ratio: int) -> Numbers:
    """DeepSeek V4: 4:1 entries overlap and have an index key each; 128:1 entries are few enough to attend to all."""

    def numbers(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
        dim, rope = config.number("head_dim"), config.number("qk_rope_head_dim")
        fields: Fields = {"kind": "compressed", "ratio": ratio, "dim": dim, "rope": rope}
        if ratio == 4:
            fields |= {"overlap": True, "indexer": config.number("index_head_dim")}
        return fields

    return numbers


def zamba_heads(config: Config) -> Fields:
    """Zamba: attention sees the hidden state and the embedding side by side (ZambaConfig)."""
    queries = n.query_heads(config)
    dim = config.integer("attention_head_dim") or n.head_dim(config, queries, 2)
    if config.integer("attention_hidden_size") not in (None, dim * queries):
        config.expected(f"{dim * queries}, the size of all heads together", "attention_hidden_size")
    config.ignore("kv_channels", "num_query_groups")
    return {"heads": queries, "kv_heads": n.grouped(config, queries), "head_dim": dim}


def zamba2_heads(config: Config) -> Fields:
    """Zamba2 computes the size of a head anew over anything in the file: 2 x width / heads (Zamba2Config)."""
    queries = n.query_heads(config)
    config.ignore("kv_channels", "attention_head_dim", "attention_hidden_size", "num_query_groups")
    return {"heads": queries, "kv_heads": n.grouped(config, queries), "head_dim": n.head_dim(config, queries, 2)}


def olmo_deltanet(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """OLMo Hybrid derives the widths of its gated delta-net that a file leaves out (OlmoHybridConfig)."""
    queries = n.query_heads(config)
    k_heads = config.integer("linear_num_key_heads") or queries
    k_dim = config.integer("linear_key_head_dim") or max(3 * n.width(config) // (4 * k_heads), 1)
    return {
        "k_heads": k_heads,
        "k_dim": k_dim,
        "v_heads": config.integer("linear_num_value_heads") or queries,
        "v_dim": config.integer("linear_value_head_dim") or 2 * k_dim,
        "conv": config.number("linear_conv_kernel_dim"),
    }


def bailing_kda(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Ling hybrid: Kimi delta attention with the model's own heads (BailingHybridConfig)."""
    conv = config.number("short_conv_kernel_size")
    return {"heads": n.query_heads(config), "head_dim": config.number("head_dim"), "conv": conv}


def inkling_sliding(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Inkling: sliding layers have heads of their own (InklingTextConfig)."""
    queries = config.number("swa_num_attention_heads")
    cached = n.grouped(config, queries, "swa_num_key_value_heads")
    window_size = config.number("sliding_window_size", "sliding_window")
    return {"heads": queries, "kv_heads": cached, "head_dim": config.number("swa_head_dim"), "window": window_size}


def inkling_conv(kv_heads: str, dim: str) -> Numbers:
    """Inkling: four short convolutions in every layer, over keys, values and twice the hidden state."""

    def numbers(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
        width = 2 * config.number(kv_heads) * config.number(dim) + 2 * n.width(config)
        conv = config.number("sconv_kernel_size", "conv_kernel_size")
        return {"kind": "shortconv", "width": width, "conv": conv}

    return numbers
