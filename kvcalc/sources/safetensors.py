"""The tensors of a safetensors folder and what they weigh, from the headers of its files alone.

Format: 8 bytes with the header's length, then the header in JSON, at most 100 MB, then the data without a hole
(huggingface/safetensors 0.8, README and safetensors/src/tensor.rs). Files are taken to be hostile.
"""

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import NamedTuple, TypeGuard

from kvcalc.errors import KvcalcError, escape
from kvcalc.sources.faults import CUT, Phrase, disguise, fault, unreadable
from kvcalc.sources.jsonfile import too_many_values
from kvcalc.sources.shards import INDEX, MOST_SHARDS, SINGLE, complete, inside, unrelated

__all__ = ["Tensor", "Weights", "folder_tensors", "weigh"]

MOST_HEADER_BYTES = 100_000_000
_MOST_DIMENSIONS = 64
_MOST_SIZE = 1 << 63
_PLAIN = json.JSONDecoder()
_BLANKS = re.compile(r"[ \t\r\n]*")
_LONGEST_ENTRY = 4096  # characters of what a header says of one tensor

# Bits of an element; enum Dtype in tensor.rs.
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
    "F8_E5M2FNUZ": 8, "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip

_DTYPES = {name: name for name in BITS}  # one text for all tensors of a kind


class Weights(NamedTuple):
    """Bytes of all tensors, in all and by dtype as the format spells it, and how many elements they have."""

    bytes_by_dtype: dict[str, int]
    bytes_total: int
    elements: int


class Tensor(NamedTuple):
    """One tensor, its dtype as the format spells it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    bytes: int


def folder_tensors(folder: str, named: str | None = None) -> list[Tensor]:
    """The tensors of the model in `folder`; none where it holds no safetensors file. Raises KvcalcError.

    An index says which files count; without one it is model.safetensors, or one set of shards, or one file. Copies in
    the format of Mistral (consolidated*.safetensors) count only where they are alone. `named` must be one that counts.
    """
    try:
        names = set(os.listdir(folder))
    except (OSError, ValueError) as error:
        raise unreadable(folder, error) from None
    files = sorted(name for name in names if name.endswith(".safetensors"))
    main = [name for name in files if not name.startswith(("consolidated", "adapter"))]
    index = INDEX if INDEX in names else None
    if index is None and not main and "consolidated.safetensors.index.json" in names:
        index = "consolidated.safetensors.index.json"
    if index is not None:
        weight_map = _weight_map(os.path.join(folder, index))
        chosen = list(dict.fromkeys(weight_map.values()))
    elif SINGLE in names:
        chosen = [SINGLE]
    else:
        chosen = complete(folder, main or [name for name in files if name.startswith("consolidated")])
    if named is not None and named not in chosen:
        raise unrelated(folder, named, chosen)
    if index is not None:
        return _indexed(folder, index, weight_map)
    return [tensor for name in chosen for tensor in _tensors(os.path.join(folder, name)).values()]


def weigh(tensors: Iterable[Tensor]) -> Weights:
    """The bytes of these tensors, the dtype with the most first."""
    sizes: dict[str, int] = {}
    elements = 0
    for tensor in tensors:
        sizes[tensor.dtype] = sizes.get(tensor.dtype, 0) + tensor.bytes
        elements += tensor.elements
    ordered = dict(sorted(sizes.items(), key=lambda item: (-item[1], item[0])))
    return Weights(ordered, sum(sizes.values()), elements)


def _weight_map(path: str) -> dict[str, str]:
    """Which file holds which tensor, as the index at `path` says."""
    data = _json(_read(path, 0, None), path)
    weight_map = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(weight_map, dict) or not weight_map:
        raise fault(path, "weight_map", "a mapping of tensors to files", weight_map, CUT)
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or not inside(shard):
            raise fault(path, name, "a file inside the folder", shard, CUT)
    shards = dict.fromkeys(weight_map.values())
    if len(shards) > MOST_SHARDS:
        raise fault(path, "weight_map", f"at most {MOST_SHARDS:,} files", len(shards))
    return weight_map


def _indexed(folder: str, index: str, weight_map: dict[str, str]) -> list[Tensor]:
    """The tensors that the index places, each once, whatever else the shards hold."""
    path = os.path.join(folder, index)
    held = {shard: _tensors(os.path.join(folder, shard), path) for shard in dict.fromkeys(weight_map.values())}
    for name, shard in weight_map.items():
        if name not in held[shard]:
            raise fault(path, name, f"a tensor of {escape(shard)}", Phrase("nothing of that name"), CUT)
    return [held[shard][name] for name, shard in weight_map.items()]


def _read(path: str, at: int, count: int | None, owner: str | None = None) -> bytes:
    """`count` bytes at `at` of a regular file, or all of one of at most MOST_HEADER_BYTES. `owner` names the file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise KvcalcError(f"{escape(path)}: expected a file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(at)
            if count is None and size > MOST_HEADER_BYTES:
                raise fault(path, "size", f"at most {MOST_HEADER_BYTES:,} bytes", size)
            return file.read(size if count is None else count)
    except FileNotFoundError:
        if owner is None:
            raise KvcalcError(f"{escape(path)}: no such file", "fetch the file that it is a link to") from None
        raise fault(owner, os.path.basename(path), "a shard", Phrase("nothing"), "fetch the missing file") from None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _json(content: bytes, path: str) -> object:
    try:
        text = content.decode()
        if too_many_values(text):
            raise fault(path, "header", "fewer small values", Phrase("more than a model has"), CUT)
        return json.loads(text, object_pairs_hook=lambda pairs: _once(pairs, path))
    except (ValueError, RecursionError):  # no UTF-8, no JSON, numbers of thousands of digits, or too deep
        raise _no_json(path) from None


def _once(pairs: list[tuple[str, object]], path: str) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise fault(path, counts.most_common(1)[0][0], "each key once", Phrase("a second one"), CUT)
    return found


def _no_json(path: str) -> KvcalcError:
    return fault(path, "header", "JSON", Phrase("something else"), CUT)


class _Members:
    """The members of a JSON object, one after the other: a header as a whole would take many times its own length.

    All methods raise ValueError for what is no JSON.
    """

    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self._begun = text, at + 1, False

    def next_key(self) -> str | None:
        """The next key, behind which its value is to be read; None behind the last."""
        mark = self.mark()
        if mark == "}":
            self.at += 1
            return None
        if self._begun:
            self.expect(",")
        self._begun = True
        self.mark()
        key = self.text_value()
        self.expect(":")
        self.mark()
        return key

    def mark(self) -> str:
        """The next character that is no blank."""
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]  # it matches nothing, too
        return self.text[self.at : self.at + 1]

    def expect(self, mark: str) -> None:
        if self.mark() != mark:
            raise ValueError(self.at)
        self.at += 1

    def text_value(self) -> str:
        if self.text[self.at : self.at + 1] != '"':
            raise ValueError(self.at)
        value, self.at = _PLAIN.raw_decode(self.text, self.at)
        return str(value)

    def small_value(self) -> object:
        """Any value of at most _LONGEST_ENTRY characters; of a list that it is one."""
        if self.text.startswith("[", self.at):
            return []
        value, length = _PLAIN.raw_decode(self.text[self.at : self.at + _LONGEST_ENTRY])
        self.at += length
        return value

    def skip_metadata(self) -> None:
        """Texts under keys, which may be long."""
        if self.mark() != "{":
            self.small_value()
            return
        inner = _Members(self.text, self.at)
        while inner.next_key() is not None:
            if inner.mark() == '"':
                inner.text_value()
            else:
                inner.small_value()
        self.at = inner.at


def _entries(content: bytes, path: str) -> list[tuple[Tensor, int]]:
    """What a header says of each tensor, and where its data begins."""
    text = content.decode()
    del content
    members = _Members(text, -1)
    if members.mark() != "{":
        raise fault(path, "header", "a mapping", members.small_value(), CUT)
    members.at += 1
    decoder = json.JSONDecoder(object_pairs_hook=lambda pairs: _once(pairs, path))
    found: list[tuple[Tensor, int]] = []
    names: set[str] = set()
    while (name := members.next_key()) is not None:
        if name in names:
            raise fault(path, name, "each key once", Phrase("a second one"), CUT)
        names.add(name)
        if name == "__metadata__":
            members.skip_metadata()
            continue
        if not text.startswith("{", members.at):
            raise fault(path, name, "a mapping", members.small_value(), CUT)
        end = text.find("}", members.at, members.at + _LONGEST_ENTRY) + 1
        if not end:
            raise fault(path, name, f"at most {_LONGEST_ENTRY:,} characters", Phrase("more"), CUT)
        found.append(_tensor(decoder.raw_decode(text[members.at : end])[0], name, path))
        members.at = end
    if members.mark():
        raise ValueError(members.at)
    return found


def _tensors(path: str, owner: str | None = None) -> dict[str, Tensor]:
    """The tensors of one file. `owner` is the index that names it."""
    first = _read(path, 0, 8, owner)
    size, length = os.path.getsize(path), int.from_bytes(first, "little")
    most = min(MOST_HEADER_BYTES, size - 8)
    other = disguise(first)
    if other is not None:
        raise fault(path, "header", "that of a safetensors file", *other)
    if most < 2:  # the shortest header is {}
        raise fault(path, "size", "10 bytes or more", size or Phrase("an empty file"), CUT)
    if not 2 <= length <= most:
        raise fault(path, "header length", f"2 to {most:,}", length, CUT)
    try:
        found = _entries(_read(path, 8, length), path)
    except (ValueError, RecursionError):
        raise _no_json(path) from None
    end = 0
    for tensor, begin in sorted(found, key=lambda item: (item[1], item[0].bytes)):
        if begin != end:
            raise fault(path, tensor.name, f"data from byte {end:,} on, after the tensor before", begin, CUT)
        end += tensor.bytes
    if end != size - 8 - length:
        raise fault(path, "data", f"{end:,} bytes", size - 8 - length, CUT)
    return {tensor.name: tensor for tensor, _ in found}


def _tensor(entry: object, name: str, path: str) -> tuple[Tensor, int]:
    """One tensor, whose bytes must be what its shape and dtype say, and where it begins."""
    if not isinstance(entry, dict):
        raise fault(path, name, "a mapping", entry, CUT)
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in BITS:
        raise fault(path, name, f"a dtype, one of {', '.join(BITS)}", dtype, "a newer kvcalc may know this one")
    if not _sizes(shape) or len(shape) > _MOST_DIMENSIONS or prod(shape) >= _MOST_SIZE:
        raise fault(path, name, "a shape of whole numbers", shape, CUT)
    if not _sizes(offsets) or len(offsets) != 2:
        raise fault(path, name, "two data_offsets", offsets, CUT)
    elements = prod(shape)
    bits, (begin, end) = elements * BITS[dtype], offsets
    if bits % 8 or end - begin != bits // 8:
        got = Phrase(f"{begin:,} to {end:,}")
        raise fault(path, name, f"data_offsets for {elements:,} elements of {dtype}", got, CUT)
    return Tensor(name, _DTYPES[dtype], tuple(shape), elements, bits // 8), begin


def _sizes(values: object) -> TypeGuard[list[int]]:
    """A list of whole numbers that an offset or a size could have."""
    return isinstance(values, list) and all(type(value) is int and 0 <= value < _MOST_SIZE for value in values)
