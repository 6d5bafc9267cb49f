"""The order of a plan's rows: fewest GPUs, then headroom, then simplicity, then names. It depends on no other order."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from kvcalc.core.sharding import Layout
from kvcalc.planner.search import Found, Row

__all__ = ["leading", "price", "rank", "simplicity", "undominated"]

Key: TypeAlias = tuple[float, ...]


def simplicity(layout: Layout) -> Key:
    """Smaller is simpler: the fewest pipeline stages, since each token passes them one by one, then the fewest kinds of
    parallelism, and tp before dp.
    """
    kinds = sum(size > 1 for size in layout)
    return layout.pp, kinds, layout.dp, layout.dcp


def price(row: Found | Row) -> float:
    """An hour of all GPUs, by the user's own file; what has no price comes last."""
    return float("inf") if row.card.price is None else row.gpus * row.card.price


def undominated(rows: Sequence[Found]) -> list[Found]:
    """Those of one card and choice of formats than which no other has as much headroom and is as simple, and better in
    one of the two. They all have the same number of GPUs.
    """
    kept: list[Found] = []
    for row in sorted(rows, key=lambda row: (simplicity(row.layout), -row.headroom)):
        if all(row.headroom > other.headroom for other in kept):
            kept.append(row)
    return kept


def rank(rows: Iterable[Found], *, by_price: bool = False) -> list[Found]:
    """The best first. Rows with the same numbers are told apart by their names."""

    def key(row: Found) -> tuple[object, ...]:
        cost = (price(row),) if by_price else ()
        names = row.card.name, row.offer.fixed or 0, row.way.choice.kv, row.way.choice.weights_name
        return *cost, row.gpus, -row.headroom, simplicity(row.layout), names

    return sorted(rows, key=key)


def leading(rows: Sequence[Row]) -> list[Row]:
    """The best row of each card first, the others behind."""
    seen: set[tuple[str, int | None]] = set()
    first: list[Row] = []
    others: list[Row] = []
    for row in rows:
        offered = row.card.name, row.offer.fixed
        (others if offered in seen else first).append(row)
        seen.add(offered)
    return first + others
