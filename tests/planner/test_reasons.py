"""Why there is no plan, or no smaller one: what binds, and the sentence, at the edges between one reason and the next.

Four full layers take 2,048 B a token (`hand`): 2,048,000 B for 1,000 tokens, so that 10,000,000 B hold 4 sequences.
"""

from typing import Any

import pytest

from kvcalc.core.sharding import Layout
from kvcalc.perf.machine import Attained
from kvcalc.perf.workload import Length, lengths
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.question import Candidate, ParallelConfig, PlanQuestion
from kvcalc.planner.reasons import Change, Refused, changed, fewer, nearest, refuse
from kvcalc.planner.rows import PlanRow
from kvcalc.planner.search import Search

from .hand import card, config, configs, engine, model, precision, search

M = 10**6
CARD = card(10 * M, "a")
ONE = config(model())


def refused(asked: PlanQuestion, weights: int = 0, most: int = 1, **ways: Any) -> Refused:
    return refuse(search(asked), Candidate(CARD), configs(precision(model(), weights), most, **ways), most)


# 10,000,000 B are 9.537 MiB.
@pytest.mark.parametrize(
    ("weights", "overhead", "binding", "why"),
    [
        # weights that alone take all
        (10 * M, 0, "weights", "weights take 9.537 MiB of 9.537 MiB"),
        (20 * M, 30 * M, "weights", "weights take 19.07 MiB of 9.537 MiB"),
        # what is left goes to the rest: the larger of the two is what binds
        (3 * M, 8 * M, "overhead", "weights take 2.861 MiB of 9.537 MiB, and the rest 7.629 MiB"),
        (6 * M, 5 * M, "weights", "weights take 5.722 MiB of 9.537 MiB, and the rest 4.768 MiB"),
        (5 * M, 5 * M, "weights", "weights take 4.768 MiB of 9.537 MiB, and the rest 4.768 MiB"),
        # 2,048,000 B for a sequence, one byte too few and just enough
        (10 * M - 2_047_999, 0, "kv", "one sequence needs 1.953 MiB and finds 1.953 MiB"),
        (8 * M, 1 * M, "kv", "one sequence needs 1.953 MiB and finds 976.6 KiB"),
        (10 * M - 2_048_000, 0, "kv", "1 of 5 sequences fit"),
        (0, 0, "kv", "weights take 0 B of 9.537 MiB, 4 of 5 sequences fit"),
    ],
)
def test_what_binds_in_the_memory(weights: int, overhead: int, binding: str, why: str) -> None:
    """Weights, then what else sits there, then the cache."""
    found = refused(PlanQuestion(1_000, 5, overhead=overhead), weights)
    assert (found.binding, found.gpus) == (binding, 1)
    assert found.why.endswith(why)


def test_the_split_is_named() -> None:
    """12 MB of weights over tp 2 x pp 2 are 3,000,000 B on each GPU."""
    found = refused(PlanQuestion(1_000, 50), 12 * M, most=4, pinned=Layout(2, 2, 0, 0))
    assert found.why == "weights take 2.861 MiB of 9.537 MiB at tp 2 x pp 2, 13 of 50 sequences fit"
    assert (found.max_sequences, found.gpus, found.fixed) == (13, 4, False)


def test_the_way_that_holds_most_is_nearest() -> None:
    """Four GPUs with 12 MB of weights: two pairs hold 2 x 3, tp 4 holds 6, four stages or tp 2 x pp 2 hold 13 of 512,000
    B; three GPUs hold 5. Of the two equals, fewer stages are simpler.
    """
    found = refused(PlanQuestion(1_000, 50), 12 * M, most=4)
    assert (found.max_sequences, found.gpus) == (13, 4)
    assert " at tp 2 x pp 2, " in found.why


def test_of_equal_ways_the_fewest_gpus_are_nearest() -> None:
    """A sequence of 1,000,000 tokens fits nowhere, and nothing but the cache is on the GPUs: of up to 7 of them, 4 are
    the fewest that a way comes to (tp 4, 4 stages, tp 2 x pp 2), and tp 4 is the simplest.
    """
    found = refused(PlanQuestion(1_000_000, 1), most=7)
    assert (found.max_sequences, found.gpus, found.binding) == (0, 4, "kv")
    assert " at tp 4, one sequence needs 976.6 MiB" in found.why


def test_replicas_count_together() -> None:
    """Three cards of 4 sequences each hold 12 of 13; with two replicas fixed, 8."""
    assert refused(PlanQuestion(1_000, 13), most=3, pinned=Layout(1, 1, 0, 0)).max_sequences == 12
    assert refused(PlanQuestion(1_000, 13, dp=2), most=3, pinned=Layout(1, 1, 0, 0)).max_sequences == 8


@pytest.mark.parametrize(
    ("asked", "candidate", "gpus", "binding"),
    [
        (PlanQuestion(1_000, 50), Candidate(CARD, 4), 4, "kv"),
        (PlanQuestion(1_000, 50), Candidate(CARD, 3), 3, "kv"),
        (PlanQuestion(1_000, 50, dp=3), Candidate(CARD, 4), 4, "model"),  # 3 replicas never make 4 GPUs
        (PlanQuestion(1_000, 50, dp=5), Candidate(CARD), 4, "model"),  # nor are there 5
    ],
)
def test_a_number_that_is_fixed(asked: PlanQuestion, candidate: Candidate, gpus: int, binding: str) -> None:
    """Ways that do not come to exactly the fixed number of cards are none."""
    found = refuse(search(asked), candidate, configs(precision(model()), 4), candidate.fixed or 4)
    assert (found.gpus, found.binding, found.fixed) == (gpus, binding, candidate.fixed is not None)
    if binding == "model":
        assert found.why == "no way to split the model has so many GPUs"


def test_a_format_that_the_card_has_not_comes_first() -> None:
    """Before any memory is counted."""
    ampere = card(10 * M, "a100", capability=(8, 0))
    made = engine()._replace(least=lambda _version, _what, name: (8, 9) if name == "fp8" else None)
    found = search(PlanQuestion(1_000), EngineBackend(made, made.versions[0], {}))
    found = refuse(found, Candidate(ampere), configs(precision(model(), kv="fp8")), 16)
    assert (found.binding, found.gpus, found.max_sequences) == ("dtype", 16, 0)
    assert found.label == "A100"


def test_an_engine_that_refuses_every_way_is_quoted() -> None:
    """The reason that the search met, by card and formats."""
    made = engine(most=1)._replace(formats=("fp8",))
    found = search(PlanQuestion(1_000), EngineBackend(made, made.versions[0], {}))
    asked = configs(precision(model(), kv="fp16"), 1)
    assert found.cheapest(Candidate(CARD), asked) == []
    said = refuse(found, Candidate(CARD), asked, 1)
    assert (said.binding, said.why) == ("engine", "--kv-dtype: made-up has no fp16 cache")


# 100 tokens in, 1 out. A prompt takes 200,000,000 FLOPs of matrices, and of attention what would be 227,532,800 at full
# speed (test_search): 0.4275 s at 10^9 FLOP/s, so that one replica is busy for 43 % of the time at 1 request/s.
ALIKE = lengths(Length(100), Length(1))


def timed(rate: float, **more: Any) -> PlanQuestion:
    return PlanQuestion(1_000, 1, ALIKE, rate, overhead=0, attained=Attained(1, 1), **more)


@pytest.mark.usefixtures("plain_clocks")
def test_a_rate_is_dealt_over_the_replicas() -> None:
    """6 requests/s on two replicas of one GPU each are 3 for one: 3 x 0.4275 s are 128 % of its time."""
    slow = card(10 * M, "slow", bandwidth=10**12, flops16=10**9)
    found = refuse(search(timed(6.0)), Candidate(slow), [ONE], 2)
    assert (found.binding, found.why, found.gpus) == ("compute", "prompts alone ask for 128% of the time", 2)
    # The same of replicas that have two GPUs each, which compute it twice as fast.
    linked = slow._replace(link=10**12)
    pairs = refuse(search(timed(12.0)), Candidate(linked), [config(model(), Layout(2))], 4)
    assert (pairs.binding, pairs.why) == ("compute", "prompts alone ask for 128% of the time at tp 2")


def test_a_rate_of_the_card_that_is_not_known() -> None:
    """Enough memory, and nothing to tell times from."""
    found = refuse(search(timed(1.0)), Candidate(CARD), [ONE], 1)
    assert (found.binding, found.why) == ("unknown", "the bandwidth of A is not known, and times follow from it")


def planned(asked: PlanQuestion, of: Candidate, ways: list[ParallelConfig]) -> tuple[Search, PlanRow]:
    found = search(asked)
    return found, found.row(found.cheapest(of, ways)[0])


def test_why_one_less_does_not_do() -> None:
    """9 users on cards of 4 need three of them: two hold 8. Of one there is none less, and a fixed number is fixed."""
    found, row = planned(PlanQuestion(1_000, 9), Candidate(CARD), [ONE])
    why = fewer(found, row, [ONE])
    assert why is not None
    assert (row.gpus, why.gpus, why.max_sequences, why.binding) == (3, 2, 8, "kv")
    assert why.why.endswith("8 of 9 sequences fit")
    for users, of in ((4, Candidate(CARD)), (9, Candidate(CARD, 4))):
        found, row = planned(PlanQuestion(1_000, users), of, [ONE])
        assert fewer(found, row, [ONE]) is None


def test_the_nearest_of_all_cards() -> None:
    """Who holds most; then the fewest GPUs; then the name that is last."""
    one, two, three = (Refused(name, name, gpus, 5, "kv", "") for name, gpus in (("a", 2), ("b", 2), ("c", 3)))
    assert nearest([one, two, three]) == two
    assert nearest([one, two, three._replace(max_sequences=6)]).card == "c"


FEW = card(4_096_000, "few")  # two sequences of 1,000 tokens
OTHER = card(8_192_000, "other")


def change(before: PlanRow | None, users: int, found_on: list[Candidate], option: str = "--kv-dtype") -> Change:
    """What a cache in fp8 changes, which takes half: four sequences on a card that held two."""
    small = precision(model(), kv="fp8", weights_name="fp8")
    ways = configs(small, pinned=Layout(1, 1, 0, 0))
    found = search(PlanQuestion(1_000, users))
    return changed(found, option, small, before, [one for of in found_on for one in found.cheapest(of, ways)])


@pytest.mark.parametrize(
    ("users", "found_on", "option", "words"),
    [
        (4, [Candidate(FEW)], "--kv-dtype", "fp8 cache: 1 GPU less: 1 x few"),
        (8, [Candidate(FEW)], "--weights", "fp8 weights: 2 GPUs less: 2 x few"),
        (2, [Candidate(FEW)], "--kv-dtype", "fp8 cache: as many GPUs, 4 sequences instead of 2"),
        (4, [Candidate(OTHER)], "--kv-dtype", "fp8 cache: 1 GPU less: 1 x other"),
        (2, [Candidate(OTHER)], "--kv-dtype", "fp8 cache: not with few, and no fewer GPUs with others"),
        (4, [Candidate(OTHER), Candidate(FEW)], "--kv-dtype", "fp8 cache: 1 GPU less: 1 x few"),
        (2, [], "--kv-dtype", "fp8 cache: none of these has fp8"),
        (2, [], "--weights", "fp8 weights: none of these has fp8 weights"),
    ],
)
def test_what_another_format_changes(users: int, found_on: list[Candidate], option: str, words: str) -> None:
    """On the same card where that has the format, else on the best that does."""
    row = planned(PlanQuestion(1_000, users), Candidate(FEW), [ONE])[1]
    assert change(row, users, found_on, option).words == words


def test_what_another_format_makes_possible() -> None:
    """Where there was no plan, and where there is none either; a card without a name is a GPU."""
    assert change(None, 5, [Candidate(FEW)]).words == "fp8 cache: 2 x few would do"
    assert change(None, 5, [Candidate(card(4_096_000))]).words == "fp8 cache: 2 GPUs would do"
    assert change(None, 5, []) == Change(
        "--kv-dtype", precision(model(), kv="fp8", weights_name="fp8"), None, "fp8 cache: no plan either"
    )


def test_another_format_may_need_more() -> None:
    """Four users of fp32 where bf16 had needed two cards of two: four cards of one."""
    row = planned(PlanQuestion(1_000, 4), Candidate(FEW), [ONE])[1]
    wide = precision(model(), kv="fp32")
    found = search(PlanQuestion(1_000, 4))
    ways = configs(wide, pinned=Layout(1, 1, 0, 0))
    said = changed(found, "--kv-dtype", wide, row, found.cheapest(Candidate(FEW), ways))
    assert said.words == "fp32 cache: 2 GPUs more: 4 x few"


def test_where_nothing_limits_the_number_it_is_not_told() -> None:
    """All heads pruned: no cache, whatever the format."""
    from .hand import FULL

    empty = model(FULL._replace(kv_heads=0))
    found = search(PlanQuestion(1_000))
    before = found.row(found.cheapest(Candidate(FEW), [config(empty)])[0])
    small = precision(empty, kv="fp8")
    after = found.cheapest(Candidate(FEW), configs(small, 1))
    assert changed(found, "--kv-dtype", small, before, after).words == "fp8 cache: as many GPUs"
