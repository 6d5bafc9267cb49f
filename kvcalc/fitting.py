"""How much of a cache fits into a budget, and what stops one more."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from kvcalc.errors import KvcalcError, shown
from kvcalc.sizing import Size
from kvcalc.units import MOST_TOKENS, ceil_div
from kvcalc.weights import Weights, weigh

__all__ = ["Binding", "Budget", "Fit", "Room", "Share", "fit", "warnings"]

Binding = Literal["weights", "kv", "model"]


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
    """What one GPU offers: `vram` bytes, weights and overhead still to come off, or `kv_memory` for the cache alone."""

    vram: int | None = None
    kv_memory: int | None = None
    utilization: Share = Share(1, 1)  # of --vram; engines and --gpu bring their own
    weights: Weights = "auto"
    overhead: int = 0


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
    rough_weights: bool = False  # estimated from a format that only a part of the checkpoint has


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


def fit(size: Size, budget: Budget) -> Fit:
    """Fit the sized cache into a budget: the fullest GPU decides. Raises KvcalcError where the weights are unknown."""
    room = _room(size, budget)
    request = size.request
    dp, local_batch = request.layout.dp, request.sequences_per_replica
    bytes_free = max(room.kv_budget, 0)
    each = size.rank_bytes(request.context)

    def holds(tokens: int) -> bool:
        return local_batch * size.rank_bytes(tokens) <= bytes_free

    limit = request.model.max_context
    most = _most_tokens(holds, limit if limit is not None else MOST_TOKENS)
    endless = limit is None and most == MOST_TOKENS
    full: Binding = "weights" if room.vram is not None and room.kv_budget <= 0 else "kv"
    return Fit(
        room,
        kv_asked=size.bytes_per_gpu,
        max_batch=bytes_free // each * dp if each else None,
        max_context=None if endless else most,
        capacity_tokens=bytes_free * request.context // each * dp if each else None,
        fits=size.bytes_per_gpu <= room.kv_budget,
        binding=full if each else "model",
        context_binding="model" if endless or most == limit else full,
    )


def _room(size: Size, budget: Budget) -> Room:
    """budget for the cache = vram x utilization - weights / (tp x pp) - overhead, on each GPU."""
    if budget.kv_memory is not None:
        return Room(budget.kv_memory)
    if budget.vram is None:
        raise KvcalcError("--vram: expected a size, or --kv-memory instead")
    layout = size.request.layout
    usable = budget.utilization.floor(budget.vram)
    whole = weigh(size.request.model, budget.weights)
    weights = ceil_div(whole.bytes, layout.tp * layout.pp)
    beside = usable - budget.overhead
    return Room(
        kv_budget=beside - weights,
        vram=budget.vram,
        utilization=budget.utilization,
        idle=budget.vram - usable,
        weights=weights,
        overhead=budget.overhead,
        gpus_for_weights=ceil_div(whole.bytes, beside) if beside > 0 else None,
        whole_weights=whole.bytes,
        weights_source=whole.source,
        rough_weights=whole.rough,
    )


def _most_tokens(holds: Callable[[int], bool], limit: int) -> int:
    """The largest context up to `limit` that `holds`, which never turns true again once false; 0 where none does."""
    if holds(limit):
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def warnings(fit: Fit | None) -> list[str]:
    """What the asker should know about the memory that the answer counts with."""
    if fit is None or not fit.room.rough_weights:
        return []
    estimate = f"weights estimated as {fit.room.weights_source}"
    return [f"{estimate}, without what is stored in wider formats; --weights SIZE takes a measured size"]
