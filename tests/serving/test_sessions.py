"""Sessions: by hand, and by what reuse distances say of caches that forget the least recently used."""

import json
from array import array
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.cli.main import run
from kvcalc.perf.workload import Length
from kvcalc.serving.fleet import Router, serve
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.traffic.arrivals import Arrivals
from kvcalc.traffic.reuse import reuse
from kvcalc.traffic.trace import Trace
from kvcalc.traffic.turns import SessionLengths, arrivals_after, in_blocks, ordered, paced, pause_of, sessions

from .test_replica import PLAIN

ALIKE = SessionLengths(Length(3), Length(8), Length(4), Length(10_000))  # pauses of 10 s


def made(count: int, rate: float, lengths: SessionLengths = ALIKE, kind: str = "constant") -> Trace:
    return sessions(count, Arrivals(rate, kind), lengths, 0)  # type: ignore[arg-type]


def test_a_session_by_hand() -> None:
    """Prompts of 8, 8 + 4 + 8 and 20 + 4 + 8 tokens. A step is 10 ms, 1 ms a token of a prompt and 2 ms a sequence: the
    first answer takes 18 + 3 x 12 ms, and 10 s later the second turn comes. Its prompt is found up to token 8 of the 11
    that are written: blocks of 4 are whole.
    """
    one = in_blocks(made(3, 1.0), 4)
    assert list(one.prompts) == [8, 20, 32]
    found = serve(one, 1, "round-robin", Scheduler(Limits(8, 64), 4, 100, caching=True), PLAIN)
    first = 0.018 + 3 * 0.012
    assert list(found.times.arrived)[:2] == pytest.approx([0.0, first + 10])
    assert list(found.times.found) == [0, 8, 20]  # of the second, 20 + 3 are written: five whole blocks
    second = first + 10 + 0.010 + 0.012 + 3 * 0.012
    assert found.times.done[1] == pytest.approx(second)
    assert found.times.arrived[2] == pytest.approx(second + 10)


def test_a_session_finds_its_prompt_as_long_as_others_leave_room() -> None:
    """A session a second, each three turns 10 s apart: between two turns of one lie those of 29 others. They touch their
    contexts: in the middle of the run each second one first, one second and one third turn. A cache of what all of them
    and the session itself have written finds all; one that lacks two contexts of what they have written finds only what
    comes back where the run begins or ends and fewer are there.
    """
    many = in_blocks(made(600, 1.0), 4)
    written = [(p + g - 1) // 4 for p, g in zip((8, 20, 32), (4, 4, 4), strict=True)]  # whole blocks: 2, 5, 8
    distance = 10 * sum(written)  # rate x pause x blocks of the three turns
    endless = reuse(many, None)
    assert reuse(many, distance + max(written)).hit_tokens == endless.hit_tokens
    assert reuse(many, distance - 2 * max(written)).token_hit_rate < 0.15 * endless.token_hit_rate


def test_room_is_made_from_the_end_of_what_is_oldest() -> None:
    """A pool of 6 blocks has the first turn's two; another session's prompt of 5 blocks takes the second of these, so that
    one is found.
    """
    one = made(3, 1.0)
    both = Trace(
        array("d", (0.0, 1.0, 10.0)), array("q", (8, 20, 20)), array("q", (1, 1, 4)), one.prefixes,
        array("q", (0, 1, 0)), None,
    )  # fmt: skip
    found = serve(in_blocks(both, 4), 1, "round-robin", Scheduler(Limits(8, 64), 4, 6, caching=True), PLAIN)
    assert list(found.times.found) == [0, 0, 4]


def test_the_open_loop_waits_for_answers_too() -> None:
    """At 1 s a token, an answer of 4 takes 4 s, and the next turn comes 10 s after it."""
    one = made(3, 1.0)
    assert list(arrivals_after(one, lambda i: one.outputs[i])) == [0, 14, 28]


def test_a_faster_rate_moves_the_beginnings_and_not_the_pauses() -> None:
    """At twice the rate, sessions begin every half second, and turns still come 10 s apart."""
    fast = paced(made(9, 1.0), 2)
    assert list(fast.arrivals) == [0, 0.5, 1, 10, 10.5, 11, 20, 20.5, 21]
    assert fast.turns is not None
    assert list(fast.turns.after) == [-1, -1, -1, 0, 1, 2, 3, 4, 5]


LENGTHS = st.builds(
    SessionLengths,
    st.integers(1, 6).map(Length),
    st.builds(lambda mean, ratio: Length(mean, mean * ratio), st.integers(1, 40), st.floats(1.1, 3)),
    st.integers(1, 20).map(Length),
    st.integers(1, 5_000).map(Length),
)


@settings(max_examples=60)
@given(
    st.integers(1, 60), st.floats(0.1, 50), LENGTHS, st.integers(1, 3),
    st.sampled_from(("round-robin", "least-loaded", "prefix")), st.integers(2, 60), st.booleans(),
)  # fmt: skip
def test_no_turn_is_lost_or_comes_too_soon(
    count: int, rate: float, lengths: SessionLengths, replicas: int, router: Router, blocks: int, caching: bool
) -> None:
    """Each request is answered or refused; a turn comes its pause after the answer before it, whoever answered."""
    asked = in_blocks(made(count, rate, lengths, "poisson"), 4)
    found = serve(asked, replicas, router, Scheduler(Limits(4, 16), 4, blocks, caching), PLAIN)
    done = [i for i in range(count) if not isnan(found.times.done[i])]
    assert len(done) + found.refused == count
    assert found.output_tokens == sum(asked.outputs[i] for i in done)
    assert asked.turns is not None
    for i, before in enumerate(asked.turns.after):
        if before < 0:
            assert found.times.arrived[i] == asked.arrivals[i]
        elif isnan(found.times.done[before]):
            assert isnan(found.times.done[i])
        else:
            assert found.times.arrived[i] == pytest.approx(found.times.done[before] + asked.turns.think[i])
    for i in done:
        assert found.times.arrived[i] <= found.times.begun[i] < found.times.first[i] <= found.times.done[i]
    assert ordered(asked) is asked


def test_the_answer_says_how_many_sessions_fit(capsys: pytest.CaptureFixture[str]) -> None:
    """All alike: prompts of 1,000, 2,100 and 3,200 tokens, so that who comes back has 2,650 on average."""
    words = ("simulate", "llama3.1-8b", "--gpu", "h100", "--rate", "1", "--burstiness", "0", "--input", "1000",
             "--output", "100", "--turns", "3", "--think", "20s", "--requests", "300", "--prefix-cache",
             "--format", "json")  # fmt: skip
    assert run(list(words)) == 0
    first = capsys.readouterr().out
    answer = json.loads(first)
    facts = answer["sessions"]
    assert (facts["sessions"], facts["mean_turns"], facts["mean_returning_tokens"]) == (100, 3, 2650)
    assert facts["mean_pause_seconds"] == pytest.approx(20)
    assert facts["coexisting_sessions"] == answer["request"]["pool_tokens"] // 2650
    # three turns of 6,300 + 300 tokens in all, a session a second but for the beginning and the end
    assert facts["tokens_of_others_in_a_pause"] == pytest.approx(20 * 6600, rel=0.35)
    # of 1,099 and 2,199 written tokens 68 and 137 blocks of 16
    assert answer["prefix_cache"]["token_hit_rate"] == pytest.approx((1088 + 2192) / 6300)
    run(list(words))
    assert capsys.readouterr().out == first


def test_pauses_are_read_with_their_units() -> None:
    assert pause_of("30s/2m", "--think") == Length(30_000, 120_000)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--turns", "3"], "--think"),
        (["--turns", "3", "--think", "10"], "10ms or 10s"),
        (["--turns", "3", "--think", "10s", "--prefill", "1", "--decode", "1"], "--prefill"),
    ],
)
def test_sessions_that_cannot_be(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    base = ["simulate", "llama3.1-8b", "--gpu", "h100", "--rate", "1", "--input", "100", "--output", "10"]
    assert run([*base, *words]) == 2
    assert said in capsys.readouterr().err
