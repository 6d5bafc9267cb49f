"""How tests ask an engine: as the command line does, without it."""

import shlex
from typing import Any

from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.allocation import Capacity
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.question import Question
from kvcalc.launch.command import launch
from kvcalc.library import loader
from kvcalc.preset.mapping import model_from_preset

__all__ = ["counted", "reservation"]


def reservation(preset: str | dict[str, Any], engine: str, flags: str = "", **options: Any) -> Reservation:
    """An engine's answer about a preset, by name or as a mapping. Flags that are not known fail the test."""
    if isinstance(preset, str):
        model = loader.load(preset)
    else:
        loaded, problems = model_from_preset(preset, "test-1")
        assert loaded is not None, problems
        model = loaded
    started = launch(engine, shlex.split(flags))
    assert started.warnings == ()
    stated = started.engine.options_of(started.program, started.read, model)
    request = ask(model, **{**options, **stated.options})
    question = Question(request, measure(request).placement, started.version, stated.settings)
    return reserve(started.engine, question)


def counted(preset: str | dict[str, Any], engine: str, budget: int, flags: str = "", **options: Any) -> Capacity:
    """What a pool engine counts in a budget for each GPU."""
    plan = reservation(preset, engine, flags, **options).allocation
    assert plan.capacity is not None
    return plan.capacity(budget)
