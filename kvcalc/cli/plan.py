"""The verb `plan`: which GPUs, how many, split how, with which cache."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from kvcalc.cli import options as o
from kvcalc.cli.jobs import workers
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.plan_options import PlanWords, TargetWords
from kvcalc.cli.progress import ticker
from kvcalc.cli.rows import draw
from kvcalc.cli.shell import check_targets, emit, source_of
from kvcalc.cli.values import (
    context_of,
    count_of,
    fraction_of,
    gpus_of,
    images_of,
    lora_of,
    run_of,
    size_of,
    tokens_of,
    words_of,
)
from kvcalc.core.units import MOST_GPUS
from kvcalc.errors import ExitCode, KvcalcError, shown

if TYPE_CHECKING:
    from kvcalc.jobs import Workers
    from kvcalc.perf.latency import Targets
    from kvcalc.planner.ranking import Order
    from kvcalc.queries.plan import DeploymentQuestion, PlanAnswer
    from kvcalc.queries.simulation import Traffic
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report
    from kvcalc.views.types.plan import PlanDocument

__all__ = ["TargetWords", "app", "prices_of", "targets_of"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)

_MOST_ROWS = 10**6


@verb(
    app,
    "kvcalc plan llama3-70b --users 16 --context 8k",
    "kvcalc plan llama3.1-8b --input 1155/4083 --output 211/451 --rate 5 --ttft 2s --tpot 50ms",
)
def plan(model: o.ModelArgument, *, words: PlanWords) -> None:
    """Which GPUs, how many, split how, with which cache."""
    how = output_of(words, terminal=sys.stdout.isatty())
    check_targets({"--svg": words.svg, "--html": words.html}, [model, words.gpu_file, words.trace])
    from kvcalc.views.plan import plan_document, rows

    if words.jobs is not None and words.trace is None:
        raise KvcalcError("--jobs: has no effect without --trace", "leave it out")
    with workers(words) as several:
        found = _answer(_question(model, words), several)

    def document() -> "PlanDocument":
        return plan_document(found)

    def report() -> "Report":
        from kvcalc.views.plan_words import plan_report

        return plan_report(found)

    def charts(option: str) -> "list[Chart]":
        from kvcalc.views.plan_charts import plan_charts

        return plan_charts(found, option)

    svg = words.svg
    if svg is not None and found.best is None:
        svg, found = None, found._replace(warnings=(*found.warnings, "--svg: no row of a plan to draw"))
    draw(svg, words.html, charts, report, how)
    headline = None if found.best is None else found.best.gpus
    emit(how, document, report, headline=lambda: headline, rows=rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if found.best is None else ExitCode.OK)


def _answer(question: "DeploymentQuestion", several: "Workers | None") -> "PlanAnswer":
    if question.trace is not None:
        from kvcalc.queries.plan_trace import answer as replayed

        return replayed(question, ticker("searches"), several)
    from kvcalc.queries.plan import answer

    return answer(question, ticker("searches"))


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
        images=images_of(words.images),
        kv_dtypes=words_of(words.kv_dtype),
        weights=words_of(words.weights),
        engine=words.engine,
        run=run_of(words),
        gpus="all" if (words.gpu or "").strip().lower() == "all" else gpus_of(words.gpu, words.gpu_file),
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
        lora=lora_of(words.lora),
        beside=tuple(words.beside or ()),
        overheads={name: size_of(text, f"--{name}", 0, zero=True) for name, text in parts.items() if text is not None},
        targets=targets_of(words),
        prefix_hit=_share(words.prefix_hit),
        every_count=_every_count(words.count),
        prices=prices_of(words.price, words.gpu_file),
        sort=_sort(words.sort),
        machines=words.machines,
        top=count_of(words.top, "--top", 10 if words.trace is None else 3, _MOST_ROWS),
        trace=_trace(model, words),
    )


def _trace(model: str, words: PlanWords) -> "Traffic | None":
    from kvcalc.queries.simulation import Traffic

    if words.trace is None:
        for name, text in (("--time-unit", words.time_unit), ("--rate-scale", words.rate_scale)):
            if text is not None:
                raise KvcalcError(f"{name}: has no effect without --trace", "add --trace FILE")
        return None
    if words.trace == model == "-":
        raise KvcalcError("--trace: standard input holds one file, and - stands for it twice")
    unit = None if words.time_unit is None else words.time_unit.strip().lower()
    if unit not in (None, "s", "ms", "us", "ns"):
        raise KvcalcError(f"--time-unit: expected s or ms, got {shown(unit)}")
    scale = 1.0 if words.rate_scale is None else _decimal(words.rate_scale)
    if scale is None:
        raise KvcalcError(f"--rate-scale: expected a number above zero, such as 2, got {shown(words.rate_scale)}")
    return Traffic(words.trace, unit, rate_scale=scale)


def _rate(text: str) -> float:
    """Requests a second."""
    rate = _decimal(text)
    if rate is None:
        raise KvcalcError(f"--rate: expected requests a second, such as 5 or 0.5, got {shown(text)}")
    return rate


def _decimal(text: str) -> float | None:
    """A number above zero in plain digits; None for anything else."""
    whole, _, decimals = text.strip().partition(".")
    digits = whole + decimals
    if digits.isascii() and digits.isdigit() and len(digits) <= 12 and int(digits):
        return float(f"{whole or 0}.{decimals or 0}")
    return None


def _sort(text: str | None) -> "Order":
    match (text or "rank").strip().lower():
        case "rank" | "price" | "tpot" | "rate" as order:
            return order
        case _:
            raise KvcalcError(f"--sort: expected rank, price, tpot or rate, got {shown(text)}")


def targets_of(words: TargetWords) -> "Targets | None":
    from kvcalc.core.durations import parse_duration, parse_percentile
    from kvcalc.perf.latency import Targets

    given = {"ttft": words.ttft, "tpot": words.tpot, "e2e": words.e2e}
    seconds = {name: parse_duration(text, f"--{name}") for name, text in given.items() if text is not None}
    percentile = None if words.percentile is None else parse_percentile(words.percentile, "--percentile")
    if not seconds:
        if percentile is not None:
            raise KvcalcError("--percentile: has no effect without a target", "add --ttft, --tpot or --e2e")
        return None
    return Targets(**seconds) if percentile is None else Targets(**seconds, percentile=percentile)


def _share(text: str | None) -> float:
    """A share of prompts, which may be none."""
    if text is None or text.strip() in ("0", "0.0"):
        return 0.0
    share = fraction_of(text, "--prefix-hit")
    return 0.0 if share is None else share.part / share.of


def _every_count(text: str | None) -> bool:
    match (text or "machine").strip().lower():
        case "machine":
            return False
        case "any":
            return True
        case _:
            raise KvcalcError(f"--count: expected machine or any, got {shown(text)}")


def prices_of(words: Sequence[str] | None, gpu_file: str | None) -> dict[str, float]:
    """What an hour of a card costs, by its full name."""
    from kvcalc.cards.names import card_called

    found = {}
    for text in words or ():
        name, equals, number = text.partition("=")
        price = _decimal(number)
        if not equals or price is None:
            raise KvcalcError(f"--price: expected a card and what an hour of it costs, got {shown(text)}", "h100=2.49")
        found[card_called(name, "--price", gpu_file)[1].name] = price
    return found
