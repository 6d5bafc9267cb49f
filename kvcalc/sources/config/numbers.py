"""The numbers of each kind of cache, under all the names that published configurations have for them.

Functions of a Config give fields at the top of a preset; functions of a Config and the indices of the layers that hold
the cache give the fields of one entry of `caches`. A field with a number for each layer is a list only if they differ.
"""

from collections.abc import Callable, Sequence

from kvcalc.errors import shown
from kvcalc.sources.config.kinds import window
from kvcalc.sources.config.lookup import Config

__all__ = [
    "HEADS",
    "HEAD_DIM",
    "KV_HEADS",
    "SHARED_WIDTH",
    "WIDTH",
    "Fields",
    "Numbers",
    "chunked",
    "deltanet",
    "expanded",
    "grouped",
    "heads",
    "indexer",
    "latent",
    "latent_heads",
    "lightning",
    "mamba1",
    "mamba2",
    "nothing",
    "query_heads",
    "rglru",
    "rwkv",
    "rwkv4",
    "shortconv",
    "sliding",
    "state_width",
    "width",
    "zamba2_state",
]

SHARED_WIDTH = "hidden_size / heads"
Fields = dict[str, object]
Numbers = Callable[[Config, Sequence[int]], Fields]

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_q_heads", "decoder_attention_heads")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv", "key_size")
# Types whose class knows no key-value heads: it caches every head, whatever an edited file says.
_EVERY_HEAD = ("biogpt", "bloom", "codegen", "ctrl", "gpt2", "gpt_neo", "gpt_neox", "gpt_neox_japanese", "gptj", "opt")
# Types whose heads share out the width whatever `head_dim` says: their attention never looks at it (modeling files of
# transformers 5.24.0). For Cohere 1 and 2 only vLLM's does not (commandr.py): a file that says something else is sized
# differently by different engines.
_SHARED_OUT = (
    *_EVERY_HEAD, "chameleon", "cohere", "cohere2", "dbrx", "deepseek_ocr2_text", "git", "glm4v_text", "gpt_bigcode",
    "mllama_text_model", "mpt", "persimmon", "qwen2_vl_text", "qwen2_5_vl_text", "stablelm",
)  # fmt: skip
# Types whose published files state the size of a head, mostly not width / heads, and whose class has none of its own:
# what their heads share out of the width is a guess where the key is missing.
_STATED_SIZE = (
    "chatglm", "falcon_h1", "glm4_moe", "glm4v_moe_text", "hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe",
    "hunyuan_vl_text", "hy_v3", "minimax_m1", "minimax_text_01", "qwen", "qwen3_asr_text", "qwen3_moe",
    "qwen3_omni_moe_talker_text", "qwen3_omni_moe_text", "qwen3_vl_moe_text", "step3p7",
)  # fmt: skip
# Types that never had fewer key-value heads than query heads: their files have no key for them.
_NO_GROUPS = (*_EVERY_HEAD, "baichuan", "git", "internlm", "mpt", "persimmon", "phi-msft", "qwen")
WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim", "emb_size")


def nothing(config: Config) -> Fields:  # noqa: ARG001  # the signature of all of them
    """Models without attention heads."""
    return {}


def width(config: Config) -> int:
    return config.number(*WIDTH)


def query_heads(config: Config) -> int:
    return config.number(*HEADS)


def grouped(config: Config, queries: int, *keys: str) -> int:
    """Key-value heads: stated, or as many as query heads, which must be a multiple of them."""
    keys = keys or KV_HEADS
    cached = config.integer(*keys)
    if cached is None:
        unstated = config.lists_none(*keys) and config.model_type not in _NO_GROUPS
        cached = config.derive(keys[0], queries, "all query heads") if unstated else queries
    if queries % cached:
        config.expected(f"a divisor of the {queries} query heads", config.get(*keys)[0])
    if cached != queries and config.model_type in _EVERY_HEAD:
        config.expected(f"{queries}, since {config.model_type} caches every head", config.get(*keys)[0])
    return cached


def head_dim(config: Config, queries: int, factor: int = 1) -> int:
    """Elements per head where no key states them: the width divided by the query heads."""
    whole = width(config) * factor
    if whole % queries:
        config.refuse(
            f"expected the size of a head, since {queries} heads do not divide {whole}; got nothing", "head_dim"
        )
    return whole // queries


def heads(config: Config, kv_heads: int | None = None) -> Fields:
    """Query heads, key-value heads and head size of ordinary attention. A stated head size beats width / heads."""
    queries = query_heads(config)
    cached = grouped(config, queries) if kv_heads is None else kv_heads
    _check_shared(config, queries)
    return {"heads": queries, "kv_heads": cached, "head_dim": _own_size(config, queries, *HEAD_DIM)}


def _own_size(config: Config, queries: int, *keys: str) -> int:
    """The head size that is stated, else the shared width, which is named where files of the type state one."""
    dim = config.integer(*keys)
    if dim is not None:
        return dim
    shared = head_dim(config, queries)
    return config.derive(keys[0], shared, SHARED_WIDTH) if config.model_type in _STATED_SIZE else shared


def _check_shared(config: Config, queries: int) -> None:
    """Refuse another head size than the shared width, where that is what is read."""
    stated = config.data.get("head_dim")
    if config.model_type in _SHARED_OUT and stated is not None and stated != (own := head_dim(config, queries)):
        what = f"{own}, the width shared by the heads, since {config.model_type} reads no head size"
        config.expected(what, "head_dim")


def sliding(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    return {"window": window(config)}


def chunked(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    return {"chunk": config.number("attention_chunk_size")}


def latent_heads(config: Config) -> Fields:
    """Per-head widths before compression. `num_key_value_heads` and `head_dim` are stated and do not count.

    MiniCPM3 leaves `v_head_dim` out: width / heads (MiniCPM3Config).
    """
    config.ignore(*KV_HEADS, "head_dim")
    if not config.flag("use_mla", default=True):
        config.expected(f"true, since {config.model_type} keeps latents", "use_mla")
    queries = query_heads(config)
    v_dim = config.integer("v_head_dim") or config.derive("v_head_dim", head_dim(config, queries), SHARED_WIDTH)
    k_dim = config.number("qk_nope_head_dim", low=0) + config.number("qk_rope_head_dim", low=0)
    return {"heads": queries, "k_dim": k_dim, "v_dim": v_dim}


def latent(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    return {"rank": config.number("kv_lora_rank"), "rope": config.number("qk_rope_head_dim", low=0)}


def indexer(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """DeepSeek sparse attention keeps its index keys as 8-bit floats with one scale, whatever the KV dtype."""
    return {"dim": config.number("index_head_dim"), "store": "fp8+scale"}


_STATE = ("mamba_d_state", "ssm_state_size", "state_size")
_CONV = ("mamba_d_conv", "conv_kernel", "conv_dimension")
_EXPAND = ("mamba_expand", "expansion_factor", "expand")
_GROUPS = ("mamba_n_groups", "mamba_num_groups", "mamba_ngroups", "n_groups")
_CHUNKS = ("chunk_size", "mamba_chunk_size")  # how many tokens a kernel takes at once


def mamba1(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """The stated inner width beats expand x width: Falcon Mamba states an `expand` that is 8 times too large.

    So it does in MambaConfig and FalconMambaConfig, where the key is set last. Jamba's and Zamba's `intermediate_size`
    is that of the feed-forward part: they have `mamba_expand` instead.
    """
    apart = "mamba_expand" in config.data or "mamba_expand" in config.defaults
    inner = config.number("intermediate_size") if "intermediate_size" in config.data and not apart else None
    if inner is not None:
        config.ignore(*_EXPAND)
    else:
        inner, made = expanded(config)
        if not apart:  # published files state the width, and some an `expand` that is not it
            config.derive("intermediate_size", inner, made)
    parts = config.integer("n_mamba_heads") or 1  # Zamba cuts the same state into heads (ZambaConfig)
    if inner % parts:
        config.expected(f"a divisor of {inner}, the inner width", "n_mamba_heads")
    return {"inner": inner, "state": config.number(*_STATE), "conv": config.number(*_CONV)}


def expanded(config: Config) -> tuple[int, str]:
    """The inner width of a state as the classes have it that do not take it from the heads, and what it is made of."""
    return config.number(*_EXPAND) * width(config), f"{config.get(*_EXPAND)[0]} x width"


def state_width(config: Config) -> tuple[int, str]:
    """Falcon-H1: `mamba_d_ssm` is the inner width, and expand x width only where it is null (FalconH1Config)."""
    stated = config.integer("mamba_d_ssm")
    if stated is None:
        return expanded(config)
    config.ignore(*_EXPAND)
    return stated, "mamba_d_ssm"


def mamba2(
    heads_keys: Sequence[str], dim_keys: Sequence[str], inner: Callable[[Config], tuple[int, str]] | None = None
) -> Numbers:
    """Heads of a state and their size, which `auto` derives from the inner width.

    Heads x size must be what `inner` says: BambaConfig, GraniteMoeHybridConfig, FalconH1Config and Mamba2Config refuse
    anything else (validate_architecture). Nemotron-H has no such rule: its class makes the inner width of heads x size
    and never looks at `expand` (NemotronHMamba2Mixer), which differs in Nemotron Nano 9B.
    """

    def numbers(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
        config.ignore(*_CHUNKS)
        count = config.number(*heads_keys)
        if inner is None:
            config.ignore(*_EXPAND)
            return _mamba2(config, count, config.number(*dim_keys))
        (whole, made), (key, size) = inner(config), config.get(*dim_keys)
        if whole % count:
            config.expected(f"a divisor of {whole}, which is {made}", heads_keys[0])
        dim = whole // count if size in (None, "auto") else config.number(*dim_keys)
        if dim * count != whole:
            config.expected(f"{whole // count}, since {heads_keys[0]} is {count} and {made} {whole}", key)
        return _mamba2(config, count, dim)

    return numbers


def _mamba2(config: Config, count: int, dim: int) -> Fields:
    groups, state, conv = config.number(*_GROUPS), config.number(*_STATE), config.number(*_CONV)
    return {"heads": count, "head_dim": dim, "groups": groups, "state": state, "conv": conv}


def zamba2_state(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Zamba2: expand x width in heads of `mamba_headdim`, or in `n_mamba_heads` heads (Zamba2Config).

    The files of the first release state only the size of a head; the class's 8 heads are then no fact about them. The
    class makes the size of what the heads leave (mamba_headdim): a file that says otherwise is refused.
    """
    config.ignore(*_CHUNKS, "mamba_headdim", "n_mamba_heads")
    inner, made = expanded(config)
    size_alone = "n_mamba_heads" not in config.data and config.data.get("mamba_headdim") is not None
    key = "mamba_headdim" if size_alone else "n_mamba_heads"
    part = config.number(key)
    if inner % part:
        config.expected(f"a divisor of {inner}, which is {made}", key)
    heads, dim = (inner // part, part) if size_alone else (part, inner // part)
    if config.integer("mamba_headdim") not in (None, dim):
        config.expected(f"{dim}, since n_mamba_heads is {heads} and {made} {inner}", "mamba_headdim")
    return _mamba2(config, heads, dim)


def deltanet(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """Gated delta-net: all five numbers are stated, or the class has them. None is ever derived from attention."""
    return {
        "k_heads": config.number("linear_num_key_heads"),
        "k_dim": config.number("linear_key_head_dim"),
        "v_heads": config.number("linear_num_value_heads"),
        "v_dim": config.number("linear_value_head_dim"),
        "conv": config.number("linear_conv_kernel_dim"),
    }


def lightning(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """MiniMax lightning attention: a square state for each query head."""
    config.ignore("block_size")
    queries = query_heads(config)
    return {"heads": queries, "head_dim": _own_size(config, queries, "head_dim")}


def shortconv(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """LFM2: a convolution over the hidden state (Lfm2ShortConv)."""
    return {"width": width(config), "conv": config.number("conv_L_cache")}


def rglru(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    own = config.integer("lru_width") or config.derive("lru_width", width(config), "hidden_size")
    return {"width": own, "conv": config.number("conv1d_width")}


def rwkv(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    """RWKV 5 to 7: `head_size` in the remote code, `head_dim` in flash-linear-attention."""
    config.ignore(*HEADS, "attention_hidden_size", "head_size_divisor")
    dim = config.integer("head_size", "head_dim") or config.assume("head_size", 64)
    return {"width": width(config), "head_dim": dim}


def rwkv4(config: Config, where: Sequence[int]) -> Fields:  # noqa: ARG001
    inner = config.integer("attention_hidden_size")
    if inner is not None and inner != width(config):
        config.expected(
            f"{width(config)}, the width of the model, or nothing; {shown(inner)} is not sized", "attention_hidden_size"
        )
    return {"width": width(config)}
