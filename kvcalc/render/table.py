"""Tables for a terminal. The only module that imports rich, and only reached when somebody will see the result.

No number is ever cut: where the width is short, labels wrap first, then an amount stands over its bytes, and last of all
the exact bytes are left out.
"""

import os
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kvcalc.report import Bytes, Cell, Part, Report, Section
from kvcalc.units import Units, format_bytes

__all__ = ["console_for", "render", "show"]

# Fill and colour of each part of the memory bar. The characters alone tell the parts apart, for NO_COLOR and for those who
# do not see the colours; the colours are base ones that read on dark and on light.
_FILLS = {
    "left by utilization": ("╱", "/", ""),
    "weights": ("█", "#", "blue"),
    "overhead": ("▓", "%", "magenta"),
    "KV cache asked for": ("▒", "=", "green"),
    "missing": ("!", "!", "red"),
    "free": ("░", ".", ""),
}
_MOST_BAR = 60


def console_for(width: int | None = None) -> Console:
    """A console on standard output that changes nothing in our text."""
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)


def render(report: Report, units: Units, console: Console | None = None) -> str:
    console = console or console_for()
    return show(console, _parts(report, units, console))


def show(console: Console, parts: Iterator[RenderableType]) -> str:
    """The text of what rich draws, without the blanks with which it fills lines."""
    with console.capture() as capture:
        for part in parts:
            console.print(part)
    return "".join(line.rstrip(" ") + "\n" for line in capture.get().splitlines())


def _parts(report: Report, units: Units, console: Console) -> Iterator[RenderableType]:
    if report.title:
        yield Text.assemble((report.title, "bold"), "  ", ", ".join(report.facts))
    for section in report.sections:
        yield Text()
        if section.title == "explanation":
            yield from _explanation(section)
        else:
            yield _section(section, units, console)
        if report.bar and section.title.startswith("memory"):
            yield _bar(report, console)
    if report.verdict:
        yield Text()
        yield Text(report.verdict, "bold green" if report.fits else "bold red")
    if report.notes:
        yield Text()
        yield Text("; ".join(report.notes))
    for warning in report.warnings:
        yield Text.assemble(("warning: ", "bold red"), warning)


def _explanation(section: Section) -> Iterator[RenderableType]:
    """Sums are sentences, not cells: they wrap at words."""
    yield Text(section.title, "bold")
    for name, sum_, source in section.rows:
        yield Text.assemble((str(name), "bold"), ": ", str(sum_))
        yield Padding(Text(str(source), "italic"), (0, 0, 0, 4))


def _section(section: Section, units: Units, console: Console) -> Table:
    amounts = [any(isinstance(row[i], Bytes) for row in section.rows) for i in range(len(section.columns))]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(section.columns), header_style="bold")
    heads = [section.columns[0] or section.title, *section.columns[1:]]
    for i, (head, amount) in enumerate(zip(heads, amounts, strict=True)):
        table.add_column(head, justify="right" if amount else "left", no_wrap=amount and i > 0, overflow="fold")
    form = _widest_form(section, amounts, units, console.width)
    for row in section.rows:
        table.add_row(*(_cell(cell, units, form) for cell in row))
    for column, amount in zip(table.columns, amounts, strict=True):
        column.no_wrap = amount
        if amount:  # a heading may wrap, the numbers under it may not
            column.header = _wrapped(str(column.header), column._cells)
    return table


def _wrapped(head: str, cells: Sequence[RenderableType]) -> Text:
    """A heading broken at words to the width of its column."""
    width = max((len(line) for cell in cells for line in str(cell).splitlines()), default=1)
    lines, line = [], ""
    for word in head.split():
        if line and len(line) + 1 + len(word) > max(width, 12):
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return Text("\n".join([*lines, line]), "bold", justify="right")


def _widest_form(section: Section, amounts: Sequence[bool], units: Units, width: int) -> str:
    """How amounts are shown: `inline` (1.25 GiB  1,342,177,280 B), `stacked` on two lines, or `short`."""
    labels = 0
    for i, amount in enumerate(amounts):
        if not amount:
            cells = [section.columns[i] or (section.title if not i else ""), *(str(row[i]) for row in section.rows)]
            labels += max(len(cell) for cell in cells) + 2
    for form, room in (("inline", labels), ("stacked", min(labels, 12 * amounts.count(False)))):
        needed = sum(
            2 + max((len(line) for row in section.rows for line in str(_cell(row[i], units, form)).splitlines()), default=0)
            for i, amount in enumerate(amounts)
            if amount
        )
        if needed + room <= width:
            return form
    return "short"


def _cell(cell: Cell, units: Units, form: str) -> Text:
    if not isinstance(cell, Bytes):
        return Text(cell)
    human, exact = format_bytes(cell.amount, units), f"{cell.amount:,} B"
    if form == "short" or human == exact:
        return Text(human, "bold")
    return Text.assemble((human, "bold"), "\n" if form == "stacked" else "  ", exact)


def _bar(report: Report, console: Console) -> Text:
    """The memory of one GPU as one bar; what does not fit runs past its end, which a `|` marks."""
    parts = [part for part in report.bar[:-1] if part.amount]
    plain = not console.encoding.lower().startswith("utf")
    missing = -sum(part.amount for part in parts if part.amount < 0)
    total = report.whole + missing
    cells = min(console.width - 4, _MOST_BAR)
    text, done, drawn = Text("  "), 0, 0
    end = cells if not total else cells * report.whole // total
    for part in (p for p in parts if p.amount > 0):
        done += part.amount
        reach = min(cells, max(drawn + 1, round(cells * done / total))) if total else drawn
        symbol, ascii_symbol, colour = _fill(part)
        text.append((ascii_symbol if plain else symbol) * (reach - drawn), colour)
        drawn = reach
    if missing:
        text = Text.assemble(text[: end + 2], ("|", "bold red"), text[end + 2 :])
    text.append("\n  ")
    legend = [(_fill(part)[1 if plain else 0], part) for part in parts if part.amount > 0]
    text.append("  ".join(f"{symbol} {part.name}" for symbol, part in legend))
    return text


def _fill(part: Part) -> tuple[str, str, str]:
    return next(fill for name, fill in _FILLS.items() if part.name.startswith(name))


def is_dumb() -> bool:
    """A terminal that can show no table, as TERM says."""
    return os.environ.get("TERM") == "dumb"
