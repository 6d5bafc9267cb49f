"""What TensorRT-LLM's printed numbers should be, and which other readings of a log there are.

Sources: main branch of 2026, `_torch/pyexecutor/_util.py`, `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp`; logs
that people posted, from 0.8 on.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.core.formula import widened
from kvcalc.core.model import Shared
from kvcalc.core.units import Fraction, ceil_div
from kvcalc.engines.log_form import Expected, MatchedLine, StartLog, Way, Ways
from kvcalc.engines.log_numbers import Printed, digits, plain
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches
from kvcalc.engines.tensorrt_llm.engine import token_bytes

__all__ = ["expect", "stage_tokens", "ways"]


class _Memory(NamedTuple):
    """What the log has said so far of the memory: `estimated` is for the cache, of `available` it takes a fraction."""

    estimated: Printed | None = None
    available: Printed | None = None


def expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """Bytes by the tokens that were printed, and tokens by the memory that was estimated or available."""
    block, token = run.engine.allocate(question).values["block_size"], stage_tokens(question)
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


def stage_tokens(question: Question) -> list[int]:
    """Bytes of a token on one rank of each stage, windows in full: nothing narrows them by default."""
    stages = [0] * question.request.layout.pp
    for each in stage_caches(question):
        if not isinstance(each.cache, Shared):
            stages[each.stage] += each.copies * token_bytes(widened(each.cache), question)
    return stages


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


def ways(question: Question, run: StartLog, version: str | None) -> Ways:  # noqa: ARG001
    """Tokens of a block, which the older lines do not say."""
    if "tokens_per_block" in question.settings:
        return []
    return [[_block(size) for size in (16, 32, 64, 128)]]


def _block(size: int) -> Way:
    def change(question: Question) -> Question:
        return question._replace(settings={**question.settings, "tokens_per_block": size})

    return Way("tokens_per_block", f"blocks of {size} tokens", change)
