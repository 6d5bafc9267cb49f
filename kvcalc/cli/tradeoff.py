"""The verb `tradeoff`: what caching buys, in FLOPs, seconds and bytes."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvcalc.cli import options as o
from kvcalc.cli.shell import check_targets, emit, load_model, save
from kvcalc.core.model import Model
from kvcalc.core.units import parse_count, parse_tokens
from kvcalc.errors import KvcalcError, shown
from kvcalc.views.document import Value, pick

if TYPE_CHECKING:
    from kvcalc.core.card import Card
    from kvcalc.core.dtypes import DType
    from kvcalc.core.fitting import MemorySplit
    from kvcalc.core.request import Request
    from kvcalc.core.sizing import Size
    from kvcalc.perf.tradeoff import Rig
    from kvcalc.views.report import Report
    from kvcalc.views.tradeoff import Answer

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_DEFAULT_OUTPUT = 256
_TIMED = ("weights", "link", "bandwidth_share", "compute_share")  # options that mean nothing without a GPU


_Text = str | None


def _option(*names: str, metavar: str, help: str, panel: str) -> Any:  # noqa: A002
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel)


Input = Annotated[_Text, _option("--input", "--prompt", metavar="N", panel="Workload",
    help="Tokens of the prompt. Default: the context less the output.")]  # fmt: skip
Output = Annotated[_Text, _option("--output", metavar="N", panel="Workload", help="New tokens. Default: 256.")]
Parameters = Annotated[_Text, _option("--parameters", metavar="N", panel="Workload",
    help="Parameters that one token uses, such as 8.03B. Default: by the preset.")]  # fmt: skip
LinkOption = Annotated[_Text, _option("--link", metavar="LINK,...", panel="Hardware",
    help="How a cache comes back: pcie5, pcie4, nvme, 400gbit, 100gbit or a rate such as 25GB/s.")]  # fmt: skip
BandwidthShare = Annotated[_Text, _option("--bandwidth-share", metavar="F", panel="Hardware",
    help="Share of peak bandwidth that is attained. Default: 0.8.")]  # fmt: skip
ComputeShare = Annotated[_Text, _option("--compute-share", metavar="F", panel="Hardware",
    help="Share of peak FLOP/s that is attained. Default: 0.45.")]  # fmt: skip
Svg = Annotated[_Text, _option("--svg", metavar="FILE", panel="Output",
    help="Also write a curve over the context.")]  # fmt: skip


@app.command()
def tradeoff(
    ctx: typer.Context,
    model: o.ModelArgument,
    input_: Input = None,
    output_: Output = None,
    context: o.Context = None,
    batch: o.Batch = None,
    encoder_tokens: o.EncoderTokens = None,
    kv_dtype: o.KvDtype = None,
    k_dtype: o.KDtype = None,
    v_dtype: o.VDtype = None,
    kv_heads: o.KvHeads = None,
    gpu: o.Gpu = None,
    gpu_file: o.GpuFile = None,
    tp: o.Tp = None,
    weights: o.WeightsOption = None,
    parameters: Parameters = None,
    link: LinkOption = None,
    bandwidth_share: BandwidthShare = None,
    compute_share: ComputeShare = None,
    svg: Svg = None,
    format_: o.Format = None,
    json_: o.Json = False,
    get: o.Get = None,
    quiet: o.Quiet = False,
    units: o.UnitsOption = None,
    assume_dense: o.AssumeDense = False,
) -> None:
    """What caching buys: compute, time and memory with and without it."""
    given = ctx.params
    output = o.output_of({**given, "explain": False}, terminal=sys.stdout.isatty())
    check_targets({"--svg": svg}, [model, gpu_file])
    answer = _answer(load_model(model, assume_dense=assume_dense), given)
    from kvcalc.views.tradeoff import tradeoff_document, tradeoff_report

    if svg is not None:
        from kvcalc.render.svg import render
        from kvcalc.views.tradeoff_curve import tradeoff_chart

        save(svg, render(tradeoff_chart(answer), output.units), "--svg")

    def document() -> dict[str, Value]:
        return tradeoff_document(answer)

    def report() -> "Report":
        return tradeoff_report(answer, output.units)

    emit(output, document, report, lambda found: pick(found, "flops.generation.ratio"), warnings=answer.warned)


def _answer(model: Model, given: o.Given) -> "Answer":
    from kvcalc.core.request import warnings
    from kvcalc.core.sizing import measure
    from kvcalc.perf.flops import count
    from kvcalc.perf.links import parse_links
    from kvcalc.perf.tradeoff import compare
    from kvcalc.views.tradeoff import Answer

    links = parse_links(given["link"])
    _, card = o.card_of(given)
    if card is None:
        for name in _TIMED:
            if given[name] is not None:
                raise KvcalcError(f"--{name.replace('_', '-')}: has no effect without a GPU", "add --gpu NAME")
    used = _parameters(given["parameters"])
    if used is not None and model.parameters is None:
        model = replace(model, parameters=used)
    asked = {**given, **dict.fromkeys(("pp", "dp", "dcp", "gpus"))}
    prompt, output = _lengths(given, o.request_of(model, asked).context)
    request = o.request_of(model, {**asked, "context": str(prompt + output)})
    flops = count(request.model, used, request.encoder_tokens)
    rig = None if card is None else _rig(card, request, flops.parameters, given)
    compared = compare(request, flops, prompt, output, rig, links)
    size = measure(request)
    memory = None if card is None else _room(size, given)
    return Answer(compared, size, card, memory, warnings(request))


def _room(size: "Size", given: o.Given) -> "MemorySplit":
    """The memory of each GPU, as the default verb reckons it."""
    from kvcalc.cli.question import budget_of_card
    from kvcalc.core.fitting import memory_split

    unsaid = dict.fromkeys(("vram", "kv_memory", "utilization", "overhead"))
    budget = budget_of_card(o.budget_of({**given, **unsaid}))
    assert budget is not None
    return memory_split(size, budget)


def _parameters(text: str | None) -> int | None:
    if text is None:
        return None
    parameters = parse_count(text)
    if not parameters or parameters >= 10**16:
        raise KvcalcError(f"--parameters: expected a count such as 8.03B, got {shown(text)}")
    return parameters


def _lengths(given: o.Given, context: int) -> tuple[int, int]:
    """Tokens of the prompt and new ones; the context is both together."""
    prompt, output = (
        None if given[f"{name}_"] is None else parse_tokens(given[f"{name}_"], f"--{name}")
        for name in ("input", "output")
    )
    if prompt is not None and (output is not None or given["context"] is None):
        output = output or _DEFAULT_OUTPUT
        if given["context"] is not None and prompt + output != context:
            raise KvcalcError(
                f"--context: {context:,} contradicts a prompt of {prompt:,} and {output:,} new tokens", "leave one out"
            )
        return prompt, output
    if output is None:
        output = context - prompt if prompt is not None else max(1, min(_DEFAULT_OUTPUT, context // 2))
    if prompt is None:
        prompt = context - output
    if prompt < 1 or output < 1:
        option = next((name for name in ("input", "output") if given[f"{name}_"] is not None), "context")
        raise KvcalcError(
            f"--{option}: a context of {context:,} has no room for a prompt and new tokens", "give a longer --context"
        )
    return prompt, output


def _rig(card: "Card", request: "Request", used: int, given: o.Given) -> "Rig":
    """The replica: rates of the card, and the weights that one pass reads."""
    from kvcalc.core.sharding import Layout
    from kvcalc.core.units import Fraction
    from kvcalc.core.weights import dtype_of, parse, weigh
    from kvcalc.perf.demand import machine_of
    from kvcalc.perf.roofline import Attained
    from kvcalc.perf.tradeoff import Rig

    model, tp = request.facts, request.layout.tp
    weights = "auto" if given["weights"] is None else parse(given["weights"], "--weights")
    if weights == "none":
        raise KvcalcError("--weights: none leaves nothing to read", "leave it out, or give their size")
    held = weigh(model, weights).bytes
    stored: DType = model.weights_dtype or model.dtype
    if not isinstance(weights, str | int):
        stored = dtype_of(weights.name)
    machine = machine_of(card, Layout(), eight_bit=stored.name.startswith("fp8"))
    attained = {
        name: share.part / share.of
        for name, option in (("bandwidth", "bandwidth_share"), ("compute", "compute_share"))
        if given[option] is not None
        for share in [Fraction.parse(given[option], f"--{option.replace('_', '-')}")]
    }
    total = max(model.parameters or used, used)
    touched = max(1, held * used // total)
    return Rig(tp, int(machine.bandwidth) * tp, int(machine.flops) * tp, held, touched, Attained(**attained))
