"""A question from its parts: a model, the options, and an engine with its own flags where one is named."""

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.options import Given, request_of
from kvcalc.cli.shell import load_model, standard_input
from kvcalc.document import Value
from kvcalc.errors import KvcalcError
from kvcalc.fitting import Fit, Holding
from kvcalc.sizing import Size, measure

if TYPE_CHECKING:
    from kvcalc.launching import Launch
    from kvcalc.model import Model
    from kvcalc.report import EnginePart
    from kvcalc.reserving import Reservation

__all__ = ["Asked", "question_of"]


class Asked(NamedTuple):
    """The sized question, and what the named engine reserves for it.

    `stored`: how the weights that it runs are packed, where the model's own are not.
    """

    size: Size
    reservation: "Reservation | None" = None
    holding: Holding | None = None
    warnings: tuple[str, ...] = ()
    stored: str | None = None

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

    started = launch(given["engine"], behind, partial(_pasted, source))
    model = _load(source, given) if source is not None or behind is None else _named_model(started, given)
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
    own = {f"--{name.replace('_', '-')}" for name in given}
    behind_it = [f"{name}: options of kvcalc stand in front of --" for name in started.read.unknown if name in own]
    warnings = (*behind_it, *started.warnings, *stated.warnings, *reservation.plan.warnings)
    return Asked(size, reservation, holding, warnings, started.engine.stored(started.program, started.read, model))


def _pasted(source: str | None) -> bytes:
    """The text of a start-up command, from standard input."""
    if source == "-":
        raise KvcalcError("-: standard input cannot be the model and the command", "give MODEL by its name or its path")
    return standard_input("a start-up command, or a file with one")


def _named_model(started: "Launch", given: Given) -> "Model":
    """The model of a command. Its file may be on another machine: then MODEL must say what it is."""
    named = started.model
    if named is None:
        raise KvcalcError("MODEL: expected a model, and the command names none", started.in_front())
    try:
        return _load(named, given)
    except KvcalcError as error:
        if os.path.exists(named):  # it is here, and has a fault
            raise
        raise KvcalcError(error.message, started.in_front()) from None


def _load(source: str | None, given: Given) -> "Model":
    if source is None:
        raise KvcalcError("MODEL: expected a model", "try `kvcalc llama3-70b --batch 8`, or see `kvcalc --help`")
    return load_model(source, assume_dense=given["assume_dense"])
