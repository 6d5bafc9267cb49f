"""The document of `check`."""

from typing import Literal, TypedDict

from kvcalc.logs.compare import LineVerdict, Verdict
from kvcalc.views.types.model import Document, ModelFacts

__all__ = ["CheckDocument", "CheckRequest", "FailedStart", "LogLine", "LogRun"]


class CheckRequest(TypedDict):
    """What a start was taken for."""

    context: int
    batch: int
    k_dtype: str
    v_dtype: str
    kv_heads: int | Literal["all"] | None
    encoder_tokens: int | None
    engine: str
    engine_version: str
    tp: int
    pp: int
    dp: int
    dcp: int
    ep: int  # ranks that share the experts, each with whole ones
    dp_attention: bool  # the replicas share one copy of the experts


class LogLine(TypedDict):
    """A printed number. `printed`, `predicted`, `low` and `high` are in `unit`."""

    line: int  # its number in the log
    run: int  # the index of its start under `runs`
    engine: str
    quantity: str
    unit: str | None  # null for a count
    printed: float
    predicted: float | None  # null where nothing is to be expected, as the next two
    low: float | None  # the least that agrees
    high: float | None
    verdict: LineVerdict  # an estimate decides nothing
    why: str | None
    difference: float | None  # of an estimate: how much it is above what was printed, in `unit`
    difference_percent: float | None


class LogRun(TypedDict):
    """One start of an engine. What could not be known of one that failed is null."""

    engine: str
    version: str | None  # as the log names it
    rules_of: str | None  # the version whose rules hold for it
    verdict: Verdict
    assumed: str | None  # what is not in the log and makes its numbers agree
    explained_by: list[str]  # values of what the log leaves open, under each of which its numbers agree
    explanations: list[str]  # what would make them agree
    failed: bool
    model: ModelFacts | None
    request: CheckRequest | None


class FailedStart(TypedDict):
    """Why a start failed, and what would start; bytes are those of one GPU, or of one device."""

    line: int
    run: int  # the index of its start under `runs`
    engine: str
    what: str  # in words
    asked_context: int | None
    asked_batch: int | None
    needed_bytes: int | None
    available_bytes: int | None  # below zero where weights took more
    max_context: int | None  # of each of the asked sequences
    max_batch: int | None  # of sequences of the asked length
    change: list[str]  # flags, most likely first


class CheckDocument(Document):
    """The answer of `kvcalc check`. Model and request are those of the first start that could be compared."""

    schema: Literal["kvcalc.check/1"]
    log: str
    model: ModelFacts | None
    request: CheckRequest | None
    verdict: Verdict
    failed: FailedStart | None  # the first start that failed
    lines: list[LogLine]
    runs: list[LogRun]
