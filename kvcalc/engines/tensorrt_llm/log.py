"""How TensorRT-LLM's start-up reads, and what its printed numbers should be.

Sources: main branch of 2026, `_torch/pyexecutor/_util.py`, `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp`; logs
that people posted, from 0.8 on.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.core.units import Fraction, ceil_div
from kvcalc.engines.base import Question
from kvcalc.engines.log_form import (
    Expected,
    LogFacts,
    LogForm,
    MatchedLine,
    Printed,
    StartLog,
    Way,
    Ways,
    digits,
    line,
    plain,
)
from kvcalc.engines.tensorrt_llm.engine import VERSIONS
from kvcalc.engines.tensorrt_llm.failed import FAILURES, failure, token_bytes

__all__ = ["FORM"]

_KEYS = (
    "model", "tensor_parallel_size", "pipeline_parallel_size", "tp_size", "pp_size", "max_seq_len", "kv_cache_dtype",
    "tokens_per_block",
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
    ):
        value = next((run.last(key) for key in keys if run.last(key) not in (None, "auto")), None)
        if value is not None:
            yield from (flag, value.lower())


class _Memory(NamedTuple):
    """What the log has said so far of the memory: `estimated` is for the cache, of `available` it takes a fraction."""

    estimated: Printed | None = None
    available: Printed | None = None


def _expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """Bytes by the tokens that were printed, and tokens by the memory that was estimated or available."""
    block, token = run.engine.allocate(question).values["block_size"], token_bytes(question)
    assert isinstance(block, int)
    least, most = min(token), max(token)
    memory = _Memory()
    allocated: tuple[MatchedLine, Printed] | None = None
    for found in run.found:
        memory = _Memory(found.get("estimated", 2) or memory.estimated, found.get("available", 2) or memory.available)
        each, tokens, blocks = found.get("token_bytes"), found.get("tokens"), found.get("num_blocks")
        if each is not None:
            yield Expected(found.number, "token_bytes", each, "B", 1, least, most, most)
        if (amount := found.get("bytes")) is not None:
            allocated = (found, amount)
        if blocks is not None:
            counted = Expected(found.number, "num_blocks", blocks)
            yield from _counted(question, run, memory, counted, block, most)
        if tokens is None:
            continue
        low, high = least * tokens.value, most * tokens.value
        printed = found.get("kv_gib", 2)
        if printed is not None:
            excuse = "" if printed.value else "AutoDeploy keeps the cache itself and only counts blocks here"
            yield Expected(found.number, "kv_gib", printed, "GiB", run.giga, low, high, high, excuse=excuse)
        if allocated is not None:
            yield Expected(allocated[0].number, "bytes", allocated[1], "B", 1, low, high, high)
            allocated = None
        yield from _counted(question, run, memory, Expected(found.number, "tokens", tokens), block, most)
        memory = memory._replace(estimated=None)  # a trial run with little memory comes before the real one


def _counted(
    question: Question, run: StartLog, memory: _Memory, count: Expected, block: int, token: int
) -> Iterator[Expected]:
    """A count of tokens or blocks by the memory. The last block is rounded down or up, by the path that made it."""
    excuse = ""
    if run.budget is not None:
        low, high = run.budget, run.budget
    elif memory.estimated is not None:
        low, high = memory.estimated.bounds(run.giga)
    elif memory.available is not None:
        fraction = _share(run.last("fraction"))
        excuse = "" if fraction else "the fraction of free memory is not in the log: 0.9 is its default"
        low, high = ((fraction or Fraction(9, 10)).floor(end) for end in memory.available.bounds(run.giga))
    else:
        return
    capped = plain(run.last("max_tokens"))
    if capped is not None:
        excuse = f"max_tokens of {capped:,} may have decided"
    unit = block if count.quantity == "tokens" else 1
    least, most = low // token // block * unit, ceil_div(high // token, block) * unit
    ranked = question.request.layout.tp * question.request.layout.pp > 1
    yield count._replace(low=least, predicted=least, high=most, ranked=ranked, excuse=excuse)


def _share(text: str | None) -> Fraction | None:
    """0.8999999761581421 is 0.9 in 32 bits."""
    found = digits(text)
    return None if found is None else Fraction(round(found.value * 10**6 / 10**found.places), 10**6)


def _ways(question: Question, run: StartLog, version: str | None) -> Ways:  # noqa: ARG001
    """Tokens of a block, which the older lines do not say."""
    if "tokens_per_block" in question.settings:
        return []
    return [[_block(size) for size in (16, 32, 64, 128)]]


def _block(size: int) -> Way:
    def change(question: Question) -> Question:
        return question._replace(settings={**question.settings, "tokens_per_block": size})

    return Way("tokens_per_block", f"blocks of {size} tokens", change)


FORM = LogForm(_LINES, _said, _expect, _ways, failure=failure)
