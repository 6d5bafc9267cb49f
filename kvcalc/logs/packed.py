"""A log as it stands or packed by gzip, as rotated logs are: in pieces, and never held whole."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from kvcalc.errors import KvcalcError

__all__ = ["MOST_UNPACKED", "pieces"]

_GZIP = b"\x1f\x8b\x08"  # and the one method that there is, RFC 1952
_WITH_HEADER = 31  # wbits of zlib: a gzip header and the largest window
MOST_UNPACKED = 1 << 30  # bytes, ten times a very long log
# A small file can unpack to a thousand times its size. Logs of servers have come to 15 to 40 times.
_MOST_TIMES, _ANY_UNPACKED = 100, 1 << 26


def pieces(stream: BinaryIO, size: int, file: str, most: int = MOST_UNPACKED) -> Iterator[bytes]:
    """What a log says, at most `size` bytes at a time. Raises KvcalcError for a packed one with a fault."""
    first = stream.read(size)
    if first[:3] != _GZIP:
        yield first
        yield from iter(lambda: stream.read(size), b"")
        return
    unpack, rest = zlib.decompressobj(_WITH_HEADER), first
    allowed = _ANY_UNPACKED + _MOST_TIMES * len(first)
    while rest:
        try:
            piece = unpack.decompress(rest, size)
        except zlib.error:
            raise KvcalcError(f"{file}: expected a log packed by gzip, and its data is faulty") from None
        most, allowed = most - len(piece), allowed - len(piece)
        if most < 0 or allowed < 0:
            raise KvcalcError(f"{file}: unpacks to more than a log may have", "unpack it, and give its beginning")
        if piece:
            yield piece
        rest = unpack.unconsumed_tail
        if unpack.eof:  # another may follow, and zeros behind the last
            rest, unpack = unpack.unused_data.lstrip(b"\0"), zlib.decompressobj(_WITH_HEADER)
        if not rest:
            rest = stream.read(size)
            allowed += _MOST_TIMES * len(rest)
