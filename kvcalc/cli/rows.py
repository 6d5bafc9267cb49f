"""An answer of many rows: written as they are worked out, or as one report; and its chart, into files."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from kvcalc.cli.output import Output
from kvcalc.cli.shell import emit, save, write
from kvcalc.errors import ExitCode, escape

if TYPE_CHECKING:
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report

__all__ = ["STREAMED", "draw", "emit_rows", "watched"]

STREAMED = ("csv", "json", "quiet")  # forms that need no row but the one they write

_QUIET = 1.0  # seconds; who waits no longer needs no word
_STEP = 200  # cells between two looks at the clock

Item = TypeVar("Item")
Rows = Iterable[Sequence[object]]


def emit_rows(
    output: Output,
    head: Mapping[str, object],
    keys: Sequence[str],
    rows: Callable[[], Rows],
    report: "Callable[[], Report]",
    varied: Sequence[str],
) -> ExitCode:
    """Write the answer; `head` is its document without the rows. The status: whether any row fits, if that was asked.

    The headline of --quiet is a line for each row: its size, behind the values of what is `varied`.
    """
    fits, seen, warnings = keys.index("fits"), set(), head["warnings"]

    def noted() -> Iterator[Sequence[object]]:
        for row in rows():
            seen.add(row[fits])
            yield row

    if output.form in STREAMED:
        if output.taken:
            warnings = [*_listed(warnings), output.taken]
            head = {**head, "warnings": warnings}
        if output.form != "json" and isinstance(warnings, list):
            for warning in warnings:
                print(f"kvcalc: warning: {escape(str(warning))}", file=sys.stderr)
        for text in _pieces(output.form, head, keys, noted(), varied):
            if not write(text):
                return ExitCode.OK
    else:
        listed = [dict(zip(keys, row, strict=True)) for row in noted()]
        emit(
            output,
            lambda: {**head, "rows": listed},
            report,
            headline=lambda: None,
            warnings=[str(w) for w in _listed(warnings)],
        )
    return ExitCode.NO if seen - {None} == {False} else ExitCode.OK


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _pieces(
    form: str, head: Mapping[str, object], keys: Sequence[str], rows: Rows, varied: Sequence[str]
) -> Iterator[str]:
    from kvcalc.render.data import csv_lines, json_lines, raw

    if form == "csv":
        yield from csv_lines(keys, rows)
    elif form == "json":
        yield from json_lines(head, keys, rows)
    else:
        size, rest, named = keys.index("bytes_total"), iter(rows), [(name, keys.index(name)) for name in varied]
        while some := list(islice(rest, 2000)):
            yield "".join(
                "".join(f"{name}={escape(raw(row[at]))}\t" for name, at in named) + f"{raw(row[size])}\n"
                for row in some
            )


def watched(cells: Iterator[Item], total: int) -> Iterator[Item]:
    """The cells, and on a terminal's standard error how many are done, where that takes more than a moment."""
    if not sys.stderr.isatty():
        yield from cells
        return
    start, said = monotonic(), False
    try:
        for done, cell in enumerate(cells):
            if done % _STEP == _STEP - 1 and monotonic() - start > _QUIET:
                print(f"\r{done + 1:,} of {total:,} cells", end="", file=sys.stderr, flush=True)
                said = True
            yield cell
    finally:
        if said:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def draw(
    svg: str | None,
    html: str | None,
    charts: "Callable[[str], Sequence[Chart]]",
    report: "Callable[[], Report]",
    output: Output,
) -> None:
    """Write the files that were asked for, whole or not at all, before anything is printed."""
    texts = []
    if svg is not None:
        from kvcalc.render.svg import stacked

        texts.append((svg, stacked(charts("--svg"), output.units), "--svg"))
    if html is not None:
        from kvcalc.render.html import render as as_html

        texts.append((html, as_html(report(), charts("--html"), output.units), "--html"))
    for path, text, option in texts:
        save(path, text, option)
