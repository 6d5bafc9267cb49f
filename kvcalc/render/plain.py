"""Tab-separated lines for pipes: no box, nothing cut, each amount once for people and once as a number."""

from kvcalc.report import Bytes, Cell, Report, Section
from kvcalc.units import Units, format_bytes

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
    """The rows, under their headings where there are any; an amount takes two fields, and so does its heading."""
    lines = []
    if any(section.columns):
        wide = [any(isinstance(row[i], Bytes) for row in section.rows) for i in range(len(section.columns))]
        heads = (f"{column}\tbytes" if w else column for column, w in zip(section.columns, wide, strict=True))
        lines.append(section.title + "\t".join(heads) if not section.columns[0] else "\t".join(heads))
    return lines + ["\t".join(_cell(cell, units) for cell in row) for row in section.rows]


def _cell(cell: Cell, units: Units) -> str:
    return f"{format_bytes(cell.amount, units)}\t{cell.amount}" if isinstance(cell, Bytes) else cell
