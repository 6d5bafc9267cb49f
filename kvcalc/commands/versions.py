"""Versions of an engine: rows of constants, of which the one that is asked for or the nearest below it holds."""

import re
from collections.abc import Sequence
from typing import Protocol, TypeVar

from kvcalc.errors import KvcalcError, shown

__all__ = ["Version", "parse", "pick", "unread"]


class Version(Protocol):
    """A row of an engine's table; its other fields are the engine's own constants."""

    @property
    def name(self) -> str:
        """The version from which on the row holds: `0.33.0`, `b9496`."""


Row = TypeVar("Row", bound=Version)

_NUMBERS = re.compile(r"[vb]?(\d{1,9}(?:\.\d{1,9}){0,3})(?:[-+._]?[a-z][\w.+-]*|[-+][\w.+-]*)?", re.ASCII)
# The count of builds; a commit's hash, 5c1e57098, is none.
_BUILD = re.compile(r"b?\d{1,9}(?:[-+_][\w.+-]*)?", re.ASCII | re.IGNORECASE)


def parse(text: str, what: str) -> tuple[int, ...]:
    """The numbers of a version: `v0.18.0+abc`, `0.18.0rc1` and `b9496` are (0, 18, 0), (0, 18, 0) and (9496,)."""
    match = _NUMBERS.fullmatch(text.strip().lower()) if len(text) < 64 else None
    if match is None:
        raise KvcalcError(f"{what}: expected a version such as 0.18.0, got {shown(text)}")
    return tuple(int(number) for number in match[1].split("."))


def pick(rows: Sequence[Row], asked: str | None, engine: str) -> tuple[Row, str | None]:
    """The row that holds for a version, the newest for None, and a warning for one older than all.

    A version between two rows follows the lower one. `rows` are sorted, the oldest first.
    """
    if asked is None:
        return rows[-1], None
    wanted = parse(asked, "--engine")
    if rows[-1].name.startswith("b") and not _BUILD.fullmatch(asked.strip()):
        raise KvcalcError(f"--engine: expected a build of {engine} such as {rows[-1].name}, got {shown(asked)}")
    older = [row for row in rows if _padded(parse(row.name, "--engine")) <= _padded(wanted)]
    if older:
        return older[-1], None
    oldest = rows[0]
    return oldest, f"{engine} {asked} is older than all versions whose rules are known: {oldest.name} is used"


def unread(asked: str, newest: str, engine: str) -> str | None:
    """A warning for a version newer than the newest whose rules are known."""
    if _padded(parse(asked, "--engine")) <= _padded(parse(newest, "--engine")):
        return None
    return f"{engine} {asked} is newer than {newest}, the newest version whose rules are known: those are used"


def _padded(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """5.15 and 5.15.0 are one."""
    return (*numbers, 0, 0, 0)[:4]
