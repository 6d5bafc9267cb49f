"""A plan for any model: more never needs more, a row is what the size verb says, and the order of cards is nothing."""

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.card import Card
from kvcalc.core.fitting import Budget, fit
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import measure
from kvcalc.core.units import Fraction
from kvcalc.core.weights import weigh
from kvcalc.errors import KvcalcError
from kvcalc.planner.proposal import Proposal, propose
from kvcalc.planner.question import Candidate, ExactBackend, PlanQuestion, Precision
from kvcalc.planner.replica import ExactReplica, replica_layout, replica_layouts
from kvcalc.planner.search import Search

MODELS = st.from_type(Model)
TOKENS = st.integers(1, 20_000)
USERS = st.integers(1, 500)
GIB = 2**30
MEMORY = st.integers(4 * GIB, 300 * GIB)
WEIGHTS = st.integers(0, 400 * GIB)
MOST = 16
NINE_TENTHS = Fraction(9, 10)


def card(memory: int, name: str = "") -> Candidate:
    return Candidate(Card(name, name, memory))


def planned(
    model: Model,
    candidates: list[Candidate],
    question: PlanQuestion,
    weights: int = 0,
    kv_dtype: str = "fp32",
    share: Fraction = NINE_TENTHS,
) -> Proposal:
    request = ask(model, context=question.context, batch=question.users, kv_dtype=kv_dtype)
    precision = Precision(kv_dtype, weights, request, weigh(model, weights), "")
    search = Search(question, ExactBackend(share))
    return propose(search, candidates, [precision], [], replica_layouts(model, MOST, 8, Layout(0, 0, 0, 0)))


def gpus(model: Model, memory: int, question: PlanQuestion, weights: int, kv_dtype: str = "fp32") -> int:
    """How many GPUs a plan needs; more than any where there is none."""
    best = planned(model, [card(memory)], question, weights, kv_dtype).best
    return MOST + 1 if best is None else best.gpus


@given(MODELS, TOKENS, USERS, USERS, MEMORY, MEMORY, WEIGHTS)
def test_more_never_needs_more(
    model: Model, tokens: int, users: int, more_users: int, memory: int, more_memory: int, weights: int
) -> None:
    """More memory, fewer users or a smaller format never need more GPUs."""
    question = PlanQuestion(tokens, users, most_gpus=MOST)
    asked = gpus(model, memory, question, weights)
    assert gpus(model, memory + more_memory, question, weights) <= asked
    assert gpus(model, memory, question._replace(users=users + more_users), weights) >= asked
    assert gpus(model, memory, question, weights, "fp8") <= asked


@given(MODELS, TOKENS, USERS, MEMORY, WEIGHTS, st.integers(1, 1_000))
def test_a_row_is_what_the_size_verb_says(
    model: Model, tokens: int, users: int, memory: int, weights: int, part: int
) -> None:
    """Each row, sized again, fits with the same numbers, and one user more than its largest batch does not."""
    share = Fraction(part, 1_000)
    found = planned(model, [card(memory)], PlanQuestion(tokens, users, most_gpus=MOST), weights, share=share)
    for row in found.rows:
        budget = Budget(memory, None, share, weights, row.lines, row.card)
        layout = row.layout._asdict()
        again = fit(measure(ask(model, context=tokens, batch=users, kv_dtype="fp32", **layout)), budget)
        assert again == row.fit
        assert again.fits
        if row.binding == "kv" and row.max_sequences is not None:
            over = measure(ask(model, context=tokens, batch=row.max_sequences + 1, kv_dtype="fp32", **layout))
            assert not fit(over, budget).fits
            assert row.max_sequences_low is not None
            assert row.max_sequences_high is not None
            assert row.max_sequences_low <= row.max_sequences <= row.max_sequences_high


@given(MODELS, TOKENS, USERS, st.permutations([24, 40, 48, 80, 96, 141]), WEIGHTS)
def test_the_order_of_cards_changes_nothing(
    model: Model, tokens: int, users: int, sizes: list[int], weights: int
) -> None:
    """However the cards are listed, rows and refusals are the same."""
    question = PlanQuestion(tokens, users, most_gpus=MOST)

    def told(order: list[int]) -> tuple[object, ...]:
        found = planned(model, [card(size * GIB, f"c{size}") for size in order], question, weights)
        return [(row.card.name, row.layout, row.fit) for row in found.rows], found.refused, found.why_not

    assert told(sizes) == told(sorted(sizes))


@given(MODELS, TOKENS, st.sampled_from([Layout(), Layout(2), Layout(4), Layout(1, 2), Layout(2, 2), Layout(4, dcp=2)]))
def test_a_replica_is_the_same_as_the_core_has_it(model: Model, tokens: int, layout: Layout) -> None:
    """What the search counts for one GPU is what sizing counts there."""
    try:
        request = ask(model, context=tokens, **layout._asdict())
        size = measure(request)
    except KvcalcError:
        return
    memory = ExactReplica(replica_layout(model, layout), request.widths, request.encoder_tokens)
    assert memory.needed(1, tokens) == memory.each(tokens) == size.rank_bytes(tokens)
    assert memory.holds(3, tokens, 3 * size.rank_bytes(tokens))
    assert not size.rank_bytes(tokens) or not memory.holds(3, tokens, 3 * size.rank_bytes(tokens) - 1)


@given(MODELS, TOKENS, st.integers(1, 20_000), st.integers(1, 50))
def test_a_shared_prefix_never_takes_more(model: Model, tokens: int, prefix: int, users: int) -> None:
    """Sequences that share tokens take no more than without, and one alone takes the same."""
    request = ask(model, context=tokens)
    alone, shared = (
        ExactReplica(replica_layout(model, Layout()), request.widths, request.encoder_tokens, n) for n in (0, prefix)
    )
    assert shared.needed(users, tokens) <= alone.needed(users, tokens)
    assert shared.needed(1, tokens) == alone.needed(1, tokens)
