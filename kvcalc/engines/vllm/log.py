"""How vLLM's start-up reads, from 0.2 on.

Sources: `v1/core/kv_cache_utils.py`, `v1/worker/gpu_worker.py`, `platforms/interface.py`; for the engine before V1
`executor/executor_base.py` and `worker/worker.py`; and logs that people posted.
"""

from collections.abc import Iterator

from kvcalc.engines.log_form import LogFacts, LogForm, StartLog, line
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.vllm.check import expect
from kvcalc.engines.vllm.failed import FAILURES, failure
from kvcalc.engines.vllm.log_memory import MEMORY, TERMS
from kvcalc.engines.vllm.variations import rules_of, variations, ways

__all__ = ["FORM"]

_KEYS = (
    "model", "dtype", "max_seq_len", "max_model_len", "tensor_parallel_size", "pipeline_parallel_size",
    "data_parallel_size", "decode_context_parallel_size", "kv_cache_dtype", "block_size", "max_num_batched_tokens",
    "enable_prefix_caching", "async_scheduling", "disable_hybrid_kv_cache_manager", "mamba_cache_mode",
    "mamba_cache_dtype", "mamba_ssm_cache_dtype", "num_speculative_tokens", "num_spec_tokens", "method", "swap_space",
    "num_gpu_blocks_override", "kv_cache_memory_bytes", "speculative_config", "max_num_seqs", "enforce_eager",
    "gpu_memory_utilization", "enable_expert_parallel", "language_model_only", "enable_lora",
    "max_loras", "max_lora_rank",
)  # fmt: skip

_ENGINE = r"Initializing an? (?:V\d )?LLM engine(?: \(v?(?P<version>[^)\s]{1,60})\))? with config:"
_LINES = (
    line("API server version", r"API server version (?P<version>\d\S{0,60})", "start"),
    line("non-default args", r"non-default args: \{", "start", _KEYS),
    line("args: Namespace(", r"args: Namespace\(", "start", _KEYS),
    line("LLM engine", _ENGINE, "start", _KEYS),
    line("Worker", r"Worker\w{0,20} ?TP\d{1,4}\b"),  # who signs it is all it says
    line("speculative_config", r"(?P<speculation>speculative_config)['\"]? ?[=:]"),
    line("Using max model len", r"Using max model len (?P<max_model_len>\d+)"),
    line("Chunked prefill is", r"prefill is enabled with max_num_batched_tokens=(?P<max_num_batched_tokens>\d+)"),
    line("Asynchronous scheduling is", r"Asynchronous scheduling is (?P<asynchronous>enabled|disabled)"),
    line("GDN prefill kernel", r"Using (?P<gdn>Triton|FlashInfer|CPU)\S* GDN prefill kernel"),
    line("Mamba cache mode is set", r"Mamba cache mode is set to '(?P<mamba_cache_mode>\w{1,20})'"),
    line("kv cache block size to", r"Setting kv cache block size to (?P<block_size>\d+)"),
    line("mamba page size", r"Setting attention block size to (?P<attn_block>[\d,]+) tokens", "count"),
    line("mamba page size", r"Padding mamba page size by (?P<mamba_pad_pct>[\d.]+)%", "count"),
    line("KV cache", r"Available KV cache memory: (?P<available>-?[\d.]+) GiB", "count"),
    line("KV cache", r"Explicitly set \((?P<available>[\d.]+)/[\d.]+\) GiB for KV cache(?P<cpu>)", "count"),
    line("Memory profiling results", r"\bkv_cache_size=(?P<available>-?[\d.]+) ?GiB", "count"),  # 0.6
    line("memory for KV Cache", r"reserved (?P<available>[\d.]+) GiB memory for KV Cache as specified", "count"),
    line("Cache is ", r"reserved for KV Cache is (?P<available>-?[\d.]+) ?GiB", "count"),
    line(" blocks: ",
         r"# (?P<device>\w{2,8}) blocks: (?P<num_blocks>\d+)(?:, # CPU blocks: (?P<cpu_blocks>\d+))?", "count"),
    line("num_gpu_blocks is", r"num_gpu_blocks is: (?P<num_blocks>\d+)", "count"),
    line("KV cache", r"\b[A-Z]{2,8} KV cache size: (?P<tokens>[\d,]+) tokens", "count"),
    line("Maximum concurrency for",
         r"Maximum concurrency for (?P<length>[\d,]+) tokens per request: (?P<concurrency>[\d,.]+)x", "count"),
    *FAILURES,
    *MEMORY,
)  # fmt: skip

_FLAGS = (
    ("max_model_len", "--max-model-len"),
    ("tensor_parallel_size", "--tensor-parallel-size"),
    ("pipeline_parallel_size", "--pipeline-parallel-size"),
    ("data_parallel_size", "--data-parallel-size"),
    ("decode_context_parallel_size", "--decode-context-parallel-size"),
    ("kv_cache_dtype", "--kv-cache-dtype"),
    ("block_size", "--block-size"),
    ("max_num_batched_tokens", "--max-num-batched-tokens"),
    ("mamba_cache_mode", "--mamba-cache-mode"),
    ("mamba_cache_dtype", "--mamba-cache-dtype"),
    ("mamba_ssm_cache_dtype", "--mamba-ssm-cache-dtype"),
    ("num_gpu_blocks_override", "--num-gpu-blocks-override"),
    ("kv_cache_memory_bytes", "--kv-cache-memory-bytes"),
    ("swap_space", "--swap-space"),
    ("dtype", "--dtype"),
    ("max_num_seqs", "--max-num-seqs"),
    ("gpu_memory_utilization", "--gpu-memory-utilization"),
    ("max_loras", "--max-loras"),
    ("max_lora_rank", "--max-lora-rank"),
)
_SWITCHES = (
    ("enable_prefix_caching", "enable-prefix-caching"),
    ("async_scheduling", "async-scheduling"),
    ("disable_hybrid_kv_cache_manager", "disable-hybrid-kv-cache-manager"),
    ("enforce_eager", "enforce-eager"),
    ("enable_expert_parallel", "enable-expert-parallel"),
    ("language_model_only", "language-model-only"),
    ("enable_lora", "enable-lora"),
)


def _said(run: StartLog) -> LogFacts:
    model = run.first("model")
    # a configuration that is cut is cut at its end, before which the one stands behind the other
    late = ("kv_cache_dtype", "enable_prefix_caching")
    stated = {"tp": run.stated("tensor_parallel_size", *late) or run.workers > 0, "kv_dtype": run.stated(*late)}
    return LogFacts(
        (model,) if model else (),
        run.last("version"),
        tuple(_words(run)),
        rules=rules_of(run),
        open=frozenset(name for name, known in stated.items() if not known),
        auto=frozenset({"kv_dtype"} if run.last("kv_cache_dtype") == "auto" else ()),
    )


def _words(run: StartLog) -> Iterator[str]:
    """What the log says, as the flags that would have said it. The last one counts, as vLLM settles things late."""
    length = run.last("length") or run.last("max_seq_len")
    for key, flag in _FLAGS:
        value = (length if key == "max_model_len" else None) or run.last(key)
        if value is not None and value != "auto":
            yield from (flag, value.replace(",", "").removeprefix("torch."))
    if run.last("tensor_parallel_size") is None and run.workers:
        yield from ("--tensor-parallel-size", str(run.workers))
    for key, name in _SWITCHES:
        value = run.last(key)
        if value in ("True", "False"):
            yield f"--{'' if value == 'True' else 'no-'}{name}"
    if run.last("mamba_cache_mode") == "align" and run.last("enable_prefix_caching") is None:
        yield "--enable-prefix-caching"
    asynchronous = run.last("asynchronous")
    if asynchronous is not None:
        yield f"--{'' if asynchronous == 'enabled' else 'no-'}async-scheduling"
    if run.last("gdn") is not None:
        yield from ("--gdn-prefill-backend", str(run.last("gdn")).lower())
    drafted = plain(run.first("num_speculative_tokens") or run.first("num_spec_tokens"))
    if drafted:
        method = run.first("method") or ""
        yield from ("--speculative-config", f'{{"method": "{method}", "num_speculative_tokens": {drafted}}}')


FORM = LogForm(_LINES, _said, expect, ways, variations, failure, terms=TERMS)
