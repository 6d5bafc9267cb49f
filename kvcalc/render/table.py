"""Tables for a terminal. The only module that imports rich, and only reached when somebody will see the result.

No number is ever cut: where the width is short, labels wrap first, then an amount stands over its bytes, and last of
all the exact bytes are left out.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Literal

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvcalc.core.units import Units
from kvcalc.render.columns import cell_texts
from kvcalc.views.report import Bytes, Cell, Part, Report, Section

__all__ = ["console_for", "render"]

# `1.25 GiB  1,342,177,280 B` on one line, the two on two lines, or the first alone.
Form = Literal["inline", "stacked", "short"]

# Fill and colour of each part of the memory bar. The characters alone tell the parts apart, for NO_COLOR and for those
# who do not see the colours; the colours are base ones that read on dark and on light.
_FILLS = {
    "outside utilization": ("·", "-", ""),
    "weights": ("█", "#", "blue"),
    "overhead": ("▓", "%", "magenta"),
    "KV cache asked for": ("▒", "=", "green"),
    "headroom": ("░", ".", ""),
}
_MOST_BAR = 60
_GAP = 3  # columns that rich leaves between two cells


def console_for(width: int | None = None) -> Console:
    """A console on standard output that changes nothing in our text."""
    if width is None and not os.environ.get("COLUMNS", "80").strip("0"):  # as which rich would draw nothing
        width = shutil.get_terminal_size().columns
    return Console(width=width, highlight=False, markup=False, emoji=False)


def render(report: Report, units: Units, console: Console | None = None) -> str:
    """The text of a report, without the blanks with which rich fills its lines."""
    console = console or console_for()
    with console.capture() as capture:
        for part in _parts(report, units, console):
            console.print(part)
    return "".join(line.rstrip(" ") + "\n" for line in capture.get().splitlines())


def _parts(report: Report, units: Units, console: Console) -> Iterator[RenderableType]:
    if report.title:
        yield Text.assemble((report.title, "bold"), "  ", ", ".join(report.facts))
        yield Text()
    for i, section in enumerate(report.sections):
        if i:
            yield Text()
        if section.title == "explanation":
            yield from _explanation(section)
        else:
            memory = report.bar and section.title.startswith("memory")
            yield _table(_marked(section, report, console) if memory else section, units, console.width)
            if memory:
                yield _bar(report, console)
    if report.verdict:
        yield Text()
        yield Text(report.verdict, {True: "bold green", False: "bold red", None: "bold"}[report.fits])
    if report.notes:
        yield Text()
        yield Text("; ".join(report.notes))
    for warning in report.warnings:
        yield Text.assemble(("warning: ", "bold red"), warning)


def _explanation(section: Section) -> Iterator[RenderableType]:
    """Sums are sentences, not cells: they wrap at words."""
    for name, sum_, source in section.rows:
        yield Text.assemble((str(name), "bold"), ": ", str(sum_))
        yield Padding(Text(str(source), "italic"), (0, 0, 0, 4))


def _fitting(section: Section, units: Units, width: int) -> Section:
    """Names that people copy do not wrap: where the width is short, whole columns go, in the order of `drop`."""

    def taken(i: int) -> int:
        texts = (cell_texts(row[i], units) for row in section.rows)
        shown = (text if isinstance(text, str) else text[0] for text in texts)
        return max(len(section.columns[i]), *map(len, shown), 0) + _GAP

    kept = list(range(len(section.columns)))
    for i in section.drop:
        if sum(map(taken, kept)) - _GAP <= width:
            break
        kept.remove(i)
    rows = [tuple(row[i] for i in kept) for row in section.rows]
    return section._replace(columns=tuple(section.columns[i] for i in kept), rows=rows, drop=())


def _table(section: Section, units: Units, width: int) -> Table:
    section = _fitting(section, units, width)
    columns = [[row[i] for row in section.rows] for i in range(len(section.columns))]
    heads = [section.columns[0] or section.title, *section.columns[1:]]
    form: Form = _widest_form(heads, columns, units, width) if section.exact else "short"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=any(section.columns))
    drawn = [_column(cells, units, form) for cells in columns]
    for head, cells, texts in zip(heads, columns, drawn, strict=True):
        amounts = _amounts(cells)
        heading = _broken(head, max(12, *map(_width, texts))) if amounts else head
        # Numbers never wrap and never shrink; labels do both.
        table.add_column(
            Text(heading, "bold"),
            justify="right" if amounts else "left",
            no_wrap=amounts or (section.keys and not table.columns),
            overflow="fold",
        )
    for row in zip(*drawn, strict=True):
        table.add_row(*row)
    return table


def _amounts(cells: Sequence[Cell]) -> bool:
    return any(isinstance(cell, Bytes) for cell in cells)


def _width(text: Text) -> int:
    return max((len(line) for line in text.plain.splitlines()), default=0)


def _broken(head: str, width: int) -> str:
    """A heading broken at its parenthesis and at words, so that it does not widen its column."""
    if len(head) <= width:
        return head
    lines = [""]
    for word in head.split():
        if lines[-1] and (word.startswith("(") or len(lines[-1]) + 1 + len(word) > width):
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def _widest_form(heads: Sequence[str], columns: Sequence[Sequence[Cell]], units: Units, width: int) -> Form:
    """The first form whose amounts leave the labels enough room: their whole width, or a dozen columns for stacked."""
    labels = [
        max(len(head), *(len(cell_texts(cell, units)) for cell in cells))
        for head, cells in zip(heads, columns, strict=True)
        if not _amounts(cells)
    ]
    forms: tuple[tuple[Form, int], ...] = (("inline", 10**6), ("stacked", 12))
    for form, most in forms:
        needed = sum(max(map(_width, _column(cells, units, form))) + _GAP for cells in columns if _amounts(cells))
        if needed + sum(min(label, most) + _GAP for label in labels) <= width:
            return form
    return "short"


def _column(cells: Sequence[Cell], units: Units, form: Form) -> list[Text]:
    """The cells of a column; amounts in one line are aligned as two columns of their own."""
    pairs = [cell_texts(cell, units) for cell in cells]
    human, exact = (max((len(pair[i]) for pair in pairs if isinstance(pair, tuple)), default=0) for i in (0, 1))
    texts = []
    for pair in pairs:
        match pair, form:
            case str(), _:
                texts.append(Text(pair))
            case (amount, number), "inline":
                texts.append(Text.assemble((amount.rjust(human), "bold"), "  ", number.rjust(exact)))
            case (amount, number), "stacked" if number.strip():
                texts.append(Text.assemble((amount, "bold"), "\n", number))
            case (amount, _), _:
                texts.append(Text(amount, "bold"))
    return texts


def _marked(section: Section, report: Report, console: Console) -> Section:
    """The rows of the memory with the fill that each has in the bar in front: the bar's legend."""
    marks = [_fill(part, console)[0] if part.amount > 0 else " " for part in report.bar[:-1]]
    rows = [(f"{mark} {row[0]}", *row[1:]) for mark, row in zip([*marks, " "], section.rows, strict=True)]
    return section._replace(rows=rows)


def _bar(report: Report, console: Console) -> Text:
    """The memory of one GPU as one bar; what does not fit runs past its end, which a `|` marks."""
    parts = [part for part in report.bar[:-1] if part.amount > 0]
    total = sum(part.amount for part in parts)
    cells = min(console.width - 4, _MOST_BAR)
    text, done, drawn = Text("\n  "), 0, 0
    for part in parts:
        done += part.amount
        reach = max(drawn + 1, cells * done // total)  # a part that is there is seen, however small
        symbol, colour = _fill(part, console)
        text.append(symbol * (reach - drawn), colour)
        drawn = reach
    if total > report.whole:
        end = 3 + cells * max(report.whole, 0) // total
        text = Text.assemble(text[:end], ("|", "bold red"), text[end:], "\n  | is the end of the memory")
    return text


def _fill(part: Part, console: Console) -> tuple[str, str]:
    symbol, ascii_symbol, colour = next(fill for name, fill in _FILLS.items() if part.name.startswith(name))
    return symbol if console.encoding.lower().startswith("utf") else ascii_symbol, colour
