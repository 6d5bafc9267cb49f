"""The documents of `models` and `gpus`: a list, or one of it."""

from typing import Literal, TypedDict

from kvcalc.views.types.model import Document, KvSizes, ModelFacts

__all__ = [
    "CardDocument", "CardFacts", "CardListDocument", "CardRequest", "MachineDocument", "MachineFacts",
    "ModelDocument", "ModelListDocument", "ModelListRequest", "ModelRequest", "PresetFacts", "SourcedCard",
    "SourcedFact",
]  # fmt: skip


class ModelListRequest(TypedDict):
    """Which presets were asked for."""

    name: str | None
    family: str | None
    attention: str | None


class ModelRequest(ModelListRequest):
    """Which preset was asked for."""

    context: int  # the model's limit, where it has one


class PresetFacts(ModelFacts):
    """A preset with the two numbers of a long context."""

    bytes_per_token: int
    fixed_bytes_per_sequence: int


class ModelListDocument(Document):
    """The answer of `kvcalc models`."""

    schema: Literal["kvcalc.models/1"]
    model: None
    request: ModelListRequest
    models: list[PresetFacts]


class ModelDocument(Document):
    """One preset."""

    schema: Literal["kvcalc.models/1"]
    model: ModelFacts
    request: ModelRequest
    kv: KvSizes


class CardRequest(TypedDict):
    """Which cards were asked for."""

    name: str | None
    vendor: str | None
    sort: str | None
    gpu_file: str | None


class CardFacts(TypedDict):
    """An accelerator, in the units in which its facts are published."""

    name: str
    label: str
    vendor: str | None
    memory_bytes: int  # that a process gets
    memory_source: str
    marketing_gb: int | None
    driver_mib: int | None
    runtime_gib: float | None
    bandwidth_gb_s: float | None
    tflops_16bit: float | None  # of dense matrices, as the next two
    tflops_fp8: float | None
    tflops_fp4: float | None
    bf16: bool
    capability: str | None  # CUDA's
    link: str | None
    link_gb_s: float | None  # in one direction
    machine: int  # cards in one
    price: float | None  # an hour's, by the user's own file
    file: str | None  # of the user's, which has it
    note: str | None
    here: int | None  # how many this machine has, where that was asked


class SourcedFact(TypedDict):
    """A fact with where it was read."""

    fact: str
    value: str | None
    confidence: str | None
    source: str | None


class SourcedCard(CardFacts):
    """An accelerator with the sources of its facts."""

    facts: list[SourcedFact]


class MachineFacts(TypedDict):
    """A machine type of a cloud."""

    name: str
    cloud: str
    gpu: str
    gpus: int  # 0 where it has a part of one
    cloud_mib: int | None  # memory of each, as the cloud's catalogue has it
    confidence: str
    note: str | None


class CardListDocument(Document):
    """The answer of `kvcalc gpus`."""

    schema: Literal["kvcalc.gpus/1"]
    model: None
    request: CardRequest
    gpus: list[CardFacts]


class CardDocument(Document):
    """One card."""

    schema: Literal["kvcalc.gpus/1"]
    model: None
    request: CardRequest
    gpu: SourcedCard
    machines: list[MachineFacts]  # that have it


class MachineDocument(Document):
    """One machine type."""

    schema: Literal["kvcalc.gpus/1"]
    model: None
    request: CardRequest
    machine: MachineFacts
    gpu: CardFacts
