"""A list in columns for a terminal, one line a row, without rich: loading that takes as long as loading fifty presets.

Nothing wraps and nothing is cut: where the width is short, the exact bytes are left out first and then whole columns.
"""

import shutil
import sys
from collections.abc import Sequence

from kvcalc.report import Cell, Count, Gauge, Report, Section
from kvcalc.units import Units, format_bytes

__all__ = ["cell_texts", "render"]

_GAP = "   "


def render(report: Report, units: Units) -> str:
    width = shutil.get_terminal_size().columns
    lines = [line for section in report.sections for line in _section(section, units, width)]
    lines += [f"warning: {warning}" for warning in report.warnings]
    return "".join(line.rstrip(" ") + "\n" for line in lines)


def _section(section: Section, units: Units, width: int) -> list[str]:
    pairs = [[cell_texts(row[i], units) for row in section.rows] for i in range(len(section.columns))]
    kept = list(range(len(section.columns)))

    def drawn(*, exact: bool) -> list[list[str]]:
        return [_column(section.columns[i], pairs[i], exact=exact) for i in kept]

    def needed(columns: list[list[str]]) -> int:
        return sum(len(column[0]) + len(_GAP) for column in columns) - len(_GAP)

    short = drawn(exact=False)
    for i in section.drop:
        if needed(short) > width:
            del short[kept.index(i)]
            kept.remove(i)
    long = drawn(exact=True)
    columns = long if needed(long) <= width else short
    heads, *rows = (_GAP.join(row) for row in zip(*columns, strict=True))
    dash = "─" if str(getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf") else "-"
    return [heads, dash * needed(columns), *rows]


def _column(head: str, cells: Sequence[tuple[str, str] | str], *, exact: bool) -> list[str]:
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
    return [text.rjust(width) if amounts else text.ljust(width) for text in texts]


def cell_texts(cell: Cell, units: Units) -> tuple[str, str] | str:
    """An amount for people and to the byte, the second empty where the first says it all."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Count):
        return cell.text
    if isinstance(cell, Gauge):
        return ""
    human, exact = format_bytes(cell.amount, units), f"{cell.amount:,} B"
    return (human, "") if human == exact else (human, exact)
