"""How much of a cache fits into a budget, and what stops one more."""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.core.memory import Binding, Budget, MemorySplit, memory_split
from kvcalc.core.request import Request
from kvcalc.core.sizing import Size
from kvcalc.core.units import MOST_TOKENS

__all__ = [
    "Allocator",
    "Fit",
    "capacity_tokens",
    "equal_sequences",
    "exact_allocator",
    "fill",
    "fit",
    "longest_context",
    "most_of",
    "most_sequences",
]  # fmt: skip

_MODEL: Binding = "model"


class Fit(NamedTuple):
    """What fits into a budget.

    Attributes:
        memory: Where the memory goes.
        kv_asked: Bytes of the fullest GPU for what was asked.
        max_batch: Sequences of the asked length over all replicas; None where nothing limits them.
        max_context: Tokens of each sequence of the asked batch; None where nothing limits them.
        capacity_tokens: Tokens over all replicas; None where nothing limits them.
        fits: Whether what was asked fits; None where a flag that is not counted may decide.
        binding: What stops one more sequence.
        context_binding: What stops one more token at the asked batch.
    """

    memory: MemorySplit
    kv_asked: int
    max_batch: int | None
    max_context: int | None
    capacity_tokens: int | None
    fits: bool | None
    binding: Binding
    context_binding: Binding


class Allocator(NamedTuple):
    """How the exact size or an engine fills one GPU.

    Attributes:
        needed: Bytes that must be there for what was asked.
        holds: Whether sequences on one replica, tokens in each and a budget in bytes go together; once false, it never
            turns true again as the first two grow.
        most_sequences: Sequences that one instance takes; None where only memory limits them.
        capacity: The engine's own count of tokens for a budget in bytes; None for one in proportion to what was asked.
        most_tokens: Tokens that each sequence may have; None where only the model limits them.
    """

    needed: int
    holds: Callable[[int, int, int], bool]
    most_sequences: int | None = None
    capacity: Callable[[int], int] | None = None
    most_tokens: int | None = None


def fit(size: Size, budget: Budget, engine: Allocator | None = None) -> Fit:
    """Fit the sized cache into a budget: the fullest GPU decides. With an `engine`, what that reserves is fitted.

    Raises KvcalcError where the weights are not known.
    """
    request = size.request
    each = size.rank_bytes(request.context) if engine is None else None
    return fill(memory_split(size, budget), request, engine or exact_allocator(size), each)


def fill(memory: MemorySplit, request: Request, allocator: Allocator, each: int | None = None) -> Fit:
    """What a memory split holds of what was asked. `each`: bytes of one sequence, where all take the same."""
    dp, local_batch = request.layout.dp, request.sequences_per_replica
    most, context_binding = longest_context(memory, allocator, request)
    if each is not None:
        sequences, binding, capacity = equal_sequences(memory, request.context, each)
    else:
        sequences, binding = most_sequences(memory, allocator, request.context)
        capacity = capacity_tokens(memory, allocator, request.context * local_batch)
    return Fit(
        memory,
        kv_asked=allocator.needed,
        max_batch=None if sequences is None else sequences * dp,
        max_context=most,
        capacity_tokens=None if capacity is None else capacity * dp,
        fits=allocator.needed <= memory.kv_budget and allocator.holds(local_batch, request.context, memory.free),
        binding=binding,
        context_binding=context_binding,
    )


def exact_allocator(size: Size) -> Allocator:
    """How the exact size fills one GPU."""
    return Allocator(size.bytes_per_gpu, lambda sequences, tokens, free: sequences * size.rank_bytes(tokens) <= free)


def longest_context(memory: MemorySplit, allocator: Allocator, request: Request) -> tuple[int | None, Binding]:
    """The most tokens in each sequence of the asked batch, None where nothing limits them, and what stops one more."""
    batch, limit = request.sequences_per_replica, request.model.max_context
    own_limit = allocator.most_tokens if allocator.most_tokens is not None else MOST_TOKENS
    highest = min(limit if limit is not None else MOST_TOKENS, own_limit)
    most = most_of(lambda tokens: allocator.holds(batch, tokens, memory.free), highest)
    if limit is None and most == MOST_TOKENS:
        return None, _MODEL
    if most == limit:
        return most, _MODEL
    refused = allocator.most_sequences is not None and batch > allocator.most_sequences
    return most, "engine" if refused or most == own_limit else memory.full


def equal_sequences(memory: MemorySplit, tokens: int, each: int) -> tuple[int | None, Binding, int | None]:
    """Sequences of `each` bytes on one replica, what stops one more, and the tokens; None where nothing does."""
    return (memory.free // each, memory.full, memory.free * tokens // each) if each else (None, _MODEL, None)


def most_sequences(memory: MemorySplit, allocator: Allocator, tokens: int) -> tuple[int | None, Binding]:
    """The most sequences on one replica, None where nothing limits them, and what stops one more."""
    limit = allocator.most_sequences or MOST_TOKENS
    most = most_of(lambda sequences: allocator.holds(sequences, tokens, memory.free), limit)
    return (most, memory.full) if most < limit else (allocator.most_sequences, "engine")


def capacity_tokens(memory: MemorySplit, allocator: Allocator, asked_tokens: int) -> int | None:
    """Tokens on one replica: the engine's own count, else in proportion to what was asked."""
    if allocator.capacity:
        return allocator.capacity(memory.free)
    return memory.free * asked_tokens // allocator.needed if allocator.needed else None


def most_of(holds: Callable[[int], bool], limit: int) -> int:
    """The largest number up to `limit` that `holds`, which never turns true again once false; 0 where none does."""
    low, high = 0, 1  # doubling finds the end soon, since limits are far above most answers
    while high < limit and holds(high):
        low, high = high, min(2 * high, limit)
    if high == limit and holds(limit):
        return limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
