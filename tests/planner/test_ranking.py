"""The order of rows: each rule alone, on rows whose other numbers are equal."""

import pytest

from kvcalc.core.card import Card
from kvcalc.core.sharding import Layout
from kvcalc.planner.question import Candidate
from kvcalc.planner.ranking import leading, price, rank, simplicity, undominated
from kvcalc.planner.rows import Deployment, PlanRow

from .hand import ALONE, card, config, model

CONFIG = config(model())


def row(
    layout: Layout = ALONE,
    headroom: float = 0.5,
    *,
    of: Card | None = None,
    fixed: int | None = None,
    kv: str = "auto",
) -> Deployment:
    named = CONFIG._replace(precision=CONFIG.precision._replace(kv=kv))
    return Deployment(Candidate(of or card(10**9, "a"), fixed), named, layout, headroom, None)


# From simple to less so: fewest stages; the context in one piece; the fewest GPUs in a replica.
SIMPLE = [
    Layout(1, 1, 8),
    Layout(2, 1, 4),
    Layout(4, 1, 2),
    Layout(8, 1, 1),
    Layout(4, 1, 2, 2),
    Layout(8, 1, 1, 2),
    Layout(8, 1, 1, 4),
    Layout(1, 2, 4),
    Layout(2, 2, 2),
    Layout(4, 2, 1),
    Layout(1, 8, 1),
]


def test_the_order_of_simplicity() -> None:
    """8 GPUs in eleven ways: replicas of one before wider ones, a split context behind, stages last."""
    assert sorted([*SIMPLE[::2], *SIMPLE[1::2]], key=simplicity) == SIMPLE


def test_rows_that_another_beats_are_left_out() -> None:
    """A less simple row stays only where it has more headroom than all simpler ones; equals do not count as more."""
    tp, dp, staged = Layout(4), Layout(1, 1, 4), Layout(1, 4)
    assert undominated([row(staged, 0.9), row(tp, 0.5), row(dp, 0.4)]) == [row(dp, 0.4), row(tp, 0.5), row(staged, 0.9)]
    assert undominated([row(staged, 0.5), row(tp, 0.5), row(dp, 0.4)]) == [row(dp, 0.4), row(tp, 0.5)]
    assert undominated([row(staged, 0.3), row(tp, 0.3), row(dp, 0.4)]) == [row(dp, 0.4)]
    assert undominated([]) == []


def test_of_two_that_are_as_simple_the_roomier_stays() -> None:
    """Layouts with the same key, 4 x 2 and 2 x 4 stages aside: more headroom comes first, and the other adds nothing."""
    assert undominated([row(Layout(4), 0.4), row(Layout(4), 0.6)]) == [row(Layout(4), 0.6)]


CHEAP, DEAR, FREE = card(10**9, "cheap", price=1.0), card(10**9, "dear", price=2.5), card(10**9, "free")


def test_least_memory_then_simplicity_then_headroom_then_names() -> None:
    """Each of the four decides only where all before it are equal."""
    many = row(Layout(4), 0.9)
    little = row(Layout(2), 0.1)
    staged, plain = row(Layout(1, 2), 0.2), row(Layout(2), 0.2)
    other, fp8 = row(Layout(2), 0.2, of=card(10**9, "b")), row(Layout(2), 0.2, kv="fp8")
    fixed = row(Layout(2), 0.2, fixed=2)
    tight = row(Layout(1), 0.9)._replace(sure=False)
    ordered = [plain, fp8, fixed, other, little, staged, many, tight]
    assert rank(ordered) == ordered
    assert rank(reversed(ordered)) == ordered


def test_cards_that_are_sold_with_as_much_memory_are_alike() -> None:
    """Two of "80 GB" with 79.2 GB and four of "40 GB" with 39.4: one of the larger ones is simpler."""
    large, small = card(79_200_000_000, "large"), card(39_400_000_000, "small")
    rows = [row(Layout(2, 1, 2), of=small), row(Layout(1, 1, 2), of=large)]
    assert [each.card.name for each in rank(rows)] == ["large", "small"]
    assert [each.card.name for each in rank([row(Layout(2), of=large), row(Layout(2), of=small)])] == ["small", "large"]


def test_by_price_an_hour() -> None:
    """3 x 1.0 is less than 2 x 2.5, and what has no price comes last, however few."""
    rows = [row(Layout(1), of=FREE), row(Layout(2), of=DEAR), row(Layout(3), of=CHEAP)]
    assert [price(each) for each in rows] == [float("inf"), 5.0, 3.0]
    assert [each.card.name for each in rank(rows)] == ["free", "dear", "cheap"]
    assert [each.card.name for each in rank(rows[1:])] == ["cheap", "dear"]  # all have one
    assert [each.card.name for each in rank(rows, order="price")] == ["cheap", "dear", "free"]


def test_the_best_of_each_card_comes_first() -> None:
    """The same card in a fixed number is another offer; what is behind keeps its order."""

    def planned(name: str, fixed: int | None, gpus: int) -> PlanRow:
        found = row(Layout(gpus), of=card(10**9, name), fixed=fixed)
        request = CONFIG.precision.request._replace(layout=found.layout)
        fields = {"candidate": found.candidate, "config": CONFIG, "request": request}
        return PlanRow(**fields, **dict.fromkeys(PlanRow._fields[3:-1]))  # type: ignore[arg-type]

    rows = [planned("a", None, 1), planned("a", None, 2), planned("a", 4, 4), planned("b", None, 5), planned("a", 4, 6)]
    assert leading(rows) == [rows[0], rows[2], rows[3], rows[1], rows[4]]


@pytest.mark.parametrize("layout", SIMPLE, ids=str)
def test_a_deployment_knows_its_gpus(layout: Layout) -> None:
    """A split of the context takes no GPU of its own."""
    assert row(layout).gpus == layout.tp * layout.pp * layout.dp
