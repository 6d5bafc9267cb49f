"""What vLLM's printed numbers should be."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvcalc.core.model import Attention, Latent, Recurrent
from kvcalc.engines.allocation import Allocation, Capacity
from kvcalc.engines.log_form import GIB, Expected, MatchedLine, StartLog
from kvcalc.engines.log_numbers import Printed, plain
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.layout import Laid, laid_of
from kvcalc.engines.vllm.settings import settings_of
from kvcalc.engines.vllm.specs import state_page, token_bytes
from kvcalc.engines.vllm.versions import Version

__all__ = ["Budget", "Reader", "expect", "fitting", "width"]

_NO_MEMORY = "the log does not say how much memory there was for the cache"
_SAY_MEMORY = "--kv-memory SIZE says it"
_SWAP = 4  # GiB for CPU blocks: --swap-space, per GPU


class Budget(NamedTuple):
    """Bytes of the rank that has least, as far as printed digits say."""

    low: int
    middle: int
    high: int
    ranked: bool = False


class Reader:
    """Goes through a run, and holds what it has said so far in each replica."""

    def __init__(self, question: Question, run: StartLog) -> None:
        self.question = question
        self.run = run
        self.ranks = question.request.layout.tp * question.request.layout.pp
        self.allocations: dict[tuple[int, bool], Allocation] = {}
        self.counted_once: dict[bool, Question] = {}
        self.laid: Laid | None = None
        self.available: dict[str, list[Printed]] = {}
        self.counted: set[str] = set()  # replicas whose blocks have been counted
        self.tokens: dict[str, int] = {}
        self.blocks: dict[str, int] = {}
        self.old: set[str] = set()  # replicas of a vLLM that prints blocks

    def allocate(self, length: int | None = None, *, whole: bool = False) -> Allocation:
        """The plan for sequences of a length. `whole`: windows in full, as before V1."""
        tokens = length or self.question.request.context
        if (tokens, whole) not in self.allocations:
            self.allocations[tokens, whole] = self.run.engine.allocate(self._counted(whole=whole).at(1, tokens))
        return self.allocations[tokens, whole]

    def _counted(self, *, whole: bool) -> Question:
        """The question, whose layers are laid into groups once for all lengths."""
        if whole not in self.counted_once:
            settings = {**self.question.settings, "hybrid": False} if whole else self.question.settings
            self.counted_once[whole] = self.question._replace(settings=settings).counted()
        return self.counted_once[whole]

    def blocks_of(self, length: int) -> int:
        """Blocks of a sequence."""
        if self.laid is None:
            self.laid = laid_of(self._counted(whole=False), _row(self.question))
        return self.laid.per_sequence(length)

    def memory(self, found: MatchedLine) -> None:
        """Take the memory of a rank."""
        printed = found.get("available", 2)
        if printed is None:
            return
        if found.stream in self.counted:  # of another round
            for known in (self.available, self.tokens, self.blocks):
                known.pop(found.stream, None)
            self.counted.discard(found.stream)
        self.available.setdefault(found.stream, []).append(printed)

    def budget(self, stream: str, allocation: Allocation) -> Budget | None:
        """What the blocks are cut from: the least memory of all ranks, or the blocks themselves."""
        blocks = self.blocks.get(stream)
        if blocks is not None:
            width = allocation.values["bytes_per_block"]
            assert isinstance(width, int)
            return Budget(blocks * width, blocks * width, blocks * width)
        if self.run.budget is not None:
            return Budget(self.run.budget, self.run.budget, self.run.budget)
        if isinstance(self.question.settings.get("num_gpu_blocks"), int):
            return Budget(0, 0, 0)
        known = self.available.get(stream) or self.available.get("")
        if not known:
            return None
        least = min(known, key=lambda each: each.bounds(self.run.giga))
        low, high = least.bounds(self.run.giga)
        return Budget(max(low, 0), max(least.whole(self.run.giga), 0), max(high, 0), len(known) < self.ranks)


def expect(question: Question, run: StartLog) -> Iterator[Expected]:
    """Each number that vLLM printed beside what follows from the memory that it had, or from its other numbers."""
    reader = Reader(question, run)
    for found in run.found:
        if "available" in found.says:
            reader.memory(found)
        for name, rule in _RULES.items():
            printed = found.get(name, _PLACES.get(name, 0))
            if printed is not None:
                yield from rule(reader, found, printed)


def _tokens(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    allocation = reader.allocate()
    yield _counted(reader, found, printed, allocation, "tokens", lambda capacity: capacity.tokens)
    reader.tokens[found.stream] = printed.value
    reader.counted.add(found.stream)


def _concurrency(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    """Of the tokens or blocks that were printed, else of the memory."""
    length = plain(found.says.get("length"))
    allocation, tokens = reader.allocate(length), reader.tokens.get(found.stream)
    reader.counted.add(found.stream)
    blocks = reader.blocks.get(found.stream)
    if found.stream in reader.old and blocks is not None and length:  # tokens by length, not by whole blocks
        block = allocation.values["block_size"]
        assert isinstance(block, int)
        most = round(100 * (blocks * block / length))
        yield Expected(found.number, "concurrency", printed, "x", 100, most, most, most, implied=True)
    elif tokens is not None and blocks is None:
        first, last = (_hundredths(_capacity(allocation, each)) for each in _blocks_of(allocation, tokens))
        implied = (
            _row(reader.question).exact_tokens or allocation.values["groups"] == 1
        )  # tokens by length, in any model
        yield Expected(found.number, "concurrency", printed, "x", 100, first, first, last, implied=implied)
    else:
        yield _counted(reader, found, printed, allocation, "concurrency", _hundredths, "x", 100)


def _num_blocks(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    """`# GPU blocks` is how vLLM counted before it printed tokens, with windows in full before V1."""
    allocation = reader.allocate(whole="cpu_blocks" in found.says)
    reader.blocks.pop(found.stream, None)
    yield _counted(reader, found, printed, allocation, "num_blocks", _blocks)
    reader.blocks[found.stream] = printed.value
    if "device" in found.says:
        reader.old.add(found.stream)
    reader.counted.add(found.stream)


def _cpu_blocks(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    swap = reader.question.settings.get("swap_space")
    blocks = (swap if isinstance(swap, int) else _SWAP * GIB) // width(reader.allocate(whole=True))
    excuse = "" if swap is not None else f"--swap-space is not in the log: {_SWAP} GiB is its default"
    if printed.value:
        yield Expected(found.number, "cpu_blocks", printed, "", 1, blocks, blocks, blocks, excuse=excuse)


def _needed(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    allocation = reader.allocate(plain(found.says.get("length")))
    if allocation.values["groups"] != 1:
        why = "what its layers need before they are grouped has no rule here"
        yield Expected(found.number, "needed", printed, "GiB", reader.run.giga, why=why, open=True)
        return
    per_sequence = allocation.values["blocks_per_sequence"]
    assert isinstance(per_sequence, int)
    needed = per_sequence * width(allocation)
    null = width(allocation) if _row(reader.question).checkpoints else 0
    yield Expected(found.number, "needed", printed, "GiB", reader.run.giga, needed, needed, needed + null)


def _stored(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    """The tokens of all blocks, as vLLM counted them before V1: of the blocks that it printed, in any model."""
    allocation = reader.allocate(whole=True)
    block = allocation.values["block_size"]
    assert isinstance(block, int)
    counted = _counted(
        reader, found, printed, allocation, "stored", lambda capacity: _blocks(capacity) * block, "tokens"
    )
    yield counted._replace(implied=found.stream in reader.blocks)


def _longest(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    budget = reader.budget(found.stream, reader.allocate())
    if budget is None:
        return
    most = plain(found.says.get("length")) or reader.question.request.context
    low, middle, high = (fitting(reader, each, most) for each in budget[:3])
    yield Expected(found.number, "longest", printed, "tokens", 1, low, middle, high)


def fitting(reader: Reader, budget: int, most: int) -> int:
    """The longest sequence whose blocks fit."""
    blocks = budget // width(reader.allocate(most))
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if reader.blocks_of(middle) <= blocks else (low, middle - 1)
    return low


def _attn_block(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    block = reader.allocate().values["block_size"]
    assert isinstance(block, int)
    yield Expected(found.number, "attn_block", printed, "tokens", 1, block, block, block)


def _mamba_pad(reader: Reader, found: MatchedLine, printed: Printed) -> Iterator[Expected]:
    """The page of a state, padded to that of a block of attention."""
    settings = settings_of(reader.question, _row(reader.question))
    caches = [cache for placed in reader.question.placement.layers for cache in placed.caches]
    attending = [c for c in caches if isinstance(c, Latent) or (isinstance(c, Attention) and c.kv_heads)]
    states = [state_page(c, settings) for c in caches if isinstance(c, Recurrent)]
    if not attending or not states:
        return
    page, padded = max(states), settings.block * token_bytes(attending[0], settings)
    low = 100 * 100 * (padded - page) // page
    yield Expected(found.number, "mamba_pad_pct", printed, "%", 100, low, low, low + 1)


_RULES: dict[str, Callable[[Reader, MatchedLine, Printed], Iterator[Expected]]] = {
    "attn_block": _attn_block,
    "mamba_pad_pct": _mamba_pad,
    "num_blocks": _num_blocks,
    "cpu_blocks": _cpu_blocks,
    "tokens": _tokens,
    "concurrency": _concurrency,
    "needed": _needed,
    "longest": _longest,
    "stored": _stored,
}
_PLACES = {"concurrency": 2, "needed": 2, "mamba_pad_pct": 2}


def _counted(
    reader: Reader,
    found: MatchedLine,
    printed: Printed,
    allocation: Allocation,
    quantity: str,
    of: Callable[[Capacity], int],
    unit: str = "",
    scale: int = 1,
) -> Expected:
    """A count that follows from the memory."""
    budget = reader.budget(found.stream, allocation)
    if budget is None or allocation.capacity is None:
        return Expected(found.number, quantity, printed, unit, scale, why=_NO_MEMORY, hint=_SAY_MEMORY)
    low, middle, high = (of(allocation.capacity(each)) for each in budget[:3])
    return Expected(found.number, quantity, printed, unit, scale, low, middle, high, ranked=budget.ranked)


def _capacity(allocation: Allocation, blocks: int) -> Capacity:
    assert allocation.capacity is not None
    return allocation.capacity(blocks * width(allocation))


def width(allocation: Allocation) -> int:
    width = allocation.values["bytes_per_block"]
    assert isinstance(width, int)
    return width


def _blocks(capacity: Capacity) -> int:
    blocks = capacity.values["num_blocks"]
    assert isinstance(blocks, int)
    return blocks


def _hundredths(capacity: Capacity) -> int:
    return round(100 * (capacity.concurrency or 0))


def _blocks_of(allocation: Allocation, tokens: int) -> tuple[int, int]:
    """The least and the largest number of blocks that are counted as so many tokens."""
    least = _first(allocation, tokens)
    return least, max(least, _first(allocation, tokens + 1) - 1)


def _first(allocation: Allocation, tokens: int) -> int:
    """The least number of blocks that are counted as at least so many tokens, near to where their ratio has it."""
    counted = max(_capacity(allocation, _MANY).tokens, 1)
    near = tokens * _MANY // counted
    low, high, step = near, near, 1
    while low > 0 and _capacity(allocation, low).tokens >= tokens:
        low, step = max(low - step, 0), 2 * step
    while _capacity(allocation, high).tokens < tokens and high < 2 * tokens + 2:
        high, step = min(high + step, 2 * tokens + 2), 2 * step
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _capacity(allocation, middle).tokens >= tokens else (middle + 1, high)
    return low


_MANY = 1 << 24  # blocks, of which a ratio is taken


def _row(question: Question) -> Version:
    assert isinstance(question.version, Version)
    return question.version
