"""The start commands that engines have for a deployment."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvcalc.commands.start import Start
from kvcalc.core.adapters import Adapters
from kvcalc.core.units import Fraction
from kvcalc.engines.base import Engine
from kvcalc.errors import KvcalcError
from kvcalc.launch.registry import all_engines

__all__ = ["Written", "commands_for"]


class Written(NamedTuple):
    """The command of one of `servers` equal servers; or why the engine cannot, in one line."""

    words: tuple[str, ...] = ()
    servers: int = 1
    refused: str | None = None


def _room(engine: Engine, adapters: Adapters | None) -> tuple[str, ...]:
    """The engine's flags for room for adapters. Raises KvcalcError where none is known."""
    if adapters is None:
        return ()
    if engine.adapters is None:
        raise KvcalcError(f"--lora: how {engine.name} keeps room for adapters is not known here")
    return engine.adapters(adapters)


def _run(engine: Engine, run: Mapping[str, int]) -> tuple[str, ...]:
    """The engine's flags for how it runs; its most sequences are said anyway. Raises KvcalcError where it has none."""
    words: list[str] = []
    for name, value in run.items():
        flag = engine.run_flags.get(name)
        if flag is None or not flag.startswith("-"):
            what = f"--{name.replace('_', '-')}"
            raise KvcalcError(f"{what}: the command of {engine.name} has no word for it", "leave it out")
        if name != "max_num_seqs":
            words += [flag] if value is True else [flag, str(value)]
    return tuple(words)


def commands_for(start: Start, share: Callable[[Engine], Fraction | None] | None = None) -> dict[str, Written]:
    """How each engine that has a command for it would be started so, by the engine's name.

    `share`: the share of the memory that an engine is told, where that differs by engine.
    """
    written: dict[str, Written] = {}
    for engine in all_engines():
        if engine.start is None:
            continue
        try:
            words = engine.start(start._replace(utilization=share(engine)) if share else start)
            words += (*_room(engine, start.adapters), *_run(engine, start.run))
        except KvcalcError as error:
            written[engine.name] = Written(refused=error.message)
        else:
            written[engine.name] = Written(words, 1 if engine.replicates(start) else start.layout.dp)
    return written
