"""Where presets are found, and how one is loaded: one file read for a name, none at import."""

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvcalc.errors import DocumentError, KvcalcError, Problem, escape, nearest, shown
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

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_ENDINGS = (".yaml", ".yml")
_MOST_BASES = 8


class Entry(NamedTuple):
    """A preset that can be asked for by name."""

    name: str
    path: str


def squash(name: str) -> str:
    """A name without case and separators: `Llama-3-70B` and `llama3-70b` are one."""
    return re.sub(r"[-_. ]", "", name.lower())


def name_fault(name: str) -> str | None:
    """Why a preset must not be called `name`, or None."""
    if not _NAME.fullmatch(name):
        return "expected a name of a-z, 0-9, '.' and '-'"
    if not re.search(r"[0-9-]", name):
        return "expected a name with a digit or a hyphen, so that no command can have the same"
    return None


def folders() -> list[str]:
    """The folders of presets, those that come first first: KVCALC_PRESETS, the user's own, the bundled ones."""
    listed = [f for f in os.environ.get("KVCALC_PRESETS", "").split(os.pathsep) if f]
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    package = os.path.dirname(os.path.abspath(__file__))
    beside = os.path.join(package, "presets")  # in a wheel; in a checkout and an editable install they lie one up
    bundled = beside if os.path.isdir(beside) else os.path.join(os.path.dirname(package), "presets")
    return [*listed, os.path.join(config, "kvcalc", "presets"), bundled]


def _files(folder: str) -> Iterator[Entry]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a folder that is not there, or not ours to read, holds no presets
        return
    for name in names:
        stem, ending = os.path.splitext(name)
        if ending in _ENDINGS and not name.startswith("."):
            yield Entry(stem, os.path.join(folder, name))


def entries() -> list[Entry]:
    """All presets by name, each name once: the one that would be used."""
    found: dict[str, Entry] = {}
    for folder in folders():
        for entry in _files(folder):
            found.setdefault(squash(entry.name), entry)
    return sorted(found.values())


def load(source: str) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a hub id that a preset names.

    Raises KvcalcError where nothing is found (with the nearest names) or the file is faulty (with its line and key).
    """
    found = locate(source)
    return load_entry(found) if isinstance(found, Entry) else load_file(found)


def locate(source: str) -> Entry | str:
    """The preset or the path that `source` names."""
    if source.endswith(_ENDINGS) or ("/" in source and os.path.isfile(source)):
        return source
    if source.endswith((".json", ".gguf", "/")) or ("/" in source and os.path.isdir(source)):
        raise KvcalcError(
            f"{escape(source)}: this version reads YAML presets, not yet model files",
            "write a preset: presets/README.md shows how",
        )
    return _find_hub_id(source) if "/" in source else _find(source, ())


def _find(name: str, used: tuple[str, ...]) -> Entry:
    """The first preset called `name` whose path is not `used` yet."""
    for folder in folders():
        matches = [e for e in _files(folder) if squash(e.name) == squash(name) and e.path not in used]
        if len(matches) > 1:
            raise KvcalcError(f"{shown(name)} could be {matches[0].path} or {matches[1].path}", "rename one of them")
        if matches:
            return matches[0]
    by_id = _find_model_name(name)
    if by_id is not None and by_id.path not in used:
        return by_id
    known = {squash(entry.name): entry.name for entry in entries()}
    close = nearest(squash(name), known)
    hint = f"did you mean {' or '.join(known[c] for c in close)}?" if close else "`kvcalc models` lists all presets"
    raise KvcalcError(f"no preset is called {shown(name)}", hint)


def load_entry(entry: Entry) -> Model:
    """The model of a preset. Raises KvcalcError for a name that breaks the rule."""
    fault = name_fault(entry.name)
    if fault:
        raise KvcalcError(f"{escape(entry.path)}: {fault}, got {shown(entry.name)}", "rename the file")
    return _load_document(parse(read_bytes(entry.path), entry.path), entry.name, (entry.path,))


def _find_hub_id(hub_id: str) -> Entry:
    """The preset that gives `hub_id` as its own."""
    for entry, ids in _with_id(hub_id):
        if hub_id.lower() in ids:
            return entry
    if not re.fullmatch(r"\w[\w.-]*/[\w.-]+", hub_id):
        raise KvcalcError(f"{escape(hub_id)}: no such file")
    known = {squash(entry.name): entry.name for entry in entries()}
    close = nearest(squash(hub_id.split("/")[1]), known)
    hint = (
        f"the nearest presets are {', '.join(known[c] for c in close)}"
        if close
        else "`kvcalc models` lists all presets"
    )
    raise KvcalcError(f"no preset has the hub id {shown(hub_id)}", hint)


def _find_model_name(name: str) -> Entry | None:
    """The preset with a hub id that ends in `name`: `deepseek-r1` for deepseek-ai/DeepSeek-R1."""
    for entry, ids in _with_id("/" + name):
        if any(one.split("/")[-1] == name.lower() for one in ids):
            return entry
    return None


def _with_id(text: str) -> Iterator[tuple[Entry, list[str]]]:
    """The presets with their hub ids in lower case. Only files that contain `text` are parsed."""
    wanted = text.lower().encode(errors="replace")
    for folder in folders():
        for entry in _files(folder):
            try:
                if wanted in read_bytes(entry.path).lower():
                    yield entry, [one.lower() for one in load_entry(entry).ids]
            except KvcalcError:  # a faulty file is no reason not to find another; asked for by name, it says its fault
                continue


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
            entry = _find(base, used)
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
