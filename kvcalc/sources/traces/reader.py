"""Rows become a trace: times in seconds from the first, whole tokens, and what was left out, counted by its reason."""

from array import array
from collections import Counter
from collections.abc import Mapping
from datetime import UTC
from typing import Any, NamedTuple

from kvcalc.errors import KvcalcError, shown
from kvcalc.sources.traces.columns import Columns, columns_of
from kvcalc.sources.traces.rows import rows_of
from kvcalc.traffic.trace import Prefixes, Trace

__all__ = ["Dropped", "TraceFile", "read_trace"]

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_MOST_TOKENS = 2**31
_MOST_SECONDS = 1e12


class Dropped(NamedTuple):
    """Rows that were left out, why, and the number of the first of them."""

    reason: str
    rows: int
    first: int


class TraceFile(NamedTuple):
    """What a file of requests holds. `timed`: it has times of arrival, else all arrive at once."""

    trace: Trace
    dropped: tuple[Dropped, ...]
    unsorted: int | None  # the first row that is earlier than the one before
    timed: bool


def read_trace(path: str, name: str, *, unit: str | None = None) -> TraceFile:
    """Read a file of requests; `unit` says what its times are counted in where the file leaves it open.

    Raises KvcalcError for a file that is none, for a column that is missing or ambiguous, and for a trace without rows.
    """
    rows = rows_of(path, name)
    first = next(rows, None)
    if first is None:
        raise KvcalcError(f"{name}: expected requests, got no row")
    columns = columns_of(first[1], name)
    kept = _Kept(columns, name, unit)
    kept.take(*first)
    for number, row in rows:
        kept.take(number, row)
    return kept.file()


class _Kept:
    """The columns of a trace as its rows are read."""

    def __init__(self, columns: Columns, name: str, unit: str | None) -> None:
        self._columns, self._name, self._unit = columns, name, unit
        self._times: array[float] = array("d")
        self._prompts: array[int] = array("q")
        self._outputs: array[int] = array("q")
        self._blocks: list[tuple[int, ...]] = []
        self._sessions: array[int] = array("q")
        self._session_ids: dict[object, int] = {}
        self._block_tokens = columns.block
        self._left: Counter[str] = Counter()
        self._where: dict[str, int] = {}
        self._scale: float | None = None
        self._timed = "time" in columns.names

    def take(self, number: int, row: Mapping[str, Any]) -> None:
        """One row, or why it is left out. Raises KvcalcError for a time that is none."""
        names = self._columns.names
        prompt, output = _count(row.get(names["input"])), _count(row.get(names["output"]))
        if prompt is None or output is None:
            return self._leave("no whole number of tokens", number)
        if prompt == 0 or output == 0:
            return self._leave("no tokens in or none out", number)
        if prompt > _MOST_TOKENS or output > _MOST_TOKENS:
            return self._leave("more than 2^31 tokens", number)
        self._times.append(self._time(number, row.get(names["time"])) if self._timed else 0.0)
        self._prompts.append(prompt)
        self._outputs.append(output)
        if "prefix" in names:
            self._blocks.append(self._prefix(number, row.get(names["prefix"])))
            stated = _count(row.get(names.get("block", "")))
            self._block_tokens = stated or self._block_tokens
        if "session" in names:
            self._sessions.append(self._session_ids.setdefault(str(row.get(names["session"])), len(self._session_ids)))
        return None

    def _leave(self, reason: str, number: int) -> None:
        self._left[reason] += 1
        self._where.setdefault(reason, number)

    def _time(self, number: int, value: object) -> float:
        if isinstance(value, str) and (":" in value or value.count("-") > 1):
            return _wall_clock(value, self._name, number)
        try:
            time = float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            time = float("nan")
        if not 0 <= time <= _MOST_SECONDS * 1e9:  # nan is not
            raise KvcalcError(f"{self._name}:{number}: expected a time of at least 0, got {shown(value)}")
        if self._scale is None:
            self._scale = self._known_scale()
        return time * self._scale

    def _known_scale(self) -> float:
        unit = self._unit or self._columns.unit
        if not unit:
            raise KvcalcError(
                f"{self._name}: whether its times are seconds or milliseconds is not stated",
                "--time-unit s or --time-unit ms",
            )
        return _UNITS[unit]

    def _prefix(self, number: int, value: object) -> tuple[int, ...]:
        if isinstance(value, str):
            value = value.strip("[]").replace(",", " ").split()
        try:
            return tuple(map(int, value or ()))  # type: ignore[call-overload]
        except (TypeError, ValueError):
            raise KvcalcError(f"{self._name}:{number}: expected a list of block ids, got {shown(value)}") from None

    def file(self) -> TraceFile:
        """All of it, in the order of arrival."""
        if not self._times:
            reasons = ", ".join(f"{count:,} with {reason}" for reason, count in self._left.items())
            raise KvcalcError(f"{self._name}: expected requests, got none that can be: {reasons}")
        if self._blocks and self._block_tokens is None:
            raise KvcalcError(
                f"{self._name}: how many tokens a block of hash_ids has is not stated", "a column block_size"
            )
        unsorted = next((i for i in range(1, len(self._times)) if self._times[i] < self._times[i - 1]), None)
        dropped = tuple(Dropped(reason, count, self._where[reason]) for reason, count in self._left.most_common())
        return TraceFile(self._trace(ordered=unsorted is None), dropped, unsorted and unsorted + 1, self._timed)

    def _trace(self, *, ordered: bool) -> Trace:
        order = range(len(self._times)) if ordered else sorted(range(len(self._times)), key=self._times.__getitem__)
        start = min(self._times)
        prefixes = None
        if self._blocks:
            assert self._block_tokens is not None
            prefixes = Prefixes(self._block_tokens, [self._blocks[i] for i in order])
        return Trace(
            array("d", (self._times[i] - start for i in order)),
            self._prompts if ordered else array("q", (self._prompts[i] for i in order)),
            self._outputs if ordered else array("q", (self._outputs[i] for i in order)),
            prefixes,
            array("q", (self._sessions[i] for i in order)) if self._sessions else None,
        )


def _count(value: object) -> int | None:
    """A whole number from 0 on, however it is written; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, float):
        return int(value) if value >= 0 and value.is_integer() else None
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _wall_clock(text: str, name: str, number: int) -> float:
    """Seconds of a date and time; digits beyond microseconds count."""
    from datetime import datetime

    whole, _, fraction = text.strip().removesuffix("Z").partition(".")
    digits = fraction[:12]
    try:
        moment = datetime.fromisoformat(whole)
    except ValueError:
        raise KvcalcError(f"{name}:{number}: expected a date and time, got {shown(text)}") from None
    if fraction and not (fraction.isascii() and fraction.isdigit()):
        raise KvcalcError(f"{name}:{number}: expected a date and time, got {shown(text)}")
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return moment.timestamp() + (int(digits) / 10 ** len(digits) if digits else 0.0)
