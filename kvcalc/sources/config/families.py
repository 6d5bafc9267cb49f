"""Model types and how each is read: a table, to which a family is added as one row.

Rules are those of the configuration classes of transformers 5.24.0 unless a row says otherwise. Types that transformers
does not have are read as their published files and remote code are.
"""

from collections.abc import Callable, Mapping

from kvcalc.preset.notation import NONE, Names
from kvcalc.sources.config import drafts, gemma, halves
from kvcalc.sources.config import hybrids as h
from kvcalc.sources.config import kinds as k
from kvcalc.sources.config import layouts as y
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config import special as s
from kvcalc.sources.config.layout import ATTENTION, Family
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.naming import PLAIN_TYPES

__all__ = ["FAMILIES", "PLAIN", "family_of"]

_SLIDING = {"sliding": n.sliding}
_NO_ROPE = ("no_rope_layers", "no_rope_layer_interval")  # of no consequence beside a list of layers

# Every layer keeps the keys and values of every token; a list of layers may say so.
PLAIN = Family(k.as_listed(k.all_of("full")), {"full": ("full",)}, caches={})


def _listed(otherwise: k.Kinds) -> Family:
    """Layers listed, or laid out as `otherwise` says; a window that is null or switched off makes all of them full."""
    return Family(k.windowed(k.as_listed(otherwise)), caches=_SLIDING)


_WINDOW_ALL = _listed(k.all_of("sliding"))
_WINDOW_LATE = _listed(k.by_window_layers(lambda i, most: i >= most))
_EVERY_4TH = _listed(k.every(4, "sliding_window_pattern"))
_EVERY_6TH = _listed(k.every(6, "sliding_window_pattern", "_sliding_window_pattern"))
_ALTERNATE = _listed(k.cycle("sliding", "full"))

_LATENT = Family(
    k.as_listed(k.all_of("full")),
    {"full": ("latent",)},
    n.latent_heads,
    {"latent": n.latent},
    draft=drafts.repeated("latent"),
)
_INDEXED_WORDS: Mapping[str, Names] = {"indexed": ("latent", "indexer"), "full": ("latent",)}
# What a draft layer of these holds was seen in GLM-5.1, whose weights of that layer have an indexer.
_INDEXED = _LATENT._replace(
    kinds=h.indexers(),
    words=_INDEXED_WORDS,
    caches={"latent": n.latent, "indexer": n.indexer},
    draft=drafts.repeated("latent", "indexer"),
)

_GEMMA4 = Family(
    y.full_at_last(k.as_listed(k.every(6))),
    caches={"sliding": n.sliding, "full": gemma.full_heads},
    share=gemma.sharing,
)

_MAMBA2_WORDS: Mapping[str, Names] = {"full": ("full",), "linear": ("mamba2",), NONE: ()}
_BAMBA_STATE = n.mamba2(("mamba_n_heads",), ("mamba_d_head",), n.expanded)
_NEMOTRON_LETTERS = {"M": "linear", "*": "full", "-": NONE, "E": NONE}

_DELTANET = Family(
    k.as_listed(k.every(4, "full_attention_interval", word="linear")),
    {"full": ("full",), "linear": ("deltanet",)},
    caches={"deltanet": n.deltanet},
)
_LIGHTNING = Family(
    k.as_listed(k.as_flagged("attn_type_list", ("linear", "full")), beside=("attn_type_list",)),
    {"full": ("full",), "linear": ("lightning",)},
    caches={"lightning": n.lightning},
)
# The class of transformers has a layout of its own for a file without any list (MiniMaxConfig); the remote code that
# the published models came with has none.
_LIGHTNING_CLASS = _LIGHTNING._replace(
    kinds=k.as_listed(
        k.as_flagged("attn_type_list", ("linear", "full"), k.cycle("full", "linear")), beside=("attn_type_list",)
    )
)
_SPARSE = Family(
    k.as_listed(y.m3_layers, beside=("sparse_attention_config",)),
    {"full": ("full",), "indexed": ("full", "indexer")},
    caches={"indexer": h.m3_indexer},
    draft=drafts.repeated("full", "indexer"),
)
_STEP = Family(
    k.as_listed(k.by_rule(k.all_of("full"))),
    caches={"sliding": s.step_sliding},
    # The published Step 3.5 file lists sliding draft layers; shortened copies leave them out of the list.
    draft=drafts.appended("layer_types", "sliding", lambda word: k.SPELLINGS.get(str(word), str(word))),
)
_V4 = Family(
    y.compressed_layers,
    {"0": ("window",), "sliding": ("window",), "4": ("window", "csa"), "128": ("window", "hca")},
    h.v4_heads,
    {"window": h.v4_window, "csa": h.compressed(4), "hca": h.compressed(128)},
    draft=drafts.appended("compress_ratios", "0", str),
)
_LLAMA4 = Family(
    k.as_listed(y.no_rope), caches={"chunked": n.chunked}, ignored=("no_rope_layer_interval", "no_rope_layers")
)
_GROK = PLAIN._replace(kinds=k.windowed(k.every(1, "global_attn_every_n")), words=ATTENTION, caches=_SLIDING)
_CROSS_LAYER = PLAIN._replace(share=s.cross_layer_sharing)
_FALCON = PLAIN._replace(top=s.falcon_heads)
_RWKV = Family(k.all_of("linear"), {"linear": ("rwkv",)}, n.nothing, {"rwkv": n.rwkv}, drafts.none)
_LFM = Family(
    k.as_listed(k.at_indices("full_attn_idxs", "full", "conv", without="full"), beside=("full_attn_idxs",)),
    {"full": ("full",), "conv": ("shortconv",)},
    caches={"shortconv": n.shortconv},
    ignored=("full_attn_idxs", "num_heads"),
)
_MAMBA = Family(k.all_of("linear"), {"linear": ("mamba1",)}, n.nothing, {"mamba1": n.mamba1}, drafts.none)
_LAGUNA_CACHES = {"full": s.heads_of_layers(), "sliding": s.heads_of_layers(n.sliding)}


def _mla_or_plain(config: Config) -> Family:
    """DeepSeek: the smallest models have ordinary attention, and say so with a null rank and `use_mla: false`.

    The class of transformers knows no such model, vLLM goes by the rank and the widths of the heads (deepseek_v2.py),
    the remote code by the flag: a file in which those do not say the same is refused.
    """
    if config.data.get("kv_lora_rank", "") is not None:
        return _LATENT
    config.ignore("kv_lora_rank")
    if config.flag("use_mla"):
        config.expected("false beside a kv_lora_rank of null", "use_mla")
    for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        if config.data.get(key):
            config.expected("nothing beside a kv_lora_rank of null", key)
    return PLAIN


_LING_3 = Family(
    k.as_listed(k.every(6, "layer_group_size", word="linear")),
    {"full": ("latent",), "linear": ("kda",)},
    n.latent_heads,
    {"kda": h.bailing_kda, "latent": n.latent},
    drafts.repeated("latent"),
)
# Names that only say how lightning attention is computed (bailing_moe_linear.py of vLLM and MLX-LM).
_LIGHTNING_KEYS = ("linear_silu", "use_linear_silu", "linear_rope", "linear_mode", "linear_backend", "linear_scale")
_LING_2_5 = _LING_3._replace(
    kinds=y.ling_groups,
    words={"full": ("latent",), "linear": ("lightning",)},
    caches={"lightning": n.lightning, "latent": n.latent},
    ignored=_LIGHTNING_KEYS,
)


def _ling_hybrid(config: Config) -> Family:
    """Two generations have one type: Ling and Ring 2.5 keep lightning states between latents, 3 delta states.

    vLLM goes by the architecture (BailingMoeV2_5ForCausalLM, BailingMoeV3ForCausalLM), and so do the published files;
    only the third has convolutions.
    """
    listed = config.data.get("architectures") or config.root.get("architectures")
    older = "BailingMoeV2_5ForCausalLM" in (listed if isinstance(listed, list) else ())
    keys = ("short_conv_kernel_size", "linear_conv_kernel_dim", "kda_safe_gate", "no_kda_lora")
    newer = next((key for key in keys if config.data.get(key) is not None), None)
    if older and newer:
        config.expected("nothing, since BailingMoeV2_5ForCausalLM has no such layers", newer)
    if not older and newer is None and config.data.get("group_norm_size") is not None:
        config.expected("a file that names its architecture, since two kinds of Ling have this type", "architectures")
    return _LING_2_5 if older else _LING_3


# Model types that lay caches out in a way of their own, or state numbers in one.
FAMILIES: dict[str, Family | Callable[[Config], Family]] = {
    **dict.fromkeys(PLAIN_TYPES, PLAIN),
    "doge": PLAIN._replace(ignored=("keep_window_size",)),  # of tokens that its mask never drops; the cache keeps all
    **dict.fromkeys(("ernie4_5", "ernie4_5_moe"), PLAIN._replace(ignored=("compression_ratio",))),  # of positions
    # A window on every layer, or on those that a list or a pattern names.
    **dict.fromkeys(("mistral", "mixtral", "ministral", "ministral3", "phi3", "phimoe", "phi4_multimodal", "starcoder2",
                     "qwen3_moe", "qwen3_omni_moe_text", "qwen3_omni_moe_talker_text"), _WINDOW_ALL),
    **dict.fromkeys(("qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "qwen2_5_omni_talker", "qwen3",
                     "qwen3_omni_moe_talker_code_predictor", "dots1", "mimo"), _WINDOW_LATE),
    "qwen2_moe": _listed(k.by_window_layers(lambda i, most: i < most and i % 2 == 0)),
    **dict.fromkeys(("gemma2", "vaultgemma", "gpt_oss"), _ALTERNATE),
    **dict.fromkeys(("gemma3_text",), _EVERY_6TH),
    **dict.fromkeys(("exaone4", "exaone_moe", "exaone4_5_text"), _EVERY_4TH),
    "olmo3": _listed(k.every(4)),
    # Command R7B also says "layer_switch": 4 and "order_of_interleaved_layers": "local_attn_first".
    "cohere2": _EVERY_4TH._replace(ignored=("layer_switch", "order_of_interleaved_layers")),
    **dict.fromkeys(("cwm", "granite_swa", "granitemoe_swa"), _listed(k.cycle("full", *["sliding"] * 3))),
    **dict.fromkeys(("muse_glimmer_text", "muse_spark_text"), _listed(y.muse_layers)),
    "cohere2_moe": _listed(y.cohere_layers),
    "cohere_compass_text": _listed(k.by_rule(k.all_of("full"))),
    "mellum": _listed(k.by_rule(k.all_of("full")))._replace(draft=drafts.listed("mtp_layer_types", "sliding")),
    "afmoe": _listed(k.every(4, "global_attn_every_n_layers")),
    "kolibri1": _listed(k.every(5)),
    "flint": _listed(y.flint_layers),
    "smollm3": _listed(y.smol_layers)._replace(ignored=_NO_ROPE),
    "laguna": _listed(k.by_rule(k.all_of("full")))._replace(caches=_LAGUNA_CACHES),
    "gpt_neo": Family(k.windowed(y.local_and_global), caches=_SLIDING, ignored=("attention_layers",)),
    "mimo_v2_flash": Family(
        k.as_listed(
            k.as_flagged("hybrid_layer_pattern", ("full", "sliding"), y.mimo_layers), beside=("hybrid_layer_pattern",)
        ),
        top=s.split_heads, caches={"sliding": s.mimo_sliding}, ignored=("attention_chunk_size",),
    ),
    **dict.fromkeys(("step3p5", "step3p7"), _STEP),
    "llama4_text": _LLAMA4,
    # Layers that reuse the cache of an earlier one.
    "gemma3n_text": _listed(k.every(5))._replace(share=gemma.sharing),
    **dict.fromkeys(("gemma4_text", "gemma4_unified_text"), _GEMMA4),
    **dict.fromkeys(("hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text"), _CROSS_LAYER),
    # Heads told in another way, or for each layer.
    **dict.fromkeys(("falcon", "RefinedWeb", "RefinedWebModel"), _FALCON),
    "gpt_bigcode": PLAIN._replace(top=s.bigcode_heads),
    "chatglm": PLAIN._replace(top=s.chatglm_heads),
    "mpt": PLAIN._replace(top=s.mpt_heads),
    "dbrx": PLAIN._replace(top=s.dbrx_heads),
    "phi3small": PLAIN._replace(ignored=("dense_attention_every_n_layers",)),  # block-sparse layers still keep all
    "openelm": PLAIN._replace(top=s.elm_size, caches={"full": s.elm_heads}),
    "deci": PLAIN._replace(top=s.queries_alone, caches={"full": s.deci_heads}),
    "nemotron-nas": Family(y.pruned_blocks, {"full": ("full",), "noop": ("noop",)}, s.queries_alone,
                           {"full": s.grouped_blocks, "noop": s.pruned}),
    "grok-1": _GROK,
    "minimax_m2": PLAIN._replace(kinds=k.as_listed(
        k.as_flagged("attn_type_list", (None, "full"), k.all_of("full")), beside=("attn_type_list",))),
    # Latent attention, alone and with the indexers of sparse attention.
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), _mla_or_plain),
    **dict.fromkeys(("axk1", "glm4_moe_lite", "minicpm3", "mistral4", "sarvam_mla", "youtu"), _LATENT),
    "longcat_flash": _LATENT._replace(kinds=y.doubled_layers, words={"full": ("latent", "latent")}),
    **dict.fromkeys(("deepseek_v32", "axk2"), _INDEXED._replace(kinds=h.indexers(lambda _: True))),
    "glm_moe_dsa": _INDEXED,
    **dict.fromkeys(("hy_v4", "hy_v4_vl_text"), _INDEXED._replace(kinds=h.indexers(lambda i: i == 0 or i % 4 == 1))),
    "mistral_large4_text": _INDEXED._replace(
        share=h.source_sharing, caches={"latent": h.large4_latent, "indexer": n.indexer}
    ),
    **dict.fromkeys(("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"), _SPARSE),
    "deepseek_v4": _V4,
    # Recurrent states, alone and between attention layers.
    "mamba": _MAMBA,
    "falcon_mamba": _MAMBA,
    "mamba2": Family(k.all_of("linear"), _MAMBA2_WORDS, n.nothing,
                     {"mamba2": n.mamba2(("num_heads",), ("head_dim",), n.expanded)}),
    **dict.fromkeys(("rwkv5", "rwkv6", "rwkv7"), _RWKV),
    "rwkv": _RWKV._replace(words={"linear": ("rwkv4",)}, caches={"rwkv4": n.rwkv4}),
    "jamba": Family(k.at_offset("attn_layer_period", "attn_layer_offset"),
                    {"full": ("full",), "linear": ("mamba1",)}, caches={"mamba1": n.mamba1}),
    "bamba": Family(y.bamba_layers, _MAMBA2_WORDS,
                    caches={"mamba2": _BAMBA_STATE}),
    "falcon_h1": Family(k.all_of("both"), {"both": ("full", "mamba2")},
                        caches={"mamba2": n.mamba2(("mamba_n_heads",), ("mamba_d_head",), n.state_width)}),
    "granitemoehybrid": Family(k.as_listed(y.states_alone, "layer_types", "layers_block_type", beside=()),
                               _MAMBA2_WORDS, caches={"mamba2": _BAMBA_STATE}),
    "nemotron_h": Family(
        k.lettered("hybrid_override_pattern", _NEMOTRON_LETTERS, y.block_types, y.BLOCK_LISTS), _MAMBA2_WORDS,
        caches={"mamba2": n.mamba2(("mamba_num_heads",), ("mamba_head_dim",))},
        draft=drafts.patterned(_NEMOTRON_LETTERS, k.SPELLINGS),
    ),
    "zamba": Family(k.as_listed(y.zamba_layers, "layers_block_type", "layer_types"),
                    {"linear": ("mamba1",), "hybrid": ("full", "mamba1")}, h.zamba_heads, {"mamba1": n.mamba1}),
    "zamba2": Family(y.zamba2_layers, {"linear": ("mamba2",), "hybrid": ("full", "mamba2")}, h.zamba2_heads,
                     {"mamba2": n.zamba2_state}),
    "recurrent_gemma": Family(y.griffin_layers, {"linear": ("rglru",), "sliding": ("sliding",)},
                              caches={"rglru": n.rglru, "sliding": n.sliding}),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _DELTANET),
    "olmo_hybrid": _DELTANET._replace(caches={"deltanet": h.olmo_deltanet}),
    "minimax": _LIGHTNING_CLASS,
    **dict.fromkeys(("minimax_text_01", "minimax_m1"), _LIGHTNING),
    "kimi_linear": Family(k.as_listed(y.numbered_from_one, beside=("linear_attn_config",)),
                          {"full": ("latent",), "linear": ("kda",)}, n.latent_heads,
                          {"kda": h.kda, "latent": n.latent}, drafts.repeated("latent")),
    "bailing_hybrid": _ling_hybrid,
    **dict.fromkeys(("bailing_moe_linear", "bailing_moe_linear_v2"), Family(
        y.ling_groups, {"full": ("full",), "linear": ("lightning",)}, caches={"lightning": n.lightning},
        ignored=_LIGHTNING_KEYS)),
    **dict.fromkeys(("lfm2", "lfm2_moe"), _LFM),
    "lfm3": _LFM._replace(kinds=k.windowed(k.as_listed(y.lfm3_layers)),
                          words={**ATTENTION, "conv": ("shortconv",)},
                          caches={"shortconv": n.shortconv, "sliding": n.sliding}),
    "inkling_text": Family(
        k.as_listed(y.inkling_layers, beside=("local_layer_ids",)),
        {"hybrid": ("full", "conv"), "hybrid_sliding": ("sliding", "sliding_conv")},
        caches={"conv": h.inkling_conv("num_key_value_heads", "head_dim"), "sliding": h.inkling_sliding,
                "sliding_conv": h.inkling_conv("swa_num_key_value_heads", "swa_head_dim")},
        draft=drafts.at_indices("mtp_local_layer_ids", "hybrid_sliding", "hybrid"),
    ),
    # Decoders that look at something else: vision tokens, or the output of an encoder.
    **halves.FAMILIES,
}  # fmt: skip


def family_of(config: Config, model_type: str) -> Family | None:
    """How the type is read, or None for one that is not known."""
    row = FAMILIES.get(model_type)
    return row(config) if row is not None and not isinstance(row, Family) else row
