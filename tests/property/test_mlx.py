"""MLX-LM for any model: what must hold whatever the numbers."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.dtypes import KV
from kvcalc.core.model import Attention, Layer, Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.mlx.engine import ENGINE
from kvcalc.engines.question import Question

from .conftest import TOKENS, attentions, latents, models, recurrents

# A type whose layers may have any of these caches; its windows are kept.
KINDS = ("mamba1", "mamba2", "deltanet", "kda", "shortconv", "rglru")


def layers() -> st.SearchStrategy[Layer]:
    states = recurrents().map(lambda state: state._replace(kind=KINDS[state.heads % len(KINDS)]))
    return st.lists(attentions(("full", "sliding", "chunked")) | latents() | states, max_size=2).map(tuple)


@st.composite
def mlx_models(draw: st.DrawFn) -> Model:
    return replace(draw(models(layers)), model_type="kimi_linear", encoder_tokens=None)


def reservation(model: Model, tokens: int, batch: int = 1, **settings: Any) -> Reservation:
    request = ask(model, context=tokens, batch=batch)
    return reserve(ENGINE, Question(request, measure(request).placement, ENGINE.versions[-1], settings))


FULL = Attention("full", heads=8, kv_heads=2, k_dim=64, v_dim=64)
SLIDING = FULL._replace(pattern="sliding", span=1024)
MODELS, CHUNKS = mlx_models(), st.integers(1, 3_000)


@given(MODELS, TOKENS, st.integers(0, 600))
def test_a_longer_context_never_takes_less(model: Model, tokens: int, more: int) -> None:
    """With the settings that are the default. Others of MLX-LM's own do not hold this: quantised from a number of
    tokens on, a cache shrinks there; chunks that are no multiple of 256 leave other remainders of blocks.
    """
    less, longer = reservation(model, tokens).allocation, reservation(model, tokens + more).allocation
    assert less.needed <= longer.needed
    assert sum(c.bytes for c in less.charges) <= sum(c.bytes for c in longer.charges)


@given(MODELS, TOKENS, CHUNKS, st.integers(1, 400))
def test_differences_and_parts_add_up(model: Model, tokens: int, chunk: int, generated: int) -> None:
    """Exact size and differences are the reserved size, and so are keys, values and states; the peak is no less."""
    found = reservation(model, tokens, prefill_step_size=chunk, max_tokens=generated)
    assert found.reserved_total == found.exact_total + sum(d.bytes for d in found.differences)
    for charge in found.allocation.charges:
        assert charge.bytes == sum(size for _, size in charge.parts)
    assert found.allocation.needed >= found.reserved_total


@given(MODELS, TOKENS, CHUNKS)
def test_everything_that_is_attended_to_is_there(model: Model, tokens: int, chunk: int) -> None:
    """No cache of keys and values is smaller than the model needs; a state may be, in its own dtype."""
    for charge in reservation(model, tokens, prefill_step_size=chunk).allocation.charges:
        assert charge.bytes >= charge.exact or any(name == "state_bytes" for name, _ in charge.parts)


@given(st.integers(1, 4), TOKENS, CHUNKS)
def test_sequences_of_one_length_take_the_same(batch: int, tokens: int, chunk: int) -> None:
    """As long as they start together."""
    model = Model(name="M", layers=((FULL,), (SLIDING,)), dtype=KV["bf16"], model_type="gemma3_text")
    one = reservation(model, tokens, prefill_step_size=chunk).reserved_total
    assert reservation(model, tokens, batch, prefill_step_size=chunk).reserved_total == batch * one
