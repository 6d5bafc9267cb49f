"""How large a cache is, what an engine reserves for it, and what fits: the question of the default verb."""

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sizing import Size, measure
from kvcalc.errors import KvcalcError
from kvcalc.queries.options import (
    CacheFormat,
    EngineChoice,
    Memory,
    RunOptions,
    Split,
    Workload,
    budget_for,
    budget_of_card,
    exact_size,
)
from kvcalc.queries.source import Source, load_model

if TYPE_CHECKING:
    from kvcalc.core.fitting import Fit
    from kvcalc.core.memory import Budget
    from kvcalc.core.model import Model
    from kvcalc.engines.base import Reservation
    from kvcalc.launch.beside import Beside
    from kvcalc.launch.command import Launch
    from kvcalc.queries.devices import HeldDevice
    from kvcalc.queries.engine import EngineQuestion

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
        beside: What is estimated beside weights and cache, and whose estimate it is; None where nothing is.
        run: How the engine runs, as far as somebody said.
        devices: What each device and the host hold, where an engine's flags place layers.
        memory: What was said of the memory.
        workload: What was said of the sequences.
    """

    size: Size
    budget: "Budget | None"
    fit: "Fit | None"
    reservation: "Reservation | None"
    warnings: tuple[str, ...]
    beside: "Beside | None" = None
    run: RunOptions = RunOptions()
    devices: "tuple[HeldDevice, ...]" = ()
    memory: Memory = Memory()
    workload: Workload = Workload()


def answer(question: SizeQuestion) -> SizeAnswer:
    """Size a model's cache, ask the engine, and fit both into the memory. Raises KvcalcError."""
    if question.engine.name is not None or question.engine.words is not None:
        return _engine_answer(question)
    stated = budget_for(question.memory)
    model = load_model(question.source)
    size = exact_size(
        model, question.workload.of(model), question.form, question.split, question.memory, question.engine
    )
    budget, warnings = budget_of_card(stated), [*_of_images(question, model), *request_warnings(size.request)]
    if budget is None:
        return SizeAnswer(size, None, None, None, tuple(warnings), workload=question.workload)
    from kvcalc.core.fitting import exact_allocator, fit
    from kvcalc.core.memory import warnings as memory_warnings
    from kvcalc.queries.company import company_of

    company = company_of(question.source, question.memory, size, None)
    budget, estimated = budget._replace(company=company.lines), None
    if budget.card is not None and not budget.overheads:  # nothing is known to sit beside bare memory
        from kvcalc.queries.memory import beside

        estimated = beside(budget, size.request, None)
        budget = budget._replace(overheads=estimated.lines)
    fitted = fit(size, budget, company.fitted(exact_allocator(size)) if company.of_draft else None)
    warnings = [*warnings, *memory_warnings(fitted.memory)]
    return SizeAnswer(
        size, budget, fitted, None, tuple(warnings), estimated, memory=question.memory, workload=question.workload
    )


def _engine_answer(question: SizeQuestion) -> SizeAnswer:
    """The answer of an engine. One that shortens sequences to what fits, and was left that, is asked for the length to
    which it does.
    """
    from kvcalc.commands.effects import said, settled, touching
    from kvcalc.core.fitting import fit
    from kvcalc.core.memory import warnings as memory_warnings
    from kvcalc.engines.base import allocator_of, reserve  # engines are not what a short question asks about
    from kvcalc.launch.command import launch
    from kvcalc.queries.company import company_of
    from kvcalc.queries.devices import PLACED, held, verdict
    from kvcalc.queries.engine import ask_engine
    from kvcalc.queries.memory import beside

    stated, source, choice = budget_for(question.memory), question.source, question.engine
    devices: tuple[HeldDevice, ...] = ()
    started = launch(choice.name, choice.words, partial(_pasted, source))
    named = source.model is None and choice.words is not None
    model = _named_model(started, source) if named else load_model(source)
    _refuse_images(question, choice.words or ())
    size, posed = ask_engine(
        source, model, question.workload.of(model), question.form, question.split, question.memory, choice, started
    )
    reservation, budget = reserve(posed.engine, posed.question), posed.budget(stated)
    estimated, grown = None, None
    if budget is not None and budget.vram is not None:
        budget = budget._replace(company=company_of(source, question.memory, size, posed).lines)
    if budget is not None and budget.vram is not None and not budget.overheads:
        estimated = beside(budget, size.request, posed)
        budget, grown = budget._replace(overheads=estimated.lines), budget.vram if posed.engine.grows else None
    fitted = None if budget is None else fit(size, budget, allocator_of(reservation, grown))
    shorter = None if fitted is None else _shortened(posed, reservation, fitted)
    if shorter is not None and budget is not None:
        posed, reservation = shorter, reserve(shorter.engine, shorter.question)
        size = measure(shorter.question.request)
        fitted = fit(size, budget, allocator_of(reservation, grown))
    warnings = [
        *_of_images(question, model),
        *request_warnings(size.request),
        *posed.warnings,
        *reservation.allocation.warnings,
    ]
    if budget is not None:  # flags that change the memory and are not counted, before what would rest on them
        uncounted = touching(posed.options.uncounted, cache_alone=budget.vram is None)
        if fitted is not None:  # no "does not fit" rests on one of them
            lacking = fitted.kv_asked - fitted.memory.kv_budget
            fitted = fitted._replace(fits=settled(bool(fitted.fits), lacking, uncounted))
            devices = held(posed, fitted.memory)
            if devices and fitted.fits is None and all(each.effect.key in PLACED for each in uncounted):
                fitted = fitted._replace(fits=verdict(devices))
        warnings += [said(each) for each in uncounted if not (devices and each.effect.key in PLACED)]
    if posed.at_most and fitted is not None and fitted.fits is False:
        warnings.append(_AT_MOST)
    stored = posed.stored if budget is not None and budget.weights == "auto" else None
    warnings += memory_warnings(fitted and fitted.memory, stored)
    return SizeAnswer(
        size,
        budget,
        fitted,
        reservation,
        tuple(warnings),
        estimated,
        posed.run,
        devices,
        question.memory,
        question.workload,
    )


def _refuse_images(question: SizeQuestion, words: Sequence[str]) -> None:
    """The length that a command states is that of all tokens, and without one it is the model's limit."""
    if question.workload.images is not None and words:
        raise KvcalcError("--images: the length of a command counts the tokens of images, too", "leave it out")


def _of_images(question: SizeQuestion, model: "Model") -> list[str]:
    """What was taken for the size of images, where nobody says it and it counts."""
    images = question.workload.images
    if images is None or images.size is not None:
        return []
    from kvcalc.core.images import image_tokens, range_of

    least, most = range_of(model)
    if least == most:
        return []
    width, height = images.pixels
    each = f"{width:,} x {height:,} pixels are {image_tokens(model, width, height):,} tokens"
    return [
        f"images of {each}, of other sizes {least:,} to {most:,}: --images {images.number}:WIDTHxHEIGHT says theirs"
    ]


def _shortened(posed: "EngineQuestion", reservation: "Reservation", fitted: "Fit") -> "EngineQuestion | None":
    """The question with the length to which the engine reduces it in this memory, where its flags leave it that."""
    capacity, request = reservation.allocation.capacity, posed.question.request
    if fitted.fits or not posed.question.settings.get("auto_length") or capacity is None:
        return None
    length = capacity(fitted.memory.free).values["max_model_len"]
    if not isinstance(length, int) or length >= request.context:
        return None
    size = measure(request._replace(context=length))
    question = posed.question._replace(request=size.request, placement=size.placement).counted()
    reduced = f"{posed.engine.name} reduces the length from {request.context:,} to {length:,} tokens"
    return posed._replace(question=question, warnings=(*posed.warnings, reduced))


def _pasted(source: Source) -> bytes:
    """The text of a start-up command, from standard input."""
    if source.model == "-":
        raise KvcalcError("-: standard input cannot be the model and the command", "give MODEL by its name or its path")
    return source.read_text("a start-up command, or a file with one", "kvcalc -- - < compose.yaml")


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
