"""Which clock a plan goes by: the engine's pace, the format's kernels, the card, the layout; and targets on it.

A token of the model has 2,048 B of cache in four layers, and 1,000,000 parameters (`hand`). Each request has 100 tokens
in and 1 out: 204,800 B, read in 0.2048 ms at 10^9 B/s.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from kvcalc.core.sharding import Layout
from kvcalc.engines.llama_cpp.engine import ENGINE as LLAMA_CPP
from kvcalc.engines.sglang.engine import ENGINE as SGLANG
from kvcalc.engines.tensorrt_llm.engine import ENGINE as TENSORRT_LLM
from kvcalc.engines.vllm.engine import ENGINE as VLLM
from kvcalc.perf.demand import Found
from kvcalc.perf.latency import Targets
from kvcalc.perf.machine import Attained
from kvcalc.perf.pace import pace_of
from kvcalc.perf.workload import Length, lengths
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.question import Candidate, PlanQuestion

from .hand import card, config, engine, model, precision, search

M = 10**6
ALIKE = lengths(Length(100), Length(1))
# At the peaks of this card prompts are free, and 1,000,000 B of weights are read in 1 ms.
QUICK = card(1000 * M, "quick", bandwidth=10**9, flops16=10**30, flops8=2 * 10**30, link=10**12)
ONE = config(model(), weights=M)


def timed(users: int = 1, **more: Any) -> PlanQuestion:
    return PlanQuestion(1_000, users, ALIKE, attained=Attained(1, 1), overhead=0, **more)


# Four layers of 5 kernels for attention and 4 for the feed-forward block; in fp8 2 more in each of the 8 blocks.
@pytest.mark.parametrize(("weights", "kernels"), [("bf16", 36), ("fp8_e4m3", 52), ("int4", 36)])
@pytest.mark.parametrize("of", [VLLM, SGLANG, TENSORRT_LLM], ids=lambda of: of.name)
def test_an_engine_has_its_own_pace(of: Any, weights: str, kernels: int) -> None:
    """As it is kept for the engine by its name, and not for one of no name."""
    found = search(timed(), EngineBackend(of, of.versions[-1], {}))
    clock = found.times.clock(QUICK, ONE._replace(precision=ONE.precision._replace(weights_name=weights)))
    pace = pace_of(of.name, of.versions[-1].name, dense=True)
    assert pace != pace_of("")
    assert clock.machine.pace == pace
    assert clock.fixed == pytest.approx(kernels * pace.kernel + pace.step)


def test_the_work_of_the_host_hides_from_0_14_on() -> None:
    """vLLM 0.14 is the first that schedules a step while the one before it runs (pull request 27614); beside the kernels
    of a dense model that is half as long then, and sequences cost nothing. With experts the measured runs were as before.
    """
    before, after = (EngineBackend(VLLM, row, {}) for row in VLLM.versions if row.name in ("0.12.0", "0.14.0"))
    clocks = [search(timed(), each).times.clock(QUICK, ONE) for each in (before, after)]
    assert [clock.machine.pace.step for clock in clocks] == [1.3e-3, 0.65e-3]
    assert [clock.machine.pace.sequence for clock in clocks] == [12e-6, 0]
    assert [clock.machine.pace.ahead for clock in clocks] == [False, True]
    assert pace_of("vllm", "0.18.0").step == 1.3e-3


@pytest.mark.parametrize(
    ("weights", "name"),
    [("bf16", ""), ("q8_0", "llama.cpp"), ("q4_k", "llama.cpp"), ("q4_k_m", "llama.cpp"), ("mlx_4bit", "mlx")],
)
def test_without_an_engine_the_format_has_the_pace(weights: str, name: str) -> None:
    """Blocks of GGUF, in all mixtures of files, are what llama.cpp's kernels are made for, and MLX has its own."""
    clock = search(timed()).times.clock(QUICK, ONE._replace(precision=ONE.precision._replace(weights_name=weights)))
    assert clock.machine.pace == pace_of(name)
    assert clock.demand.blocks.kernels == 36


def test_an_engine_whose_times_were_not_measured_is_in_doubt() -> None:
    """It is said so, and the range is wider than that of llama.cpp on the same card."""
    made = engine()
    doubts = [
        search(timed(), EngineBackend(of, of.versions[-1], {}))
        .times.clock(QUICK, config(model(model_type="llama")))
        .doubt
        for of in (made, LLAMA_CPP)
    ]
    said = "no times of this engine were measured"
    assert [said in str(doubt) for doubt in doubts] == [True, False]


# Weights and cache over the GPUs of a replica: tp 4 has one of 2 heads on each, as tp 2 has.
LAYOUTS = [
    (Layout(), 1, 1 + 0.2048),
    (Layout(2), 1, 0.5 + 0.1024),
    (Layout(4), 1, 0.25 + 0.1024),
    (Layout(1, 2), 1, 2 * (0.5 + 0.1024)),
    (Layout(1, 2), 2, 2 * (0.5 + 0.1024)),
    (Layout(1, 2), 6, 2 * (0.5 + 3 * 0.1024)),
    (Layout(2, 2), 4, 2 * (0.25 + 2 * 0.0512)),
]


@pytest.mark.usefixtures("plain_clocks")
@pytest.mark.parametrize("order", [LAYOUTS, LAYOUTS[::-1]], ids=["forth", "back"])
def test_each_card_and_layout_has_its_own_time(order: Sequence[tuple[Layout, int, float]]) -> None:
    """On a card with half of the bandwidth twice as much, in whichever order they are asked."""
    found, half = search(timed()), QUICK._replace(name="half", bandwidth=5 * 10**8)
    for layout, users, milliseconds in order:
        each = config(model(), layout, M)
        seconds = [found.times.load(of, each, 100 * M, users=users).seconds_per_token for of in (QUICK, half)]
        assert seconds == pytest.approx([milliseconds / 1e3, 2 * milliseconds / 1e3])


@pytest.mark.usefixtures("plain_clocks")
@pytest.mark.parametrize("order", [(0.2048, 0.1024), (0.1024, 0.2048)], ids=["bf16 first", "fp8 first"])
def test_each_cache_format_has_its_own_time(order: tuple[float, ...]) -> None:
    """In fp8 a sequence has half of the bytes to read."""
    found, formats = search(timed()), {0.2048: "bf16", 0.1024: "fp8"}
    for milliseconds in order:
        each = ONE._replace(precision=precision(model(), M, kv=formats[milliseconds]))
        seconds = found.times.load(QUICK, each, 10 * M, users=1).seconds_per_token
        assert seconds == pytest.approx((1 + milliseconds) / 1e3)


@pytest.mark.parametrize("order", [("with", "without"), ("without", "with")])
def test_a_card_without_fp8_converts_no_inputs(order: tuple[str, ...]) -> None:
    """Its kernels unpack fp8 weights to 16 bits: two kernels less in each of 8 blocks, in whichever order they are asked."""
    cards = {"with": QUICK, "without": QUICK._replace(name="without", flops8=None)}
    found, fp8 = search(timed()), ONE._replace(precision=ONE.precision._replace(weights_name="fp8"))
    kernels = {name: found.times.clock(cards[name], fp8).demand.blocks.kernels for name in order}
    assert kernels == {"with": 52, "without": 36}


@pytest.mark.usefixtures("plain_clocks")
def test_what_is_found_of_a_prompt_is_not_computed() -> None:
    """At 10^12 FLOP/s 50 of 100 tokens are 0.1 ms of matrices, and 5,050 - 1,275 pairs of attention, which a prompt of
    100 computes at an eleventh of their rate: 11 x 3,775 x 4 x 4 x 2 x 128 FLOPs are 0.1700864 ms.
    """
    slow = QUICK._replace(flops16=10**12)
    found = search(timed(found=Found(tokens=50), targets=Targets(ttft=1.0)))
    load = found.times.load(slow, config(model()), 10 * M, users=1)
    assert load.prefill_seconds == pytest.approx(0.000_270_086_4)
    assert load.latency is not None
    assert load.latency.prompts == (pytest.approx((0.000_270_086_4, 1.0)),)


# B sequences have a token in 1 ms + 0.2048 ms x B on average: 5 in 2.024 ms, 4 in 1.8192. A number of them that strays
# as Poisson's adds 0.2048 ms x sqrt(B) for a standard deviation, 1.96 of which are the percentile 97.5: 4 have 2.622 ms.
@pytest.mark.usefixtures("plain_clocks")
@pytest.mark.parametrize(
    ("milliseconds", "percentile", "most", "replicas"),
    [
        (2.03, 50, 64, 4),
        (2.02, 50, 64, 5),
        (2.02, 50, 4, None),
        (1.0, 50, 64, None),  # the weights alone take that long
        (2.63, 97.5, 64, 5),
        (2.61, 97.5, 64, 7),  # 3 each
        (1000.0, 50, 64, 1),
    ],
)
def test_as_many_replicas_as_meet_a_target(
    milliseconds: float, percentile: float, most: int, replicas: int | None
) -> None:
    """20 users dealt over the fewest on which the fullest has its tokens in time."""
    asked = timed(20, targets=Targets(tpot=milliseconds / 1e3, percentile=percentile))
    assert search(asked).least(Candidate(QUICK), ONE, most) == replicas


@pytest.mark.usefixtures("plain_clocks")
def test_a_rate_that_meets_a_target() -> None:
    """9,000 requests/s on three replicas keep 7.78 sequences on each, which have a token in 2.593 ms; on four, where
    2.25 / (1 - 0.4608) = 4.17 are there, in 1.855.
    """
    for milliseconds, replicas in ((2.6, 3), (2.58, 4), (1.86, 4), (1.85, 5)):
        asked = timed(rate=9_000.0, targets=Targets(tpot=milliseconds / 1e3, percentile=50))
        assert search(asked).least(Candidate(card(10 * M, "a", bandwidth=10**9, flops16=10**30)), ONE, 64) == replicas
