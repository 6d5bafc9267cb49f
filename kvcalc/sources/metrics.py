"""A server's metrics in Prometheus' text format, as its /metrics has them, read by the format's own library."""

from collections.abc import Mapping
from math import isfinite
from typing import BinaryIO, NamedTuple

from kvcalc.errors import KvcalcError

__all__ = ["MOST", "Metrics", "Sample", "are_metrics", "read_metrics"]

MOST = 1 << 24  # bytes; vLLM's has some 200 KB for eight engines
_BEGINNINGS = (b"# HELP ", b"# TYPE ", b"vllm:", b"sglang:", b"trtllm_", b"llamacpp:")


class Sample(NamedTuple):
    """A number and its labels."""

    labels: Mapping[str, str]
    value: float


class Metrics:
    """The samples of one moment, by name."""

    def __init__(self, samples: Mapping[str, list[Sample]]) -> None:
        self._samples = samples

    def named(self, *names: str) -> list[Sample]:
        """The samples of the first of these names that has any."""
        return next((self._samples[name] for name in names if name in self._samples), [])

    def total(self, *names: str) -> float | None:
        """The sum over all labels, such as the engines of one server."""
        found = self.named(*names)
        return sum(sample.value for sample in found) if found else None

    def mean(self, *names: str) -> float | None:
        """The mean over all labels."""
        found = self.named(*names)
        return sum(sample.value for sample in found) / len(found) if found else None


def are_metrics(head: bytes) -> bool:
    """Whether a file that begins so holds metrics and no log."""
    return head.lstrip().startswith(_BEGINNINGS)


def read_metrics(stream: BinaryIO, name: str) -> Metrics:
    """Read one snapshot; `name` stands in messages. Raises KvcalcError for what is none, and without the library."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError:
        raise KvcalcError(
            f"{name}: metrics need prometheus-client, which is not installed", "pip install prometheus-client"
        ) from None
    data = stream.read(MOST + 1)
    if len(data) > MOST:
        raise KvcalcError(f"{name}: expected metrics of at most {MOST >> 20} MiB")
    found: dict[str, list[Sample]] = {}
    try:
        for family in text_string_to_metric_families(data.decode("utf-8")):
            for sample in family.samples:
                if isfinite(sample.value):
                    found.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))
    except (ValueError, KeyError, IndexError):  # the library's errors, and text that is no UTF-8
        raise KvcalcError(f"{name}: expected metrics in Prometheus' text format") from None
    return Metrics(found)
