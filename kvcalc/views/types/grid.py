"""The documents of `sweep` and `compare`."""

from typing import Literal, TypedDict

from kvcalc.core.memory import Binding
from kvcalc.views.types.model import Document, ModelFacts

__all__ = [
    "CompareDocument", "CompareHead", "CompareRow", "GridOptions", "SweepDocument", "SweepHead", "SweepRequest",
    "SweepRow",
]  # fmt: skip


class GridOptions(TypedDict):
    """The options in force that are not on an axis."""

    k_dtype: str | None
    v_dtype: str | None
    kv_heads: int | Literal["all"] | None
    encoder_tokens: int | None
    pp: int | None
    dp: int | None
    dcp: int | None
    ep: int | None  # ranks that share the experts, each with whole ones
    dp_attention: bool | None  # the replicas share one copy of the experts
    utilization: float | None
    vram_bytes: int | None  # of one GPU
    kv_memory_bytes: int | None
    overhead_bytes: int | None
    lora: str | None  # N:RANK
    draft: str | None
    beside: list[str]
    max_num_seqs: int | None  # how the engine runs, as it was said
    max_num_batched_tokens: int | None
    enforce_eager: bool | None
    language_model_only: bool | None


class SweepRequest(GridOptions):
    """The values on each axis, none where it has no choice, and the other options."""

    gpu: list[str]
    weights: list[str]
    engine: list[str]
    kv_dtype: list[str]
    tp: list[int]
    context: list[int]
    batch: list[int]


class SweepRow(TypedDict):
    """One answer, flat. What was not asked is null, and sizes also where the question was refused."""

    model: str  # its name
    gpu: str | None
    weights: str | None
    engine: str | None
    engine_version: str | None
    kv_dtype: str | None  # as it was chosen
    k_dtype: str | None
    v_dtype: str | None
    tp: int | None
    pp: int | None
    dp: int | None
    dcp: int | None
    ep: int | None
    gpus: int | None
    context: int
    batch: int
    bytes_per_token: int | None
    bytes_per_sequence: int | None
    bytes_total: int | None
    bytes_total_per_gpu: int | None
    textbook_bytes_total: int | None
    reserved_bytes_total: int | None
    reserved_bytes_per_gpu: int | None
    kv_budget_bytes_per_gpu: int | None
    max_batch: int | None
    capacity_tokens: int | None
    fits: bool | None
    binding: Binding | None
    refused: str | None  # why


class CompareRow(SweepRow):
    """One answer beside those of others."""

    attention: str
    layers: int
    model_max_context: int | None  # its published limit
    textbook_ratio: float | None  # the cache as a part of its textbook size
    max_context: int | None  # that fits at the asked batch


class SweepHead(Document):
    """The document without its rows, which are written as they are worked out."""

    schema: Literal["kvcalc.sweep/1"]
    model: ModelFacts
    request: SweepRequest


class SweepDocument(SweepHead):
    """The answer of `kvcalc sweep`."""

    rows: list[SweepRow]


class CompareHead(Document):
    """The document without its rows."""

    schema: Literal["kvcalc.compare/1"]
    model: list[ModelFacts]
    request: GridOptions


class CompareDocument(CompareHead):
    """The answer of `kvcalc compare`."""

    rows: list[CompareRow]
