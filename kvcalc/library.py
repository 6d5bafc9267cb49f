"""A model is loaded from whatever names it: a preset's name, a file, a hub id. A name costs one file, an import none."""

import os
import re
from typing import Any

from kvcalc.errors import DocumentError, KvcalcError, Problem, escape, shown
from kvcalc.finding import ENDINGS, Entry, entries, find, find_hub_id, folders, name_fault, nearest_hint, squash
from kvcalc.model import Model
from kvcalc.preset import model_from_preset
from kvcalc.yamlfile import Document, parse, read_bytes

__all__ = [
    "Entry",
    "check",
    "entries",
    "folders",
    "load",
    "load_entry",
    "load_file",
    "load_text",
    "locate",
    "name_fault",
    "squash",
]

_MOST_BASES = 8


def load(source: str) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a hub id that a preset names.

    Raises KvcalcError where nothing is found (with the nearest names) or the file is faulty (with its line and key).
    """
    found = locate(source)
    return load_entry(found) if isinstance(found, Entry) else load_file(found)


def locate(source: str) -> Entry | str:
    """The preset or the path that `source` names."""
    if source.endswith(ENDINGS) or ("/" in source and os.path.isfile(source)):
        return source
    if source.endswith((".json", ".gguf", "/")) or ("/" in source and os.path.isdir(source)):
        raise KvcalcError(
            f"{escape(source)}: this version reads YAML presets, not yet model files",
            "write a preset: presets/README.md shows how",
        )
    if "/" not in source:
        return find(source)
    entry = find_hub_id(source)
    if entry is not None:
        return entry
    if not re.fullmatch(r"\w[\w.-]*/[\w.-]+", source):
        raise KvcalcError(f"{escape(source)}: no such file")
    raise KvcalcError(f"no preset has the hub id {shown(source)}", nearest_hint(source.split("/")[1]))


def load_entry(entry: Entry) -> Model:
    """The model of a preset. Raises KvcalcError for a name that breaks the rule."""
    fault = name_fault(entry.name)
    if fault:
        raise KvcalcError(f"{escape(entry.path)}: {fault}, got {shown(entry.name)}", "rename the file")
    return _load_document(parse(read_bytes(entry.path), entry.path), entry.name, (entry.path,))


def load_file(path: str) -> Model:
    """The model of a preset file."""
    return _load_document(parse(read_bytes(path), path), escape(path), (path,))


def load_text(content: bytes, file: str) -> Model:
    """The model of a preset given as bytes; `file` stands in messages."""
    return _load_document(parse(content, file), file, ())


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
        data = {**data, **document.data}
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
