"""A question from its parts: a model, the options, and an engine with its own flags where one is named."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.options import Given, request_of
from kvcalc.cli.shell import load_model
from kvcalc.document import Value
from kvcalc.errors import KvcalcError
from kvcalc.fitting import Holding
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

    def engine_values(self) -> dict[str, Value] | None:
        """The `engine` object of the JSON."""
        if self.reservation is None:
            return None
        from kvcalc.reserved import engine_values

        return engine_values(self.reservation)

    def engine_part(self) -> "EnginePart | None":
        """The engine's part of the report."""
        if self.reservation is None:
            return None
        from kvcalc.reserved import engine_part

        return engine_part(self.reservation)


def question_of(source: str | None, behind: Sequence[str] | None, given: Given) -> Asked:
    """Load the model, size it, and ask the engine that `--engine` or the words behind `--` name."""
    if given["engine"] is None and behind is None:
        return Asked(measure(request_of(_load(source, given), given)))

    from kvcalc.launching import launch  # engines are not what a short question asks about
    from kvcalc.reserving import Question, rank_bytes, reserve

    started = launch(given["engine"], behind)
    model = _load(source if source is not None else started.model, given)
    stated = started.engine.asked(started.program, started.read, model)
    size = measure(request_of(model, given, stated.options))
    question = Question(size.request, size.placement, started.version, stated.knobs)
    reservation = reserve(started.engine, question)
    holding = Holding(
        lambda sequences, tokens: rank_bytes(started.engine.plan(question.at(sequences, tokens))),
        started.engine.most_sequences,
    )
    warnings = (*started.warnings, *stated.warnings, *reservation.plan.warnings)
    return Asked(size, reservation, holding, warnings)


def _load(source: str | None, given: Given) -> "Model":
    if source is None:
        raise KvcalcError("MODEL: expected a model", "try `kvcalc llama3-70b --batch 8`, or see `kvcalc --help`")
    return load_model(source, assume_dense=given["assume_dense"])
