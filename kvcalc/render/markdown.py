"""Markdown tables, for issues and capacity tickets."""

from kvcalc.core.units import Units, format_bytes
from kvcalc.views.report import Bytes, Cell, Count, Gauge, Report, Section, without_gauges

__all__ = ["render"]


def render(report: Report, units: Units) -> str:
    blocks = [f"**{_escape(report.title)}**: {_escape(', '.join(report.facts))}"] if report.title else []
    blocks += [_section(section, units) for section in report.sections]
    if report.verdict:
        blocks.append(f"**{_escape(report.verdict)}**")
    listed = [*report.notes, *(f"warning: {warning}" for warning in report.warnings)]
    if listed:
        blocks.append("\n".join(f"- {_escape(line)}" for line in listed))
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, units: Units) -> str:
    section = without_gauges(section)
    rows = [[_cell(cell, units) for cell in row] for row in section.rows]
    align = [
        "---:" if any(isinstance(row[i], Bytes) for row in section.rows) else "---" for i in range(len(section.columns))
    ]
    heads = [_escape(column) for column in section.columns]
    heads[0] = heads[0] or _escape(section.title)
    return "\n".join("| " + " | ".join(row) + " |" for row in [heads, align, *rows])


def _cell(cell: Cell, units: Units) -> str:
    if isinstance(cell, Bytes):
        human = format_bytes(cell.amount, units)
        return human if human.endswith(" B") else f"{human} ({cell.amount:,} B)"
    if isinstance(cell, Count):
        return cell.text
    return "" if isinstance(cell, Gauge) else _escape(cell)


# What could end a cell, stand out, or become a link or an image, whose address is a hostile file's.
_ESCAPES = str.maketrans({mark: f"\\{mark}" for mark in "\\|*[]"} | {"<": "&lt;"})


def _escape(text: str) -> str:
    return text.translate(_ESCAPES)
