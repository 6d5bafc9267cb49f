"""Which engine a command starts, whatever stands in front: sudo, env, docker run, bash -c. Nothing is run."""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kvcalc.commands.budget import ENTRY, INNER_TEXT, Budget, OverBudgetError
from kvcalc.commands.flags import MODEL_KEYS, Image
from kvcalc.commands.shell import ASSIGNMENT, Command, read
from kvcalc.engines.base import Engine
from kvcalc.errors import KvcalcError

__all__ = ["EngineProgram", "assignments", "programs_in"]

# What runs the command behind it: without words of its own that are no options, or with one, such as a host.
_PLAIN = """
    sudo doas exec nohup setsid env nice ionice time numactl stdbuf systemd-run srun mpirun caffeinate tini
    dumb-init screen tmux nsys docker podman nerdctl apptainer singularity wsl start bash sh zsh dash ash powershell
    pwsh cmd uv uvx pipx poetry pdm hatch pipenv pixi conda mamba micromamba python python3 trtllm-llmapi-launch
"""
_WITH_WORD = "taskset timeout chrt ssh su runuser gosu su-exec distrobox toolbox"
_WRAPPERS = {**dict.fromkeys(_PLAIN.split(), 0), **dict.fromkeys(_WITH_WORD.split(), 1)}
_VERBS = {"tool": 0, "compose": 0, "container": 0, "profile": 0, "new": 0, "new-session": 0, "new-window": 0,
          "enter": 1, "run": 1, "exec": 1}  # fmt: skip
_NAMING = ("--name", "-n", "--unit", "-S", "-s", "--hostname", "--container-name")  # whose word is no program
_CONTAINERS = ("docker", "podman", "nerdctl")
_OPTION = re.compile(r"-|/[A-Za-z]{1,4}$")  # start /B, cmd /c
_VARIABLE = re.compile(r"(?:-e|--env=|--setenv=)?([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_REFERENCE = re.compile(r"(?P<path>[\w.-]+(?::\d+)?(?:/[\w.-]+)*)(?::(?P<tag>[\w.-]+))?(?:@[\w:.+-]+)?", re.ASCII)
_VERSION = re.compile(r"v?\d+(?:\.\d+){1,3}(?:\.?(?:post|rc)\d+)?|b\d{3,6}", re.ASCII)
_LONGEST_IMAGE = 500
_DEEPEST = 4  # bash -c "ssh host 'bash -c ...'"


class EngineProgram(NamedTuple):
    """An engine's program, the words behind it and the variables in front. `version` is what an image's tag says.

    `name`: where the command stands in its text; `unread`: where more of its variables do.
    """

    engine: Engine
    program: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    name: str = ""
    version: str | None = None
    unread: str = ""


def assignments(words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The variables in front of a command, and the rest of it."""
    env: dict[str, str] = {}
    for i, word in enumerate(words):
        match = ASSIGNMENT.fullmatch(word)
        if match is None:
            return env, list(words[i:])
        env[match[1]] = match[2]
    return env, []


def programs_in(
    command: Command, engines: Sequence[Engine], budget: Budget, *, strict: bool, depth: int = 0
) -> Iterator[EngineProgram]:
    """The engines that a command starts: one, or those of a text within it. Raises OverBudgetError.

    `strict`: only behind words that are known to run others, as it must be where most commands start no engine.
    """
    name = command.image or command.within
    known = _image(name, engines) if name else None
    for started in _found(command, engines, budget, strict=strict, depth=depth):
        tagged = known is not None and known[0] is started.engine and started.version is None
        yield started._replace(version=known[2]) if known and tagged else started


def _found(
    command: Command, engines: Sequence[Engine], budget: Budget, *, strict: bool, depth: int
) -> Iterator[EngineProgram]:
    words = command.words
    if command.image:
        yield from _in_container(command, engines, budget, depth)
        return
    places = _places(words[: _reach(words) + 1] if strict else words)
    programs = _programs_of(tuple(engine.flags.programs for engine in engines))
    run = _container_run(words)
    for i in places:
        found = _program(words[i : i + 4], programs, engines)
        contained = None if found or run is None or run >= i else _contained(words, run, i, engines)
        if found is None and contained is None:
            continue
        budget.spend(ENTRY * len(command.env))
        env = {**command.env, **_variables(words[:i])}
        if found:
            program, engine = found
            behind = tuple(words[i + len(program) :])
            yield EngineProgram(engine, " ".join(program), behind, env, command.name, unread=command.unread)
        elif contained:
            inner = contained._replace(env=env, name=command.name, unread=command.unread)
            yield from programs_in(inner, engines, budget, strict=True, depth=depth)
        return
    texts = [words[i] for i in places if re.search(r"\s", words[i])] if depth < _DEEPEST else []
    env = {**command.env, **_variables(words)} if texts else {}
    for text in texts:
        budget.spend(INNER_TEXT + len(text) + ENTRY * len(env))
        for within in _within(text, env, budget):
            own = within._replace(name=command.name, unread=command.unread)
            yield from programs_in(own, engines, budget, strict=True, depth=depth + 1)


def _in_container(command: Command, engines: Sequence[Engine], budget: Budget, depth: int) -> Iterator[EngineProgram]:
    """What an image starts: a program that the words bring with them, else its entrypoint with the words."""
    inner = command._replace(image="")
    brought = list(programs_in(inner, engines, budget, strict=True, depth=depth))
    known = _image(command.image, engines) or _like(command, engines)
    if brought or known is None:
        yield from brought
        return
    engine, image, _ = known
    entrypoint = [*image.entrypoint.split(), *([] if command.words else image.command.split())]
    started = inner._replace(words=(*entrypoint, *command.words))
    yield from programs_in(started, (engine,), budget, strict=True, depth=depth)


# Servers that an image of another name starts, where a part of the name is the engine's. llama.cpp has two programs.
_LIKE = (("vllm", "vllm serve"), ("sglang", "sglang serve"))


def _like(command: Command, engines: Sequence[Engine]) -> tuple[Engine, Image, str | None] | None:
    """An engine after which an image is named, and whose flag for a model is among the words: KServe's runtimes."""
    path = command.image.rpartition("@")[0] or command.image
    if len(path) > _LONGEST_IMAGE or not command.words or not command.words[0].startswith("-"):
        return None
    for name, entrypoint in _LIKE:
        engine = next((each for each in engines if each.name == name), None)
        if engine is None or name not in re.split("[/_.:-]", path.lower()):
            continue
        models = {flag for each in engine.flags.flags if each.key in MODEL_KEYS for flag in each.names}
        if any(word.partition("=")[0] in models for word in command.words):
            return engine, Image(command.image, entrypoint), None
    return None


def _container_run(words: Sequence[str]) -> int | None:
    """Where `run` stands of `docker run`: the first such word, if a container's program is in front of it."""
    run = next((k for k in range(1, len(words)) if words[k] in ("run", "create")), None)
    return run if run is not None and any(_basename(word) in _CONTAINERS for word in words[:run]) else None


def _contained(words: Sequence[str], run: int, i: int, engines: Sequence[Engine]) -> Command | None:
    """The command in a container, where the word at `i` is the image of an engine behind that `run`."""
    if _image(words[i], engines) is None:
        return None
    for k in range(run, i):
        option, _, entrypoint = words[k].partition("=")
        if option == "--entrypoint":
            return Command((entrypoint or words[k + 1], *words[i + 1 :]), within=words[i])
    return Command(tuple(words[i + 1 :]), image=words[i])


def _places(words: Sequence[str]) -> list[int]:
    """Where a program may stand. A word behind a flag is likely the flag's, but for Python's `-m`, and comes last."""
    behind = [i for i in range(1, len(words)) if _takes(words[i - 1])]
    hidden = set(behind)
    return [i for i in range(len(words)) if i not in hidden] + [i for i in behind if words[i - 1] not in _NAMING]


def _takes(word: str) -> bool:
    return word.startswith("-") and "=" not in word and word not in ("-m", "--")


def _reach(words: Sequence[str]) -> int:
    """The first word that no wrapper in front takes as its own: the command that is run."""
    free = 0
    for i, word in enumerate(words):
        name = _basename(word)
        if name in _WRAPPERS:
            free = _WRAPPERS[name]
        elif _OPTION.match(word) or _VARIABLE.fullmatch(word) or (i and _takes(words[i - 1])):
            continue
        elif i and name in _VERBS:
            free += _VERBS[name]
        elif free:
            free -= 1
        else:
            return i
    return len(words)


@lru_cache(32)
def _programs_of(named: tuple[tuple[str, ...], ...]) -> list[tuple[list[str], int]]:
    """The words of each program, the longest first, with the place of its engine: most commands start none of them."""
    programs = ((program.split(), i) for i, each in enumerate(named) for program in each)
    return sorted(programs, key=lambda pair: -len(pair[0]))


def _program(
    words: Sequence[str], programs: Sequence[tuple[list[str], int]], engines: Sequence[Engine]
) -> tuple[list[str], Engine] | None:
    """The program that words begin with, by its name without folders."""
    here = [_basename(words[0]), *words[1:]]
    return next(((program, engines[i]) for program, i in programs if here[: len(program)] == program), None)


def _basename(word: str) -> str:
    return re.split(r"[/\\]", word)[-1].removesuffix(".exe")


def _variables(words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, as env and docker take it."""
    return {match[1]: match[2] for word in words if (match := _VARIABLE.fullmatch(word))}


def _within(text: str, env: Mapping[str, str], budget: Budget) -> list[Command]:
    """The commands in a word that a shell may be given; none where it is no shell's text."""
    try:
        return read(text, env, budget).commands
    except OverBudgetError:
        raise
    except KvcalcError:
        return []


def _image(name: str, engines: Sequence[Engine]) -> tuple[Engine, Image, str | None] | None:
    """The engine that an image of this name starts, in any registry, and the version that its tag says."""
    match = _REFERENCE.fullmatch(name)
    if match is None:
        return None
    path, tag = match["path"], match["tag"] or ""
    for engine in engines:
        for image in engine.flags.images:
            own, _, kind = image.name.partition(":")
            if f"/{path}".endswith(f"/{own}") and (not kind or f"{tag}-".startswith(f"{kind}-")):
                return engine, image, next((part for part in tag.split("-") if _VERSION.fullmatch(part)), None)
    return None
