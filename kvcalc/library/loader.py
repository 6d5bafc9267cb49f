"""A model is loaded from what names it: a preset's name, a file, a hub id. A name costs one file, an import none."""

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kvcalc.core import dtypes, weights
from kvcalc.core.model import Model
from kvcalc.errors import DocumentError, KvcalcError, Problem, escape, shown
from kvcalc.library.index import ENDINGS, Entry, entries, entry_called, folders, is_path, name_fault, squash
from kvcalc.library.locate import ModelFile, locate, missing
from kvcalc.library.ollama import hub_name
from kvcalc.library.starts import starts_server, way_to_start
from kvcalc.library.stated import stated
from kvcalc.preset.mapping import model_from_preset
from kvcalc.preset.yaml_file import Document, parse, read_bytes

if TYPE_CHECKING:
    from kvcalc.sources.files import Described

__all__ = [
    "Entry",
    "entries",
    "folders",
    "load",
    "load_entry",
    "load_text",
    "locate",
    "mapping_at",
    "mapping_of_text",
    "name_fault",
    "problems_of",
    "problems_of_text",
    "squash",
    "to_check",
]

_MOST_BASES = 8
_IDENTITY = ("id", "source", "confidence", "note", "weights_bytes")


def load(source: str, *, assume_dense: bool = False) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a model of the hub.

    `assume_dense` reads a config.json of an unknown type as if it were shaped like Llama, if it plainly is. Raises
    KvcalcError where nothing is found (with the nearest names) or the file is faulty (with its line and key).
    """
    return _opened(source, assume_dense=assume_dense)[1]


def mapping_at(source: str, *, assume_dense: bool = False) -> dict[Any, Any]:
    """What `source` names as a preset's mapping: as its file has it, or as a reader of model files makes it."""
    return _opened(source, assume_dense=assume_dense)[0]


def load_text(content: bytes, file: str, *, assume_dense: bool = False) -> Model:
    """The model of a preset or a config.json given as bytes; `file` stands in messages."""
    return _opened_text(content, file, (), assume_dense=assume_dense)[1]


def mapping_of_text(content: bytes, file: str, *, assume_dense: bool = False) -> dict[Any, Any]:
    """A preset or a config.json given as bytes, as a preset's mapping."""
    return _opened_text(content, file, (), assume_dense=assume_dense)[0]


_Opened = tuple[dict[Any, Any], Model]  # a preset's mapping, and the model that it describes


def _opened(source: str, *, assume_dense: bool) -> _Opened:
    place, source = _located(source)
    match place:
        case Entry() as entry:
            document = _document_of(entry)
            return document.data, as_named(_load_document(document, entry.name, (entry.path,)), entry, source)
        case ModelFile() as file:
            found = _described(file, assume_dense=assume_dense)
            model = _load_mapping(found, source)
            silent = file.hub_id is not None and model.weights_dtype is None and model.weights_bytes is None
            return found.preset, _stored_as(model, file.hub_id or "", source) if silent else model
        case path:
            return _opened_text(read_bytes(path), path, (path,), assume_dense=assume_dense)


def _located(source: str) -> tuple[Entry | ModelFile | str, str]:
    """What `source` names, and the name whose format counts. Ollama's names count where no preset has the name."""
    plain = not is_path(source)
    if plain and ":" in source and (named := hub_name(source)) is not None:
        return locate(named), named
    try:
        return locate(source), source
    except KvcalcError:
        named = hub_name(source) if plain else None
        if named is None:
            raise
        return locate(named), named


def as_named(model: Model, entry: Entry, source: str) -> Model:
    """The model in the format that the name it was asked for by states, where that name is not the preset's own."""
    own = squash(source) == squash(entry.name) or source.lower() in map(str.lower, model.ids)
    return model if own else _stored_as(model, entry.name, source)


def _stored_as(model: Model, called: str, source: str) -> Model:
    """The model in the format that `source` states, if it states one."""
    said = stated(source)
    if said is not None and said.unsized is not None:
        text = f"{shown(source)}: the size of weights in {said.unsized} is not known"
        raise KvcalcError(text, f"give the model, and the size of its files: {called} --weights SIZE")
    if said is None or said.format is None:
        return model
    dtype = weights.dtype_of(said.format)
    stored = None if dtype == model.dtype else dtype
    mix = "the publisher's own mix, of which the nearest is " if said.own else ""
    cache = f" and a cache in {said.kv_dtype}" if said.kv_dtype else ""
    named = f"sized as {called} with weights in {mix}{said.format}{cache}, which the name {shown(source)} states"
    kv_dtype = model.kv_dtype if said.kv_dtype is None else dtypes.KV[said.kv_dtype]
    model = replace(model, weights_block=None, weights_kept=(), weights_bytes=None)  # facts of the published file
    return replace(model, weights_dtype=stored, kv_dtype=kv_dtype, named=named)


def _opened_text(content: bytes, file: str, used: tuple[str, ...], *, assume_dense: bool) -> _Opened:
    if b"{" in content[:16]:  # perhaps JSON, whose reader is not imported for nothing
        from kvcalc.sources.files import is_config, preset_of_config

        if is_config(content):
            found = preset_of_config(content, file, assume_dense=assume_dense)
            return found.preset, _load_mapping(found, file)
    if starts_server(content, file):
        text = f"{escape(file)}: expected a preset or a config.json, got a file that starts a server"
        raise KvcalcError(text, way_to_start(file))
    document = parse(content, file)
    return document.data, _load_document(document, escape(file), used)


def _described(file: ModelFile, *, assume_dense: bool) -> "Described":
    """What a model file says of its model, under the name that the hub has for it."""
    from kvcalc.sources.files import preset_of_path  # model files are not what a short question asks about

    found = preset_of_path(file.path, assume_dense=assume_dense)
    if file.hub_id is not None:
        at = f" at {file.revision}" if file.revision else ""
        found.preset.update(
            {"name": file.hub_id.split("/")[-1], "id": file.hub_id, "source": f"config.json of {file.hub_id}{at}"}
        )
    return found


def _load_mapping(found: "Described", origin: str) -> Model:
    """The model of a preset that a reader made; what it could not make sound is the model file's fault."""
    model, problems = model_from_preset(found.preset, escape(origin))
    if model is None:
        raise DocumentError([problem._replace(file=escape(origin)) for problem in problems])
    return replace(model, unweighed=found.unweighed, doubt=found.doubt)


def load_entry(entry: Entry) -> Model:
    """The model of a preset. Raises KvcalcError for a name that breaks the rule."""
    return _load_document(_document_of(entry), entry.name, (entry.path,))


def _document_of(entry: Entry) -> Document:
    fault = name_fault(entry.name)
    if fault:
        raise KvcalcError(f"{escape(entry.path)}: {fault}, got {shown(entry.name)}", "rename the file")
    return parse(read_bytes(entry.path), entry.path)


def _load_document(document: Document, origin: str, used: tuple[str, ...]) -> Model:
    model, problems = _read(document, origin, used)
    if model is None:
        raise DocumentError(problems, f"kvcalc models --check {_typed(used[0])}" if used else None)
    return model


def _typed(path: str) -> str:
    """A path as it is typed in a shell."""
    from shlex import quote  # only on the way to an error

    return quote(path)


def to_check(path: str) -> list[str]:
    """The files that a check of `path` is about: itself, or the presets in a folder. Raises KvcalcError for none."""
    if not os.path.exists(path):
        raise missing(path)
    if not os.path.isdir(path):
        return [path]
    found = [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.lower().endswith(ENDINGS)]
    return found or [path]


def problems_of(path: str) -> list[Problem]:
    """Everything wrong with a preset file, by line; empty if nothing is."""
    from kvcalc.sources.files import is_model_file

    if os.path.isdir(path):
        try:
            _opened(os.path.join(path, ""), assume_dense=False)
        except KvcalcError:
            text = "expected presets, which end in .yaml, got a folder without one"
            return [Problem((), text, file=escape(path))]
    if is_model_file(path):
        return [Problem((), _no_preset(path), file=escape(path))]
    return problems_of_text(read_bytes(path), path, (path,))


def problems_of_text(content: bytes, file: str, used: tuple[str, ...] = ()) -> list[Problem]:
    """The same for a preset given as bytes; `file` stands in the problems."""
    from kvcalc.sources.files import is_config

    if is_config(content):
        return [Problem((), _no_preset("-"), file=file)]
    try:
        return _read(parse(content, file), file, used)[1]
    except DocumentError as error:
        return list(error.problems)


def _no_preset(path: str) -> str:
    way_out = f"`kvcalc preset {_typed(path)} > my-model.yaml` makes one of it"
    return f"expected a preset, got a file or folder of a model; {way_out}"


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
            entry = entry_called(base, used)
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
        # Where its widths were read goes with them.
        dropped = (*_IDENTITY, "dimensions_source") if "dimensions" in document.data else _IDENTITY
        data = {key: value for key, value in data.items() if key not in dropped} | document.data
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
