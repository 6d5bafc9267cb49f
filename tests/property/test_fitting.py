"""The answer fits, and one more does not."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.fitting import Fit, fit
from kvcalc.core.memory import Budget
from kvcalc.core.model import Attention, Model
from kvcalc.core.overheads import as_stated
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.core.units import Fraction

from .conftest import TOKENS

MODELS = st.from_type(Model)
BATCHES = st.integers(1, 50)
MEMORY = st.integers(1, 10**12) | st.integers(1, 10**7)
REPLICAS = st.integers(1, 8)
SHARES = st.integers(1, 1_000).map(lambda n: Fraction(n, 1_000))


def answer(model: Model, memory: int, **question: Any) -> Fit:
    return fit(measure(ask(model, **question)), Budget(kv_memory=memory))


@given(MODELS, TOKENS, MEMORY, REPLICAS)
def test_the_largest_batch_fits_and_one_more_does_not(model: Model, tokens: int, memory: int, dp: int) -> None:
    """max_batch is the edge of what fits, over all replicas."""
    most = answer(model, memory, context=tokens, dp=dp).max_batch
    assert most is not None
    assert most == 0 or answer(model, memory, context=tokens, batch=most, dp=dp).fits
    assert not answer(model, memory, context=tokens, batch=most + 1, dp=dp).fits


@given(MODELS, BATCHES, MEMORY, REPLICAS)
def test_the_longest_context_fits_and_one_more_does_not(model: Model, batch: int, memory: int, dp: int) -> None:
    """max_context is the edge of what fits, and never above the model's limit."""
    found = answer(model, memory, batch=batch, dp=dp)
    most = found.max_context
    assert most is not None
    assert model.max_context is None or most <= model.max_context
    assert most == 0 or answer(model, memory, batch=batch, dp=dp, context=most).fits
    longer_fits = answer(model, memory, batch=batch, dp=dp, context=most + 1).fits
    assert longer_fits == (found.context_binding == "model")
    assert not longer_fits or most == model.max_context


@given(MODELS, BATCHES, MEMORY, REPLICAS)
def test_the_largest_batch_at_the_longest_context(model: Model, batch: int, spare: int, dp: int) -> None:
    """As many sequences as the longest context was asked for fit at that context."""
    memory = spare + measure(ask(model, context=1, batch=batch, dp=dp)).bytes_per_gpu
    longest = answer(model, memory, batch=batch, dp=dp).max_context
    assert longest is not None
    found = answer(model, memory, context=longest, dp=dp).max_batch
    assert found is not None
    assert found >= batch


@given(MODELS, TOKENS, MEMORY, REPLICAS)
def test_the_longest_context_at_the_largest_batch(model: Model, tokens: int, spare: int, dp: int) -> None:
    """At the largest batch that context fits for which it was asked, or the model's limit if smaller."""
    memory = spare + measure(ask(model, context=tokens)).bytes_per_gpu
    most = answer(model, memory, context=tokens, dp=dp).max_batch
    assert most is not None
    found = answer(model, memory, batch=most, dp=dp).max_context
    assert found is not None
    assert found >= min(tokens, model.max_context or tokens)


@given(MODELS, TOKENS, BATCHES, MEMORY, st.integers(0, 10**12))
def test_more_memory_never_lowers_an_answer(model: Model, tokens: int, batch: int, memory: int, more: int) -> None:
    """Batch, context and capacity never fall as the budget grows, and what fitted still fits."""
    small, large = (answer(model, m, context=tokens, batch=batch) for m in (memory, memory + more))
    for before, after in zip(
        (small.max_batch, small.max_context, small.capacity_tokens, small.fits),
        (large.max_batch, large.max_context, large.capacity_tokens, large.fits),
        strict=True,
    ):
        assert before is not None
        assert after is not None
        assert after >= before


@given(MODELS, TOKENS, BATCHES, MEMORY)
def test_fits_agrees_with_the_answers(model: Model, tokens: int, batch: int, memory: int) -> None:
    """What was asked fits exactly where the largest batch is at least as large."""
    found = answer(model, memory, context=tokens, batch=batch)
    assert found.max_batch is not None
    assert found.fits == (found.max_batch >= batch)


@given(MODELS, st.integers(1, 10**15), SHARES, st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 12))
def test_room_adds_up(model: Model, vram: int, share: Fraction, weights: int, overhead: int, pp: int) -> None:
    """What is idle, the weights, the overhead and what is left for the cache are the memory, to the byte."""
    size = measure(ask(model, context=10, pp=min(pp, len(model.layers))))
    memory = fit(
        size, Budget(vram, utilization=share, weights=weights, overheads=(as_stated("overhead", overhead),))
    ).memory
    assert memory.outside is not None
    assert memory.weights is not None
    assert memory.overhead == overhead
    assert memory.outside + memory.weights + overhead + memory.kv_budget == vram
    assert 0 <= memory.weights * size.request.layout.pp - weights < size.request.layout.pp
    assert (vram - memory.outside) * share.of <= vram * share.part < (vram - memory.outside + 1) * share.of


@given(MODELS, st.integers(1, 10**15), st.integers(1, 10**12), st.integers(0, 10**12))
def test_gpus_for_weights_is_the_least_number(model: Model, vram: int, weights: int, overhead: int) -> None:
    """That many GPUs hold the weights beside the overhead, and one less does not."""
    memory = fit(
        measure(ask(model, context=10)), Budget(vram, weights=weights, overheads=(as_stated("overhead", overhead),))
    ).memory
    free, gpus = vram - overhead, memory.gpus_for_weights
    if free <= 0:
        assert gpus is None
    else:
        assert gpus is not None
        assert gpus * free >= weights > (gpus - 1) * free


@given(MODELS, MEMORY)
def test_nothing_limits_what_does_not_grow(model: Model, memory: int) -> None:
    """A model that keeps only windows, and no limit, has no longest context where its windows fit."""
    windows = tuple(
        tuple(cache._replace(pattern="sliding", span=9) for cache in layer if isinstance(cache, Attention))
        for layer in model.layers
    )
    flat = replace(model, layers=windows, max_context=None)
    found = answer(flat, memory, context=9)
    assert (found.max_context is None) == found.fits
