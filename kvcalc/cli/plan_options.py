"""The options of `plan`: what is to be served, what it is promised, and what may be taken for it."""

from typing import Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.completion import complete_gpus, complete_kv_dtypes, complete_weights, of_words
from kvcalc.cli.jobs import JobsWords
from kvcalc.cli.lists import ChartWords
from kvcalc.cli.parameters import Words, option

__all__ = ["ChoiceWords", "PlanWords", "TargetWords"]

_WORK, _TARGETS, _HARDWARE = "Workload", "Targets", "Hardware"
_OVERHEAD, _OUTPUT = "Overheads, on each GPU", "Output"
_Text = str | None


class RequestWords(Words):
    """What is to be served."""

    context: o.Context = None
    users: Annotated[_Text, option("--users", "--batch", "-b", metavar="N", panel=_WORK,
        help="Sequences at the same time, over all replicas. Default: 1.")] = None  # fmt: skip
    input_: Annotated[_Text, option("--input", metavar="MEAN[/P95]", panel=_WORK,
        help="Tokens of a prompt: 1155, or 1155/4083 with the 95th percentile.")] = None  # fmt: skip
    output: Annotated[_Text, option("--output", metavar="MEAN[/P95]", panel=_WORK,
        help="Tokens that are generated.")] = None  # fmt: skip
    rate: Annotated[_Text, option("--rate", metavar="R", panel=_WORK,
        help="Requests a second; needs --input and --output.")] = None  # fmt: skip
    shared_prefix: Annotated[_Text, option("--shared-prefix", metavar="TOKENS", panel=_WORK,
        help="Tokens that all sequences begin with, held once in each replica.")] = None  # fmt: skip
    prefix_hit: Annotated[_Text, option("--prefix-hit", metavar="F", panel=_WORK,
        help="Share of a prompt's tokens that a replica finds in its cache.")] = None  # fmt: skip
    encoder_tokens: o.EncoderTokens = None
    trace: Annotated[_Text, option("--trace", metavar="FILE", panel=_WORK,
        help="Requests of a file in place of these; the first rows are replayed.")] = None  # fmt: skip
    time_unit: Annotated[_Text, option("--time-unit", metavar="s|ms", panel=_WORK,
        help="What the times of the trace are counted in, where it leaves that open.")] = None  # fmt: skip
    rate_scale: Annotated[_Text, option("--rate-scale", metavar="F", panel=_WORK,
        help="By how much faster the requests of the trace arrive.")] = None  # fmt: skip
    images: o.ImagesOf = None


class TargetWords(Words):
    """What requests are promised."""

    ttft: Annotated[_Text, option("--ttft", metavar="TIME", panel=_TARGETS,
        help="Time to the first token, such as 500ms or 2s.")] = None  # fmt: skip
    tpot: Annotated[_Text, option("--tpot", metavar="TIME", panel=_TARGETS,
        help="Time per output token. Cards that were searched keep 100ms by default.")] = None  # fmt: skip
    e2e: Annotated[_Text, option("--e2e", metavar="TIME", panel=_TARGETS,
        help="Time of a whole answer.")] = None  # fmt: skip
    percentile: Annotated[_Text, option("--percentile", metavar="P", panel=_TARGETS,
        help="For how many of 100 requests: p50, p99.9. Default: p95.")] = None  # fmt: skip


class ChoiceWords(Words):
    """What may be taken for it."""

    kv_dtype: Annotated[_Text, option("--kv-dtype", metavar="DTYPE,...", panel="Cache", complete=complete_kv_dtypes,
        help="Formats of the cache to choose from. Default: auto, what the model computes in.")] = None  # fmt: skip
    engine: o.Engine = None
    gpu: Annotated[_Text, option("--gpu", metavar="[Nx]NAME,...|all", panel=_HARDWARE, complete=complete_gpus,
        help="GPUs to choose from, such as h100,l40s or 8xh100. Default: those of clouds.")] = None  # fmt: skip
    gpu_file: o.GpuFile = None
    max_gpus: Annotated[_Text, option("--max-gpus", metavar="N", panel=_HARDWARE,
        help="The most GPUs in all. Default: 64.")] = None  # fmt: skip
    count: Annotated[_Text, option("--count", metavar="machine|any", panel=_HARDWARE,
        complete=of_words(lambda: ("machine", "any")),
        help="GPUs that a replica may have: as many as machine types do (default), or any.")] = None  # fmt: skip
    price: Annotated[list[str] | None, option("--price", metavar="NAME=N", panel=_HARDWARE,
        help="What an hour of one such GPU costs: h100=2.49. May be repeated.")] = None  # fmt: skip
    vram: o.Vram = None
    utilization: o.Utilization = None
    weights: Annotated[_Text, option("--weights", metavar="auto|DTYPE|SIZE,...", panel=_HARDWARE,
        complete=complete_weights,
        help="Formats of the weights to choose from, or their size. Default: auto, as published.")] = None  # fmt: skip
    tp: o.Tp = None
    pp: o.Pp = None
    dp: o.Dp = None
    dcp: o.Dcp = None
    across_machines: Annotated[bool, typer.Option("--across-machines", rich_help_panel=_HARDWARE,
        help="Let tp span machines.")] = False  # fmt: skip


class OverheadWords(Words):
    """What sits beside weights and cache."""

    overhead: Annotated[_Text, option("--overhead", metavar="SIZE", panel=_OVERHEAD,
        help="All of them together, instead of the estimates.")] = None  # fmt: skip
    lora: o.Lora = None
    beside: o.Beside = None
    activations: Annotated[_Text, option("--activations", metavar="SIZE", panel=_OVERHEAD,
        help="The peak of a forward pass.")] = None  # fmt: skip
    graphs: Annotated[_Text, option("--graphs", metavar="SIZE", panel=_OVERHEAD,
        help="Captured graphs.")] = None  # fmt: skip
    communication: Annotated[_Text, option("--communication", metavar="SIZE", panel=_OVERHEAD,
        help="Buffers between GPUs.")] = None  # fmt: skip
    runtime: Annotated[_Text, option("--runtime", metavar="SIZE", panel=_OVERHEAD,
        help="Context and libraries.")] = None  # fmt: skip


class OrderWords(Words):
    """Which rows are shown first."""

    sort: Annotated[_Text, option("--sort", metavar="rank|price|tpot|rate", panel=_OUTPUT,
        complete=of_words(lambda: ("rank", "price", "tpot", "rate")),
        help="rank: least price, or memory where one is not known; then the simplest.")] = None  # fmt: skip
    machines: Annotated[bool, typer.Option("--machines", rich_help_panel=_OUTPUT,
        help="Name the machine types of clouds that have these cards.")] = False  # fmt: skip
    top: Annotated[_Text, option("--top", metavar="N", panel=_OUTPUT,
        help="Rows of the table. Default: 10; with --trace, which replays them, 3.")] = None  # fmt: skip


class PlanWords(
    RequestWords,
    TargetWords,
    ChoiceWords,
    o.RunWords,
    OverheadWords,
    OrderWords,
    ChartWords,
    o.OutputWords,
    JobsWords,
    o.AssumeDenseWords,
):
    """What `plan` takes."""
