"""The answer as a whole: cards in any order, refusals, why no smaller one does, other formats, and the steps told."""

from itertools import permutations
from typing import Literal

from kvcalc.core.card import Card
from kvcalc.core.sharding import Layout
from kvcalc.planner.proposal import Proposal, propose
from kvcalc.planner.question import Candidate, ExactBackend, PlanQuestion, Precision
from kvcalc.planner.replica import replica_layouts

from .hand import ANY, WHOLE, card, model, precision, search

# A sequence of 1,000 tokens takes 2,048,000 B: 1, 2 and 5 of them.
SMALL, MIDDLE, LARGE = (
    card(size, name, capability=(9, 0))
    for size, name in ((3_000_000, "small"), (5_000_000, "middle"), (11_000_000, "large"))
)
NONE = card(2_000_000, "none")  # not one
REPLICAS = Layout(1, 1, 0, 0)  # of one GPU each
CARDS = [Candidate(each) for each in (SMALL, MIDDLE, LARGE)]


class Without(ExactBackend):
    """Who fills the memory with nothing but the cache, and keeps none in the format of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(WHOLE)
        self._name = name

    def lacking(self, card: Card, what: Literal["cache", "weights"], name: str) -> str | None:
        return f"no {name} on {card.label}" if (what, name) == ("cache", self._name) else None


def proposed(
    candidates: list[Candidate],
    users: int = 5,
    precisions: list[Precision] | None = None,
    others: list[tuple[str, Precision]] | None = None,
    *,
    most: int = 4,
    pinned: Layout = REPLICAS,
    without: str = "",
    **more: object,
) -> Proposal:
    asked = search(PlanQuestion(1_000, users, most_gpus=most), Without(without))
    formats = precisions or [precision(model())]
    return propose(asked, candidates, formats, others or [], replica_layouts(model(), most, 8, pinned), **more)  # type: ignore[arg-type]


def shown(found: Proposal) -> list[tuple[str, int]]:
    return [(row.card.name, row.gpus) for row in found.rows]


def test_cards_in_any_order_and_twice() -> None:
    """Five users: one large card, three middle ones; five small ones are more than four."""
    for order in permutations(CARDS):
        found = proposed([*order, order[0]])
        assert shown(found) == [("large", 1), ("middle", 3)]
        assert found.best is found.rows[0]
        assert [(each.card, each.gpus, each.max_sequences) for each in found.refused] == [("small", 4, 4)]


def test_why_no_fewer_of_the_best() -> None:
    """Two middle cards hold four of five; of one large card there is none less."""
    assert proposed(CARDS).why_not is None
    why = proposed([Candidate(MIDDLE)]).why_not
    assert why is not None
    assert (why.card, why.gpus, why.max_sequences, why.binding) == ("middle", 2, 4, "kv")


def test_why_no_fewer_is_told_of_the_best_rows_own_formats() -> None:
    """In fp8 a middle card holds 4 and two hold 5 users, in bf16 three do: one less of two in fp8 holds 4, not 2."""
    formats = [precision(model()), precision(model(), kv="fp8")]
    found = proposed([Candidate(MIDDLE)], precisions=formats)
    assert shown(found) == [("middle", 2), ("middle", 3)]
    assert found.why_not is not None
    assert (found.why_not.gpus, found.why_not.max_sequences) == (1, 4)


def test_no_plan_at_all() -> None:
    """Every card is refused, in the order of their names."""
    found = proposed([Candidate(NONE), Candidate(SMALL)], users=50)
    assert (found.best, found.rows, found.why_not) == (None, [], None)
    assert [(each.card, each.max_sequences) for each in found.refused] == [("none", 0), ("small", 4)]


def test_a_card_that_has_one_of_the_formats_is_not_refused() -> None:
    """Whoever keeps no fp8 there still keeps bf16."""
    ampere = Candidate(card(11_000_000, "a100", capability=(8, 0)))
    formats = [precision(model(), kv="fp8"), precision(model())]
    found = proposed([ampere], precisions=formats, without="fp8")
    assert (shown(found), found.refused) == ([("a100", 1)], [])
    (refused,) = proposed([ampere], precisions=formats[:1], without="fp8").refused
    assert (refused.binding, refused.why) == ("dtype", "no fp8 on A100")


def test_other_formats_are_told_and_not_taken() -> None:
    """fp8 would need one middle card less of three; NVFP4 is not kept by who fills the memory."""
    others = [("--kv-dtype", precision(model(), kv=name)) for name in ("fp8", "nvfp4")]
    found = proposed([Candidate(MIDDLE)], others=others, without="nvfp4")
    assert shown(found) == [("middle", 3)]
    assert [each.words for each in found.changes] == [
        "fp8 cache: 1 GPU less: 2 x middle",
        "nvfp4 cache: none of these has nvfp4",
    ]


def test_rows_that_another_beats_are_not_shown() -> None:
    """Two layers to a GPU, or a replica for each user: the same headroom, and replicas of one GPU are the simplest."""
    found = proposed([Candidate(SMALL)], users=2, pinned=ANY, most=2)
    assert [(row.layout.tp, row.layout.pp, row.layout.dp) for row in found.rows] == [(1, 1, 2)]


def test_by_price() -> None:
    """A large card for 10 an hour, or three middle ones for 2 each."""
    priced = [Candidate(MIDDLE._replace(price=2.0)), Candidate(LARGE._replace(price=10.0))]
    assert shown(proposed(priced)) == shown(proposed(priced, order="price")) == [("middle", 3), ("large", 1)]
    priced[1] = Candidate(LARGE)  # whose price is not known
    assert shown(proposed(priced)) == [("large", 1), ("middle", 3)]


def test_every_step_is_told() -> None:
    """Three cards in one choice of formats and two others: nine searches, each card once however often it is named."""
    told: list[tuple[int, int]] = []
    others = [("--kv-dtype", precision(model(), kv=name)) for name in ("fp8", "fp32")]
    proposed([*CARDS, *CARDS], others=others, tick=lambda done, steps: told.append((done, steps)))
    assert told == [(n, 9) for n in range(1, 10)]


def test_a_fixed_number_is_an_offer_of_its_own() -> None:
    """Two and four middle cards: three are the fewest, four are taken in full, two are too few."""
    found = proposed([Candidate(MIDDLE, fixed) for fixed in (4, None, 2)])
    assert [(row.gpus, row.candidate.fixed) for row in found.rows] == [(3, None), (4, 4)]
    assert [(each.gpus, each.fixed, each.max_sequences) for each in found.refused] == [(2, True, 4)]
