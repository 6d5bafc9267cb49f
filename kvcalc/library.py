"""A model is loaded from what names it: a preset's name, a file, a hub id. A name costs one file, an import none."""

import os
import re
from typing import Any, NamedTuple

from kvcalc.errors import DocumentError, KvcalcError, Problem, escape, shown
from kvcalc.finding import ENDINGS, Entry, entries, find, find_hub_id, folders, name_fault, nearest_hint, squash
from kvcalc.model import Model
from kvcalc.preset import model_from_preset
from kvcalc.yamlfile import Document, parse, read_bytes

__all__ = [
    "Entry",
    "ModelFile",
    "check",
    "entries",
    "folders",
    "load",
    "load_entry",
    "load_file",
    "load_text",
    "locate",
    "mapping_at",
    "mapping_of_text",
    "name_fault",
    "squash",
]

_MOST_BASES = 8
_IDENTITY = ("id", "source", "confidence", "note", "weights_bytes")


class ModelFile(NamedTuple):
    """A model file that is no preset, and the hub id under which it was found, if that is how it was found."""

    path: str
    hub_id: str | None = None


def load(source: str, *, assume_dense: bool = False) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a hub id.

    `assume_dense` reads a config.json of an unknown type as if it were shaped like Llama, if it plainly is. Raises
    KvcalcError where nothing is found (with the nearest names) or the file is faulty (with its line and key).
    """
    match locate(source):
        case Entry() as entry:
            return load_entry(entry)
        case ModelFile() as file:
            return _load_mapping(_mapping_of(file, assume_dense=assume_dense), file.hub_id or file.path)
        case path:
            return load_file(path)


def locate(source: str) -> Entry | ModelFile | str:
    """The preset, the model file or the path of a YAML file that `source` names."""
    if source.endswith(ENDINGS):
        return source
    if source.endswith((".json", ".gguf", "/")) or ("/" in source and os.path.isdir(source)):
        return ModelFile(source)
    if "/" not in source:
        return find(source)
    if os.path.exists(source):
        return source
    return find_hub_id(source) or _from_hub(source)


def _from_hub(source: str) -> ModelFile:
    from kvcalc.sources import hub

    if not hub.looks_like_id(source):
        raise KvcalcError(f"{escape(source)}: no such file")
    return ModelFile(hub.config_path(source, nearest_hint(source.split("/")[1])), source)


def mapping_at(source: str, *, assume_dense: bool = False) -> dict[Any, Any]:
    """What `source` names as a preset's mapping: as its file has it, or as a reader of model files makes it."""
    match locate(source):
        case Entry() as entry:
            load_entry(entry)  # for its faults
            return parse(read_bytes(entry.path), entry.path).data
        case ModelFile() as file:
            preset = _mapping_of(file, assume_dense=assume_dense)
            _load_mapping(preset, file.path)
            return preset
        case path:
            load_file(path)  # for its faults
            return parse(read_bytes(path), path).data


def _mapping_of(file: ModelFile, *, assume_dense: bool) -> dict[str, object]:
    """The preset that a model file describes, as a mapping."""
    from kvcalc.sources.files import preset_of_path  # model files are not what a short question asks about

    preset = preset_of_path(file.path, assume_dense=assume_dense)
    if file.hub_id is not None:
        preset |= {"name": file.hub_id.split("/")[1], "id": file.hub_id, "source": f"config.json of {file.hub_id}"}
    return preset


def _load_mapping(preset: dict[str, object], origin: str) -> Model:
    """The model of a preset that a reader made; what it could not make sound is the model file's fault."""
    model, problems = model_from_preset(preset, escape(origin))
    if model is None:
        raise DocumentError([problem._replace(file=escape(origin)) for problem in problems])
    return model


def load_entry(entry: Entry) -> Model:
    """The model of a preset. Raises KvcalcError for a name that breaks the rule."""
    fault = name_fault(entry.name)
    if fault:
        raise KvcalcError(f"{escape(entry.path)}: {fault}, got {shown(entry.name)}", "rename the file")
    return _load_document(parse(read_bytes(entry.path), entry.path), entry.name, (entry.path,))


def load_file(path: str) -> Model:
    """The model of a preset file."""
    return _load_document(parse(read_bytes(path), path), escape(path), (path,))


def load_text(content: bytes, file: str, *, assume_dense: bool = False) -> Model:
    """The model of a preset or a config.json given as bytes; `file` stands in messages."""
    preset = _config_mapping(content, file, assume_dense=assume_dense)
    return _load_document(parse(content, file), file, ()) if preset is None else _load_mapping(preset, file)


def mapping_of_text(content: bytes, file: str, *, assume_dense: bool = False) -> dict[Any, Any]:
    """A preset or a config.json given as bytes, as a preset's mapping."""
    load_text(content, file, assume_dense=assume_dense)  # for its faults
    preset = _config_mapping(content, file, assume_dense=assume_dense)
    return parse(content, file).data if preset is None else preset


def _config_mapping(content: bytes, file: str, *, assume_dense: bool) -> dict[str, object] | None:
    """The preset of a config.json; None for text that is a preset itself."""
    if content.lstrip()[:1] != b"{":
        return None
    from kvcalc.sources.files import is_config, preset_of_config

    return preset_of_config(content, file, assume_dense=assume_dense) if is_config(content) else None


def _load_document(document: Document, origin: str, used: tuple[str, ...]) -> Model:
    model, problems = _read(document, origin, used)
    if model is None:
        raise DocumentError(problems)
    return model


def check(path: str) -> list[Problem]:
    """Everything wrong with a preset file, by line; empty if nothing is."""
    try:
        return _read(parse(read_bytes(path), path), path, (path,))[1]
    except DocumentError as error:
        return list(error.problems)


def _read(document: Document, origin: str, used: tuple[str, ...]) -> tuple[Model | None, list[Problem]]:
    chain = _bases(document, used)
    model, problems = model_from_preset(_merged(chain), origin)
    return model, sorted((_placed(problem, chain) for problem in problems), key=_order)


def _order(problem: Problem) -> tuple[bool, int, str]:
    """What is missing comes last, all else by line."""
    return problem.missing, problem.line or 0, str(problem.path)


def _bases(document: Document, used: tuple[str, ...]) -> list[Document]:
    """A document and those that it starts from, nearest first."""
    chain = [document]
    while (base := chain[-1].data.get("base")) is not None:
        here = chain[-1]
        if not isinstance(base, str) or len(chain) > _MOST_BASES:
            text = f"expected the name of a preset, got {shown(base)}"
            if len(chain) > _MOST_BASES:
                text = f"expected at most {_MOST_BASES} presets that start from one another"
            raise DocumentError([Problem(("base",), text, file=here.file, line=here.line(["base"]))])
        try:
            entry = find(base, used)
        except KvcalcError as error:
            text = f"expected another preset to start from: {error.message}"
            raise DocumentError([Problem(("base",), text, file=here.file, line=here.line(["base"]))]) from None
        used = (*used, entry.path)
        chain.append(parse(read_bytes(entry.path), entry.path))
    return chain


def _merged(chain: list[Document]) -> dict[object, object]:
    """The keys of a chain of presets, the first one's on top; entries of `caches` merge by name, field by field."""
    data: dict[object, object] = {}
    for document in reversed(chain):
        caches: Any = data.get("caches")
        # A base hands on its shape, not its identity: ids, source and trust are those of another model.
        data = {key: value for key, value in data.items() if key not in _IDENTITY} | document.data
        own: Any = document.data.get("caches")
        if isinstance(caches, dict) and isinstance(own, dict):
            merged = {k: {**v, **own[k]} if isinstance(v, dict) and isinstance(own.get(k), dict) else v
                      for k, v in caches.items() if k not in own or isinstance(own[k], dict)}  # fmt: skip
            data["caches"] = {**own, **merged}
            _drop_unused(data, own)
        elif isinstance(caches, dict) and "caches" not in document.data:
            data["caches"] = dict(caches)
            _drop_unused(data, {})
    return data


def _drop_unused(data: dict[Any, Any], own: dict[object, object]) -> None:
    """Drop the caches of a base that the layers which replaced its own no longer name."""
    named = set(re.findall(r"[\w.-]+", f"{data.get('layers')} {data.get('draft')}"))
    for name in [name for name in data["caches"] if name not in own and name not in named]:
        del data["caches"][name]
    if not data["caches"]:
        del data["caches"]


def _placed(problem: Problem, chain: list[Document]) -> Problem:
    """The problem with the file and line where its key stands."""
    for document in chain:
        line = document.line(problem.path)
        if line is not None:
            return problem._replace(file=document.file, line=line)
    return problem._replace(file=chain[0].file)
