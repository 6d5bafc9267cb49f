"""The verb `plan`: which GPUs, how many, split how, with which cache."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvcalc.cli import options as o
from kvcalc.cli.shell import emit, load_model
from kvcalc.errors import ExitCode
from kvcalc.views.document import Value

if TYPE_CHECKING:
    from kvcalc.views.report import Report

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_WORK, _HARDWARE, _OVERHEAD, _OUTPUT = "Workload", "Hardware", "Overheads, on each GPU", "Output"
_Text = str | None


def _option(*names: str, metavar: str, panel: str, help: str, complete: Any = None) -> Any:  # noqa: A002
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, autocompletion=complete)


Users = Annotated[_Text, _option("--users", "--batch", "-b", metavar="N", panel=_WORK,
    help="Sequences at the same time, over all replicas. Default: 1.")]  # fmt: skip
Input = Annotated[_Text, _option("--input", metavar="MEAN[/P95]", panel=_WORK,
    help="Tokens of a prompt: 1155, or 1155/4083 with the 95th percentile.")]  # fmt: skip
Output = Annotated[_Text, _option("--output", metavar="MEAN[/P95]", panel=_WORK,
    help="Tokens that are generated.")]  # fmt: skip
SharedPrefix = Annotated[_Text, _option("--shared-prefix", metavar="TOKENS", panel=_WORK,
    help="Tokens that all sequences begin with, held once in each replica.")]  # fmt: skip
Rate = Annotated[_Text, _option("--rate", metavar="R", panel=_WORK,
    help="Requests a second; needs --input and --output.")]  # fmt: skip
KvDtypes = Annotated[_Text, _option("--kv-dtype", metavar="DTYPE,...", panel="Cache",
    complete=o.complete_kv_dtypes,
    help="Formats of the cache to choose from. Default: auto, what the model computes in.")]  # fmt: skip
Gpus = Annotated[_Text, _option("--gpu", metavar="[Nx]NAME,...|all", panel=_HARDWARE,
    complete=o.complete_gpus,
    help="GPUs to choose from, such as h100,l40s or 8xh100. Default: those that clouds have most of.")]  # fmt: skip
MaxGpus = Annotated[_Text, _option("--max-gpus", metavar="N", panel=_HARDWARE,
    help="The most GPUs in all. Default: 64.")]  # fmt: skip
WeightsList = Annotated[_Text, _option("--weights", metavar="auto|DTYPE|SIZE,...", panel=_HARDWARE,
    complete=o.complete_weights,
    help="Formats of the weights to choose from, or their size. Default: auto, as published.")]  # fmt: skip
Across = Annotated[bool, typer.Option("--across-machines", rich_help_panel=_HARDWARE,
    help="Let tp span machines.")]  # fmt: skip
Overhead = Annotated[_Text, _option("--overhead", metavar="SIZE", panel=_OVERHEAD,
    help="All of them together, instead of the estimates.")]  # fmt: skip
Activations = Annotated[_Text, _option("--activations", metavar="SIZE", panel=_OVERHEAD,
    help="The peak of a forward pass.")]  # fmt: skip
Graphs = Annotated[_Text, _option("--graphs", metavar="SIZE", panel=_OVERHEAD, help="Captured graphs.")]
Communication = Annotated[_Text, _option("--communication", metavar="SIZE", panel=_OVERHEAD,
    help="Buffers between GPUs.")]  # fmt: skip
Runtime = Annotated[_Text, _option("--runtime", metavar="SIZE", panel=_OVERHEAD,
    help="Context and libraries.")]  # fmt: skip
Sort = Annotated[_Text, _option("--sort", metavar="rank|price", panel=_OUTPUT,
    help="rank: fewest GPUs, then headroom, then simplicity. price: by your own GPU file.")]  # fmt: skip
Top = Annotated[_Text, _option("--top", metavar="N", panel=_OUTPUT, help="Rows of the table. Default: 10.")]


@app.command()
def plan(
    ctx: typer.Context,
    model: o.ModelArgument,
    context: o.Context = None,
    users: Users = None,
    input_: Input = None,
    output: Output = None,
    rate: Rate = None,
    shared_prefix: SharedPrefix = None,
    encoder_tokens: o.EncoderTokens = None,
    kv_dtype: KvDtypes = None,
    engine: o.Engine = None,
    gpu: Gpus = None,
    gpu_file: o.GpuFile = None,
    max_gpus: MaxGpus = None,
    vram: o.Vram = None,
    utilization: o.Utilization = None,
    weights: WeightsList = None,
    tp: o.Tp = None,
    pp: o.Pp = None,
    dp: o.Dp = None,
    dcp: o.Dcp = None,
    across_machines: Across = False,
    overhead: Overhead = None,
    activations: Activations = None,
    graphs: Graphs = None,
    communication: Communication = None,
    runtime: Runtime = None,
    sort: Sort = None,
    top: Top = None,
    format_: o.Format = None,
    json_: o.Json = False,
    get: o.Get = None,
    quiet: o.Quiet = False,
    units: o.UnitsOption = None,
    assume_dense: o.AssumeDense = False,
) -> None:
    """Which GPUs, how many, split how, with which cache."""
    given = ctx.params
    how = o.output_of({**given, "explain": False}, terminal=sys.stdout.isatty())
    from kvcalc.cli.planning import planned
    from kvcalc.views.plan import plan_document, rows

    found = planned(load_model(model, assume_dense=assume_dense), given)

    def document() -> dict[str, Value]:
        return plan_document(found.proposal, found.asked, found.warnings)

    def report() -> "Report":
        from kvcalc.views.plan_words import plan_report

        return plan_report(found.proposal, found.asked, found.warnings)

    best = found.proposal.best
    headline = None if best is None else best.gpus
    emit(how, document, report, headline=lambda _: headline, rows=rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if best is None else ExitCode.OK)
