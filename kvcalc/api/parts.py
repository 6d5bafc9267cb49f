"""Arguments of the Python interface that belong together become one part of a question."""

from kvcalc.api.arguments import (
    adapters_of,
    bytes_of,
    context_of,
    count_of,
    fraction_of,
    gpus_of,
    heads_of,
    optional,
    size_of,
    switch_of,
    text_of,
    tokens_of,
    weights_of,
    words_of,
)
from kvcalc.queries.options import CacheFormat, Memory, NamedGpu, RunOptions, Split, Workload

__all__ = ["form_of", "memory_of", "run_of", "split_of", "workload_of"]


def workload_of(context: object, batch: object, encoder_tokens: object) -> Workload:
    """Sequences and their lengths."""
    return Workload(
        optional(context_of, context, "context"),
        optional(count_of, batch, "batch"),
        optional(tokens_of, encoder_tokens, "encoder_tokens"),
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
