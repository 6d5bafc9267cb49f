"""The document of `plan`."""

from typing import Literal, TypedDict

from kvcalc.planner.reasons import Binding
from kvcalc.views.types.model import Document, ModelFacts

__all__ = [
    "AttainedShares", "FormatChange", "OverheadLine", "PlanDocument", "PlanOption", "PlanRequest", "RefusedGpus",
    "ReplicaLoad",
]  # fmt: skip


class PlanRequest(TypedDict):
    """Every input and default in force."""

    context: int  # of the longest sequence
    users: int
    input: str | None  # MEAN or MEAN/P95 tokens
    output: str | None
    rate: float | None  # requests a second
    shared_prefix: int  # tokens
    encoder_tokens: int | None
    gpus: list[str | None]  # to choose from: NAME, or NxNAME; null is memory without a name
    max_gpus: int
    vram_bytes: int | None  # of one GPU
    utilization: str | None
    kv_dtype: list[str]
    weights: list[str]
    engine: str | None
    engine_version: str | None
    tp: int | None  # only what was fixed, as the next three
    pp: int | None
    dp: int | None
    dcp: int | None
    across_machines: bool
    overhead_bytes: int | None  # on each GPU
    sort: Literal["rank", "price"]


class OverheadLine(TypedDict):
    """What a GPU holds beside weights and cache: bytes with their range. `inside`: it comes off the engine's share;
    `saving`: what would give memory back.
    """

    name: str
    bytes: int
    bytes_low: int
    bytes_high: int
    rule: str
    source: str
    inside: bool
    saving: str | None


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


class PlanOption(TypedDict):
    """A row: one way to serve what is asked."""

    gpu: str | None  # null for memory without a name
    gpus: int
    tp: int
    pp: int
    dp: int
    dcp: int
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
    load: ReplicaLoad | None  # null without lengths
    price_per_hour: float | None  # of all GPUs, by the user's own file
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
