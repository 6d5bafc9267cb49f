"""How much of the prompts a prefix cache would find, at any capacity: LRU over the trace's own blocks, in file order.

Hits are the leading run of a prompt's blocks that are there; then each block of the prompt is touched or put in, in
order, and the least recently used makes room. Of sessions that are made up, answers are put in, too.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.traffic.trace import Trace

__all__ = ["Reuse", "reuse"]


class Reuse(NamedTuple):
    """What a cache of `capacity` blocks (None: without end) finds: whole blocks, and tokens of prompts."""

    capacity: int | None
    hits: int
    blocks: int
    hit_tokens: int
    tokens: int

    @property
    def token_hit_rate(self) -> float:
        """The share of all prompts' tokens that need not be computed."""
        return self.hit_tokens / self.tokens if self.tokens else 0.0


def reuse(trace: Trace, capacity: int | None) -> Reuse:
    """Replay the prompts of a trace with prefixes against a cache of so many blocks."""
    assert trace.prefixes is not None
    each, there = trace.prefixes.tokens, OrderedDict[int, None]()
    hits = found = 0
    written = trace.prefixes.answered or trace.prefixes.blocks
    for blocks, prompt, whole in zip(trace.prefixes.blocks, trace.prompts, written, strict=True):
        run = _leading(blocks, there)
        hits += run
        found += min(each * run, prompt)
        for block in whole:
            there[block] = None
            there.move_to_end(block)
        if capacity is not None:
            while len(there) > capacity:
                there.popitem(last=False)
    count = sum(map(len, trace.prefixes.blocks))
    return Reuse(capacity, hits, count, found, sum(trace.prompts))


def _leading(blocks: Sequence[int], there: "OrderedDict[int, None]") -> int:
    run = 0
    for block in blocks:
        if block not in there:
            break
        run += 1
    return run
