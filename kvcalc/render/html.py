"""A report as one page with its charts: no script, nothing from elsewhere, read in light, in dark and on paper."""

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape as escape_xml

from kvcalc.core.units import Units, format_bytes
from kvcalc.errors import escape
from kvcalc.render import svg
from kvcalc.version import __version__
from kvcalc.views.chart import Chart
from kvcalc.views.report import Bytes, Cell, Count, Gauge, Report, Section, without_gauges

__all__ = ["fragment", "render"]

_LONG = 30  # letters of a cell that would else be wrapped to a word a line

_STYLE = """
:root{color-scheme:light dark}
body{max-width:72rem;margin:2rem auto;padding:0 1rem;background:#fff;color:#1b1f24;
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.5rem;margin:0}h2{font-size:1.05rem;margin:1.6rem 0 .4rem}p{margin:.4rem 0}
.facts,footer{color:#57606a}.verdict{font-weight:600}.warning{border-left:4px solid #b00020;padding-left:.7rem}
figure{margin:1.2rem 0}svg{max-width:100%;height:auto}.scroll{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.22rem .8rem .22rem 0;text-align:left;border-bottom:1px solid #d9dde2;vertical-align:top}
th{border-bottom:2px solid #6a737d}td{white-space:nowrap}
.number{text-align:right}.long{min-width:13rem;white-space:normal}
small{display:block;color:#57606a}
footer{margin-top:2rem;font-size:.85rem}
@media screen and (prefers-color-scheme:dark){body{background:#14171c;color:#e6e9ed}
.facts,footer,small{color:#98a1ab}th,td{border-color:#333a42}th{border-color:#98a1ab}.warning{border-color:#ff7b7b}}
@media print{body{margin:0;max-width:none;font-size:10pt}figure,tr{break-inside:avoid}thead{display:table-header-group}
table{font-size:7.5pt}th,td{padding-right:.45rem}h2{break-after:avoid}.scroll{overflow:visible}}
"""


def render(report: Report, charts: Sequence[Chart], units: Units) -> str:
    """The whole file."""
    return "\n".join(_page(report, charts, units)) + "\n"


def fragment(report: Report, units: Units) -> str:
    """The words and tables alone, to stand in somebody else's page."""
    return "\n".join(_words(report, units)) + "\n"


def _page(report: Report, charts: Sequence[Chart], units: Units) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
    yield f"<title>{_safe(report.title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>"
    yield from _head(report)
    for chart in charts:
        yield f"<figure>\n{svg.render(chart, units)}</figure>"
    for section in report.sections:
        yield from _section(section, units)
    yield f"<footer>kvcalc {__version__}</footer>\n</body>\n</html>"


def _head(report: Report) -> Iterator[str]:
    yield f"<h1>{_safe(report.title)}</h1>"
    if report.facts:
        yield f'<p class="facts">{_safe(", ".join(report.facts))}</p>'
    if report.notes:
        yield f"<p>{_safe('; '.join(report.notes))}</p>"
    if report.verdict:
        yield f'<p class="verdict">{_safe(report.verdict)}</p>'
    for warning in report.warnings:
        yield f'<p class="warning">Warning: {_safe(warning)}</p>'


def _words(report: Report, units: Units) -> Iterator[str]:
    yield from _head(report)
    for section in report.sections:
        yield from _section(section, units)


def _section(section: Section, units: Units) -> Iterator[str]:
    section = without_gauges(section)  # the chart has them
    numbers = {i for i in range(len(section.columns)) if any(isinstance(row[i], Bytes | Count) for row in section.rows)}
    heads = "".join(_cell("th", _safe(column), number=i in numbers) for i, column in enumerate(section.columns))
    if section.title:
        yield f"<h2>{_safe(section.title)}</h2>"
    yield f'<div class="scroll"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>'
    for row in section.rows:
        cells = "".join(_cell("td", _shown(cell, units), number=i in numbers) for i, cell in enumerate(row))
        yield f"<tr>{cells}</tr>"
    yield "</tbody>\n</table></div>"


def _cell(tag: str, text: str, *, number: bool) -> str:
    if number:
        return f'<{tag} class="number">{text}</{tag}>'
    return f'<{tag} class="long">{text}</{tag}>' if len(text) > _LONG else f"<{tag}>{text}</{tag}>"


def _shown(cell: Cell, units: Units) -> str:
    match cell:
        case Bytes(amount=amount):
            human, exact = format_bytes(amount, units), f"{amount:,} B"
            return human if human == exact else f"{human} <small>{exact}</small>"
        case Count():
            return _safe(cell.text)
        case Gauge():
            return ""
        case _:
            return _safe(cell)


def _safe(text: str) -> str:
    return escape_xml(escape(text), {'"': "&quot;"})
