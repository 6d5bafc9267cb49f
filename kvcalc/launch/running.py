"""How an engine runs, said in words of ours: each stands for a flag or variable of the engine's own."""

from collections.abc import Mapping
from typing import Any

from kvcalc.commands.flags import FlagValues, read_flags
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import Launch

__all__ = ["running", "told"]


def told(started: Launch, options: Mapping[str, int]) -> Launch:
    """The start with options of ours by name (a number, or True for a switch), read as if the engine's own flags said
    them. Raises KvcalcError where it has no such flag, or its own flags say it too.
    """
    if not options:
        return started
    engine, own = started.engine, started.read
    words: list[str] = []
    variables: dict[str, str] = {}
    for name, value in options.items():
        what, flag = f"--{name.replace('_', '-')}", engine.run_flags.get(name)
        if flag is None:
            raise KvcalcError(
                f"{what}: {engine.name} has no such setting that is known here", engine.lacks.get(name, "leave it out")
            )
        if _key(started, flag) in own.values:
            raise KvcalcError(f"{what}: the engine's own flags behind -- say it too", "leave one of them out")
        if not flag.startswith("-"):
            variables[flag] = str(value)
        else:
            words += [flag] if value is True else [flag, str(value)]
    more = read_flags(words, engine.flags, variables, engine.name)
    return started._replace(read=_both(own, more))


def _both(own: FlagValues, more: FlagValues) -> FlagValues:
    return own._replace(values={**own.values, **more.values}, uncounted=(*own.uncounted, *more.uncounted))


def running(started: Launch) -> dict[str, Any]:
    """What is said of how the engine runs, by our names, whether in its own flags or in words of ours."""
    found = {}
    for name, flag in started.engine.run_flags.items():
        value = started.read.values.get(_key(started, flag) or "")
        if isinstance(value, int):
            found[name] = value
    return found


def _key(started: Launch, name: str) -> str | None:
    """What a flag sets; None for one whose effect on the memory has no rule."""
    return next((flag.key for flag in started.engine.flags.flags if name in (*flag.names, *flag.env)), None)
