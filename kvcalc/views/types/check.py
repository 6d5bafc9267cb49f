"""The document of `check`."""

from typing import Literal, TypedDict

from kvcalc.logs.compare import Verdict
from kvcalc.views.types.model import Document, ModelFacts

__all__ = ["CheckDocument", "CheckRequest", "LogLine", "LogRun"]


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
    verdict: Verdict
    why: str | None


class LogRun(TypedDict):
    """One start of an engine."""

    engine: str
    version: str | None  # as the log names it
    rules_of: str  # the version whose rules hold for it
    verdict: Verdict
    assumed: str | None  # what is not in the log and makes its numbers agree
    explanations: list[str]  # what would make them agree
    model: ModelFacts
    request: CheckRequest


class CheckDocument(Document):
    """The answer of `kvcalc check`. Model and request are those of the first start."""

    schema: Literal["kvcalc.check/1"]
    log: str
    model: ModelFacts
    request: CheckRequest
    verdict: Verdict
    lines: list[LogLine]
    runs: list[LogRun]
