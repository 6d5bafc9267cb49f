"""Lists and ranges of an option as its values: `4k,8k,32k`, `1..64`, `1k..128k:x2`, `8..64:+8`.

A range holds both ends. Alone it counts by one of the unit in which its first end is written: `1k..8k` are eight
lengths. `:+N` counts by N, `:xN` multiplies. What comes twice is kept once, where it came first.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, repeat, takewhile
from math import prod
from operator import mul

from kvcalc.errors import KvcalcError, shown

__all__ = ["MOST_CELLS", "Parse", "bounded", "names", "numbers"]

MOST_CELLS = 1_000_000  # of one grid; a second or so of work for every hundred thousand

_LONGEST = 100_000  # letters of one option
_UNIT = re.compile(r"[0-9.]+\s?([A-Za-z]*)")

Parse = Callable[[str, str], int]


def names(text: str, what: str) -> list[str]:
    """The words of a list, each once, whatever its case. `what` names the option in errors."""
    found: dict[str, str] = {}
    for word in _parts(text, what):
        found.setdefault(word.lower(), word)
    return list(found.values())


def numbers(text: str, what: str, parse: Parse, words: Mapping[str, int] | None = None) -> list[int]:
    """The numbers of a list with ranges; `parse` reads one of them, unless it is one of `words`, such as `max`."""

    def read(word: str) -> int:
        known = (words or {}).get(word.strip().lower())
        return parse(word, what) if known is None else known

    found: dict[int, None] = {}
    left = MOST_CELLS
    for part in _parts(text, what):
        values = _range(part, what, read) if ".." in part else [read(part)]
        left -= len(values)
        if left < 0:
            raise KvcalcError(
                f"{what}: expected at most {MOST_CELLS:,} values, got {MOST_CELLS - left:,}",
                "take larger steps: A..B:+N, or A..B:x2 to double",
            )
        found.update(dict.fromkeys(values))
    return list(found)


def _parts(text: str, what: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")] if len(text) <= _LONGEST else []
    if not all(parts) or not parts:
        raise KvcalcError(f"{what}: expected a value or a list such as A,B,C, got {shown(text)}")
    return parts


def _range(text: str, what: str, read: Callable[[str], int]) -> Sequence[int]:
    """`A..B`, `A..B:+N` or `A..B:xN`, written out only where it must be."""
    ends, colon, step = text.partition(":")
    first, _, last = (end.strip() for end in ends.partition(".."))
    if not first or not last or ".." in last or (colon and not re.fullmatch(r"\s*[+xX]\s*[0-9].*", step)):
        raise KvcalcError(
            f"{what}: expected a range such as 1..64, 8..64:+8 or 1k..128k:x2, got {shown(text)}",
            "+N counts by N, xN multiplies by N",
        )
    low, high = read(first), read(last)
    if low > high:
        raise KvcalcError(
            f"{what}: expected the smaller end first, got {shown(text)}", f"write {last}..{first}{colon}{step}"
        )
    step = step.strip()
    if step[:1] in ("x", "X"):
        factor = step[1:].strip()
        if not re.fullmatch(r"[0-9]{1,6}", factor) or int(factor) < 2:
            raise KvcalcError(f"{what}: expected a whole factor from 2 on, such as x2, got {shown(step)}")
        return list(takewhile(lambda value: value <= high, accumulate(repeat(int(factor)), mul, initial=low)))
    unit = _UNIT.fullmatch(first)
    return range(low, high + 1, read(step[1:].strip() if step else f"1{unit[1] if unit else ''}"))


def bounded(axes: Mapping[str, Iterable[object]]) -> None:
    """Refuse a grid with too many cells, with the product that says why. The axes are named by their options."""
    counts = {name: len(list(values)) for name, values in axes.items()}
    cells = prod(counts.values())
    if cells > MOST_CELLS:
        product = " x ".join(f"{count:,} ({name})" for name, count in counts.items() if count > 1)
        raise KvcalcError(f"expected a grid of at most {MOST_CELLS:,} cells, got {cells:,}: {product}", "vary less")
