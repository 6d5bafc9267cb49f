"""A GGUF file on disk, with the other parts of a split one where they lie beside it.

llama.cpp names the parts PREFIX-00001-of-00003.gguf (llama_split_path, src/llama.cpp 0c1e57098); each has the keys
split.no and split.count, and the first alone has the metadata of the model.
"""

import os
import re
import stat
from contextlib import suppress
from mmap import ACCESS_READ, mmap
from typing import NamedTuple

from kvcalc.errors import KvcalcError, escape
from kvcalc.sources.faults import CUT, Phrase, fault, unreadable
from kvcalc.sources.gguf.header import BeyondError, Header, Tensor, parse

__all__ = ["Gguf", "first_parts", "is_model", "read", "read_header"]

# Bytes that are mapped first, more than the header of any published model has, and how much more each further time.
_FIRST_MAPPED, _GROWTH = 1 << 25, 8

_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.DOTALL | re.IGNORECASE)


class Gguf(NamedTuple):
    """A model's file: its header, and the headers of all its parts that were found, the first included."""

    header: Header
    parts: tuple[Header, ...]
    missing: tuple[str, ...]  # parts that should lie beside the file and do not

    @property
    def weights_bytes(self) -> int | None:
        """Bytes of all tensors; None where a part is missing."""
        return None if self.missing else sum(part.weights_bytes for part in self.parts)

    @property
    def parameters(self) -> int | None:
        """Elements of all tensors; None where a part is missing."""
        return None if self.missing else sum(part.elements for part in self.parts)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of all parts that were found."""
        return tuple(tensor for part in self.parts for tensor in part.tensors)


def first_parts(names: list[str]) -> list[str]:
    """One name for each model: split ones by their first part, or by any where that is not there."""
    found: dict[str, str] = {}
    for name in sorted(names):
        match = _PART.fullmatch(name)
        found.setdefault(f"{match[1]}/{match[3]}" if match else name, name)
    return list(found.values())


def read(path: str) -> Gguf:
    """The GGUF file at `path`, which may be the first of a split one. Raises KvcalcError."""
    header = read_header(path)
    count = _number(header, "split.count", 1)
    if count <= 1:
        return Gguf(header, (header,), ())
    if _number(header, "split.no", 0) != 0:
        part = Phrase(f"part {_number(header, 'split.no', 0) + 1:,} of {count:,}")
        first = _beside(path, 1, count)
        raise fault(path, "split.no", "the first part", part, f"give {escape(first)}, which describes the model")
    found, missing = _others(path, count)
    if missing and _PART.fullmatch(target := os.path.realpath(path)):  # a link to the first part alone
        found, missing = min((_others(target, count), (found, missing)), key=lambda others: len(others[1]))
    parts = [header, *(_part(place, number - 1, count) for number, place in found.items())]
    _check_tensors(header, parts, complete=not missing)
    return Gguf(header, tuple(parts), missing)


def _others(path: str, count: int) -> tuple[dict[int, str], tuple[str, ...]]:
    """The parts beside the first one that are there, by their numbers from 1, and the names of those that are not."""
    places = {number: _beside(path, number, count) for number in range(2, count + 1)}
    found = {number: place for number, place in places.items() if os.path.isfile(place)}
    return found, tuple(os.path.basename(place) for number, place in places.items() if number not in found)


def is_model(path: str) -> bool:
    """The file is a language model's, or cannot be read: not the projector of one (mmproj), an adapter or a matrix."""
    if "mmproj" in os.path.basename(path).lower():
        return False
    try:
        metadata = read_header(path).metadata
    except KvcalcError:  # whoever reads the file says so
        return True
    return metadata.get("general.type", "model") == "model" and metadata.get("general.architecture") != "clip"


def read_header(path: str) -> Header:
    """The header of one file. Pages of its beginning are mapped, not read: only those of the header are ever touched.

    The whole of a file of some hundred gigabytes may be more than the process is allowed to map (`ulimit -v`).
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise KvcalcError(f"{escape(path)}: expected a file", "a GGUF file cannot be read from a pipe or a folder")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if not size:
                return parse(b"", path)
            mapped = _FIRST_MAPPED
            while True:
                with mmap(file.fileno(), min(mapped, size), access=ACCESS_READ) as data, suppress(BeyondError):
                    return parse(data, path, size)
                mapped *= _GROWTH
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL, or a file that shrank between two calls
        raise unreadable(path, error) from None


def _number(header: Header, key: str, default: int) -> int:
    """split.no and split.count are 16 bits wide, which bounds how many names can be tried."""
    value = header.metadata.get(key, default)
    if type(value) is int and 0 <= value < 1 << 16:
        return value
    raise fault(header.file, key, "a number from 0 to 65,535", value, CUT)


def _beside(path: str, number: int, count: int) -> str:
    """Where part `number`, counted from 1, should lie. A first part with another name is taken for the prefix."""
    match = _PART.fullmatch(path)
    prefix, ending = os.path.splitext(path)
    if match and int(match[3]) == count:
        prefix = match[1]
    elif ending.lower() != ".gguf":
        prefix, ending = path, ".gguf"
    return f"{prefix}-{number:05}-of-{count:05}{ending}"


def _part(path: str, number: int, count: int) -> Header:
    header = read_header(path)
    for key, expected in (("split.no", number), ("split.count", count)):
        if _number(header, key, 0) != expected:
            raise fault(path, key, str(expected), header.metadata.get(key), "it belongs to another model")
    return header


def _check_tensors(header: Header, parts: list[Header], *, complete: bool) -> None:
    """The first part says how many tensors there are in all, and no two parts hold the same one."""
    names = [tensor.name for part in parts for tensor in part.tensors]
    if len(set(names)) != len(names):
        raise fault(header.file, "split", "each tensor in one part", Phrase("the same one in two"), CUT)
    total = header.metadata.get("split.tensors.count")
    if complete and total is not None and total != len(names):
        raise fault(header.file, "split.tensors.count", f"{len(names):,}, as many as the parts hold", total, CUT)
