"""Lists in columns for a terminal, one line a row, without rich: loading that takes as long as loading fifty presets.

No row wraps and nothing is cut: where the width is short, the exact bytes are left out first and then whole columns,
or these are continued below. Bars take what is left of the width.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence

from kvcalc.core.units import Units, format_bytes
from kvcalc.views.report import OVER, Cell, Count, Gauge, Report, Section

__all__ = ["cell_texts", "render"]

_GAP = "   "
_LEAST_BAR, _MOST_BAR = 12, 48

# A part of a bar within its limit, beyond it, and the limit itself.
_FILLS = ("█", "▒", "│")
_ASCII_FILLS = ("#", "=", "|")


def render(report: Report, units: Units) -> str:
    width = shutil.get_terminal_size().columns
    blocks = [_wrapped(f"{report.title}  {', '.join(report.facts)}", width)] if report.title else []
    for section in report.sections:
        title = [section.title] if report.title and section.title and any(section.columns) else []
        blocks.append([*title, *_section(section, units, width)])
    blocks += [[report.verdict]] if report.verdict else []
    blocks += [_wrapped("; ".join(report.notes), width)] if report.notes else []
    lines = [line for i, block in enumerate(blocks) for line in ([""] if i else []) + block]
    lines += [line for warning in report.warnings for line in _wrapped(f"warning: {warning}", width)]
    text = "".join(line.rstrip(" ") + "\n" for line in lines)
    return text if _unicode() else text.replace(OVER, "x")


def _wrapped(text: str, width: int) -> list[str]:
    """Sentences wrap, at words."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return lines


def _unicode() -> bool:
    return str(getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _section(section: Section, units: Units, width: int) -> list[str]:
    bars = [i for i in range(len(section.columns)) if any(isinstance(row[i], Gauge) for row in section.rows)]
    pairs = [[cell_texts(row[i], units) for row in section.rows] for i in range(len(section.columns))]
    kept = [i for i in range(len(section.columns)) if i not in bars]

    def drawn(*, exact: bool) -> list[list[str]]:
        return [_column(section.columns[i], pairs[i], exact=exact, numbers=i in numbers) for i in kept]

    numbers = {i for i in kept if any(isinstance(cell := row[i], Count) and not cell.short for row in section.rows)}
    left = width - (_LEAST_BAR + len(_GAP)) * len(bars)
    short = drawn(exact=False)
    for i in section.drop:
        if _needed(short) > left:
            del short[kept.index(i)]
            kept.remove(i)
    long = drawn(exact=True)
    columns = long if _needed(long) <= left and not section.wrap else short
    room = min(width - _needed(columns) - len(_GAP), _MOST_BAR)
    if room >= _LEAST_BAR:
        columns += [["", *(_bar(row[i], room) for row in section.rows)] for i in bars]
    blocks = _blocks(columns, width) if section.wrap else [columns]
    return [line for i, block in enumerate(blocks) for line in ([""] if i else []) + _lines(block, section)]


def _needed(columns: Sequence[Sequence[str]]) -> int:
    return sum(len(column[0]) + len(_GAP) for column in columns) - len(_GAP)


def _blocks(columns: Sequence[list[str]], width: int) -> Iterator[list[list[str]]]:
    """The columns in as many blocks as the width asks for, the first of them in each."""
    block = [columns[0]]
    for column in columns[1:]:
        if len(block) > 1 and _needed([*block, column]) > width:
            yield block
            block = [columns[0]]
        block.append(column)
    yield block


def _lines(columns: Sequence[Sequence[str]], section: Section) -> list[str]:
    heads, *rows = (_GAP.join(row) for row in zip(*columns, strict=True))
    if not any(section.columns):
        return rows
    return [heads, ("─" if _unicode() else "-") * _needed([column for column in columns if column[0]]), *rows]


def _column(head: str, cells: Sequence[tuple[str, str] | str], *, exact: bool, numbers: bool) -> list[str]:
    """The heading and the cells of a column, all of one width; amounts stand to the right, `exact` with their bytes."""
    amounts = [cell for cell in cells if not isinstance(cell, str)]
    human, number = (max((len(amount[i]) for amount in amounts), default=0) for i in (0, 1))
    texts = [head]
    for cell in cells:
        if isinstance(cell, str):
            texts.append(cell)
        else:
            texts.append(f"{cell[0]:>{human}}  {cell[1]:>{number}}" if exact and number else cell[0])
    width = max(map(len, texts))
    return [text.rjust(width) if amounts or numbers else text.ljust(width) for text in texts]


def _bar(cell: Cell, room: int) -> str:
    """A bar of at most `room` letters, the longest of its column, with its limit in it."""
    if not isinstance(cell, Gauge) or cell.amount is None or not cell.whole:
        return ""
    within, beyond, mark = _FILLS if _unicode() else _ASCII_FILLS
    length = max(room * cell.amount // cell.whole, 1 if cell.amount else 0)
    if cell.limit is None:
        return within * length
    end = min(room * cell.limit // cell.whole, room - 1)
    bar = within * min(length, end) + " " * (end - length)
    return f"{bar}{mark}{beyond * max(length - end - 1, int(cell.amount > cell.limit))}"


def cell_texts(cell: Cell, units: Units) -> tuple[str, str] | str:
    """An amount for people and to the byte, the second empty where the first says it all."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Count):
        return cell.text
    if isinstance(cell, Gauge):
        return ""
    human, exact = format_bytes(cell.amount, units), f"{cell.amount:,} B"
    mark = f" {cell.mark}" if cell.mark else ""
    return (human + mark, "") if human == exact else (human + mark, exact)
