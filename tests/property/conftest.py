"""Strategies for caches, models and formats, registered by type: `st.from_type(Model)` draws a model.

Widths are multiples of 32, so that every format's blocks are filled. Lengths come close to windows and to blocks: what
goes wrong by one goes wrong there. Each strategy is made once, since making one takes longer than drawing from it.
"""

from collections.abc import Callable
from functools import cache
from typing import get_args

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

FEW = st.integers(1, 8)
DIM = st.integers(1, 16).map(lambda n: 32 * n)
BLOCKS = (16, 32, 64, 256)  # tokens, of vLLM and others, TensorRT-LLM, DSA, llama.cpp and MLX-LM
WINDOWS = (1, 128, 512, 1_024, 4_096)
SPAN = st.integers(1, 5_000) | st.sampled_from(WINDOWS)


def around(*lengths: int) -> set[int]:
    """Each length, one token less and one more."""
    return {length + by for length in lengths for by in (-1, 0, 1) if length + by > 0}


# The edges of usual windows, of a block, and of many.
EDGES = st.sampled_from(sorted(around(*WINDOWS, *(n * block for block in BLOCKS for n in (1, 2, 37)))))
TOKENS = st.integers(1, 20_000) | EDGES


def edges(model: Model) -> st.SearchStrategy[int]:
    """The lengths at which a model's own windows and chunks are just not full, full, and past that."""
    spans = {c.span for c in model.distinct_caches if isinstance(c, Attention) and c.span is not None}
    spans |= {c.ratio for c in model.distinct_caches if isinstance(c, Compressed)}
    return st.sampled_from(sorted(around(*spans))) if spans else st.nothing()


@st.composite
def sized(draw: DrawFn, of: SearchStrategy[Model]) -> tuple[Model, int]:
    """A model and a length, every second time at the edge of one of its windows, if it has any."""
    model = draw(of)
    return model, draw(TOKENS | edges(model))


FORMAT = st.sampled_from(list(KV.values()))
LIMIT = st.none() | st.integers(1, 100_000)
NUMBERS, KIND, CONV = st.tuples(*[st.integers(1, 64)] * 4), st.sampled_from(get_args(RecurrentKind)), st.integers(1, 5)
MAYBE = DIM | st.just(0)
COMPUTE = st.sampled_from([FP32, KV["fp16"], KV["bf16"]])


@cache
def one_of(names: tuple[str, ...]) -> SearchStrategy[str]:
    return st.sampled_from(names)


@cache
@st.composite
def attentions(draw: DrawFn, patterns: tuple[Pattern, ...] = get_args(Pattern)) -> Attention:
    pattern = draw(one_of(patterns))
    kv_heads = draw(FEW)
    return Attention(
        pattern,
        heads=kv_heads * draw(FEW),
        kv_heads=kv_heads,
        k_dim=draw(DIM),
        v_dim=draw(MAYBE),
        span=None if pattern == "full" else draw(SPAN),
    )


@cache
@st.composite
def recurrents(draw: DrawFn) -> Recurrent:
    """A state of any kind. Numbers that one kind uses together differ; drawing each of ten apart would be slow."""
    a, b, c, d = draw(NUMBERS)
    return Recurrent(
        draw(KIND),
        conv=draw(CONV),
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


@cache
def latents() -> SearchStrategy[Latent]:
    return st.builds(Latent, rank=DIM, rope=DIM, heads=FEW, k_dim=DIM, v_dim=DIM)


@cache
def indexers() -> SearchStrategy[Indexer]:
    return st.builds(Indexer, dim=DIM, store=st.sampled_from([None, "fp8+scale"]))


@cache
def compressed() -> SearchStrategy[Compressed]:
    return st.builds(Compressed, ratio=st.integers(1, 128), dim=DIM, rope=st.just(0), heads=FEW, indexer=MAYBE)


@cache
def stored() -> SearchStrategy[Stored]:
    return attentions() | latents() | indexers() | compressed() | recurrents()


@cache
@st.composite
def widths(draw: DrawFn) -> Widths:
    return Widths(draw(FORMAT), draw(FORMAT), draw(COMPUTE), draw(COMPUTE))


@cache
def few(layer: Callable[[], SearchStrategy[Layer]]) -> SearchStrategy[list[Layer]]:
    return st.lists(layer(), max_size=5)


@st.composite
def models(draw: DrawFn, layer: Callable[[], SearchStrategy[Layer]]) -> Model:
    """A model of up to six layers, one of which is sure to grow; with or without a limit."""
    layers = draw(few(layer))
    layers.insert(draw(st.integers(0, len(layers))), (draw(attentions(("full",))),))
    return Model(
        name="M",
        layers=tuple(layers),
        dtype=draw(COMPUTE),
        parameters=draw(st.integers(1, 10**9)),
        max_context=draw(LIMIT),
        encoder_tokens=draw(SPAN),
    )


@cache
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
