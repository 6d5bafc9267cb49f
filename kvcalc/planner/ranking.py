"""The order of a plan's rows, which depends on no other order.

First what does with the most that overheads may take; then what costs least, by the asker's prices where all cards have
one, else by the memory that is rented; then the simplest split, the most headroom, and the least time a token.
"""

from collections.abc import Iterable, Sequence
from math import floor, log
from typing import Literal, TypeAlias

from kvcalc.core.sharding import Layout
from kvcalc.planner.rows import Deployment, PlanRow

__all__ = ["Order", "leading", "price", "rank", "simplicity", "undominated"]

Key: TypeAlias = tuple[float, ...]
Order: TypeAlias = Literal["rank", "price", "tpot", "rate"]

_NEAR = 1.15  # times that are nearer than the clock is right are one
_ALIKE = 1.05  # memory that differs by less is as much: cards of "40 GB" and "80 GB" lack some of it
_FAST = 64 * 10**9  # bytes a second between GPUs: NVLink and its like, not PCI Express


def simplicity(layout: Layout) -> Key:
    """Smaller is simpler: no pipeline, since each token passes its stages one by one, no split of the context, and
    replicas of few GPUs before wide ones.
    """
    return layout.pp, layout.dcp, layout.tp * layout.pp, layout.ep > 1


def price(row: Deployment | PlanRow) -> float:
    """An hour of all GPUs, by the user's own prices; what has none comes last."""
    return float("inf") if row.card.price is None else row.gpus * row.card.price


def _seconds(row: Deployment) -> float:
    """Seconds of a token, without what the clock cannot tell apart; 0 where no lengths are known."""
    seconds = None if row.load is None else row.load.seconds_per_token
    return 0.0 if not seconds else float(floor(log(seconds) / log(_NEAR)))


def _split(row: Deployment) -> Key:
    """What tells ways of one cost apart: the simplest, then headroom, then time. Over PCI Express the clock decides
    between stages and tp, where lengths are known.
    """
    pp, *simple = simplicity(row.layout)
    quick = _seconds(row)
    decides = quick if (row.card.link or 0) < _FAST else 0.0
    return 0.0 if decides else pp, *simple, decides, -row.headroom, quick, pp


def undominated(rows: Sequence[Deployment]) -> list[Deployment]:
    """Those of one card and choice of formats than which no other has as much headroom and is as simple, and better in
    one of the two. They all have the same number of GPUs.
    """
    kept: list[Deployment] = []
    for row in sorted(rows, key=_split):
        if all(row.headroom > other.headroom for other in kept):
            kept.append(row)
    return kept


def rank(rows: Iterable[Deployment], *, order: Order = "rank") -> list[Deployment]:
    """The best first. Rows with the same numbers are told apart by their names."""
    listed = list(rows)
    priced = all(row.card.price is not None for row in listed)

    def key(row: Deployment) -> tuple[object, ...]:
        names = row.card.name, row.candidate.fixed or 0, row.config.precision.kv, row.config.precision.weights_name
        by_price = order == "price" or (order == "rank" and priced)
        cost = price(row) if by_price else float(floor(log(row.gpus * row.card.memory) / log(_ALIKE)))
        first: Key = ()
        if order == "tpot":
            first = (float("inf") if row.load is None else row.load.seconds_per_token or float("inf"),)
        elif order == "rate":
            first = (0.0 if row.load is None else -row.load.capacity * row.layout.dp,)
        return *first, not row.sure, cost, _split(row), names

    return sorted(listed, key=key)


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
