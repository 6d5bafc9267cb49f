"""The document of `verify`."""

from typing import Literal, TypedDict

from kvcalc.core.model import Kind
from kvcalc.views.types.model import Document, ModelFacts

__all__ = ["VerifyDocument", "VerifyRow"]


class VerifyRequest(TypedDict):
    """Every input and default in force."""

    context: int
    batch: int
    encoder_tokens: int | None
    engine: Literal["transformers"]
    engine_version: str  # whose rules hold


class InstalledVersions(TypedDict):
    """What the cache was built with."""

    transformers: str
    torch: str


class VerifyRow(TypedDict):
    """Equal caches after one step."""

    step: str  # prefill or decode
    tokens: int  # of each sequence
    kind: Kind | None  # null for tensors that nothing was predicted for
    name: str
    count: int
    predicted_bytes: int
    real_bytes: int
    equal: bool
    layers: list[int]  # that differ


class VerifyDocument(Document):
    """The answer of `kvcalc verify`. Bytes are those after the last step."""

    schema: Literal["kvcalc.verify/1"]
    model: ModelFacts
    request: VerifyRequest
    installed: InstalledVersions
    model_class: str
    configuration: Literal["file", "facts"]  # what it was built of
    verdict: Literal["equal", "different"]
    layers: list[int]  # that differ after some step
    predicted_bytes_total: int
    real_bytes_total: int
    predicted_held_bytes_total: int  # storage that the tensors keep alive
    real_held_bytes_total: int
    rows: list[VerifyRow]
