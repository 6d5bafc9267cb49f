"""The document of the default verb: the size of a cache, what fits, and what an engine reserves."""

from typing import Literal, NotRequired, TypedDict

from kvcalc.core.memory import Binding
from kvcalc.views.types.model import Document, KvSizes, ModelFacts

__all__ = [
    "OPEN",
    "DeviceLine",
    "EngineCapacity",
    "EngineDifference",
    "EngineLayer",
    "EngineNotes",
    "EngineSizes",
    "EngineTotals",
    "FitValues",
    "OverheadLine",
    "SavingLine",
    "SizeDocument",
    "SizeRequest",
    "SumTerm",
    "TextbookSize",
]  # fmt: skip


class SizeRequest(TypedDict):
    """Every input and default in force."""

    context: int
    batch: int
    k_dtype: str
    v_dtype: str
    state_dtype: str | None
    kv_heads: int | Literal["all"] | None  # only where they were asked for in place of the model's
    encoder_tokens: int | None
    images: str | None  # N or N:WIDTHxHEIGHT, of each sequence
    image_tokens: int | None  # of one, which are among those of the context
    tp: int
    pp: int
    dp: int
    dcp: int
    ep: int  # ranks that share the experts, each with whole ones
    dp_attention: bool  # the replicas share one copy of the experts
    gpus: int
    vram_bytes: int | None  # of one GPU
    utilization: float | None
    weights: str | int | None  # a format, or bytes of the whole model
    overhead_bytes: int | None  # on each GPU
    lora: str | None  # N:RANK, room for N adapters
    draft: str | None  # a model that drafts tokens
    beside: list[str]  # other models on the same GPU
    gpu: str | None
    memory_source: str | None  # where that card's memory was read; `given` with --vram
    kv_memory_bytes: int | None  # of one GPU
    engine: str | None
    engine_version: str | None
    block_size: int | None  # tokens of the engine's block or page
    max_num_seqs: int | None  # how the engine runs, as it was said
    max_num_batched_tokens: int | None
    enforce_eager: bool | None
    language_model_only: bool | None


class TextbookSize(TypedDict):
    """2 x batch x heads x layers x context x d_k x bytes per element, with every query head cached."""

    bytes_per_token: int
    bytes_per_sequence: int
    bytes_total: int
    formula: str


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


class FitValues(TypedDict):
    """What fits into a budget. What a GPU's memory goes to is null where the budget is one for the cache alone."""

    vram_bytes_per_gpu: int | None
    memory_source: str | None
    gpus: int | None
    utilization: float | None
    weights_bytes_per_gpu: int | None
    weights_on_host_bytes_per_gpu: int | None  # of each GPU's; null where an engine is not asked to keep any there
    overhead_bytes_per_gpu: int | None
    overheads: list[OverheadLine]
    overheads_of: str | None  # the engine whose estimates they are
    kv_budget_bytes_per_gpu: int  # below zero where weights and overhead take more than there is
    kv_budget_bytes_per_gpu_low: int | None  # null where nothing is estimated
    kv_budget_bytes_per_gpu_high: int | None
    kv_bytes_per_gpu: int  # on the fullest, of what was asked
    max_batch: int | None  # sequences of the asked context; null: without a limit, as the next two
    max_context: int | None  # at the asked batch
    capacity_tokens: int | None
    fits: bool | None
    binding: Binding  # what stops one more sequence
    context_binding: Binding  # what stops one more token
    gpus_for_weights: int | None  # the fewest that hold the weights


class EngineTotals(TypedDict):
    """What an engine reserves for the asked batch and context."""

    name: str
    version: str  # whose rules hold
    reserved_bytes_total: int
    reserved_bytes_per_gpu: int  # on the fullest
    exact_bytes_total: int


class EngineDifference(TypedDict):
    """What one rule of an engine adds to the exact size, or takes off."""

    why: str
    bytes: int
    source: str


class EngineLayer(TypedDict):
    """Equal caches of one stage, for the sequences of the fullest replica. Open: its bytes part by part."""

    name: str
    count: int
    stage: int
    exact_bytes: int
    reserved_bytes: int


class EngineNotes(TypedDict):
    """How an engine comes to its totals."""

    differences: list[EngineDifference]
    layers: list[EngineLayer]
    notes: list[str]
    log_lines: list[str]  # in which it would say so


class EngineCapacity(TypedDict, total=False):
    """What an engine with a pool counts in a budget, as it would log it."""

    capacity_tokens: int
    capacity_tokens_low: int | None  # where the budget is an estimate
    capacity_tokens_high: int | None
    max_concurrency: float | None  # sequences of the asked context
    log_lines: list[str]


class EngineSizes(EngineTotals, EngineNotes):
    """What an engine reserves. Open: settings, counts and parts that only some engines have."""

    block_size: NotRequired[int]
    bytes_per_block: NotRequired[int]
    blocks_per_sequence: NotRequired[int]
    num_blocks: NotRequired[int]
    capacity_tokens: NotRequired[int]
    capacity_tokens_low: NotRequired[int | None]
    capacity_tokens_high: NotRequired[int | None]
    max_concurrency: NotRequired[float | None]
    swa_tokens: NotRequired[int]  # of the pool for windows
    state_slots: NotRequired[int | None]
    cells: NotRequired[int | None]  # llama.cpp's, of one token each
    streams: NotRequired[int | None]  # llama.cpp's, of cells
    k_bytes: NotRequired[int]  # on the fullest replica, as the next two
    v_bytes: NotRequired[int]
    state_bytes: NotRequired[int]
    held_bytes_total: NotRequired[int]  # live storage; windows of transformers are views of more


# Of what type the keys are that an engine adds to these.
OPEN: dict[type, object] = {EngineSizes: int | str | bool | None, EngineLayer: int}


class DeviceLine(TypedDict):
    """What a device or the host holds, where an engine's flags place layers: bytes."""

    name: str
    layers: int  # with the output counted as one more where it lies
    weights_bytes: int
    cache_bytes: int
    compute_bytes: int
    compute_bytes_low: int
    compute_bytes_high: int
    output_bytes: int
    beside_bytes: int
    fits: bool | None  # null for the host, and where the range of the buffer decides


class SavingLine(TypedDict):
    """A change that would give memory back, and what each GPU would have with it."""

    change: str  # an option with its value
    bytes: int  # more for the cache
    kv_budget_bytes_per_gpu: int
    capacity_tokens: int | None


class SumTerm(TypedDict):
    """One line of --explain."""

    name: str
    sum: str
    bytes: int
    source: str


class SizeDocument(Document):
    """The answer of `kvcalc MODEL`."""

    schema: Literal["kvcalc.size/1"]
    model: ModelFacts
    request: SizeRequest
    kv: KvSizes
    textbook: TextbookSize | None  # null without attention
    fit: FitValues | None  # null without a budget
    engine: EngineSizes | None  # null without --engine
    explain: NotRequired[list[SumTerm]]
    devices: NotRequired[list[DeviceLine]]  # where an engine's flags place layers on devices and the host
    savings: NotRequired[list[SavingLine]]  # with --explain, of the memory of a GPU
