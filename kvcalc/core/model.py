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
    "Pattern",
    "Recurrent",
    "RecurrentKind",
    "Shared",
    "Stored",
    "VisionTower",
]

Pattern = Literal["full", "sliding", "chunked", "cross"]
RecurrentKind = Literal["mamba1", "mamba2", "deltanet", "kda", "shortconv", "lightning", "rglru", "rwkv", "rwkv4"]
Kind = Literal["full", "sliding", "chunked", "latent", "indexer", "recurrent", "cross", "shared", "compressed"]
FeedForward = Literal["dense", "moe", "none"]
Kept = Literal["attention", "state", "dense", "shared", "experts", "head"]


class Attention(NamedTuple):
    """Keys and values of `kv_heads` heads for every token that a pattern keeps (MHA, GQA and MQA alike).

    Attributes:
        pattern: Which tokens a query looks at, and so which are kept: `formula.attention_tokens` has the rules.
        heads: Query heads; they do not change the cache.
        kv_heads: Heads whose keys and values are cached; 0 where all are pruned and nothing is kept.
        k_dim: Elements of one head's key.
        v_dim: Elements of one head's value; 0 where one vector is both key and value.
        span: Tokens of a window or chunk; of cross-attention those of the encoder (None: the request's); else None.
        rope: Elements of a key that carry positions, where some packed formats store them apart; else 0.
    """

    pattern: Pattern
    heads: int
    kv_heads: int
    k_dim: int
    v_dim: int
    span: int | None = None
    rope: int = 0


class Latent(NamedTuple):
    """Multi-head latent attention: one vector for all heads, as key and as value (DeepSeek-V2, arXiv 2405.04434).

    Attributes:
        rank: Elements of the vector.
        rope: Elements of the rotary key that all heads share.
        heads: Query heads; like the two widths below they do not change the cache.
        k_dim: Elements of one head's key before compression.
        v_dim: Elements of one head's value before compression.
    """

    rank: int
    rope: int
    heads: int
    k_dim: int
    v_dim: int


class Indexer(NamedTuple):
    """The key by which sparse attention chooses tokens: one head for all (DeepSeek-V3.2 2025).

    Attributes:
        dim: Elements of a token's key.
        store: `fp8+scale`: eight-bit floats with one fp32 scale, whatever the KV dtype; None: in the KV dtype.
        block: Tokens that are chosen together, which becomes an engine's block size; None where none is stated.
    """

    dim: int
    store: Literal["fp8+scale"] | None = None
    block: int | None = None


class Compressed(NamedTuple):
    """One entry for every few tokens, a vector that is key and value (DeepSeek V4 2026).

    Attributes:
        ratio: Tokens of one entry.
        dim: Elements of an entry.
        rope: Those of them that are rotary.
        heads: Query heads; they do not change the cache.
        overlap: Each entry also sees the tokens of the one before, which doubles what engines keep uncompressed.
        indexer: Elements of the index key beside each entry; 0 where there is none.
    """

    ratio: int
    dim: int
    rope: int
    heads: int
    overlap: bool = False
    indexer: int = 0


class Recurrent(NamedTuple):
    """A state whose size does not depend on the context.

    `preset.caches.RECURRENT_FIELDS` says which numbers a kind uses, and `formula.recurrent_state` what they come to.

    Attributes:
        kind: The recurrence, by the name that presets have for it.
        conv: Length of the short convolution's kernel in tokens, which keeps the last `conv` - 1 inputs.
        heads: Heads of the state.
        head_dim: Elements of a head.
        groups: Groups that share B and C (Mamba-2).
        state: Elements of the state for each channel (Mamba).
        inner: Channels of Mamba-1.
        width: Channels of a gated convolution, of RG-LRU and of RWKV.
        k_heads: Key heads of a delta rule.
        k_dim: Elements of one of its keys.
        v_heads: Value heads of a delta rule.
        v_dim: Elements of one of its values.
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
    """A cache that stores nothing, since its layer reads another's (Brandon et al. 2024, arXiv 2405.12981).

    Attributes:
        of: The cache that is read: the last earlier one equal to it.
    """

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


class VisionTower(NamedTuple):
    """The tower for images, as far as config.json states it by these very names, by which engines read it: Qwen's says
    `depth`, so that `num_hidden_layers` is None.
    """

    num_hidden_layers: int | None = None
    hidden_size: int | None = None


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model's facts.

    Attributes:
        name: The name for people.
        layers: Each layer's caches, in order.
        dtype: The format that the model computes in, and by default keeps keys and values in.
        ids: Hub ids of the checkpoints that these facts hold for, the first of which stands for all.
        family: The family's name in lists; "" where none is stated.
        model_type: The `model_type` of its config.json, by which engines choose their code; None where none is stated.
        gguf: Its architecture in a GGUF file; None where the model type tells it.
        source: The URL or file that the facts are from.
        confidence: How the facts are known: `config file read`, `from memory`.
        note: What a reader of the facts must know.
        weights_dtype: The format of the stored weights; None: `dtype`.
        kv_dtype: The KV format that the checkpoint declares; None: `dtype`.
        state_dtype: The format of recurrent states that the configuration states; None: fp32.
        parameters: How many there are; None where that is not known.
        active_parameters: Those that one token uses; None where it uses all.
        weights_bytes: Bytes of the checkpoint's tensors, where somebody measured them.
        max_context: The published limit in tokens; None where there is none.
        context: The length in tokens that is assumed where nobody says one; None: 4,096.
        encoder_tokens: Tokens that the encoder hands over where nobody says how many.
        index_heads: Of sparse attention: heads that score each token or entry.
        index_topk: Of sparse attention: tokens or entries that are then looked at.
        draft: Layers that draft tokens, which some engines cache too.
        origin: The name or path under which it was found, which is no part of its identity.
        named: What of it only the name tells that it was asked for by, such as a format; no part of its identity.
        unweighed: Why its file does not tell the weights; no part of its identity.
        doubt: What a reader took that its file does not state, in one line for warnings; no part of its identity.
    """

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
    weights_block: int | None = None  # rows and columns that share a scale in it; None: none are stated
    weights_kept: tuple[Kept, ...] = ()  # what a checkpoint in weights_dtype keeps in `dtype`, beside tables and norms
    kv_dtype: DType | None = None
    state_dtype: DType | None = None
    parameters: int | None = None
    active_parameters: int | None = None
    vision: VisionTower | None = None  # what the file states of the tower for images; None: nothing
    images: str | None = None  # the word of its rule in core/images.py; None: none is known
    encoder_parameters: int | None = None  # of towers for images or sound, among `parameters`; None: there is none
    dimensions: Dimensions | None = field(default=None, repr=False)
    dimensions_source: str | None = None  # where they and encoder_parameters were read; None: where the rest was
    weights_bytes: int | None = None
    max_context: int | None = None
    context: int | None = None
    encoder_tokens: int | None = None
    index_heads: int | None = None
    index_topk: int | None = None
    draft: tuple[Layer, ...] = field(default=(), repr=False)
    origin: str = field(default="", compare=False)
    named: str | None = field(default=None, compare=False)
    unweighed: str | None = field(default=None, compare=False)
    doubt: str | None = field(default=None, compare=False)

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
