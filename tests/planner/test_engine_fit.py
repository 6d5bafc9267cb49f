"""An engine in the planner: its own blocks, a prefix that its sequences share, its limits, and what is kept for a card.

A block of 16 tokens of four full layers takes 16 x 2,048 = 32,768 B; 512 of them are 16,777,216 B.
"""

from typing import Any

import pytest

from kvcalc.core.memory import MemorySplit
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction
from kvcalc.engines.base import Engine
from kvcalc.engines.llama_cpp.engine import ENGINE as LLAMA_CPP
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.engine import ENGINE as SGLANG
from kvcalc.engines.tensorrt_llm.engine import ENGINE as TENSORRT_LLM
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.errors import KvcalcError
from kvcalc.planner.engine_fit import EngineBackend, EngineReplica
from kvcalc.planner.question import ParallelConfig

from .hand import ALONE, FULL, WINDOW, alone, card, config, engine, model, precision

GIB = 2**30
BLOCK, POOL = 32_768, 16_777_216


def replica(
    of: Engine,
    way: ParallelConfig | None = None,
    prefix: int = 0,
    settings: dict[str, object] | None = None,
    **facts: Any,
) -> EngineReplica:
    backend = EngineBackend(of, of.versions[-1], settings or {}, shared_prefix=prefix)
    return backend.replica_memory(way or config(model()), card(GIB, **facts))


@pytest.mark.parametrize(
    ("sequences", "tokens", "budget", "fits"),
    [
        # one sequence of 511 blocks beside the null block, in a pool of exactly 512
        (1, 511 * 16, POOL, True),
        (1, 511 * 16, POOL - 1, False),
        # 512 blocks of 512: the null block is one of them
        (1, 511 * 16 + 1, POOL, False),
        (1, 512 * 16, POOL, False),
        (1, 512 * 16, POOL + BLOCK - 1, False),
        (1, 512 * 16, POOL + BLOCK, True),
        # two of 256 blocks each, and two of 255
        (2, 256 * 16, POOL, False),
        (2, 256 * 16, POOL + BLOCK, True),
        (2, 255 * 16, POOL, True),
        (512, 16, POOL, False),
        (511, 1, POOL, True),
        # two blocks each: 1,022 or 1,024 of 1,024
        (511, 17, 2 * POOL, True),
        (512, 17, 2 * POOL, False),
    ],
)
def test_vllms_pool_that_is_exactly_full(sequences: int, tokens: int, budget: int, fits: bool) -> None:
    """No sequence can use the null block, so that a pool holds one block less than it has."""
    found = replica(VLLM)
    assert found.holds(sequences, tokens, budget) is fits
    # The size verb's fit and the largest number say the same.
    request = config(model()).precision.request._replace(context=tokens, batch=sequences)
    assert found.fit(MemorySplit(budget), request).fits is fits
    assert (found.largest(tokens, budget) >= sequences) is fits


@pytest.mark.parametrize("of", [SGLANG, TENSORRT_LLM], ids=lambda of: of.name)
def test_other_pools_are_full_to_the_last(of: Engine) -> None:
    """TensorRT-LLM has blocks of 32 tokens, 65,536 B; SGLang pages of 1. 8,192 tokens are all of 512 blocks of 16."""
    found = replica(of)
    assert found.holds(1, 8_192, POOL)
    assert not found.holds(1, 8_192, POOL - 1)
    assert not found.holds(1, 8_193, POOL)


def test_cells_that_are_exactly_full() -> None:
    """llama.cpp: 8,192 cells for each of two sequences, in f16: 2 x 16,777,216 B."""
    found = replica(LLAMA_CPP, _named(model_type="llama"))
    assert found.holds(2, 8_192, 2 * POOL)
    assert not found.holds(2, 8_192, 2 * POOL - 1)


def _named(**facts: object) -> ParallelConfig:
    return config(model(**facts))


def test_bytes_by_hand() -> None:
    """100 tokens are 7 blocks of 16: 229,376 B a sequence."""
    found = replica(engine())
    assert (found.needed(3, 100), found.each(100), found.shared(100)) == (688_128, 229_376, 0)
    assert (found.holds(3, 100, 688_128), found.holds(3, 100, 688_127)) == (True, False)
    assert (found.largest(100, 688_128), found.largest(100, 688_127), found.largest(100, 0)) == (3, 2, 0)
    assert found.largest(100, 688_128, most=2) == 2


def test_an_engine_for_a_single_sequence() -> None:
    """Where one more is refused, what a sequence adds is what that one takes."""
    found = replica(engine(most=1))
    assert (found.each(100), found.shared(100)) == (229_376, 0)
    assert (found.holds(1, 100, 229_376), found.holds(2, 100, 10**9)) == (True, False)
    assert found.largest(100, 10**9) == 1


def test_no_more_than_an_engine_takes() -> None:
    """Three at once, however much memory there is, and no more than are looked for."""
    found = replica(engine(most=3))
    assert (found.largest(100, 10**9), found.largest(100, 500_000), found.largest(100, 10**9, most=2)) == (3, 2, 2)


# A replica of 700,000 B holds 3 sequences of 229,376 B.
@pytest.mark.parametrize(
    ("sequences", "most", "replicas"), [(3, 1, 1), (4, 1, None), (4, 9, 2), (9, 3, 3), (10, 3, None), (10, 4, 4)]
)
def test_the_fewest_replicas(sequences: int, most: int, replicas: int | None) -> None:
    """As many as leave no more than 3 on the fullest."""
    assert replica(engine()).least(sequences, 100, 700_000, most) == replicas


# Of 20 shared tokens one whole block of 16 is shared: 32,768 B less for every sequence but one.
@pytest.mark.parametrize(("prefix", "saved"), [(15, 0), (16, 32_768), (20, 32_768), (31, 32_768), (32, 65_536)])
def test_a_prefix_is_shared_in_whole_blocks(prefix: int, saved: int) -> None:
    """Three sequences of 100 tokens: 3 x 229,376 B, less twice what is shared."""
    found = replica(engine(), prefix=prefix)
    assert (found.needed(1, 100), found.needed(3, 100)) == (229_376, 688_128 - 2 * saved)
    assert (found.each(100), found.shared(100)) == (229_376 - saved, saved)


def test_a_prefix_in_the_pool() -> None:
    """vLLM, 100 tokens of which 32 are shared: 2 blocks once, 5 for each sequence, one null: 18 blocks for three."""
    found = replica(VLLM, prefix=32)
    assert [found.holds(3, 100, blocks * BLOCK) for blocks in (17, 18)] == [False, True]
    assert [found.largest(100, blocks * BLOCK) for blocks in (17, 18, 22, 23)] == [2, 3, 3, 4]


def test_a_prefix_over_unequal_stages() -> None:
    """Two full layers on one stage, a full one and a window on the other: every GPU saves at least one layer's block.

    One layer's block is 8,192 B. 100 tokens are 7 blocks: 114,688 B on the first stage and 57,344 on the second, beside
    a window of 100. Counting two layers' savings for both would be too much for the second stage.
    """
    way = config(model(FULL, FULL, FULL, WINDOW), Layout(pp=2))
    found = replica(engine(), way, prefix=16)
    assert found.needed(1, 100) == 114_688
    assert found.needed(3, 100) == 3 * 114_688 - 2 * 8_192
    assert found.each(100) == 114_688 - 8_192


def test_without_a_pool_nothing_is_shared() -> None:
    """The option is named."""
    with pytest.raises(KvcalcError, match="--shared-prefix: made-up has no pool"):
        replica(engine(pooled=False), prefix=16)


def test_capacity_is_the_engines_own_count() -> None:
    """700,000 B // 2,048 B a token, on each of two replicas of three sequences."""
    request = config(model()).precision.request._replace(context=100, batch=6, layout=Layout(dp=2))
    found = replica(engine()).fit(MemorySplit(700_000), request)
    assert (found.capacity_tokens, found.max_batch, found.fits) == (2 * 341, 6, True)
    bare = replica(engine(pooled=False)).fit(MemorySplit(700_000), request)
    assert bare.capacity_tokens == 2 * (700_000 * 300 // 688_128)


def backend(of: Engine, **more: Any) -> EngineBackend:
    return EngineBackend(of, of.versions[-1], more.pop("settings", {}), **more)


def test_the_default_share_is_that_of_each_card() -> None:
    """SGLang's share follows from the card: 80 GiB of an H100 as tests/engines/test_sglang.py has it, 0.830; 24 GiB, 0.704."""
    asked, way = backend(SGLANG), config(model())
    for gib, part in ((80, 830), (24, 704), (80, 830)):
        assert asked.share(way, card(gib * GIB)) == (part, 1000)


def test_the_default_share_is_that_of_each_way() -> None:
    """At tp 8 of 80 GiB: 512 + 12,288 + 1,024 + 2 x 512 + 8 x 58 = 15,312 of 81,920 MiB, 0.813; alone 0.830."""
    asked, of = backend(SGLANG), model(FULL._replace(heads=8, kv_heads=8))
    ways = [config(of, Layout(tp)) for tp in (1, 8)]
    assert [asked.share(way, card(80 * GIB)).part for way in ways] == [830, 813]


def test_a_share_that_is_asked_for_holds_for_all() -> None:
    """Whatever the engine would take."""
    asked = backend(SGLANG, share=Fraction(1, 2))
    assert [asked.share(config(model()), card(gib * GIB)) for gib in (24, 80)] == [(1, 2), (1, 2)]


def test_kernels_of_each_card() -> None:
    """SGLang takes pages of 64 tokens on Blackwell and of 1 on Hopper, of two cards with the same memory."""
    asked, way = backend(SGLANG), config(model())
    for capability, needed in (((9, 0), 100), ((10, 0), 128), ((9, 0), 100)):
        memory = asked.replica_memory(way, card(GIB, "x", capability=capability))
        assert memory.needed(1, 100) == needed * 2_048


def test_a_card_without_a_name_says_nothing_of_kernels() -> None:
    """Of 80 GiB that somebody has, only the size is known."""
    memory = backend(SGLANG).replica_memory(config(model()), card(GIB, capability=(10, 0)))
    assert memory.needed(1, 100) == 100 * 2_048


def test_a_replica_is_worked_out_once() -> None:
    """For one way and one card, and a refusal as well."""
    asked, way, asking = backend(engine()), config(model()), card(GIB, "x")
    assert asked.replica_memory(way, asking) is asked.replica_memory(way, asking._replace())
    assert asked.replica_memory(way, asking) is not asked.replica_memory(config(model()), asking)
    tries: list[int] = []

    def refusing(_question: Question) -> Any:
        tries.append(1)
        raise KvcalcError("--engine: no")

    asked = backend(engine()._replace(allocate=refusing))
    for _ in range(2):
        with pytest.raises(KvcalcError, match="--engine: no"):
            asked.replica_memory(way, asking)
    assert len(tries) == 1


def test_a_format_of_the_engines_own() -> None:
    """vLLM's int8_per_token_head: 64 + 64 elements and two scales of 4 B for each of 2 heads: 272 B a token and layer."""
    own = precision(model(), kv="int8")._replace(packed="int8_per_token_head")
    way = alone(ALONE, own)
    assert replica(VLLM, way).needed(1, 16) == 4 * 16 * 272


def test_settings_reach_the_engine() -> None:
    """Blocks of 64 tokens: 100 are two of them."""
    assert replica(VLLM, settings={"block_size": 64}).needed(1, 100) == 128 * 2_048


def test_windows_in_an_engine() -> None:
    """TensorRT-LLM: a window of 100 tokens keeps 4 blocks of 32, whatever the context; 512 B a token."""
    found = replica(TENSORRT_LLM, config(model(FULL, WINDOW)))
    assert found.needed(1, 1_000) == 32 * 32 * 512 + 4 * 32 * 512
