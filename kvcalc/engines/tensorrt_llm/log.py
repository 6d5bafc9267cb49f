"""How TensorRT-LLM's start-up reads.

Sources: main branch of 2026, `_torch/pyexecutor/_util.py`, `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp`; logs
that people posted, from 0.8 on.
"""

from collections.abc import Iterator

from kvcalc.engines.log_form import LogFacts, LogForm, StartLog, line
from kvcalc.engines.tensorrt_llm.check import expect, variations

__all__ = ["FORM"]

_KEYS = (
    "model", "tensor_parallel_size", "pipeline_parallel_size", "tp_size", "pp_size", "max_seq_len", "kv_cache_dtype",
    "tokens_per_block",
)  # fmt: skip

_LINES = (
    line("TensorRT-LLM version", r"TensorRT-LLM version: (?P<version>\d\S{0,60})", "start"),
    line("PyTorchConfig(", r"PyTorchConfig\(", "fact", ("kv_cache_dtype",)),
    line("engine args:", r"engine args: \{", "fact", _KEYS),
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
    line("k/v cache", r"Allocate (?P<bytes>\d+) bytes for k/v cache", "count"),
    line("KV cache", r"Using (?P<tokens>\d+) total tokens in paged KV cache", "count"),
)  # fmt: skip


def _said(run: StartLog) -> LogFacts:
    model = run.first("model")
    return LogFacts((model,) if model else (), run.last("version"), tuple(_words(run)))


def _words(run: StartLog) -> Iterator[str]:
    for keys, flag in (
        (("tensor_parallel_size", "tp_size"), "--tp_size"),
        (("pipeline_parallel_size", "pp_size"), "--pp_size"),
        (("max_seq_len",), "--max_seq_len"),
        (("block", "tokens_per_block"), "--tokens_per_block"),
        (("kv_cache_dtype",), "--kv_cache_dtype"),
    ):
        value = next((run.last(key) for key in keys if run.last(key) not in (None, "auto")), None)
        if value is not None:
            yield from (flag, value.lower())


FORM = LogForm(_LINES, _said, expect, variations)
