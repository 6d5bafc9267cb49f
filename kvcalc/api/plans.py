"""Plans, what caching buys, and logs."""

import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, Literal

from kvcalc.api.arguments import (
    adapters_of,
    bytes_of,
    card_of,
    cards_of,
    choice_of,
    context_of,
    count_of,
    flags_of,
    fraction_of,
    gpus_of,
    images_of,
    in_python,
    optional,
    parameters_of,
    path_of,
    rate_of,
    size_of,
    source_of,
    switch_of,
    text_of,
    tokens_of,
    weights_of,
    words_of,
    workers_of,
    wrong,
)
from kvcalc.api.parts import form_of, prices_of, run_of, split_of, trace_of, workload_of
from kvcalc.api.results import CheckResult, PlanResult, TradeoffResult
from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError, escape
from kvcalc.queries.source import load_model

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from kvcalc.perf.latency import Targets
    from kvcalc.perf.workload import Length

__all__ = ["check", "length_of", "plan", "prices_of", "seconds_of", "targets_of", "tradeoff"]


def plan(
    model: Model | str | os.PathLike[str],
    *,
    users: int = 1,
    context: int | str | None = None,
    input: int | str | None = None,  # noqa: A002 - the option's name
    output: int | str | None = None,
    rate: float | None = None,
    shared_prefix: int | str = 0,
    encoder_tokens: int | str | None = None,
    images: int | str | None = None,
    kv_dtype: str | Sequence[str] = "auto",
    weights: str | Sequence[str] = "auto",
    engine: str | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | str | None = None,
    enforce_eager: bool | None = None,
    language_model_only: bool | None = None,
    gpu: str | Sequence[str] | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    max_gpus: int = 64,
    vram: int | str | None = None,
    utilization: float | str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    dcp: int | None = None,
    across_machines: bool = False,
    overhead: int | str | None = None,
    lora: str | None = None,
    beside: str | list[str] | None = None,
    ttft: str | float | None = None,
    tpot: str | float | None = None,
    e2e: str | float | None = None,
    percentile: str | float | None = None,
    prefix_hit: float | str = 0.0,
    count: Literal["machine", "any"] = "machine",
    prices: Mapping[str, float] | None = None,
    sort: Literal["rank", "price", "tpot", "rate"] = "rank",
    trace: str | os.PathLike[str] | None = None,
    time_unit: Literal["s", "ms", "us", "ns"] | None = None,
    rate_scale: float = 1.0,
    top: int | None = None,
    executor: "Executor | None" = None,
) -> PlanResult:
    """Which GPUs, how many, split how, with which cache. Lengths are tokens, a mean or "mean/95th percentile"; `rate`
    is requests a second. Targets are seconds, or text with a unit; `prices` are those of an hour of a card by its name.
    A `trace` takes the place of lengths and rate, and `top` of its rows (3) are replayed, by an `executor` of
    `concurrent.futures` if there is one. Raises KvcalcError.
    """
    from kvcalc.queries.plan import DeploymentQuestion
    from kvcalc.queries.plan import answer as by_lengths

    with in_python():
        question = DeploymentQuestion(
            source=source_of(model),
            context=optional(context_of, context, "context"),
            users=count_of(users, "users"),
            input=optional(length_of, input, "input"),
            output=optional(length_of, output, "output"),
            rate=optional(rate_of, rate, "rate"),
            shared_prefix=_prefix_of(shared_prefix, "shared_prefix"),
            encoder_tokens=optional(tokens_of, encoder_tokens, "encoder_tokens"),
            images=optional(images_of, images, "images"),
            kv_dtypes=_lower(kv_dtype, "kv_dtype"),
            weights=_lower(weights, "weights"),
            engine=optional(text_of, engine, "engine"),
            run=run_of(max_num_seqs, max_num_batched_tokens, enforce_eager, language_model_only),
            gpus="all" if gpu == "all" else cards_of(gpu, gpu_file),
            gpu_file=optional(path_of, gpu_file, "gpu_file"),
            max_gpus=gpus_of(max_gpus, "max_gpus"),
            vram=optional(size_of, vram, "vram"),
            utilization=optional(fraction_of, utilization, "utilization"),
            split=split_of(tp, pp, dp, dcp),
            across_machines=switch_of(across_machines, "across_machines"),
            overhead=optional(bytes_of, overhead, "overhead"),
            lora=optional(adapters_of, lora, "lora"),
            beside=() if beside is None else tuple(words_of(beside, "beside")),
            targets=targets_of(ttft, tpot, e2e, percentile),
            prefix_hit=0.0 if prefix_hit == 0 else _share_of(prefix_hit, "prefix_hit"),
            every_count=choice_of(count, "count", "machine", "any") == "any",
            prices=prices_of(prices or {}),
            sort=choice_of(sort, "sort", "rank", "price", "tpot", "rate"),
            trace=trace_of(trace, time_unit, rate_scale),
            top=optional(count_of, top, "top") or (10 if trace is None else 3),
        )
        workers = optional(workers_of, executor, "executor")
        if question.trace is None:
            if workers is not None:
                raise KvcalcError("executor: has no effect without trace")
            return PlanResult(by_lengths(question))
        from kvcalc.queries.plan_trace import answer as by_trace

        return PlanResult(by_trace(question, workers=workers))


def targets_of(ttft: object, tpot: object, e2e: object, percentile: object) -> "Targets | None":
    from kvcalc.core.durations import parse_percentile
    from kvcalc.perf.latency import Targets

    given = {"ttft": ttft, "tpot": tpot, "e2e": e2e}
    seconds = {name: seconds_of(value, name) for name, value in given.items() if value is not None}
    if not seconds:
        if percentile is not None:
            raise KvcalcError("percentile: has no effect without a target", "give ttft, tpot or e2e")
        return None
    if percentile is None:
        return Targets(**seconds)
    return Targets(**seconds, percentile=parse_percentile(str(percentile), "percentile"))


def _share_of(value: object, what: str) -> float:
    share = fraction_of(value, what)
    return share.part / share.of


def seconds_of(value: object, what: str) -> float:
    """Seconds as a number, or text with a unit."""
    from kvcalc.core.durations import parse_duration

    if isinstance(value, str):
        return parse_duration(value, what)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 10**9:
        raise wrong(what, "seconds as a number, or text with a unit", value)
    return float(value)


def length_of(value: object, what: str) -> "Length":
    """A length in tokens, or as text its mean and its 95th percentile."""
    from kvcalc.perf.workload import Length

    return Length.parse(value, what) if isinstance(value, str) else Length(count_of(value, what))


def _prefix_of(value: object, what: str) -> int:
    """Tokens, which may be none."""
    return 0 if isinstance(value, int) and value == 0 and value is not False else tokens_of(value, what)


def _lower(value: object, what: str) -> list[str]:
    """Words in lower case."""
    return [word.lower() for word in words_of(value, what)]


def tradeoff(
    model: Model | str | os.PathLike[str],
    *,
    input: int | str | None = None,  # noqa: A002 - the option's name
    output: int | str | None = None,
    context: int | str | None = None,
    batch: int | None = None,
    encoder_tokens: int | str | None = None,
    kv_dtype: str | None = None,
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    gpu: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    tp: int | None = None,
    weights: int | str | None = None,
    parameters: int | str | None = None,
    link: str | None = None,
    bandwidth_share: float | str | None = None,
    compute_share: float | str | None = None,
    tier: str | list[str] | None = None,
) -> TradeoffResult:
    """What caching buys: FLOPs of one sequence, seconds of the batch on a card, with the cache and without it.

    `input` and `output` are tokens of the prompt and new ones. Raises KvcalcError.
    """
    from kvcalc.perf.links import parse_links
    from kvcalc.perf.tiers import tiers_of
    from kvcalc.queries.tradeoff import TradeoffQuestion, answer

    with in_python():
        return TradeoffResult(
            answer(
                TradeoffQuestion(
                    source_of(model),
                    optional(tokens_of, input, "input"),
                    optional(tokens_of, output, "output"),
                    workload_of(context, batch, encoder_tokens),
                    form_of(kv_dtype, k_dtype, v_dtype, kv_heads),
                    card_of(gpu, gpu_file),
                    optional(gpus_of, tp, "tp"),
                    optional(weights_of, weights, "weights"),
                    optional(parameters_of, parameters, "parameters"),
                    None if link is None else parse_links(text_of(link, "link")),
                    optional(fraction_of, bandwidth_share, "bandwidth_share"),
                    optional(fraction_of, compute_share, "compute_share"),
                    () if tier is None else tiers_of(words_of(tier, "tier"), "tier"),
                )
            )
        )


def check(
    log: str | os.PathLike[str] | BinaryIO,
    *,
    model: Model | str | os.PathLike[str] | None = None,
    context: int | str | None = None,
    batch: int | None = None,
    encoder_tokens: int | str | None = None,
    kv_dtype: str | None = None,
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    dcp: int | None = None,
    gpus: int | None = None,
    gpu: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    kv_memory: int | str | None = None,
    engine: str | None = None,
    flags: Sequence[str] = (),
) -> CheckResult:
    """An engine's start-up log against the prediction, line by line; `log` is a path or a binary stream.

    The other arguments are what you know better than the log. Raises KvcalcError where nothing in it can be compared.
    """
    from kvcalc.queries.check import CheckQuestion, answer

    with in_python():
        question = CheckQuestion(
            None if model is None else load_model(source_of(model)),
            workload_of(context, batch, encoder_tokens),
            form_of(kv_dtype, k_dtype, v_dtype, kv_heads),
            split_of(tp, pp, dp, dcp, gpus),
            card_of(gpu, gpu_file),
            optional(size_of, kv_memory, "kv_memory"),
            optional(text_of, engine, "engine"),
            flags_of(flags, "flags"),
        )
        if not isinstance(log, str | os.PathLike):
            return CheckResult(answer(_binary(log), "the log", question))
        path = path_of(log, "log")
        try:
            with open(path, "rb") as stream:
                return CheckResult(answer(stream, escape(path), question))
        except OSError as error:
            raise KvcalcError(f"{escape(path)}: {error.strerror}") from None


def _binary(log: object) -> BinaryIO:
    """A stream of bytes."""
    if isinstance(log, io.TextIOBase) or not callable(getattr(log, "read", None)):
        raise wrong("log", "a path or a binary stream", log)
    stream: BinaryIO = log  # type: ignore[assignment]
    return stream
