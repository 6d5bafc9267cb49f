"""Tiers behind a pool: what is loaded from them, what that takes, and when it is left alone."""

from pathlib import Path

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.perf.tiers import tiers_of
from kvcalc.serving.fleet import Served, serve
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.serving.tiers import Level
from kvcalc.sources.traces.reader import read_trace
from kvcalc.traffic.reuse import reuse
from kvcalc.traffic.trace import Trace
from tests.serving.test_replica import PLAIN, trace

# Prompts of 13 tokens in blocks of 4, with outputs of one token, a second apart; the pool holds one prompt at a time.
PROMPTS = [(1, 2, 3, 91), (4, 5, 6, 92), (1, 2, 3, 93), (4, 5, 7, 94), (1, 2, 8, 95), (1, 2, 3, 96)]
ASKED = trace(*((float(i), 13, 1) for i in range(len(PROMPTS))), blocks=PROMPTS)


def served(*levels: Level, blocks: int = 4, asked: Trace = ASKED) -> Served:
    return serve(asked, 1, "round-robin", Scheduler(Limits(8, 64), 4, blocks, caching=True, tiers=levels), PLAIN)


def test_an_endless_tier_finds_all_that_is_ever_known() -> None:
    """(G, without end) is the hit rate without a limit: here 3 + 2 + 2 + 3 blocks; (G, 0) is that of the pool alone."""
    without_end, pool_alone = served(Level(10**9, 0.0)), served()
    assert without_end.found_tokens == 4 * (3 + 2 + 2 + 3) == reuse(ASKED, None).hit_tokens
    assert served(Level(0, 0.0)).times.found == pool_alone.times.found
    assert pool_alone.found_tokens == 4 * 2  # only of the last, whose first two blocks the one before has left there
    assert without_end.loaded == (3 + 2 + 2 + 1,)


def test_a_load_is_waited_for() -> None:
    """Of the third prompt 12 of 13 tokens are loaded in 3 x 2 ms: with a pass of 10 ms and a token of 1 ms 17 in all."""
    found = served(Level(100, 0.002))
    assert found.times.first[2] - 2.0 == pytest.approx(0.010 + 0.001 + 3 * 0.002)
    assert found.loading_seconds == pytest.approx(sum(found.loaded) * 0.002)


def test_what_is_computed_more_quickly_is_not_loaded() -> None:
    """A block of 4 tokens takes 4 ms to compute, and 5 ms to load; a tier before it that is quick is still used."""
    slow = served(Level(100, 0.005))
    assert (slow.loaded, slow.found_tokens) == ((0,), served().found_tokens)
    assert slow.slower == 3 + 2 + 2 + 1
    assert list(slow.times.first) == list(served().times.first)
    both = served(Level(6, 0.001), Level(100, 0.050))
    assert (both.loaded, both.slower) == ((3 + 2 + 2, 0), 1)


def test_the_least_recently_used_leaves_a_tier() -> None:
    """A tier of three blocks has those of the last prompt alone, which stand in the pool. One of six has 4 5 6 1 2 3
    after the third prompt; the fourth's 7 pushes out 6, and the fifth's 8 pushes out 3, which the sixth misses.
    """
    assert served(Level(3, 0.0)).loaded == (0,)
    assert served(Level(6, 0.0)).loaded == (3 + 2 + 2,)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("cpu=200GiB", "says no rate"),
        ("200GiB@50GB/s", "expected NAME=SIZE@RATE"),
        ("cpu=200GiB@50GB", "bytes a second"),
        ("cpu=200@50GB/s", "two ways"),
        ("cpu=200GiB@0B/s", "above zero"),
    ],
)
def test_faulty_tiers(text: str, fault: str) -> None:
    with pytest.raises(KvcalcError, match=fault):
        tiers_of([text], "--tier")
    with pytest.raises(KvcalcError, match="named twice"):
        tiers_of(["a=1GB@1GB/s", "a=2GB@1GB/s"], "--tier")


def test_tiers_of_a_real_trace() -> None:
    """Mooncake's conversations: on one endless tier all but the last blocks of prompts, which are not whole, are found."""
    path = Path("../shared/traces/mooncake_conversation_trace.jsonl")
    if not path.exists():
        pytest.skip("the trace is not here")
    asked = read_trace(str(path), path.name).trace
    rules = Scheduler(Limits(256, 8192), 16, 30_000, caching=True, tiers=(Level(10**9, 0.0),))
    found = serve(asked, 1, "round-robin", rules, PLAIN).found_tokens
    assert reuse(asked, None).hit_tokens * 0.99 < found <= reuse(asked, None).hit_tokens
