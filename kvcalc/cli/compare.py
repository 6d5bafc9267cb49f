"""The verb `compare`: models, formats or engines side by side."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kvcalc.cli import lists
from kvcalc.cli import options as o
from kvcalc.cli.grid import answered, grid_of
from kvcalc.cli.rows import draw, emit_rows
from kvcalc.cli.shell import check_targets, load_model
from kvcalc.errors import KvcalcError
from kvcalc.grid.ranges import bounded
from kvcalc.views.compare import KEYS, compare_document, compare_report, compared, rows

if TYPE_CHECKING:
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report
    from kvcalc.views.sweep import Form

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def compare(
    ctx: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Presets, YAML presets, config.json or GGUF files, model folders, hub ids.",
            autocompletion=o.complete_models,
            show_default=False,
        ),
    ],
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
    """Models, KV dtypes or engines side by side."""
    given = ctx.params
    output = o.output_of({**given, "explain": False}, terminal=sys.stdout.isatty())
    check_targets({"--svg": svg, "--html": html}, [*models, gpu_file])
    if models.count("-") > 1:
        raise KvcalcError("MODEL: standard input holds one model, and - stands for it twice")
    bounded({"MODEL": models})
    loaded = [load_model(model, assume_dense=assume_dense) for model in models]
    swept = [grid_of(model, None, given) for model in loaded]
    pairs = [(model, each.grid) for model, each in zip(loaded, swept, strict=True)]
    answered(grid for _, grid in pairs)
    of = [f"{model.name}: " if len(models) > 1 else "" for model in loaded]
    warnings = [f"{name}{warning}" for name, each in zip(of, swept, strict=True) for warning in each.warnings]
    all_of = compared(pairs)

    def report(form: "Form" = "terminal" if output.form == "table" else "text") -> "Report":
        return compare_report(all_of, warnings, form)

    def chart(option: str) -> "Chart":
        from kvcalc.views.grid_charts import compare_chart

        return compare_chart(all_of, option)

    draw(svg, html, chart, lambda: report("page"), output)
    head = compare_document(pairs, swept[0].asked, warnings)
    raise typer.Exit(emit_rows(output, head, KEYS, lambda: rows(all_of), report))
