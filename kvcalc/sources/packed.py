"""A log as it stands or packed by gzip, xz or Zstandard, as rotated logs are: in pieces, and never held whole."""

import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, BinaryIO, NamedTuple

from kvcalc.errors import KvcalcError

__all__ = ["MOST_UNPACKED", "pieces"]

MOST_UNPACKED = 1 << 30  # bytes, ten times a very long log
# A small file can unpack to a thousand times its size. Logs of servers have come to 15 to 40 times.
_MOST_TIMES, _ANY_UNPACKED = 100, 1 << 26
_WITH_HEADER = 31  # wbits of zlib: a gzip header and the largest window
_MOST_MEMORY = 1 << 28  # bytes that xz may take for its dictionary; its strongest preset takes 65 MiB


class _Packer(NamedTuple):
    """How a kind of packed data begins and is unpacked. What unpacks has `decompress`, `eof` and `unused_data`."""

    name: str
    magic: bytes
    unpacker: Callable[[], Any]
    faults: Callable[[], tuple[type[Exception], ...]]


def _gzip() -> Any:
    return _Inflating()


class _Inflating:
    """zlib's decompressor with the signature of the others: what was not taken is kept for the next call."""

    def __init__(self) -> None:
        self._unpack = zlib.decompressobj(_WITH_HEADER)

    def decompress(self, data: bytes, most: int) -> bytes:
        return self._unpack.decompress(self._unpack.unconsumed_tail + data, most)

    @property
    def needs_input(self) -> bool:
        return not self._unpack.unconsumed_tail

    @property
    def eof(self) -> bool:
        return self._unpack.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpack.unused_data


def _xz() -> Any:
    import lzma

    return lzma.LZMADecompressor(memlimit=_MOST_MEMORY)


def _xz_faults() -> tuple[type[Exception], ...]:
    import lzma

    return (lzma.LZMAError,)


_ZSTD = ("compression.zstd", "backports.zstd", "pyzstd", "zstandard")  # the first is in Python from 3.14 on


def _zstd() -> Any:
    for name in _ZSTD[:3]:
        try:
            module = import_module(name)
        except ImportError:
            continue
        return module.ZstdDecompressor()
    try:
        return _Whole(import_module("zstandard"))
    except ImportError:
        raise KvcalcError(
            "a log packed by Zstandard, which this Python cannot unpack",
            "unpack it first: zstd -dc FILE | kvcalc check -; or pip install zstandard",
        ) from None


class _Whole:
    """The package zstandard, whose decompressor has no bound: it gets little at a time, which unpacks to some MiB."""

    def __init__(self, module: Any) -> None:
        self._unpack = module.ZstdDecompressor().decompressobj()
        self._rest = b""

    def decompress(self, data: bytes, most: int) -> bytes:  # noqa: ARG002 - the signature of the others
        self._rest += data
        now, self._rest = self._rest[:_LITTLE], self._rest[_LITTLE:]
        found: bytes = self._unpack.decompress(now) if now else b""
        return found

    @property
    def needs_input(self) -> bool:
        return not self._rest

    @property
    def eof(self) -> bool:
        return bool(self._unpack.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._unpack.unused_data) + self._rest


_LITTLE = 1 << 10  # bytes


def _zstd_faults() -> tuple[type[Exception], ...]:
    found: list[type[Exception]] = [EOFError, ValueError]
    for name in _ZSTD:
        try:
            found.append(import_module(name).ZstdError)
        except ImportError:
            continue
    return tuple(found)


_PACKERS = (
    _Packer("gzip", b"\x1f\x8b\x08", _gzip, lambda: (zlib.error,)),  # and the one method that there is, RFC 1952
    _Packer("xz", b"\xfd7zXZ\x00", _xz, _xz_faults),
    _Packer("zstd", b"\x28\xb5\x2f\xfd", _zstd, _zstd_faults),  # RFC 8878
)


def pieces(stream: BinaryIO, size: int, file: str, most: int = MOST_UNPACKED) -> Iterator[bytes]:
    """What a log says, at most `size` bytes at a time. Raises KvcalcError for a packed one with a fault."""
    first = stream.read(size)
    packer = next((each for each in _PACKERS if first.startswith(each.magic)), None)
    if packer is None:
        yield first
        yield from iter(lambda: stream.read(size), b"")
        return
    total = 0
    for taken, piece in _unpacked(stream, first, size, packer, file):
        total += len(piece)
        if total > min(most, _ANY_UNPACKED + _MOST_TIMES * taken):
            raise KvcalcError(f"{file}: unpacks to more than a log may have", "unpack it, and give its beginning")
        yield piece


def _unpacked(stream: BinaryIO, rest: bytes, size: int, packer: _Packer, file: str) -> Iterator[tuple[int, bytes]]:
    """The parts of a packed log, of which several may follow each other, and zeros behind the last.

    Each stands beside the number of packed bytes that were read until then.
    """
    try:
        unpack = packer.unpacker()
    except KvcalcError as error:
        raise KvcalcError(f"{file}: {error.message}", error.hint) from None
    faults, begun, taken = packer.faults(), False, len(rest)
    while True:
        rest = rest if begun else rest.lstrip(b"\0")
        if not rest and (not begun or unpack.needs_input):
            rest = stream.read(size)
            taken += len(rest)
            if not rest:
                return
            continue
        try:
            piece = unpack.decompress(rest, size)
        except faults:
            raise KvcalcError(f"{file}: expected a log packed by {packer.name}, and its data is faulty") from None
        rest, begun = b"", True
        if piece:
            yield taken, piece
        if unpack.eof:
            rest, unpack, begun = unpack.unused_data, packer.unpacker(), False
