"""The document of `simulate`."""

from typing import Literal, TypedDict

from kvcalc.views.types.model import Document, ModelFacts

__all__ = [
    "AttainedShares", "CurvePoint", "DayValues", "DroppedRows", "HourValues", "LevelValues", "OccupancyValues",
    "PoolValues", "PrefixCacheValues", "SeedValues", "SessionValues", "SimulateDocument", "SimulateRequest",
    "SplitValues",
    "TierValues", "TimeValues", "TraceFacts",
]  # fmt: skip


class SimulateRequest(TypedDict):
    """Every input and default in force."""

    trace: str | None  # the file; null where requests are made up
    input: str | None  # MEAN or MEAN/P95 tokens
    output: str | None
    rate: float | None  # requests a second that are made up
    requests: int
    turns: str | None  # of a session that is made up, MEAN or MEAN/P95
    think_seconds: float | None  # mean, between an answer and the next turn
    seed: int | None
    rate_scale: float
    step_seconds: float | None  # of the open loop
    block_size: int | None  # tokens
    k_dtype: str
    v_dtype: str
    gpu: str | None
    engine: str | None
    engine_version: str | None
    tp: int
    pp: int
    replicas: int  # 0 in the open loop
    router: Literal["round-robin", "least-loaded", "prefix"]
    prefix_cache: bool
    max_num_seqs: int | None  # sequences in a step
    max_num_batched_tokens: int | None  # tokens in a step
    pool_tokens: int | None  # of one replica
    ttft_seconds: float | None  # targets, as the next two
    tpot_seconds: float | None
    e2e_seconds: float | None
    percentile: float


class DroppedRows(TypedDict):
    """Rows that were left out."""

    reason: str
    rows: int
    line: int  # of the first


class TraceFacts(TypedDict):
    """The requests."""

    requests: int
    dropped: int
    dropped_rows: list[DroppedRows]
    duration_seconds: float  # from the first arrival to the last
    mean_input_tokens: float
    mean_output_tokens: float


class OccupancyValues(TypedDict):
    """Tokens in the pool of one replica, or of the open loop; percentiles by time."""

    mean_tokens: float
    p50_tokens: float
    p95_tokens: float
    p99_tokens: float
    peak_tokens: float
    peak_at_seconds: float | None  # null in the closed loop


class LevelValues(TypedDict):
    """Sequences at once; percentiles by time."""

    mean: float
    p50: float
    p95: float
    p99: float
    peak: float


class TimeValues(TypedDict):
    """Seconds over requests, each of which counts once."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


class CurvePoint(TypedDict):
    """What a prefix cache of some size would find; null is one without end."""

    capacity_tokens: int | None
    capacity_bytes: int | None
    token_hit_rate: float
    hit_blocks: int


class PrefixCacheValues(TypedDict):
    """Tokens of prompts that were found, and would be at other capacities."""

    token_hit_rate: float | None  # null where no cache was replayed
    block_tokens: int
    blocks: int  # of all prompts
    curve: list[CurvePoint]


class SessionValues(TypedDict):
    """Requests that are turns of conversations."""

    sessions: int
    mean_turns: float
    mean_returning_tokens: float  # of a prompt that comes back: the context at the pause, and its growth
    mean_pause_seconds: float | None  # this and the next two are null without a deployment
    coexisting_sessions: int | None  # that a replica's pool holds until they return
    tokens_of_others_in_a_pause: float | None  # in one replica; above the pool, a session finds nothing


class TierValues(TypedDict):
    """Memory of one replica behind its pool, and what requests found there of all replicas."""

    name: str
    bytes: int
    bytes_per_second: int
    blocks: int  # of the trace, that it holds
    loaded_blocks: int
    token_hit_rate: float  # the share of all prompts' tokens that was loaded from it


class HourValues(TypedDict):
    """A part of a day: from an hour on, for so many hours."""

    hour: float
    hours: float
    requests_per_second: float
    replicas: int


class DayValues(TypedDict):
    """Replicas over a day, as many as each part of it needs, against as many all day as its peak needs."""

    requests_per_second_per_replica: float
    peak_replicas: int
    gpu_hours: float
    static_gpu_hours: float
    start_seconds: float
    cost: float | None  # of the GPU-hours, at the price that is given; null without one
    static_cost: float | None


class PoolValues(TypedDict):
    """One of two pools: its replicas, the share of the time in which they work, and how long requests wait there."""

    replicas: int
    busy: float
    queue_seconds: TimeValues


class SplitValues(TypedDict):
    """Prefill and decode on replicas of their own."""

    prefill: PoolValues
    decode: PoolValues
    link: str
    link_bytes_per_second: int
    transfer_seconds: TimeValues  # waiting for the link included
    mean_transfer_bytes: int
    staging_sequences: int  # of the mean length, that fit beside as many as a step takes; below zero, transfers wait


class AttainedShares(TypedDict):
    """Shares of requests that meet each target, null where there is none, and all of them."""

    ttft: float | None
    tpot: float | None
    e2e: float | None
    all: float


class SeedValues(TypedDict):
    """What requests of one seed met."""

    seed: int
    overloaded: bool
    ttft_p95_seconds: float
    tpot_p95_seconds: float
    e2e_p95_seconds: float
    attained: float | None  # the share that met all targets


class SimulateDocument(Document):
    """The answer of `kvcalc simulate`. What only the closed loop has is null in the open one."""

    schema: Literal["kvcalc.simulate/1"]
    model: ModelFacts
    request: SimulateRequest
    trace: TraceFacts
    occupancy: OccupancyValues | None
    concurrency: LevelValues | None
    peak_bytes: int | None  # of one replica's pool on all its GPUs, or of the open loop
    preemptions: int | None
    preempted_requests: int | None
    refused_requests: int | None  # longer than a pool
    queue_seconds: TimeValues | None
    ttft_seconds: TimeValues | None
    tpot_seconds: TimeValues | None
    e2e_seconds: TimeValues | None
    requests_per_second: float | None
    output_tokens_per_second: float | None
    overloaded: bool | None
    binding: str | None  # kv, engine or compute: what requests wait for; null where few wait
    attainment: AttainedShares | None
    goodput_requests_per_second: float | None
    prefix_cache: PrefixCacheValues | None  # null where requests have no prefixes, or none was asked for
    sessions: SessionValues | None  # null where no request is said to be of one
    tiers: list[TierValues]
    pools: SplitValues | None  # null where each replica does both
    day: DayValues | None
    replicas_by_hour: list[HourValues]
    by_seed: list[SeedValues]  # with --seeds; the rest is that of the first
