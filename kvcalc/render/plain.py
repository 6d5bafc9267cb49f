"""Tab-separated lines for pipes: no box, nothing cut, each amount once for people and once as a number."""

from functools import lru_cache

from kvcalc.core.units import Units, format_bytes
from kvcalc.views.report import Bytes, Cell, Count, Report, Section, without_gauges

__all__ = ["render"]


def render(report: Report, units: Units) -> str:
    lines = [f"model\t{report.title}", f"shape\t{', '.join(report.facts)}"] if report.title else []
    for section in report.sections:
        lines += _section(section, units)
    if report.verdict:
        lines.append(f"verdict\t{report.verdict}")
    lines += [f"note\t{note}" for note in report.notes]
    lines += [f"warning\t{warning}" for warning in report.warnings]
    return "".join(line + "\n" for line in lines)


def _section(section: Section, units: Units) -> list[str]:
    """The rows, under their headings where there are any. A column of amounts takes two fields in every row."""
    section = without_gauges(section)
    wide = [any(isinstance(row[i], Bytes) for row in section.rows) for i in range(len(section.columns))]
    lines = []
    if any(section.columns):
        heads = [section.columns[0] or section.title, *section.columns[1:]]
        lines.append("\t".join(f"{head}\tbytes" if w else head for head, w in zip(heads, wide, strict=True)))
    rows = (zip(row, wide, strict=True) for row in section.rows)
    return lines + ["\t".join(_cell(cell, units, wide=w) for cell, w in row) for row in rows]


_human = lru_cache(format_bytes)  # rows of a grid repeat themselves


def _cell(cell: Cell, units: Units, *, wide: bool) -> str:
    if isinstance(cell, Bytes):
        return f"{_human(cell.amount, units)}\t{cell.amount}"
    if isinstance(cell, Count):
        text = "no limit" if cell.number is None else str(cell.number)
    else:
        text = cell if isinstance(cell, str) else ""
    return f"{text}\t" if wide else text
