"""Ollama before 0.30: its own engine, with one pool of cells for all sequences, or llama.cpp inside it.

From kvcache/causal.go (Init), llama/llama.go (NewContextParams, whose swa_full is llama.cpp's default) and the caches
that model/models/*/model.go make, Ollama 0.11 to 0.24. Read, and not run.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.core.dtypes import KV, DType, row_bytes
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import kept
from kvcalc.core.model import Attention, Shared
from kvcalc.core.units import ceil_div, many
from kvcalc.engines.allocation import Allocation, Charge, Rule, Step
from kvcalc.engines.llama_cpp.archs import arch_of
from kvcalc.engines.question import Question
from kvcalc.engines.stages import StageCaches, stage_caches
from kvcalc.errors import KvcalcError

__all__ = ["plan_of_its_own"]

_PADDING = 256  # ml/backend/ggml: CacheConfig.CachePadding
_BATCH = 512  # api/types.go: NumBatch
_TYPES = ("fp16", "q8_0", "q4_0")  # kvCacheTypeFromStr

# Architectures whose sliding layers have a cache of their own, and what it keeps for each sequence: the window (0) or
# more, to take up again where another request has left off (NewSWAMemCache).
_WINDOWS = {"gemma3": 0, "gemma3n": 0, "gpt-oss": 4096, "gemma4": 4096}
# Those whose windows and chunks do not shorten the cache: chunks are only masked (NewChunkedAttentionCache), llama.cpp
# inside Ollama runs with swa_full, and has no windows in llama and phi3.
_WHOLE = frozenset({"llama4", "llama", "phi3", "starcoder2", "gemma2", "cohere2"})

_F16 = Rule("f16 cache by default", "llama/llama.go, kvCacheTypeFromStr")
_IGNORED = Rule("window not kept", "kvcache/causal.go, NewChunkedAttentionCache; llama/llama.go: swa_full")
_MEMORY = Rule("more than the window for prefixes", "kvcache/causal.go, swaMemorySize")
_ROOM = Rule("room for a batch", "kvcache/causal.go, Init: maxSequences * swaMemorySize + maxBatch")
_PADDED = Rule("one pool padded to 256 cells", "kvcache/causal.go, Init: roundUp(cacheSize, CachePadding)")


class Pool(NamedTuple):
    """Tokens that a cache keeps, before and after each rule."""

    steps: tuple[tuple[Rule, int], ...]

    @property
    def cells(self) -> int:
        return self.steps[-1][1]


def plan_of_its_own(question: Question, num_batch: int | None, flash: object) -> Allocation:
    k, v = (
        KV["fp16"] if auto else own
        for own, auto in zip(question.request.widths[:2], question.request.auto, strict=True)
    )
    for dtype in (k, v):
        if dtype.name not in _TYPES:
            raise KvcalcError(
                f"OLLAMA_KV_CACHE_TYPE: Ollama before 0.30 has no {dtype.name} cache", "one of f16, q8_0, q4_0"
            )
    if k.block > 1 and flash is not True:
        raise KvcalcError(
            f"OLLAMA_KV_CACHE_TYPE: Ollama before 0.30 keeps {k.name} only where OLLAMA_FLASH_ATTENTION=1 is set too",
            "set both",
        )
    arch = arch_of(question.request.facts)
    batch = min(num_batch or _BATCH, question.request.context)
    charges = tuple(_charge(each, question, arch, batch, k, v) for each in stage_caches(question))
    whole = ceil_div(question.sequences * question.request.context, _PADDING) * _PADDING
    return Allocation(
        charges,
        {"cells": whole, "streams": 1, "num_ctx": question.request.context, "num_parallel": question.sequences,
         "num_batch": batch},
        (f"{whole:,} cells that all sequences share, in {k.name}",
         "the rules before 0.30 were read in Ollama's source, and not compared with a run"),
    )  # fmt: skip


def _charge(each: StageCaches, question: Question, arch: str, batch: int, k: DType, v: DType) -> Charge:
    match each.cache:
        case Shared():
            return Charge(cache_name(each.cache), each.copies, 0, (), (), "nothing of its own", each.stage)
        case Attention(pattern="full" | "sliding" | "chunked") as cache:
            pass
        case _:
            raise KvcalcError(
                f"ollama: how versions before 0.30 keep {cache_name(each.cache)} is not known",
                "a later version, such as --engine ollama@0.33",
            )
    rows = [
        each.copies * row_bytes(k, cache.kv_heads * cache.k_dim),
        each.copies * row_bytes(v, cache.kv_heads * cache.v_dim),
    ]
    pool = Pool(tuple(_tokens(cache, question, arch, batch)))
    steps, before = [], each.exact
    for rule, tokens in pool.steps:
        if tokens * sum(rows) != before:
            before = tokens * sum(rows)
            steps.append(Step(rule, before))
    parts = tuple(zip(("k_bytes", "v_bytes"), (pool.cells * row for row in rows), strict=True))
    how = f"{many(each.copies, 'layer')} x {pool.cells:,} cells x {sum(rows) // each.copies:,} B"
    return Charge(cache_name(cache), each.copies, each.exact, tuple(steps), parts, how, each.stage)


def _tokens(cache: Attention, question: Question, arch: str, batch: int) -> Iterator[tuple[Rule, int]]:
    """Tokens of all sequences that one cache has room for, rule by rule."""
    tokens, sequences = question.request.context, question.sequences
    window = kept(cache)
    span = tokens if window is None else window
    room = sequences * min(tokens, span)
    yield _F16, room
    if window is not None:
        if arch not in _WINDOWS and arch not in _WHOLE:
            raise KvcalcError(
                f"ollama: how versions before 0.30 keep the windows of {arch} is not known",
                "a later version, such as --engine ollama@0.33",
            )
        memory = max(span, _WINDOWS.get(arch, tokens))
        if sequences > 1:
            memory = max(memory, span + 1)
        if arch in _WHOLE or memory >= tokens:
            room = sequences * tokens
            yield _IGNORED, room
        else:
            yield _MEMORY, sequences * memory
            room = sequences * memory + batch
            yield _ROOM, room
    yield _PADDED, ceil_div(room, _PADDING) * _PADDING
