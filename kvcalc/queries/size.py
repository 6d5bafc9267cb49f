"""How large a cache is, what an engine reserves for it, and what fits: the question of the default verb."""

import os
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.fitting import Allocator, Budget, Fit, fit
from kvcalc.core.fitting import warnings as memory_warnings
from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sizing import Size, measure
from kvcalc.errors import KvcalcError
from kvcalc.queries.engine import EngineQuestion, ask_engine, budget_of_card
from kvcalc.queries.options import CacheFormat, EngineChoice, Memory, Split, Workload, budget_for
from kvcalc.queries.source import Source, load_model

if TYPE_CHECKING:
    from kvcalc.core.model import Model
    from kvcalc.engines.base import Reservation
    from kvcalc.launch.command import Launch

__all__ = ["SizeAnswer", "SizeQuestion", "answer"]

_AT_MOST = "the batch is the most that the command allows at once: it starts, and fewer or shorter sequences may fit"


class SizeQuestion(NamedTuple):
    """One size of one model.

    Attributes:
        source: The model.
        workload: Sequences and their lengths.
        form: The formats of keys and values.
        split: How it is split over GPUs.
        memory: What one GPU offers; nothing asks for no fit.
        engine: The engine that is asked, with its own flags; None for the exact size alone.
    """

    source: Source
    workload: Workload = Workload()
    form: CacheFormat = CacheFormat()
    split: Split = Split()
    memory: Memory = Memory()
    engine: EngineChoice = EngineChoice()


class SizeAnswer(NamedTuple):
    """The answer.

    Attributes:
        size: The exact size, in bytes.
        budget: What one GPU offers, with every default filled in; None where nothing was said of memory.
        fit: What fits into that budget; None without one.
        reservation: What the engine reserves; None where none was asked.
        warnings: What the asker should know, one sentence each.
    """

    size: Size
    budget: Budget | None
    fit: Fit | None
    reservation: "Reservation | None"
    warnings: tuple[str, ...]


class _Asked(NamedTuple):
    """A sized question, and what an engine reserves for it."""

    size: Size
    posed: EngineQuestion | None = None
    reservation: "Reservation | None" = None

    @property
    def allocator(self) -> Allocator | None:
        if self.reservation is None:
            return None
        from kvcalc.engines.base import allocator_of

        return allocator_of(self.reservation)

    def fit(self, budget: Budget | None) -> Fit | None:
        return None if budget is None else fit(self.size, budget, self.allocator)


def answer(question: SizeQuestion) -> SizeAnswer:
    """Size a model's cache, ask the engine, and fit both into the memory. Raises KvcalcError.

    An engine that shortens sequences to what fits, and was left that, is asked for the length to which it does.
    """
    stated = budget_for(question.memory)
    asked = _asked(question)
    budget = budget_of_card(stated) if asked.posed is None else asked.posed.budget(stated)
    fitted = asked.fit(budget)
    shorter = _shortened(asked, fitted)
    if shorter is not None:
        asked, fitted = shorter, shorter.fit(budget)
    warnings = request_warnings(asked.size.request)
    posed, reservation = asked.posed, asked.reservation
    if posed is not None and reservation is not None:
        warnings += [*posed.warnings, *reservation.allocation.warnings]
        if posed.at_most and fitted is not None and not fitted.fits:
            warnings.append(_AT_MOST)
    stored = posed.stored if posed is not None and budget is not None and budget.weights == "auto" else None
    warnings += memory_warnings(None if fitted is None else fitted.memory, stored)
    return SizeAnswer(asked.size, budget, fitted, reservation, tuple(warnings))


def _asked(question: SizeQuestion) -> _Asked:
    """Load the model, size it, and ask the engine that was named or whose command was given."""
    source, choice = question.source, question.engine
    started = None
    if choice.name is None and choice.words is None:
        model = load_model(source)
    else:
        from kvcalc.launch.command import launch  # engines are not what a short question asks about

        started = launch(choice.name, choice.words, partial(_pasted, source))
        named = source.model is None and choice.words is not None
        model = _named_model(started, source) if named else load_model(source)
    size, posed = ask_engine(
        source, model, question.workload, question.form, question.split, question.memory, choice, started
    )
    if posed is None:
        return _Asked(size)
    from kvcalc.engines.base import reserve

    return _Asked(size, posed, reserve(posed.engine, posed.question))


def _shortened(asked: _Asked, fitted: Fit | None) -> _Asked | None:
    """The question with the length to which the engine reduces it in this memory, where its flags leave it that."""
    posed, reservation = asked.posed, asked.reservation
    if posed is None or reservation is None or fitted is None or fitted.fits:
        return None
    capacity, request = reservation.allocation.capacity, asked.size.request
    if not posed.question.settings.get("auto_length") or capacity is None:
        return None
    length = capacity(fitted.memory.free).values["max_model_len"]
    if not isinstance(length, int) or length >= request.context:
        return None
    from kvcalc.engines.base import reserve

    size = measure(request._replace(context=length))
    question = posed.question._replace(request=size.request, placement=size.placement).counted()
    reduced = f"{posed.engine.name} reduces the length from {request.context:,} to {length:,} tokens"
    posed = posed._replace(question=question, warnings=(*posed.warnings, reduced))
    return _Asked(size, posed, reserve(posed.engine, question))


def _pasted(source: Source) -> bytes:
    """The text of a start-up command, from standard input."""
    if source.model == "-":
        raise KvcalcError("-: standard input cannot be the model and the command", "give MODEL by its name or its path")
    return source.read_text("a start-up command, or a file with one")


def _named_model(started: "Launch", source: Source) -> "Model":
    """The model of a command. Its file may be on another machine: then MODEL must say what it is."""
    named = started.model
    if named is None:
        raise KvcalcError("MODEL: expected a model, and the command names none", started.in_front())
    try:
        return load_model(source, named)
    except KvcalcError as error:
        if os.path.exists(named):  # it is here, and has a fault
            raise
        hint = started.in_front()
        if error.hint and not error.message.endswith("no such file"):  # the file is on another machine
            hint = f"{error.hint}; or {hint}"
        raise KvcalcError(error.message, hint) from None
