"""A user's own files of accelerators: cards that are not shipped, other facts of those that are, and what they cost.

Each top-level key of the YAML is a card's name, and what stands under it are its facts.
"""

import math
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from kvcalc.cards.shipped import Accelerator
from kvcalc.core.card import Shares
from kvcalc.core.units import parse_size
from kvcalc.errors import DocumentError, KvcalcError, Problem
from kvcalc.library.index import in_configuration, squash
from kvcalc.preset.fields import Reader
from kvcalc.preset.yaml_file import Document, parse, read_bytes

__all__ = ["own_files", "read_own"]

_NAME = re.compile(r"(?![0-9]+[x*])[a-z0-9][a-z0-9.-]{0,59}")  # 8x stands for eight of a card
_TAKEN = ("all", "local")
_MOST_CARDS = 1000
_MOST_TEXT = 200
_MOST_DEVICES = 1024  # in one machine
_KEYS = (
    "known here: base, memory, bandwidth_gb_s, tflops_16bit, tflops_fp8, tflops_fp4, link_gb_s, link, attained, "
    "machine, bf16, capability, vendor, label, price, source, note"
)
_VENDORS = ("NVIDIA", "AMD", "Intel", "Apple", "Google", "AWS")

# A thousand times the fastest card: what is above is a slip of units.
_MOST = {
    "bandwidth_gb_s": 10**7, "tflops_16bit": 10**7, "tflops_fp8": 10**7, "tflops_fp4": 10**7, "link_gb_s": 10**7,
    "price": 10**6,
}  # fmt: skip


def own_files(file: str | None = None) -> list[str]:
    """Where a user's own cards stand, those that count most last: the configuration, KVCALC_GPUS, `file`."""
    own = in_configuration("gpus.yaml")
    listed = [path for path in os.environ.get("KVCALC_GPUS", "").split(os.pathsep) if path]
    # Of a path list the first counts most, as in KVCALC_PRESETS.
    return [*([own] if os.path.isfile(own) else []), *reversed(listed), *([file] if file else [])]


def read_own(known: Mapping[str, Accelerator], file: str | None = None) -> dict[str, Accelerator]:
    """The known cards and those of a user's own files. Raises KvcalcError for a file that is faulty or not there."""
    found = dict(known)
    for path in own_files(file):
        found |= _checked(path, found)
    return found


def _checked(path: str, known: dict[str, Accelerator]) -> dict[str, Accelerator]:
    document = _document(path)
    problems: list[Problem] = []
    found: dict[str, Accelerator] = {}
    for name in list(document.data)[:_MOST_CARDS]:
        one = _card(Reader(document.data, problems=problems, many=_KEYS), name, {**known, **found}, document.file)
        if one is not None:
            if squash(one.id) in {squash(other) for other in found}:
                problems.append(Problem((one.id,), "expected a new name, got one that stands here already"))
            found[one.id] = one
    if len(document.data) > _MOST_CARDS:
        problems.append(Problem((), f"expected at most {_MOST_CARDS:,} cards, got {len(document.data):,}"))
    if problems:
        placed = [one._replace(file=document.file, line=document.line(one.path)) for one in problems]
        raise DocumentError(sorted(placed, key=lambda one: (one.missing, one.line or 0)))
    return found


@lru_cache(8)
def _document(path: str) -> Document:
    try:
        return parse(read_bytes(path), path)
    except DocumentError:
        raise
    except KvcalcError as error:
        raise KvcalcError(error.message, "a file of GPUs is YAML: a name, and under it `memory: 79.2GiB`") from None


def _card(top: Reader, name: object, known: Mapping[str, Accelerator], file: str) -> Accelerator | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN or not re.search("[a-z]", name):
        key = name if isinstance(name, str) else str(name)
        top.note("expected the name of a card in a-z, 0-9, '.' and '-', with a letter", key)
        return None
    reader = top.inner(name)
    if reader is None:
        if top.data.get(name) is None:
            top.missing("a mapping with the facts of the card", name)
        return None
    before = len(reader.problems)
    base = _base(reader, name, known)
    facts = _facts(reader)
    if base is None and "memory" not in facts and len(reader.problems) == before:
        reader.missing("the card's memory, such as 79.2GiB, or `base: h100-sxm`", "memory")
    if len(reader.problems) > before:
        return None
    start = base or Accelerator(name, name)
    if "shares" in facts:
        facts["shares"] = start.shares._replace(**facts["shares"])
    sources = {**start.sources, **dict.fromkeys((_FIELD[key] for key in facts if key in _FIELD), "file")}
    return start._replace(**{**facts, "id": name, "file": file, "sources": sources})


# What `Accelerator.sources` calls the fields.
_FIELD = {"memory": "memory", "bandwidth_gb_s": "bandwidth", "tflops_16bit": "flops16", "tflops_fp8": "flops8",
          "tflops_fp4": "flops4", "link_gb_s": "link", "link": "link"}  # fmt: skip


def _base(reader: Reader, name: str, known: Mapping[str, Accelerator]) -> Accelerator | None:
    """The card to start from: the one of `base`, or the known one of the same name."""
    text = reader.text("base")
    if text is not None and text not in known:
        reader.expected("the name of a card, as `kvcalc gpus` lists them", "base")
    return known.get(text or name)


def _facts(reader: Reader) -> dict[str, Any]:
    """What a file says of a card, under the names of Accelerator's fields."""
    found: dict[str, Any] = {key: _number(reader, key) for key in _MOST}
    for key in ("label", "link", "note", "source"):
        found[key] = reader.text(key)
        if found[key] is not None and len(found[key]) > _MOST_TEXT:
            reader.note(f"expected at most {_MOST_TEXT} characters, got {len(found[key]):,}", key)
    found["vendor"] = reader.one_of("vendor", _VENDORS)
    found["memory"] = _memory(reader)
    found["capability"] = _capability(reader)
    found["machine"] = reader.integer("machine", 1, _MOST_DEVICES)
    found["bf16"] = reader.flag("bf16") if "bf16" in reader.data else None
    found["shares"] = _shares(reader)
    source = found.pop("source")
    if source is not None:
        found["note"] = f"{found['note']} {source}" if found["note"] else source
    reader.close()
    return {key: value for key, value in found.items() if value is not None}


def _shares(reader: Reader) -> dict[str, float] | None:
    """What kernels attain on the card, as shares of its peaks and as seconds before a sum over ranks begins."""
    inner = reader.inner("attained")
    if inner is None:
        return None
    found = {key: _number(inner, key, 1) for key in Shares._fields}
    inner.close()
    return {key: value for key, value in found.items() if value is not None}


def _number(reader: Reader, key: str, most: int | None = None) -> float | None:
    value = reader.get(key)
    if value is None:
        return None
    most = most or _MOST[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and 0 < value <= most:  # type: ignore[arg-type,operator]
        return value  # type: ignore[return-value]  # `number` says it
    reader.expected(f"a number above zero and up to {most:,}", key)
    return None


def _memory(reader: Reader) -> int | None:
    value = reader.get("memory")
    if value is None:
        return None
    try:
        return parse_size(value if isinstance(value, str) else str(value)[:40], "memory")
    except KvcalcError as error:
        hint = f" ({error.hint})" if error.hint else ""
        reader.note(error.message.removeprefix("memory: ") + hint, "memory")
        return None


def _capability(reader: Reader) -> str | None:
    value = reader.get("capability")
    if value is None:
        return None
    if isinstance(value, str | float) and re.fullmatch(r"[0-9]{1,2}\.[0-9]", str(value), re.ASCII):
        return str(value)
    reader.expected("CUDA's compute capability, such as 9.0", "capability")
    return None
