"""What an engine reserves, as values for JSON and as words for people."""

from collections import Counter

from kvcalc.document import Value
from kvcalc.explain import Term
from kvcalc.report import Bytes, Cell, Count, EnginePart, Section
from kvcalc.reserving import Plan, Reservation

__all__ = ["engine_part", "engine_values"]


def engine_values(reservation: Reservation, budget: int | None) -> dict[str, Value]:
    """The `engine` object: the reserved size, the differences that lead to it, each group of caches, the log's lines.

    With a `budget` for each GPU, what a pool engine counts in it. The parts (`k_bytes`, `v_bytes`, `state_bytes`,
    ...) and the layers are those of the fullest replica.
    """
    plan = reservation.plan
    parts: Counter[str] = Counter()
    for charge in plan.charges:
        parts.update(dict(charge.parts))
    layers: list[Value] = [
        {
            "name": charge.name,
            "count": charge.copies,
            "stage": charge.stage,
            "exact_bytes": charge.exact,
            "reserved_bytes": charge.bytes,
            **dict(charge.parts),
        }
        for charge in plan.charges
    ]
    differences: list[Value] = [
        {"why": rule.why, "bytes": amount, "source": rule.source} for rule, amount in reservation.differences
    ]
    return {
        "name": reservation.engine.name,
        "version": reservation.question.version.name,
        "reserved_bytes_total": reservation.reserved_total,
        "reserved_bytes_per_gpu": reservation.reserved_per_gpu,
        "exact_bytes_total": reservation.exact_total,
        **parts,
        **plan.values,
        "differences": differences,
        "layers": layers,
        "log_lines": list(plan.log),
        **_counted(plan, budget),
    }


def _counted(plan: Plan, budget: int | None) -> dict[str, Value]:
    if plan.capacity is None or budget is None:
        return {}
    counted = plan.capacity(budget)
    return {
        **counted.values,
        "capacity_tokens": counted.tokens,
        "max_concurrency": counted.concurrency,
        "log_lines": [*plan.log, *counted.log],
    }


def engine_part(reservation: Reservation, budget: int | None) -> EnginePart:
    """What stands in the report: exact size, each rule's difference, reserved size; the sums behind them."""
    name = f"{reservation.engine.name} {reservation.question.version.name}"
    rows: list[tuple[Cell, ...]] = [("exact size", Bytes(reservation.exact_total))]
    rows += [(rule.why, Bytes(amount)) for rule, amount in reservation.differences]
    rows.append(("reserved", Bytes(reservation.reserved_total)))
    if reservation.question.request.layout.gpus > 1:
        rows.append(("reserved on the fullest GPU", Bytes(reservation.reserved_per_gpu)))
    if reservation.plan.capacity is not None and budget is not None:
        counted = reservation.plan.capacity(budget)
        rows.append(("tokens that it counts", Count(counted.tokens)))
        if counted.concurrency is not None:
            rows.append(("concurrency that it logs", f"{counted.concurrency:.2f}x"))
    return EnginePart(
        Section(f"{name} reserves", (f"{name} reserves", ""), rows),
        _terms(reservation, name),
        list(reservation.plan.facts),
    )


def _terms(reservation: Reservation, name: str) -> list[Term]:
    """Each group of caches as the engine sums it, and each rule with its bytes."""
    found = [
        Term(f"{name}, {charge.name}", charge.how, charge.bytes, "; ".join(step.rule.source for step in charge.steps))
        for charge in reservation.plan.charges
    ]
    rules = [
        Term(f"{name}, {rule.why}", "reserved minus exact", amount, rule.source)
        for rule, amount in reservation.differences
    ]
    return found + rules
