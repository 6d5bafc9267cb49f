"""Configurations and models of the installed transformers. Models lie on the meta device: shapes, but no memory.

Nothing is downloaded and no remote code is run: a type that transformers does not have is refused.
"""

import dataclasses
import inspect
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, NamedTuple

from kvcalc.commands.versions import parse
from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError, escape, shown
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources.config.language import language_part
from kvcalc.sources.config.reader import preset_from_config
from kvcalc.verifying.expressing import READ_ONCE, RESTATED, class_type, config_of

__all__ = ["Versions", "attempt", "config_of_file", "config_of_model", "installed", "on_meta"]

# Keys of a file that say how to load and compute, and need other packages or weights.
_HOW = ("_attn_implementation", "attn_implementation", "auto_map", "experts_implementation", "quantization_config")

_EXTRA = "pip install 'kvcalc[verify]'"
_OLDEST = (5, 6)  # from which on configurations are dataclasses, whose fields tell what a class knows

_DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


class Versions(NamedTuple):
    """What is installed."""

    torch: str
    transformers: str


def installed() -> Versions:
    """Import both, offline and without their warnings. Raises KvcalcError where they are missing."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        with _quiet():
            import torch
            import transformers
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name in {"torch", "transformers"}:
            raise KvcalcError(
                "verify: torch and transformers are not installed: pip install 'kvcalc[verify]'"
            ) from None
        text = escape(" ".join(str(error).split()))[:200]
        raise KvcalcError(f"verify: transformers cannot be imported: {text}", _EXTRA) from error
    if parse(transformers.__version__, "verify") < _OLDEST:
        raise KvcalcError(
            f"verify: expected transformers 5.6 or later, got {transformers.__version__}",
            "pip install 'kvcalc[verify]'",
        )
    transformers.logging.set_verbosity(transformers.logging.CRITICAL)
    return Versions(torch.__version__, transformers.__version__)


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def attempt(what: str, hint: str | None = None) -> Iterator[None]:
    """What transformers cannot do is said in one line: its own exceptions are of every kind."""
    try:
        with _quiet():
            yield
    except KvcalcError:
        raise
    except Exception as error:
        text = escape(" ".join(str(error).split()))[:200]
        raise KvcalcError(f"transformers cannot {what}: {type(error).__name__}: {text}", hint) from error


def config_of_file(data: Mapping[str, object], file: str) -> Any | None:
    """The configuration of a config.json, or of its language part, as it stands; None where transformers has no class.

    A file that was published for code of its own is not read by a class of the same name, or of one like it: LLaVA's
    first files are flat, and MiniMax-Text-01's say with other keys what the class `minimax` knows.
    """
    part = language_part(data, file)
    listed = data.get("architectures")
    if isinstance(listed, list) and listed and not any(_has(name) for name in listed):
        return None
    for stated in (part.data, data):
        model_type = stated.get("model_type")
        if isinstance(model_type, str) and _known(model_type):
            break
    else:
        return None
    hint = (
        f"`kvcalc preset {escape(file)} > my-model.yaml`, and verify my-model.yaml: what its layers are is then enough"
    )
    with attempt(f"read a {model_type} configuration", hint):
        made = _class(model_type)
        config = made(**{key: value for key, value in stated.items() if key not in (*_HOW, "model_type")})
        decoder = config.get_text_config(decoder=True)
    return config if type(decoder) is type(config) else decoder


def _has(architecture: object) -> bool:
    import transformers

    return architecture in dir(transformers)


def config_of_model(model: Model) -> Any:
    """The configuration that a model's facts make, once it reads back as the same layers."""
    model_type = class_type(model.model_type)
    made = _class(model_type)
    fields = {field.name for field in dataclasses.fields(made)}
    facts = {made.attribute_map.get(key, key): value for key, value in config_of(model).items()}
    stated = {key: value for key, value in facts.items() if key in fields or key in READ_ONCE}
    with attempt(f"read a {model_type} configuration"):
        config = made(**stated)
    restated = RESTATED.get(model_type, ())
    back = {key: value for key, value in config.to_dict().items() if key not in restated}
    _compare(model, {**{key: stated[key] for key in (*READ_ONCE, *restated) if key in stated}, **back})
    return config


def _compare(model: Model, back: Mapping[str, object]) -> None:
    """Refuse a configuration that is not read as the layers that it was made for."""
    file = f"configuration of {model.name}"
    read, problems = model_from_preset(preset_from_config(back, file=file), file)
    assert read is not None, problems  # the reader has looked at them
    if len(read.layers) != len(model.layers):
        raise _inexpressible(model, f"{len(model.layers)} layers are read back as {len(read.layers)}")
    for i, (mine, other) in enumerate(zip(model.layers, read.layers, strict=True)):
        if mine != other:
            raise _inexpressible(model, f"layer {i}, {shown(str(mine), 300)}, is read back as {shown(str(other), 300)}")


def _inexpressible(model: Model, why: str) -> KvcalcError:
    hint = "give the model's own config.json in place of the preset"
    return KvcalcError(f"{model.name}: cannot be expressed as a {model.model_type} configuration: {why}", hint)


def _known(model_type: str) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES


def _class(model_type: str) -> Any:
    """The configuration class of a type. The table holds transformers' own classes alone."""
    from transformers import __version__
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    if not _known(model_type):
        raise KvcalcError(f"model_type: transformers {__version__} has no class for {shown(model_type)}")
    return CONFIG_MAPPING[model_type]


def on_meta(config: Any, dtype: str) -> Any:
    """The model of a configuration without its head, in a dtype of ours."""
    import torch

    with attempt(f"build a {config.model_type} model"), torch.device("meta"):
        return _model_class(config)._from_config(config, dtype=getattr(torch, _DTYPES[dtype])).eval()  # noqa: SLF001


def _model_class(config: Any) -> Any:
    """The class that transformers has for a configuration; for a part of a larger model, the one that names it."""
    from transformers import PreTrainedModel
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_MAPPING

    for mapping in (MODEL_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING):
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, tuple) else found
    module = import_module(type(config).__module__.replace("configuration_", "modeling_"))
    for found in vars(module).values():
        if inspect.isclass(found) and issubclass(found, PreTrainedModel) and _takes(found, type(config)):
            return found
    raise KvcalcError(f"model_type: transformers has no model of its own for {shown(config.model_type)}")


def _takes(model_class: Any, config_class: type) -> bool:
    """A class that is built of such a configuration, and reads tokens."""
    parameters = inspect.signature(model_class.forward).parameters
    return model_class.config_class is config_class and "input_ids" in parameters
