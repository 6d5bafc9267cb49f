"""What is worked out once is kept by all that it depends on: nothing is answered from what another question found."""

from typing import NamedTuple

import pytest

from kvcalc.commands.flags import Flags
from kvcalc.core.card import Card
from kvcalc.core.dtypes import KV
from kvcalc.core.model import Attention, Model
from kvcalc.core.overheads import Overhead, exactly
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import measure
from kvcalc.core.units import Fraction
from kvcalc.core.weights import weigh
from kvcalc.engines.allocation import Allocation, Charge
from kvcalc.engines.base import Engine
from kvcalc.engines.options import EngineOptions
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.errors import KvcalcError
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.memo import Memo
from kvcalc.planner.question import ExactBackend, ParallelConfig, PlanQuestion, Precision, parallel_configs
from kvcalc.planner.replica import replica_layout
from kvcalc.planner.search import Search

FULL = Attention("full", heads=8, kv_heads=8, k_dim=128, v_dim=128)
WINDOW = Attention("sliding", heads=8, kv_heads=8, k_dim=128, v_dim=128, span=1_024)
MODEL = Model(name="M", layers=((FULL,), (WINDOW,)) * 8, dtype=KV["bf16"], parameters=10**9, max_context=131_072)
CARD = Card("h100", "H100", 80 * 2**30, (9, 0), "NVIDIA")


class Row(NamedTuple):
    name: str


def config(model: Model = MODEL, tp: int = 1) -> ParallelConfig:
    request = ask(model)
    precision = Precision("auto", "auto", request, weigh(model, "auto"), "bf16")
    (only,) = parallel_configs(precision, [replica_layout(model, Layout(tp))])
    return only


def test_a_value_is_made_once_for_each_pair() -> None:
    """Equal plain facts are one; equal objects are two, and each of them lives as long as what it led to."""
    memo, made = Memo[int](), []

    def make() -> int:
        made.append(1)
        return len(made)

    first, second = [1], [1]
    assert [memo.get(first, (2, "x"), make) for _ in range(3)] == [1, 1, 1]
    assert [memo.get(second, (2, "x"), make), memo.get(first, (3, "x"), make)] == [2, 3]
    assert [memo.get([i], (), make) for i in range(50)] == list(range(4, 54))  # no id is taken by another list


def test_a_refusal_is_remembered() -> None:
    """It is raised each time, and its cause looked into once."""
    memo, asked = Memo[int](), []

    def refuse() -> int:
        asked.append(1)
        raise KvcalcError("no")

    for _ in range(2):
        with pytest.raises(KvcalcError, match="no"):
            memo.get(memo, (), refuse)
    assert len(asked) == 1


def test_overheads_follow_the_number_of_ranks() -> None:
    """A made-up overhead of a GiB for each rank: 2 GiB for two and 4 for four, whichever is asked for first."""

    def for_each_rank(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - an engine's signature
        return (Overhead("communication", exactly(question.request.layout.tp << 30), "made up", "for this test"),)

    made = VLLM._replace(memory=for_each_rank)
    search = Search(PlanQuestion(4_096), EngineBackend(made, made.versions[-1], {}))
    found = [search.lines(CARD, config(tp=tp))[0].size.likely >> 30 for tp in (2, 4, 1, 8)]
    assert found == [2, 4, 1, 8]


def test_overheads_follow_the_model() -> None:
    """Captured graphs of 61 layers take more than those of 16 (`engines.vllm.memory`)."""
    search = Search(PlanQuestion(4_096), ExactBackend(Fraction(9, 10)))
    large = Model(name="L", layers=((FULL,),) * 61, dtype=KV["bf16"], parameters=400 * 10**9)
    small, more = (
        next(line for line in search.lines(CARD, config(model)) if line.name == "graphs").size.likely
        for model in (MODEL, large)
    )
    assert more - small == pytest.approx(45 * 0.009 * 2**30, rel=0.05)


def test_cards_of_one_size_that_an_engine_tells_apart() -> None:
    """vLLM batches 8,192 tokens on a card of 80 GB and 2,048 on an A100, and its windows hold those in flight.

    A window of 1,024 holds 1,023 tokens and one or two batches: fewer bytes on the A100, whichever comes first.
    """
    cards = [Card(name, name, 80 * 2**30, (8, 0), "NVIDIA") for name in ("other", "a100-80gb-sxm")]
    one = config()
    for order in (cards, cards[::-1]):
        backend = EngineBackend(VLLM, VLLM.versions[-1], {})
        needed = {card.name: backend.replica_memory(one, card).needed(1, 65_536) for card in order}
        assert needed["a100-80gb-sxm"] < needed["other"]


def test_a_counted_question_forgets_what_another_version_found() -> None:
    """An engine that reserves as many bytes as its version is long, worked out once for each."""
    made = []

    def allocate(question: Question) -> Allocation:
        def work() -> int:
            made.append(question.version.name)
            return len(question.version.name) + len(question.settings)

        size = question.once("size", work)
        return Allocation((Charge("x", 1, 0, (), (), ""),), {"size": size})

    engine = Engine("made-up", (Row("1"),), allocate, ("bf16",), Flags(), lambda _p, _r, _m: EngineOptions())
    request = ask(MODEL)
    question = Question(request, measure(request).placement, Row("1")).counted()
    asked = [
        question,
        question.at(3, 999),
        question._replace(version=Row("twelve")),
        question._replace(settings={"a": 1}),
        question,
    ]
    assert [engine.allocate(each).values["size"] for each in asked] == [1, 1, 6, 2, 1]
    assert made == ["1", "twelve", "1", "1"]
