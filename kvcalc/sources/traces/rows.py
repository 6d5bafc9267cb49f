"""The rows of a file of requests, one after another, as mappings of column names; nothing else of it is held."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from kvcalc.errors import KvcalcError, shown_path
from kvcalc.sources.packed import pieces

__all__ = ["rows_of"]

_PIECE = 1 << 20
_MOST_BYTES = 1 << 34  # of a file, unpacked: a hundred million rows
_MOST_LINE = 1 << 22  # a prompt of two million tokens in blocks of 16 has 130,000 ids
_PARQUET = b"PAR1"

Row = Mapping[str, Any]


def rows_of(path: str, name: str) -> Iterator[tuple[int, Row]]:
    """Each row with its number in the file, 1 for the first line. `name` stands in messages, `-` is standard input.

    Raises KvcalcError for a file that cannot be read, or is none of these.
    """
    if path != "-" and _starts_with(path, _PARQUET):
        yield from _parquet(path, name)
        return
    lines = _lines(path, name)
    first = next(lines, None)
    if first is None:
        raise KvcalcError(f"{name}: expected requests, got nothing", "CSV, JSON lines or Parquet, a row for each")
    if first[1].startswith("{"):
        yield from _json(first, lines, name)
    else:
        yield from _csv(first, lines, name)


def _starts_with(path: str, magic: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(magic)) == magic
    except (OSError, ValueError):  # whoever reads the file says so
        return False


def _lines(path: str, name: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without those that are empty."""
    number, rest = 0, b""
    for piece in _bytes(path, name):
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            number += 1
            if line.strip():
                yield number, _text(line, number, name)
        if len(rest) > _MOST_LINE:
            raise KvcalcError(f"{name}:{number + 1}: expected lines of at most {_MOST_LINE:,} bytes")
    if rest.strip():
        yield number + 1, _text(rest, number + 1, name)


def _bytes(path: str, name: str) -> Iterator[bytes]:
    try:
        if path == "-":
            yield from pieces(sys.stdin.buffer, _PIECE, name, _MOST_BYTES)
            return
        with open(path, "rb") as file:
            stream: BinaryIO = file
            yield from pieces(stream, _PIECE, name, _MOST_BYTES)
    except OSError as error:
        raise KvcalcError(f"{name}: {error.strerror}") from None
    except ValueError:  # a null byte
        raise KvcalcError(f"{name}: expected a path") from None


def _text(line: bytes, number: int, name: str) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip("\r")
    except UnicodeDecodeError:
        raise KvcalcError(f"{name}:{number}: expected text in UTF-8", "CSV, JSON lines or Parquet") from None


def _csv(first: tuple[int, str], lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, Row]]:
    import csv

    csv.field_size_limit(_MOST_LINE)
    head = next(csv.reader([first[1]]))
    if len(head) < 2:
        raise KvcalcError(f"{name}:1: expected the names of columns with commas between them, or JSON")
    for number, line in lines:
        try:
            values = next(csv.reader([line], strict=True))
        except (csv.Error, StopIteration):
            raise KvcalcError(f"{name}:{number}: expected values with commas between them") from None
        yield number, dict(zip(head, values, strict=False))


def _json(first: tuple[int, str], lines: Iterator[tuple[int, str]], name: str) -> Iterator[tuple[int, Row]]:
    import json

    def read(number: int, line: str) -> Row:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise KvcalcError(f"{name}:{number}: expected a JSON object on each line") from None
        if not isinstance(row, dict):
            raise KvcalcError(f"{name}:{number}: expected a JSON object on each line")
        return row

    yield first[0], read(*first)
    for number, line in lines:
        yield number, read(number, line)


def _parquet(path: str, name: str) -> Iterator[tuple[int, Row]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise KvcalcError(
            f"{name}: Parquet needs pyarrow, which is not installed", "pip install pyarrow, or give CSV or JSON lines"
        ) from None
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=10_000):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (OSError, ValueError) as error:  # pyarrow's errors are both
        said = str(error).splitlines()[0] if str(error) else "it cannot be read"
        raise KvcalcError(f"{shown_path(os.path.basename(path))}: {said[:200]}") from None
