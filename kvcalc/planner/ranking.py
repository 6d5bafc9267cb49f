"""The order of a plan's rows: fewest GPUs, then simplicity, then headroom, then names. It depends on no other order."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from kvcalc.core.sharding import Layout
from kvcalc.planner.rows import Deployment, PlanRow

__all__ = ["leading", "price", "rank", "simplicity", "undominated"]

Key: TypeAlias = tuple[float, ...]


def simplicity(layout: Layout) -> Key:
    """Smaller is simpler: the fewest pipeline stages, since each token passes them one by one, then the fewest kinds of
    parallelism, and tp before dp.
    """
    kinds = sum(size > 1 for size in layout)
    return layout.pp, kinds, layout.dp, layout.dcp


def price(row: Deployment | PlanRow) -> float:
    """An hour of all GPUs, by the user's own file; what has no price comes last."""
    return float("inf") if row.card.price is None else row.gpus * row.card.price


def undominated(rows: Sequence[Deployment]) -> list[Deployment]:
    """Those of one card and choice of formats than which no other has as much headroom and is as simple, and better in
    one of the two. They all have the same number of GPUs.
    """
    kept: list[Deployment] = []
    for row in sorted(rows, key=lambda row: (simplicity(row.layout), -row.headroom)):
        if all(row.headroom > other.headroom for other in kept):
            kept.append(row)
    return kept


def rank(rows: Iterable[Deployment], *, by_price: bool = False) -> list[Deployment]:
    """The best first. Rows with the same numbers are told apart by their names."""

    def key(row: Deployment) -> tuple[object, ...]:
        cost = (price(row),) if by_price else ()
        names = row.card.name, row.candidate.fixed or 0, row.config.precision.kv, row.config.precision.weights_name
        return *cost, row.gpus, simplicity(row.layout), -row.headroom, names

    return sorted(rows, key=key)


def leading(rows: Sequence[PlanRow]) -> list[PlanRow]:
    """The best row of each card first, the others behind."""
    seen: set[tuple[str, int | None]] = set()
    first: list[PlanRow] = []
    others: list[PlanRow] = []
    for row in rows:
        offered = row.card.name, row.candidate.fixed
        (others if offered in seen else first).append(row)
        seen.add(offered)
    return first + others
