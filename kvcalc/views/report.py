"""Results as titled sections of cells, without knowing how they will be drawn. Renderers take it from here."""

from typing import NamedTuple

from kvcalc.core.explain import Term
from kvcalc.core.units import format_tokens

__all__ = [
    "OVER",
    "Bytes",
    "Cell",
    "Count",
    "EnginePart",
    "Gauge",
    "Part",
    "Report",
    "Section",
    "without_gauges",
]


OVER = "✗"  # the mark of what does not fit


class Bytes(NamedTuple):
    """An amount of memory: people read it with a unit, scripts as the number. A list in columns shows the `mark`."""

    amount: int
    mark: str = ""


class Count(NamedTuple):
    """A number of tokens or sequences: scripts read the number, people `text`; None is no limit."""

    number: int | None
    short: bool = False

    @property
    def text(self) -> str:
        """With separators, or if `short` and whole in thousands of 1,024, as `128k`."""
        if self.number is None:
            return "no limit"
        return format_tokens(self.number) if self.short else f"{self.number:,}"


class Gauge(NamedTuple):
    """An amount as a bar beside those of the other rows: `whole` is the longest of them, `limit` a mark in it.

    For terminals alone: what is read by programs, or has a chart, leaves the column out.
    """

    amount: int | None
    whole: int
    limit: int | None = None


Cell = str | Bytes | Count | Gauge


class Section(NamedTuple):
    """Rows of cells. `columns` are their headings; an empty one heads labels.

    `keys`: the first column holds names that people copy, so nothing wraps; where the width is short, the columns in
    `drop` go, the first one first; with `wrap` the last ones are continued below. Without `exact` a terminal shows
    amounts by their units alone: bytes to the last digit belong to the answer, to --explain and to JSON.
    """

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    keys: bool = False
    drop: tuple[int, ...] = ()
    wrap: bool = False
    exact: bool = True


def without_gauges(section: Section) -> Section:
    """The section without its columns of bars."""
    kept = [i for i in range(len(section.columns)) if not any(isinstance(row[i], Gauge) for row in section.rows)]
    if len(kept) == len(section.columns):
        return section
    rows = [tuple(row[i] for i in kept) for row in section.rows]
    return section._replace(columns=tuple(section.columns[i] for i in kept), rows=rows)


class Part(NamedTuple):
    """One part of a GPU's memory, for the bar: what it is, and its bytes."""

    name: str
    amount: int


class Report(NamedTuple):
    """`title` and `facts` are the model in one line; `bar` is the memory of one GPU, part by part, beside its whole."""

    sections: list[Section]
    title: str = ""
    facts: list[str] = []
    bar: list[Part] = []
    whole: int = 0
    verdict: str = ""
    fits: bool | None = None
    notes: list[str] = []
    warnings: list[str] = []


class EnginePart(NamedTuple):
    """What an engine adds to the answer: a section, terms of the sum for --explain, and notes."""

    section: Section
    terms: list[Term]
    notes: list[str]
