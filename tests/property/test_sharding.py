"""What ranks, stages and replicas hold together."""

from collections import Counter
from typing import Literal, TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core import formula, sharding
from kvcalc.core.dtypes import KV
from kvcalc.core.formula import Widths
from kvcalc.core.model import Attention, Indexer, Latent, Layer, Model
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import Size, measure

from .conftest import TOKENS

MODELS = st.from_type(Model)
WIDTHS = st.from_type(Widths)
Whole: TypeAlias = Latent | Indexer


def per_head(pattern: Literal["full", "sliding"]) -> st.SearchStrategy[tuple[Attention, int]]:
    """A cache of K and V, and a tp that divides its query heads and divides its KV heads or is a multiple of them."""

    def build(cache: Attention, kv_heads: int, tp: int) -> tuple[Attention, int]:
        span = None if pattern == "full" else cache.span or 7
        return cache._replace(pattern=pattern, heads=kv_heads * tp, kv_heads=kv_heads, span=span), tp

    sizes = st.sampled_from([1, 2, 4, 8, 16])
    return st.builds(build, st.from_type(Attention), sizes, sizes)


def alone(*layer: Attention | Latent | Indexer) -> Model:
    """A model of one layer."""
    layers: tuple[Layer, ...] = (layer,)
    return Model(name="M", layers=layers, dtype=KV["bf16"])


@given(per_head("full"), TOKENS)
def test_ranks_hold_at_least_the_whole(drawn: tuple[Attention, int], tokens: int) -> None:
    """The ranks of tp together hold the whole cache, exactly where the heads divide and more where they are copied."""
    cache, tp = drawn
    size = measure(ask(alone(cache), context=tokens, tp=tp))
    copies = max(1, tp // cache.kv_heads)
    assert size.bytes_per_gpu * tp == size.bytes_total * copies


@given(per_head("full"), TOKENS, st.data())
def test_context_ranks_hold_at_least_the_whole(drawn: tuple[Attention, int], tokens: int, data: st.DataObject) -> None:
    """With dcp too, exactly where the heads divide over tp / dcp ranks and the tokens over dcp."""
    cache, tp = drawn
    dcp = data.draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if tp % n == 0]))
    size = measure(ask(alone(cache), context=tokens, tp=tp, dcp=dcp))
    together = size.bytes_per_gpu * tp
    assert together >= size.bytes_total
    divides = cache.kv_heads % (tp // dcp) == 0 and tokens % dcp == 0
    assert (together == size.bytes_total) == divides


@given(per_head("sliding"), TOKENS, st.data())
def test_windows_are_not_split_over_the_context(drawn: tuple[Attention, int], tokens: int, data: st.DataObject) -> None:
    """dcp changes nothing for a window."""
    cache, tp = drawn
    dcp = data.draw(st.sampled_from([n for n in (1, 2, 4, 8, 16) if tp % n == 0]))
    sizes = [measure(ask(alone(cache), context=tokens, tp=tp, dcp=n)).bytes_per_gpu for n in (1, dcp)]
    assert sizes[0] == sizes[1]


@given(st.from_type(Latent) | st.from_type(Indexer), WIDTHS, TOKENS, st.integers(1, 64))
def test_latents_and_index_keys_are_whole_on_each_rank(cache: Whole, widths: Widths, tokens: int, tp: int) -> None:
    """One vector serves all heads, so that each rank needs all of it."""
    served = cache._replace(heads=tp * cache.heads) if isinstance(cache, Latent) else cache
    local = sharding.shard(served, Layout(tp=tp))
    assert formula.size(local, tokens, widths, None) == formula.size(served, tokens, widths, None)


@given(st.from_type(Latent), TOKENS, st.sampled_from([1, 2, 4, 8]))
def test_context_ranks_share_the_tokens_of_a_latent(cache: Latent, tokens: int, dcp: int) -> None:
    """The fullest of dcp ranks holds its share of the tokens, rounded up."""
    model = alone(cache._replace(heads=8 * cache.heads))
    whole = measure(ask(model, context=-(-tokens // dcp), tp=8)).bytes_per_gpu
    assert measure(ask(model, context=tokens, tp=8, dcp=dcp)).bytes_per_gpu == whole


@given(st.integers(1, 500), st.data())
def test_stages_partition_the_layers(count: int, data: st.DataObject) -> None:
    """Stage i holds the layers from floor(i L / pp) up to floor((i + 1) L / pp), and so every layer has one stage."""
    stages = data.draw(st.integers(1, count))
    expected = [i for i in range(stages) for _ in range(i * count // stages, (i + 1) * count // stages)]
    assert [sharding.stage_of(layer, count, stages) for layer in range(count)] == expected
    assert set(expected) == set(range(stages))


def stage_sizes(size: Size) -> Counter[int]:
    """Bytes of one sequence on each stage, from the placement."""
    sizes: Counter[int] = Counter()
    request = size.request
    for placed in size.placement.layers:
        for cache in placed.caches:
            sizes[placed.stage] += formula.size(cache, request.context, request.widths, request.encoder_tokens)
    return sizes


@given(MODELS, TOKENS, st.data())
def test_stages_hold_exactly_the_whole(model: Model, tokens: int, data: st.DataObject) -> None:
    """The stages of pp together hold the cache once, and the fullest is what one GPU needs."""
    size = measure(ask(model, context=tokens, pp=data.draw(st.integers(1, len(model.layers)))))
    stages = stage_sizes(size)
    assert (sum(stages.values()), max(stages.values())) == (size.bytes_total, size.bytes_per_gpu)


@given(MODELS, st.integers(1, 500), st.integers(1, 64), TOKENS)
def test_replicas_share_the_sequences(model: Model, batch: int, dp: int, tokens: int) -> None:
    """The fullest of dp replicas holds ceil(batch / dp) sequences."""
    one = measure(ask(model, context=tokens))
    size = measure(ask(model, context=tokens, batch=batch, dp=dp))
    assert size.bytes_per_gpu == -(-batch // dp) * one.bytes_total
    assert size.bytes_total == batch * one.bytes_total
