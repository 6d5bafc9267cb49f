"""The header of a GGUF file: its metadata, and its tensors with their exact bytes. No tensor data is read.

Layout: ggml/docs/gguf.md, and the checks of ggml/src/gguf.cpp (llama.cpp 0c1e57098, ggml 0.25.3). The file is taken to
be hostile: each read is checked against its end first, and nothing is built that is larger than the header.
"""

import struct
from collections.abc import Callable
from itertools import repeat
from math import prod
from mmap import mmap
from typing import NamedTuple, TypeAlias, TypeVar

from kvcalc.core.dtypes import DType
from kvcalc.errors import KvcalcError, shown
from kvcalc.sources.faults import CUT, GGUF_MAGIC, Phrase, disguise, fault
from kvcalc.sources.gguf.types import REMOVED, TYPES

__all__ = ["BeyondError", "Header", "LongArray", "Tensor", "parse"]

Data: TypeAlias = bytes | mmap
_T = TypeVar("_T")

# Far above any real file (200 keys, a few thousand tensors, 800,000 texts), and low enough that a header made of
# nothing else is still read in about a second.
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 16
_MOST_TEXTS = 1 << 23
_MOST_NAME = (1 << 16) - 1  # bytes of a key (gguf.md) or of a tensor's name
_LONGEST_TEXT = 4096  # longer texts (chat templates) and arrays (vocabularies) are skipped by their length
_LONGEST_ARRAY = 4096
_MOST_ELEMENTS = 1 << 16  # of all arrays that are kept
_MOST_DIMENSIONS = 4  # GGML_MAX_DIMS
_DEFAULT_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT

_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")

# Value types by number, enum gguf_type: the letter of each scalar for struct.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _ARRAY = 8, 9

_NEWER = "a newer kvcalc may know this one"
_CONVERT = "convert the model again with the converter of a current llama.cpp"

# First bytes of what is easily mistaken for a GGUF file. The three old formats wrote their magic as one little-endian
# number, so that it stands reversed.
_OTHERS: dict[bytes, tuple[str, str]] = {
    b"lmgg": (Phrase("an old GGML file"), _CONVERT),
    b"fmgg": (Phrase("an old GGMF file"), _CONVERT),
    b"tjgg": (Phrase("an old GGJT file"), _CONVERT),
}


_END = Phrase("the end of the file")
_SECOND = Phrase("a second one")


class LongArray(NamedTuple):
    """What stands in the metadata in place of a value that is skipped: a long array or text, or an array of texts."""

    of: str
    length: int

    def __str__(self) -> str:
        return f"{self.length:,} {self.of}"


class Tensor(NamedTuple):
    """One tensor: the sizes of its dimensions, the innermost first, and where it begins in the data part."""

    name: str
    shape: tuple[int, ...]
    type: DType
    elements: int
    bytes: int
    offset: int


class Header(NamedTuple):
    """What one file says about itself."""

    file: str
    version: int
    metadata: dict[str, object]
    tensors: tuple[Tensor, ...]

    @property
    def elements(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all tensors, without the padding between them."""
        return sum(tensor.bytes for tensor in self.tensors)

    def bytes_by_type(self) -> dict[str, int]:
        """Bytes of the tensors of each type, the largest first."""
        sizes: dict[str, int] = {}
        for tensor in self.tensors:
            sizes[tensor.type.name] = sizes.get(tensor.type.name, 0) + tensor.bytes
        return dict(sorted(sizes.items(), key=lambda item: -item[1]))


def parse(data: Data, file: str, size: int | None = None) -> Header:
    """The header of the GGUF file that begins with `data` and has `size` bytes, by default those.

    `file` is its name for messages. Raises KvcalcError, and BeyondError where the header goes on behind `data`.
    """
    cursor = _Cursor(data, file, len(data) if size is None else size)
    version = _version(cursor)
    tensor_count = cursor.count("number of tensors", _MOST_TENSORS, 24)
    key_count = cursor.count("number of keys", _MOST_KEYS, 13)
    metadata = _each_once(cursor, key_count, "key", _value)
    tensors = tuple(_each_once(cursor, tensor_count, "tensor", _tensor).values())
    _check_data(cursor, tensors, _alignment(cursor, metadata))
    return Header(file, version, metadata, tensors)


class BeyondError(Exception):
    """The header is longer than the part of the file that was handed over."""


class _Cursor:
    """A place in the file that only moves forward, with budgets for what may follow."""

    def __init__(self, data: Data, file: str, size: int) -> None:
        self.data, self.file = data, file
        self.size, self.at = size, 0
        self.end = len(data)
        self.texts, self.elements = _MOST_TEXTS, _MOST_ELEMENTS

    def fault(self, key: str, expected: str, got: object, hint: str | None = CUT) -> KvcalcError:
        return fault(self.file, key, expected, got, hint)

    def advance(self, count: int, key: str) -> int:
        """Move over `count` bytes, which must be there, and return the place before."""
        if count > self.size - self.at:
            raise self.fault(key, f"{shown(count)} bytes at offset {self.at:,}", _END)
        self.at += count
        if self.at > self.end:
            raise BeyondError
        return self.at - count

    def u32(self, key: str) -> int:
        return int(_U32.unpack_from(self.data, self.advance(4, key))[0])

    def u64(self, key: str) -> int:
        return int(_U64.unpack_from(self.data, self.advance(8, key))[0])

    def count(self, key: str, most: int, least_bytes: int) -> int:
        """How many of something follow, each of which takes at least `least_bytes` bytes."""
        count = self.u64(key)
        most = min(most, (self.size - self.at) // least_bytes)
        if count > most:
            raise self.fault(key, f"at most {most:,}", count)
        return count

    def name(self, what: str) -> str:
        """A key, or the name of a tensor."""
        length = self.u64(what)
        if not 1 <= length <= _MOST_NAME:
            raise self.fault(what, f"a name of 1 to {_MOST_NAME:,} bytes", length)
        at = self.advance(length, what)
        try:
            return self.data[at : self.at].decode()
        except UnicodeDecodeError:
            raise self.fault(what, "UTF-8 text", Phrase("other bytes")) from None

    def text(self, key: str) -> str | LongArray:
        length = self.u64(key)
        at = self.advance(length, key)
        if length > _LONGEST_TEXT:
            return LongArray("bytes of text", length)
        return self.data[at : self.at].decode(errors="replace")

    def skip_texts(self, count: int, key: str) -> None:
        """Move over `count` texts. A vocabulary has hundreds of thousands: this is where the time of a header goes."""
        most = min(self.texts, (self.size - self.at) // 8)
        if count > most:
            raise self.fault(key, f"at most {most:,} texts", count)
        self.texts -= count
        length_at, data, at = _U64.unpack_from, self.data, self.at
        try:
            for _ in repeat(None, count):
                at += 8 + length_at(data, at)[0]
        except (struct.error, OverflowError):  # the next length would stand behind the end
            at = max(at, self.end + 1)
        if at > self.end and self.end < self.size:
            raise BeyondError
        if at > self.size:
            raise self.fault(key, f"{count:,} texts", _END)
        self.at = at


def _version(cursor: _Cursor) -> int:
    magic = bytes(cursor.data[:4])
    if magic != GGUF_MAGIC:
        other, hint = disguise(bytes(cursor.data[:16])) or _OTHERS.get(magic, (magic.decode("latin-1"), CUT))
        raise cursor.fault("magic", "GGUF", other, hint)
    cursor.advance(4, "magic")
    version = cursor.u32("version")
    if version and not version & 0xFFFF:  # 3 read from the wrong end is 0x3000000 (gguf.cpp)
        hint = "turn it around with gguf_convert_endian.py of llama.cpp"
        raise cursor.fault("version", "a little-endian file", Phrase("a big-endian one"), hint)
    if version not in (2, 3):
        raise cursor.fault("version", "2 or 3", version, {0: CUT, 1: _CONVERT}.get(version, _NEWER))
    return version


def _each_once(cursor: _Cursor, count: int, what: str, read: Callable[[_Cursor, str], _T]) -> dict[str, _T]:
    """Things by their names: `read` is called with each name, behind which the thing itself stands."""
    found: dict[str, _T] = {}
    for i in range(count):
        name = cursor.name(f"{what} {i + 1}")
        if name in found:
            raise cursor.fault(name, f"each {what} once", _SECOND)
        found[name] = read(cursor, name)
    return found


def _value(cursor: _Cursor, key: str) -> object:
    kind = cursor.u32(key)
    if kind == _TEXT:
        return cursor.text(key)
    if kind == _ARRAY:
        return _array(cursor, key)
    if kind not in _SCALARS:
        raise cursor.fault(key, "a value type from 0 to 12", kind)
    form = "<" + _SCALARS[kind]
    return struct.unpack_from(form, cursor.data, cursor.advance(struct.calcsize(form), key))[0]


def _array(cursor: _Cursor, key: str) -> list[object] | LongArray:
    kind, count = cursor.u32(key), cursor.u64(key)
    if kind == _TEXT:
        cursor.skip_texts(count, key)
        return LongArray("texts", count)
    if kind not in _SCALARS:  # gguf.md has arrays of arrays, but gguf.cpp refuses them, and no model has one
        got = Phrase("an array of arrays") if kind == _ARRAY else kind
        raise cursor.fault(key, "an array of numbers, truth values or texts", got)
    form = _SCALARS[kind]
    at = cursor.advance(count * struct.calcsize("<" + form), key)
    if count > min(_LONGEST_ARRAY, cursor.elements):
        return LongArray("numbers", count)
    cursor.elements -= count
    return list(struct.unpack_from(f"<{count}{form}", cursor.data, at))


def _tensor(cursor: _Cursor, name: str) -> Tensor:
    dimensions = cursor.u32(name)
    if dimensions > _MOST_DIMENSIONS:
        raise cursor.fault(name, f"at most {_MOST_DIMENSIONS} dimensions", dimensions)
    shape = tuple(cursor.u64(name) for _ in range(dimensions))
    number, offset = cursor.u32(name), cursor.u64(name)
    if number in REMOVED:
        got = Phrase(f"{REMOVED[number]}, which ggml no longer reads")
        raise cursor.fault(name, "a tensor type of ggml", got, _CONVERT)
    if number not in TYPES:
        hint = f"types up to {max(TYPES)} are known here; {_NEWER}"
        raise cursor.fault(name, "a tensor type of ggml", Phrase(f"type {number}"), hint)
    kind, row, elements = TYPES[number], shape[0] if shape else 1, prod(shape)
    if row % kind.block:
        raise cursor.fault(name, f"rows of whole {kind.name} blocks of {kind.block}", row)
    return Tensor(name, shape, kind, elements, elements // kind.block * kind.block_bytes, offset)


def _alignment(cursor: _Cursor, metadata: dict[str, object]) -> int:
    value = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if type(value) is int and 0 < value < 1 << 32 and not value & (value - 1):
        return value
    raise cursor.fault("general.alignment", "a power of two", value)


def _check_data(cursor: _Cursor, tensors: tuple[Tensor, ...], alignment: int) -> None:
    """The data part begins at the next multiple of the alignment. Every tensor must lie in it, and all side by side."""
    begin = -(-cursor.at // alignment) * alignment
    length = max(cursor.size - begin, 0)
    for tensor in tensors:
        if tensor.offset % alignment:
            raise cursor.fault(tensor.name, f"an offset in multiples of {alignment}", tensor.offset)
        if tensor.bytes and tensor.offset + tensor.bytes > length:
            got = Phrase(f"a file of {cursor.size:,} bytes")
            raise cursor.fault(tensor.name, f"data up to byte {shown(begin + tensor.offset + tensor.bytes)}", got)
    total = sum(tensor.bytes for tensor in tensors)
    if total > length:
        raise cursor.fault("tensors", f"at most {length:,} bytes together", total)
