"""A question from its parts: a model, the options, and an engine with its own flags where one is named."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.options import Given, request_of
from kvcalc.cli.shell import load_model
from kvcalc.document import Value
from kvcalc.errors import KvcalcError
from kvcalc.fitting import Fit, Holding
from kvcalc.sizing import Size, measure

if TYPE_CHECKING:
    from kvcalc.model import Model
    from kvcalc.report import EnginePart
    from kvcalc.reserving import Reservation

__all__ = ["Asked", "question_of"]


class Asked(NamedTuple):
    """The sized question, and what the named engine reserves for it."""

    size: Size
    reservation: "Reservation | None" = None
    holding: Holding | None = None
    warnings: tuple[str, ...] = ()

    def engine_values(self, fitted: Fit | None) -> dict[str, Value] | None:
        """The `engine` object of the JSON, with what it counts where a budget was fitted."""
        if self.reservation is None:
            return None
        from kvcalc.reserved import engine_values

        return engine_values(self.reservation, None if fitted is None else max(fitted.room.kv_budget, 0))

    def engine_part(self, fitted: Fit | None) -> "EnginePart | None":
        """The engine's part of the report."""
        if self.reservation is None:
            return None
        from kvcalc.reserved import engine_part

        return engine_part(self.reservation, None if fitted is None else max(fitted.room.kv_budget, 0))


def question_of(source: str | None, behind: Sequence[str] | None, given: Given) -> Asked:
    """Load the model, size it, and ask the engine that `--engine` or the words behind `--` name."""
    if given["engine"] is None and behind is None:
        return Asked(measure(request_of(_load(source, given), given)))

    from kvcalc.launching import launch  # engines are not what a short question asks about
    from kvcalc.reserving import Question, reserve

    started = launch(given["engine"], behind)
    model = _load(source if source is not None else started.model, given)
    stated = started.engine.asked(started.program, started.read, model)
    size = measure(request_of(model, given, stated.options))
    question = Question(size.request, size.placement, started.version, stated.knobs).counted()
    reservation = reserve(started.engine, question)
    capacity = reservation.plan.capacity
    holding = Holding(
        reservation.plan.needed,
        lambda sequences, tokens, free: started.engine.plan(question.at(sequences, tokens)).fits(free),
        reservation.plan.most_sequences or started.engine.most_sequences,
        None if capacity is None else lambda free: capacity(free).tokens,
    )
    warnings = (*started.warnings, *stated.warnings, *reservation.plan.warnings)
    return Asked(size, reservation, holding, warnings)


def _load(source: str | None, given: Given) -> "Model":
    if source is None:
        raise KvcalcError("MODEL: expected a model", "try `kvcalc llama3-70b --batch 8`, or see `kvcalc --help`")
    return load_model(source, assume_dense=given["assume_dense"])
