"""Lines of a log sorted into starts of engines, each with all that it says about its cache."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import NamedTuple

from kvcalc.engines.log_fields import key_values
from kvcalc.engines.log_form import EngineLog, Line, MatchedLine, StartLog
from kvcalc.logs.clocks import Stamp, settled, stamp_of, unsettled
from kvcalc.logs.text import MOST_LINES, MarkedLine, Marks

__all__ = ["Reading", "marks_of", "runs_of"]

MOST_FOUND = 2_000  # lines kept for all engines together; a start has some twenty

# How workers sign their lines: (EngineCore_DP1 pid=9), (Worker_DP0_TP3 pid=9), (VllmWorker rank=1 pid=9), [RANK 2],
# [2026-03-21 03:31:56 DP0 TP1 PP0].
_REPLICA = re.compile(r"(?<![A-Za-z])DP(?:[ _]?rank)?[ _=]?(\d{1,4})(?!\d)")
_RANK = re.compile(r"(?<![A-Za-z])(?:TP|PP)(\d{1,4})(?!\d)|\brank[ =](\d{1,4})\b|\[RANK (\d{1,4})\]")
_TP = re.compile(r"(?<![A-Za-z])TP(\d{1,4})(?!\d)")
_SIGNED = 160  # characters in front of a message
# How collectors sign the lines of several containers: `vllm-1  | ` of compose, `[pod/a-0/vllm] ` of kubectl --prefix.
_SOURCE = re.compile(r"\s{0,8}(?:([\w.-]{1,80}) {1,40}\||\[(pod/[^\]\s]{1,200})\])(?= )")
_MODELS = ("model", "model_path")
_COUNTED = ("count", "failure")


class Reading(NamedTuple):
    """A log: the starts of engines in it, in order, and whether there was more than is read."""

    runs: tuple[tuple[EngineLog, StartLog], ...]
    cut: bool


class _Hit(NamedTuple):
    """A line that one or several of an engine's patterns match. `number` counts those of the engine."""

    number: int
    source: str
    stamp: Stamp | None
    here: tuple[tuple[Line, MatchedLine], ...]


def marks_of(spoken: Sequence[EngineLog]) -> Marks:
    """What to look for, each mark once, and none that holds another one."""
    lines = [line for each in spoken for line in each.form.lines]
    kinds: list[list[str]] = []
    known: list[str] = []
    for kind in (("start",), _COUNTED, ("fact", "lasting", "memory")):
        marks = sorted({line.mark for line in lines if line.kind in kind}, key=len)
        new = [mark for i, mark in enumerate(marks) if not any(other in mark for other in (*known, *marks[:i]))]
        known += new
        kinds.append(new)
    return Marks(*kinds)


def runs_of(lines: Iterable[MarkedLine], spoken: Sequence[EngineLog]) -> Reading:
    """The starts of engines that lines with marks tell of."""
    hits: list[list[_Hit]] = [[] for _ in spoken]
    signed: list[set[tuple[str, ...]]] = [set() for _ in spoken]
    read = kept = 0
    for marked in lines:
        read += 1
        for i, each in enumerate(spoken):
            here = tuple(_matches(each.form.lines, marked, signed[i]))
            if here:
                kept += len(here)
                hits[i].append(_Hit(len(hits[i]), _source(marked.text), stamp_of(marked.text), here))
        if kept >= MOST_FOUND:
            break
    runs: list[tuple[EngineLog, StartLog]] = []
    for each, own in zip(spoken, hits, strict=True):
        found = [run.in_time() for run in _runs(own)]
        # whoever names an engine knows better
        runs += [(each, StartLog(each.engine, told)) for told in found if len(spoken) == 1 or each.form.claims(told)]
    runs.sort(key=lambda run: min(found.number for found in run[1].found))
    return Reading(tuple(runs), cut=kept >= MOST_FOUND or read >= MOST_LINES)


class _Open:
    """A run that is still being read."""

    def __init__(self, lasting: Sequence[MatchedLine] = (), source: str = "") -> None:
        self.before = tuple(lasting)  # what was said before it began, and holds for it too
        self.lasting = list(lasting)
        self.source = source
        self.hits: list[_Hit] = []
        self.counted = False
        self.models: dict[Line, str] = {}

    def add(self, hit: _Hit) -> None:
        self.hits.append(hit)
        self.lasting += [found for line, found in hit.here if line.kind == "lasting"]
        self.counted |= any(line.kind in _COUNTED for line, _ in hit.here)
        self.models |= {line: model for line, found in hit.here if line.kind == "start" and (model := _named(found))}

    def ended_by(self, starts: Sequence[tuple[Line, MatchedLine]]) -> bool:
        """Another start: behind what was counted, or with another model in the same line."""
        return self.counted or any(
            _named(found) not in (None, self.models.get(line, _named(found))) for line, found in starts
        )

    def of(self, *kinds: str) -> list[_Hit]:
        """The lines of some kinds."""
        return [hit for hit in self.hits if any(line.kind in kinds for line, _ in hit.here)]

    @property
    def headless(self) -> bool:
        """It counts, and does not say what."""
        return self.counted and not self.of("start")

    def in_time(self) -> tuple[MatchedLine, ...]:
        """What the run says, in the order of its times where the lines are in another."""
        hits = _timed(self.hits) if unsettled(settled([hit.stamp for hit in self.hits])) else self.hits
        return (*self.before, *(found for hit in hits for _, found in hit.here))


def _runs(hits: Sequence[_Hit]) -> list[_Open]:
    """The starts that lines tell of, in their order or in that of their times.

    Reports and collectors bring the lines of one start into other orders: what was counted first, or the newest line
    first. Starts that begin where they should stay as they are, since logs are also set behind each other.
    """
    runs = list(_joined(_grouped(hits)))
    broken = any(run.headless for run in runs) and any(run.of("start") and not run.counted for run in runs)
    if not broken or not unsettled(settled([hit.stamp for hit in hits])):
        return runs
    return list(_joined(_grouped(_timed(hits))))


def _timed(hits: Sequence[_Hit]) -> list[_Hit]:
    """Lines in the order of their times, those of one time in their own; from the end, where all times fall."""
    times = settled([hit.stamp for hit in hits])
    assert times is not None
    if not unsettled(times[::-1]):
        hits, times = hits[::-1], times[::-1]
    return [hit for _, _, hit in sorted(zip(times, count(), hits, strict=False), key=lambda each: each[:2])]


def _grouped(hits: Iterable[_Hit]) -> list[_Open]:
    """Lines in the order of a start: it begins with its configuration, and ends with what was counted."""
    runs: list[_Open] = []
    opened: dict[str, _Open] = {}  # by source
    last: _Open | None = None
    for hit in hits:
        starts = [(line, found) for line, found in hit.here if line.kind == "start"]
        # workers on other machines sign with other names, and start nothing
        run = last if not hit.source else opened.get(hit.source) or (None if starts else last)
        if run is None or (starts and run.ended_by(starts)):
            before = run or last
            run = _Open(before.lasting if before else (), hit.source)
            opened[hit.source] = run
            runs.append(run)
        last = run
        run.add(hit)
    return runs


def _joined(runs: Iterable[_Open]) -> Iterator[_Open]:
    """Runs that complete each other, and whose times do not speak against it, are one whose lines changed places."""
    open_: _Open | None = None
    for run in runs:
        if open_ is not None and _complete_each_other(open_, run):
            joined = _Open(open_.before, run.source)
            for hit in (*open_.hits, *run.hits):
                joined.add(hit)
            open_ = joined
            continue
        if open_ is not None:
            yield open_
        open_ = run
    if open_ is not None:
        yield open_


def _complete_each_other(first: _Open, second: _Open) -> bool:
    """What was counted stands before a configuration, or each has a part of both; and no line stands twice."""
    if first.source != second.source or not first.counted:
        return False
    kinds = ("start", "fact", *_COUNTED) if first.headless else ("start", *_COUNTED)
    if _lines(first, *kinds) & _lines(second, *kinds):
        return False
    if len({*first.models.values(), *second.models.values()}) > 1:
        return False
    counted, begun = (each[0].stamp if each else None for each in (first.of(*_COUNTED), second.of("start")))
    return counted is None or begun is None or counted.kind != begun.kind or begun.parts <= counted.parts


def _lines(run: _Open, *kinds: str) -> set[tuple[int, str, str]]:
    return {
        (found.place, found.stream, found.rank) for hit in run.hits for line, found in hit.here if line.kind in kinds
    }


def _named(found: MatchedLine) -> str | None:
    return next((found.says[name] for name in _MODELS if name in found.says), None)


def _source(text: str) -> str:
    """The container that a line is from, where a collector says so."""
    match = _SOURCE.match(text)
    return (match[1] or match[2]) if match else ""


def _matches(
    lines: Sequence[Line], marked: MarkedLine, signed: set[tuple[str, ...]]
) -> Iterator[tuple[Line, MatchedLine]]:
    """The patterns that match a line. One that says nothing but who signs it counts once for each worker."""
    for place, line in enumerate(lines):
        found = _found(line, place, marked)
        if found is None:
            continue
        if not line.keys and not line.pattern.groupindex:
            signature = (found.stream, found.rank, found.tp)
            if signature in signed:
                continue
            signed.add(signature)
        yield line, found


def _found(line: Line, place: int, marked: MarkedLine) -> MatchedLine | None:
    if line.mark not in marked.text:
        return None
    match = line.pattern.search(marked.text)
    if match is None:
        return None
    says: Mapping[str, str] = {name: value for name, value in match.groupdict().items() if value is not None}
    if line.keys:
        says = {**says, **key_values(marked.text[match.end() :], line.keys)}
    bare = not line.keys and not line.pattern.groupindex  # a signature is all that it is
    signed = marked.text[max(0, match.start() - _SIGNED) : match.end() if bare else match.start()]
    replica, rank, tp = _REPLICA.search(signed), _RANK.search(signed), _TP.search(signed)
    return MatchedLine(
        marked.number,
        says,
        replica[1] if replica else "",
        next(filter(None, rank.groups()), "") if rank else "",
        tp[1] if tp else "",
        line.keys if marked.text.rstrip()[-1:] in ("}", ")") else (),
        place,
    )
