"""Model files on disk become presets: a config.json, a model folder, a GGUF file.

What a file is, its ending says, in any case; without a known ending it is what its first bytes say, since the blobs of
Ollama and copies such as config.json.bak have none.
"""

import os
import re
import stat
from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.errors import KvcalcError, escape
from kvcalc.preset.yaml_file import read_bytes
from kvcalc.sources import jsonfile
from kvcalc.sources.faults import GGUF_MAGIC, fault, unreadable

__all__ = ["CONFIG", "Described", "is_config", "is_model_file", "preset_of_config", "preset_of_path"]

CONFIG = "config.json"
_QUANTISATION = "hf_quant_config.json"  # ModelOpt writes the cache's format into a file of its own
_GGUF, _JSON, _SAFETENSORS = ".gguf", ".json", ".safetensors"
_BEFORE_TEXT = b"\xef\xbb\xbf \t\r\n"  # a byte order mark, and white space
_OF_PRESET = re.compile(rb"\b(layers|base)[\"']?\s*:")  # one of which every preset has
_MOST_READ = 8  # GGUF files of a folder, to see which of them is a model
_MOST_NAMED = 3  # files of a folder, in a hint


class Described(NamedTuple):
    """What a file says of its model: the mapping of a preset, and why its weights are not known, if they are not.

    `doubt`: what in it the file does not state, and may be otherwise.
    """

    preset: dict[str, object]
    unweighed: str | None = None
    doubt: str | None = None


def is_model_file(path: str) -> bool:
    """What is at `path` is read here, and not as a preset: by its ending, or its content, or as a folder."""
    if os.path.isdir(path) or path.lower().endswith((_GGUF, _JSON, _SAFETENSORS)):
        return True
    start = _first_bytes(path)
    if start.lstrip(_BEFORE_TEXT).startswith(b"{"):
        return is_config(read_bytes(path, jsonfile.MOST_JSON_BYTES))
    return start == GGUF_MAGIC


def _first_bytes(path: str) -> bytes:
    """The first four bytes of a regular file: a pipe could not be read a second time. None of what cannot be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return b""
        with open(path, "rb") as file:
            return file.read(len(GGUF_MAGIC))
    except OSError:  # whoever reads the file says so
        return b""


def is_config(content: bytes) -> bool:
    """Text is JSON as model folders have it, and no YAML preset, which has `layers` or a `base`."""
    start = content.lstrip(_BEFORE_TEXT)
    if not start.startswith(b"{"):
        return False
    if any(key in start for key in (b'"model_type"', b'"architectures"', b'_layers"')):
        return True
    return start[1:].lstrip().startswith((b'"', b"}")) and _OF_PRESET.search(start) is None


def preset_of_path(path: str, *, assume_dense: bool = False) -> Described:
    """The preset that a file or a folder describes. Raises KvcalcError."""
    if os.path.isdir(path):
        return _folder(path, assume_dense=assume_dense)
    ending = path.lower()
    if ending.endswith(_SAFETENSORS):
        return _safetensors(path, assume_dense=assume_dense)
    if ending.endswith(_GGUF) or _first_bytes(path) == GGUF_MAGIC:
        return _gguf(path)
    return _config(jsonfile.read_object(path), path, assume_dense=assume_dense)


def preset_of_config(content: bytes, file: str, *, assume_dense: bool = False) -> Described:
    """The preset that the text of a config.json describes."""
    return _config(jsonfile.parse_object(content, file), file, assume_dense=assume_dense)


def _config(config: Mapping[str, object], path: str, *, assume_dense: bool) -> Described:
    """The preset of the configuration at `path`, or of one of another name or on standard input."""
    from kvcalc.sources.config.native import is_native, translated
    from kvcalc.sources.config.reader import read_config

    if is_native(config):
        config = translated(config, path)
    if not any(_states_type(part) for part in (config, *config.values())):
        way_out = _way_to_config(path, shaped=_SHAPE.issubset(config))
        raise fault(path, "model_type", f"the type of a model, as its {CONFIG} has it", None, way_out)
    beside = os.path.join(os.path.dirname(path), _QUANTISATION)
    quantisation = jsonfile.read_object(beside) if os.path.isfile(beside) and path[:1] != "<" else None
    read = read_config(config, file=path, quantization=quantisation, assume_dense=assume_dense)
    return Described(read.preset, doubt=read.doubt)


def _states_type(part: object) -> bool:
    """A configuration, or its language part."""
    return isinstance(part, dict) and not {"model_type", "architectures"}.isdisjoint(part)


_SHAPE = {"num_hidden_layers", "num_attention_heads", "hidden_size"}


def _way_to_config(path: str, *, shaped: bool) -> str:
    """Where the configuration is, of a model of which `path` is another file. `shaped`: all but its type is there."""
    beside = os.path.join(os.path.dirname(path), CONFIG)
    if os.path.isfile(beside) and not path.endswith(CONFIG) and path[:1] != "<":
        return f"give {escape(beside)}, or its folder"
    fetch = f"fetch the {CONFIG} of the model, which has one"
    return f'add its type to a copy, such as "model_type": "llama", or {fetch}' if shaped else fetch


def _folder(folder: str, named: str | None = None, *, assume_dense: bool) -> Described:
    """The shape from config.json, and the weights from the headers of the safetensors files where there are any.

    `named` is the one of these files that was asked for. A folder without config.json may have one GGUF model.
    """
    path = os.path.join(folder, CONFIG)
    if not os.path.isfile(path):
        from kvcalc.sources.config.native import NATIVE

        native = os.path.join(folder, NATIVE)
        if os.path.isfile(native):
            return _config(jsonfile.read_object(native), native, assume_dense=assume_dense)
        return _gguf(_only_gguf(folder))
    from kvcalc.sources import checkpoint
    from kvcalc.sources.safetensors import folder_tensors, weigh

    config = jsonfile.read_object(path)
    found = _config(config, path, assume_dense=assume_dense)
    preset = found.preset
    try:
        tensors = folder_tensors(folder or ".", named)
        checkpoint.check_tensors(path, config, preset, tensors)
    except KvcalcError as error:
        hint = f"{error.hint}; " if error.hint else ""
        hint += f"{escape(path)} sizes the cache without the weights"
        raise KvcalcError(error.message, hint) from None
    weights = weigh(tensors)
    if weights.bytes_total:
        stored = ", ".join(f"{size:,} B in {dtype}" for dtype, size in weights.bytes_by_dtype.items())
        preset["weights_bytes"] = weights.bytes_total
        _take_dtype(preset, weights.bytes_by_dtype)
        preset["note"] = f"{preset.get('note', '')} Tensors: {stored}.".strip()
    return found


_COMPUTED = {"F32": "fp32", "F16": "fp16", "BF16": "bf16"}


def _take_dtype(preset: dict[str, object], stored: Mapping[str, int]) -> None:
    """Where the configuration states no dtype, most tensors say it, as they do to transformers (`dtype="auto"`)."""
    from kvcalc.sources.config.reader import ASSUMED

    dtype = _COMPUTED.get(next(iter(stored)))
    assumed, note = ASSUMED.format(preset["dtype"]), str(preset.get("note", ""))
    if dtype is None or assumed not in note:
        return
    preset["dtype"] = dtype
    preset["note"] = note.replace(assumed, f"The file states no dtype; {dtype} is that of the tensors.")
    if preset.get("weights_dtype") == dtype:
        del preset["weights_dtype"]


def _safetensors(path: str, *, assume_dense: bool) -> Described:
    """A file of weights, by the configuration beside it: it says nothing of heads and layers itself."""
    folder, name = os.path.split(path)
    if not os.path.isfile(os.path.join(folder, CONFIG)):
        hint = f"fetch the {CONFIG} of the model into the folder of this file"
        raise KvcalcError(f"{escape(path)}: expected a {CONFIG} beside it, which describes the model", hint)
    return _folder(folder, name, assume_dense=assume_dense)


def _only_gguf(folder: str) -> str:
    """The GGUF file in a folder without a config.json, if there is one model of that kind."""
    from kvcalc.sources.gguf.parts import first_parts, is_model

    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise unreadable(folder, error) from None
    files = first_parts([name for name in names if name.lower().endswith(_GGUF)])
    if 1 < len(files) <= _MOST_READ:  # a model for images has its projector in a file beside it
        files = [name for name in files if is_model(os.path.join(folder, name))] or files
    if len(files) == 1:
        return os.path.join(folder, files[0])
    hint = f"fetch the {CONFIG} of the model into it"
    inside = [f"{name}/" for name in names if _is_model(os.path.join(folder, name))]
    if files or inside:
        some = [escape(os.path.join(folder, name)) for name in (files or inside)[:_MOST_NAMED]]
        more = len(files or inside) - len(some)
        hint = f"give one of {', '.join(some)}{f' and {more:,} more' if more else ''}"
    what = f"{len(files):,} GGUF models" if files else "neither"
    raise KvcalcError(f"{escape(folder)}: expected a folder with a {CONFIG} or one GGUF model, got {what}", hint)


def _is_model(folder: str) -> bool:
    """A folder that can be given: of a model, or of one in the hub's cache."""
    return os.path.isfile(os.path.join(folder, CONFIG)) or os.path.basename(folder).startswith("models--")


def _gguf(path: str) -> Described:
    from kvcalc.sources.gguf.model import preset_from_gguf
    from kvcalc.sources.gguf.parts import read

    found = read(path)
    preset = preset_from_gguf(
        found.header.metadata,
        file=path,
        weights_bytes=found.weights_bytes,
        parameters=found.parameters,
        held=found.tensors,
    )
    if not found.missing:
        return Described(preset)
    first, more = escape(found.missing[0]), len(found.missing) - 1
    lacking = f"{first} and {more:,} more are missing" if more else f"{first} is missing"
    preset["note"] = f"The weights are not known: {lacking}. {preset.get('note', '')}".strip()
    return Described(preset, lacking)
