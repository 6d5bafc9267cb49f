"""What holds for every replay of made-up requests: more of what is scarce never makes it worse, and nothing is lost."""

from array import array
from dataclasses import replace
from math import isnan
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.perf.waiting import mean_wait
from kvcalc.perf.workload import Length
from kvcalc.serving.fleet import Served, serve
from kvcalc.serving.rules import Limits, Scheduler
from kvcalc.traffic.arrivals import Arrivals, synthetic
from kvcalc.traffic.trace import Trace


class Steps:
    """10 ms a step, 0.1 ms for each token in it and 0.2 ms for each sequence, times a factor."""

    front_end = 0.0

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def passing(self, tokens: int) -> float:
        return self.factor * (0.010 + 0.0001 * tokens)

    def attending(self, prompt: int, generated: int) -> float:  # noqa: ARG002 - the signature of StepClock
        return self.factor * 0.0002

    def prompt(self, tokens: int, found: int) -> float:  # noqa: ARG002 - as above
        return 0.0


def clock(factor: float = 1.0) -> Any:
    return Steps(factor)


def made(rate: float, seed: int, count: int = 400) -> Trace:
    return synthetic(count, Arrivals(rate), Length(120, 300), Length(40, 100), seed)


def no_worse(less: Served, more: Served) -> bool:
    """Waits and ends no later, but for a twentieth and a step: who is taken off and who is admitted is by chance."""
    return less.queue.mean <= 1.05 * more.queue.mean + 0.05 and less.e2e.mean <= 1.05 * more.e2e.mean + 0.05


RATES, SEEDS, BLOCKS = st.floats(1, 40), st.integers(0, 1000), st.integers(80, 400)
LIMITS = Limits(32, 512)


@settings(max_examples=25, deadline=None)
@given(RATES, SEEDS, BLOCKS, st.floats(1.1, 8))
def test_more_memory_never_hurts(rate: float, seed: int, blocks: int, times: float) -> None:
    asked, rules = made(rate, seed), Scheduler(LIMITS, 16, blocks)
    more = rules._replace(blocks=int(blocks * times))
    few, many = (serve(asked, 1, "round-robin", each, clock()) for each in (rules, more))
    assert no_worse(many, few) or few.refused > many.refused
    assert many.preemptions <= few.preemptions + 0.05 * len(asked)


@settings(max_examples=25, deadline=None)
@given(RATES, SEEDS, BLOCKS, st.floats(0.1, 0.9))
def test_a_faster_card_never_hurts(rate: float, seed: int, blocks: int, factor: float) -> None:
    asked, rules = made(rate, seed), Scheduler(LIMITS, 16, blocks)
    assert no_worse(*(serve(asked, 1, "round-robin", rules, clock(each)) for each in (factor, 1.0)))


@settings(max_examples=25, deadline=None)
@given(RATES, SEEDS, BLOCKS, st.integers(2, 10))
def test_fewer_requests_never_hurt(rate: float, seed: int, blocks: int, every: int) -> None:
    """Without each n-th request the others wait no longer."""
    asked, rules = made(rate, seed), Scheduler(LIMITS, 16, blocks)
    kept = [i for i in range(len(asked)) if i % every]
    fewer = replace(
        asked,
        arrivals=array("d", (asked.arrivals[i] for i in kept)),
        prompts=array("q", (asked.prompts[i] for i in kept)),
        outputs=array("q", (asked.outputs[i] for i in kept)),
    )
    few, many = (serve(each, 1, "round-robin", rules, clock()) for each in (fewer, asked))

    def mean(served: Served, which: list[int]) -> float:
        ends = [served.times.done[i] - served.times.arrived[i] for i in which]
        return sum(each for each in ends if not isnan(each)) / len(ends)

    assert mean(few, list(range(len(kept)))) <= 1.05 * mean(many, kept) + 0.05


@settings(max_examples=25, deadline=None)
@given(RATES, SEEDS, BLOCKS, st.integers(1, 4), st.booleans(), st.booleans())
def test_nothing_is_lost_and_a_seed_says_all(
    rate: float, seed: int, blocks: int, replicas: int, ahead: bool, whole: bool
) -> None:
    """Each request is answered or refused with all of its tokens, in the order of its times; again, to the last bit."""
    rules = Scheduler(LIMITS._replace(ahead=ahead, whole=whole), 16, blocks)
    found, again = (serve(made(rate, seed), replicas, "least-loaded", rules, clock()) for _ in range(2))
    asked, times = made(rate, seed), found.times
    done = [i for i in range(len(asked)) if not isnan(times.done[i])]
    assert len(done) + found.refused == len(asked)
    assert found.output_tokens == sum(asked.outputs[i] for i in done)
    assert all(asked.arrivals[i] <= times.begun[i] < times.first[i] <= times.done[i] for i in done)
    assert not whole or not found.preemptions
    assert bytes(times.done) == bytes(again.times.done)
    assert found._replace(times=times) == again._replace(times=times)


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("p95", [None, 300])
def test_one_at_a_time_waits_as_long_as_the_formula_says(busy: float, p95: float | None) -> None:
    """Prompts of 100 tokens, alike or Weibull, a token of answer each, one slot: M/G/1, whose mean wait is exact in closed
    form (Pollaczek and Khinchine): rho / (1 - rho) x (1 + variation) / 2 of a service.
    """
    asked = synthetic(60_000, Arrivals(1.0), Length(100, p95), Length(1), 7)
    services = [clock().passing(prompt) for prompt in asked.prompts]
    mean = sum(services) / len(services)
    variation = sum((each - mean) ** 2 for each in services) / len(services) / mean**2
    faster = replace(asked, arrivals=array("d", (time * mean / busy for time in asked.arrivals)))
    found = serve(faster, 1, "round-robin", Scheduler(Limits(1, 1 << 20), 16, 1 << 20), clock())
    assert found.queue.mean == pytest.approx(mean_wait(busy, mean, variation), rel=0.06)
