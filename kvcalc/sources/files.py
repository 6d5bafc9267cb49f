"""Model files on disk become presets: a config.json, a model folder, a GGUF file."""

import os

from kvcalc.errors import KvcalcError, escape
from kvcalc.sources import jsonfile

__all__ = ["CONFIG", "is_config", "is_model_file", "preset_of_config", "preset_of_path"]

CONFIG = "config.json"
_QUANTISATION = "hf_quant_config.json"  # ModelOpt writes the cache's format into a file of its own
_ENDINGS = (".json", ".gguf")


def is_model_file(path: str) -> bool:
    """`path` is read here, and not as a preset: by its ending, or because it is a folder."""
    return path.endswith((*_ENDINGS, "/")) or os.path.isdir(path)


def is_config(content: bytes) -> bool:
    """Text from standard input is JSON as model folders have it, and no YAML preset, which has `layers` or a `base`."""
    start = content.lstrip(b"\xef\xbb\xbf \t\r\n")
    return start.startswith(b"{") and any(key in start for key in (b'"model_type"', b'"architectures"', b'_layers"'))


def preset_of_path(path: str, *, assume_dense: bool = False) -> dict[str, object]:
    """The preset that a file or a folder describes. Raises KvcalcError."""
    if os.path.isdir(path):
        return _folder(path, assume_dense=assume_dense)
    if path.endswith(".gguf"):
        return _gguf(path)
    return _config(path, os.path.dirname(path), assume_dense=assume_dense)


def preset_of_config(content: bytes, file: str, *, assume_dense: bool = False) -> dict[str, object]:
    """The preset that the text of a config.json describes."""
    from kvcalc.sources.config.reader import preset_from_config

    return preset_from_config(jsonfile.parse_object(content, file), file=file, assume_dense=assume_dense)


def _config(path: str, folder: str, *, assume_dense: bool) -> dict[str, object]:
    from kvcalc.sources.config.reader import preset_from_config

    beside = os.path.join(folder, _QUANTISATION)
    quantisation = jsonfile.read_object(beside) if os.path.isfile(beside) else None
    config = jsonfile.read_object(path)
    return preset_from_config(config, file=path, quantization=quantisation, assume_dense=assume_dense)


def _folder(folder: str, *, assume_dense: bool) -> dict[str, object]:
    """The shape from config.json, and the weights from the headers of the safetensors files where there are any."""
    path = os.path.join(folder, CONFIG)
    if not os.path.isfile(path):
        files = sorted(name for name in os.listdir(folder) if name.endswith(".gguf"))
        hint = f"give the file itself, such as {escape(os.path.join(folder, files[0]))}" if files else None
        raise KvcalcError(f"{escape(folder)}: expected a folder with a {CONFIG}", hint)
    from kvcalc.sources.safetensors import folder_weights

    preset = _config(path, folder, assume_dense=assume_dense)
    weights = folder_weights(folder)
    if weights is not None and weights.bytes_total:
        stored = ", ".join(f"{size:,} B in {dtype}" for dtype, size in weights.bytes_by_dtype.items())
        preset["weights_bytes"] = weights.bytes_total
        preset["note"] = f"{preset.get('note', '')} Tensors: {stored}.".strip()
    return preset


def _gguf(path: str) -> dict[str, object]:
    from kvcalc.sources.gguf.model import preset_from_gguf
    from kvcalc.sources.gguf.parts import read

    found = read(path)
    preset = preset_from_gguf(
        found.header.metadata, file=path, weights_bytes=found.weights_bytes, parameters=found.parameters
    )
    if found.missing:
        preset["note"] = f"{preset.get('note', '')} Parts are missing, so the weights are not known.".strip()
    return preset
