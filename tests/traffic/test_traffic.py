"""The open loop and the prefix cache: by hand on requests that fit a page, and against an independent prototype."""

import itertools
import json
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.perf.workload import Length
from kvcalc.sources.traces.reader import read_trace
from kvcalc.traffic.arrivals import Arrivals, synthetic
from kvcalc.traffic.course import Course
from kvcalc.traffic.levels import Gauge, percentiles
from kvcalc.traffic.occupancy import occupancy
from kvcalc.traffic.reuse import reuse
from kvcalc.traffic.trace import Prefixes, Trace

SHARED = Path(__file__).resolve().parents[2].parent / "shared"
TRACES = SHARED / "traces"
needs_traces = pytest.mark.skipif(not TRACES.is_dir(), reason="the maintainers' traces lie beside the repository")


def trace(*requests: tuple[float, int, int], blocks: list[tuple[int, ...]] | None = None, each: int = 4) -> Trace:
    times, prompts, outputs = zip(*requests, strict=True)
    prefixes = None if blocks is None else Prefixes(each, blocks)
    return Trace(array("d", times), array("q", prompts), array("q", outputs), prefixes)


# Two requests at a second a step: the first holds 3, 4, 5 tokens from 0 to 3, the second 10, 11 from 1 to 3.
PAIR = trace((0, 3, 3), (1, 10, 2))


def test_two_requests_by_hand() -> None:
    """3 tokens for a second, then 14 and 16: a mean of 11. Whole blocks of 4 are 4, then 16 and 20."""
    exact = occupancy(PAIR, 1.0, 1, lambda tokens: 100 + 8 * min(tokens, 4), [4])
    assert (exact.tokens.mean, exact.tokens.peak, exact.tokens.seconds) == (11, 16, 3)
    assert (exact.sequences.mean, exact.sequences.peak, exact.sequences.p50) == (pytest.approx(5 / 3), 2, 2)
    whole = occupancy(PAIR, 1.0, 4, lambda tokens: tokens, [])
    assert (whole.tokens.mean, whole.tokens.peak, whole.tokens.peak_at) == (pytest.approx(40 / 3), 20, 2)
    assert (whole.tokens.p50, whole.tokens.p95) == (16, 20)


def test_bytes_follow_the_model_and_not_the_slope() -> None:
    """A window of 4 tokens: the second request holds its 132 B from the start, the first grows to that."""
    held = occupancy(PAIR, 1.0, 1, lambda tokens: 100 + 8 * min(tokens, 4), [4])
    assert held.bytes.peak == 132 + 132
    # 124 to 132 in the first second, then both at 132
    assert held.bytes.mean == pytest.approx((128 + 264 + 264) / 3)


@pytest.mark.parametrize(
    ("stretches", "shares", "values"),
    [
        ([(0, 10, 1.0)], [50, 95], [5, 9.5]),  # as long on each value between
        ([(5, 5, 1.0), (7, 7, 1.0)], [50, 51, 99], [5, 7, 7]),
        ([(0, 10, 1.0), (20, 20, 1.0)], [25, 50, 75], [5, 10, 20]),
    ],
)
def test_percentiles_by_time(
    stretches: list[tuple[float, float, float]], shares: list[float], values: list[float]
) -> None:
    assert percentiles(stretches, shares) == pytest.approx(values)


@given(st.lists(st.tuples(st.floats(0, 50), st.integers(1, 40), st.integers(1, 30)), min_size=1, max_size=12),
       st.sampled_from([1, 3, 16]))  # fmt: skip
def test_what_is_held_is_conserved(requests: list[tuple[float, int, int]], block: int) -> None:
    """The mean over time is the sum of what each holds in each of its steps, in whole blocks, and no peak is below it."""
    asked = trace(*sorted(requests))
    found = occupancy(asked, 0.5, block, lambda tokens: tokens, [])
    steps = sum(-(-(p + k) // block) * block for _, p, g in requests for k in range(g))
    assert found.tokens.mean * found.tokens.seconds == pytest.approx(0.5 * steps)
    assert found.tokens.peak >= found.tokens.mean * (1 - 1e-9) - 1
    assert found.tokens.p50 <= found.tokens.p95 <= found.tokens.p99 <= found.tokens.peak * (1 + 1e-9)


def test_a_small_cache_by_hand() -> None:
    """Blocks of 4 tokens. Of A B, A C, B, A B: with room for two, the second prompt finds A, the third nothing (B went
    for C), the fourth neither, since A went for B. Without end: A, then B, then both, the last of which is 7 tokens.
    """
    asked = trace((0, 8, 1), (1, 8, 1), (2, 4, 1), (3, 7, 1), blocks=[(1, 2), (1, 3), (2,), (1, 2)])
    small, endless = reuse(asked, 2), reuse(asked, None)
    assert (small.hits, small.hit_tokens, small.tokens) == (1, 4, 27)
    assert (endless.hits, endless.hit_tokens, endless.token_hit_rate) == (4, 4 + 4 + 7, 15 / 27)


BLOCKS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True), min_size=1, max_size=20)


@given(BLOCKS, st.integers(1, 12))
def test_a_larger_cache_finds_no_less(prompts: list[list[int]], capacity: int) -> None:
    """LRU keeps in a larger cache what it keeps in a smaller one."""
    asked = trace(*((i, 4 * len(ids), 1) for i, ids in enumerate(prompts)), blocks=[tuple(ids) for ids in prompts])
    assert reuse(asked, capacity).hits <= reuse(asked, capacity + 1).hits <= reuse(asked, None).hits


def test_a_seed_says_which_requests() -> None:
    """The same seed, the same requests; the mean is that of the lengths and of the rate."""
    made = [synthetic(4000, Arrivals(2.0), Length(1000, 3000), Length(100), seed) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
    assert sum(made[0].prompts) / 4000 == pytest.approx(1000, rel=0.05)
    assert sorted(made[0].prompts)[3800] == pytest.approx(3000, rel=0.08)
    assert made[0].arrivals[-1] == pytest.approx(2000, rel=0.05)
    assert set(made[0].outputs) == {100}
    gaps = synthetic(50, Arrivals(4.0, "constant"), Length(10), Length(10), 0).arrivals
    assert [b - a for a, b in itertools.pairwise(gaps)] == pytest.approx([0.25] * 49)


@needs_traces
@pytest.mark.parametrize("name", ["AzureLLMInferenceTrace_conv.csv", "mooncake_conversation_trace.jsonl"])
def test_public_traces_against_a_prototype(name: str) -> None:
    """Means to 1e-5 (the digits that are given), percentiles and peaks to 0.2 %, hits exactly (cases/trace_oracles.json)."""
    oracles = json.loads((SHARED / "cases" / "trace_oracles.json").read_text(encoding="utf-8"))
    asked = read_trace(str(TRACES / name), name).trace
    for case in oracles["open_loop"][name]:
        found = occupancy(asked, case["tau_s"], case["block"], lambda tokens: tokens, [])
        assert found.tokens.mean == pytest.approx(case["mean_tokens"], rel=3e-6)
        assert found.sequences.mean == pytest.approx(case["mean_concurrency"], rel=3e-5)
        for key in ("p50", "p95", "p99", "peak"):
            assert getattr(found.tokens, key) == pytest.approx(case[f"{key}_tokens"], rel=0.002)
            assert getattr(found.sequences, key) == case[f"{key}_conc"]
    for case in oracles["prefix_cache_lru"].get(name, ()):
        hits = reuse(asked, case["capacity_blocks"])
        assert (hits.hits, hits.blocks) == (case["hit_blocks"], case["total_blocks"])
        assert round(hits.token_hit_rate, 6) == case["token_hit"]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.floats(0.001, 100)), min_size=1, max_size=40))
def test_a_gauge_is_the_same_stretches(parts: list[tuple[int, int, float]]) -> None:
    """What it keeps by level comes to what the stretches one by one come to."""
    gauge = Gauge()
    stretches = [(low, low + more, seconds) for low, more, seconds in parts]
    for stretch in stretches:
        gauge.add(*stretch)
    found, seconds = gauge.levels(), sum(part[2] for part in stretches)
    assert found.mean == pytest.approx(sum((low + high) / 2 * part for low, high, part in stretches) / seconds)
    assert (found.peak, found.seconds) == (max(part[1] for part in stretches), pytest.approx(seconds))
    assert [found.p50, found.p95, found.p99] == pytest.approx(percentiles(stretches, [50, 95, 99]), rel=1e-6, abs=1e-6)


@given(
    st.lists(st.tuples(st.floats(0.001, 50), st.integers(0, 900), st.integers(0, 900), st.integers(0, 9)), min_size=1)
)
def test_a_course_holds_what_it_was_told(stretches: list[tuple[float, int, int, int]]) -> None:
    """Whatever parts the time is in, means times seconds are the area of what was told, and so are those who wait."""
    course, now, area, waited = Course(), 0.0, 0.0, 0.0
    for seconds, low, high, waiting in stretches:
        course.add(now, seconds, low, high, waiting)
        now, area, waited = now + seconds, area + (low + high) / 2 * seconds, waited + waiting * seconds
    points = course.points()
    assert len(points) <= 256
    wide = [min(course.seconds, now - i * course.seconds) for i in range(len(points))]
    assert sum(each * tokens for each, (_, tokens, _) in zip(wide, points, strict=True)) == pytest.approx(area)
    assert sum(each * count for each, (_, _, count) in zip(wide, points, strict=True)) == pytest.approx(waited)
