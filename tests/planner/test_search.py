"""The search, step by step: what is free, what a replica holds, how many replicas, and what a row says.

Four full layers take 2,048 B a token (`hand`): 2,048,000 B for 1,000 tokens, so that 10,000,000 B hold 4 sequences.
"""

from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.core.model import Latent
from kvcalc.core.overheads import Estimate, Overhead, exactly
from kvcalc.core.sharding import Layout
from kvcalc.core.units import MOST_TOKENS, Fraction
from kvcalc.engines.base import Engine
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.engine import ENGINE as SGLANG
from kvcalc.engines.tensorrt_llm.engine import ENGINE as TENSORRT_LLM
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.errors import KvcalcError
from kvcalc.perf.machine import Attained
from kvcalc.perf.workload import Length, lengths, sampled
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.question import Candidate, ExactBackend, PlanQuestion
from kvcalc.planner.search import Search

from .hand import ALONE, FULL, WHOLE, WINDOW, alone, card, config, configs, engine, model, precision, search

M = 10**6
GIB = 2**30
CARD = card(10 * M, "a")
ONE = config(model())
PEAKS = Attained(bandwidth=1, compute=1)

pytestmark = pytest.mark.usefixtures("plain_clocks")


# Nine tenths of 10,000,000 B; the weights of one GPU, rounded up; then the overhead.
@pytest.mark.parametrize(
    ("layout", "overhead", "free"),
    [
        (Layout(), None, 9_000_000 - 3_000_001 - 500_000),
        (Layout(2), None, 9_000_000 - 1_500_001 - 500_000),
        (Layout(2, 2), None, 9_000_000 - 750_001 - 500_000),
        (Layout(), 0, 9_000_000 - 3_000_001),
        (Layout(), 7_000_000, -1_000_001),
    ],
)
def test_what_is_free_for_the_cache(layout: Layout, overhead: int | None, free: int) -> None:
    """The share of the memory less weights and overhead, which may be told."""
    found = search(PlanQuestion(1_000, overhead=500_000), ExactBackend(Fraction(9, 10)))
    assert found.free(CARD, config(model(), layout, weights=3_000_001), overhead) == free


def test_a_share_of_what_is_left() -> None:
    """An engine whose share is of free memory: nine tenths of 10,000,000 - 3,000,001 - 500,000 B, cut to a byte."""
    of_free = engine(utilization=lambda _question, _vram: Fraction(9, 10))._replace(of_free=True)
    found = search(PlanQuestion(1_000, overhead=500_000), EngineBackend(of_free, of_free.versions[0], {}))
    assert found.free(CARD, config(model(), weights=3_000_001)) == 6_499_999 * 9 // 10


def beside(question: Question, vram: int) -> tuple[Overhead, ...]:
    """A 64th of the card, and a GiB for each rank."""
    sizes = {"activations": vram // 64, "communication": question.request.layout.tp * GIB}
    return tuple(Overhead(name, exactly(size), "made up", "for these tests") for name, size in sizes.items())


def backed(memory: Callable[[Question, int], tuple[Overhead, ...]]) -> EngineBackend:
    """An engine that holds something beside weights and cache."""
    made = engine(memory=memory)
    return EngineBackend(made, made.versions[0], {}, WHOLE)


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_overheads_of_one_gpu_and_of_several(order: tuple[int, int]) -> None:
    """A GiB for one, two for two, whichever was asked for first; and a card has its own lines."""
    found = Search(PlanQuestion(1_000), backed(beside))
    by_ranks = {tp: found.lines(card(80 * GIB), config(model(), Layout(tp))) for tp in order}
    assert {tp: lines[1].size.likely // GIB for tp, lines in by_ranks.items()} == {1: 1, 2: 2}
    assert found.lines(card(640 * GIB), ONE)[0].size.likely == 10 * GIB


def test_one_overhead_stands_for_all_lines() -> None:
    """A measured sum has one line, and a measured part takes the place of its own."""
    (line,) = search(PlanQuestion(1_000, overhead=7)).lines(CARD, ONE)
    assert (line.name, line.size) == ("overhead", (7, 7, 7))
    lines = search(PlanQuestion(1_000, stated={"activations": 7}), backed(beside)).lines(CARD, ONE)
    assert [(each.name, each.size.likely) for each in lines] == [("activations", 7), ("communication", GIB)]
    assert lines[0].size == (7, 7, 7)


ALIKE = lengths(Length(100), Length(1))  # 100 tokens each
MIXED = sampled([(100, 1), (300, 1)])  # mean 200, standard deviation 100


@pytest.mark.parametrize(
    ("asked", "free", "most"),
    [
        # of the full length: 2,048,000 B each
        (PlanQuestion(1_000), 10 * M, 4),
        (PlanQuestion(1_000), 2_048_000, 1),
        (PlanQuestion(1_000), 2_047_999, 0),
        (PlanQuestion(1_000), 0, 0),
        # of 100 tokens, 204,800 B each; but one of the full length must fit
        (PlanQuestion(1_000, lengths=ALIKE), 2_048_000, 10),
        (PlanQuestion(1_000, lengths=ALIKE), 2_047_999, 0),
        (PlanQuestion(1_000, lengths=ALIKE), -1, 0),
        # 100 of 200 tokens are 40,960,000 B, and 2.33 x 10 x 204,800 B for their straying
        (PlanQuestion(1_000, lengths=MIXED), 40_960_000 + 4_771_840 + 1, 100),
        (PlanQuestion(1_000, lengths=MIXED), 40_960_000 + 4_771_840 - 1_000, 99),
    ],
)
def test_the_most_sequences_of_a_replica(asked: PlanQuestion, free: int, most: int) -> None:
    """All at their longest, or as they are with a margin of 2.33 standard deviations."""
    assert search(asked).max_sequences(CARD, ONE, free) == most


def test_a_shared_prefix_comes_off_before_lengths_count() -> None:
    """80 of 100 tokens once, 163,840 B; 40,960 B for each: 5,000,000 B hold (5,000,000 - 163,840) / 40,960 = 118."""
    found = search(PlanQuestion(1_000, lengths=ALIKE), ExactBackend(WHOLE, shared_prefix=80))
    assert found.max_sequences(CARD, ONE, 5 * M) == 118


def test_what_does_not_grow_has_no_end() -> None:
    """A prefix that is all of a sequence."""
    found = search(PlanQuestion(1_000, lengths=ALIKE), ExactBackend(WHOLE, shared_prefix=100))
    assert found.max_sequences(CARD, ONE, 5 * M) == MOST_TOKENS


@pytest.mark.parametrize(
    ("pooled", "limit", "most"),
    [
        (True, None, 42),  # 112 tokens in whole blocks, 229,376 B: 9,633,792 B are 42 of them
        (True, 3, 3),
        (False, None, 4),  # each has its full length of 1,008 tokens, 2,064,384 B
        (False, 3, 3),
    ],
)
def test_an_engines_own_limits(pooled: bool, limit: int | None, most: int) -> None:
    """Lengths as they are count in a pool alone, and no more sequences than one instance takes."""
    made = engine(pooled=pooled, most=limit)
    found = search(PlanQuestion(1_000, lengths=ALIKE), EngineBackend(made, made.versions[0], {}))
    assert found.max_sequences(CARD, ONE, 9_633_792) == most


# One of two layers has a window of 100 tokens, 512 B a token each, and sequences have 1,024. TensorRT-LLM gives each kind
# half of the bytes: 32 blocks of 32 tokens, 524,288 B, of the full layer, and 4 blocks, 65,536 B, of the window. 6 MiB
# are 10.7 sequences by their bytes, and 6 by the half of the full layer. SGLang keeps the window in full: 1,048,576 B.
# vLLM has 768 blocks of 8,192 B, and a sequence takes 64 for the full layer and 65 for the window, which may hold all
# tokens while they are in flight and begins within a block: 5 x 129 = 645 and the null block.
@pytest.mark.parametrize(("of", "most"), [(TENSORRT_LLM, 6), (SGLANG, 6), (VLLM, 5)], ids=["trt", "sglang", "vllm"])
def test_pools_that_do_not_fill_together(of: Engine, most: int) -> None:
    """Lengths as they are hold no more at their mean than the engine's own pools do."""
    way = config(model(FULL, WINDOW))
    found = search(
        PlanQuestion(1_024, lengths=lengths(Length(1_024), Length(1))), EngineBackend(of, of.versions[-1], {})
    )
    assert found.max_sequences(CARD, way, 6 * 2**20) == most
    assert found.backend.replica_memory(way, CARD).largest(1_024, 6 * 2**20) == most
    load = found.times.load(QUICK, way, 6 * 2**20, users=most + 1)
    assert load.binding == "kv"
    assert str(load.reason).startswith(f"{most + 1}.0 sequences at once, of which the pool holds ")


@pytest.mark.parametrize(
    ("asked", "fixed", "layout", "most", "replicas"),
    [
        (PlanQuestion(1_000, users=4), None, Layout(), 64, 1),
        (PlanQuestion(1_000, users=5), None, Layout(), 64, 2),
        (PlanQuestion(1_000, users=9), None, Layout(), 2, None),  # 3 would do
        (PlanQuestion(1_000, users=1), None, Layout(), 0, None),
        # a fixed number of replicas is that one, where it is enough, or none
        (PlanQuestion(1_000, users=4, dp=3), None, Layout(), 3, 3),
        (PlanQuestion(1_000, users=4, dp=3), None, Layout(), 2, None),
        (PlanQuestion(1_000, users=9, dp=2), None, Layout(), 64, None),
        # a fixed number of cards is used up to the last
        (PlanQuestion(1_000, users=1), 4, Layout(), 4, 4),
        (PlanQuestion(1_000, users=1), 4, Layout(2), 2, 2),
        (PlanQuestion(1_000, users=1), 5, Layout(2), 2, None),
        (PlanQuestion(1_000, users=1, dp=2), 4, Layout(2), 2, 2),
        (PlanQuestion(1_000, users=1, dp=1), 4, Layout(2), 2, None),
        (PlanQuestion(1_000, users=17), 4, Layout(), 4, None),  # 16 fit
        # 10 x 100 tokens on one of 2,048,000 B; here 48 on 10,000,000
        (PlanQuestion(1_000, users=48, lengths=ALIKE), None, Layout(), 64, 1),
        (PlanQuestion(1_000, users=49, lengths=ALIKE), None, Layout(), 64, 2),
        (PlanQuestion(1_000, users=97, lengths=ALIKE), None, Layout(), 2, None),
        (PlanQuestion(1_000, users=96, lengths=ALIKE), None, Layout(), 2, 2),
    ],
)
def test_the_fewest_replicas(
    asked: PlanQuestion, fixed: int | None, layout: Layout, most: int, replicas: int | None
) -> None:
    """As many as hold all users, within what there may be."""
    found = search(asked).least(Candidate(CARD, fixed), config(model(), layout), most)
    assert found == replicas


# 10^9 B/s and 10^30 FLOP/s: a step of one sequence of 100 tokens reads the weights and 204,800 B, and prompts are free.
QUICK = card(1000 * M, "quick", bandwidth=10**9, flops16=10**30, flops8=2 * 10**30)


def timed(users: int = 1, **more: Any) -> PlanQuestion:
    """Each request has 100 tokens in and 1 out, at the peaks of a card."""
    return PlanQuestion(1_000, users, lengths=ALIKE, attained=PEAKS, overhead=0, **more)


@pytest.mark.parametrize("weights", [(1 * M, 3 * M), (3 * M, 1 * M)])
def test_each_weight_format_has_its_own_time(weights: tuple[int, int]) -> None:
    """1 or 3 MB of weights and 204,800 B of cache at 1 GB/s: 1.2048 ms or 3.2048 ms, in whichever order they are asked."""
    found = search(timed())
    for size in weights:
        load = found.times.load(QUICK, config(model(), weights=size), 10 * M, users=1)
        assert load.seconds_per_token == pytest.approx(size / 1e9 + 0.000_204_8)


def test_eight_bits_are_computed_at_their_own_rate() -> None:
    """A prompt of 100 tokens takes 2 x 1,000,000 x 100 = 200,000,000 FLOPs in its matrices: 0.2 ms at 10^12 FLOP/s, and
    half of it where weights are in fp8 and the card computes that twice as fast.

    Attention stays in 16 bits: 4 layers x 4 heads x 2 x (64 + 64) x 5,050 pairs = 20,684,800 FLOPs, at the 100 / 1,100 of
    their rate that so short a prompt attains: 11 x 20.6848 us = 0.2275328 ms.
    """
    slow = QUICK._replace(flops16=10**12, flops8=2 * 10**12)
    found, bits16 = search(timed()), config(model())
    bits8 = bits16._replace(precision=bits16.precision._replace(weights_name="fp8_e4m3"))
    seconds = [found.times.load(slow, each, 10 * M, users=1).prefill_seconds for each in (bits16, bits8)]
    assert seconds == pytest.approx([0.000_427_532_8, 0.000_327_532_8])


def test_without_a_pool_a_sequence_holds_its_full_length() -> None:
    """A sequence of 100 tokens takes 112 in blocks, 229,376 B; without a pool 1,008, 2,064,384 B of 10,321,920: a fifth."""
    for pooled, part in ((True, 1 / 45), (False, 0.2)):
        made = engine(pooled=pooled)
        found = search(timed(), EngineBackend(made, made.versions[0], {}))
        assert found.times.load(QUICK, ONE, 10_321_920, users=1).mean_share == pytest.approx(part)


def ways(found: Search, of: Candidate, weights: int = 0, most: int = 16) -> list[tuple[int, int, int]]:
    every = configs(precision(model(), weights), most)
    return [(each.layout.tp, each.layout.pp, each.layout.dp) for each in found.cheapest(of, every)]


# 12 MB of weights on cards of 10 MB: two GPUs leave 4 MB each, three 6 MB, four 7 MB. A sequence takes 1,024,000 B at
# tp 2, at 2 stages, at 3 (two layers on one), and at tp 4 (4 ranks, 2 heads); 512,000 B at 4 stages and at tp 2 x pp 2.
@pytest.mark.parametrize(
    ("users", "found"),
    [
        (3, [(1, 2, 1), (2, 1, 1)]),  # 3 in 4 MB
        (4, [(1, 3, 1)]),  # 5 in 6 MB, on three
        (6, [(1, 2, 2), (2, 1, 2), (1, 4, 1), (2, 2, 1), (4, 1, 1)]),  # 2 x 3, or 13 or 6 in 7 MB: four in any case
        (13, [(1, 4, 1), (2, 2, 1)]),
        (14, [(2, 3, 1)]),  # six with 8 MB: 512,000 B on the stage of two layers, 15 of them
    ],
)
def test_every_way_with_the_fewest_gpus(users: int, found: list[tuple[int, int, int]]) -> None:
    """All that need equally few are kept, and none that needs more."""
    assert ways(search(PlanQuestion(1_000, users)), Candidate(CARD), 12 * M) == found


def test_no_more_than_there_may_be() -> None:
    """14 users need six GPUs, and of a fixed number all are taken."""
    assert ways(search(PlanQuestion(1_000, 14, most_gpus=6)), Candidate(CARD), 12 * M) == [(2, 3, 1)]
    assert ways(search(PlanQuestion(1_000, 14, most_gpus=5)), Candidate(CARD), 12 * M) == []
    fixed = ways(search(PlanQuestion(1_000, 14, most_gpus=5)), Candidate(CARD, 8), 12 * M)
    # Four pairs hold 3 each, 12 in all, and two of tp 4 hold 6 each; two of 4 stages or of tp 2 x pp 2 hold 13 each, and
    # one of eight 16 or 33. Neither 3 nor 6 GPUs divide 8, and tp 8 does not divide 4 heads.
    assert fixed == [(1, 4, 2), (2, 2, 2), (2, 4, 1), (4, 2, 1)]


def test_tp_within_a_machine() -> None:
    """Two cards to a machine: tp 2 is the widest, unless it may span machines."""
    pairs = card(10 * M, "pairs", machine=2)
    for across, spans in ((False, [True, True, False]), (True, [True, True, True])):
        found = search(PlanQuestion(1_000, across=across))
        assert [found.spans(Candidate(pairs), config(model(), Layout(tp))) for tp in (1, 2, 4)] == spans


def test_headroom_is_that_of_the_fullest_replica() -> None:
    """5 users on two replicas are 3 and 2: 3 x 2,048,000 of 10,000,000 B leave 38.56 %."""
    (found,) = search(PlanQuestion(1_000, 5)).cheapest(Candidate(CARD), [ONE])
    assert (found.layout.dp, found.headroom) == (2, pytest.approx(0.3856))
    assert found.gpus == 2


def test_headroom_of_lengths_is_that_of_their_mean() -> None:
    """60 users of 100 tokens on two replicas of 48: 30 x 204,800 of 10,000,000 B; a card's rates need not be known."""
    (found,) = search(PlanQuestion(1_000, 60, lengths=ALIKE)).cheapest(Candidate(CARD), [ONE])
    assert (found.layout.dp, found.headroom, found.load) == (2, pytest.approx(1 - 0.6144), None)


def test_a_load_is_that_of_one_replica() -> None:
    """The same with rates: 61 users on two replicas are at most 31."""
    rated = card(10 * M, "rated", bandwidth=10**9, flops16=10**30)
    (found,) = search(timed(61)).cheapest(Candidate(rated), [ONE])
    assert found.load is not None
    assert (found.layout.dp, found.load.concurrency) == (2, 31)
    assert found.headroom == pytest.approx(1 - 31 * 204_800 / (10 * M))


# A sequence of 100 tokens in and 1 out stays for one step. With a machine whose step is 1 ms of weights (1 MB at
# 1 GB/s) and 0.2048 ms a sequence, the rate is B / (1 ms + 0.2048 ms x B): at most 4,882.8/s.
@pytest.mark.parametrize(
    ("users", "rate", "replicas"),
    [
        (1, 100.0, 1),
        (49, 100.0, 2),  # the users need two, the rate one
        (1, 9_000.0, 3),  # on two, B = 4,500 x (1 ms + 0.2048 ms x B): 4.5 / (1 - 0.9216) = 57.4 each; 43.9 fit
    ],
)
def test_users_and_rate_both_count(users: int, rate: float, replicas: int) -> None:
    """The larger of the two numbers of replicas."""
    rated = card(10 * M, "rated", bandwidth=10**9, flops16=10**30)
    found = search(timed(users, rate=rate)).least(Candidate(rated), config(model(), weights=M), 64)
    assert found == replicas


def test_a_row_counts_the_sequences_that_a_rate_keeps() -> None:
    """9,000/s on three replicas: B = 3,000 x (1 ms + 0.2048 ms x B), 3 / (1 - 0.6144) = 7.78 each, 24 on all."""
    rated = card(10 * M, "rated", bandwidth=10**9, flops16=10**30)
    found = search(timed(1, rate=9_000.0))
    (best,) = found.cheapest(Candidate(rated), [config(model(), weights=M)])
    assert best.load is not None
    assert best.load.concurrency == pytest.approx(7.78, abs=0.005)
    row = found.row(best)
    assert (row.layout.dp, row.request.batch, row.request.context) == (3, 24, 100)
    # Fewer than 1 ms x rate / dp of 43.9 sequences, so that the pool gives out first as the rate grows.
    assert row.binding == "kv"


def test_what_gives_out_first_as_the_rate_grows() -> None:
    """With 10^9 FLOP/s a prompt takes 0.2 s of matrices and 0.2275 s of attention (above): 2.34 prompts a second, of
    which 43 sequences in 9,000,000 B see nothing.
    """
    slow = card(10 * M, "slow", bandwidth=10**12, flops16=10**9)
    found = search(timed(1, rate=1.0))
    (best,) = found.cheapest(Candidate(slow), [config(model(), weights=M)])
    assert found.row(best).binding == "compute"


def ranged(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - an engine's signature
    """Hundredths of a GiB."""
    return (Overhead("all", Estimate(*(part * GIB // 100 for part in (55, 215, 375))), "made up", "for these tests"),)


def test_a_range_of_sequences() -> None:
    """80 GiB, in hundredths: overheads of 55, 215 and 375. A sequence of 524,288 tokens has 1 GiB: 79.45, 77.85 and
    76.25 GiB hold 79, 77 and 76 of them on each of two replicas.
    """
    found = Search(PlanQuestion(524_288, 100), backed(ranged))
    (best,) = found.cheapest(Candidate(card(80 * GIB, "a")), [alone(ALONE, precision(model(), context=524_288))])
    row = found.row(best)
    assert row.layout.dp == 2
    assert (row.max_sequences_low, row.max_sequences, row.max_sequences_high) == (152, 154, 158)
    assert row.fit.max_batch == 154
    assert row.fit.fits
    assert (row.headroom, row.binding) == (pytest.approx(1 - 50 / 77.85), "kv")


def test_a_range_of_lengths_as_they_are() -> None:
    """The same of sequences of 262,144 tokens, half a GiB, which may have twice as many."""
    half = lengths(Length(262_144), Length(1))
    found = Search(PlanQuestion(524_288, 100, lengths=half), backed(ranged))
    (best,) = found.cheapest(Candidate(card(80 * GIB, "a")), [ONE])
    row = found.row(best)
    assert (row.max_sequences_low, row.max_sequences, row.max_sequences_high) == (152, 155, 158)


def test_nothing_limits_a_model_without_a_cache() -> None:
    """All heads pruned away: no number of sequences, and no range of it."""
    empty = model(FULL._replace(kv_heads=0))
    found = search(PlanQuestion(1_000))
    (best,) = found.cheapest(Candidate(CARD), [config(empty)])
    row = found.row(best)
    assert (row.max_sequences, row.max_sequences_low, row.max_sequences_high) == (None, None, None)


def test_why_a_way_was_left_out_is_kept() -> None:
    """By card and formats, the first reason: a rate that is not published cannot carry a load."""
    found = search(timed(1, rate=1.0))
    assert found.cheapest(Candidate(CARD), [ONE, config(model(), Layout(2))]) == []
    assert found.trouble == {("a", "auto", "bf16"): "--gpu: the bandwidth of A is not known, and times follow from it"}
    with pytest.raises(KvcalcError, match="the bandwidth of A"):
        found.times.load(CARD, ONE, M, rate=1.0)


def test_windows_and_latents_have_their_own_bytes() -> None:
    """Two ways to hold 1,000 tokens on one replica: a latent of 128 x 2 B a token, a window of 100 x 512 B."""
    both = model(Latent(rank=96, rope=32, heads=4, k_dim=64, v_dim=64), WINDOW)
    way = alone(Layout(), precision(both))
    assert search(PlanQuestion(1_000)).max_sequences(CARD, way, 10 * (256_000 + 51_200)) == 10
