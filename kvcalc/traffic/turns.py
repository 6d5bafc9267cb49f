"""Sessions: each turn's prompt is all that was said before and something new, and comes after a pause."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import NamedTuple, overload

from kvcalc.core.durations import parse_duration
from kvcalc.perf.workload import Length
from kvcalc.traffic.arrivals import Arrivals, arrive, drawn
from kvcalc.traffic.trace import Prefixes, Trace, Turns

__all__ = ["SessionLengths", "arrivals_after", "in_blocks", "ordered", "paced", "pause_of", "sessions"]

_APART = 1 << 32  # ids of one session, more than a context has tokens


class SessionLengths(NamedTuple):
    """Turns of a session, tokens that each adds to its prompt and generates, and the pause before the next in ms."""

    turns: Length
    prompt: Length
    generated: Length
    think: Length


def pause_of(text: str, what: str) -> Length:
    """`30s`, or `30s/2m` with the 95th percentile, in milliseconds; `what` names the option in errors."""
    mean, slash, p95 = text.partition("/")
    return Length(1000 * parse_duration(mean, what), 1000 * parse_duration(p95, what) if slash else None)


class _Blocks(Sequence[Sequence[int]]):
    """The whole blocks of contexts that grow, as ranges, so that a session of any length takes no memory for them."""

    def __init__(self, sessions: Sequence[int], contexts: Sequence[int], tokens: int) -> None:
        self._sessions, self._contexts, self._tokens = sessions, contexts, tokens

    def __len__(self) -> int:
        return len(self._contexts)

    @overload
    def __getitem__(self, at: int) -> range: ...
    @overload
    def __getitem__(self, at: slice) -> "list[Sequence[int]]": ...
    def __getitem__(self, at: int | slice) -> "range | list[Sequence[int]]":
        if isinstance(at, slice):
            return [self[i] for i in range(*at.indices(len(self)))]
        first = self._sessions[at] * _APART
        return range(first, first + self._contexts[at] // self._tokens)


def sessions(count: int, how: Arrivals, lengths: SessionLengths, seed: int) -> Trace:
    """So many requests of sessions that begin at a rate; the last session ends with the last request."""
    random = Random(seed)  # noqa: S311 - nothing secret
    turns: list[int] = []
    while (left := count - sum(turns)) > 0:
        more = drawn(min(left, 4096), lengths.turns, "--turns", random)
        for each in more:
            turns.append(min(each, left))
            left -= turns[-1]
            if not left:
                break
    starts = arrive(len(turns), how, random)
    prompts, outputs = (
        drawn(count, length, name, random)
        for length, name in ((lengths.prompt, "--input"), (lengths.generated, "--output"))
    )
    pauses = drawn(count, lengths.think, "--think", random)
    rows: list[tuple[float, int, int, int, float]] = []  # time, session, prompt, output, pause before it
    at = 0
    for session, (start, number) in enumerate(zip(starts, turns, strict=True)):
        now, context, pause = start, 0, 0.0
        for _ in range(number):
            context += prompts[at]
            rows.append((now, session, context, outputs[at], pause))
            context += outputs[at]
            pause = pauses[at] / 1000
            now, at = now + pause, at + 1
    rows.sort(key=lambda row: row[0])  # and in order of turns where pauses are none
    last: dict[int, int] = {}
    after = array("q")
    for index, row in enumerate(rows):
        after.append(last.get(row[1], -1))
        last[row[1]] = index
    trace = Trace(
        array("d", (row[0] for row in rows)),
        array("q", (row[2] for row in rows)),
        array("q", (row[3] for row in rows)),
        Prefixes(1, ()),
        array("q", (row[1] for row in rows)),
        Turns(after, array("d", (row[4] for row in rows))),
    )
    return in_blocks(trace, 16)


def in_blocks(trace: Trace, tokens: int) -> Trace:
    """The prompts of made up sessions in blocks of so many tokens; a trace of a file has its own blocks and stays."""
    made = trace.prefixes
    if trace.sessions is None or made is None or isinstance(made.blocks, list):
        return trace
    written = array("q", (p + g - 1 for p, g in zip(trace.prompts, trace.outputs, strict=True)))  # the last never is
    prompts, answered = (_Blocks(trace.sessions, contexts, tokens) for contexts in (trace.prompts, written))
    return replace(trace, prefixes=Prefixes(tokens, prompts, answered))


def arrivals_after(trace: Trace, seconds: Callable[[int], float]) -> "array[float]":
    """Arrivals where the answer of request i takes so many seconds from its arrival."""
    arrivals = trace.arrivals[:]
    if trace.turns is not None:
        for i, before in enumerate(trace.turns.after):
            if before >= 0:
                arrivals[i] = arrivals[before] + seconds(before) + trace.turns.think[i]
    return arrivals


def paced(trace: Trace, factor: float) -> Trace:
    """The same requests, or the same sessions where each waits for its answers, so many times as fast."""
    times = array("d", (time / factor for time in trace.arrivals))
    faster = replace(trace, arrivals=times)
    return faster if trace.turns is None else ordered(replace(trace, arrivals=arrivals_after(faster, lambda _: 0.0)))


def ordered(trace: Trace) -> Trace:
    """The same requests in the order in which they arrive."""
    times = trace.arrivals
    if all(times[i - 1] <= times[i] for i in range(1, len(times))):
        return trace
    order = sorted(range(len(times)), key=times.__getitem__)
    place = {old: new for new, old in enumerate(order)}
    turns, prefixes, said = trace.turns, trace.prefixes, trace.sessions
    moved = Trace(
        array("d", (times[i] for i in order)),
        array("q", (trace.prompts[i] for i in order)),
        array("q", (trace.outputs[i] for i in order)),
        prefixes and replace(prefixes, blocks=[prefixes.blocks[i] for i in order])
        if prefixes and isinstance(prefixes.blocks, list)
        else prefixes,
        said and array("q", (said[i] for i in order)),
        turns
        and Turns(
            array("q", (place.get(turns.after[i], -1) for i in order)), array("d", (turns.think[i] for i in order))
        ),
    )
    return moved if prefixes is None else in_blocks(moved, prefixes.tokens)
