"""A question as it is put to an engine, with what the engine's own flags and defaults say of it."""

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.memory import Budget
from kvcalc.core.model import Model
from kvcalc.core.sizing import Size, measure
from kvcalc.errors import KvcalcError
from kvcalc.queries.options import (
    OPTION_NAMES,
    CacheFormat,
    EngineChoice,
    Memory,
    RunOptions,
    Split,
    Workload,
    budget_for,
    layout_of,
    request_for,
)
from kvcalc.queries.source import Source, other_model

if TYPE_CHECKING:
    from kvcalc.engines.base import Engine
    from kvcalc.engines.options import EngineOptions
    from kvcalc.engines.question import Question
    from kvcalc.launch.command import Launch

__all__ = ["EngineQuestion", "ask_engine"]


class EngineQuestion(NamedTuple):
    """A question put to an engine, with nothing reserved yet.

    Attributes:
        engine: The engine.
        question: The request with the engine's version and settings.
        options: What the engine's own flags say.
        stored: How the weights that it runs are packed, where the model's own are not.
        at_most: The batch is the most that the command allows at once.
        warnings: What the asker should know of his flags.
        run: How the engine runs, as far as somebody said.
        draft: The model that drafts tokens, whose weights are loaded too.
        drafts_itself: The checkpoint's own layers draft tokens, and are loaded.
    """

    engine: "Engine"
    question: "Question"
    options: "EngineOptions"
    stored: str | None
    at_most: bool
    warnings: tuple[str, ...]
    run: RunOptions = RunOptions()
    draft: "Model | None" = None
    drafts_itself: bool = False

    def budget(self, budget: Budget | None) -> Budget | None:
        """The budget, with what the engine's flags and its own defaults say of the memory. Raises KvcalcError."""
        stated = self.options
        if stated.kv_memory is not None:
            if budget is not None and (budget.card is None or budget != Budget(budget.vram, card=budget.card)):
                option = "--vram" if budget.vram is not None else "--kv-memory"
                raise KvcalcError(
                    f"{option}: the engine's own flags behind -- state the memory of the cache", "give one"
                )
            return Budget(kv_memory=stated.kv_memory)
        if budget is None:
            pool = self.engine.own_pool(self.question)
            return None if pool is None else Budget(kv_memory=pool)
        if budget.vram is None:
            return budget
        own = self.engine.utilization(self.question, budget.vram)  # which refuses where no fraction has a meaning
        engine = self.engine
        budget = budget._replace(
            of_free=engine.of_free, loaded=stated.loaded, divided=engine.divided, on_host=stated.on_host
        )
        if budget.utilization is None:
            return budget._replace(utilization=stated.utilization or own)
        if stated.utilization is not None:
            raise KvcalcError("--utilization: the engine's own flags behind -- say it too", "leave one of them out")
        return budget


def ask_engine(
    source: Source,
    model: Model,
    workload: Workload,
    form: CacheFormat,
    split: Split,
    memory: Memory,
    choice: EngineChoice,
    started: "Launch",
) -> tuple[Size, EngineQuestion]:
    """The sized question, as it is put to the engine that was started; `source` finds a model that drafts tokens.

    Raises KvcalcError where the options contradict the model, the engine or its own flags.
    """
    from kvcalc.engines.placement import uncut
    from kvcalc.engines.question import Question
    from kvcalc.launch.running import running, told, with_company

    started = told(started, choice.run.stated)
    engine = started.engine
    started = with_company(started, memory.lora, memory.draft)
    started = started._replace(read=started.read._replace(memory=_server_memory(split, memory)))
    stated = _with_length(engine.options_of(started.program, started.read, model), started, workload, model)
    draft = None
    if stated.draft is not None:
        draft = other_model(source, stated.draft, "the draft model")
        model = replace(model, draft=draft.layers)
        stated = stated._replace(settings={**stated.settings, "drafted": True})
    itself = draft is None and bool(model.draft) and "drafts" in {each.effect.key for each in stated.uncounted}
    stated = _counted_drafts(stated, model if draft is None else draft)
    packed = (form.kv_dtype or "").strip().lower()
    if packed in engine.packed:
        form = form._replace(kv_dtype=engine.packed[packed])
        stated = stated._replace(settings={**stated.settings, "packed": packed})
    stated = stated._replace(settings={**stated.settings, **_block(engine, stated, choice.block_size)})
    own = {**workload._asdict(), **form._asdict(), **split._asdict()}
    defaults = {name: value for name, value in stated.defaults.items() if own[name] is None}
    at_most = stated.sequences is not None and workload.batch is None
    if stated.sequences is not None and at_most:
        replicas = stated.options.get("dp")
        defaults["batch"] = stated.sequences * (
            replicas if isinstance(replicas, int) else layout_of(split, memory.gpu)["dp"]
        )
    size = measure(request_for(model, workload, form, split, memory.gpu, {**defaults, **stated.options}))
    if memory.weights in (None, "auto", model.weights_dtype) and stated.loaded is None:  # the checkpoint's
        uncut(model, size.request.layout, engine.name, engine.keeps_whole)
    card = None if memory.gpu is None else memory.gpu.card
    question = Question(size.request, size.placement, started.version, stated.settings, card=card).counted()
    behind_it = [
        f"{name}: options of kvcalc stand in front of --"
        for name in started.read.unknown
        if name.startswith("--") and name[2:].replace("-", "_") in OPTION_NAMES
    ]
    stored = engine.stored(started.program, started.read, model)
    warnings = (*behind_it, *started.warnings, *stated.warnings)
    run = RunOptions(**running(started))
    return size, EngineQuestion(engine, question, stated, stored, at_most, warnings, run, draft, itself)


def _with_length(stated: "EngineOptions", started: "Launch", workload: Workload, model: Model) -> "EngineOptions":
    """A length in front of a command that states none is what its flag would say: the answer is that of both."""
    length = workload.context
    if length is None or stated.options.get("context") != "max" or "context" in started.read.values:
        return stated
    if length != "max":
        read = started.read._replace(values={**started.read.values, "context": length})
        stated = started.engine.options_of(started.program, read, model)
        flag = next(flag.names[0] for flag in started.engine.flags.flags if flag.key == "context")
        own = "the model's limit" + ("" if model.max_context is None else f" of {model.max_context:,} tokens")
        lacks = f"sized as with {flag} {length}, which the command lacks: as it stands it has {own}"
        stated = stated._replace(warnings=(*stated.warnings, lacks))
    return stated._replace(options={name: value for name, value in stated.options.items() if name != "context"})


def _counted_drafts(stated: "EngineOptions", model: Model) -> "EngineOptions":
    """The flags without those whose weights are counted: those of a draft model, or of the model's own draft layers."""
    from kvcalc.core.parts import composition

    parts = composition(model)
    if parts is None or (not model.parameters and not model.weights_bytes):
        return stated
    return stated._replace(uncounted=tuple(each for each in stated.uncounted if each.effect.key != "drafts"))


def _block(engine: "Engine", stated: "EngineOptions", size: int | None) -> dict[str, int]:
    """The engine's setting for the size of its blocks."""
    if size is None:
        return {}
    if engine.block is None:
        raise KvcalcError(f"--block-size: {engine.name} has no blocks whose size can be chosen", "leave it out")
    if engine.block in stated.settings:
        raise KvcalcError("--block-size: the engine's own flags behind -- say it too", "leave one of them out")
    return {engine.block: size}


def _server_memory(split: Split, memory: Memory) -> int | None:
    """What the GPUs of one server have together, where the question says it."""
    budget, layout = budget_for(memory), layout_of(split, memory.gpu)
    return None if budget is None or budget.vram is None else budget.vram * layout["tp"] * layout["pp"]
