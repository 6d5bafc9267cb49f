"""What a model is: an ordered tuple of layers, each a tuple of caches. Facts only, no bytes and no engines.

A layer that repeats shares its cache objects, so that work is done once for each distinct cache. The order of layers
never changes the exact size, but pipeline stages and the grouping of engines depend on it.

Caches are named tuples: a frozen dataclass takes three times as long to define, which every call pays, and its hash is
in Python. No two kinds have the same number of fields, so that caches of different kinds are never equal.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from kvcalc.core.dtypes import DType

__all__ = [
    "Attention",
    "Cache",
    "Compressed",
    "Dimensions",
    "FeedForward",
    "Indexer",
    "Kept",
    "Kind",
    "Latent",
    "Layer",
    "Model",
    "Reach",
    "Recurrent",
    "RecurrentKind",
    "Shared",
    "Stored",
    "attention_class",
    "kind",
]

Reach = Literal["full", "sliding", "chunked", "cross"]
RecurrentKind = Literal["mamba1", "mamba2", "deltanet", "kda", "shortconv", "lightning", "rglru", "rwkv", "rwkv4"]
Kind = Literal["full", "sliding", "chunked", "latent", "indexer", "recurrent", "cross", "shared", "compressed"]
FeedForward = Literal["dense", "moe", "none"]
Kept = Literal["attention", "state", "dense", "shared", "experts", "head"]


class Attention(NamedTuple):
    """Keys and values of `kv_heads` heads for every token in reach (MHA, GQA and MQA alike).

    `span` is the window or chunk in tokens, or the length on the encoder's side (None: the request's); None for full.
    `v_dim` 0: one vector is both key and value. `kv_heads` 0: all heads pruned, nothing kept. `rope` is the part of
    `k_dim` that carries positions, which some packed formats store apart; 0 where that is of no consequence.
    """

    reach: Reach
    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int
    span: int | None = None
    rope: int = 0


class Latent(NamedTuple):
    """Multi-head latent attention: one compressed vector of `rank` and one rotary key of `rope` elements a token.

    `heads`, `k_dim` and `v_dim` are the per-head sizes before compression; the cache does not depend on them.
    """

    rank: int
    rope: int
    heads: int
    k_dim: int
    v_dim: int


class Indexer(NamedTuple):
    """The key by which sparse attention chooses tokens: `dim` elements a token, one head.

    `store` fp8+scale: eight-bit floats and one fp32 scale whatever the KV dtype; None: in the KV dtype.
    `block`: tokens that sparse attention chooses together, which becomes an engine's block size.
    """

    dim: int
    store: Literal["fp8+scale"] | None = None
    block: int | None = None


class Compressed(NamedTuple):
    """One entry of `dim` elements (`rope` of them rotary) for every `ratio` tokens, one vector as key and value.

    `indexer` elements of an index key stand beside each entry (0: none). `overlap`: each entry also sees the tokens of
    the one before, which doubles the compressor's working state in engines.
    """

    ratio: int
    dim: int
    rope: int
    heads: int
    overlap: bool = False
    indexer: int = 0


class Recurrent(NamedTuple):
    """A state whose size does not depend on the context. Which numbers a kind uses: `caches.RECURRENT_FIELDS`.

    `conv` is the kernel length of the short convolution; `inner` and `width` are elements.
    """

    kind: RecurrentKind
    conv: int = 1
    heads: int = 0
    head_dim: int = 0
    groups: int = 0
    state: int = 0
    inner: int = 0
    width: int = 0
    k_heads: int = 0
    k_dim: int = 0
    v_heads: int = 0
    v_dim: int = 0


Stored: TypeAlias = Attention | Latent | Indexer | Compressed | Recurrent


class Shared(NamedTuple):
    """Reuses the last earlier cache equal to `of`, and stores nothing."""

    of: Stored


Cache: TypeAlias = Stored | Shared
Layer: TypeAlias = tuple[Cache, ...]


class Dimensions(NamedTuple):
    """Widths of the weights, in elements, as far as they are published: nothing of it changes the size of the cache.

    `hidden` is the width of the residual stream and `vocab` the rows of the table of embeddings, which serves as output
    head too where it is `tied`. A dense feed-forward layer has `intermediate` channels, in three matrices where it is
    `gated` and else in two. Of `experts` in a layer a token uses `top_k`; each has `expert_intermediate` channels and
    reads `expert_hidden` elements (0: all of `hidden`); shared experts have `shared_intermediate` channels together.
    `feed_forward` has a word for each layer; () where all are alike. `q_lora_rank`: of queries under latent attention,
    0 where they are not compressed. `query_gate`: attention has a gate as wide as its queries. None is not known; a
    number of experts of 0 is a dense model.
    """

    hidden: int
    vocab: int | None = None
    intermediate: int | None = None
    gated: bool = True
    tied: bool = False
    q_lora_rank: int = 0
    query_gate: bool = False
    experts: int = 0
    top_k: int | None = None
    expert_intermediate: int | None = None
    expert_hidden: int = 0
    shared_intermediate: int = 0
    feed_forward: tuple[FeedForward, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model's facts. `origin` says under which name or path it was found, and is no part of its identity."""

    name: str
    layers: tuple[Layer, ...] = field(repr=False)
    dtype: DType
    ids: tuple[str, ...] = ()
    family: str = ""
    model_type: str | None = None
    gguf: str | None = None
    source: str | None = None
    confidence: str | None = None
    note: str | None = None
    weights_dtype: DType | None = None
    weights_kept: tuple[Kept, ...] = ()  # what a checkpoint in weights_dtype keeps in `dtype`, beside tables and norms
    kv_dtype: DType | None = None
    state_dtype: DType | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    encoder_parameters: int | None = None  # of towers for images or sound, among `parameters`; None: there is none
    dimensions: Dimensions | None = field(default=None, repr=False)
    weights_bytes: int | None = None
    max_context: int | None = None
    context: int | None = None
    encoder_tokens: int | None = None
    index_heads: int | None = None  # of sparse attention: heads that score each token or entry,
    index_topk: int | None = None  # and how many of them attention then looks at
    draft: tuple[Layer, ...] = field(default=(), repr=False)
    origin: str = field(default="", compare=False)
    named: str | None = field(default=None, compare=False)  # what of it only the name tells that it was asked for by
    unweighed: str | None = field(default=None, compare=False)  # why its file cannot tell the weights, if it cannot

    def caches(self) -> Iterator[Cache]:
        """Every cache of every layer, in order."""
        for layer in self.layers:
            yield from layer

    @cached_property
    def distinct_layers(self) -> dict[Layer, int]:
        """The layers that differ and how often each occurs, in order of first occurrence."""
        counts: dict[Layer, int] = {}
        # Repeated layers are mostly one object: count those first.
        objects = {id(layer): layer for layer in self.layers}
        for key, copies in Counter(map(id, self.layers)).items():
            counts[objects[key]] = counts.get(objects[key], 0) + copies
        return counts

    @cached_property
    def distinct_caches(self) -> dict[Cache, int]:
        """The caches that differ and how often each occurs, in order of first occurrence."""
        counts: dict[Cache, int] = {}
        for layer, copies in self.distinct_layers.items():
            for cache in layer:
                counts[cache] = counts.get(cache, 0) + copies
        return counts


def kind(cache: Cache) -> Kind:
    """The word for a cache in reports and JSON."""
    match cache:
        case Attention(reach=reach):
            return reach
        case Latent():
            return "latent"
        case Indexer():
            return "indexer"
        case Compressed():
            return "compressed"
        case Recurrent():
            return "recurrent"
        case Shared():
            return "shared"


def attention_class(model: Model) -> str:
    """mha, mqa, gqa, mla, hybrid, ssm or encoder-decoder ; windowed models keep the first three."""
    caches = model.distinct_caches
    recurrent = any(isinstance(c, Recurrent) for c in caches)
    attending = [c for c in caches if isinstance(c, Attention | Latent | Compressed)]
    if recurrent:
        return "hybrid" if attending else "ssm"
    # Self and cross attention in the same layer; Llama 3.2 Vision has layers of cross attention alone, and is not one.
    if any(
        {"full", "cross"} <= {c.reach for c in layer if isinstance(c, Attention)} for layer in model.distinct_layers
    ):
        return "encoder-decoder"
    if any(isinstance(c, Latent) for c in attending):
        return "mla"
    per_head = [c for c in attending if isinstance(c, Attention) and c.kv_heads]
    most = max((c.kv_heads for c in per_head), default=1)
    heads = max((c.heads for c in per_head), default=1)
    return "mha" if most == heads else "mqa" if most == 1 else "gqa"
