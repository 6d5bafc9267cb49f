"""What an engine reserves, as values for JSON and as words for people."""

from collections import Counter
from typing import TYPE_CHECKING, cast

from kvcalc.core.explain import Term
from kvcalc.core.fitting import Fit
from kvcalc.engines.allocation import Charge
from kvcalc.engines.base import Reservation
from kvcalc.views.report import Bytes, Cell, Count, EnginePart, Section

if TYPE_CHECKING:
    from kvcalc.views.types.size import EngineCapacity, EngineLayer, EngineNotes, EngineSizes, EngineTotals

__all__ = ["engine_part", "engine_values"]

_UNCHANGED = "as the exact size: no rule of this engine changes it"


def engine_values(reservation: Reservation, fit: Fit | None) -> "EngineSizes":
    """The `engine` object: the reserved size, the differences that lead to it, each group of caches, what was assumed,
    the log's lines.

    With a `fit`, what a pool engine counts in its budget. The parts (`k_bytes`, `v_bytes`, `state_bytes`,
    ...) and the layers are those of the fullest replica.
    """
    plan = reservation.allocation
    parts: Counter[str] = Counter()
    for charge in plan.charges:
        parts.update(dict(charge.parts))
    totals: EngineTotals = {
        "name": reservation.engine.name,
        "version": reservation.question.version.name,
        "reserved_bytes_total": reservation.reserved_total,
        "reserved_bytes_per_gpu": reservation.reserved_per_gpu,
        "exact_bytes_total": reservation.exact_total,
    }
    notes: EngineNotes = {
        "differences": [
            {"why": rule.why, "bytes": amount, "source": rule.source} for rule, amount in reservation.differences
        ],
        "layers": [_layer(charge) for charge in plan.charges],
        "notes": list(plan.facts),
        "log_lines": list(plan.log),
    }
    # Each engine has keys of its own, so that no type can name them all.
    return cast("EngineSizes", {**totals, **parts, **plan.values, **notes, **_counted(reservation, fit)})


def _layer(charge: Charge) -> "EngineLayer":
    known: EngineLayer = {
        "name": charge.name,
        "count": charge.copies,
        "stage": charge.stage,
        "exact_bytes": charge.exact,
        "reserved_bytes": charge.bytes,
    }
    return cast("EngineLayer", {**known, **dict(charge.parts)})


def _counted(reservation: Reservation, fit: Fit | None) -> dict[str, object]:
    """What a pool engine counts in a budget, and from where to where it may come out where that is an estimate."""
    capacity = reservation.allocation.capacity
    if capacity is None or fit is None:
        return {}
    counted = capacity(max(fit.memory.kv_budget, 0))
    low, high = _range(reservation, fit) or (None, None)
    known: EngineCapacity = {
        "capacity_tokens": counted.tokens,
        "capacity_tokens_low": low,
        "capacity_tokens_high": high,
        "max_concurrency": counted.concurrency,
        "log_lines": [*reservation.allocation.log, *counted.log],
    }
    return {**counted.values, **known}


def _range(reservation: Reservation, fit: Fit) -> tuple[int, int] | None:
    """The fewest and the most tokens, as what the engine takes beside weights and cache turns out.

    None where that is known, or the memory of the cache was given.
    """
    capacity, memory = reservation.allocation.capacity, fit.memory
    if capacity is None or memory.kv_budget_low is None or memory.kv_budget_high is None:
        return None
    low, high = (capacity(max(each, 0)).tokens for each in (memory.kv_budget_low, memory.kv_budget_high))
    return low, high


def engine_part(reservation: Reservation, fit: Fit | None) -> EnginePart:
    """What stands in the report: exact size, each rule's difference, reserved size; the sums behind them."""
    name = f"{reservation.engine.name} {reservation.question.version.name}"
    rows: list[tuple[Cell, ...]] = [("exact size", Bytes(reservation.exact_total))]
    rows += [(rule.why, Bytes(amount)) for rule, amount in reservation.differences]
    rows.append(("reserved", Bytes(reservation.reserved_total)))
    if reservation.question.request.layout.gpus > 1:
        rows.append(("reserved on the fullest GPU", Bytes(reservation.reserved_per_gpu)))
    if reservation.allocation.needed != reservation.reserved_per_gpu:  # what a fit asks for
        rows.append(("peak on one GPU, which must fit", Bytes(reservation.allocation.needed)))
    rows += _counted_rows(reservation, fit)
    return EnginePart(
        Section(f"{name} reserves", (f"{name} reserves", ""), rows),
        _terms(reservation, name),
        list(reservation.allocation.facts),
    )


def _counted_rows(reservation: Reservation, fit: Fit | None) -> list[tuple[Cell, ...]]:
    capacity = reservation.allocation.capacity
    if capacity is None or fit is None:
        return []
    counted = capacity(max(fit.memory.kv_budget, 0))
    rows: list[tuple[Cell, ...]] = [("GPU KV cache size, tokens", Count(counted.tokens))]
    bounds = _range(reservation, fit)
    if bounds is not None:
        rows.append(("depending on runtime overhead", f"{bounds[0]:,} to {bounds[1]:,}"))
    if isinstance(behind := counted.values.get("host_tier_tokens"), int):
        rows.append(("tokens that the host keeps behind it", Count(behind)))
    if counted.concurrency is not None:
        rows.append(("maximum concurrency, as logged", f"{counted.concurrency:.2f}x"))
    return rows


def _terms(reservation: Reservation, name: str) -> list[Term]:
    """Each group of caches as the engine sums it, and each rule with its bytes."""
    found = [
        Term(
            f"{name}, {charge.name}",
            charge.how,
            charge.bytes,
            "; ".join(step.rule.source for step in charge.steps) or _UNCHANGED,
        )
        for charge in reservation.allocation.charges
    ]
    rules = [
        Term(f"{name}, {rule.why}", "reserved minus exact", amount, rule.source)
        for rule, amount in reservation.differences
    ]
    return found + rules
