"""params.json, in which Meta and Mistral publish their models, as the config.json that it would be.

Names and their meaning: `adapt_config_dict` in vLLM 0.33.0's transformers_utils/configs/mistral.py, and ModelArgs of
Meta's llama/model.py. Keys that are not renamed stay as they are, so that one that is not known is refused as ever.
"""

from collections.abc import Mapping

from kvcalc.errors import shown
from kvcalc.sources.config.lookup import Config

__all__ = ["NATIVE", "is_native", "translated"]

NATIVE = "params.json"

_NAMES = {
    "dim": "hidden_size", "n_layers": "num_hidden_layers", "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads", "hidden_dim": "intermediate_size", "norm_eps": "rms_norm_eps",
    "tied_embeddings": "tie_word_embeddings",
}  # fmt: skip
# What is of no consequence: how wide the feed-forward part is (Meta), positions, and experts.
_IDLE = ("multiple_of", "ffn_dim_multiplier", "use_scaled_rope", "max_batch_size", "moe", "yarn", "llama_4_scaling")


def is_native(config: Mapping[str, object]) -> bool:
    """Told by its names for width and layers, which no config.json has together."""
    return "dim" in config and "n_layers" in config


def translated(config: Mapping[str, object], file: str) -> dict[str, object]:
    """The keys of a config.json. Raises KvcalcError for a window or a format that is not understood."""
    here = Config(config, file)
    made: dict[str, object] = {_NAMES.get(key, key): value for key, value in config.items() if key not in _IDLE}
    made["model_type"] = _type(config)
    if made.get("vocab_size") == -1:  # Llama 2's: the tokenizer beside it tells
        del made["vocab_size"]
    if made["model_type"] == "mamba2":
        return made
    # Left out, a number is not the class's: as many key-value heads as heads, no window, and no limit.
    if made.get("num_key_value_heads") is None:
        made["num_key_value_heads"] = made.get("num_attention_heads")
    if "max_seq_len" not in made:
        made.setdefault("max_position_embeddings", None)
    made["sliding_window"] = None
    window = config.get("sliding_window")
    if isinstance(window, list):
        made |= _listed(here, window)
    elif window is not None:
        made["sliding_window"] = here.integer("sliding_window")
    stored = config.get("quantization")
    if stored is not None:
        made["quantization"] = _stored(here, stored)
    return made


def _type(config: Mapping[str, object]) -> str:
    if config.get("model_type") == "mamba":
        return "mamba2"
    if config.get("kv_lora_rank") is not None:
        return "deepseek_v3"
    return "llama" if "multiple_of" in config else "mixtral" if config.get("moe") else "mistral"


def _listed(here: Config, window: list[object]) -> dict[str, object]:
    """A window, or null, for each of some layers, which repeat (`_remap_mistral_sliding_window`)."""
    sizes = {each for each in window if isinstance(each, int)}
    if not window or len(sizes) > 1 or any(each is not None and not isinstance(each, int) for each in window):
        here.expected("a window, or a list with one window and null for full layers", "sliding_window")
    count = here.layers(("n_layers",))
    if count % len(window):
        here.expected(f"a number of entries that divides the {count} layers", "sliding_window")
    words = ["full_attention" if each is None else "sliding_attention" for each in window]
    return {"layer_types": words * (count // len(window)), "sliding_window": next(iter(sizes), None)}


def _stored(here: Config, stored: object) -> object:
    """Mistral's own words for fp8 weights; what others write there is a scheme of compressed-tensors."""
    if not isinstance(stored, dict):
        here.expected("a mapping", "quantization")
    word = stored.get("qformat_weight")
    if word is None:
        return stored
    if word != "fp8_e4m3":
        inner = Config(stored, here.file, path=("quantization",))
        inner.refuse(f"expected fp8_e4m3, got {shown(word)}", "qformat_weight")
    return {"quant_method": "fp8"}
