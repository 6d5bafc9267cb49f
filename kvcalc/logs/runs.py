"""Lines of a log sorted into starts of engines, each with all that it says about its cache."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvcalc.logform import Found, Line, Run, Spoken, key_values
from kvcalc.logs.text import MOST_LINES, MarkedLine, Marks

__all__ = ["Reading", "marks_of", "runs_of"]

MOST_FOUND = 2_000  # lines kept for all engines together; a start has some twenty

# How workers sign their lines: (EngineCore_DP1 pid=9), (Worker_DP0_TP3 pid=9), (VllmWorker rank=1 pid=9), [RANK 2],
# [2026-03-21 03:31:56 DP0 TP1 PP0].
_REPLICA = re.compile(r"(?<![A-Za-z])DP(?:[ _]?rank)?[ _=]?(\d{1,4})(?!\d)")
_RANK = re.compile(r"(?<![A-Za-z])(?:TP|PP)(\d{1,4})(?!\d)|\brank[ =](\d{1,4})\b|\[RANK (\d{1,4})\]")
_SIGNED = 160  # characters in front of a message


class Reading(NamedTuple):
    """A log: the starts of engines in it, in order, and whether there was more than is read."""

    runs: tuple[tuple[Spoken, Run], ...]
    cut: bool


def marks_of(spoken: Sequence[Spoken]) -> Marks:
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


def runs_of(lines: Iterable[MarkedLine], spoken: Sequence[Spoken]) -> Reading:
    """The starts of engines that lines with marks tell of."""
    runs: list[tuple[Spoken, list[Found]]] = []
    current: dict[str, _Open] = {}
    read = kept = 0
    for marked in lines:
        read += 1
        for each in spoken:
            here = [(line, found) for line in each.form.lines if (found := _found(line, marked)) is not None]
            if not here:
                continue
            kept += len(here)
            run = current.get(each.engine.name)
            if run is None or (run.counted and any(line.kind == "start" for line, _ in here)):
                lasting = run.lasting if run else []
                run = current[each.engine.name] = _Open([*lasting], lasting, counted=False)
                runs.append((each, run.found))
            run.lasting += [found for line, found in here if line.kind == "lasting"]
            run.found += [found for _, found in here]
            run.counted |= any(line.kind == "count" for line, _ in here)
        if kept >= MOST_FOUND:
            break
    claimed = [(each, Run(each.engine, tuple(found))) for each, found in runs if each.form.claims(found)]
    if len(spoken) == 1:  # whoever names an engine knows better
        claimed = [(each, Run(each.engine, tuple(found))) for each, found in runs]
    return Reading(tuple(claimed), cut=kept >= MOST_FOUND or read >= MOST_LINES)


class _Open:
    """A run that is still being read."""

    def __init__(self, found: list[Found], lasting: list[Found], *, counted: bool) -> None:
        self.found = found
        self.lasting = lasting
        self.counted = counted


def _found(line: Line, marked: MarkedLine) -> Found | None:
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
    return Found(
        marked.number, says, replica[1] if replica else "", next(filter(None, rank.groups()), "") if rank else ""
    )
