"""Plans, what caching buys, and logs."""

from collections.abc import Sequence
from typing import BinaryIO, Literal

from kvcalc.api.arguments import (
    bytes_of,
    card_of,
    cards_of,
    fraction_of,
    in_python,
    optional,
    source_of,
    weights_of,
    words_of,
)
from kvcalc.api.results import (
    CheckResult,
    PlanResult,
    TradeoffResult,
)
from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError, escape
from kvcalc.queries.options import CacheFormat, Split, Workload
from kvcalc.queries.source import load_model

__all__ = ["check", "plan", "tradeoff"]


def plan(
    model: Model | str,
    *,
    users: int = 1,
    context: int | Literal["max"] | None = None,
    input: int | str | None = None,  # noqa: A002 - the option's name
    output: int | str | None = None,
    rate: float | None = None,
    shared_prefix: int = 0,
    encoder_tokens: int | None = None,
    kv_dtype: str | Sequence[str] = "auto",
    weights: str | Sequence[str] = "auto",
    engine: str | None = None,
    gpu: str | Sequence[str] | None = None,
    gpu_file: str | None = None,
    max_gpus: int = 64,
    vram: int | str | None = None,
    utilization: float | str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    dcp: int | None = None,
    across_machines: bool = False,
    overhead: int | str | None = None,
    sort: Literal["rank", "price"] = "rank",
) -> PlanResult:
    """Which GPUs, how many, split how, with which cache. Lengths are tokens, a mean or "mean/95th percentile"; `rate`
    is requests a second. Raises KvcalcError.
    """
    from kvcalc.perf.workload import Length
    from kvcalc.queries.plan import DeploymentQuestion, answer

    with in_python():
        return PlanResult(
            answer(
                DeploymentQuestion(
                    source=source_of(model),
                    context=context,
                    users=users,
                    input=None if input is None else Length.parse(str(input), "input"),
                    output=None if output is None else Length.parse(str(output), "output"),
                    rate=rate,
                    shared_prefix=shared_prefix,
                    encoder_tokens=encoder_tokens,
                    kv_dtypes=words_of(kv_dtype),
                    weights=words_of(weights),
                    engine=engine,
                    gpus=cards_of(gpu, gpu_file),
                    gpu_file=gpu_file,
                    max_gpus=max_gpus,
                    vram=optional(bytes_of, vram, "vram"),
                    utilization=optional(fraction_of, utilization, "utilization"),
                    split=Split(tp, pp, dp, dcp),
                    across_machines=across_machines,
                    overhead=optional(bytes_of, overhead, "overhead"),
                    sort=sort,
                )
            )
        )


def tradeoff(
    model: Model | str,
    *,
    input: int | None = None,  # noqa: A002 - the option's name
    output: int | None = None,
    context: int | Literal["max"] | None = None,
    batch: int | None = None,
    encoder_tokens: int | None = None,
    kv_dtype: str | None = None,
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    gpu: str | None = None,
    gpu_file: str | None = None,
    tp: int | None = None,
    weights: int | str | None = None,
    parameters: int | None = None,
    link: str | None = None,
    bandwidth_share: float | str | None = None,
    compute_share: float | str | None = None,
) -> TradeoffResult:
    """What caching buys: FLOPs of one sequence, seconds of the batch on a card, with the cache and without it.

    `input` and `output` are tokens of the prompt and new ones. Raises KvcalcError.
    """
    from kvcalc.perf.links import parse_links
    from kvcalc.queries.tradeoff import TradeoffQuestion, answer

    with in_python():
        return TradeoffResult(
            answer(
                TradeoffQuestion(
                    source_of(model),
                    input,
                    output,
                    Workload(context, batch, encoder_tokens),
                    CacheFormat(kv_dtype, k_dtype, v_dtype, kv_heads),
                    card_of(gpu, gpu_file),
                    tp,
                    optional(weights_of, weights, "weights"),
                    parameters,
                    None if link is None else parse_links(link),
                    optional(fraction_of, bandwidth_share, "bandwidth_share"),
                    optional(fraction_of, compute_share, "compute_share"),
                )
            )
        )


def check(
    log: str | BinaryIO,
    *,
    model: Model | str | None = None,
    context: int | Literal["max"] | None = None,
    batch: int | None = None,
    encoder_tokens: int | None = None,
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
    gpu_file: str | None = None,
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
            Workload(context, batch, encoder_tokens),
            CacheFormat(kv_dtype, k_dtype, v_dtype, kv_heads),
            Split(tp, pp, dp, dcp, gpus),
            card_of(gpu, gpu_file),
            optional(bytes_of, kv_memory, "kv_memory"),
            engine,
            flags,
        )
        if not isinstance(log, str):
            return CheckResult(answer(log, "the log", question))
        try:
            with open(log, "rb") as stream:
                return CheckResult(answer(stream, escape(log), question))
        except OSError as error:
            raise KvcalcError(f"{escape(log)}: {error.strerror}") from None
