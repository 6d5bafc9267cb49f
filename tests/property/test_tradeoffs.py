"""Seconds with and without a cache, for every model: sums against adding up, and what must hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import demand_of
from kvcalc.perf.flops import count
from kvcalc.perf.machine import Machine
from kvcalc.perf.reads import cache_reads
from kvcalc.perf.tradeoff import Generation

from .machines import machines

MODELS = st.from_type(Model)
SHORT = st.integers(1, 60)
MACHINES = machines(ranks=False)


def generation(model: Model, machine: Machine, batch: int) -> Generation:
    request = ask(model, context=100, batch=batch)
    used = model.active_parameters or model.parameters or 10**9
    demand = demand_of(request.model, 2 * max(used, model.parameters or 0), "bf16", used=used)
    flops = count(model, used, request.encoder_tokens)
    return Generation(Clock(machine, demand._replace(flops=flops)), cache_reads(request, Layout()), batch)


@given(MODELS, MACHINES, SHORT, SHORT, st.integers(1, 4))
def test_passes_add_up(model: Model, machine: Machine, prompt: int, output: int, batch: int) -> None:
    """Without a cache the whole takes what its passes take one by one."""
    going = generation(model, machine, batch)
    passes = sum(going.anew(t) for t in range(prompt, prompt + output))
    assert going.whole_anew(prompt, output) == pytest.approx(passes)


@given(MODELS, MACHINES, SHORT, SHORT, st.integers(1, 4))
def test_steps_add_up(model: Model, machine: Machine, prompt: int, output: int, batch: int) -> None:
    """With a cache the whole takes what prompt and steps take, or less where attention changes sides on the way."""
    going = generation(model, machine, batch)
    steps = going.anew(prompt) + sum(going.step(t) for t in range(prompt + 1, prompt + output))
    whole = going.whole(prompt, output)
    assert whole <= steps * (1 + 1e-9)
    assert whole >= steps / 2


@given(MODELS, MACHINES, SHORT, st.integers(1, 4))
def test_time_grows_with_the_text(model: Model, machine: Machine, t: int, batch: int) -> None:
    """A step at a later position never takes less, nor one of a larger batch."""
    going = generation(model, machine, batch)
    assert going.step(t) <= going.step(t + 1) * (1 + 1e-12)
    assert going.step(t) <= going._replace(batch=batch + 1).step(t) * (1 + 1e-12)


@given(MODELS, MACHINES, SHORT, st.floats(1, 10))
def test_more_of_a_card_never_hurts(model: Model, machine: Machine, t: int, times: float) -> None:
    """A card with more bandwidth, or more compute, takes no longer for a step or a pass."""
    slow = generation(model, machine, 2)
    for quicker in (
        machine._replace(bandwidth=machine.bandwidth * times),
        machine._replace(matrices=machine.matrices * times, attention=machine.attention * times),
    ):
        quick = slow._replace(clock=slow.clock._replace(machine=quicker))
        assert quick.step(t) <= slow.step(t) * (1 + 1e-12)
        assert quick.anew(t) <= slow.anew(t) * (1 + 1e-12)


@given(MODELS, MACHINES, st.sampled_from([2, 4, 8]), st.floats(1, 1000))
def test_ranks_never_beat_their_parts(model: Model, machine: Machine, tp: int, tokens: float) -> None:
    """tp ranks take no less than a part of what one takes, and no more than that, the sums and what each moves."""
    one = generation(model, machine, 1).clock
    split = one._replace(machine=machine._replace(tp=tp, link=1e11, latency=5e-6))
    assert split.matrices(tokens) >= one.matrices(tokens) / tp * (1 - 1e-9)
    assert split.matrices(tokens) <= one.matrices(tokens) * (1 + 1e-9)
    assert split.sums(tokens) > one.sums(tokens) == 0
