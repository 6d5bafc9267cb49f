"""The language part of a configuration: where it stands, and of which type it is."""

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.errors import shown
from kvcalc.sources.config import families, naming
from kvcalc.sources.config.defaults import class_defaults, nulls
from kvcalc.sources.config.lookup import LAYERS, Config

__all__ = ["Part", "language_config", "language_part", "nested_keys"]

# Where the language part of a model stands: vision and speech models wrap it (InternVL, VILA, DeepSeek-VL2, Omni).
_NESTED = ("text_config", "llm_config", "llm_cfg", "language_config", "thinker_config")
# What else sounds as if it described one; an encoder of text is a tower.
_LIKE = frozenset(("text", "language", "llm", "lm", "decoder"))
_LIKE_WHOLE = ("llm", "language_model", "text_model")
_MOST_NESTED = 4
_LONGEST_NAME = 60


class Part(NamedTuple):
    """The language part: its mapping, the keys that lead to it, and the mappings it was found in, innermost first."""

    data: Mapping[str, object]
    path: tuple[str, ...]
    around: tuple[Mapping[str, object], ...]


def language_config(config: Mapping[str, object], file: str) -> tuple[Part, Config]:
    """The language part, and look-ups in it that know its type and the defaults of that type."""
    part = language_part(config, file)
    model_type = _model_type(part, Config(config, file))
    _check_layers(part, file)
    return part, Config(
        part.data,
        file,
        path=part.path,
        model_type=model_type,
        defaults=class_defaults(model_type),
        nulls=nulls(model_type),
        root=config,
    )


def language_part(config: Mapping[str, object], file: str) -> Part:
    """The part that describes the decoder: a vision tower has layers and heads of its own, which are not meant."""
    part = Part(config, (), ())
    for _ in range(_MOST_NESTED):
        here = Config(part.data, file, path=part.path)
        stated = {key: part.data.get(key) for key in nested_keys(part.data)}
        for key, value in stated.items():
            if not isinstance(value, dict | None):
                here.expected("a mapping", key)
        nested = {key: value for key, value in stated.items() if isinstance(value, dict) and value}
        if not nested:
            break
        first, inner = next(iter(nested.items()))
        for key, value in part.data.items():
            if isinstance(value, dict) and value not in ({}, inner) and (key in nested or _sounds_like_one(key)):
                here.refuse(f"expected one configuration of a language model, and {first} is another", key)
        part = Part(inner, (*part.path, first), (part.data, *part.around))
    return part


def _sounds_like_one(key: str) -> bool:
    *words, last = key.split("_")
    described = last in ("config", "cfg") and not _LIKE.isdisjoint(words)
    return key in _LIKE_WHOLE or (described and "encoder" not in key)


def nested_keys(data: Mapping[str, object]) -> tuple[str, ...]:
    """T5Gemma has its halves under `encoder` and `decoder`; elsewhere a `decoder` is no language part."""
    return ("decoder", *_NESTED) if str(data.get("model_type")).startswith("t5gemma") else _NESTED


def _model_type(part: Part, outer: Config) -> str:
    """The type of the language part: what it calls itself, else what the model around it implies."""
    here = Config(part.data, outer.file, path=part.path)
    for architecture in (name for data in (part.data, *part.around) for name in _architectures(data)):
        if naming.only_encodes(architecture):
            here.refuse(f"expected a model with a decoder, got {shown(architecture)}: it only encodes", "architectures")
    found = _own_type(part, outer) or next((found for data in part.around if (found := _called(data, outer))), None)
    if found is None or not found.isprintable() or len(found) > _LONGEST_NAME:
        _refuse_quantisation(outer)
        outer.expected("the name of a model type", "model_type")
    reason = naming.refusal(found)
    if reason is not None:
        text = f"expected a model type whose cache can be described, got {shown(found)}: {reason}"
        here.refuse(text, "model_type")
    return found


def _own_type(part: Part, outer: Config) -> str | None:
    """What the part calls itself: its type, or inside another part its architecture, as published files have it."""
    called = _called(part.data, outer)
    if called is not None or not part.around:
        return called
    named = (naming.named_by(name, families.FAMILIES) for name in _architectures(part.data))
    return next((found for found in named if found), None)


def _check_layers(part: Part, file: str) -> None:
    """Refuse a language part that neither names its type nor counts its layers: the class's model is not meant then.

    transformers used to leave out what is as in the class of a type that is named.
    """
    own = part.data.get("model_type")
    named = own is None and not part.around
    if named or (isinstance(own, str) and naming.resolved(own, None) == own) or any(k in part.data for k in LAYERS):
        return
    where = "the number of layers of the language part" + ("" if part.around else f", here or in {_NESTED[0]}")
    Config(part.data, file, path=part.path).expected(where, LAYERS[0])


def _refuse_quantisation(outer: Config) -> None:
    """Say so where the file is not the configuration but the hf_quant_config.json that ModelOpt puts beside it."""
    scheme = outer.data.get("quantization")
    if isinstance(scheme, dict) and ("quant_algo" in scheme or "kv_cache_quant_algo" in scheme):
        hint = "give the config.json beside it, or their folder: both are read then"
        outer.refuse("expected a model's configuration, got the quantisation of one", hint=hint)


def _architectures(data: Mapping[str, object]) -> list[str]:
    listed = data.get("architectures")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []


def _called(data: Mapping[str, object], outer: Config) -> str | None:
    called, listed = data.get("model_type"), _architectures(data)
    if called is not None and not isinstance(called, str):
        outer.expected("the name of a model type", "model_type")
    return naming.resolved(called, listed[0] if listed else None)
