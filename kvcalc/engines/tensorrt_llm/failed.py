"""Starts of TensorRT-LLM that failed since one request had no room, or a buffer none.

Sources: the check in the constructor of KVCacheManager, `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp` of 0.7 to
0.13; `cpp/tensorrt_llm/runtime/tllmBuffers.h`; logs that people posted: NVIDIA/TensorRT-LLM#401, #494, #542,
janhq/cortex.cpp#981.
"""

from kvcalc.engines.log_form import Failure, MatchedLine, StartLog, line
from kvcalc.engines.log_numbers import plain
from kvcalc.engines.question import Question
from kvcalc.engines.tensorrt_llm.check import stage_tokens
from kvcalc.errors import KvcalcError

__all__ = ["FAILURES", "failure"]

FAILURES = (
    line("maxTokensInPagedKvCache",
         r"(?P<one>maxTokensInPagedKvCache) (?:\((?P<held>\d+)\) )?must be large enough to process at least 1 sequence"
         r"(?:.{0,80}?tokensPerBlock \((?P<block>\d+)\) \* maxBlocksPerSeq \((?P<blocks>\d+)\))?", "failure"),
    line("out of memory", r"CUDA runtime error in (?:::)?(?P<call>cuda\w{1,40})\b.{0,200}?out of memory", "failure"),
    line("pages per sequence", r"Max KV cache pages per sequence: (?P<pages>\d+)"),
)  # fmt: skip

_SMALLER = ("--max_batch_size N", "--max_num_tokens N", "--kv_cache_free_gpu_memory_fraction F, lower", "--tp_size N")
_SHORTER = ("--max_seq_len N", "--kv_cache_free_gpu_memory_fraction F, higher", "--kv_cache_dtype fp8", "--tp_size N")


def failure(question: Question | None, run: StartLog) -> Failure | None:
    """Why the start failed, by the first line that says so."""
    tokens: int | None = None
    for found in run.found:
        tokens = plain(found.says.get("tokens")) or tokens
        if "call" in found.says:
            what = f"the GPU had no memory left for a buffer ({found.says['call']})"
            return Failure(found.number, what, flags=_SMALLER)
        if "one" in found.says:
            return _too_long(question, found, run, tokens)
    return None


def _too_long(question: Question | None, found: MatchedLine, run: StartLog, tokens: int | None) -> Failure:
    """One request does not fit. Its blocks are whole, and so are those of the pool."""
    block = plain(found.says.get("block")) or plain(run.last("block"))
    held, blocks = plain(found.says.get("held")) or tokens, plain(found.says.get("blocks")) or plain(run.last("pages"))
    needed = available = None
    length = block * blocks if block and blocks else None
    if question is not None:
        length = length or question.request.context
        try:
            cell = max(stage_tokens(question))
        except KvcalcError:
            cell = 0
        needed, available = (each * cell if each and cell else None for each in (length, held))
    what = "no room for one request" if length is None else f"no room for {length:,} tokens"
    longest = held if held is None or not block else held // block * block
    first = _SHORTER if not longest else (f"--max_seq_len {longest}", *_SHORTER[1:])
    return Failure(found.number, what, length, 1, needed, available, longest, 0, first)
