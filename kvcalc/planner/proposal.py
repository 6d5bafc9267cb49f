"""The answer to a plan's question: rows in order, why cheaper ones fail, and what other formats would change."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.planner.question import Candidate, ParallelConfig, Precision, parallel_configs, unsupported
from kvcalc.planner.ranking import Order, rank, undominated
from kvcalc.planner.reasons import Change, Refused, changed, fewer, refuse
from kvcalc.planner.replica import ReplicaLayout
from kvcalc.planner.rows import Deployment, PlanRow
from kvcalc.planner.search import Search

__all__ = ["Proposal", "propose"]

Tick = Callable[[int, int], None]


class Proposal(NamedTuple):
    """`rows`, best first. `refused`: cards that cannot within the limit. `why_not`: why no fewer of the best one do."""

    facts: Model
    search: Search
    rows: list[PlanRow]
    refused: list[Refused]
    why_not: Refused | None
    changes: list[Change]

    @property
    def best(self) -> PlanRow | None:
        return self.rows[0] if self.rows else None


def propose(
    search: Search,
    candidates: Iterable[Candidate],
    precisions: Sequence[Precision],
    others: Sequence[tuple[str, Precision]],
    replica_layouts: Sequence[ReplicaLayout],
    *,
    order: Order = "rank",
    tick: Tick | None = None,
) -> Proposal:
    """Search every card in every choice of formats. `others` are those that were not asked for, with their options."""
    cards = sorted(set(candidates), key=lambda candidate: (candidate.card.name, candidate.fixed or 0))
    steps, done = (len(precisions) + len(others)) * len(cards), 0

    def found(configs: Sequence[ParallelConfig]) -> dict[Candidate, list[Deployment]]:
        nonlocal done
        rows = {}
        for candidate in cards:
            able = unsupported(candidate.card, configs[0].precision, search.backend) is None if configs else False
            rows[candidate] = _surest(search, candidate, configs) if able else []
            done += 1
            if tick is not None:
                tick(done, steps)
        return rows

    configs = [parallel_configs(precision, replica_layouts, search.backend) for precision in precisions]
    each = [found(some) for some in configs]
    ranked = rank((one for by_card in each for some in by_card.values() for one in some), order=order)
    rows = [search.row(one) for one in ranked]
    refused = [
        refuse(search, candidate, configs[0], candidate.fixed or search.question.most_gpus)
        for candidate in cards
        if not any(by_card[candidate] for by_card in each)
    ]
    best = rows[0] if rows else None
    changes = []
    for option, precision in others:
        by_card = found(parallel_configs(precision, replica_layouts, search.backend))
        after = rank((one for some in by_card.values() for one in some), order=order)
        changes.append(changed(search, option, precision, best, after))
    why_not = None
    if best is not None:
        why_not = fewer(search, best, next(some for some in configs if some[0].precision is best.config.precision))
    return Proposal(precisions[0].request.facts, search, rows, refused, why_not, changes)


def _surest(search: Search, candidate: Candidate, configs: Sequence[ParallelConfig]) -> list[Deployment]:
    """The ways with the fewest of a card; and where none of them does with the most that overheads may take, those with
    the fewest that do.
    """
    found = undominated(search.cheapest(candidate, configs))
    if found and not any(one.sure for one in found):
        found += undominated(search.cheapest(candidate, configs, sure=True))
    return found
