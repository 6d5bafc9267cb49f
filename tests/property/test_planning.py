"""A plan for any model, with an engine or without: more never needs more, a row is what the size verb says, and the order
of cards is nothing.
"""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st

import kvcalc
from kvcalc.core.card import Card
from kvcalc.core.fitting import fit
from kvcalc.core.memory import Budget
from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import measure
from kvcalc.core.units import Fraction, ceil_div
from kvcalc.core.weights import weigh
from kvcalc.engines.base import Engine
from kvcalc.engines.llama_cpp.engine import ENGINE as LLAMA_CPP
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.engine import ENGINE as SGLANG
from kvcalc.engines.tensorrt_llm.engine import ENGINE as TENSORRT_LLM
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.errors import KvcalcError
from kvcalc.perf.workload import Length, lengths
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.proposal import Proposal, propose
from kvcalc.planner.question import Candidate, ExactBackend, PlanQuestion, Precision
from kvcalc.planner.replica import ExactReplica, ReplicaLayout, replica_layout, replica_layouts
from kvcalc.planner.rows import PlanRow
from kvcalc.planner.search import Search

from .conftest import TOKENS, edges, sized

MODELS = st.from_type(Model)
SIZED = sized(MODELS)
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


@given(SIZED, USERS, USERS, MEMORY, MEMORY, WEIGHTS)
def test_more_never_needs_more(
    sized: tuple[Model, int], users: int, more_users: int, memory: int, more_memory: int, weights: int
) -> None:
    """More memory, fewer users or a smaller format never need more GPUs."""
    model, tokens = sized
    question = PlanQuestion(tokens, users, most_gpus=MOST)
    asked = gpus(model, memory, question, weights)
    assert gpus(model, memory + more_memory, question, weights) <= asked
    assert gpus(model, memory, question._replace(users=users + more_users), weights) >= asked
    assert gpus(model, memory, question, weights, "fp8") <= asked


@given(SIZED, USERS, MEMORY, WEIGHTS, st.integers(1, 1_000))
def test_a_row_is_what_the_size_verb_says(
    sized: tuple[Model, int], users: int, memory: int, weights: int, part: int
) -> None:
    """Each row, sized again, fits with the same numbers, and one user more than its largest batch does not."""
    model, tokens = sized
    share = Fraction(part, 1_000)
    found = planned(model, [card(memory)], PlanQuestion(tokens, users, most_gpus=MOST), weights, share=share)
    for row in found.rows:
        budget = Budget(memory, None, share, weights, row.lines, row.card)
        layout = row.layout.sizes
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


@given(SIZED, st.sampled_from([Layout(), Layout(2), Layout(4), Layout(1, 2), Layout(2, 2), Layout(4, dcp=2)]))
def test_a_replica_is_the_same_as_the_core_has_it(sized: tuple[Model, int], layout: Layout) -> None:
    """What the search counts for one GPU is what sizing counts there."""
    model, tokens = sized
    try:
        request = ask(model, context=tokens, **layout.sizes)
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


# With an engine: models of every kind that it has rules for, and its own size of a sequence, asked of it directly.
ENGINES = st.sampled_from([VLLM, SGLANG, TENSORRT_LLM, LLAMA_CPP])
PRESETS = """
    qwen3-8b gemma3-27b gpt-oss-20b gemma4-e4b mistral-7b-v0.1 phi3-mini-4k llama4-scout deepseek-v3 deepseek-v3.2
    deepseek-v4-flash kimi-linear-48b qwen3-next-80b jamba-1.5-mini falcon-mamba-7b nemotron-super-49b falcon-h1-1.5b
""".split()  # noqa: SIM905 - one a word
FEW_GPUS = 4


@cache
def preset(name: str) -> Model:
    return kvcalc.load(name)


@cache
def ways(name: str) -> list[ReplicaLayout]:
    return replica_layouts(preset(name), FEW_GPUS, FEW_GPUS, Layout(0, 0, 0, 0))


@st.composite
def asked(draw: st.DrawFn) -> tuple[Engine, str, int]:
    """An engine, a preset's name, and a length: any, or at the edge of a window or of a block."""
    name = draw(st.sampled_from(PRESETS))
    return draw(ENGINES), name, draw(TOKENS | edges(preset(name)))


@st.composite
def pools(draw: st.DrawFn, engine: Engine, name: str, tokens: int) -> int:
    """Bytes of a GPU: any, or just as many as a few sequences need, or one less, so that a pool is exactly full."""
    few, by = draw(st.integers(1, 9)), draw(st.sampled_from([-1, 0, 1]))
    exact = draw(st.booleans())
    if not exact:
        return draw(st.integers(2**30, 300 * GIB))
    request = ask(preset(name), context=tokens, batch=few)
    try:
        allocation = engine.allocate(Question(request, measure(request).placement, engine.versions[-1]))
    except KvcalcError:
        return GIB
    return max(1, allocation.needed + by)


def planned_with(engine: Engine, name: str, question: PlanQuestion, memory: int) -> tuple[Search, Proposal]:
    """Without weights and overheads, in all of the memory: what is left is what the engine makes of its cache."""
    request = ask(preset(name), context=question.context, batch=question.users)
    precision = Precision("auto", 0, request, weigh(preset(name), 0), "")
    search = Search(question, EngineBackend(engine, engine.versions[-1], {}, Fraction(1, 1)))
    return search, propose(search, [card(memory)], [precision], [], ways(name))


def enough(engine: Engine, name: str, tokens: int, sequences: int, row: PlanRow, memory: int) -> bool:
    """Whether an engine has room for sequences on one replica of a row."""
    if engine.most_sequences is not None and sequences > engine.most_sequences:
        return False
    layout = row.config.layout
    request = ask(preset(name), context=tokens, batch=sequences, **layout.sizes)
    allocation = engine.allocate(Question(request, measure(request).placement, engine.versions[-1]))
    if allocation.most_sequences is not None and sequences > allocation.most_sequences:
        return False
    return allocation.fits(memory)


@given(asked(), st.integers(1, 60), st.data())
def test_a_rows_sequences_fit_by_the_engines_own_size_and_one_more_does_not(
    of: tuple[Engine, str, int], users: int, data: st.DataObject
) -> None:
    """As many on the fullest replica as a row says, no more than its largest number; and no replica less would do."""
    engine, name, tokens = of
    memory = data.draw(pools(engine, name, tokens))
    found = planned_with(engine, name, PlanQuestion(tokens, users, most_gpus=FEW_GPUS, overhead=0), memory)[1]
    for row in found.rows:
        dp = row.layout.dp
        assert row.fit.fits
        assert enough(engine, name, tokens, ceil_div(users, dp), row, memory)
        assert dp == 1 or not enough(engine, name, tokens, ceil_div(users, dp - 1), row, memory)
        if row.max_sequences is not None:
            each, rest = divmod(row.max_sequences, dp)
            assert rest == 0
            assert enough(engine, name, tokens, each, row, memory)
            assert not enough(engine, name, tokens, each + 1, row, memory)


@given(asked(), st.integers(1, 60), st.integers(1, 60), st.data())
def test_more_never_needs_more_of_an_engine(
    of: tuple[Engine, str, int], users: int, more: int, data: st.DataObject
) -> None:
    """More memory, fewer users or fewer tokens never need more GPUs."""
    engine, name, tokens = of
    memory = data.draw(pools(engine, name, tokens))

    def least(question: PlanQuestion, memory: int) -> int:
        best = planned_with(engine, name, question, memory)[1].best
        return FEW_GPUS + 1 if best is None else best.gpus

    question = PlanQuestion(tokens, users, most_gpus=FEW_GPUS, overhead=0)
    needed = least(question, memory)
    assert least(question, memory + data.draw(st.integers(0, 100 * GIB))) <= needed
    assert least(question._replace(users=users + more), memory) >= needed
    assert least(question._replace(context=data.draw(st.integers(1, tokens))), memory) <= needed


@given(asked(), st.data())
def test_lengths_as_they_are_fit_at_their_mean(of: tuple[Engine, str, int], data: st.DataObject) -> None:
    """An engine's own pools hold as many sequences of the mean length as a plan with lengths says."""
    engine, name, tokens = of
    memory = data.draw(pools(engine, name, tokens))
    longest = tokens + data.draw(st.integers(0, 1_000))
    question = PlanQuestion(longest, 1, lengths(Length(tokens), Length(1)), most_gpus=FEW_GPUS, overhead=0)
    search, found = planned_with(engine, name, question, memory)
    for row in found.rows:
        each = search.max_sequences(row.card, row.config, memory)
        assert enough(engine, name, tokens, each, row, memory)
        assert row.max_sequences == each * row.layout.dp
