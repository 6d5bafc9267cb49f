"""How an engine runs, said in words of ours: each stands for a flag or variable of the engine's own."""

from collections.abc import Mapping
from typing import Any

from kvcalc.commands.flags import FlagValues, read_flags
from kvcalc.core.adapters import Adapters
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import Launch

__all__ = ["running", "told", "with_company"]


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


def with_company(started: Launch, lora: Adapters | None, draft: str | None) -> Launch:
    """The start with room for adapters and a model that drafts, read as if its own flags said them. Raises KvcalcError
    where no rule of the engine is known, or its own flags say it too.
    """
    engine = started.engine
    if lora is not None:
        flags = None if engine.adapters is None else engine.adapters(lora)
        started = _with_flags(started, "--lora", flags, ("lora", "max_loras", "max_lora_rank"))
    if draft is not None:
        flags = None if engine.drafts is None else engine.drafts(draft)
        started = _with_flags(started, "--draft", flags, ("draft_model", "speculation", "method", "algorithm"))
    return started


def _with_flags(started: Launch, what: str, flags: tuple[str, ...] | None, keys: tuple[str, ...]) -> Launch:
    engine = started.engine
    if flags is None:
        raise KvcalcError(f"{what}: what {engine.name} keeps for it is not known here", "give it as --overhead SIZE")
    if any(key in started.read.values for key in keys):
        raise KvcalcError(f"{what}: the engine's own flags behind -- say it too", "leave one of them out")
    try:
        more = read_flags(flags, engine.flags, {}, engine.name)
    except KvcalcError as error:  # what its flags do not take
        raise KvcalcError(f"{what}: {error.message}", error.hint) from None
    return started._replace(read=_both(started.read, more))


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
