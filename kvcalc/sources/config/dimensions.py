"""The widths of the weights that a configuration states: tables, feed-forward layers, experts, towers.

Nothing of it changes the size of the cache. So what a file does not say plainly is left out, and no file is refused for
it. Names and rules: the modeling files of transformers 5.24.0, and for other types those beside the published files.
"""

from collections.abc import Mapping, Sequence

from kvcalc.errors import KvcalcError
from kvcalc.preset import notation
from kvcalc.preset.fields import MOST_NUMBER
from kvcalc.sources.config.language import Part, language_config
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import WIDTH, Fields
from kvcalc.sources.config.towers import encoder_parameters, image_rule, vision_tower

__all__ = ["weight_facts"]

_VOCAB = ("vocab_size", "padded_vocab_size", "text_vocab_size")
_TIED = ("tie_word_embeddings", "tie_embedding", "tie_embeddings")
_INTERMEDIATE = ("dense_intermediate_size", "intermediate_size_mlp", "intermediate_size", "ffn_hidden_size", "n_inner",
                 "decoder_ffn_dim", "ffn_dim", "d_ff", "inner_dim")  # fmt: skip
_EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "num_selected_experts", "moe_topk", "moe_top_k", "moe_k",
          "top_k_experts")  # fmt: skip
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size")
_SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")
# The width of all shared experts together, and of one of them.
_SHARED_WIDTH = ("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim")
_ONE_SHARED_WIDTH = ("moe_shared_expert_intermediate_size",)

# Two matrices instead of three: up, an activation, down.
_PLAIN = (
    "apertus", "arcee", "bart", "biogpt", "bloom", "codegen", "ctrl", "falcon", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gptj", "mpt", "nemotron", "nemotron_h", "opt", "persimmon", "phi", "phi-msft", "starcoder2", "whisper",
)  # fmt: skip
# Qwen3-Next's files do not say it.
_GATED_QUERIES = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
# Types whose feed-forward layers are four times as wide as the model where the file leaves that out.
_FOURFOLD = ("bloom", "codegen", "falcon", "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "phi", "phi-msft", "mpt")
# Types whose gated feed-forward part is half as wide as stated, both halves counted (Qwen 1, Molmo).
_HALVED = ("qwen", "molmo")
# Types whose experts are as wide as `intermediate_size`, which then is no dense layer's.
_EXPERT_IS_INTERMEDIATE = ("mixtral", "phimoe", "gpt_oss", "granitemoe", "granitemoehybrid", "jamba", "olmoe", "grok-1",
                           "llama4_text", "minimax", "minimax_m1", "minimax_text_01", "minimax_m2", "minimax_m3",
                           "minimax_m3_text", "flex_olmo")  # fmt: skip
_NO_FEED_FORWARD = ("mamba", "mamba2", "falcon_mamba")
# Types whose widths differ from layer to layer, or are not understood here.
_OWN_RULES = ("longcat_flash", "zamba2", "zamba", "openelm", "deci", "nemotron-nas", "rwkv", "rwkv5", "rwkv6", "rwkv7",
              "zaya", *_NO_FEED_FORWARD, "recurrent_gemma", "t5gemma", "gemma3n_text", "kimi_k3")  # fmt: skip


def weight_facts(config: Mapping[str, object], layers: int) -> Fields:
    """What a preset of so many layers has of towers and widths, as far as the file tells it."""
    try:
        part, text = language_config(config, "")
        width = text.integer(*WIDTH)
    except KvcalcError:
        return {}
    facts: Fields = {}
    if encoder := encoder_parameters(part):
        facts["encoder_parameters"] = encoder
    if (tower := vision_tower(part)) is not None:
        facts["vision"] = tower
    if (rule := image_rule(part)) is not None:
        facts["images"] = rule
    if width is not None:
        facts["dimensions"] = _dimensions(part, text, width, layers)
    return facts


def _dimensions(part: Part, text: Config, width: int, layers: int) -> Fields:
    """The value of `dimensions`, with what is plainly stated."""
    found: Fields = {"hidden": width}
    vocab = _stated(text, _VOCAB)
    if vocab:
        found["vocab"] = vocab
    experts = _experts(text)
    wide = _intermediate(text, width, bool(experts))
    if wide:
        found["intermediate"] = wide
    if wide or experts:
        found |= {} if _gated(text) else {"gated": False}
    if _tied(part, text):
        found["tied"] = True
    if rank := _stated(text, ("q_lora_rank",)):
        found["q_lora_rank"] = rank
    if text.data.get("attn_output_gate", text.model_type in _GATED_QUERIES) is True:
        found["query_gate"] = True
    found |= experts
    words = _feed_forward(text, layers) if experts or text.model_type in ("nemotron_h", *_NO_FEED_FORWARD) else []
    if len(words) == layers and words != ["moe"] * layers:
        found["feed_forward"] = notation.fold([() if word == notation.NONE else (word,) for word in words])
    return found


def _stated(text: Config, keys: Sequence[str]) -> int | None:
    """The first whole number above zero under one of these keys, or what every entry of a list there is.

    A class's own number is not taken: it is that of one model, and files that leave these keys out are excerpts.
    """
    for key in keys:
        value = text.data.get(key)
        if isinstance(value, list) and value and all(one == value[0] for one in value):
            value = value[0]
        if type(value) is int and 0 < value <= MOST_NUMBER:
            return value
    return None


def _tied(part: Part, text: Config) -> bool:
    """The innermost statement counts, then the class of the language part."""
    for data in (part.data, *part.around, text.defaults):
        for key in _TIED:
            if isinstance(value := data.get(key), bool):
                return value
    return False


def _gated(text: Config) -> bool:
    if (projection := text.data.get("feed_forward_proj")) is not None:  # T5 says it by name
        return str(projection).startswith("gated")
    return text.model_type not in (*_PLAIN, "t5")


def _intermediate(text: Config, width: int, sparse: bool) -> int | None:
    """Channels of a dense feed-forward layer; None where there is none, or it is not known."""
    if text.model_type in _OWN_RULES:
        return None
    if text.data.get("ffn_config") is not None:  # DBRX, all of whose layers have experts
        return None
    if (wide := _stated(text, ("block_ff_dim",))) is not None:
        return _adjusted(text, wide)
    if sparse and text.model_type in _EXPERT_IS_INTERMEDIATE and text.model_type != "jamba":
        return _stated(text, ("dense_intermediate_size", "intermediate_size_mlp"))
    wide = _stated(text, _INTERMEDIATE)
    if text.model_type == "granitemoehybrid":  # without experts, what stands beside them elsewhere is the whole part
        wide = _stated(text, ("shared_intermediate_size",))
    if wide is None and text.model_type in _FOURFOLD:
        ratio = text.data.get("expansion_ratio")
        return width * (ratio if type(ratio) is int else 4)
    return wide // 2 if wide is not None and text.model_type in _HALVED else wide


def _adjusted(text: Config, wide: int) -> int:
    """LFM2: two thirds of what is stated, rounded up, unless it says that it is meant as it stands."""
    if text.data.get("block_auto_adjust_ff_dim", True) is not True:
        return wide
    unit = _stated(text, ("block_multiple_of",)) or 256
    return -(-(2 * wide // 3) // unit) * unit


def _experts(text: Config) -> Fields:
    """Number, width and choice of experts, and which layers have them; nothing for a dense model."""
    inner = text.data.get("ffn_config")
    if isinstance(inner, dict):  # DBRX
        text = Config(inner, text.file, model_type=text.model_type)
    count = _stated(text, _EXPERTS)
    if count is None or count == 1 or text.data.get("enable_moe_block") is False:
        return {}
    found: Fields = {"experts": count}
    if top_k := _stated(text, _TOP_K):
        found["top_k"] = min(top_k, count)
    wide = _stated(text, ("ffn_hidden_size", "intermediate_size") if inner else _EXPERT_WIDTH)
    if wide is None and text.model_type in _EXPERT_IS_INTERMEDIATE:
        wide = _stated(text, ("intermediate_size",))
    if wide is None:
        return found
    found["expert_intermediate"] = wide
    if narrow := _stated(text, ("moe_latent_size", "routed_expert_hidden_size")):
        found["expert_hidden"] = narrow
    if shared := _shared(text, wide):
        found["shared_intermediate"] = shared
    return found


def _shared(text: Config, wide: int) -> int:
    """Channels of the experts that every token uses, together."""
    if text.model_type == "llama4_text":  # one, as wide as the others
        return wide
    if text.model_type == "gemma4_text":  # the dense part stays beside the experts
        return _stated(text, ("intermediate_size",)) or 0
    if together := _stated(text, _SHARED_WIDTH):
        return together
    count = _stated(text, _SHARED) or 0
    return count * (_stated(text, _ONE_SHARED_WIDTH) or wide)


def _feed_forward(text: Config, layers: int) -> list[str]:
    """`dense`, `moe` or `none` for each layer of a model with experts, or of one whose layers are one thing each."""
    if (pattern := text.data.get("hybrid_override_pattern")) is not None:
        return [{"E": "moe", "-": "dense"}.get(letter, notation.NONE) for letter in str(pattern)]
    if text.model_type in _NO_FEED_FORWARD:
        return [notation.NONE] * layers
    blocks = text.data.get("layers_block_type")
    if isinstance(blocks, list) and text.model_type == "nemotron_h":
        return [{"moe": "moe", "mlp": "dense"}.get(str(word), notation.NONE) for word in blocks]
    return ["moe" if _sparse(text, i) else "dense" for i in range(layers)]


def _sparse(text: Config, i: int) -> bool:
    """Layer `i` has experts: not the first dense ones, not those listed, and by period where there is one."""
    data = text.data
    for key in ("mlp_layer_types", "moe_layer_freq"):
        listed = data.get(key)
        if isinstance(listed, list) and i < len(listed):
            return listed[i] in ("sparse", "moe", 1, True)
    first = _stated(text, ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")) or 0
    last = data.get("moe_layer_end_index")
    if i < first or (type(last) is int and 0 <= last < i):
        return False
    if isinstance(dense := data.get("mlp_only_layers"), list) and i in dense:
        return False
    if isinstance(enumerated := data.get("moe_layers_enum"), str):
        return str(i) in enumerated.split(",")
    step = _stated(text, ("decoder_sparse_step", "expert_layer_period", "interleave_moe_layer_step",
                          "moe_layer_interval")) or 1  # fmt: skip
    offset = data.get("expert_layer_offset")
    return i % step == offset if type(offset) is int else (i + 1) % step == 0
