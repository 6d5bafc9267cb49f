"""What stands around the language part of a configuration must not say anything else about the cache.

The classes of transformers build the language model from the part alone. A number beside it that contradicts it is an
edited or misread file all the same, and which of the two is meant nobody can tell: it is refused.
"""

import re
from collections.abc import Iterator, Mapping

from kvcalc.errors import shown
from kvcalc.preset.notation import expand
from kvcalc.sources.config import families, naming
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.keys import Unknown, of_other_half, suspicious
from kvcalc.sources.config.language import Part, nested_keys
from kvcalc.sources.config.lookup import LAYERS, SCHEMES, Config
from kvcalc.sources.config.numbers import Fields

__all__ = ["check_architectures", "check_surroundings"]

# Where the numbers of a preset come from, under all their names.
_SHAPE = (("heads", n.HEADS), ("kv_heads", n.KV_HEADS), ("head_dim", n.HEAD_DIM))

# Keys of whole models that are no other half's by their names, and change no cache (published files, and the fields of
# those classes of transformers 5.24.0 that have a text_config). The window is one of Granite Speech's projector.
_HARMLESS = (
    "select_layer", "ignore_index", "insert_layer_id", "deepstack_layer_map", "has_lora_adapter", "window_size",
    "latent_query_num", "use_decoder_only_language_model", "use_unified_vision_chunk",
)  # fmt: skip

# Words in the names of what stands between halves, or is a whole one: nothing of a language model's own has them there.
_BETWEEN = """
    adapter aligner bridge connector diffusion encoder fft gen generation hop merge merger perceiver pooling proj
    projection projector qformer resampler resolution sampling semantic spatial tower upsample downsample view wav
    waveform
"""


# What is so wherever nothing else is said.
_SWITCHES = ("is_causal", "use_mtp")


def check_surroundings(part: Part, text: Config, shape: Fields) -> list[Unknown]:
    """Refuse a key around the language part that says something else than it; those whose effect is not known."""
    shaped, unknown = _shape(text, shape), list[Unknown]()
    for depth, data in enumerate(part.around, 1):
        here = Config(data, text.file, path=part.path[: len(part.path) - depth])
        for key, value in data.items():
            if value is not None and key not in (*nested_keys(data), *SCHEMES):
                unknown += _check_key(here, key, text, shaped)
    return unknown


def _check_key(here: Config, key: str, text: Config, shaped: Mapping[str, object]) -> Iterator[Unknown]:
    value = here.data[key]
    # The classes of PaliGemma and Ovis 2 write the width of one model around all of them: it counts only alone.
    idle = key == "hidden_size" and any(name in text.data for name in n.WIDTH)
    if idle or (key in _SWITCHES and value is True):
        return
    if key in text.understood:
        own = text.data.get(key)
        own = shaped.get(key, text.defaults.get(key)) if own is None else own
        if value != own and (value or own is not None):
            by_class = text.data.get(key) is None and own == text.defaults.get(key)
            says = f"leaves to the default of {text.model_type}" if by_class else "says"
            here.expected(f"{shown(own)}, as the language part inside {says}", key)
    elif value and suspicious(key) and key not in _HARMLESS and not of_other_half(key, _BETWEEN):
        yield Unknown(here, key)


def check_architectures(part: Part, text: Config, shape: Fields) -> None:
    """Refuse an architecture that names another type, whose caches are laid out otherwise.

    transformers builds a model by its type and vLLM by its architecture: the two would keep different caches. Where
    every layer keeps everything, an architecture of that kind changes nothing.
    """
    for depth, data in enumerate((part.data, *part.around)):
        listed, called = data.get("architectures"), data.get("model_type")
        for name in [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []:
            other = naming.named_by(name, families.FAMILIES)
            own = naming.resolved(called, name) if isinstance(called, str) else text.model_type
            row, others = families.FAMILIES.get(own or ""), families.FAMILIES.get(other or "")
            plain = others is families.PLAIN and re.fullmatch(r"(\d+ )?full", str(shape["layers"]))
            if row is None or others is None or row == others or plain:
                continue
            here = Config(data, text.file, path=part.path[: len(part.path) - depth])
            here.refuse(f"expected an architecture of {shown(called or own)}, got {shown(name)}", "architectures")


def _shape(text: Config, shape: Fields) -> dict[str, object]:
    """The numbers that were read from the language part, under each name that a file may have for them."""
    numbers: dict[str, object] = dict.fromkeys(LAYERS, len(expand(str(shape["layers"]))))
    for field, keys in _SHAPE:
        numbers |= dict.fromkeys(keys, shape.get(field))
    return numbers | dict.fromkeys(n.WIDTH, text.get(*n.WIDTH)[1])
