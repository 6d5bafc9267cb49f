"""What holds for every cache, whatever its numbers."""

from dataclasses import replace
from fractions import Fraction
from typing import Literal, get_args

from hypothesis import assume, given
from hypothesis import strategies as st

from kvcalc.core import formula
from kvcalc.core.dtypes import DType
from kvcalc.core.formula import Rate, Widths
from kvcalc.core.model import Attention, Compressed, Latent, Model, Recurrent, Stored
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure

from .conftest import TOKENS

MODELS = st.from_type(Model)
WIDTHS = st.from_type(Widths)
STORED: st.SearchStrategy[Stored] = st.one_of(*map(st.from_type, get_args(Stored)))
RATES = st.lists(st.builds(Rate, st.integers(0, 10**6), st.integers(1, 200)), max_size=6)


def windows(pattern: Literal["sliding", "chunked"]) -> st.SearchStrategy[Attention]:
    return (
        st.from_type(Attention).filter(lambda cache: cache.span is not None).map(lambda c: c._replace(pattern=pattern))
    )


WINDOWS = windows("sliding") | windows("chunked")


@given(MODELS, st.integers(1, 1_000), TOKENS)
def test_doubling_the_batch_doubles_the_bytes(model: Model, batch: int, tokens: int) -> None:
    """Sequences share nothing."""
    once, twice = (measure(ask(model, context=tokens, batch=n)).bytes_total for n in (batch, 2 * batch))
    assert twice == 2 * once


@given(MODELS, TOKENS, st.integers(0, 20_000))
def test_bytes_never_fall_as_the_context_grows(model: Model, tokens: int, more: int) -> None:
    """More tokens never take less."""
    before, after = (measure(ask(model, context=n)).bytes_per_sequence for n in (tokens, tokens + more))
    assert after >= before


@given(STORED, WIDTHS, st.from_type(DType), TOKENS)
def test_bytes_never_fall_as_formats_widen(cache: Stored, widths: Widths, wider: DType, tokens: int) -> None:
    """A format of more bits an element never takes less."""
    assume(wider.block_bytes * widths.k.block >= widths.k.block_bytes * wider.block)
    before, after = (formula.size(cache, tokens, w, None) for w in (widths, widths._replace(k=wider)))
    assert after >= before


@given(st.from_type(Attention), WIDTHS, TOKENS, st.integers(1, 8))
def test_bytes_grow_with_heads_and_widths(cache: Attention, widths: Widths, tokens: int, more: int) -> None:
    """Another head, and wider keys or values, take more."""
    grown = (
        cache._replace(kv_heads=cache.kv_heads + more),
        cache._replace(k_dim=cache.k_dim + 32 * more),
        cache._replace(v_dim=cache.v_dim + 32 * more),
    )
    before = formula.size(cache, tokens, widths, None)
    assert [formula.size(c, tokens, widths, None) > before for c in grown] == [True, True, True]


@given(STORED, WIDTHS, TOKENS)
def test_a_cache_grows_until_it_keeps_what_it_keeps(cache: Stored, widths: Widths, tokens: int) -> None:
    """`kept` says after how many tokens a cache grows no more, and up to there it does; an entry may need 128."""
    most = formula.kept(cache)
    if most is None or tokens + 128 <= most:
        assert formula.size(cache, tokens + 128, widths, None) > formula.size(cache, tokens, widths, None)
    else:
        assert formula.size(cache, most + tokens, widths, None) == formula.size(cache, most, widths, None)


@given(WINDOWS, WIDTHS, st.integers(0, 10**9))
def test_windows_are_flat_past_themselves(cache: Attention, widths: Widths, past: int) -> None:
    """A window or chunk holds no more than its own length."""
    assert cache.span is not None
    full, later = (formula.size(cache, tokens, widths, None) for tokens in (cache.span, cache.span + past))
    assert later == full


@given(WINDOWS, WIDTHS, st.data())
def test_windows_equal_full_attention_below_themselves(cache: Attention, widths: Widths, data: st.DataObject) -> None:
    """Up to its length a window or chunk holds what full attention holds."""
    assert cache.span is not None
    tokens = data.draw(st.integers(1, cache.span))
    full = cache._replace(pattern="full", span=None)
    assert formula.size(cache, tokens, widths, None) == formula.size(full, tokens, widths, None)


@given(st.from_type(Latent), WIDTHS, TOKENS, st.integers(1, 256))
def test_query_heads_do_not_change_a_latent(cache: Latent, widths: Widths, tokens: int, heads: int) -> None:
    """One vector serves all heads."""
    other = cache._replace(heads=heads, k_dim=heads, v_dim=heads)
    assert formula.size(other, tokens, widths, None) == formula.size(cache, tokens, widths, None)


@given(st.from_type(Attention), WIDTHS, TOKENS, st.integers(1, 256))
def test_query_heads_do_not_change_attention(cache: Attention, widths: Widths, tokens: int, heads: int) -> None:
    """Only the KV heads are cached."""
    other = cache._replace(heads=heads)
    assert formula.size(other, tokens, widths, None) == formula.size(cache, tokens, widths, None)


@given(st.from_type(Recurrent), WIDTHS, TOKENS)
def test_states_do_not_grow(cache: Recurrent, widths: Widths, tokens: int) -> None:
    """A recurrent state has one size."""
    assert formula.size(cache, tokens, widths, None) == formula.size(cache, 1, widths, None)


@given(STORED, WIDTHS, st.integers(5_000, 10**6))
def test_slope_and_fixed_part_make_the_size(cache: Stored, widths: Widths, tokens: int) -> None:
    """Past every window, slope x context + fixed part is the size; a compressed cache lacks less than one entry."""
    rate = formula.slope(cache, tokens, widths)
    line = Fraction(rate.bytes * tokens, rate.tokens) + formula.fixed(cache, tokens, widths, None)
    missing = line - formula.size(cache, tokens, widths, None)
    if isinstance(cache, Compressed):
        assert missing == Fraction(rate.bytes * (tokens % cache.ratio), cache.ratio)
    else:
        assert missing == 0


@given(MODELS, st.integers(5_000, 10**6))
def test_slope_and_fixed_part_make_the_model(model: Model, tokens: int) -> None:
    """A model's slope and fixed part are those of its layers together, exactly."""
    size = measure(ask(model, context=tokens))
    line = Fraction(size.slope.bytes * tokens, size.slope.tokens) + size.fixed_bytes_per_sequence
    missing = sum(
        Fraction(group.slope.bytes * (tokens % group.slope.tokens), group.slope.tokens) for group in size.groups
    )
    assert line - missing == size.bytes_per_sequence


@given(MODELS, TOKENS)
def test_groups_add_up(model: Model, tokens: int) -> None:
    """The groups of equal caches are the model: every layer's caches, and all bytes."""
    size = measure(ask(model, context=tokens))
    assert sum(group.copies for group in size.groups) == sum(len(layer) for layer in model.layers)
    assert size.bytes_per_sequence == sum(
        formula.size(cache, tokens, size.request.widths, size.request.encoder_tokens) for cache in model.caches()
    )


@given(MODELS, TOKENS)
def test_layer_order_does_not_matter(model: Model, tokens: int) -> None:
    """The exact size does not depend on the order of the layers."""
    turned = replace(model, layers=model.layers[::-1])
    assert measure(ask(turned, context=tokens))[4:9] == measure(ask(model, context=tokens))[4:9]


@given(RATES)
def test_total_rate_is_exact(rates: list[Rate]) -> None:
    """Rates over different numbers of tokens add up as fractions do."""
    total = formula.total_rate(rates)
    assert Fraction(total.bytes, total.tokens) == sum(Fraction(rate.bytes, rate.tokens) for rate in rates)


@given(RATES)
def test_rates_are_rounded_up_once(rates: list[Rate]) -> None:
    """Bytes a token are the next whole number above the exact rate."""
    total = formula.total_rate(rates)
    assert 0 <= total.per_token - Fraction(total.bytes, total.tokens) < 1
