"""The verb `tradeoff`: what caching buys, in FLOPs, seconds and bytes."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from kvcalc.cli import options as o
from kvcalc.cli.lists import Svg
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import Words, option, verb
from kvcalc.cli.shell import check_targets, emit, save, source_of
from kvcalc.cli.values import cache_of, count_of, fraction_of, gpu_of, tokens_of, weights_of, workload_of
from kvcalc.core.units import MOST_GPUS, parse_count
from kvcalc.errors import KvcalcError, shown
from kvcalc.views.document import pick

if TYPE_CHECKING:
    from kvcalc.views.report import Report
    from kvcalc.views.types.tradeoff import TradeoffDocument

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_MOST_PARAMETERS = 10**16
_Text = str | None


class LengthWords(Words):
    """A prompt and new tokens."""

    input_: Annotated[_Text, option("--input", "--prompt", metavar="N", panel="Workload",
        help="Tokens of the prompt. Default: the context less the output.")] = None  # fmt: skip
    output_: Annotated[_Text, option("--output", metavar="N", panel="Workload",
        help="New tokens. Default: 256.")] = None  # fmt: skip


class ClockWords(Words):
    """What the seconds depend on."""

    tp: o.Tp = None
    weights: o.Weights = None
    parameters: Annotated[_Text, option("--parameters", metavar="N", panel="Workload",
        help="Parameters that one token uses, such as 8.03B. Default: by the preset.")] = None  # fmt: skip
    link: Annotated[_Text, option("--link", metavar="LINK,...", panel="Hardware",
        help="How a cache comes back: pcie5, pcie4, nvme, 400gbit, 100gbit or a rate (25GB/s).")] = None  # fmt: skip
    tier: Annotated[list[str] | None, option("--tier", metavar="NAME=SIZE@RATE", panel="Hardware",
        help="Memory behind the GPUs: cpu=200GiB@50GB/s; again for the next.")] = None  # fmt: skip
    bandwidth_share: Annotated[_Text, option("--bandwidth-share", metavar="F", panel="Hardware",
        help="Share of peak bandwidth that is attained. Default: the card's.")] = None  # fmt: skip
    compute_share: Annotated[_Text, option("--compute-share", metavar="F", panel="Hardware",
        help="Share of peak FLOP/s that is attained. Default: the card's.")] = None  # fmt: skip


class TradeoffWords(
    LengthWords, o.WorkloadWords, o.CacheWords, o.GpuWords, ClockWords, o.OutputWords, o.AssumeDenseWords
):
    """What `tradeoff` takes."""

    svg: Svg = None


@verb(
    app,
    "kvcalc tradeoff llama3-8b --gpu h100",
    "kvcalc tradeoff llama3-70b --gpu h100 --tp 4 --input 7k --output 512",
)
def tradeoff(model: o.ModelArgument, *, words: TradeoffWords) -> None:
    """What caching buys: compute, time and memory with and without it."""
    output = output_of(words, terminal=sys.stdout.isatty())
    check_targets({"--svg": words.svg}, [model, words.gpu_file])
    from kvcalc.perf.links import parse_links
    from kvcalc.perf.tiers import tiers_of
    from kvcalc.queries.tradeoff import TradeoffQuestion, answer
    from kvcalc.views.tradeoff import tradeoff_document, tradeoff_report

    found = answer(
        TradeoffQuestion(
            source=source_of(model, words),
            input=tokens_of(words.input_, "--input", None),
            output=tokens_of(words.output_, "--output", None),
            workload=workload_of(words),
            form=cache_of(words),
            gpu=gpu_of(words.gpu, words.gpu_file),
            tp=count_of(words.tp, "--tp", None, MOST_GPUS),
            weights=weights_of(words.weights),
            parameters=_parameters(words.parameters),
            links=None if words.link is None else parse_links(words.link),
            bandwidth_share=fraction_of(words.bandwidth_share, "--bandwidth-share"),
            compute_share=fraction_of(words.compute_share, "--compute-share"),
            tiers=tiers_of(words.tier or (), "--tier"),
        )
    )
    if words.svg is not None:
        from kvcalc.render.svg import render
        from kvcalc.views.tradeoff_curve import tradeoff_chart

        save(words.svg, render(tradeoff_chart(found), output.units), "--svg")

    def document() -> "TradeoffDocument":
        return tradeoff_document(found)

    def report() -> "Report":
        return tradeoff_report(found, output.units)

    emit(output, document, report, lambda: pick(document(), "flops.generation.ratio"), warnings=found.warnings)


def _parameters(text: str | None) -> int | None:
    if text is None:
        return None
    parameters = parse_count(text)
    if not parameters or parameters >= _MOST_PARAMETERS:
        raise KvcalcError(f"--parameters: expected a count such as 8.03B, got {shown(text)}")
    return parameters
