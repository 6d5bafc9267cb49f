"""What holds for every replica, model and mix of lengths under load."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import Demand, Work
from kvcalc.perf.flops import Flops
from kvcalc.perf.kernels import Blocks
from kvcalc.perf.load import Load, Replica, replicas, serve
from kvcalc.perf.workload import Length, Lengths, lengths, sampled

from .machines import machines

GROWN = st.floats(1.0, 10.0)
PAIRS = st.builds(lambda mean, ratio: Length(mean, mean * ratio), st.integers(1, 100_000), st.floats(1.0, 4.6))
SAMPLES = st.lists(st.tuples(st.integers(1, 50_000), st.integers(1, 5_000)), min_size=1, max_size=20)
LENGTHS = st.builds(lengths, PAIRS, PAIRS) | SAMPLES.map(sampled)
PARTS = st.floats(1e-3, 1.5)  # of what an endless batch would finish
MACHINES = machines(ranks=True)


@st.composite
def replicas_of_models(draw: st.DrawFn) -> Replica:
    """A replica of a model, dense or with experts, whose cache grows, stops growing or never grew."""
    always, slope, window = draw(st.floats(1e8, 1e12)), draw(st.integers(1, 10**6)), draw(st.integers(1, 100_000))
    linear = draw(st.floats(1e8, 1e12))
    demand = Demand(
        flops=Flops(round(linear / 2), (), ()),
        held=0,
        always=always,
        routed=draw(st.floats(0, 1e12)),
        drawn=draw(st.floats(0.01, 1.0)),
        dense=linear,
        expert=draw(st.floats(0, 1e12)),
        exchanged=draw(st.floats(1e3, 1e5)),
        blocks=Blocks(draw(st.integers(1, 200)), draw(st.integers(0, 2000)), draw(st.floats(0, 1e8)), 0.0),
        distinct=draw(st.booleans()),
    )
    work = Work(draw(st.floats(0, 1e11)), draw(st.floats(1, 1e5)), draw(st.floats(0, 1e15)), draw(st.floats(0, 5)))
    state, read = draw(st.integers(0, 10**8)), draw(st.floats(0, 1e10))
    clock = Clock(draw(MACHINES), demand)
    return Replica(draw(st.integers(0, 10**12)), lambda t: state + slope * min(t, window), clock, work, read)


REPLICAS = replicas_of_models()


def rate_of(replica: Replica, mix: Lengths, part: float) -> float:
    """Requests a second, as a part of what next to endless users would make of it."""
    return part * serve(replica, mix, users=2**39).rate


def no_more(less: float | None, more: float | None) -> bool:
    """`less` is at most `more`, but for the last digits; None is without end."""
    return more is None or (less is not None and less <= more * (1 + 1e-9))


@given(REPLICAS, LENGTHS, PARTS, GROWN)
def test_a_higher_rate_never_helps(replica: Replica, mix: Lengths, part: float, times: float) -> None:
    """More requests never make the batch smaller, tokens quicker or waits shorter, and what was refused stays refused."""
    rate = rate_of(replica, mix, part)
    few, many = serve(replica, mix, rate=rate), serve(replica, mix, rate=rate * times)
    assert no_more(few.concurrency, many.concurrency)
    assert no_more(few.seconds_per_token, many.seconds_per_token)
    assert no_more(few.wait_seconds, many.wait_seconds)
    assert no_more(few.p99_tokens, many.p99_tokens)
    assert few.carried or not many.carried


@given(REPLICAS, LENGTHS, PARTS, GROWN)
def test_more_bandwidth_never_hurts(replica: Replica, mix: Lengths, part: float, times: float) -> None:
    """A card with more bandwidth never takes longer for a token, nor holds more at once, nor carries less."""
    rate = rate_of(replica, mix, part)
    machine = replica.clock.machine
    quicker = machine._replace(bandwidth=machine.bandwidth * times)
    quick = replica._replace(clock=replica.clock._replace(machine=quicker))
    before, after = serve(replica, mix, rate=rate), serve(quick, mix, rate=rate)
    assert no_more(after.seconds_per_token, before.seconds_per_token)
    assert no_more(after.concurrency, before.concurrency)
    assert no_more(before.capacity, after.capacity)


@given(REPLICAS, LENGTHS, PARTS, st.integers(0, 10**12))
def test_more_memory_never_hurts(replica: Replica, mix: Lengths, part: float, more: int) -> None:
    """A larger pool carries what a smaller one carried, and is no slower."""
    rate = rate_of(replica, mix, part)
    before, after = serve(replica, mix, rate=rate), serve(replica._replace(pool=replica.pool + more), mix, rate=rate)
    assert after.carried or not before.carried
    assert after.seconds_per_token == before.seconds_per_token
    assert no_more(before.capacity, after.capacity)


@given(REPLICAS, LENGTHS, st.integers(1, 10_000))
def test_what_is_held_is_what_comes_times_how_long_it_stays(replica: Replica, mix: Lengths, users: int) -> None:
    """Little's law holds for users that are always there, and for requests that come half as often as they finish."""
    present = serve(replica, mix, users=users)
    coming = serve(replica, mix, rate=present.rate / 2)
    for load in (present, coming):
        assert load.concurrency is not None
        assert load.seconds_per_token is not None
        assert load.rate * mix.generated * load.seconds_per_token == pytest.approx(load.concurrency)
    assert no_more(coming.concurrency, users)


@given(REPLICAS, LENGTHS, PARTS)
def test_a_refusal_has_a_reason(replica: Replica, mix: Lengths, part: float) -> None:
    """Whoever is refused is told the resource and why, in one line, and nobody else."""
    rate = rate_of(replica, mix, part)
    load = serve(replica, mix, rate=rate)
    assert load.carried == (load.binding is None) == (load.reason is None)
    assert "\n" not in (load.reason or "")


@given(REPLICAS, LENGTHS, PARTS)
def test_one_replica_less_would_not_do(replica: Replica, mix: Lengths, part: float) -> None:
    """The count of replicas carries the rate, and is the least that does."""
    rate = rate_of(replica, mix, part)

    def load_at(each: float) -> Load:
        return serve(replica, mix, rate=each)

    count = replicas(load_at, rate, 64)
    if count is None:
        assert not load_at(rate / 64).carried
    else:
        assert load_at(rate / count).carried
        assert count == 1 or not load_at(rate / (count - 1)).carried
        assert replicas(load_at, rate, 65, spare=True) == count + 1


@given(SAMPLES)
def test_moments_are_those_of_every_token(requests: list[tuple[int, int]]) -> None:
    """Context and spread are those of the numbers held step by step, counted one by one."""
    requests = [(p, g % 200 + 1) for p, g in requests]
    held = [p + k for p, g in requests for k in range(g)]
    found = sampled(requests)
    mean = sum(held) / len(held)
    assert found.context == pytest.approx(mean)
    assert found.spread == pytest.approx((sum((x - mean) ** 2 for x in held) / len(held)) ** 0.5, rel=1e-4, abs=0.05)
