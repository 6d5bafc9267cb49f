"""The default verb: the size of a model's cache, and the largest batch that fits."""

import sys
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import options as o
from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.question import question_of
from kvcalc.cli.shell import emit
from kvcalc.core.fitting import fit
from kvcalc.core.fitting import warnings as fit_warnings
from kvcalc.core.request import warnings
from kvcalc.errors import ExitCode
from kvcalc.views.document import Value, pick, size_document

if TYPE_CHECKING:
    from kvcalc.views.report import Report

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_AT_MOST = "the batch is the most that the command allows at once: it starts, and fewer or shorter sequences may fit"


@app.command()
def size(
    ctx: typer.Context,
    model: o.ModelOrCommand = None,
    context: o.Context = None,
    batch: o.Batch = None,
    encoder_tokens: o.EncoderTokens = None,
    kv_dtype: o.KvDtype = None,
    k_dtype: o.KDtype = None,
    v_dtype: o.VDtype = None,
    kv_heads: o.KvHeads = None,
    engine: o.Engine = None,
    block_size: o.BlockSize = None,
    vram: o.Vram = None,
    gpu: o.Gpu = None,
    gpu_file: o.GpuFile = None,
    kv_memory: o.KvMemory = None,
    utilization: o.Utilization = None,
    weights: o.WeightsOption = None,
    overhead: o.Overhead = None,
    tp: o.Tp = None,
    pp: o.Pp = None,
    dp: o.Dp = None,
    dcp: o.Dcp = None,
    gpus: o.Gpus = None,
    format_: o.Format = None,
    json_: o.Json = False,
    get: o.Get = None,
    quiet: o.Quiet = False,
    units: o.UnitsOption = None,
    explain: o.Explain = False,
    assume_dense: o.AssumeDense = False,
) -> None:
    """Size of the KV cache, and what fits (the default)."""
    given = ctx.params
    output = o.output_of(given, terminal=sys.stdout.isatty())
    budget = o.budget_of(given)
    asked = question_of(model, ctx.meta.get(BEHIND_DASHES), given)
    budget = asked.budget(budget)
    fitted = None if budget is None else fit(asked.size, budget, asked.allocator)
    shorter = asked.shortened(fitted)
    if shorter is not None and budget is not None:
        asked, fitted = shorter, fit(shorter.size, budget, shorter.allocator)
    stored = asked.stored if budget is not None and budget.weights == "auto" else None
    at_most = [_AT_MOST] if asked.at_most and fitted is not None and not fitted.fits else []
    said = [*warnings(asked.size.request), *asked.warnings, *at_most, *fit_warnings(fitted and fitted.memory, stored)]

    def document() -> dict[str, Value]:
        return size_document(asked.size, budget, fitted, said, explain=explain, engine=asked.engine_values(fitted))

    def report() -> "Report":
        from kvcalc.views.size import size_report  # --quiet, --get and --json need no words

        return size_report(asked.size, fitted, said, explain=explain, engine=asked.engine_part(fitted))

    emit(output, document, report, headline=lambda document: pick(document, "kv.bytes_total"), warnings=said)
    raise typer.Exit(ExitCode.OK if fitted is None or fitted.fits else ExitCode.NO)
