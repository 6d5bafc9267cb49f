"""A question from its parts: a model, the options, and an engine with its own flags where one is named."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.options import Given, budget_of, card_of, layout_of, request_of
from kvcalc.cli.shell import load_model, standard_input
from kvcalc.core.fitting import Allocator, Budget, Fit
from kvcalc.core.sizing import Size, measure
from kvcalc.core.units import Fraction, parse_integer
from kvcalc.errors import KvcalcError
from kvcalc.views.document import Value

if TYPE_CHECKING:
    from kvcalc.core.model import Model
    from kvcalc.engines.base import Engine, EngineOptions, Question, Reservation
    from kvcalc.launch.command import Launch
    from kvcalc.views.report import EnginePart

__all__ = ["Asked", "Posed", "asked_of", "budget_of_card", "pose", "question_of"]


_CARD_SHARE = Fraction(9, 10)  # of a named GPU, where no engine says


class Posed(NamedTuple):
    """A question put to an engine, with nothing reserved yet. `stated` is what the engine's own flags say.

    `stored`: how the weights that it runs are packed, where the model's own are not. `at_most`: the batch is the most
    that the command allows at once.
    """

    engine: "Engine"
    question: "Question"
    stated: "EngineOptions"
    stored: str | None
    at_most: bool
    warnings: tuple[str, ...]

    def budget(self, budget: Budget | None) -> Budget | None:
        """The budget of the options, with what the engine's flags and its own defaults say of the memory."""
        if self.stated.kv_memory is not None:
            if budget is not None and (budget.card is None or budget != Budget(budget.vram, card=budget.card)):
                option = "--vram" if budget.vram is not None else "--kv-memory"
                raise KvcalcError(
                    f"{option}: the engine's own flags behind -- state the memory of the cache", "give one"
                )
            return Budget(kv_memory=self.stated.kv_memory)
        if budget is None or budget.vram is None:
            return budget
        of_free, loaded = self.engine.of_free, self.stated.loaded
        own = self.engine.utilization(self.question, budget.vram)  # which refuses where no share has a meaning
        if budget.utilization is None:
            return budget._replace(utilization=self.stated.utilization or own, of_free=of_free, loaded=loaded)
        if self.stated.utilization is not None:
            raise KvcalcError("--utilization: the engine's own flags behind -- say it too", "leave one of them out")
        return budget._replace(of_free=of_free, loaded=loaded)


class Asked(NamedTuple):
    """The sized question, and what the named engine reserves for it."""

    size: Size
    posed: Posed | None = None
    reservation: "Reservation | None" = None

    @property
    def warnings(self) -> tuple[str, ...]:
        if self.posed is None or self.reservation is None:
            return ()
        return (*self.posed.warnings, *self.reservation.allocation.warnings)

    @property
    def stored(self) -> str | None:
        return None if self.posed is None else self.posed.stored

    @property
    def at_most(self) -> bool:
        return self.posed is not None and self.posed.at_most

    @property
    def allocator(self) -> Allocator | None:
        if self.reservation is None:
            return None
        from kvcalc.engines.base import allocator_of

        return allocator_of(self.reservation)

    def budget(self, budget: Budget | None) -> Budget | None:
        return budget_of_card(budget) if self.posed is None else self.posed.budget(budget)

    def shortened(self, fitted: Fit | None) -> "Asked | None":
        """The question with the length to which the engine reduces it in this memory, where its flags leave it that."""
        if self.posed is None or self.reservation is None or fitted is None or fitted.fits:
            return None
        capacity, request = self.reservation.allocation.capacity, self.size.request
        if not self.posed.question.settings.get("auto_length") or capacity is None:
            return None
        length = capacity(max(fitted.memory.kv_budget, 0)).values["max_model_len"]
        if not isinstance(length, int) or length >= request.context:
            return None
        from kvcalc.engines.base import reserve

        size = measure(request._replace(context=length))
        question = self.posed.question._replace(request=size.request, placement=size.placement).counted()
        reduced = f"{self.posed.engine.name} reduces the length from {request.context:,} to {length:,} tokens"
        posed = self.posed._replace(question=question, warnings=(*self.posed.warnings, reduced))
        return Asked(size, posed, reserve(posed.engine, question))

    def engine_values(self, fitted: Fit | None) -> dict[str, Value] | None:
        """The `engine` object of the JSON, with what it counts where a budget was fitted."""
        if self.reservation is None:
            return None
        from kvcalc.views.engine import engine_values

        return engine_values(self.reservation, fitted)

    def engine_part(self, fitted: Fit | None) -> "EnginePart | None":
        """The engine's part of the report."""
        if self.reservation is None:
            return None
        from kvcalc.views.engine import engine_part

        return engine_part(self.reservation, fitted)


def budget_of_card(budget: Budget | None) -> Budget | None:
    """The budget where no engine is named: of a named card, a share is used."""
    if budget is not None and budget.card is not None and budget.utilization is None:
        return budget._replace(utilization=_CARD_SHARE)
    return budget


def question_of(source: str | None, behind: Sequence[str] | None, given: Given) -> Asked:
    """Load the model, size it, and ask the engine that `--engine` or the words behind `--` name."""
    if given["engine"] is None and behind is None:
        return asked_of(_load(source, given), given)

    from kvcalc.launch.command import launch  # engines are not what a short question asks about

    started = launch(given["engine"], behind, partial(_pasted, source))
    model = _load(source, given) if source is not None or behind is None else _named_model(started, given)
    return asked_of(model, given, started)


def asked_of(model: "Model", given: Given, started: "Launch | None" = None) -> Asked:
    """Size the question about a model, and ask the engine that was started."""
    size, posed = pose(model, given, started)
    if posed is None:
        return Asked(size)
    from kvcalc.engines.base import reserve

    return Asked(size, posed, reserve(posed.engine, posed.question))


def pose(model: "Model", given: Given, started: "Launch | None") -> tuple[Size, Posed | None]:
    """The sized question, as it is put to the engine that was started."""
    if started is None:
        if given.get("block_size") is not None:
            raise KvcalcError("--block-size: the exact size has no blocks", "name the engine that has: --engine vllm")
        return measure(request_of(model, given)), None
    from kvcalc.engines.base import Question

    engine = started.engine
    stated = engine.options_of(started.program, started.read._replace(memory=_memory(given)), model)
    if stated.draft is not None:
        model = replace(model, draft=_draft(stated.draft, given).layers)
        stated = stated._replace(settings={**stated.settings, "drafted": True})
    packed = (given["kv_dtype"] or "").strip().lower()
    if packed in engine.packed:
        given = {**given, "kv_dtype": engine.packed[packed]}
        stated = stated._replace(settings={**stated.settings, "packed": packed})
    stated = stated._replace(settings={**stated.settings, **_block(engine, stated, given)})
    defaults = {name: value for name, value in stated.defaults.items() if given[name] is None}
    at_most = stated.sequences is not None and given["batch"] is None
    if stated.sequences is not None and at_most:
        replicas = stated.options.get("dp")
        defaults["batch"] = stated.sequences * (replicas if isinstance(replicas, int) else layout_of(given)["dp"])
    size = measure(request_of(model, given, {**defaults, **stated.options}))
    question = Question(
        size.request, size.placement, started.version, stated.settings, card=card_of(given)[1]
    ).counted()
    own = {f"--{name.replace('_', '-')}" for name in given}
    behind_it = [f"{name}: options of kvcalc stand in front of --" for name in started.read.unknown if name in own]
    stored = engine.stored(started.program, started.read, model)
    warnings = (*behind_it, *started.warnings, *stated.warnings, *_uncounted(stated, given))
    return size, Posed(engine, question, stated, stored, at_most, warnings)


def _uncounted(stated: "EngineOptions", given: Given) -> list[str]:
    """Flags that change the memory and are not counted, where there is a budget on which a verdict would rest."""
    from kvcalc.commands.effects import said, touching

    alone = stated.kv_memory is not None or given.get("kv_memory") is not None
    if not alone and given.get("vram") is None and given.get("gpu") is None:
        return []
    return [said(each) for each in touching(stated.uncounted, cache_alone=alone)]


def _draft(name: str, given: Given) -> "Model":
    """The model that drafts tokens, which may be on another machine."""
    try:
        return _load(name, given)
    except KvcalcError as error:
        raise KvcalcError(
            f"the draft model: {error.message}",
            "its name or folder here, or its layers as `draft` in a copy of the model's preset, with method mtp",
        ) from None


def _block(engine: "Engine", stated: "EngineOptions", given: Given) -> dict[str, int]:
    """The engine's setting for `--block-size`."""
    text = given.get("block_size")
    if text is None:
        return {}
    if engine.block is None:
        raise KvcalcError(f"--block-size: {engine.name} has no blocks whose size can be chosen", "leave it out")
    if engine.block in stated.settings:
        raise KvcalcError("--block-size: the engine's own flags behind -- say it too", "leave one of them out")
    return {engine.block: parse_integer(text, "--block-size")}


def _memory(given: Given) -> int | None:
    """What the GPUs of one server have together, where the options say it."""
    budget = budget_of(given) if "vram" in given else None
    layout = layout_of(given)
    return None if budget is None or budget.vram is None else budget.vram * layout["tp"] * layout["pp"]


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
        hint = started.in_front()
        if error.hint and not error.message.endswith("no such file"):  # the file is on another machine
            hint = f"{error.hint}; or {hint}"
        raise KvcalcError(error.message, hint) from None


def _load(source: str | None, given: Given) -> "Model":
    if source is None:
        raise KvcalcError("MODEL: expected a model", "try `kvcalc llama3-70b --batch 8`, or see `kvcalc --help`")
    return load_model(source, assume_dense=given["assume_dense"])
