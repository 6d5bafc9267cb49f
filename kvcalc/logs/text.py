"""The few lines of a large log that matter, without what containers, terminals and collectors wrap around them.

A log is read in pieces and never held whole. Most of it is passed over by a search for fixed words; only a line that
has one becomes text. Far from where an engine starts, where requests are logged by the thousand, the search is for
fewer of them. What is not text, or has no end, is passed over too.
"""

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import BinaryIO, NamedTuple

from kvcalc.sources.packed import pieces

__all__ = ["LONGEST_LINE", "MOST_LINES", "MarkedLine", "Marks", "marked_lines"]

_PIECE = 1 << 20
_NEAR = 16  # pieces behind a start in which an engine says all about itself
_NOISE = b"KV cache usage"  # what vLLM prints every ten seconds holds a mark
LONGEST_LINE = 1 << 16  # the longest that engines print are their configurations, of some 15 KB
MOST_LINES = 100_000  # with a mark in them; a log with more is not that of an engine

# Colours and cursor movements of terminals; within a marked line, also as collectors write control characters.
_COLOUR = re.compile(rb"\x1b(?:\[[0-9;:?]{0,40}[A-Za-z]|\][^\x07\x1b\r\n]{0,200}\x07)")
_ESCAPED = re.compile(r"(?:\\u001[bB]|\\x1[bB]|\\033|#033|\x1b)\[[0-9;:?]{0,40}[A-Za-z]")

# A part of a line behind which another one comes: Docker's and containerd's parts have 16 KiB.
_DOCKER, _STREAM = b'{"log":"', b'","stream":'
_PART = re.compile(rb"[-+.:\dTZ]{19,40} std(?:out|err) P ")
_FRONT = re.compile(r"^[-+.:\dTZ]{19,40} std(?:out|err) [PF] ")
_MOST_PARTS = 4


class MarkedLine(NamedTuple):
    """A line with a mark in it, and where it stands."""

    number: int
    text: str


class Marks(NamedTuple):
    """Words to look for: where an engine starts, what it counts, and what it says beside that."""

    starts: Sequence[str]
    counts: Sequence[str]
    facts: Sequence[str]


def marked_lines(stream: BinaryIO, marks: Marks, file: str = "the log") -> Iterator[MarkedLine]:
    """The lines that hold one of `marks`, unwrapped. At most MOST_LINES, each cut at LONGEST_LINE bytes.

    Facts count in the first part of a log and behind each start.
    """
    starts, counts, facts = ([mark.encode() for mark in each] for each in marks)
    everything = (*marks.starts, *marks.counts, *marks.facts)
    left, near = MOST_LINES, _NEAR
    for first, block in _blocks(_utf8(pieces(stream, _PIECE, file))):
        near = _NEAR if any(mark in block for mark in starts) else near - 1
        wanted = (*starts, *counts, *facts) if near > 0 else counts  # without a start, nothing of it is here
        for number, line in _candidates(block, wanted, first):
            left -= 1 + line.count(b"\n")
            if left < 0:
                return
            yield MarkedLine(number, _ESCAPED.sub("", _unwrapped(_in_one(line.decode("utf-8", "replace")), everything)))


def _blocks(log: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Whole lines, some at a time, with the number of the first. Of a line without an end, its beginning."""
    number, rest, cut = 1, b"", False
    for piece in log:
        end = piece.rfind(b"\n") + 1
        if not end:
            rest = (rest + piece)[:LONGEST_LINE] if not cut else rest
            cut = len(rest) == LONGEST_LINE
            continue
        block = rest + piece[piece.find(b"\n") if cut else 0 : end]
        yield number, _without_colours(block)
        number += block.count(b"\n")
        rest, cut = piece[end:], False
    if rest:
        yield number, _without_colours(rest)


def _utf8(log: Iterator[bytes]) -> Iterator[bytes]:
    """The log in UTF-8. PowerShell writes what programs print in UTF-16."""
    first = next(log, b"")
    encoding = _utf16(first[:512])
    if encoding is None:
        yield first
        yield from log
        return
    decode = codecs.getincrementaldecoder(encoding)("replace").decode
    for piece in chain((first,), log):
        yield decode(piece).encode("utf-8", "replace")


def _utf16(head: bytes) -> str | None:
    """The kind of UTF-16 that a text begins in: by its mark, or by zeros at every other place and nowhere else."""
    if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    even, odd = head[::2], head[1::2]
    for encoding, zeros, text in (("utf-16-le", odd, even), ("utf-16-be", even, odd)):
        if 10 * zeros.count(0) > 9 * len(zeros) and not text.count(0):
            return encoding
    return None


def _without_colours(block: bytes) -> bytes:
    return _COLOUR.sub(b"", block) if b"\x1b" in block else block


def _candidates(block: bytes, marks: Iterable[bytes], first: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a block that hold a mark, in order, with their numbers. A carriage return ends a progress bar."""
    starts: dict[int, int] = {}
    for mark in marks:
        at = block.find(mark)
        while at >= 0:
            if block.startswith(_NOISE, at):
                at = block.find(mark, at + len(_NOISE))
                continue
            start = max(block.rfind(b"\n", 0, at), block.rfind(b"\r", max(0, at - LONGEST_LINE), at)) + 1
            end = _end(block, at)
            end = _behind_parts(block, start, end)
            if at - start < LONGEST_LINE:
                starts[start] = min(end, start + LONGEST_LINE)
            at = block.find(mark, end)
    counted, number = 0, first
    for start, end in sorted(starts.items()):
        number += block.count(b"\n", counted, start)
        counted = start
        yield number, block[start:end]


def _end(block: bytes, at: int) -> int:
    """Where the line ends in which `at` lies."""
    end = block.find(b"\n", at)
    end = len(block) if end < 0 else end
    back = block.find(b"\r", at, min(end, at + LONGEST_LINE))
    return end if back < 0 else back


def _behind_parts(block: bytes, start: int, end: int) -> int:
    """Where a line ends of which containers wrote several parts, each as a line, since it was too long for them."""
    for _ in range(_MOST_PARTS):
        if end >= len(block) or not _goes_on(block, start, end):
            break
        start, end = end + 1, _end(block, end + 1)
    return end


def _goes_on(block: bytes, start: int, end: int) -> bool:
    if not block.startswith(_DOCKER, start, end):
        return _PART.match(block, start, end) is not None
    return block.find(_STREAM, start, end) >= 0 > block.find(rb"\n" + _STREAM, start, end)


def _in_one(line: str) -> str:
    """The parts of a line in one: those of Docker are JSON, and those of containerd have a mark in front."""
    first, *others = line.split("\n")
    if first.startswith('{"log":"'):
        parts = [
            first.partition('","stream":'),
            *(part.removeprefix('{"log":"').partition('","stream":') for part in others),
        ]
        return "".join(text for text, _, _ in parts) + "".join(parts[-1][1:])
    return first + "".join(_FRONT.sub("", part, count=1) for part in others)


def _unwrapped(line: str, marks: Sequence[str]) -> str:
    """What a program printed, out of the JSON object that a collector put around it."""
    opening = line.find('{"')
    if opening < 0:
        return line
    try:
        found = _inside(json.loads(line[opening:].rstrip()), marks, 3)
    except (ValueError, RecursionError):  # cut, or something else
        found = None
    return found or line.replace('\\"', '"').replace("\\u0027", "'")


def _inside(value: object, marks: Sequence[str], depth: int) -> str | None:
    """The first text within a JSON value that holds a mark."""
    if isinstance(value, str):
        if any(mark in value for mark in marks):
            return _unwrapped(value, marks) if depth and value.lstrip()[:1] == "{" else value
        return None
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return next((text for part in parts if depth and (text := _inside(part, marks, depth - 1))), None)
