"""Rows become a trace: times in seconds from the first, whole tokens, and what was left out, counted by its reason."""

from array import array
from collections import Counter
from collections.abc import Mapping
from datetime import UTC
from typing import Any, NamedTuple

from kvcalc.errors import KvcalcError, shown
from kvcalc.sources.traces.columns import Columns, columns_of
from kvcalc.sources.traces.rows import rows_of
from kvcalc.traffic.trace import Prefixes, Trace, Turns
from kvcalc.traffic.turns import ordered

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


class _Before(NamedTuple):
    """The row that a turn follows, None where that was left out, and the seconds between its answer and the turn."""

    row: int | None
    pause: float


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
        self._after, self._think = array("q"), array("d")
        self._last: dict[object, int] = {}  # the newest row of a session, and rows by their request_id
        self._left_ids: set[str] = set()
        self._chained = columns.names.keys() >= {"prefix", "session"}  # only such have rows without a time
        self._scale: float | None = None
        self._timed = "time" in columns.names

    def take(self, number: int, row: Mapping[str, Any]) -> None:
        """One row, or why it is left out. Raises KvcalcError for a time that is none."""
        names = self._columns.names
        prompt, output = _count(row.get(names["input"])), _count(row.get(names["output"]))
        if prompt is None or output is None:
            return self._leave("no whole number of tokens", number, row)
        if prompt == 0 or output == 0:
            return self._leave("no tokens in or none out", number, row)
        if prompt > _MOST_TOKENS or output > _MOST_TOKENS:
            return self._leave("more than 2^31 tokens", number, row)
        before = self._followed(number, row) if self._chained else None
        if before is None:
            time = self._time(number, row.get(names["time"])) if self._timed else 0.0
        elif before.row is None:
            return self._leave("a turn before them that was left out", number, row)
        else:
            time = self._times[before.row] + before.pause  # the earliest that can be
        if self._chained:
            self._after.append(-1 if before is None or before.row is None else before.row)
            self._think.append(0.0 if before is None else before.pause)
            self._known(row, len(self._times))
        self._times.append(time)
        self._prompts.append(prompt)
        self._outputs.append(output)
        if "prefix" in names:
            self._blocks.append(self._prefix(number, row.get(names["prefix"])))
            stated = _count(row.get(names.get("block", "")))
            self._block_tokens = stated or self._block_tokens
        if "session" in names:
            self._sessions.append(self._session_ids.setdefault(str(row.get(names["session"])), len(self._session_ids)))
        return None

    def _followed(self, number: int, row: Mapping[str, Any]) -> "_Before | None":
        """What a turn without a time waits for: the row that it names, else the one before it of its session, and then
        its delay and its tools (Dynamo's `agentic_mooncake`: the gap that was seen is the sum of both).
        """
        waits = _pause(row.get("delay")), _pause(row.get("tool_wait_ms"))
        stated = row.get(self._columns.names.get("time", "timestamp"))
        if stated not in (None, "") or waits == (None, None):
            return None
        if not self._timed:
            raise KvcalcError(f"{self._name}:{number}: a turn has a delay, and no session says when it begins")
        named = row.get("wait_for")
        if isinstance(named, list | tuple) and len(named) > 1:
            raise KvcalcError(f"{self._name}:{number}: waits for several requests, of which one is known here")
        key: object = named[0] if isinstance(named, list | tuple) and named else named
        key = ("session", str(row.get(self._columns.names.get("session", "session_id")))) if key in (None, []) else key
        if key not in self._last and str(key) not in self._left_ids:
            raise KvcalcError(f"{self._name}:{number}: waits for {shown(key)}, which is no earlier row")
        return _Before(self._last.get(key), ((waits[0] or 0.0) + (waits[1] or 0.0)) / 1000)

    def _known(self, row: Mapping[str, Any], index: int) -> None:
        """Rows that later ones may wait for."""
        session = row.get(self._columns.names.get("session", "session_id"))
        if session is not None:
            self._last["session", str(session)] = index
        if isinstance(row.get("request_id"), str | int):
            self._last[row["request_id"]] = index

    def _leave(self, reason: str, number: int, row: Mapping[str, Any]) -> None:
        self._left[reason] += 1
        self._where.setdefault(reason, number)
        if self._chained:
            self._left_ids.add(str(row.get("request_id")))

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
        unsorted = (
            None
            if self._turns()
            else next((i for i in range(1, len(self._times)) if self._times[i] < self._times[i - 1]), None)
        )
        dropped = tuple(Dropped(reason, count, self._where[reason]) for reason, count in self._left.most_common())
        return TraceFile(self._trace(ordered=unsorted is None), dropped, unsorted and unsorted + 1, self._timed)

    def _turns(self) -> Turns | None:
        return Turns(self._after, self._think) if any(before >= 0 for before in self._after) else None

    def _in_turns(self, start: float, turns: Turns) -> Trace:
        prefixes = Prefixes(self._block_tokens or 1, self._blocks) if self._blocks else None
        times = array("d", (time - start for time in self._times))
        said = self._sessions or None
        return ordered(Trace(times, self._prompts, self._outputs, prefixes, said, turns))

    def _trace(self, *, ordered: bool) -> Trace:
        order = range(len(self._times)) if ordered else sorted(range(len(self._times)), key=self._times.__getitem__)
        start = min(self._times)
        if (turns := self._turns()) is not None:
            return self._in_turns(start, turns)
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


def _pause(value: object) -> float | None:
    """Milliseconds from 0 on; None where nothing is stated."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
        return None
    try:
        pause = float(value)
    except ValueError:
        return None
    return pause if 0 <= pause <= _MOST_SECONDS else None


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
