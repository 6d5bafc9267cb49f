"""A server's metrics, from Python."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcalc.api.arguments import card_of, flags_of, in_python, optional, path_of, source_of, text_of
from kvcalc.api.parts import form_of, split_of
from kvcalc.api.plans import seconds_of
from kvcalc.api.results import Result
from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError, escape
from kvcalc.queries.source import load_model

if TYPE_CHECKING:
    from kvcalc.queries.metrics import MetricsAnswer
    from kvcalc.sources.metrics import Metrics
    from kvcalc.views.report import Report
    from kvcalc.views.types.metrics import MetricsDocument

__all__ = ["MetricsResult", "metrics"]


class MetricsResult(Result):
    """What one snapshot or two say.

    Attributes:
        answer: The pool, what runs and waits, what is counted.
        warnings: What the asker should know.
    """

    def __init__(self, answer: "MetricsAnswer", files: Sequence[str]) -> None:
        self.answer, self._files = answer, files
        self.warnings = answer.warnings

    def to_dict(self) -> "MetricsDocument":
        from kvcalc.views.metrics import metrics_document

        return metrics_document(self.answer, self._files)

    def _report(self) -> "Report":
        from kvcalc.views.metrics import metrics_report

        return metrics_report(self.answer)


def metrics(
    file: str | os.PathLike[str],
    later: str | os.PathLike[str] | None = None,
    *,
    interval: str | float | None = None,
    model: Model | str | os.PathLike[str] | None = None,
    kv_dtype: str | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    gpu: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    engine: str | None = None,
    flags: Sequence[str] = (),
) -> MetricsResult:
    """What the text of a server's /metrics says, a file or an address, or of two of them, `interval` seconds apart; the
    command line has it under `check`. With a card and a model, the pool against the prediction. Raises KvcalcError.
    """
    from kvcalc.queries.check import CheckQuestion
    from kvcalc.queries.metrics import answer

    with in_python():
        names = [path_of(file, "file"), *([] if later is None else [path_of(later, "later")])]
        if interval is not None and later is None:
            raise KvcalcError("interval: lies between two snapshots", "add a later one")
        question = CheckQuestion(
            model=None if model is None else load_model(source_of(model)),
            form=form_of(kv_dtype, None, None, None),
            split=split_of(tp, pp, dp, None),
            gpu=card_of(gpu, gpu_file),
            engine=optional(text_of, engine, "engine"),
            words=flags_of(flags, "flags"),
        )
        read = [_read(name) for name in names]
        seconds = None if interval is None else seconds_of(interval, "interval")
        found = answer(read[0], read[1] if later is not None else None, seconds, question, escape(names[-1]))
        return MetricsResult(found, names)


def _read(path: str) -> "Metrics":
    from kvcalc.sources.addresses import fetched, is_address
    from kvcalc.sources.metrics import MOST, read_metrics

    if is_address(path):
        return read_metrics(fetched(path, MOST), escape(path))
    try:
        with open(path, "rb") as stream:
            return read_metrics(stream, escape(path))
    except OSError as error:
        raise KvcalcError(f"{escape(path)}: {error.strerror}") from None
