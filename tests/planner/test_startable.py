"""Whether an engine's command would hold what a plan without it says: its own blocks in its own share decide.

The exact size of 2,048 tokens is 4,194,304 B, so that four sequences fill 16,777,216 B to the last. vLLM makes 512
blocks of them, one of which is the null block: three sequences of 128 blocks fit, and a fourth does not.
"""

import pytest

from kvcalc.core.model import Recurrent
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction
from kvcalc.engines.base import Engine
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.launch.registry import all_engines
from kvcalc.perf.workload import Length, lengths
from kvcalc.planner.question import Candidate, PlanQuestion
from kvcalc.planner.startable import lacking, same_share

from .hand import WHOLE, card, config, model, search

POOL = 16_777_216


def why(
    asked: PlanQuestion, memory: int = POOL, of: Engine = VLLM, share: Fraction = WHOLE, prefix: int = 0, tp: int = 1
) -> str | None:
    """Why the engine lacks the best row of a plan without one, on one card."""
    question = asked._replace(overhead=0)
    found = search(question)
    (best,) = found.cheapest(Candidate(card(memory, "a")), [config(model(), Layout(tp))])
    return lacking(of, question, share, prefix)(found.row(best))


@pytest.mark.parametrize(
    ("users", "memory", "reason"),
    [
        (3, POOL, None),
        (4, POOL, "3 of 4 sequences fit; --engine vllm plans for it"),
        (4, POOL + 32_768, None),  # one block more
        (4, POOL + 32_767, "3 of 4 sequences fit; --engine vllm plans for it"),
        # over two replicas of four: three each fit
        (8, POOL, "6 of 8 sequences fit; --engine vllm plans for it"),
        (7, POOL, "6 of 7 sequences fit; --engine vllm plans for it"),
        (6, POOL, None),
        (1, POOL // 4, "0 of 1 sequence fit; --engine vllm plans for it"),
    ],
)
def test_the_null_block_may_be_what_lacks(users: int, memory: int, reason: str | None) -> None:
    """Sequences over all replicas are told, of those that the row has."""
    assert why(PlanQuestion(2_048, users), memory) == reason


def test_the_share_is_the_engines_unless_another_is_meant() -> None:
    """Half of the memory holds one of two; of all of it vLLM would take 0.92 by itself, where no share is given."""
    assert why(PlanQuestion(2_048, 2), share=Fraction(1, 2)) == "1 of 2 sequences fit; --engine vllm plans for it"
    question = PlanQuestion(2_048, 3, overhead=0)
    found = search(question)
    (best,) = found.cheapest(Candidate(card(POOL, "a")), [config(model())])
    # 0.92 x 512 = 471 blocks: three of 128 fit, and of 0.75, 384 blocks, only two
    assert lacking(VLLM, question, None, 0)(found.row(best)) is None
    assert (
        lacking(VLLM, question, Fraction(3, 4), 0)(found.row(best))
        == "2 of 3 sequences fit; --engine vllm plans for it"
    )


@pytest.mark.parametrize(
    ("tokens", "memory", "reason"),
    [
        (1_008, POOL, None),  # 8 x 63 = 504 blocks
        (1_009, POOL, "7 of 8 sequences fit; --engine vllm plans for it"),  # 8 x 64 = 512: the null block lacks
        (1_009, POOL + 32_768, None),
    ],
)
def test_lengths_as_they_are(tokens: int, memory: int, reason: str | None) -> None:
    """Sequences of up to 2,048 tokens that all have some 1,000."""
    assert why(PlanQuestion(2_048, 8, lengths(Length(tokens), Length(1))), memory) == reason


def test_what_the_engine_refuses_is_quoted_without_its_option() -> None:
    """The engine is no option of this question's."""
    question = PlanQuestion(2_048, 1, overhead=0)
    found = search(question)
    way = config(model(Recurrent("rwkv", width=64, heads=2, head_dim=32)))
    (best,) = found.cheapest(Candidate(card(POOL, "a")), [way])
    said = lacking(VLLM, question, WHOLE, 0)(found.row(best))
    assert said == "vllm's rule for rwkv state is not known"


def test_whose_share_means_the_same() -> None:
    """A plan's share has weights, cache and all four overheads in it. SGLang and llama.cpp leave some of these outside,
    TensorRT-LLM's is of free memory.
    """
    same = {engine.name: same_share(engine) for engine in all_engines()}
    assert {name: same[name] for name in ("vllm", "sglang", "tensorrt-llm", "llama.cpp")} == {
        "vllm": True,
        "sglang": False,
        "tensorrt-llm": False,
        "llama.cpp": False,
    }
