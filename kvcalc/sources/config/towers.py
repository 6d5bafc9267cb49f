"""How many parameters the towers for images and sound have beside the language part, as far as their shape tells."""

from collections.abc import Iterator, Mapping

from kvcalc.sources.config.language import Part

__all__ = ["encoder_parameters", "image_rule", "vision_tower"]

# Qwen2-VL's hidden_size is what its tower hands on.
_TOWERS = ("vision_config", "audio_config", "vision_tower_cfg", "vision_tower_config")
_WIDTH = ("embed_dim", "hidden_size", "d_model", "width", "vt_hidden_size")
_LAYERS = ("num_hidden_layers", "depth", "encoder_layers", "layers", "vt_num_hidden_layers")
_INNER = ("intermediate_size", "encoder_ffn_dim", "vt_intermediate_size")
_GATED = ("pixtral", "qwen2_5_vl", "mistral3", "gemma4_vision")


def encoder_parameters(part: Part) -> int | None:
    """The sum over all towers: four matrices of attention and two or three of the feed-forward part in each layer.

    Patches, positions and norms are left out, so that it is right to some per cent of the tower. None: no tower.
    """
    found = sum(_tower(tower) for data in (*part.around, part.data) for tower in _towers(data))
    return found or None


# Types whose own class gives the tower's keys the usual names (SGLang's KimiK25VisionConfig).
_ALIASES = {"vt_num_hidden_layers": "num_hidden_layers", "vt_hidden_size": "hidden_size"}


def vision_tower(part: Part) -> dict[str, int] | None:
    """The key `vision` of a preset: the tower's layers and width by the names that engines ask for. None: no tower."""
    tower = next((data["vision_config"] for data in (*part.around, part.data) if data.get("vision_config")), None)
    if not isinstance(tower, dict):
        return None
    named = {_ALIASES.get(key, key): value for key, value in tower.items()}
    return {key: value for key in _ALIASES.values() if type(value := named.get(key)) is int and 0 < value < 1 << 24}


# By the model type of the whole file: the rule by which its processor counts an image (`core/images.py`).
_IMAGES = {
    "qwen2_vl": "qwen2_vl", "qwen2_5_vl": "qwen2_vl", "qwen3_vl": "qwen3_vl", "qwen3_vl_moe": "qwen3_vl",
    "qwen3_5": "qwen3_vl", "qwen3_5_moe": "qwen3_vl", "gemma3": "gemma3", "gemma4": "gemma4", "internvl": "internvl",
    "internvl_chat": "internvl", "mistral3": "pixtral",
}  # fmt: skip


def image_rule(part: Part) -> str | None:
    """The key `images` of a preset, where the file has a tower for images; None for a rule that is not known here."""
    if vision_tower(part) is None:
        return None
    types = (str(data.get("model_type")) for data in (*part.around, part.data))
    return next((rule for each in types if (rule := _IMAGES.get(each))), None)


def _towers(data: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for key in _TOWERS:
        if isinstance(tower := data.get(key), dict):
            yield tower


def _tower(tower: Mapping[str, object]) -> int:
    width, layers, inner = (_first(tower, keys) for keys in (_WIDTH, _LAYERS, _INNER))
    if width is None or layers is None:
        return 0
    ratio = tower.get("mlp_ratio")
    inner = inner or int(width * ratio if isinstance(ratio, int | float) and 0 < ratio < 64 else width * 4)
    matrices = 3 if str(tower.get("model_type")) in _GATED else 2
    return layers * (4 * width * width + matrices * width * inner)


def _first(tower: Mapping[str, object], keys: tuple[str, ...]) -> int | None:
    return next((value for key in keys if type(value := tower.get(key)) is int and 0 < value < 1 << 24), None)
