"""The document of `tradeoff`."""

from typing import Literal, TypedDict

from kvcalc.views.types.model import Document, ModelFacts

__all__ = [
    "CacheTotals", "FlopsValues", "KeptValues", "LinkLoad", "MachineRates", "MemoryValues", "PairValues",
    "PrefixValues", "SecondsValues", "TradeoffDocument", "TradeoffRequest",
]  # fmt: skip


class MachineRates(TypedDict):
    """What times follow from, of all GPUs together; null without a GPU."""

    weights_bytes: int | None
    weights_bytes_of_one_token: int | None  # that one token reads
    bandwidth_bytes_per_second: int | None  # the peak
    flops_per_second: int | None  # the peak
    bandwidth_share: float | None  # of the peak that is attained
    compute_share: float | None
    fixed_seconds: float | None  # that an engine adds to each step


class TradeoffRequest(MachineRates):
    """Every input and default in force."""

    context: int
    input: int  # tokens
    output: int
    batch: int
    k_dtype: str
    v_dtype: str
    kv_heads: int | Literal["all"] | None
    encoder_tokens: int | None
    tp: int
    gpu: str | None


class PairValues(TypedDict):
    """FLOPs or seconds, and how many times more there are without the cache."""

    with_cache: float
    without_cache: float
    ratio: float


class FlopsValues(TypedDict):
    """FLOPs of one sequence."""

    parameters: int  # that one token uses
    per_token_outside_attention: int
    token: PairValues  # the last one
    generation: PairValues
    attention_is_upper_bound: bool
    attention_per_cache_byte: float | None  # FLOPs for each byte that a new token reads; null where it reads none


class CacheTotals(TypedDict):
    """The exact size of the cache."""

    bytes_per_token: int
    bytes_per_sequence: int
    bytes_total: int
    bytes_total_per_gpu: int


class MemoryValues(TypedDict):
    """Where the memory of one GPU goes."""

    vram_bytes_per_gpu: int | None
    utilization: float
    weights_bytes_per_gpu: int | None
    kv_budget_bytes_per_gpu: int
    fits: bool | None


class SecondsValues(TypedDict):
    """Seconds of the whole batch."""

    token: PairValues
    generation: PairValues
    ridge_tokens: int  # up to which reading the weights takes longer than computing
    saves_time: bool
    tokens_whose_cache_equals_weights: int | None


class LinkLoad(TypedDict):
    """A prompt's cache over a link."""

    name: str
    bytes_per_second: int
    load_seconds: float
    load_is_faster: bool  # than computing it again


class KeptValues(TypedDict):
    """Prompts of the asked length in memory behind the GPUs."""

    name: str
    bytes: int
    bytes_per_second: int
    prompts: int
    tokens: int
    load_seconds: float
    pays_from_hit_rate: float | None  # even if GPUs wait for it to be written; null where it saves no time


class PrefixValues(TypedDict):
    """The cache of one sequence's prompt, loaded or computed again."""

    tokens: int
    bytes: int
    recompute_seconds: float
    recompute_seconds_per_token: float
    break_even_bytes_per_second: float  # at which both take the same time
    links: list[LinkLoad]
    gpu_prompts: int | None  # of this length, that the GPUs of the replica hold; null without tiers
    gpu_tokens: int | None
    tiers: list[KeptValues]


class TradeoffDocument(Document):
    """The answer of `kvcalc tradeoff`."""

    schema: Literal["kvcalc.tradeoff/1"]
    model: ModelFacts
    request: TradeoffRequest
    flops: FlopsValues
    kv: CacheTotals
    memory: MemoryValues | None  # null without a GPU, as the next one
    seconds: SecondsValues | None
    prefix: PrefixValues | None  # null also where an encoder's part cannot be weighed up
