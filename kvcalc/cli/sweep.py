"""The verb `sweep`: many sizes of one model, over contexts, batches, formats, splits and engines."""

import sys
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import lists
from kvcalc.cli import options as o
from kvcalc.cli.grid import answered, grid_of
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.rows import STREAMED, draw, emit_rows, watched
from kvcalc.cli.shell import check_targets, load_model
from kvcalc.views.sweep import KEYS, rows, sweep_document, sweep_report

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kvcalc.grid.sweep import GridCell, Plane
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report
    from kvcalc.views.sweep import Form

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def sweep(
    ctx: typer.Context,
    model: o.ModelArgument,
    context: lists.Contexts = None,
    batch: lists.Batches = None,
    encoder_tokens: o.EncoderTokens = None,
    kv_dtype: lists.KvDtypes = None,
    k_dtype: o.KDtype = None,
    v_dtype: o.VDtype = None,
    kv_heads: o.KvHeads = None,
    engine: lists.Engines = None,
    vram: o.Vram = None,
    gpu: lists.Gpus = None,
    gpu_file: o.GpuFile = None,
    kv_memory: o.KvMemory = None,
    utilization: o.Utilization = None,
    weights: lists.WeightsList = None,
    overhead: o.Overhead = None,
    tp: lists.Tps = None,
    pp: o.Pp = None,
    dp: o.Dp = None,
    dcp: o.Dcp = None,
    gpus: o.Gpus = None,
    svg: lists.Svg = None,
    html: lists.Html = None,
    format_: o.Format = None,
    json_: o.Json = False,
    get: o.Get = None,
    quiet: o.Quiet = False,
    units: o.UnitsOption = None,
    assume_dense: o.AssumeDense = False,
) -> None:
    """Sizes over a grid of contexts, batches, dtypes, splits and engines."""
    given = ctx.params
    output = o.output_of({**given, "explain": False}, terminal=sys.stdout.isatty())
    check_targets({"--svg": svg, "--html": html}, [model, gpu_file])
    loaded = load_model(model, assume_dense=assume_dense)
    grid, asked, warnings = grid_of(loaded, ctx.meta.get(BEHIND_DASHES), given)
    answered([grid])
    streamed = output.form in STREAMED and svg is None and html is None
    answers = [] if streamed else list(watched(grid.answers(), grid.size))

    def report(form: "Form" = "terminal" if output.form == "table" else "text") -> "Report":
        return sweep_report(loaded, grid, answers, warnings, form)

    def chart(option: str) -> "Chart":
        from kvcalc.views.grid_charts import sweep_chart

        return sweep_chart(loaded, grid, answers, option)

    def to_come() -> "Iterator[tuple[Plane, GridCell]]":  # rows that scroll by are progress enough
        return grid.answers() if sys.stdout.isatty() else watched(grid.answers(), grid.size)

    draw(svg, html, chart, lambda: report("page"), output)
    head = sweep_document(loaded, grid, asked, warnings)
    status = emit_rows(output, head, KEYS, lambda: rows(loaded, answers or to_come()), report)
    raise typer.Exit(status)
