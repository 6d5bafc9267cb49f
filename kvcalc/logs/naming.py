"""What an engine's log calls its model, as one of the presets. A name from a log is only compared: no file of that name
is opened, and no network is asked.
"""

import re
from collections.abc import Iterator, Sequence

from kvcalc.errors import KvcalcError
from kvcalc.library.index import Entry, entries, entry_called, find_hub_id
from kvcalc.preset.yaml_file import read_bytes

__all__ = ["preset_of"]

# Words of a name that say how its weights are stored or what it was tuned for, and nothing about its cache.
_TUNED = "instruct chat it base reasoning thinking"
_STORED = """
    fp8 fp4 nvfp4 mxfp4 mxfp8 int4 int8 4bit 8bit w4a16 w8a8 w8a16 w4a4 bf16 fp16 f16 f32 awq gptq autoround gguf bnb
    dynamic block static quantized kv hf unsloth qat ud imatrix mlx
"""
_FORMATS = frozenset(_TUNED.split() + _STORED.split())
_GGUF_TYPE = re.compile(r"(?:iq|q)\d[\w]*|\d+bit|tq\d\w*")
_PARAMETERS = re.compile(r"(?:\d+x|[ae])?\d+[bm]")  # 70b, 8x7b, a3b
_LONGEST = 300


def preset_of(names: Sequence[str]) -> tuple[Entry, str] | None:
    """The preset that one of `names` means, and the name. A name that is exact goes before one that is alike."""
    bare = [one for name in names if len(name) <= _LONGEST for one in _spellings(name)]
    for name in bare:
        entry = _exact(name)
        if entry is not None:
            return entry, name
    known: dict[str, Entry] | None = None
    for name in bare:
        known = _known() if known is None else known
        for essence in _essences(name.rsplit("/", 1)[-1]):
            if essence in known:
                return known[essence], name
    return None


def _spellings(name: str) -> Iterator[str]:
    """A hub id as it stands in paths too: a folder of the hub's cache, the last part of a path, a GGUF file's name.

    ModelScope's folders have `___` for a dot.
    """
    name = name.strip().rstrip("/\\").replace("___", ".")
    cached = re.search(r"models--([\w.-]+?)--([\w.-]+)", name, re.ASCII)
    if cached:
        yield f"{cached[1]}/{cached[2]}"
        return
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        yield name
    last = re.split(r"[/\\]", name)[-1].split("@")[0]
    yield re.sub(r"(?:-\d{5}-of-\d{5})?\.gguf$", "", last)


def _exact(name: str) -> Entry | None:
    if "/" in name:
        return find_hub_id(name)
    if not re.search(r"[0-9-]", name):
        return None
    try:
        return entry_called(name)
    except KvcalcError:
        return None


def _essence(name: str) -> str:
    """A name without the words that do not matter, and without separators."""
    return "".join(_words(name))


def _words(name: str) -> list[str]:
    words = re.split(r"[-_. ]", name.lower())
    return [word for word in words if word not in _FORMATS and not _GGUF_TYPE.fullmatch(word)]


def _essences(name: str) -> Iterator[str]:
    """A name, and then without its last words, as long as the number of its parameters is still there: what follows it
    is who quantised or tuned the model.
    """
    words = _words(name)
    yield "".join(words)
    size = max((i for i, word in enumerate(words) if _PARAMETERS.fullmatch(word)), default=len(words))
    for end in range(len(words) - 1, size, -1):
        yield "".join(words[:end])


def _known() -> dict[str, Entry]:
    """Presets by the essence of their names and ids; the shortest name for those that differ in format alone."""
    found: dict[str, Entry] = {}
    for entry in sorted(entries(), key=lambda each: (len(each.name), each.name)):
        ids = re.findall(r"(?<![\w.-])[\w.-]++/([\w.-]+)", _id_line(entry))
        for name in (entry.name, *ids):
            found.setdefault(_essence(name), entry)
    found.pop("", None)
    return found


def _id_line(entry: Entry) -> str:
    """The text of a preset's `id`, which may go on over several lines."""
    try:
        text = read_bytes(entry.path).decode("utf-8", "replace")
    except KvcalcError:
        return ""
    match = re.search(r"^id:(.*(?:\n[ \t]+.*)*)", text, re.MULTILINE)
    return match[1] if match else ""
