"""What the weights of a model consist of: the parameters of each layer by the role of their matrices.

Counted from the caches, which have the heads, and the published widths beside them. Biases are left out, and so is what
has no rule here. A stated number of parameters is mostly rounded: what counts to it is right, and a difference that
rounding does not explain stands as `rest`, in every layer alike.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, assert_never

from kvcalc.core.model import (
    Attention,
    Cache,
    Compressed,
    Dimensions,
    FeedForward,
    Indexer,
    Latent,
    Layer,
    Model,
    Recurrent,
    Shared,
)
from kvcalc.core.units import ceil_div

__all__ = ["Composition", "Part", "Role", "composition"]

Role = Literal[
    "embedding", "head", "query", "key", "value", "output", "latent", "state", "up", "down", "shared_up", "shared_down",
    "expert_up", "expert_down", "router", "norm", "encoder", "rest",
]  # fmt: skip

# Of the stated number of parameters, what the counted ones may differ by. More than is stated: the widths are not those
# of the model. Less: something has no rule here. Rounding explains no more than `_MOST_ROUNDED`. In per cent.
_MOST_OVER, _MOST_UNDER, _MOST_ROUNDED = 3, 10, 6


class Part(NamedTuple):
    """Matrices of one role: how many parameters, the elements of a row (0: no matter), and into how many ranks at most.

    `ways` 0: into any number of ranks; 1: each rank has the whole; KV heads: no more ranks than heads share them.
    """

    role: Role
    parameters: int
    row: int = 0
    ways: int = 0


Parts = tuple[Part, ...]


class Composition(NamedTuple):
    """The parts of a model: before its layers, of each layer in order, behind them.

    `even`: the widths are not known, and all parameters are spread evenly. `unexplained` are those among them that no
    rule tells, below zero where the rules count more than are stated.
    """

    before: Parts
    layers: tuple[Parts, ...]
    behind: Parts
    tied: bool = False
    even: bool = False
    unexplained: int = 0

    @property
    def parameters(self) -> int:
        """The sum of all parts."""
        return sum(part.parameters for parts in (self.before, *self.layers, self.behind) for part in parts)


@lru_cache(16)  # every split of a model asks for it
def composition(model: Model) -> Composition | None:
    """The parts of a model; spread evenly where its widths are not known; None without a number of parameters too."""
    counted = _counted(model) if model.dimensions is not None else None
    if model.parameters is None:
        return counted
    if counted is not None:
        missing = model.parameters - counted.parameters
        rounded = min(50 * _last_digit(model.parameters), _MOST_ROUNDED * model.parameters)
        if 100 * abs(missing) <= rounded:
            return counted
        if -_MOST_OVER * model.parameters <= 100 * missing <= _MOST_UNDER * model.parameters:
            return _with_rest(counted, missing)
    return _even(model, model.parameters)


def _last_digit(stated: int) -> int:
    """What one more in the last digit of a rounded number would be: 10 million for 70.55B, a billion for 27B."""
    unit = 1
    while stated % (10 * unit) == 0:
        unit *= 10
    return unit


def _even(model: Model, parameters: int) -> Composition:
    """All parameters in the layers, but the tables where they alone are known."""
    before, behind = _tables(model.dimensions) if model.dimensions is not None else ((), ())
    left = parameters - sum(part.parameters for part in (*before, *behind))
    if left <= 0:
        before, behind, left = (), (), parameters
    tied = bool(before) and model.dimensions is not None and model.dimensions.tied
    bare = Composition(before, ((),) * len(model.layers), behind, tied, even=True)
    return _with_rest(bare, left)._replace(unexplained=0)


def _with_rest(counted: Composition, rest: int) -> Composition:
    each, more = divmod(rest, len(counted.layers))
    made: dict[tuple[Parts, int], Parts] = {}
    layers = []
    for i, parts in enumerate(counted.layers):
        own = each + (i < more)
        key = (parts, own)
        layers.append(made.setdefault(key, (*parts, Part("rest", own)) if own else parts))
    return counted._replace(layers=tuple(layers), unexplained=rest)


def _counted(model: Model) -> Composition | None:
    """The parts by the widths; None where one that is needed is not known."""
    widths = model.dimensions
    assert widths is not None
    before, behind = _tables(widths)
    if not before:
        return None
    words = widths.feed_forward or (("moe" if widths.experts else "dense"),) * len(model.layers)
    made: dict[tuple[Layer, FeedForward], Parts | None] = {}
    layers = []
    for layer, word in zip(model.layers, words, strict=True):
        key = (layer, word)
        if key not in made:
            made[key] = _layer(model, widths, layer, word)
        parts = made[key]
        if parts is None:
            return None
        layers.append(parts)
    if model.encoder_parameters:
        before = (*before, Part("encoder", model.encoder_parameters))
    return Composition(before, tuple(layers), (*behind, Part("norm", widths.hidden, ways=1)), widths.tied)


def _tables(widths: Dimensions) -> tuple[Parts, Parts]:
    if widths.vocab is None:
        return (), ()
    table = Part("embedding", widths.vocab * widths.hidden, widths.hidden)
    return (table,), () if widths.tied else (table._replace(role="head"),)


def _layer(model: Model, widths: Dimensions, layer: Layer, word: FeedForward) -> Parts | None:
    feed = _feed_forward(widths, word)
    if feed is None:
        return None
    mixing = [part for cache in layer for part in _mixer(model, widths, cache)]
    norms = (bool(mixing) + bool(feed)) * widths.hidden
    return (*mixing, *feed, *((Part("norm", norms, ways=1),) if norms else ()))


def _feed_forward(widths: Dimensions, word: FeedForward) -> Parts | None:
    match word:
        case "none":
            return ()
        case "dense":
            return None if widths.intermediate is None else _matrices(widths, "up", "down", widths.intermediate)
        case "moe":
            return _experts(widths)
        case _:
            assert_never(word)


def _matrices(widths: Dimensions, up: Role, down: Role, channels: int, hidden: int = 0, copies: int = 1) -> Parts:
    """The matrices into the channels, two where they are gated, and the one out of them."""
    width = hidden or widths.hidden
    return (
        Part(up, copies * (2 if widths.gated else 1) * width * channels, width),
        Part(down, copies * channels * width, channels),
    )


def _experts(widths: Dimensions) -> Parts | None:
    if widths.expert_intermediate is None:
        return None
    channels, narrow = widths.expert_intermediate, widths.expert_hidden
    parts = _matrices(widths, "expert_up", "expert_down", channels, narrow, widths.experts)
    parts += (Part("router", widths.hidden * widths.experts, ways=1),)
    if narrow:  # into the narrower space and back
        parts += (Part("latent", 2 * widths.hidden * narrow, widths.hidden, 1),)
    if widths.shared_intermediate:
        parts += _matrices(widths, "shared_up", "shared_down", widths.shared_intermediate)
    return parts


def _mixer(model: Model, widths: Dimensions, cache: Cache) -> Iterator[Part]:
    hidden = widths.hidden
    match cache:
        case Attention():
            yield from _attention(widths, cache)
        case Latent(rank, rope, heads, k_dim, v_dim):
            down = hidden * (rank + rope) + hidden * widths.q_lora_rank
            yield Part("latent", down, hidden, 1)
            yield Part("query", (widths.q_lora_rank or hidden) * heads * k_dim, widths.q_lora_rank or hidden)
            yield Part("key", rank * heads * (k_dim - rope + v_dim), rank)
            yield Part("output", heads * v_dim * hidden, heads * v_dim)
        case Indexer(dim=dim):
            scoring = model.index_heads or 0
            yield Part("latent", (widths.q_lora_rank or hidden) * scoring * dim + hidden * (dim + scoring), hidden, 1)
        case Compressed(dim=dim, overlap=overlap, indexer=indexer):
            wide = 2 * (dim + indexer) * (2 if overlap else 1)  # keys and their gates (DeepSeek V4)
            scoring = (model.index_heads or 0) * indexer
            yield Part("latent", hidden * wide + (widths.q_lora_rank or hidden) * scoring, hidden, 1)
        case Recurrent():
            yield Part("state", _state(widths, cache), hidden)
        # A layer that reuses keys and values has queries of its own.
        case Shared(of=Attention() as of):
            yield from (part for part in _attention(widths, of) if part.role in ("query", "output"))
        case Shared():
            pass
        case _:
            assert_never(cache)


def _attention(widths: Dimensions, cache: Attention) -> Iterator[Part]:
    if not cache.kv_heads:  # pruned
        return
    hidden, rank = widths.hidden, widths.q_lora_rank
    queries, outputs = cache.heads * cache.k_dim, cache.heads * (cache.v_dim or cache.k_dim)
    if rank:
        yield Part("latent", hidden * rank, hidden, 1)
    yield Part("query", (rank or hidden) * queries + (hidden * outputs if widths.query_gate else 0), rank or hidden)
    yield Part("key", hidden * cache.kv_heads * cache.k_dim, hidden, cache.kv_heads)
    if cache.v_dim:
        yield Part("value", hidden * cache.kv_heads * cache.v_dim, hidden, cache.kv_heads)
    yield Part("output", outputs * hidden, outputs)


def _state(widths: Dimensions, cache: Recurrent) -> int:
    """The matrices into and out of a recurrent layer, its convolution and its gates."""
    hidden, conv = widths.hidden, cache.conv
    match cache.kind:
        case "mamba1":
            inner, state, step = cache.inner, cache.state, ceil_div(hidden, 16)
            return 3 * hidden * inner + inner * (conv + 2 * step + 3 * state + 3)
        case "mamba2":
            inner = cache.heads * cache.head_dim
            mixed = inner + 2 * cache.groups * cache.state
            return hidden * (2 * inner + mixed + cache.heads) + mixed * (conv + 1)
        case "deltanet":
            values = cache.v_heads * cache.v_dim
            mixed = 2 * cache.k_heads * cache.k_dim + values
            return hidden * (mixed + 2 * values + 2 * cache.v_heads) + mixed * conv
        case "kda":  # keys, queries, values, output; a decay and a gate of low rank (Kimi Linear 2025)
            inner = cache.heads * cache.head_dim
            return 4 * hidden * inner + 2 * cache.head_dim * (hidden + inner) + 3 * inner * conv + hidden * cache.heads
        case "shortconv":
            return 4 * hidden * cache.width + cache.width * conv
        case "lightning":  # keys, queries, values, gate, output (MiniMax-01)
            return 5 * hidden * cache.heads * cache.head_dim
        case "rglru":  # two ways in and one out; two gates of blocks (arXiv 2402.19427)
            return 3 * hidden * cache.width + cache.width * (conv + 1)
        case "rwkv" | "rwkv4":
            return 5 * hidden * cache.width
        case _:
            assert_never(cache.kind)
