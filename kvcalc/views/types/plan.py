"""The document of `plan`."""

from typing import Literal, TypedDict

from kvcalc.planner.reasons import Binding
from kvcalc.views.types.model import Document, ModelFacts
from kvcalc.views.types.simulate import TimeValues
from kvcalc.views.types.size import OverheadLine

__all__ = [
    "AttainedShares", "FormatChange", "LengthSpread", "MetTargets", "PlanDocument", "PlanOption", "PlanRequest",
    "RefusedGpus", "ReplayedRow", "ReplicaLoad", "TokenCost", "TraceMix",
]  # fmt: skip


class LengthSpread(TypedDict):
    """Lengths of requests in tokens: the mean, and what 95 in 100 and 999 in 1,000 do not exceed."""

    mean: float
    p95: int
    p99_9: int


class TraceMix(TypedDict):
    """What the trace asks for."""

    path: str | None
    rate_scale: float
    requests: int
    duration_seconds: float
    input_tokens: LengthSpread
    output_tokens: LengthSpread
    token_hit_rate: float | None  # of a prefix cache without end; null where requests have no prefixes


class PlanRequest(TypedDict):
    """Every input and default in force."""

    context: int  # of the longest sequence
    users: int
    input: str | None  # MEAN or MEAN/P95 tokens
    output: str | None
    rate: float | None  # requests a second
    shared_prefix: int  # tokens
    encoder_tokens: int | None
    images: str | None  # N or N:WIDTHxHEIGHT, whose tokens come on top of the prompt
    gpus: list[str | None]  # to choose from: NAME, or NxNAME; null is memory without a name
    max_gpus: int
    vram_bytes: int | None  # of one GPU
    utilization: str | None
    kv_dtype: list[str]
    weights: list[str]
    engine: str | None
    engine_version: str | None
    max_num_seqs: int | None  # how the engine runs, as it was said
    max_num_batched_tokens: int | None
    enforce_eager: bool | None
    language_model_only: bool | None
    tp: int | None  # only what was fixed, as the next three
    pp: int | None
    dp: int | None
    dcp: int | None
    across_machines: bool
    overhead_bytes: int | None  # on each GPU
    lora: str | None  # N:RANK, room for N adapters
    beside: list[str]  # other models on the same GPU
    prefix_hit: float  # the share of a prompt that stands in the cache
    ttft_seconds: float | None  # targets, as the next two
    tpot_seconds: float | None
    e2e_seconds: float | None
    percentile: float  # of requests, for which they hold
    count: Literal["machine", "any"]  # of GPUs in a replica
    sort: Literal["rank", "price", "tpot", "rate"]
    trace: TraceMix | None


class AttainedShares(TypedDict):
    """What of a card's peaks is counted with, and the seconds that an engine adds to each step."""

    bandwidth: float
    compute: float
    fixed_seconds: float


class ReplicaLoad(TypedDict):
    """One replica at work. What follows from its batch is null where no batch would keep up."""

    requests_per_second: float
    requests_per_second_at_full_pool: float
    concurrency: float | None  # sequences, on average
    seconds_per_token: float | None  # of one sequence
    prefill_load: float  # the share of the time that goes to prompts
    prefill_seconds: float  # of a mean prompt that comes alone
    wait_seconds: float | None  # of 95 in 100 requests at most
    context: float  # tokens of a sequence in the batch, on average
    mean_tokens: float | None  # in the pool
    p99_tokens: float | None
    mean_share: float | None  # of the pool
    p99_share: float | None
    attained: AttainedShares


class TokenCost(TypedDict):
    """What a million tokens cost: the whole price, over the tokens of one kind."""

    input: float
    output: float


class MetTargets(TypedDict):
    """Shares of requests that meet each target, null where there is none, and all of them."""

    ttft: float | None
    tpot: float | None
    e2e: float | None
    all: float


class ReplayedRow(TypedDict):
    """What the requests of the trace met on a row, as `simulate` has it."""

    replicas: int
    queue_seconds: TimeValues
    ttft_seconds: TimeValues
    tpot_seconds: TimeValues
    e2e_seconds: TimeValues
    requests_per_second: float
    output_tokens_per_second: float
    preempted_requests: int
    refused_requests: int
    binding: str | None  # kv, engine or compute: what requests wait for; null where few wait
    attainment: MetTargets | None  # null without targets
    goodput_requests_per_second: float | None
    token_hit_rate: float | None
    command: str  # replays it again


class PlanOption(TypedDict):
    """A row: one way to serve what is asked."""

    gpu: str | None  # null for memory without a name
    gpus: int
    tp: int
    pp: int
    dp: int
    dcp: int
    ep: int
    kv_dtype: str
    weights_dtype: str | None  # null where they have a size alone
    users: int  # sequences at once that it was found for
    max_batch: int | None  # null: without a limit
    max_batch_low: int | None  # with the most that overheads may take
    max_batch_high: int | None
    max_context: int | None  # at so many users; null: without a limit
    capacity_tokens: int | None
    headroom: float  # the share of the cache's budget that is left
    binding: str  # what stops one more sequence
    vram_bytes_per_gpu: int | None
    memory_source: str  # where the card's memory was read; `given` with --vram
    utilization: float | None
    weights_bytes_per_gpu: int | None
    overhead_bytes_per_gpu: int
    kv_budget_bytes_per_gpu: int
    kv_bytes_per_gpu: int
    overheads: list[OverheadLine]
    tight: bool  # it does not do with the most that overheads may take
    machines: list[str]  # machine types that have so many of the card; a replica may take several
    load: ReplicaLoad | None  # null without lengths, as the times that follow
    tpot_seconds: float | None  # of a token, on average
    tpot_seconds_low: float | None
    tpot_seconds_high: float | None
    ttft_seconds: float | None  # to the first token, on average
    ttft_seconds_low: float | None
    ttft_seconds_high: float | None
    prefill_seconds: float | None  # of a mean prompt that comes alone
    prefill_seconds_low: float | None
    prefill_seconds_high: float | None
    requests_per_second: float | None  # of the whole row: those asked for, or those of so many users
    max_requests_per_second: float | None  # of the whole row, with a full pool
    replayed: ReplayedRow | None  # with --trace: the times above are its means
    price_per_hour: float | None  # of all GPUs, by the user's own prices
    cost_per_million_tokens: TokenCost | None  # null without a price or lengths
    command: str | None  # sizes this row again
    engine_flags: dict[str, str | None]  # by engine: the command that starts one server
    engine_lacks: dict[str, str]  # by engine: why there is none
    servers: dict[str, int]  # by engine: how many are started so


class RefusedGpus(TypedDict):
    """A number of a card that does not do."""

    gpu: str | None
    gpus: int
    max_batch: int
    binding: Binding
    why: str


class FormatChange(TypedDict):
    """What other formats would come to; null where they help nothing."""

    option: str
    kv_dtype: str
    weights_dtype: str
    gpu: str | None
    gpus: int | None
    max_batch: int | None
    words: str


class PlanDocument(Document):
    """The answer of `kvcalc plan`."""

    schema: Literal["kvcalc.plan/1"]
    model: ModelFacts
    request: PlanRequest
    best: PlanOption | None  # the first option; null where there is no plan
    options: list[PlanOption]  # best first
    why_not: RefusedGpus | None  # why one GPU less than in the best does not do
    refused: list[RefusedGpus]
    changes: list[FormatChange]
