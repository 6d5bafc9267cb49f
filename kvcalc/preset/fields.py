"""Typed look-ups over a mapping from outside. Every fault is noted with its path, and reading goes on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvcalc.errors import Problem, nearest, shown

__all__ = ["MOST_NUMBER", "Reader"]

MOST_NUMBER = 2**40  # above any count, width or length of a real model

_MOST_NAMED = 10  # keys, in a message
_MOST_MEANT = 20  # faults of a document for which it is looked up what may be meant


class Reader:
    """Look-ups in `data`, which stands at `path` of its document. Problems go into a list that `inner` readers share.

    A look-up that fails notes a problem and returns None, so that a caller finds every fault of a document in one pass.
    """

    def __init__(
        self,
        data: Mapping[Any, object],
        path: tuple[str | int, ...] = (),
        problems: list[Problem] | None = None,
        many: str = "`kvcalc models llama3-8b --format yaml` shows what a preset has",
    ) -> None:
        self.data = data
        self.path = path
        self.problems: list[Problem] = [] if problems is None else problems
        self._many = many  # what is said where too many keys are known to name them
        self._asked: set[str] = set()
        self._noted: set[tuple[str, str]] = set()

    def note(self, text: str, *key: str | int) -> None:
        """Note a fault of this mapping, or of one of its keys."""
        self.problems.append(Problem((*self.path, *key), text))

    def note_once(self, text: str, key: str) -> None:
        """Note a fault that may be met again with each layer."""
        if (text, key) not in self._noted:
            self._noted.add((text, key))
            self.note(text, key)

    def missing(self, what: str, key: str) -> None:
        """Note that a key is not there."""
        self.problems.append(Problem((*self.path, key), f"expected {what}, got nothing", missing=True))

    def expected(self, what: str, key: str) -> None:
        """Note that a key has the wrong value, or none."""
        value = self.data.get(key)
        if value is None:
            self.missing(what, key)
        else:
            self.note(f"expected {what}, got {shown(value)}", key)

    def meant(self, word: str, among: Iterable[str]) -> str | None:
        """What a misspelt word may have been meant as; None behind the first faults, since a look-up takes long."""
        return next(iter(nearest(word, among, 1)), None) if len(self.problems) < _MOST_MEANT else None

    def get(self, key: str) -> object:
        """The raw value, or None; the key counts as known from now on."""
        self._asked.add(key)
        return self.data.get(key)

    def text(self, key: str, *, required: bool = False) -> str | None:
        """Printable text on one line; folded lines are joined."""
        value = self.get(key)
        if value is None and not required:
            return None
        if isinstance(value, str):
            line = " ".join(value.split())
            if line and line.isprintable():
                return line
        self.expected("printable text", key)
        return None

    def texts(self, key: str) -> tuple[str, ...]:
        """A text or a list of texts."""
        value = self.get(key)
        values = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(v, str) and v and v.isprintable() for v in values):
            self.expected("text, or a list of texts", key)
            return ()
        return tuple(values)

    def integer(self, key: str, low: int = 1, high: int = MOST_NUMBER) -> int | None:
        value = self.get(key)
        if value is None:
            return None
        if is_integer(value, low, high):
            return value  # type: ignore[return-value]  # is_integer excludes bool, which TypeGuard cannot say
        self.expected(between(low, high, value), key)
        return None

    def integers(self, key: str, low: int = 1, high: int = MOST_NUMBER) -> int | list[int] | None:
        """A number, or one for each layer."""
        value = self.get(key)
        if not isinstance(value, list):
            return self.integer(key, low, high)
        for i, entry in enumerate(value):
            if not is_integer(entry, low, high):
                self.note(f"expected {between(low, high, entry)}, got {shown(entry)}", key, i)
                return None
        return value

    def flag(self, key: str) -> bool:
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.expected("true or false", key)
        return False

    def one_of(self, key: str, choices: Sequence[str]) -> str | None:
        value = self.get(key)
        if value is None or (isinstance(value, str) and value in choices):
            return value
        close = self.meant(value, choices) if isinstance(value, str) else None
        self.expected(f"one of {', '.join(choices)}", key)
        if close:
            self.problems[-1] = self.problems[-1]._replace(text=f"{self.problems[-1].text} (did you mean '{close}'?)")
        return None

    def inner(self, key: str) -> "Reader | None":
        """A reader of the mapping under `key`."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, dict):
            return Reader(value, (*self.path, key), self.problems, self._many)
        self.expected("a mapping", key)
        return None

    def _known(self) -> str:
        """Which keys there are: all of a cache, and of a whole document how to see them."""
        if len(self._asked) <= _MOST_NAMED:
            return f" (known here: {', '.join(sorted(self._asked))})" if self._asked else ""
        return f" ({self._many})"

    def close(self) -> None:
        """Note every key that nobody asked for."""
        known = self._known()
        for key in self.data:
            if not isinstance(key, str):
                self.note(f"expected a word as a key, got {shown(key)}")
            elif key not in self._asked:
                close = self.meant(key, self._asked)
                hint = f" (did you mean '{close}'?)" if close else known
                self.note(f"expected a known key, got {shown(key)}{hint}", key)


def is_integer(value: object, low: int, high: int) -> bool:
    """A whole number in range; True and False are none, though Python counts them as ints."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def between(low: int, high: int, value: object = None) -> str:
    """What was expected in place of `value`. The largest number is named only where something is above it."""
    if high == MOST_NUMBER and isinstance(value, int) and value > high:
        return f"at most {high:,}"
    if high == MOST_NUMBER:
        return "a whole number above zero" if low == 1 else f"a whole number from {low:,}"
    return f"a whole number from {low:,} to {high:,}"
