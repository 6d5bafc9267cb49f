"""How much of a cache fits into a budget, and what stops one more."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.dtypes import DType
from kvcalc.core.request import Request
from kvcalc.core.sizing import Size
from kvcalc.core.units import MOST_TOKENS, ceil_div
from kvcalc.core.weights import Weighed, Weights, weigh
from kvcalc.errors import KvcalcError, shown

__all__ = [
    "Binding", "Budget", "Fit", "Holding", "Room", "Share", "capacity_tokens", "equal_sequences", "fill", "fit",
    "kv_budget", "longest_context", "most_of", "most_sequences", "room_for", "room_of", "sized", "warnings",
]  # fmt: skip

Binding = Literal["weights", "kv", "model", "engine"]
_MODEL: Binding = "model"


class Share(NamedTuple):
    """A share of a whole, as written: 0.9 is 9 of 10, so that no rounding of floats reaches a byte."""

    part: int
    of: int

    @classmethod
    def parse(cls, text: str, what: str) -> "Share":
        """A share above 0 and up to 1, such as `0.9`; `what` names the option in errors."""
        whole, _, decimals = text.strip().partition(".")
        digits = whole + decimals
        if len(digits) <= 12 and digits.isascii() and digits.isdigit():
            share = cls(int(digits), 10 ** len(decimals))
            if 0 < share.part <= share.of:
                return share
        raise KvcalcError(f"{what}: expected a share above 0 and up to 1, such as 0.9, got {shown(text)}")

    def floor(self, whole: int) -> int:
        return whole * self.part // self.of

    def __str__(self) -> str:
        return f"{self.part / self.of:g}"


class Budget(NamedTuple):
    """What one GPU offers: `vram` bytes, weights and overhead still to come off, or `kv_memory` for the cache alone.

    `card`: the one whose memory `vram` is, where it was named. `of_rest`: the share is of what weights and
    overhead leave, as TensorRT-LLM has it. `loaded`: what an engine packs `auto` weights into.
    """

    vram: int | None = None
    kv_memory: int | None = None
    utilization: Share | None = None  # of --vram; all of it where neither the asker nor an engine says
    weights: Weights = "auto"
    overhead: int = 0
    card: Card | None = None
    of_rest: bool = False
    loaded: DType | None = None


class Room(NamedTuple):
    """Where the memory of one GPU goes, in bytes: `vram` = idle + `weights` + `overhead` + `kv_budget`.

    All but `kv_budget` are None where the budget was given as --kv-memory. `gpus_for_weights` is the least number of
    such GPUs that hold the weights beside the overhead; None where no number does. `kv_budget` can be negative.
    """

    kv_budget: int
    vram: int | None = None
    utilization: Share | None = None
    idle: int | None = None  # what --utilization leaves out
    weights: int | None = None
    overhead: int | None = None
    gpus_for_weights: int | None = None
    whole_weights: int | None = None  # of all GPUs together
    weights_source: str | None = None
    card: Card | None = None
    of_rest: bool = False
    rough_weights: bool = False  # estimated from a format that only a part of the checkpoint has

    @property
    def free(self) -> int:
        """Bytes for the cache, none where weights and overhead take more than all."""
        return max(self.kv_budget, 0)

    @property
    def full(self) -> Binding:
        """What it is called that no more fits."""
        return "weights" if self.vram is not None and self.kv_budget <= 0 else "kv"


class Fit(NamedTuple):
    """The answer. `max_batch` counts over all replicas; it and `capacity_tokens` are None where nothing limits them.

    `binding` is what stops one more sequence, `context_binding` what stops one more token at the asked batch.
    """

    room: Room
    kv_asked: int
    max_batch: int | None
    max_context: int | None
    capacity_tokens: int | None
    fits: bool
    binding: Binding
    context_binding: Binding


class Holding(NamedTuple):
    """How an engine fills one GPU. `asked` bytes are there for what was asked.

    `holds` takes sequences on one replica, tokens in each and a budget, and never turns true again as the first two
    grow. `most_sequences` is what one instance takes, `most_tokens` what each of them may have. `capacity` is the
    engine's own count of tokens for a budget.
    """

    asked: int
    holds: Callable[[int, int, int], bool]
    most_sequences: int | None = None
    capacity: Callable[[int], int] | None = None
    most_tokens: int | None = None


def fit(size: Size, budget: Budget, engine: Holding | None = None) -> Fit:
    """Fit the sized cache into a budget: the fullest GPU decides. With an `engine`, what that reserves is fitted.

    Raises KvcalcError where the weights are unknown.
    """
    request = size.request
    each = size.rank_bytes(request.context) if engine is None else None
    return fill(room_of(size, budget), request, engine or sized(size), each)


def fill(room: Room, request: Request, holding: Holding, each: int | None = None) -> Fit:
    """What a room holds of what was asked. `each`: bytes of one sequence, where all take the same."""
    dp, local_batch = request.layout.dp, request.sequences_per_replica
    most, context_binding = longest_context(room, holding, request)
    if each is not None:
        sequences, binding, capacity = equal_sequences(room, request.context, each)
    else:
        sequences, binding = most_sequences(room, holding, request.context)
        capacity = capacity_tokens(room, holding, request.context * local_batch)
    return Fit(
        room,
        kv_asked=holding.asked,
        max_batch=None if sequences is None else sequences * dp,
        max_context=most,
        capacity_tokens=None if capacity is None else capacity * dp,
        fits=holding.asked <= room.kv_budget and holding.holds(local_batch, request.context, room.free),
        binding=binding,
        context_binding=context_binding,
    )


def sized(size: Size) -> Holding:
    """How the exact size fills one GPU."""
    return Holding(size.bytes_per_gpu, lambda sequences, tokens, free: sequences * size.rank_bytes(tokens) <= free)


def longest_context(room: Room, holding: Holding, request: Request) -> tuple[int | None, Binding]:
    """The most tokens in each sequence of the asked batch, None where nothing limits them, and what stops one more."""
    batch, limit = request.sequences_per_replica, request.model.max_context
    own_limit = holding.most_tokens if holding.most_tokens is not None else MOST_TOKENS
    highest = min(limit if limit is not None else MOST_TOKENS, own_limit)
    most = most_of(lambda tokens: holding.holds(batch, tokens, room.free), highest)
    if limit is None and most == MOST_TOKENS:
        return None, _MODEL
    if most == limit:
        return most, _MODEL
    refused = holding.most_sequences is not None and batch > holding.most_sequences
    return most, "engine" if refused or most == own_limit else room.full


def equal_sequences(room: Room, tokens: int, each: int) -> tuple[int | None, Binding, int | None]:
    """Sequences of `each` bytes on one replica, what stops one more, and the tokens; None where nothing does."""
    return (room.free // each, room.full, room.free * tokens // each) if each else (None, _MODEL, None)


def most_sequences(room: Room, holding: Holding, tokens: int) -> tuple[int | None, Binding]:
    """The most sequences on one replica, None where nothing limits them, and what stops one more."""
    limit = holding.most_sequences or MOST_TOKENS
    most = most_of(lambda sequences: holding.holds(sequences, tokens, room.free), limit)
    return (most, room.full) if most < limit else (holding.most_sequences, "engine")


def capacity_tokens(room: Room, holding: Holding, asked_tokens: int) -> int | None:
    """Tokens on one replica: the engine's own count, else in proportion to what was asked."""
    if holding.capacity:
        return holding.capacity(room.free)
    return room.free * asked_tokens // holding.asked if holding.asked else None


def kv_budget(vram: int, share: Share, weights: int, overhead: int, *, of_rest: bool = False) -> int:
    """Bytes of a GPU that are left for the cache; less than nothing where the others do not fit."""
    if not of_rest:
        return share.floor(vram) - weights - overhead
    left = vram - weights - overhead
    return share.floor(left) if left > 0 else left


def room_of(size: Size, budget: Budget) -> Room:
    """budget for the cache = vram x utilization - weights / (tp x pp) - overhead, on each GPU."""
    if budget.kv_memory is not None:
        return Room(budget.kv_memory)
    layout = size.request.layout
    whole = weigh(size.request.model, budget.weights, budget.loaded)
    return room_for(whole, layout.tp * layout.pp, budget)


def room_for(whole: Weighed, ways: int, budget: Budget) -> Room:
    """The same for weights that are known, spread over `ways` GPUs."""
    if budget.vram is None:
        raise KvcalcError("--vram: expected a size, or --kv-memory instead")
    share = budget.utilization or Share(1, 1)
    weights = ceil_div(whole.bytes, ways)
    left = kv_budget(budget.vram, share, weights, budget.overhead, of_rest=budget.of_rest)
    beside = (budget.vram if budget.of_rest else share.floor(budget.vram)) - budget.overhead
    return Room(
        kv_budget=left,
        vram=budget.vram,
        utilization=share,
        idle=budget.vram - budget.overhead - weights - left,
        of_rest=budget.of_rest,
        weights=weights,
        overhead=budget.overhead,
        gpus_for_weights=ceil_div(whole.bytes, beside) if beside > 0 else None,
        whole_weights=whole.bytes,
        weights_source=whole.source,
        card=budget.card,
        rough_weights=whole.rough,
    )


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


def warnings(room: Room | None, stored: str | None = None) -> list[str]:
    """What the asker should know about the memory that is counted with. `stored`: what runs in their place."""
    if room is None or room.weights_source is None:
        return []
    if stored is not None:
        return [f"weights counted as {room.weights_source}, while what runs is {stored}: --weights SIZE takes its size"]
    if room.rough_weights:
        estimate = f"weights estimated as {room.weights_source}"
        return [f"{estimate}, without what is stored in wider formats; --weights SIZE takes a measured size"]
    return []
