"""How SGLang's start-up reads.

Sources: SGLang 0.5.23, `srt/mem_cache/memory_pool.py`, `swa_memory_pool.py`, `model_executor/pool_configurator.py`; and
logs that people posted.
"""

from collections.abc import Iterator

from kvcalc.engines.log_form import LogFacts, LogForm, StartLog, line
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.log_terms import Parts
from kvcalc.engines.sglang.check import expect
from kvcalc.engines.sglang.failed import FAILURES, failure
from kvcalc.engines.sglang.variations import variations, ways

__all__ = ["FORM"]

_KEYS = (
    "model_path", "context_length", "tp_size", "pp_size", "dp_size", "kv_cache_dtype", "page_size", "dtype",
    "swa_full_tokens_ratio", "mamba_ssm_dtype", "mamba_full_memory_ratio", "max_mamba_cache_size",
    "disable_radix_cache", "enable_dp_attention", "attn_dp_size", "disable_hybrid_swa_memory", "mem_fraction_static",
    "max_total_tokens", "max_running_requests", "chunked_prefill_size",
)  # fmt: skip

_LINES = (
    line("server_args=ServerArgs(", r"server_args=ServerArgs\(", "start", _KEYS),
    line("Load weight ", r"Load weight begin\. avail mem=(?P<before_gb>[\d.]+) GB"),
    line("Load weight ", r"Load weight end\..{1,200}?avail mem=(?P<after_gb>[\d.]+) GB"
         r"(?:, mem usage=(?P<taken_gb>[\d.]+) GB)?"),
    line("KV cache", r"Using KV cache dtype: (?:torch\.)?(?P<held_dtype>\w+)"),
    line("liding window memory pool",
         r"[Uu]se [Ss]liding window memory pool.{0,20}?full_layer_tokens=(?P<full_layer_tokens>-?\d+), "
         r"swa_layer_tokens=(?P<swa_layer_tokens>-?\d+)", "count"),
    line("Cache is ",
         r"max_mamba_cache_size: (?P<mamba_slots>\d+), conv_state size: (?P<conv_gb>[\d.]+) ?GB, "
         r"ssm_state size: (?P<ssm_gb>[\d.]+) ?GB", "count"),
    line("Cache is ",
         r"KV Cache is allocated\.(?: dtype: (?:torch\.)?(?P<held_dtype>\w+),)? #tokens: (?P<tokens>\d+), "
         r"(?:K size: (?P<k_gb>[\d.]+) GB, V size: (?P<v_gb>[\d.]+)|KV size: (?P<kv_gb>[\d.]+)) GB", "count"),
    line("Cache is ",  # until February 2025
         r"KV Cache is allocated\. K size: (?P<k_gb>[\d.]+) GB, V size: (?P<v_gb>[\d.]+) GB", "count"),
    line("max_total_num_tokens=",
         r"\bmax_total_num_tokens=(?P<most>\d+),(?:.{0,200}?\bcontext_len=(?P<context_len>\d+))?", "count"),
    line("Memory pool end", r"Memory pool end\. avail mem=(?P<pooled_gb>[\d.]+) GB", "memory"),
    line("device_name=", r"device_name=(?P<card>\w{3,60})", "memory"),
    *FAILURES,
)  # fmt: skip

_FLAGS = (
    ("context_length", "--context-length"),
    ("pp_size", "--pp-size"),
    ("page_size", "--page-size"),
    ("swa_full_tokens_ratio", "--swa-full-tokens-ratio"),
    ("mamba_ssm_dtype", "--mamba-ssm-dtype"),
    ("mem_fraction_static", "--mem-fraction-static"),
)


def _said(run: StartLog) -> LogFacts:
    model = run.first("model_path")
    stated = {
        "tp": run.stated("tp_size") or run.workers > 0,
        "kv_dtype": run.last("held_dtype") is not None or run.stated("kv_cache_dtype"),
    }
    return LogFacts(
        (model,) if model else (),
        None,
        tuple(_words(run)),
        open=frozenset(name for name, known in stated.items() if not known),
        auto=frozenset({"kv_dtype"} if run.last("held_dtype") is None else ()),
    )


def _words(run: StartLog) -> Iterator[str]:
    for key, flag in _FLAGS:
        value = run.last(key)
        if value is not None:
            yield from (flag, value)
    if run.last("context_length") is None and run.last("context_len") is not None:
        yield from ("--context-length", str(run.last("context_len")))
    kept = run.first("held_dtype") or run.last("kv_cache_dtype")
    if kept not in (None, "auto"):
        yield from ("--kv-cache-dtype", str(kept))
    tp, dp = plain(run.last("tp_size")) or run.workers or 1, plain(run.last("dp_size")) or 1
    groups = plain(run.last("attn_dp_size")) or 1
    if run.last("enable_dp_attention") == "True" and groups == 1:  # until 0.5.22 dp_size counts the groups
        groups, dp = dp, 1
    tp, dp = max(tp // groups, 1), dp * groups  # each group has its part of the ranks
    if tp > 1:
        yield from ("--tp-size", str(tp))
    if dp > 1:
        yield from ("--dp-size", str(dp))
    if run.last("disable_radix_cache") == "True":
        yield "--disable-radix-cache"
    if run.last("disable_hybrid_swa_memory") == "True":
        yield "--disable-hybrid-swa-memory"


_BEFORE = ("runtime", "communication")
_TERMS = {
    "before_gb": Parts("before", ("total",), _BEFORE, "GB"),
    "taken_gb": Parts("weights", ("weights",), unit="GB"),
    "after_gb": Parts("after", ("total",), (*_BEFORE, "weights"), "GB"),
    "pooled_gb": Parts("pooled", ("total",), (*_BEFORE, "weights", "cache"), "GB"),
}

FORM = LogForm(_LINES, _said, expect, ways, variations, failure, terms=_TERMS)
