"""Seconds with and without a cache, for every model: closed sums against adding up, and what must hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.perf.flops import count
from kvcalc.perf.roofline import Attained
from kvcalc.perf.tradeoff import Clock, Rig, cache_reads

MODELS = st.from_type(Model)
SHORT = st.integers(1, 60)


@st.composite
def rigs(draw: st.DrawFn) -> Rig:
    """Slow and fast memory beside slow and fast compute, with all weights used or some."""
    weights = draw(st.integers(1, 10**10))
    shares = Attained(draw(st.floats(0.1, 1)), draw(st.floats(0.1, 1)), 0.001)
    touched = max(1, weights // draw(st.integers(1, 50)))
    return Rig(1, draw(st.integers(10**8, 10**13)), draw(st.integers(10**9, 10**15)), weights, touched, shares)


def clock_of(model: Model, rig: Rig, batch: int) -> Clock:
    request = ask(model, context=100, batch=batch)
    return Clock(rig, count(model, encoder_tokens=request.encoder_tokens), cache_reads(request, Layout()), batch)


@given(MODELS, rigs(), SHORT, SHORT, st.integers(1, 4))
def test_passes_add_up(model: Model, rig: Rig, prompt: int, output: int, batch: int) -> None:
    """Without a cache the whole takes what its passes take one by one, on whichever side of the ridge each lies."""
    clock = clock_of(model, rig, batch)
    passes = sum(clock.anew(t) for t in range(prompt, prompt + output))
    assert clock.generation_anew(prompt, output) == pytest.approx(passes)


@given(MODELS, rigs(), SHORT, SHORT, st.integers(1, 4))
def test_steps_add_up(model: Model, rig: Rig, prompt: int, output: int, batch: int) -> None:
    """With a cache the whole takes what prompt and steps take, or less where attention changes sides on the way."""
    clock = clock_of(model, rig, batch)
    steps = clock.anew(prompt) + sum(clock.step(t) for t in range(prompt + 1, prompt + output))
    whole = clock.generation(prompt, output)
    assert whole <= steps * (1 + 1e-9)
    assert whole >= steps / 2


@given(MODELS, rigs(), SHORT)
def test_time_grows_with_the_text(model: Model, rig: Rig, t: int) -> None:
    """A pass over more tokens never takes less."""
    clock = clock_of(model, rig, 1)
    assert clock.anew(t) <= clock.anew(t + 1)
