"""Engines found by their names and programs, and a launch command understood as the engine would. Nothing is run."""

import os
import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import NamedTuple

from kvcalc import engines
from kvcalc.errors import KvcalcError, escape, nearest, shown
from kvcalc.finding import entries
from kvcalc.flags import Read, read_flags
from kvcalc.reserving import Engine
from kvcalc.versions import Version, pick

__all__ = ["Launch", "all_engines", "launch"]

_LATER = ("vllm", "sglang", "tensorrt_llm")  # to come

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


class Launch(NamedTuple):
    """An engine in one version, and what its own command line says. `program` is empty where flags stand alone."""

    engine: Engine
    version: Version
    version_asked: str | None
    program: str
    read: Read
    warnings: tuple[str, ...]

    @property
    def model(self) -> str | None:
        """The model that the command names, as MODEL may be given."""
        model = self.engine.model_of(self.program, self.read)
        if model is None or self.engine.named is None:
            return model
        return self.engine.named(model, [entry.name for entry in entries()])


def _module_names() -> list[str]:
    # As pkgutil would list them, whose import costs as much as an engine's.
    files = (name.partition(".") for folder in engines.__path__ for name in os.listdir(folder))
    return sorted(name for name, _, ending in files if ending == "py" and not name.startswith("_"))


def _load(module: str) -> Engine:
    engine = import_module(f"{engines.__name__}.{module}").ENGINE
    assert isinstance(engine, Engine)
    return engine


def all_engines() -> list[Engine]:
    """Every engine, by name."""
    return [_load(name) for name in _module_names()]


def _find(name: str) -> Engine:
    module = re.sub(r"[-.]", "_", name.strip().lower())
    if re.fullmatch(r"[a-z]\w*", module, re.ASCII) and module in _module_names():
        return _load(module)
    if module in _LATER:
        raise KvcalcError(f"--engine: {name.strip()} is not in this version of kvcalc", "without it: the exact size")
    names = [engine.name for engine in all_engines()]
    close = nearest(name, names, 1)
    hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(names)}"
    raise KvcalcError(f"--engine: expected the name of an engine, got {shown(name)}", hint)


def launch(engine: str | None, words: Sequence[str] | None) -> Launch:
    """What `--engine` and the words after `--` say. Either may be missing, but not both.

    Raises KvcalcError for an engine, a version or a command that is not known, and for a flag's faulty value.
    """
    name, _, version = (engine or "").partition("@")
    stated = _find(name) if engine else None
    started = _program(list(words or ()), [stated] if stated else all_engines())
    if started is None:
        if stated is None:
            text = escape(" ".join(words or ()))[:40]
            raise KvcalcError(
                f"--: expected the command of an engine, got '{text}'",
                f"such as {' or '.join(e.flags.programs[0] for e in all_engines() if e.flags.programs)}; "
                "before flags alone, name the engine: --engine NAME",
            )
        started = _flags_alone(stated, list(words or ()))
    row, warning = pick(started.engine.versions, version or None, started.engine.name)
    read = read_flags(started.words, started.engine.flags, started.env, started.engine.name)
    warnings = (*read.warnings, *([warning] if warning else ()))
    return Launch(started.engine, row, version or None, started.program, read._replace(version=row), warnings)


class _Started(NamedTuple):
    engine: Engine
    program: str
    words: tuple[str, ...]
    env: Mapping[str, str]


def _flags_alone(engine: Engine, words: list[str]) -> _Started:
    """Flags without a program, behind the variables in front. `num_beams=4` is an argument in Python's spelling, unless
    the engine knows a setting of that name: other variables have capitals.
    """
    known, env = {name for flag in engine.flags.flags for name in flag.env}, {}
    while words and (assignment := _ASSIGNMENT.fullmatch(words[0])):
        if not assignment[1].isupper() and assignment[1] not in known:
            break
        env[assignment[1]] = assignment[2]
        del words[0]
    return _Started(engine, "", tuple(words), env)


def _program(words: list[str], among: Sequence[Engine]) -> _Started | None:
    """The first program of an engine in a command. What stands in front (`sudo`, `env`, `docker run IMAGE`) may set
    variables; a word behind a flag is that flag's, but for Python's `-m`.
    """
    env: dict[str, str] = {}
    programs = sorted(((p.split(), e) for e in among for p in e.flags.programs), key=lambda pair: -len(pair[0]))
    for i, word in enumerate(words):
        assignment = _ASSIGNMENT.fullmatch(word)
        if assignment:
            env[assignment[1]] = assignment[2]
            continue
        if i and words[i - 1].startswith("-") and words[i - 1] != "-m":
            continue
        here = [re.split(r"[/\\]", word)[-1].removesuffix(".exe"), *words[i + 1 :]]
        for program, engine in programs:
            if here[: len(program)] == program:
                return _Started(engine, " ".join(program), tuple(here[len(program) :]), env)
    return None
