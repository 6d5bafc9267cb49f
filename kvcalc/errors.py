"""What can go wrong, and the exit status that says so."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from itertools import islice
from typing import NamedTuple

__all__ = ["DocumentError", "ExitCode", "KvcalcError", "Problem", "escape", "nearest", "shown", "shown_path"]

# A comparison of two names takes time with the product of their lengths, and no name of ours is as long.
_LONGEST_NAME = 60
_MOST_NAMES = 2000  # that are compared with one
_LONGEST_PATH = 300  # shown whole; the system allows 4,096


class ExitCode(IntEnum):
    """Exit statuses of the command line."""

    OK = 0
    NO = 1  # answered, and the answer is "it does not fit"
    USAGE = 2
    BUG = 70  # EX_SOFTWARE of sysexits.h; a bare traceback would exit 1 and read as NO
    INTERRUPTED = 130


class KvcalcError(Exception):
    """A mistake of the user's, or a question that cannot be answered: one line, and perhaps a way out."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Problem(NamedTuple):
    """One fault of a document. `path` leads to it: ("caches", "full", "kv_heads").

    `missing` marks what is not there at all: told last, since a misspelt key often explains it.
    """

    path: tuple[str | int, ...]
    text: str
    missing: bool = False
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        key = ".".join(shown(part) if len(str(part)) > 60 else escape(str(part)) for part in self.path)
        place = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        return ": ".join(part for part in (place, key, self.text) if part)


class DocumentError(KvcalcError):
    """A document (a preset, later a config.json) with one or more faults, the first of which is the message.

    `check` is the command that lists them all, if there is one.
    """

    def __init__(self, problems: Sequence[Problem], check: str | None = None) -> None:
        more = len(problems) - 1
        all_of_them = f"; `{check}` lists them all" if check else ""
        super().__init__(str(problems[0]), f"and {more} more{all_of_them}" if more else None)
        self.problems = tuple(problems)


def escape(text: str) -> str:
    """`text` with control, bidirectional and other unprintable characters written as escapes.

    What a hostile file calls itself must not be able to move the cursor of the terminal that shows it.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: object, limit: int = 60) -> str:
    """A value from outside as it may stand in a message: quoted if text, escaped, cut if long."""
    if isinstance(value, str):
        text = "'" + escape(value) + "'"
    elif value is None:
        text = "nothing"
    elif isinstance(value, dict):
        text = "a mapping"
    elif isinstance(value, list):
        text = "a list"
    elif isinstance(value, int) and value.bit_length() > 256:  # printing it would be slow, or refused by Python
        text = "a huge number"
    else:
        text = escape(str(value))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def shown_path(path: str) -> str:
    """A path or an address from outside as it may stand in a message: escaped, and without the middle if very long."""
    text = escape(path)
    half = _LONGEST_PATH // 2
    return text if len(text) <= _LONGEST_PATH else f"{text[:half]}…{text[-half:]}"


def nearest(word: str, among: Iterable[str], most: int = 3) -> list[str]:
    """The names closest to a misspelt one, best first."""
    if len(word) > _LONGEST_NAME:
        return []
    from difflib import get_close_matches  # only on the way to an error: start-up does not pay for it

    names = [name for name in islice(among, _MOST_NAMES) if len(name) <= _LONGEST_NAME]
    return get_close_matches(word.lower(), names, n=most, cutoff=0.6)
