"""Percentiles of what requests meet, against queues that are solved and arithmetic by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import NOTHING_FOUND, Work
from kvcalc.perf.flow import Flow
from kvcalc.perf.latency import Latency, Miss, Targets, latency_of
from kvcalc.perf.load import Replica, replicas, serve
from kvcalc.perf.workload import Length, lengths

from .plain import NOTHING_ELSE, demand, machine

# M/M/1 at 0.8: 80 % wait, 5 services of those who do.
QUEUE = Latency(0.8, 5.0, ((0.0, 1.0),), 0.0, 0.02, 0.0, 100, 0.0)


def test_the_wait_of_a_queue() -> None:
    """Of M/M/1 with rho 0.8, 20 % wait not at all, and t is exceeded by 0.8 exp(-t / 5)."""
    assert QUEUE.ttft(20) == pytest.approx(0, abs=1e-9)
    for percentile in (50, 90, 95, 99):
        assert QUEUE.ttft(percentile) == pytest.approx(5 * math.log(0.8 / (1 - percentile / 100)))


def test_prompts_of_two_lengths() -> None:
    """Nine in ten take 0.1 s and one takes 2: without a wait the 90th percentile is the short one's, the 91st not."""
    found = QUEUE._replace(waits=0.0, wait=0.0, prompts=((0.1, 0.9), (2.0, 0.1)), before=0.05)
    assert [round(found.ttft(p), 3) for p in (10, 89.9, 91, 99)] == [0.15, 0.15, 2.05, 2.05]


def test_the_whole_answer() -> None:
    """100 tokens of 20 ms after 0.15 s: 2.13 s; lengths that stray by 50 tokens, 1.645 x 1 s more at p95."""
    found = QUEUE._replace(waits=0.0, wait=0.0, prompts=((0.1, 1.0),), before=0.05)
    assert found.e2e(50) == pytest.approx(0.15 + 99 * 0.020)
    assert found._replace(generated_spread=50).e2e(95) == pytest.approx(2.13 + 1.645 * 1.0, abs=1e-3)


def test_tokens_stray_with_prompts_between() -> None:
    """2 prompts a second of 100 ms, steps of 8 ms: 10 ms a token, and over 100 of them, 1 s, sqrt(2) prompts more or
    less: 1.41 ms a token.
    """
    pace = NOTHING_ELSE._replace(step=0.008)
    clock = Clock(machine(1e30, 1e30, pace=pace), demand(0, 0))
    flowing = Flow(clock, Work(0, 0, 0), 0.0, 100, 0.1, clock.stepping(0, 0))
    found = latency_of(flowing, lengths(Length(1), Length(100)), 2, 10, 0.0, found=NOTHING_FOUND)
    assert found.token == pytest.approx(0.010)
    assert found.token_spread == pytest.approx(math.sqrt(2) * 0.1 / 100)
    assert found.tpot(95) == pytest.approx(0.010 + 1.645 * 0.00141, rel=1e-3)


@pytest.mark.parametrize(
    ("targets", "name"),
    [
        (Targets(ttft=0.5), None),
        (Targets(ttft=0.5, percentile=99), "TTFT"),
        (Targets(tpot=0.01), "TPOT"),
        (Targets(e2e=1), "E2E"),
        (Targets(ttft=0.5, tpot=0.05, e2e=5), None),
        (Targets(), None),
    ],
)
def test_targets(targets: Targets, name: str | None) -> None:
    """A miss is told by its name: one request in 50 takes a second to begin."""
    found = QUEUE._replace(waits=0.0, wait=0.0, prompts=((0.1, 0.98), (1.0, 0.02)))
    missed = found.missed(targets)
    assert (missed and missed.name) == name


def test_a_miss_in_words() -> None:
    """What was promised, what is met."""
    assert str(Miss("TTFT", 0.5, 1.2345, 95)) == "TTFT at p95 is 1.23 s: above 500 ms"


def test_more_replicas_meet_targets() -> None:
    """One that is served but too slow is refused for latency; some number of replicas does."""
    pace = NOTHING_ELSE._replace(step=0.010, sequence=0.001)
    server = Replica(10**9, lambda _: 1, Clock(machine(1e30, 1e12, pace=pace), demand(0, 0)), Work(0, 1, 5e10), 0)
    mix, targets = lengths(Length(1), Length(100)), Targets(tpot=0.020)
    slow = serve(server, mix, rate=5, targets=targets)
    assert slow.binding == "latency"
    assert slow.reason
    assert slow.reason.startswith("TPOT at p95 is 50.5 ms: above 20 ms")
    assert serve(server, mix, rate=5).carried
    needed = replicas(lambda rate: serve(server, mix, rate=rate, targets=targets), 5, 64)
    assert needed is not None
    assert needed > 1
    assert serve(server, mix, rate=5 / needed, targets=targets).carried
    assert replicas(lambda rate: serve(server, mix, rate=rate, targets=Targets(tpot=0.010)), 5, 64) is None


@given(
    prompts=st.lists(st.tuples(st.floats(0.001, 10), st.floats(0.01, 1)), min_size=1, max_size=6),
    waits=st.floats(0, 1),
    wait=st.sampled_from([0.0, 1e-4, 0.1, 20.0]),
    percentile=st.floats(1, 99.9),
)
def test_a_percentile_is_where_so_many_have_begun(
    prompts: list[tuple[float, float]], waits: float, wait: float, percentile: float
) -> None:
    """The share whose prompt and exponential wait end by then, summed as it is defined, passes the percentile there."""
    whole = sum(share for _, share in prompts)
    shares = tuple((seconds, share / whole) for seconds, share in prompts)
    found = QUEUE._replace(prompts=shares, waits=waits, wait=wait, before=0.0).ttft(percentile)

    def begun(by: float) -> float:
        waited = [(by - own, share) for own, share in shares if own <= by]
        return sum(share * (1 - waits * math.exp(-left / wait) if wait else 1.0) for left, share in waited)

    assert begun(found * (1 + 1e-6)) >= percentile / 100 - 1e-9
    assert begun(found * (1 - 1e-6)) <= percentile / 100 + 1e-9
