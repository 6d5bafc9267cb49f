"""Families with a rule of their own for other caches: compressed ones, indexers, recurrent states."""

from collections.abc import Callable, Sequence

from kvcalc.errors import shown
from kvcalc.preset.notation import SHARED, Names
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.kinds import SPELLINGS, Kinds, agreed, spelt
from kvcalc.sources.config.layouts import rope_flags
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import Fields, Numbers

__all__ = [
    "bailing_kda",
    "compressed",
    "indexers",
    "inkling_conv",
    "inkling_sliding",
    "kda",
    "large4_latent",
    "m3_indexer",
    "olmo_deltanet",
    "source_sharing",
    "v4_heads",
    "v4_window",
    "zamba2_heads",
    "zamba_heads",
]


def indexers(period: Callable[[int], bool] | None = None) -> Kinds:
    """DeepSeek sparse attention: which layers own an indexer ("indexed"), while the others reuse its choice ("full").

    `indexer_types`, `index_topk_pattern` (F and S), and `index_topk_freq` with its offset, which must agree; else all
    of them, or what `period(index)` says, where the class has that instead of a frequency (GlmMoeDsaConfig,
    MistralLarge4TextConfig, HYV4Config).
    """

    def kinds(config: Config) -> list[str]:
        count = config.layers()
        if config.words("layer_types") and set(spelt(config, "layer_types", SPELLINGS)) != {"indexed"}:
            config.expected("deepseek_sparse_attention for each layer", "layer_types")
        keys = ("indexer_types", "index_topk_pattern")
        found = {key: _owners(config, key) for key in keys if config.get(key)[1] is not None}
        if period is None and (freq := config.integer("index_topk_freq")) is not None:
            found["index_topk_freq"] = _by_frequency(config, freq, count)
        elif period is None:
            config.ignore("index_skip_topk_offset")
        if not found:
            own = [period is None or period(i) for i in range(count)]
            config.by_rule = period is None or not all(own)
            return ["indexed" if each else "full" for each in own]
        return agreed(config, found)

    return kinds


def _by_frequency(config: Config, freq: int, count: int) -> list[str]:
    """Every `index_topk_freq`-th layer from `index_skip_topk_offset` on, and all before it (GlmMoeDsaConfig)."""
    offset = config.integer("index_skip_topk_offset", low=0)
    if offset is None:
        offset = config.assume("index_skip_topk_offset", 2)
    return ["indexed" if max(i - offset + 1, 0) % freq == 0 else "full" for i in range(count)]


def _owners(config: Config, key: str) -> list[str]:
    """A list that says full or shared of each layer, or a text with F or S."""
    _, value = config.get(key)
    listed = list(value[:65536]) if isinstance(value, str) else config.words(key) or []
    config.per_layer(key, listed)
    words = {"full": "indexed", "F": "indexed", "shared": "full", "S": "full"}
    for at, word in enumerate(listed):
        if word not in words:
            config.refuse(f"expected full or shared, got {shown(word)}", key, at)
    if words[listed[0]] == "full":
        config.refuse(f"expected full, since no earlier layer chooses for it, got {shown(listed[0])}", key, 0)
    return [words[word] for word in listed[: config.layers()]]


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


def large4_latent(config: Config, where: Sequence[int]) -> Fields:
    """Mistral Large 4: a layer without rotary positions keeps its latent alone (MistralLarge4Attention)."""
    flags = rope_flags(config, default_interval=4)
    fields = n.latent(config, where)
    rope = [fields["rope"] if flags[i] else 0 for i in where]
    return {**fields, "rope": rope[0] if len(set(rope)) == 1 else rope} if rope else fields


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
    dim = config.integer("attention_head_dim") or config.derive(
        "attention_head_dim", n.head_dim(config, queries, 2), "2 x hidden_size / heads"
    )
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

    def number(key: str, otherwise: int, made: str) -> int:
        return config.integer(key) or config.derive(key, otherwise, made)

    k_heads = number("linear_num_key_heads", queries, "num_attention_heads")
    k_dim = number(
        "linear_key_head_dim", max(3 * n.width(config) // (4 * k_heads), 1), "3/4 of hidden_size / its heads"
    )
    return {
        "k_heads": k_heads,
        "k_dim": k_dim,
        "v_heads": number("linear_num_value_heads", queries, "num_attention_heads"),
        "v_dim": number("linear_value_head_dim", 2 * k_dim, "2 x linear_key_head_dim"),
        "conv": config.number("linear_conv_kernel_dim"),
    }


_KDA = ("linear_num_heads", "linear_head_dim", "linear_conv_kernel_dim")


def kda(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Kimi delta attention, whose numbers stand beside its list of layers; transformers saves them beside that, too."""
    inner = config.inner("linear_attn_config")
    stated = (
        config.integer("linear_num_heads"),
        config.integer("linear_head_dim"),
        config.data.get("linear_conv_kernel_dim") and config.integer("linear_conv_kernel_dim"),
    )
    if inner is None:  # KimiLinearConfig
        return {
            "heads": stated[0] or config.assume("linear_num_heads", 32),
            "head_dim": stated[1] or config.assume("linear_head_dim", 128),
            "conv": config.number("linear_conv_kernel_dim"),
        }
    conv = inner.integer("short_conv_kernel_size") or config.number("linear_conv_kernel_dim")
    numbers = inner.number("num_heads"), inner.number("head_dim"), conv
    for key, own, number in zip(_KDA, stated, numbers, strict=True):
        if own not in (None, number):
            config.expected(f"{number}, as linear_attn_config says", key)
    return dict(zip(("heads", "head_dim", "conv"), numbers, strict=True))


def bailing_kda(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Ling hybrid: Kimi delta attention with the model's own heads (BailingHybridConfig).

    transformers saves their numbers under names of their own, and then `head_dim` is the rope part of the latents.
    """
    heads, conv = n.query_heads(config), config.number("short_conv_kernel_size")
    dim, rope = config.number("head_dim"), config.number("qk_rope_head_dim")
    own = config.integer("linear_head_dim")
    if own is not None and dim not in (own, rope):
        config.expected(f"{dim}, as head_dim says", "linear_head_dim")
    for key, number in (("linear_num_heads", heads), ("linear_conv_kernel_dim", conv)):
        if config.integer(key) not in (None, number):
            config.expected(f"{number}, which {config.model_type} reads elsewhere", key)
    return {"heads": heads, "head_dim": own or dim, "conv": conv}


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
