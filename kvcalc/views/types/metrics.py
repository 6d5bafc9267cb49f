"""The document of `check` for a server's metrics."""

from typing import Literal, TypedDict

from kvcalc.views.types.model import Document, ModelFacts

__all__ = ["MetricsDocument", "PoolValues", "RequestValues"]


class PoolValues(TypedDict):
    """The pools of all engines of the server, in tokens."""

    tokens: int | None
    predicted_tokens: int | None  # null without a card and a model, as the next three
    predicted_low: int | None  # what its estimates leave open
    predicted_high: int | None
    difference_percent: float | None  # of the prediction, above what there is
    used_tokens: int | None  # of requests that run
    free_tokens: int | None
    tokens_per_sequence: float | None  # mean of those that run
    more_sequences: int | None  # of that length, which still fit


class RequestValues(TypedDict):
    """Requests, between two snapshots or since the server began."""

    answered: int | None
    per_second: float | None  # between two snapshots, with --interval
    mean_input_tokens: float | None
    mean_output_tokens: float | None
    prefix_hit_rate: float | None
    preemptions: int | None


class MetricsDocument(Document):
    """The answer of `kvcalc check` to a server's metrics."""

    schema: Literal["kvcalc.metrics/1"]
    files: list[str]
    engine: str
    engines: int  # that report
    model_name: str | None  # as the server calls it
    model: ModelFacts | None
    running: int | None
    waiting: int | None
    binding: Literal["kv", "compute"] | None  # what keeps requests waiting; null where nothing does
    pool: PoolValues
    requests: RequestValues
    between: bool  # two snapshots were compared
    lengths: str | None  # as plan and simulate take them
