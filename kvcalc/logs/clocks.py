"""When a line was written, as far as it says so in front: times of one kind can be compared with each other."""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

__all__ = ["Stamp", "settled", "stamp_of", "unsettled"]

_FRONT = 200  # characters of a line in which a time is looked for
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class Stamp(NamedTuple):
    """A time of a `kind`: parts from the largest to the smallest."""

    kind: str
    parts: tuple[int, ...]


def _numbers(match: re.Match[str]) -> tuple[int, ...]:
    return tuple(int(part) for part in match.groups())


def _with_fraction(match: re.Match[str]) -> tuple[int, ...]:
    return (*(int(part) for part in match.groups()[:6]), int((match[7] or "").ljust(9, "0")))


def _year_last(match: re.Match[str]) -> tuple[int, ...]:
    month, day, year, *rest = (int(part) for part in match.groups())
    return (year, month, day, *rest)


def _named_month(match: re.Match[str]) -> tuple[int, ...]:
    return (_MONTHS.index(match[1]), *(int(part) for part in match.groups()[1:]))


_Reader = Callable[[re.Match[str]], tuple[int, ...]]

# Collectors and SGLang, TensorRT-LLM, vLLM, journals, and the time since llama.cpp began: minutes down to microseconds.
_KINDS: tuple[tuple[str, re.Pattern[str], _Reader], ...] = tuple(
    (kind, re.compile(pattern, re.ASCII), reader)
    for kind, pattern, reader in (
        ("date", r"(?<!\d)(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?", _with_fraction),
        ("american", r"(?<!\d)(\d\d)/(\d\d)/(\d{4})-(\d\d):(\d\d):(\d\d)", _year_last),
        ("day", r"(?<![\d-])(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)", _numbers),
        ("journal", rf"(?<![A-Za-z])({'|'.join(_MONTHS)}) {{1,2}}(\d{{1,2}}) (\d\d):(\d\d):(\d\d)", _named_month),
        ("uptime", r"(?<![\d.])(\d{1,6})\.(\d\d)\.(\d{3})\.(\d{3}) [A-Z] ", _numbers),
    )
)


def stamp_of(text: str) -> Stamp | None:
    """The time in front of a line, the one of a collector before the engine's own."""
    front = text[:_FRONT]
    found = [
        (match.start(), kind, reader(match)) for kind, pattern, reader in _KINDS if (match := pattern.search(front))
    ]
    return Stamp(*min(found)[1:]) if found else None


def settled(stamps: Sequence[Stamp | None]) -> list[tuple[int, ...]] | None:
    """The times of lines that follow each other, all of one kind; a line without one has that of the line before it.

    None where there are none, or where a year without a number ended among them.
    """
    kinds = [stamp.kind for stamp in stamps if stamp is not None]
    if not kinds:
        return None
    kind = max(dict.fromkeys(kinds), key=kinds.count)
    known = [stamp.parts if stamp is not None and stamp.kind == kind else None for stamp in stamps]
    last = next(parts for parts in known if parts is not None)
    times = []
    for parts in known:
        last = last if parts is None else parts
        times.append(last)
    months = [parts[0] for parts in times]
    return None if kind in ("day", "journal") and max(months) - min(months) > _HALF_A_YEAR else times


_HALF_A_YEAR = 6


def unsettled(times: Sequence[tuple[int, ...]] | None) -> bool:
    """Whether a time is before the one in front of it."""
    return times is not None and any(b < a for a, b in pairwise(times))
