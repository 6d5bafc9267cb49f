"""The verb `plan`: which GPUs, how many, split how, with which cache."""

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvcalc.cli import options as o
from kvcalc.cli.completion import complete_gpus, complete_kv_dtypes, complete_weights
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import Words, option, verb
from kvcalc.cli.shell import emit, source_of
from kvcalc.cli.values import context_of, count_of, fraction_of, gpus_of, size_of, tokens_of, words_of
from kvcalc.core.units import MOST_GPUS
from kvcalc.errors import ExitCode, KvcalcError, shown

if TYPE_CHECKING:
    from kvcalc.queries.plan import DeploymentQuestion
    from kvcalc.views.report import Report
    from kvcalc.views.types.plan import PlanDocument

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_MOST_ROWS = 10**6
_QUIET_SECONDS, _TICK_SECONDS = 3, 0.1
_WORK, _HARDWARE, _OVERHEAD, _OUTPUT = "Workload", "Hardware", "Overheads, on each GPU", "Output"
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
    encoder_tokens: o.EncoderTokens = None


class ChoiceWords(Words):
    """What may be taken for it."""

    kv_dtype: Annotated[_Text, option("--kv-dtype", metavar="DTYPE,...", panel="Cache", complete=complete_kv_dtypes,
        help="Formats of the cache to choose from. Default: auto, what the model computes in.")] = None  # fmt: skip
    engine: o.Engine = None
    gpu: Annotated[_Text, option("--gpu", metavar="[Nx]NAME,...|all", panel=_HARDWARE, complete=complete_gpus,
        help="GPUs to choose from, such as h100,l40s or 8xh100. Default: usual ones of clouds.")] = None  # fmt: skip
    gpu_file: o.GpuFile = None
    max_gpus: Annotated[_Text, option("--max-gpus", metavar="N", panel=_HARDWARE,
        help="The most GPUs in all. Default: 64.")] = None  # fmt: skip
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

    sort: Annotated[_Text, option("--sort", metavar="rank|price", panel=_OUTPUT,
        help="rank: fewest GPUs, then simplicity, then headroom. price: by your own GPU file.")] = None  # fmt: skip
    top: Annotated[_Text, option("--top", metavar="N", panel=_OUTPUT,
        help="Rows of the table. Default: 10.")] = None  # fmt: skip


class PlanWords(RequestWords, ChoiceWords, OverheadWords, OrderWords, o.OutputWords, o.AssumeDenseWords):
    """What `plan` takes."""


@verb(
    app,
    "kvcalc plan llama3-70b --users 16 --context 8k",
    "kvcalc plan deepseek-v3 --gpu h200 --users 8 --context 32k",
)
def plan(model: o.ModelArgument, *, words: PlanWords) -> None:
    """Which GPUs, how many, split how, with which cache."""
    how = output_of(words, terminal=sys.stdout.isatty())
    from kvcalc.queries.plan import answer
    from kvcalc.views.plan import plan_document, rows

    found = answer(_question(model, words), tick=_ticker())

    def document() -> "PlanDocument":
        return plan_document(found)

    def report() -> "Report":
        from kvcalc.views.plan_words import plan_report

        return plan_report(found)

    headline = None if found.best is None else found.best.gpus
    emit(how, document, report, headline=lambda: headline, rows=rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if found.best is None else ExitCode.OK)


def _question(model: str, words: PlanWords) -> "DeploymentQuestion":
    from kvcalc.perf.workload import Length
    from kvcalc.queries.options import Split
    from kvcalc.queries.plan import DeploymentQuestion

    parts = {
        "activations": words.activations,
        "graphs": words.graphs,
        "communication": words.communication,
        "runtime": words.runtime,
    }
    return DeploymentQuestion(
        source=source_of(model, words),
        context=context_of(words.context),
        users=count_of(words.users, "--users", 1),
        input=None if words.input_ is None else Length.parse(words.input_, "--input"),
        output=None if words.output is None else Length.parse(words.output, "--output"),
        rate=None if words.rate is None else _rate(words.rate),
        shared_prefix=tokens_of(words.shared_prefix, "--shared-prefix", 0),
        encoder_tokens=tokens_of(words.encoder_tokens, "--encoder-tokens", None),
        kv_dtypes=words_of(words.kv_dtype),
        weights=words_of(words.weights),
        engine=words.engine,
        gpus=gpus_of(words.gpu, words.gpu_file),
        gpu_file=words.gpu_file,
        max_gpus=count_of(words.max_gpus, "--max-gpus", 64, MOST_GPUS),
        vram=size_of(words.vram, "--vram", None),
        utilization=fraction_of(words.utilization, "--utilization"),
        split=Split(
            tp=count_of(words.tp, "--tp", None, MOST_GPUS),
            pp=count_of(words.pp, "--pp", None, MOST_GPUS),
            dp=count_of(words.dp, "--dp", None, MOST_GPUS),
            dcp=count_of(words.dcp, "--dcp", None, MOST_GPUS),
        ),
        across_machines=words.across_machines,
        overhead=size_of(words.overhead, "--overhead", None, zero=True),
        overheads={name: size_of(text, f"--{name}", 0, zero=True) for name, text in parts.items() if text is not None},
        sort=_sort(words.sort),
        top=count_of(words.top, "--top", 10, _MOST_ROWS),
    )


def _rate(text: str) -> float:
    """Requests a second."""
    whole, _, decimals = text.strip().partition(".")
    digits = whole + decimals
    if digits.isascii() and digits.isdigit() and len(digits) <= 12 and int(digits):
        return float(f"{whole or 0}.{decimals or 0}")
    raise KvcalcError(f"--rate: expected requests a second, such as 5 or 0.5, got {shown(text)}")


def _sort(text: str | None) -> Literal["rank", "price"]:
    match (text or "rank").strip().lower():
        case "rank":
            return "rank"
        case "price":
            return "price"
        case _:
            raise KvcalcError(f"--sort: expected rank or price, got {shown(text)}")


def _ticker() -> Callable[[int, int], None] | None:
    """Progress of a long search, where somebody watches."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    began = shown_at = time.monotonic()

    def tick(done: int, steps: int) -> None:
        nonlocal shown_at
        now = time.monotonic()
        ended = done == steps
        if ended and shown_at == began:
            return
        if ended or (now - began >= _QUIET_SECONDS and now - shown_at >= _TICK_SECONDS):
            shown_at = now
            sys.stderr.write("\r\x1b[K" + ("" if ended else f"kvcalc: {done:,} of {steps:,} searches"))
            sys.stderr.flush()

    return tick
