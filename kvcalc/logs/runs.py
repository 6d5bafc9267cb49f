"""Lines of a log sorted into starts of engines, each with all that it says about its cache."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvcalc.engines.log_form import EngineLog, Line, MatchedLine, StartLog, key_values
from kvcalc.logs.text import MOST_LINES, MarkedLine, Marks

__all__ = ["Reading", "marks_of", "runs_of"]

MOST_FOUND = 2_000  # lines kept for all engines together; a start has some twenty

# How workers sign their lines: (EngineCore_DP1 pid=9), (Worker_DP0_TP3 pid=9), (VllmWorker rank=1 pid=9), [RANK 2],
# [2026-03-21 03:31:56 DP0 TP1 PP0].
_REPLICA = re.compile(r"(?<![A-Za-z])DP(?:[ _]?rank)?[ _=]?(\d{1,4})(?!\d)")
_RANK = re.compile(r"(?<![A-Za-z])(?:TP|PP)(\d{1,4})(?!\d)|\brank[ =](\d{1,4})\b|\[RANK (\d{1,4})\]")
_SIGNED = 160  # characters in front of a message
# How collectors sign the lines of several containers: `vllm-1  | ` of compose, `[pod/a-0/vllm] ` of kubectl --prefix.
_SOURCE = re.compile(r"\s{0,8}(?:([\w.-]{1,80}) {1,40}\||\[(pod/[^\]\s]{1,200})\])(?= )")
_MODELS = ("model", "model_path")


class Reading(NamedTuple):
    """A log: the starts of engines in it, in order, and whether there was more than is read."""

    runs: tuple[tuple[EngineLog, StartLog], ...]
    cut: bool


def marks_of(spoken: Sequence[EngineLog]) -> Marks:
    """What to look for, each mark once, and none that holds another one."""
    lines = [line for each in spoken for line in each.form.lines]
    kinds: list[list[str]] = []
    known: list[str] = []
    for kind in (("start",), ("count",), ("fact", "lasting")):
        marks = sorted({line.mark for line in lines if line.kind in kind}, key=len)
        new = [mark for i, mark in enumerate(marks) if not any(other in mark for other in (*known, *marks[:i]))]
        known += new
        kinds.append(new)
    return Marks(*kinds)


def runs_of(lines: Iterable[MarkedLine], spoken: Sequence[EngineLog]) -> Reading:
    """The starts of engines that lines with marks tell of."""
    runs: list[tuple[EngineLog, list[MatchedLine]]] = []
    opened: dict[tuple[str, str], _Open] = {}  # by engine and source, and the last one of each engine
    read = kept = 0
    for marked in lines:
        read += 1
        for each in spoken:
            here = [(line, found) for line in each.form.lines if (found := _found(line, marked)) is not None]
            if not here:
                continue
            kept += len(here)
            source, last = (each.engine.name, _source(marked.text)), (each.engine.name, "")
            starts = [(line, found) for line, found in here if line.kind == "start"]
            # workers on other machines sign with other names, and start nothing
            run = opened.get(source) or (None if starts and source != last else opened.get(last))
            if run is None or (starts and run.ended_by(starts)):
                before = run or opened.get(last)
                run = _Open(before.lasting if before else [])
                opened[source] = run
                runs.append((each, run.found))
            opened[last] = run
            run.add(here)
        if kept >= MOST_FOUND:
            break
    claimed = [(each, StartLog(each.engine, tuple(found))) for each, found in runs if each.form.claims(found)]
    if len(spoken) == 1:  # whoever names an engine knows better
        claimed = [(each, StartLog(each.engine, tuple(found))) for each, found in runs]
    return Reading(tuple(claimed), cut=kept >= MOST_FOUND or read >= MOST_LINES)


class _Open:
    """A run that is still being read."""

    def __init__(self, lasting: list[MatchedLine]) -> None:
        self.found = [*lasting]
        self.lasting = lasting
        self.counted = False
        self.models: dict[Line, str] = {}

    def add(self, here: Sequence[tuple[Line, MatchedLine]]) -> None:
        self.lasting += [found for line, found in here if line.kind == "lasting"]
        self.found += [found for _, found in here]
        self.counted |= any(line.kind == "count" for line, _ in here)
        self.models |= {line: model for line, found in here if line.kind == "start" and (model := _named(found))}

    def ended_by(self, starts: Sequence[tuple[Line, MatchedLine]]) -> bool:
        """Another start: behind what was counted, or with another model in the same line."""
        return self.counted or any(
            _named(found) not in (None, self.models.get(line, _named(found))) for line, found in starts
        )


def _named(found: MatchedLine) -> str | None:
    return next((found.says[name] for name in _MODELS if name in found.says), None)


def _source(text: str) -> str:
    """The container that a line is from, where a collector says so."""
    match = _SOURCE.match(text)
    return (match[1] or match[2]) if match else ""


def _found(line: Line, marked: MarkedLine) -> MatchedLine | None:
    if line.mark not in marked.text:
        return None
    match = line.pattern.search(marked.text)
    if match is None:
        return None
    says = {name: value for name, value in match.groupdict().items() if value is not None}
    if line.keys:
        says |= key_values(marked.text[match.end() :], line.keys)
    signed = marked.text[max(0, match.start() - _SIGNED) : match.start()]
    replica, rank = _REPLICA.search(signed), _RANK.search(signed)
    return MatchedLine(
        marked.number, says, replica[1] if replica else "", next(filter(None, rank.groups()), "") if rank else ""
    )
