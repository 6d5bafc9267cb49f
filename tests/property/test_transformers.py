"""What holds for transformers whatever the model: bytes never fall, differences add up, a static cache is the most."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core.model import Layer, Model, Recurrent, Shared
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.question import Question
from kvcalc.engines.transformers.engine import ENGINE
from kvcalc.errors import KvcalcError

from .conftest import EDGES, attentions, indexers, latents, models, recurrents

TOKENS = st.integers(1, 9_000) | EDGES
MORE = st.integers(0, 9_000)
VERSIONS = st.sampled_from(ENGINE.versions)
SEQUENCES = st.integers(1, 5)


def states() -> st.SearchStrategy[Recurrent]:
    return recurrents().filter(lambda cache: cache.kind != "rwkv")


def layers() -> st.SearchStrategy[Layer]:
    """Layers of one cache or two. A window of one token is a slice of everything, and no window."""
    windows = attentions().filter(lambda cache: cache.span != 1 and cache.v_dim > 0)
    each = windows | latents() | indexers() | states()
    return st.lists(each | st.builds(Shared, each), max_size=2).map(tuple)


def attending() -> st.SearchStrategy[Layer]:
    full = attentions(("full",)).filter(lambda cache: cache.v_dim > 0)
    return st.lists(full | latents(), min_size=1, max_size=2).map(tuple)


MODELS = models(layers)


def ask_it(
    model: Model, tokens: int, version: object = ENGINE.versions[-1], batch: int = 1, **settings: object
) -> Reservation:
    request = ask(model, context=tokens, batch=batch)
    return reserve(ENGINE, Question(request, measure(request).placement, version, settings))  # type: ignore[arg-type]


@given(MODELS, TOKENS, MORE, VERSIONS, st.integers(0, 300))
def test_more_context_never_allocates_less(model: Model, tokens: int, more: int, version: object, decoded: int) -> None:
    """Neither tensors nor what must fit, for as many tokens that come one by one."""
    settings = {"max_new_tokens": min(decoded, tokens - 1)}
    before, after = (ask_it(model, n, version, **settings) for n in (tokens, tokens + more))
    assert after.reserved_total >= before.reserved_total
    assert after.allocation.needed >= before.allocation.needed


@given(MODELS, TOKENS, VERSIONS, SEQUENCES, st.integers(1, 4))
def test_differences_add_up(model: Model, tokens: int, version: object, batch: int, beams: int) -> None:
    """The reserved size is the exact one and all differences, and the parts of the layers are it too."""
    found = ask_it(model, tokens, version, batch, num_beams=beams)
    assert found.exact_total == measure(found.question.request).bytes_total
    assert found.reserved_total == found.exact_total + sum(difference.bytes for difference in found.differences)
    assert found.reserved_total == sum(amount for charge in found.allocation.charges for _, amount in charge.parts)


@given(MODELS, TOKENS, MORE, SEQUENCES)
def test_a_static_cache_is_never_less(model: Model, tokens: int, more: int, batch: int) -> None:
    """It has room for as many tokens from the start, and its windows are whole."""
    dynamic = ask_it(model, tokens, batch=batch)
    static = ask_it(model, tokens, batch=batch, cache_implementation="static", max_cache_len=tokens + more)
    assert static.reserved_total >= dynamic.reserved_total


@given(MODELS, TOKENS, SEQUENCES)
def test_live_storage_is_never_less_than_the_tensors(model: Model, tokens: int, batch: int) -> None:
    """A view keeps at least what it shows."""
    found = ask_it(model, tokens, batch=batch)
    assert found.allocation.values["held_bytes_total"] >= found.reserved_total  # type: ignore[operator]


@given(MODELS, TOKENS, SEQUENCES, st.integers(1, 5))
def test_sequences_add_up(model: Model, tokens: int, batch: int, dp: int) -> None:
    """Each has its own cache, on one replica or on several."""
    one = ask_it(model, tokens)
    request = ask(model, context=tokens, batch=batch, dp=dp)
    many = reserve(ENGINE, Question(request, measure(request).placement, ENGINE.versions[-1], {}))
    assert many.reserved_total == batch * one.reserved_total
    assert many.allocation.values["held_bytes_total"] == batch * one.allocation.values["held_bytes_total"]  # type: ignore[operator]


@given(models(attending), TOKENS, MORE, st.integers(0, 300), st.sampled_from([0, 1, 100, 128]))
def test_quantised_caches_never_fall_either(model: Model, tokens: int, more: int, decoded: int, residual: int) -> None:
    """With as many tokens that come one by one; and four bits with their scales are less than sixteen bits."""
    settings = {"cache_implementation": "quantized", "q_group_size": 32, "residual_length": residual}
    settings["max_new_tokens"] = min(decoded, tokens - 1)
    model = replace(
        model, layers=tuple(layer for layer in model.layers if all(not isinstance(c, Shared) for c in layer))
    )
    before, after = (ask_it(model, n, **settings) for n in (tokens, tokens + more))
    assert after.reserved_total >= before.reserved_total
    assert before.reserved_total <= ask_it(model, tokens).reserved_total


@given(st.from_type(Model), TOKENS)
def test_every_model_is_answered_or_refused(model: Model, tokens: int) -> None:
    """Whatever the kinds of caches: no other error, and a refusal only for RWKV after the fourth."""
    if any(isinstance(c, Recurrent) and c.kind == "rwkv" for c in model.distinct_caches):
        with pytest.raises(KvcalcError, match="RWKV"):
            ask_it(model, tokens)
    else:
        assert ask_it(model, tokens).reserved_total > 0
