"""How TensorRT-LLM's start-up reads.

Sources: main branch of 2026, `_torch/pyexecutor/_util.py`, `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp`; logs
that people posted, from 0.8 on.
"""

from collections.abc import Iterator

from kvcalc.engines.log_form import LogFacts, LogForm, StartLog, line
from kvcalc.engines.log_numbers import digits, plain
from kvcalc.engines.log_terms import Parts
from kvcalc.engines.tensorrt_llm.check import expect, ways
from kvcalc.engines.tensorrt_llm.failed import FAILURES, failure
from kvcalc.engines.tensorrt_llm.versions import VERSIONS

__all__ = ["FORM"]

_KEYS = (
    "model", "tensor_parallel_size", "pipeline_parallel_size", "tp_size", "pp_size", "max_seq_len", "kv_cache_dtype",
    "tokens_per_block", "max_batch_size", "max_num_tokens",
)  # fmt: skip

_LINES = (
    line("TensorRT-LLM version", r"TensorRT-LLM version: (?P<version>\d\S{0,60})", "start"),
    line("PyTorchConfig(", r"PyTorchConfig\(", "fact", ("kv_cache_dtype",)),
    line("engine args:", r"engine args: \{", "fact", _KEYS),
    line("kv_cache_quant_algo", r"Setting kv_cache_quant_algo=(?P<quantised>\w{1,20})"),  # of the checkpoint
    line("MPI size", r"MPI size: (?P<world>\d{1,5}), "),
    line("okens per block", r"Number of tokens per block: (?P<block>\d+)"),
    line("okens per block",
         r"blocks per sequence: \d+(?: \[window size=(?P<window>\d+)\])?, tokens per block=(?P<block>\d+), "
         r"primary blocks=(?P<num_blocks>\d+).{0,60}?(?:max sequence length=(?P<max_seq_len>\d+)|$)", "count"),
    line("KV cache", r"blocks in KV cache primary pool: (?P<num_blocks>\d+)", "count"),
    line(" are set (to ", r"are set \(to (?P<fraction>[\d.]+) and (?P<max_tokens>\d+)"),
    line("KV cache", r"Estimated max memory in KV cache ?: (?P<estimated>[\d.]+) GiB", "count"),
    line("KV cache",
         r"available KV cache memory when calculating max tokens: (?P<estimated>[\d.]+) GiB, +fraction is set "
         r"(?P<fraction>[\d.]+), +kv size(?: per token)? is (?P<token_bytes>\d+)", "count"),
    line("max tokens in paged kv cache:",
         r"max tokens in paged kv cache: total: [\d.]+ GiB, available: (?P<available>[\d.]+) GiB", "count"),
    line("KV cache",
         r"Allocated (?P<kv_gib>[\d.]+) GiB for max tokens in paged KV cache \((?P<tokens>\d+)\)", "count"),
    line("KV cache",  # of 0.11
         r"Max tokens in paged KV cache: (?P<tokens>\d+)\. Allocating (?P<bytes>\d+) bytes", "count"),
    line("k/v cache", r"Allocate (?P<bytes>\d+) bytes for k/v cache", "count"),
    line("KV cache", r"Using (?P<tokens>\d+)(?: total)? tokens in paged KV cache", "count"),
    line("in memory usage profiling",
         r"after loading model weights \(inside torch\) in memory usage profiling: (?P<weights>[\d.]+) GiB", "memory"),
    line("in memory usage profiling",
         r"during inference \(inside torch\) in memory usage profiling: (?P<inference>[\d.]+) GiB", "memory"),
    line("during memory usage profiling",
         r"Peak memory during memory usage profiling \(torch \+ non-torch\): (?P<peak>[\d.]+) GiB"
         r"(?:.{0,200}?fraction is set (?P<fraction>[\d.]+))?(?:.{0,80}?device total memory (?P<total>[\d.]+) GiB)?",
         "memory"),
    *FAILURES,
)  # fmt: skip


def _said(run: StartLog) -> LogFacts:
    model = run.first("model")
    stated = {
        "tp": run.stated("tensor_parallel_size", "tp_size", "world"),
        "kv_dtype": _quantised(run) is not None or run.stated("kv_cache_dtype"),
    }
    return LogFacts(
        (model,) if model else (),
        run.last("version"),
        tuple(_words(run)),
        rules=VERSIONS[0].name if run.last("bytes") else None,  # of the first releases alone
        open=frozenset(name for name, known in stated.items() if not known),
        auto=frozenset(
            {"kv_dtype"} if _quantised(run) is None and run.last("kv_cache_dtype") in (None, "auto") else ()
        ),
    )


# Formats that a checkpoint may declare for the cache, which hold unless a flag says another (llmapi/llm_args.py).
_QUANTISED = {"fp8": "fp8", "nvfp4": "nvfp4", "int8": "int8"}


def _quantised(run: StartLog) -> str | None:
    return _QUANTISED.get((run.last("quantised") or "").lower())


def _words(run: StartLog) -> Iterator[str]:
    stages, world = plain(run.last("pipeline_parallel_size") or run.last("pp_size")) or 1, plain(run.last("world"))
    if world and world > 1 and not world % stages and run.last("tensor_parallel_size") is run.last("tp_size") is None:
        yield from ("--tp_size", str(world // stages))  # a process for each GPU
    if run.last("kv_cache_dtype") in (None, "auto") and (quantised := _quantised(run)) is not None:
        yield from ("--kv_cache_dtype", quantised)
    for keys, flag in (
        (("tensor_parallel_size", "tp_size"), "--tp_size"),
        (("pipeline_parallel_size", "pp_size"), "--pp_size"),
        (("max_seq_len",), "--max_seq_len"),
        (("block", "tokens_per_block"), "--tokens_per_block"),
        (("kv_cache_dtype",), "--kv_cache_dtype"),
        (("max_batch_size",), "--max_batch_size"),
        (("max_num_tokens",), "--max_num_tokens"),
    ):
        value = next((run.last(key) for key in keys if run.last(key) not in (None, "auto")), None)
        if value is not None:
            yield from (flag, value.lower())
    share = digits(run.last("fraction"))
    if share is not None and 0 < share.value <= 10**share.places:  # a float in all its digits: 0.8999999761581421
        yield from ("--kv_cache_free_gpu_memory_fraction", f"{share.value / 10**share.places:.4f}")


_TERMS = {
    "total": Parts("total", ("total",)),
    "weights": Parts("weights", ("weights",)),
    "inference": Parts("activations", ("activations",)),
    "peak": Parts("peak", ("weights", "runtime", "communication", "activations", "sampler")),
    "estimated": Parts("cache", ("cache",)),
}

FORM = LogForm(_LINES, _said, expect, ways, failure=failure, terms=_TERMS)
