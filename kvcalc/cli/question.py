"""A question from its parts: a model, the options, and an engine with its own flags where one is named."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.options import Given, budget_of, card_of, layout_of, request_of
from kvcalc.cli.shell import load_model, standard_input
from kvcalc.document import Value
from kvcalc.errors import KvcalcError
from kvcalc.fitting import Budget, Fit, Holding, Share
from kvcalc.sizing import Size, measure
from kvcalc.units import parse_integer

if TYPE_CHECKING:
    from kvcalc.launching import Launch
    from kvcalc.model import Model
    from kvcalc.report import EnginePart
    from kvcalc.reserving import Asked as Stated
    from kvcalc.reserving import Engine, Reservation

__all__ = ["Asked", "question_of"]


_CARD_SHARE = Share(9, 10)  # of a named GPU, where no engine says


class Asked(NamedTuple):
    """The sized question, and what the named engine reserves for it.

    `stated` is what the engine's own flags say. `stored`: how the weights that it runs are packed, where the model's
    own are not. `at_most`: the batch is the most that the command allows at once. `again` asks the same for another
    length.
    """

    size: Size
    reservation: "Reservation | None" = None
    holding: Holding | None = None
    warnings: tuple[str, ...] = ()
    stated: "Stated | None" = None
    stored: str | None = None
    at_most: bool = False
    again: "Callable[[int], Asked] | None" = None

    def shortened(self, fitted: Fit | None) -> "Asked | None":
        """The question with the length to which the engine reduces it in this memory, where its flags leave it that."""
        if self.reservation is None or self.again is None or fitted is None or fitted.fits:
            return None
        capacity, context = self.reservation.plan.capacity, self.size.request.context
        if not self.reservation.question.knobs.get("auto_length") or capacity is None:
            return None
        length = capacity(max(fitted.room.kv_budget, 0)).values["max_model_len"]
        return self.again(length) if isinstance(length, int) and length < context else None

    def budget(self, budget: Budget | None) -> Budget | None:
        """The budget of the options, with what the engine's flags and its own defaults say of the memory."""
        if self.reservation is None or self.stated is None:
            if budget is not None and budget.card is not None and budget.utilization is None:
                return budget._replace(utilization=_CARD_SHARE)
            return budget
        if self.stated.kv_memory is not None:
            if budget is not None and (budget.card is None or budget != Budget(budget.vram, card=budget.card)):
                option = "--vram" if budget.vram is not None else "--kv-memory"
                raise KvcalcError(
                    f"{option}: the engine's own flags behind -- state the memory of the cache", "give one"
                )
            return Budget(kv_memory=self.stated.kv_memory)
        if budget is None or budget.vram is None:
            return budget
        of_rest, loaded = self.reservation.engine.of_rest, self.stated.loaded
        own = self.reservation.engine.utilization(self.reservation.question, budget.vram)
        if budget.utilization is None:
            return budget._replace(utilization=self.stated.utilization or own, of_rest=of_rest, loaded=loaded)
        if self.stated.utilization is not None:
            raise KvcalcError("--utilization: the engine's own flags behind -- say it too", "leave one of them out")
        return budget._replace(of_rest=of_rest, loaded=loaded)

    def engine_values(self, fitted: Fit | None) -> dict[str, Value] | None:
        """The `engine` object of the JSON, with what it counts where a budget was fitted."""
        if self.reservation is None:
            return None
        from kvcalc.reserved import engine_values

        return engine_values(self.reservation, fitted)

    def engine_part(self, fitted: Fit | None) -> "EnginePart | None":
        """The engine's part of the report."""
        if self.reservation is None:
            return None
        from kvcalc.reserved import engine_part

        return engine_part(self.reservation, fitted)


def question_of(source: str | None, behind: Sequence[str] | None, given: Given) -> Asked:
    """Load the model, size it, and ask the engine that `--engine` or the words behind `--` name."""
    if given["engine"] is None and behind is None:
        if given.get("block_size") is not None:
            raise KvcalcError("--block-size: the exact size has no blocks", "name the engine that has: --engine vllm")
        return Asked(measure(request_of(_load(source, given), given)))

    from kvcalc.launching import launch  # engines are not what a short question asks about

    started = launch(given["engine"], behind, partial(_pasted, source))
    model = _load(source, given) if source is not None or behind is None else _named_model(started, given)
    stated = started.engine.asked(started.program, started.read._replace(memory=_memory(given)), model)
    if stated.draft is not None:
        model = replace(model, draft=_draft(stated.draft, given).layers)
        stated = stated._replace(knobs={**stated.knobs, "drafted": True})
    packed = (given["kv_dtype"] or "").strip().lower()
    if packed in started.engine.packed:
        given = {**given, "kv_dtype": started.engine.packed[packed]}
        stated = stated._replace(knobs={**stated.knobs, "packed": packed})
    stated = stated._replace(knobs={**stated.knobs, **_block(started.engine, stated, given)})
    return _answer(model, given, started, stated)


def _answer(model: "Model", given: Given, started: "Launch", stated: "Stated") -> Asked:
    """Size the question, and ask the engine."""
    from kvcalc.reserving import Question, reserve

    defaults = {name: value for name, value in stated.defaults.items() if given[name] is None}
    at_most = stated.sequences is not None and given["batch"] is None
    if stated.sequences is not None and at_most:
        replicas = stated.options.get("dp")
        defaults["batch"] = stated.sequences * (replicas if isinstance(replicas, int) else layout_of(given)["dp"])
    size = measure(request_of(model, given, {**defaults, **stated.options}))
    question = Question(size.request, size.placement, started.version, stated.knobs, card=card_of(given)[1]).counted()
    reservation = reserve(started.engine, question)
    capacity = reservation.plan.capacity
    holding = Holding(
        reservation.plan.needed,
        lambda sequences, tokens, free: started.engine.plan(question.at(sequences, tokens)).fits(free),
        reservation.plan.most_sequences or started.engine.most_sequences,
        None if capacity is None else lambda free: capacity(free).tokens,
        reservation.plan.most_tokens,
    )
    own = {f"--{name.replace('_', '-')}" for name in given}
    behind_it = [f"{name}: options of kvcalc stand in front of --" for name in started.read.unknown if name in own]
    warnings = (*behind_it, *started.warnings, *stated.warnings, *reservation.plan.warnings)
    stored = started.engine.stored(started.program, started.read, model)

    def again(length: int) -> Asked:
        reduced = f"{started.engine.name} reduces the length from {size.request.context:,} to {length:,} tokens"
        options, said = {**stated.options, "context": length}, (*stated.warnings, reduced)
        return _answer(model, given, started, stated._replace(options=options, warnings=said))

    return Asked(size, reservation, holding, warnings, stated, stored, at_most, again)


def _draft(name: str, given: Given) -> "Model":
    """The model that drafts tokens, which may be on another machine."""
    try:
        return _load(name, given)
    except KvcalcError as error:
        raise KvcalcError(
            f"the draft model: {error.message}",
            "its name or folder here, or its layers as `draft` in a copy of the model's preset, with method mtp",
        ) from None


def _block(engine: "Engine", stated: "Stated", given: Given) -> dict[str, int]:
    """The engine's setting for `--block-size`."""
    text = given.get("block_size")
    if text is None:
        return {}
    if engine.block is None:
        raise KvcalcError(f"--block-size: {engine.name} has no blocks whose size can be chosen", "leave it out")
    if engine.block in stated.knobs:
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
