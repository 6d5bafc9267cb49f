"""Where presets are found: by name in any spelling, or by a hub id that they give as their own."""

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.errors import KvcalcError, nearest, shown
from kvcalc.library.starts import starts_server, way_to_start
from kvcalc.library.stated import stated
from kvcalc.preset.yaml_file import parse, read_bytes

__all__ = [
    "ENDINGS",
    "Entry",
    "bundled",
    "entries",
    "entry_called",
    "find_converted",
    "find_hub_id",
    "find_own_id",
    "folders",
    "has_ending",
    "in_configuration",
    "in_name",
    "is_path",
    "name_fault",
    "nearest_hint",
    "squash",
]

ENDINGS = (".yaml", ".yml")
_MODEL_ENDINGS = (".json", ".gguf", ".safetensors")
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_LONGEST = 200  # of a name in which a preset's is looked for
_MOST_IN_FRONT = 3  # words in front of the model's own: Meta-Llama-3-8B


class Entry(NamedTuple):
    """A preset that can be asked for by name."""

    name: str
    path: str


def squash(name: str) -> str:
    """A name without case and separators: `Llama-3-70B` and `llama3-70b` are one."""
    return re.sub(r"[-_. ]", "", name.lower())


def is_path(source: str) -> bool:
    """`source` is a path, an address or a hub id, and no preset's name."""
    return "/" in source or has_ending(source)


def has_ending(source: str) -> bool:
    """`source` ends, in any case, as files do that are read here, and so is a path."""
    return source.lower().endswith((*ENDINGS, *_MODEL_ENDINGS))


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
    return [*listed, in_configuration("presets"), bundled()]


def in_configuration(name: str) -> str:
    """Where a file or a folder of the user's own lies."""
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "kvcalc", name)


def bundled() -> str:
    """The folder of what is shipped."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    beside = os.path.join(package, "presets")  # in a wheel; in a checkout and an editable install they lie one up
    return beside if os.path.isdir(beside) else os.path.join(os.path.dirname(package), "presets")


def _files(folder: str) -> Iterator[Entry]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:  # a folder that is not there, or not ours to read, holds no presets
        return
    for name in names:
        stem, ending = os.path.splitext(name)
        if ending in ENDINGS and not name.startswith("."):
            yield Entry(stem, os.path.join(folder, name))


def entries() -> list[Entry]:
    """All presets by name, each name once: the one that would be used."""
    found: dict[str, Entry] = {}
    for folder in folders():
        for entry in _files(folder):
            found.setdefault(squash(entry.name), entry)
    return sorted(found.values())


def entry_called(name: str, used: tuple[str, ...] = ()) -> Entry:
    """The first preset called `name` whose path is not `used` yet."""
    for folder in folders():
        exact = Entry(name, os.path.join(folder, name + ENDINGS[0]))
        if _NAME.fullmatch(name) and exact.path not in used and os.path.isfile(exact.path):
            return exact  # as it is written: the folder need not be listed
        matches = [e for e in _files(folder) if squash(e.name) == squash(name) and e.path not in used]
        if len(matches) > 1:
            raise KvcalcError(f"{shown(name)} could be {matches[0].path} or {matches[1].path}", "rename one of them")
        if matches:
            return matches[0]
    by_id = _find_model_name(name) or find_converted(name)
    if by_id is not None and by_id.path not in used:
        return by_id
    raise KvcalcError(f"no preset is called {shown(name)}", _path_hint(name) or nearest_hint(name))


def _path_hint(name: str) -> str | None:
    """How to give the file or the folder that is called `name`, if there is one."""
    if os.path.isdir(name):
        return f"for the folder of that name give {name}/"
    if not os.path.isfile(name):
        return None
    try:
        starts = starts_server(read_bytes(name), name)
    except KvcalcError:  # whoever reads the file says so
        starts = False
    return way_to_start(name) if starts else f"for the file of that name give ./{name}"


def nearest_hint(name: str) -> str:
    """The presets whose names are closest to `name`, as a way out."""
    known = {squash(entry.name): entry.name for entry in entries()}
    close = nearest(squash(name), known)
    return f"did you mean {' or '.join(known[c] for c in close)}?" if close else "`kvcalc models` lists all presets"


def find_hub_id(hub_id: str) -> Entry | None:
    """The preset that gives `hub_id` as its own; of a repository of converted weights, the preset of its name."""
    return find_own_id(hub_id) or find_converted(hub_id)


def find_own_id(hub_id: str) -> Entry | None:
    """The preset that gives `hub_id` as its own."""
    return next((entry for entry, ids in _with_id(hub_id) if hub_id.lower() in ids), None)


def find_converted(name: str) -> Entry | None:
    """The preset of a model whose name states a format: ggml-org/gpt-oss-20b-GGUF holds openai/gpt-oss-20b.

    Who converts a model writes its publisher in front (bartowski/Qwen_Qwen3-8B-GGUF), or keeps or drops `Meta-`; NVIDIA
    calls what others are made from NAME-BF16. Ollama has NAME:TAG, where the tag begins with the size and goes on with
    the variant.
    """
    said = stated(name)
    if said is None and ":" not in name:
        return None
    model, _, tag = (name if said is None else said.name).rsplit("/", maxsplit=1)[-1].partition(":")
    parts = tag.split("-") if tag else []
    for end in range(len(parts), -1 if said is not None else 0, -1):
        full = "-".join([model, *parts[:end]])
        for one in (full, full.partition("_")[2], f"Meta-{full}", full.removeprefix("Meta-"), f"{full}-BF16"):
            if one and (found := _preset_called(one) or _find_model_name(one)) is not None:
                return found
    return None


def _preset_called(name: str) -> Entry | None:
    return next((entry for folder in folders() for entry in _files(folder) if squash(entry.name) == squash(name)), None)


def in_name(model: str) -> str | None:
    """The preset that the name of a file or a repository speaks of: Qwen3-8B-Q4_K_M.gguf of qwen3-8b. It is a guess."""
    parts = re.split(r"[-_ ]", re.split(r"[/\\]", model[:_LONGEST])[-1].partition(":")[0])
    known = {squash(entry.name): entry.name for entry in entries()}
    for begin in range(min(len(parts), _MOST_IN_FRONT)):
        for end in range(len(parts), begin, -1):
            found = known.get(squash("".join(parts[begin:end]).removesuffix(".gguf")))
            if found is not None:
                return found
    return None


def _find_model_name(name: str) -> Entry | None:
    """The preset with a hub id that ends in `name`: `deepseek-r1` for deepseek-ai/DeepSeek-R1."""
    matches = (entry for entry, ids in _with_id("/" + name) if name.lower() in [one.split("/")[-1] for one in ids])
    return next(matches, None)


def _with_id(text: str) -> Iterator[tuple[Entry, list[str]]]:
    """The presets with their hub ids in lower case. Only files that contain `text` are parsed."""
    wanted = text.lower().encode(errors="replace")
    for folder in folders():
        for entry in _files(folder):
            try:
                content = read_bytes(entry.path)
                ids = parse(content, entry.path).data.get("id") if wanted in content.lower() else None
            except KvcalcError:  # a faulty file is no reason not to find another; asked for by name, it says its fault
                continue
            yield entry, [str(one).lower() for one in (ids if isinstance(ids, list) else [ids])]
