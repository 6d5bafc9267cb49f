"""The verb `simulate`: a trace of requests replayed on a deployment."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvcalc.cli import options as o
from kvcalc.cli.jobs import workers
from kvcalc.cli.output import output_of
from kvcalc.cli.parameters import verb
from kvcalc.cli.plan import prices_of, targets_of
from kvcalc.cli.progress import ticker
from kvcalc.cli.rows import draw
from kvcalc.cli.shell import check_targets, emit, save, source_of
from kvcalc.cli.simulate_options import ROUTERS, RequestWords, SimulateWords
from kvcalc.cli.values import cache_of, company_of, count_of, memory_of, run_of, split_of, words_of
from kvcalc.core.units import MOST_GPUS, parse_size, parse_tokens
from kvcalc.errors import ExitCode, KvcalcError, shown

if TYPE_CHECKING:
    from kvcalc.perf.workload import Length
    from kvcalc.queries.day import DayPlan
    from kvcalc.queries.simulation import PoolSplit, SimulateAnswer, SimulateQuestion, Traffic
    from kvcalc.traffic.arrivals import Arrivals
    from kvcalc.views.chart import Chart
    from kvcalc.views.report import Report
    from kvcalc.views.types.simulate import SimulateDocument

__all__ = ["app"]

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@verb(
    app,
    "kvcalc simulate llama3.1-8b --gpu l4 --replicas 4 --rate 2 --input 1155/4083 --output 211/451",
    "kvcalc simulate llama3.1-8b trace.csv --step 30ms --unlimited",
)
def simulate(
    model: o.ModelArgument,
    trace: Annotated[
        str | None,
        typer.Argument(metavar="[TRACE]", help="Requests: CSV, JSON lines or Parquet, packed or not; - for a pipe."),
    ] = None,
    *,
    words: SimulateWords,
) -> None:
    """Requests, from a trace or made up, replayed on a deployment."""
    how = output_of(words, terminal=sys.stdout.isatty())
    files = {"--svg": words.svg, "--html": words.html, "--csv-requests": words.csv_requests}
    check_targets(files, [model, trace, words.gpu_file, words.day])
    from kvcalc.queries.seeds import answer
    from kvcalc.views.simulate import csv_rows, headline, simulate_document

    with workers(words) as several:
        found = answer(_question(model, trace, words), several, watch=ticker("requests"))

    def document() -> "SimulateDocument":
        return simulate_document(found)

    def report() -> "Report":
        from kvcalc.views.simulate_words import simulate_report

        return simulate_report(found)

    def charts(option: str) -> "list[Chart]":
        from kvcalc.views.simulate_charts import simulate_charts

        return simulate_charts(found, option)

    draw(words.svg, words.html, charts, report, how)
    if words.csv_requests is not None:
        _write_requests(words.csv_requests, found)
    emit(how, document, report, headline=lambda: headline(found), rows=csv_rows, warnings=found.warnings)
    raise typer.Exit(ExitCode.NO if found.met is False else ExitCode.OK)


def _write_requests(path: str, found: "SimulateAnswer") -> None:
    from kvcalc.views.simulate_charts import request_rows

    if found.served is None:
        raise KvcalcError("--csv-requests: no request is served without a deployment", "add --gpu NAME")
    save(path, "".join(",".join(map(str, row)) + "\n" for row in request_rows(found)), "--csv-requests")


def _question(model: str, trace: str | None, words: SimulateWords) -> "SimulateQuestion":
    from kvcalc.core.durations import parse_duration
    from kvcalc.perf.tiers import tiers_of
    from kvcalc.queries.options import EngineChoice
    from kvcalc.queries.simulation import OpenLoop, SimulateQuestion

    if (words.step is None) == words.unlimited:
        missing = "--unlimited" if words.step is not None else "--step 30ms"
        raise KvcalcError(f"{'--step' if words.step else '--unlimited'}: needs {missing} beside it", f"add {missing}")
    block = count_of(words.block_size, "--block-size", None)
    looped = None if words.step is None else OpenLoop(parse_duration(words.step, "--step"), block or 1)
    replicas = words.replicas
    if (words.gpus or "").strip().lower() == "auto":  # the fewest GPUs are the fewest replicas of this split
        words.gpus, replicas = None, replicas or "auto"
    source = source_of(model, words)
    memory = memory_of(words)._replace(**company_of(words))
    if memory.vram is not None or memory.kv_memory is not None:
        option_name = "--vram" if memory.vram is not None else "--kv-memory"
        raise KvcalcError(f"{option_name}: says nothing of how fast a step goes", "--gpu NAME does")
    return SimulateQuestion(
        source=source,
        traffic=_traffic(trace, words),
        open=looped,
        form=cache_of(words),
        split=split_of(words),
        memory=memory,
        engine=EngineChoice(words.engine, None, None if looped else block, run_of(words)),
        replicas=_replicas(replicas),
        router=_router(words.router),
        prefix_cache=words.prefix_cache,
        tiers=tiers_of(words.tier or (), "--tier"),
        day=_day(trace, words),
        pools=_pools(words),
        capacities=_capacities(words),
        targets=targets_of(words),
        drawn=words.svg is not None or words.html is not None,
    )


def _pools(words: SimulateWords) -> "PoolSplit | None":
    from kvcalc.queries.pools import pools_of

    counts = (
        count_of(words.prefill, "--prefill", None, MOST_GPUS),
        count_of(words.decode, "--decode", None, MOST_GPUS),
    )
    return pools_of(*counts, words.link)


def _traffic(trace: str | None, words: SimulateWords) -> "Traffic":
    from kvcalc.perf.workload import Length
    from kvcalc.queries.simulation import MadeUp, Traffic

    unit = None if words.time_unit is None else words.time_unit.strip().lower()
    if unit not in (None, "s", "ms", "us", "ns"):
        raise KvcalcError(f"--time-unit: expected s or ms, got {shown(unit)}")
    if (words.turns is None) != (words.think is None) or (words.turns is not None and words.input_ is None):
        raise KvcalcError("--turns: sessions are made up of --rate, --input, --output, --turns and --think together")
    made = None
    if words.input_ is not None or words.output_ is not None:
        if (
            words.input_ is None
            or words.output_ is None
            or (words.rate is None and trace is None and words.day is None)
        ):
            raise KvcalcError("--input: requests are made up of --rate, --input and --output together")
        made = MadeUp(
            Length.parse(words.input_, "--input"),
            Length.parse(words.output_, "--output"),
            count_of(words.requests, "--requests", 1000, 10_000_000),
            0 if words.seed in (None, "0") else count_of(words.seed, "--seed", 0),
            *_turns(words),
            count_of(words.seeds, "--seeds", 1, 1000),
        )
    elif trace is None and words.rate is not None:
        raise KvcalcError("--rate: needs the lengths of requests", "add --input and --output, or a TRACE")
    if made is None and words.seeds is not None:
        raise KvcalcError("--seeds: requests of a file are no draws", "leave it out")
    if made is not None and words.day is not None and words.rate is not None:
        raise KvcalcError("--rate: contradicts --day, which has the rates", "leave it out")
    scale = 1.0 if words.rate_scale is None else _positive(words.rate_scale, "--rate-scale")
    return Traffic(
        trace,
        unit,
        made,
        _arrivals(words, "1" if made is not None and words.day is not None else words.rate),
        scale,
        words.spread_ties,
    )


def _turns(words: RequestWords) -> "tuple[Length | None, Length | None]":
    """Turns of a session, and the milliseconds between two."""
    from kvcalc.perf.workload import Length
    from kvcalc.traffic.turns import pause_of

    if words.turns is None or words.think is None:
        return None, None
    return Length.parse(words.turns, "--turns"), pause_of(words.think, "--think")


def _arrivals(words: RequestWords, stated: str | None) -> "Arrivals | None":
    from kvcalc.traffic.arrivals import Arrivals

    if stated is None:
        if words.burstiness is not None:
            raise KvcalcError("--burstiness: has no effect without --rate", "add --rate R")
        return None
    rate = _positive(stated, "--rate")
    if words.burstiness is None:
        return Arrivals(rate)
    if words.burstiness.strip() in ("0", "0.0"):
        return Arrivals(rate, "constant")
    variation = _positive(words.burstiness, "--burstiness")
    return Arrivals(rate) if variation == 1 else Arrivals(rate, "gamma", variation)


def _positive(text: str, what: str) -> float:
    """A number above zero in plain digits."""
    whole, _, decimals = text.strip().partition(".")
    digits = whole + decimals
    if digits.isascii() and digits.isdigit() and len(digits) <= 12 and int(digits):
        return float(f"{whole or 0}.{decimals or 0}")
    raise KvcalcError(f"{what}: expected a number above zero, such as 2 or 0.5, got {shown(text)}")


def _day(trace: str | None, words: SimulateWords) -> "DayPlan | None":
    from kvcalc.core.durations import parse_duration
    from kvcalc.queries.day import DayPlan

    if words.day is None and words.bins is None:
        for name, given in (("--start-time", words.start_time), ("--price", words.price)):
            if given:
                raise KvcalcError(f"{name}: has no effect without --day", "add --day FILE, or --bin 15m")
        return None
    if words.day is not None and words.bins is not None:
        raise KvcalcError("--bin: contradicts --day, which has the rates", "leave one of them out")
    if words.day == trace == "-":
        raise KvcalcError("--day: standard input holds one file, and - stands for it twice")
    return DayPlan(
        words.day,
        0.0 if words.start_time is None else parse_duration(words.start_time, "--start-time"),
        None if words.bins is None else parse_duration(words.bins, "--bin"),
        prices_of(words.price, words.gpu_file),
    )


def _replicas(text: str | None) -> int | Literal["auto"]:
    if (text or "").strip().lower() == "auto":
        return "auto"
    return count_of(text, "--replicas", 1, 4096)


def _router(text: str | None) -> Literal["round-robin", "least-loaded", "prefix"]:
    match (text or "round-robin").strip().lower():
        case "round-robin" | "least-loaded" | "prefix" as router:
            return router
        case _:
            raise KvcalcError(f"--router: expected one of {', '.join(ROUTERS)}, got {shown(text)}")


def _capacities(words: SimulateWords) -> "tuple[int | str, ...]":
    """Tokens, or sizes of memory as they were typed."""
    if words.capacity is None:
        return ()
    found: list[int | str] = []
    for word in words_of(words.capacity):
        if word.endswith(("b", "i")):
            parse_size(word, "--capacity")
            found.append(word)
        else:
            found.append(parse_tokens(word, "--capacity"))
    return tuple(found)
