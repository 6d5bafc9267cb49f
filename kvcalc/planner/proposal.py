"""The answer to a plan's question: rows in order, why cheaper ones fail, and what other formats would change."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.planner.question import Choice, Offer, Way, unable, ways_of
from kvcalc.planner.ranking import rank, undominated
from kvcalc.planner.reasons import Change, Refused, changed, fewer, refuse
from kvcalc.planner.replica import Spread
from kvcalc.planner.search import Found, Row, Search

__all__ = ["Proposal", "propose"]

Tick = Callable[[int, int], None]


class Proposal(NamedTuple):
    """`rows`, best first. `refused`: cards that cannot within the limit. `why_not`: why no fewer of the best one do."""

    facts: Model
    search: Search
    rows: list[Row]
    refused: list[Refused]
    why_not: Refused | None
    changes: list[Change]

    @property
    def best(self) -> Row | None:
        return self.rows[0] if self.rows else None


def propose(
    search: Search,
    offers: Iterable[Offer],
    choices: Sequence[Choice],
    others: Sequence[tuple[str, Choice]],
    spreads: Sequence[Spread],
    *,
    by_price: bool = False,
    tick: Tick | None = None,
) -> Proposal:
    """Search every card in every choice of formats. `others` are those that were not asked for, with their options."""
    cards = sorted(set(offers), key=lambda offer: (offer.card.name, offer.fixed or 0))
    steps, done = (len(choices) + len(others)) * len(cards), 0

    def found(ways: Sequence[Way]) -> dict[Offer, list[Found]]:
        nonlocal done
        rows = {}
        for offer in cards:
            able = unable(offer.card, ways[0].choice, search.filling) is None if ways else False
            rows[offer] = undominated(search.cheapest(offer, ways)) if able else []
            done += 1
            if tick is not None:
                tick(done, steps)
        return rows

    ways = [ways_of(choice, spreads) for choice in choices]
    each = [found(some) for some in ways]
    ranked = rank((one for by_card in each for some in by_card.values() for one in some), by_price=by_price)
    rows = [search.row(one) for one in ranked]
    refused = [
        refuse(search, offer, ways[0], offer.fixed or search.need.most_gpus)
        for offer in cards
        if not any(by_card[offer] for by_card in each)
    ]
    best = rows[0] if rows else None
    changes = []
    for option, choice in others:
        by_card = found(ways_of(choice, spreads))
        after = rank((one for some in by_card.values() for one in some), by_price=by_price)
        changes.append(changed(search, option, choice, best, after))
    why_not = None
    if best is not None:
        why_not = fewer(search, best, next(some for some in ways if some[0].choice is best.way.choice))
    return Proposal(choices[0].request.facts, search, rows, refused, why_not, changes)
