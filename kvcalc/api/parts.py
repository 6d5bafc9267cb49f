"""Arguments of the Python interface that belong together become one part of a question."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvcalc.api.arguments import (
    adapters_of,
    bytes_of,
    choice_of,
    context_of,
    count_of,
    fraction_of,
    gpus_of,
    heads_of,
    images_of,
    optional,
    path_of,
    rate_of,
    size_of,
    switch_of,
    text_of,
    tokens_of,
    weights_of,
    words_of,
    wrong,
)
from kvcalc.errors import KvcalcError
from kvcalc.queries.options import CacheFormat, Memory, NamedGpu, RunOptions, Split, Workload

if TYPE_CHECKING:
    from kvcalc.queries.simulation import Traffic

__all__ = ["form_of", "memory_of", "prices_of", "run_of", "split_of", "trace_of", "workload_of"]


def workload_of(context: object, batch: object, encoder_tokens: object, images: object = None) -> Workload:
    """Sequences and their lengths."""
    return Workload(
        optional(context_of, context, "context"),
        optional(count_of, batch, "batch"),
        optional(tokens_of, encoder_tokens, "encoder_tokens"),
        optional(images_of, images, "images"),
    )


def form_of(kv_dtype: object, k_dtype: object, v_dtype: object, kv_heads: object) -> CacheFormat:
    """Formats of keys and values."""
    return CacheFormat(
        optional(text_of, kv_dtype, "kv_dtype"),
        optional(text_of, k_dtype, "k_dtype"),
        optional(text_of, v_dtype, "v_dtype"),
        optional(heads_of, kv_heads, "kv_heads"),
    )


def split_of(
    tp: object, pp: object, dp: object, dcp: object, gpus: object = None, ep: object = None, dp_attention: object = None
) -> Split:
    """The split over GPUs."""
    return Split(
        optional(gpus_of, tp, "tp"),
        optional(gpus_of, pp, "pp"),
        optional(gpus_of, dp, "dp"),
        optional(gpus_of, dcp, "dcp"),
        optional(gpus_of, gpus, "gpus"),
        optional(gpus_of, ep, "ep"),
        optional(switch_of, dp_attention, "dp_attention") or None,
    )


def run_of(
    max_num_seqs: object, max_num_batched_tokens: object, enforce_eager: object, language_model_only: object
) -> RunOptions:
    """How an engine runs."""
    return RunOptions(
        optional(count_of, max_num_seqs, "max_num_seqs"),
        optional(tokens_of, max_num_batched_tokens, "max_num_batched_tokens"),
        optional(switch_of, enforce_eager, "enforce_eager"),
        optional(switch_of, language_model_only, "language_model_only"),
    )


def memory_of(
    vram: object,
    gpu: NamedGpu | None,
    kv_memory: object,
    utilization: object,
    weights: object,
    overhead: object,
    lora: object = None,
    draft: object = None,
    beside: object = None,
) -> Memory:
    """What one GPU offers, and what comes off it."""
    return Memory(
        optional(size_of, vram, "vram"),
        gpu,
        optional(size_of, kv_memory, "kv_memory"),
        optional(fraction_of, utilization, "utilization"),
        optional(weights_of, weights, "weights"),
        optional(bytes_of, overhead, "overhead"),
        optional(adapters_of, lora, "lora"),
        optional(text_of, draft, "draft"),
        () if beside is None else tuple(words_of(beside, "beside")),
    )


def trace_of(path: object, unit: object, scale: object) -> "Traffic | None":
    """Requests of a file; what says how to read one is not passed over where there is none."""
    from kvcalc.queries.simulation import Traffic

    if path is None:
        if unit is not None or scale != 1:
            raise KvcalcError(f"{'rate_scale' if unit is None else 'time_unit'}: has no effect without trace")
        return None
    read = None if unit is None else choice_of(unit, "time_unit", "s", "ms", "us", "ns")
    return Traffic(path_of(path, "trace"), read, rate_scale=rate_of(scale, "rate_scale"))


def prices_of(prices: Mapping[str, float]) -> dict[str, float]:
    """By the full names of cards."""
    if not isinstance(prices, Mapping):
        raise wrong("prices", "a mapping of cards to what an hour costs", prices)
    from kvcalc.cards.names import card_called

    return {card_called(name, "prices")[1].name: rate_of(price, "prices") for name, price in prices.items()}
