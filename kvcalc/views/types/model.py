"""What the documents of several verbs have: the model, and the exact size of its cache."""

from typing import NotRequired, TypedDict

from kvcalc.core.model import Kind, RecurrentKind

__all__ = ["CacheShape", "Document", "KvSizes", "LayerGroup", "ModelFacts"]


class Document(TypedDict):
    """What every document has beside `schema`, `model`, `request` and what its verb found."""

    kvcalc_version: str
    warnings: list[str]


class ModelFacts(TypedDict):
    """A model. What differs by layer is null here and stands under `kv.layers`."""

    id: str | None  # the first of its hub ids
    ids: list[str]
    preset: str  # the name or path under which it was found
    name: str
    family: str
    model_type: str | None
    source: str | None
    confidence: str | None
    note: str | None
    layers: int
    heads: int | None  # of queries
    kv_heads: int | None
    head_dim: int | None  # elements; of a latent, those of its rotary key too
    attention: str  # mha, mqa, gqa, mla, hybrid, ssm or encoder-decoder
    max_context: int | None
    parameters: int | None
    active_parameters: int | None  # those that one token uses, where these are not all
    dtype: str  # in which it computes
    weights_dtype: str
    kv_dtype: str | None  # only where the checkpoint declares one
    state_dtype: str | None  # only where the configuration states one
    draft_layers: int


class CacheShape(TypedDict):
    """What is stored in a cache, in elements, by its kind."""

    kv_heads: int | None
    k_dim: int | None
    v_dim: int | None  # 0 where one vector is key and value
    window: int | None  # tokens of a window or chunk
    encoder_tokens: NotRequired[int]
    rank: NotRequired[int]
    rope: NotRequired[int]
    store: NotRequired[str | None]  # how an index key is stored, where that is not in the KV dtype
    ratio: NotRequired[int]  # tokens of one compressed entry
    indexer_dim: NotRequired[int]
    recurrent_kind: NotRequired[RecurrentKind]
    conv_elements: NotRequired[int]
    conv_dtype: NotRequired[str]
    state_elements: NotRequired[int]
    state_dtype: NotRequired[str | None]
    shares: NotRequired[Kind]  # of the cache that is read instead of one of its own


class LayerGroup(CacheShape):
    """Equal caches. Bytes are those of the whole group, so that the groups add up to the model."""

    kind: Kind
    count: int
    bytes_per_token: int
    fixed_bytes_per_sequence: int
    bytes_per_sequence: int


class KvSizes(TypedDict):
    """The exact size of a cache, on all GPUs together where nothing else is said."""

    bytes_per_token: int  # what one more token adds at the asked context, rounded up
    bytes_per_token_below_windows: int
    bytes_per_token_past_windows: int
    fixed_bytes_per_sequence: int  # what no longer grows
    bytes_per_sequence: int
    bytes_total: int  # of the batch
    bytes_total_per_gpu: int  # on the fullest, with what several hold
    layers: list[LayerGroup]
