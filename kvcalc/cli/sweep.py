"""The verb `sweep`: many sizes of one model, over contexts, batches, formats, splits and engines."""

import sys
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import options as o
from kvcalc.cli.grid import grid_question
from kvcalc.cli.jobs import JobsWords, workers
from kvcalc.cli.lists import GridWords
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.rows import STREAMED, draw, emit_rows, watched
from kvcalc.cli.shell import check_targets, source_of
from kvcalc.queries.grid import answer, refuse_if_empty
from kvcalc.queries.source import load_model
from kvcalc.views.sweep import KEYS, rows, sweep_document, sweep_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvcalc.grid.sweep import GridCell, Plane
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report
    from kvcalc.views.sweep import Form

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class SweepWords(GridWords, JobsWords):
    """What `sweep` takes."""


@verb(
    app,
    "kvcalc sweep llama3.1-8b --context 4k,32k,128k --batch 1,8",
    "kvcalc sweep llama3-70b --gpu h100 --tp 4,8 --kv-dtype bf16,fp8",
)
def sweep(ctx: typer.Context, model: o.ModelArgument, *, words: SweepWords) -> None:
    """Sizes over a grid of contexts, batches, dtypes, splits and engines."""
    output = output_of(words, terminal=sys.stdout.isatty())
    check_targets({"--svg": words.svg, "--html": words.html}, [model, words.gpu_file])
    source = source_of(model, words)
    with workers(words) as several:
        found = answer(source, load_model(source), grid_question(words, ctx))
        grid = found.grid
        refuse_if_empty([grid])
        streamed = output.form in STREAMED and words.svg is None and words.html is None
        cells = [] if streamed else list(watched(grid.answers(several), grid.size))

        def report(form: "Form" = "terminal" if output.form == "table" else "text") -> "Report":
            return sweep_report(found, cells, form)

        def chart(option: str) -> "Chart":
            from kvcalc.views.grid_charts import sweep_chart

            return sweep_chart(found.model, grid, cells, option)

        def to_come() -> "Iterator[tuple[Plane, GridCell]]":  # rows that scroll by are progress enough
            answers = grid.answers(several)
            return answers if sys.stdout.isatty() else watched(answers, grid.size)

        draw(words.svg, words.html, lambda option: [chart(option)], lambda: report("page"), output)
        head = sweep_document(found)
        status = emit_rows(output, head, KEYS, lambda: rows(found.model, cells or to_come()), report, grid.varied)
    raise typer.Exit(status)
