"""What the Python interface returns: typed answers, as documents, as rows, and as tables of notebooks."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kvcalc.core.fitting import Fit

if TYPE_CHECKING:
    from kvcalc.core.sizing import Size
    from kvcalc.engines.base import Reservation
    from kvcalc.grid.sweep import GridCell, Plane
    from kvcalc.jobs import Workers
    from kvcalc.logs.compare import Checked
    from kvcalc.perf.tradeoff import Comparison
    from kvcalc.planner.rows import PlanRow
    from kvcalc.queries.check import CheckAnswer, Verdict
    from kvcalc.queries.grid_question import GridAnswer
    from kvcalc.queries.plan import PlanAnswer
    from kvcalc.queries.size import SizeAnswer, SizeQuestion
    from kvcalc.queries.tradeoff import TradeoffAnswer
    from kvcalc.views.report import Report
    from kvcalc.views.types.check import CheckDocument
    from kvcalc.views.types.grid import CompareDocument, SweepDocument
    from kvcalc.views.types.plan import PlanDocument
    from kvcalc.views.types.size import SizeDocument
    from kvcalc.views.types.tradeoff import TradeoffDocument

__all__ = [
    "CheckResult", "CompareResult", "FitResult", "PlanResult", "Result", "SizeResult",
    "SweepResult", "TradeoffResult",
]  # fmt: skip

Row = dict[str, Any]


class Result:
    """An answer: what all of them can do."""

    def to_dict(self) -> Mapping[str, Any]:
        """The document that `--json` prints. Bytes are ints, under keys that contain `bytes`."""
        raise NotImplementedError

    def rows(self) -> list[Row]:
        """Flat rows, the same as CSV's: what `pandas.DataFrame` takes."""
        from kvcalc.views.document import flat

        return [dict(flat(self.to_dict()))]

    def _report(self) -> "Report":
        raise NotImplementedError

    def _repr_html_(self) -> str:
        from kvcalc.render.html import fragment

        return fragment(self._report(), "iec")


class SizeResult(Result):
    """The size of a cache, and what fits.

    Attributes:
        size: The exact size, in bytes.
        fit: What fits into the memory that was given; None where none was.
        reservation: What the named engine reserves; None without one.
        warnings: What the asker should know, one sentence each.
        question: What was asked, for asking it again with a memory.
    """

    def __init__(self, answer: "SizeAnswer", question: "SizeQuestion") -> None:
        self._answer = answer
        self.question = question
        self.size: Size = answer.size
        self.fit: Fit | None = answer.fit
        self.reservation: Reservation | None = answer.reservation
        self.warnings: tuple[str, ...] = answer.warnings

    @property
    def bytes_per_token(self) -> int:
        """Bytes that one more token of each sequence takes at the asked context, in the whole model."""
        return self.size.bytes_per_token

    @property
    def bytes_per_sequence(self) -> int:
        """Bytes of one sequence."""
        return self.size.bytes_per_sequence

    @property
    def bytes_total(self) -> int:
        """Bytes of the batch, all GPUs together, without what is held twice."""
        return self.size.bytes_total

    @property
    def bytes_per_gpu(self) -> int:
        """Bytes on the GPU that holds most."""
        return self.size.bytes_per_gpu

    def to_dict(self) -> "SizeDocument":
        from kvcalc.views.size import size_document

        return size_document(self._answer)

    def _report(self) -> "Report":
        from kvcalc.views.size_words import size_report

        return size_report(self._answer, explain=False)

    def __repr__(self) -> str:
        return repr(self.size)


class FitResult(Fit, Result):
    """What fits into a memory: a `Fit`, and the whole answer of `size` in which it stands.

    Attributes:
        warnings: What the asker should know, one sentence each.
    """

    _answer: "SizeAnswer"
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, answer: "SizeAnswer") -> "FitResult":
        """The fit of an answer that has one."""
        assert answer.fit is not None
        found = cls(*answer.fit)
        found._answer, found.warnings = answer, answer.warnings
        return found

    def to_dict(self) -> "SizeDocument":
        from kvcalc.views.size import size_document

        return size_document(self._answer)

    def _report(self) -> "Report":
        from kvcalc.views.size_words import size_report

        return size_report(self._answer, explain=False)


class PlanResult(Result):
    """Which GPUs, how many, split how.

    Attributes:
        best: The first row; None where there is no plan.
        options: All rows that no other of the same card and formats beats, best first.
        warnings: What the asker should know.
    """

    def __init__(self, answer: "PlanAnswer") -> None:
        self._answer = answer
        self.best: PlanRow | None = answer.best
        self.options: Sequence[PlanRow] = answer.proposal.rows
        self.warnings: tuple[str, ...] = answer.warnings

    def to_dict(self) -> "PlanDocument":
        from kvcalc.views.plan import plan_document

        return plan_document(self._answer)

    def rows(self) -> list[Row]:
        from kvcalc.views.document import flat
        from kvcalc.views.plan import rows

        return [dict(flat(row)) for row in rows(self.to_dict())]

    def _report(self) -> "Report":
        from kvcalc.views.plan_words import plan_report

        return plan_report(self._answer)


class SweepResult(Result):
    """Many sizes of one model.

    Attributes:
        cells: Every plane with each of its cells, the last axis first to change.
        warnings: What the asker should know.
    """

    def __init__(self, answer: "GridAnswer", workers: "Workers | None" = None) -> None:
        self._answer = answer
        self.warnings: tuple[str, ...] = answer.warnings
        if workers is not None:  # which need not be there for long
            self.cells = list(answer.grid.answers(workers))

    @cached_property
    def cells(self) -> "Sequence[tuple[Plane, GridCell]]":
        """Worked out when they are first asked for."""
        return list(self._answer.grid.answers())

    def to_dict(self) -> "SweepDocument":
        from kvcalc.views.sweep import sweep_document

        rows: list[Any] = self.rows()  # KEYS are the keys of SweepRow, which a test sees to
        return {**sweep_document(self._answer), "rows": rows}

    def rows(self) -> list[Row]:
        from kvcalc.views.sweep import KEYS, rows

        return [dict(zip(KEYS, row, strict=True)) for row in rows(self._answer.model, self.cells)]

    def _report(self) -> "Report":
        from kvcalc.views.sweep import sweep_report

        return sweep_report(self._answer, self.cells, "page")


class CompareResult(Result):
    """Models, formats or engines side by side.

    Attributes:
        warnings: What the asker should know.
    """

    def __init__(self, answers: "Sequence[GridAnswer]", warnings: Sequence[str]) -> None:
        from kvcalc.views.compare import compared

        self._answers = answers
        self.warnings: tuple[str, ...] = tuple(warnings)
        self._compared = compared(answers)

    def to_dict(self) -> "CompareDocument":
        from kvcalc.views.compare import compare_document

        rows: list[Any] = self.rows()  # KEYS are the keys of CompareRow, which a test sees to
        return {**compare_document(self._answers, self.warnings), "rows": rows}

    def rows(self) -> list[Row]:
        from kvcalc.views.compare import KEYS, rows

        return [dict(zip(KEYS, row, strict=True)) for row in rows(self._compared)]

    def _report(self) -> "Report":
        from kvcalc.views.compare import compare_report

        return compare_report(self._compared, self.warnings, "page")


class TradeoffResult(Result):
    """What caching buys.

    Attributes:
        comparison: FLOPs and seconds with the cache and without it.
        size: The cache that it is about.
        warnings: What the asker should know.
    """

    def __init__(self, answer: "TradeoffAnswer") -> None:
        self._answer = answer
        self.comparison: Comparison = answer.comparison
        self.size: Size = answer.size
        self.warnings: tuple[str, ...] = tuple(answer.warnings)

    def to_dict(self) -> "TradeoffDocument":
        from kvcalc.views.tradeoff import tradeoff_document

        return tradeoff_document(self._answer)

    def _report(self) -> "Report":
        from kvcalc.views.tradeoff import tradeoff_report

        return tradeoff_report(self._answer, "iec")


class CheckResult(Result):
    """A log beside the prediction.

    Attributes:
        verdict: `match`, `mismatch` or `unknown`, over all lines.
        checked: Each start of an engine, with each number and what it should be.
        warnings: What the asker should know.
    """

    def __init__(self, answer: "CheckAnswer") -> None:
        from kvcalc.views.check import verdict

        self._answer = answer
        self.verdict: Verdict = verdict(answer.checked)
        self.checked: tuple[Checked, ...] = answer.checked
        self.warnings: tuple[str, ...] = answer.warnings

    def to_dict(self) -> "CheckDocument":
        from kvcalc.views.check import check_document

        return check_document(self._answer.file, self._answer.starts, self._answer.warnings)

    def rows(self) -> list[Row]:
        from kvcalc.views.check import rows

        return [dict(row) for row in rows(self.to_dict())]

    def _report(self) -> "Report":
        from kvcalc.views.check import check_report

        return check_report(self._answer.starts, self._answer.warnings)
