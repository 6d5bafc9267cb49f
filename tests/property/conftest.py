"""Strategies for caches, models and formats, registered by type: `st.from_type(Model)` draws a model.

Widths are multiples of 32, so that every format's blocks are filled.
"""

from collections.abc import Callable
from typing import get_args

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from kvcalc.core.dtypes import FP32, KV, DType
from kvcalc.core.formula import Widths
from kvcalc.core.model import (
    Attention,
    Compressed,
    Indexer,
    Latent,
    Layer,
    Model,
    Pattern,
    Recurrent,
    RecurrentKind,
    Shared,
    Stored,
)

# Without the phase that explains a failure, which takes a minute for a model.
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)

settings.register_profile("kvcalc", deadline=None, max_examples=100, derandomize=True, database=None, phases=PHASES)
settings.load_profile("kvcalc")

FEW = st.integers(1, 8)
DIM = st.integers(1, 16).map(lambda n: 32 * n)
SPAN = st.integers(1, 5_000)
FORMAT = st.sampled_from(list(KV.values()))
COMPUTE = st.sampled_from([FP32, KV["fp16"], KV["bf16"]])


@st.composite
def attentions(draw: DrawFn, patterns: tuple[Pattern, ...] = get_args(Pattern)) -> Attention:
    pattern = draw(st.sampled_from(patterns))
    kv_heads = draw(FEW)
    return Attention(
        pattern,
        heads=kv_heads * draw(FEW),
        kv_heads=kv_heads,
        k_dim=draw(DIM),
        v_dim=draw(DIM | st.just(0)),
        span=None if pattern == "full" else draw(SPAN),
    )


@st.composite
def recurrents(draw: DrawFn) -> Recurrent:
    """A state of any kind. Numbers that one kind uses together differ; drawing each of ten apart would be slow."""
    a, b, c, d = draw(st.tuples(*[st.integers(1, 64)] * 4))
    return Recurrent(
        draw(st.sampled_from(get_args(RecurrentKind))),
        conv=draw(st.integers(1, 5)),
        heads=a,
        head_dim=b,
        groups=c,
        state=d,
        inner=a,
        width=b,
        k_heads=a,
        k_dim=b,
        v_heads=c,
        v_dim=d,
    )


def latents() -> SearchStrategy[Latent]:
    return st.builds(Latent, rank=DIM, rope=DIM, heads=FEW, k_dim=DIM, v_dim=DIM)


def indexers() -> SearchStrategy[Indexer]:
    return st.builds(Indexer, dim=DIM, store=st.sampled_from([None, "fp8+scale"]))


def compressed() -> SearchStrategy[Compressed]:
    return st.builds(
        Compressed, ratio=st.integers(1, 128), dim=DIM, rope=st.just(0), heads=FEW, indexer=DIM | st.just(0)
    )


def stored() -> SearchStrategy[Stored]:
    return attentions() | latents() | indexers() | compressed() | recurrents()


@st.composite
def widths(draw: DrawFn) -> Widths:
    return Widths(draw(FORMAT), draw(FORMAT), draw(COMPUTE), draw(COMPUTE))


@st.composite
def models(draw: DrawFn, layer: Callable[[], SearchStrategy[Layer]]) -> Model:
    """A model of up to six layers, one of which is sure to grow; with or without a limit."""
    layers = draw(st.lists(layer(), max_size=5))
    layers.insert(draw(st.integers(0, len(layers))), (draw(attentions(("full",))),))
    return Model(
        name="M",
        layers=tuple(layers),
        dtype=draw(COMPUTE),
        parameters=draw(st.integers(1, 10**9)),
        max_context=draw(st.none() | st.integers(1, 100_000)),
        encoder_tokens=draw(SPAN),
    )


def layers() -> SearchStrategy[Layer]:
    return st.lists(stored() | st.builds(Shared, stored()), max_size=2).map(tuple)


st.register_type_strategy(DType, FORMAT)
st.register_type_strategy(Attention, attentions())
st.register_type_strategy(Recurrent, recurrents())
st.register_type_strategy(Latent, latents())
st.register_type_strategy(Indexer, indexers())
st.register_type_strategy(Compressed, compressed())
st.register_type_strategy(Widths, widths())
st.register_type_strategy(Model, models(layers))
