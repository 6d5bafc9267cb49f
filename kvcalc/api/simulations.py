"""A trace on a deployment, from Python."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from kvcalc.api.arguments import (
    bytes_of,
    card_of,
    choice_of,
    count_of,
    gpus_of,
    in_python,
    optional,
    path_of,
    rate_of,
    sequence_of,
    source_of,
    switch_of,
    text_of,
    words_of,
    workers_of,
)
from kvcalc.api.parts import form_of, memory_of, run_of, split_of
from kvcalc.api.plans import length_of, prices_of, seconds_of, targets_of
from kvcalc.api.results import Result
from kvcalc.core.model import Model
from kvcalc.core.units import parse_size, parse_tokens
from kvcalc.errors import KvcalcError
from kvcalc.queries.options import EngineChoice

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kvcalc.perf.workload import Length
    from kvcalc.queries.day import DayPlan
    from kvcalc.queries.simulation import SimulateAnswer, Traffic
    from kvcalc.serving.fleet import Served
    from kvcalc.traffic.arrivals import Arrivals
    from kvcalc.traffic.occupancy import Occupancy
    from kvcalc.views.report import Report
    from kvcalc.views.types.simulate import SimulateDocument

__all__ = ["SimulateResult", "simulate"]


class SimulateResult(Result):
    """What a trace came to.

    Attributes:
        served: What the deployment did; None in the open loop.
        open: What the requests would hold; None in the closed loop.
        replicas: How many there are.
        warnings: What the asker should know.
    """

    def __init__(self, answer: "SimulateAnswer") -> None:
        self._answer = answer
        self.served: Served | None = answer.served
        self.open: Occupancy | None = answer.open
        self.replicas = answer.replicas
        self.warnings = answer.warnings

    def to_dict(self) -> "SimulateDocument":
        from kvcalc.views.simulate import simulate_document

        return simulate_document(self._answer)

    def _report(self) -> "Report":
        from kvcalc.views.simulate_words import simulate_report

        return simulate_report(self._answer)


def simulate(
    model: Model | str | os.PathLike[str],
    trace: str | os.PathLike[str] | None = None,
    *,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    rate: float | None = None,
    input: int | str | None = None,  # noqa: A002 - the option's name
    output: int | str | None = None,
    requests: int = 1000,
    seed: int = 0,
    turns: int | str | None = None,
    think: str | float | None = None,
    seeds: int = 1,
    burstiness: float = 1.0,
    rate_scale: float = 1.0,
    spread_ties: bool = False,
    step: str | float | None = None,
    block_size: int | None = None,
    kv_dtype: str | None = None,
    gpu: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    utilization: float | str | None = None,
    weights: int | str | None = None,
    overhead: int | str | None = None,
    lora: str | None = None,
    beside: str | list[str] | None = None,
    tp: int | None = None,
    pp: int | None = None,
    engine: str | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | str | None = None,
    enforce_eager: bool | None = None,
    language_model_only: bool | None = None,
    replicas: int | Literal["auto"] = 1,
    router: Literal["round-robin", "least-loaded", "prefix"] = "round-robin",
    prefill: int | None = None,
    decode: int | None = None,
    link: str | None = None,
    prefix_cache: bool = False,
    tier: str | list[str] | None = None,
    day: str | os.PathLike[str] | None = None,
    bin: str | float | None = None,  # noqa: A002 - the option's name
    start_time: str | float | None = None,
    prices: Mapping[str, float] | None = None,
    capacity: int | str | list[int | str] | None = None,
    ttft: str | float | None = None,
    tpot: str | float | None = None,
    e2e: str | float | None = None,
    percentile: str | float | None = None,
    executor: "Executor | None" = None,
) -> SimulateResult:
    """Replay a file of requests, or requests that are made up, on a deployment; with `step`, a fixed time a token and
    no limit of memory. An `executor` of `concurrent.futures` does what is independent. Raises KvcalcError.
    """
    from kvcalc.perf.tiers import tiers_of
    from kvcalc.queries.pools import pools_of
    from kvcalc.queries.seeds import answer
    from kvcalc.queries.simulation import OpenLoop, SimulateQuestion

    with in_python():
        if day is not None and input is not None and rate is not None:
            raise KvcalcError("rate: contradicts day, which has the rates")
        blocks = optional(count_of, block_size, "block_size")
        looped = None if step is None else OpenLoop(seconds_of(step, "step"), blocks or 1)
        return SimulateResult(
            answer(
                SimulateQuestion(
                    source=source_of(model),
                    traffic=_traffic(
                        trace,
                        time_unit,
                        1.0 if day is not None and rate is None and trace is None else rate,
                        input,
                        output,
                        requests,
                        seed,
                        seeds,
                        (turns, think),
                        burstiness,
                        rate_scale,
                        spread_ties,
                    ),
                    open=looped,
                    form=form_of(kv_dtype, None, None, None),
                    split=split_of(tp, pp, None, None),
                    memory=memory_of(
                        None, card_of(gpu, gpu_file), None, utilization, weights, overhead, lora, beside=beside
                    ),
                    engine=EngineChoice(
                        optional(text_of, engine, "engine"),
                        None,
                        None if looped else blocks,
                        run_of(max_num_seqs, max_num_batched_tokens, enforce_eager, language_model_only),
                    ),
                    replicas="auto" if replicas == "auto" else gpus_of(replicas, "replicas"),
                    router=choice_of(router, "router", "round-robin", "least-loaded", "prefix"),
                    prefix_cache=switch_of(prefix_cache, "prefix_cache"),
                    tiers=() if tier is None else tiers_of(words_of(tier, "tier"), "tier"),
                    day=_day(day, bin, start_time, prices),
                    pools=pools_of(
                        optional(gpus_of, prefill, "prefill"),
                        optional(gpus_of, decode, "decode"),
                        optional(text_of, link, "link"),
                    ),
                    capacities=_capacities(capacity),
                    targets=targets_of(ttft, tpot, e2e, percentile),
                ),
                optional(workers_of, executor, "executor"),
            )
        )


def _traffic(
    trace: object, unit: object, rate: object, prompt: object, generated: object, requests: object, seed: object,
    seeds: object, session: tuple[object, object], burstiness: object, rate_scale: object, spread_ties: object,
) -> "Traffic":  # fmt: skip
    from kvcalc.queries.simulation import MadeUp, Traffic

    if trace is None and prompt is None and generated is None:
        raise KvcalcError("trace: expected a file of requests", "or rate, input and output to make them up")
    turns, think = session
    if (turns is None) != (think is None) or (turns is not None and prompt is None):
        raise KvcalcError("turns: sessions are made up of rate, input, output, turns and think together")
    made = None
    if prompt is not None or generated is not None:
        if prompt is None or generated is None:
            raise KvcalcError("input: requests are made up of rate, input and output together")
        numbered = 0 if seed == 0 and seed is not False else count_of(seed, "seed")
        lengths = length_of(prompt, "input"), length_of(generated, "output")
        made = MadeUp(
            *lengths,
            count_of(requests, "requests"),
            numbered,
            *_turns(turns, think),
            count_of(seeds, "seeds", 1000),
        )
    elif count_of(seeds, "seeds", 1000) > 1:
        raise KvcalcError("seeds: requests of a file are no draws")
    return Traffic(
        optional(path_of, trace, "trace"),
        None if unit is None else choice_of(unit, "time_unit", "s", "ms", "us", "ns"),
        made,
        None if rate is None else _arrivals(rate_of(rate, "rate"), burstiness),
        rate_of(rate_scale, "rate_scale"),
        switch_of(spread_ties, "spread_ties"),
    )


def _turns(turns: object, think: object) -> "tuple[Length | None, Length | None]":
    from kvcalc.perf.workload import Length
    from kvcalc.traffic.turns import pause_of

    if turns is None:
        return None, None
    pause = pause_of(think, "think") if isinstance(think, str) else Length(1000 * seconds_of(think, "think"))
    return length_of(turns, "turns"), pause


def _arrivals(rate: float, burstiness: object) -> "Arrivals":
    from kvcalc.traffic.arrivals import Arrivals

    if burstiness == 0 and burstiness is not False:
        return Arrivals(rate, "constant")
    variation = rate_of(burstiness, "burstiness")
    return Arrivals(rate) if variation == 1 else Arrivals(rate, "gamma", variation)


def _day(day: object, part: object, start_time: object, prices: Mapping[str, float] | None) -> "DayPlan | None":
    from kvcalc.queries.day import DayPlan

    if day is None and part is None:
        for name, given in (("start_time", start_time), ("prices", prices)):
            if given:
                raise KvcalcError(f"{name}: has no effect without day or bin")
        return None
    if day is not None and part is not None:
        raise KvcalcError("bin: contradicts day, which has the rates")
    return DayPlan(
        optional(path_of, day, "day"),
        optional(seconds_of, start_time, "start_time") or 0.0,
        optional(seconds_of, part, "bin"),
        prices_of(prices or {}),
    )


def _capacities(capacity: object) -> tuple[int | str, ...]:
    if capacity is None:
        return ()
    listed = sequence_of(capacity, "capacity", "capacities") if isinstance(capacity, list | tuple) else [capacity]
    return tuple(_capacity(each) for each in listed)


def _capacity(each: object) -> int | str:
    """Tokens, or a size of memory as text."""
    if not isinstance(each, str):
        return bytes_of(each, "capacity", zero=False)
    if each.strip().lower().endswith(("b", "i")):
        parse_size(each, "capacity")
        return each
    return parse_tokens(each, "capacity")
