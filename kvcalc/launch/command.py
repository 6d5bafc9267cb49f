"""A launch command understood as its engine would. Nothing is run."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kvcalc.commands.budget import Budget
from kvcalc.commands.flags import Flags, FlagValues, no_value, read_flags
from kvcalc.commands.shell import Command
from kvcalc.commands.variables import expand, left_open
from kvcalc.commands.versions import Version, pick, unread
from kvcalc.engines.base import Engine
from kvcalc.errors import KvcalcError, escape, shown
from kvcalc.launch.programs import EngineProgram, assignments, programs_in
from kvcalc.launch.registry import all_engines, engine_called, name_and_version
from kvcalc.library.index import entries, in_name

__all__ = ["Launch", "launch"]

_TEXT = "<stdin>"
_MOST_LISTED = 6
_LONGEST_PATH = 4096


class Launch(NamedTuple):
    """An engine in one version, and what its own command line says. `program` is empty where flags stand alone.

    `begins`: how the command would be typed again.
    """

    engine: Engine
    version: Version
    version_asked: str | None
    program: str
    read: FlagValues
    warnings: tuple[str, ...]
    begins: str = ""

    @property
    def named(self) -> str | None:
        """The model in the command's own words."""
        return self.engine.model_of(self.program, self.read)

    @property
    def model(self) -> str | None:
        """The model that the command names, as MODEL may be given."""
        model = self.named
        unknown = None if model is None else left_open(model)
        if unknown is not None:
            raise KvcalcError(no_value("MODEL", unknown).message, self.in_front())
        if model is None or self.engine.named is None:
            return model
        return self.engine.named(model, [entry.name for entry in entries()])

    def in_front(self) -> str:
        """How to say which model is meant, where the command does not, or names a file that is elsewhere."""
        meant = in_name(self.named or "") or "MODEL"
        engine = "" if self.program else f" --engine {self.engine.name}"
        return f"give the model in front: kvcalc {meant}{engine} -- {self.begins}"


def launch(engine: str | None, words: Sequence[str] | None, read_text: Callable[[], bytes] = bytes) -> Launch:
    """What `--engine` and the words after `--` say. Either may be missing, but not both.

    `-` in place of a command stands for a text that `read_text` gives, and the path of a file for what it says; either
    may be followed by the name of one of the commands in it. Raises KvcalcError for an engine, a version or a command
    that is not known, and for a flag's faulty value.
    """
    name, version = name_and_version(engine or "")
    stated = engine_called(name) if engine else None
    among = [stated] if stated else all_engines()
    typed = list(words or ())
    quoted = len(typed) == 1 and len(typed[0].split()) > 1  # a whole command as one word
    env, behind = ({}, typed) if quoted else assignments(typed)
    pasted, path = behind[:1] == ["-"], _text_file(behind, env, among)
    budget = Budget(_TEXT if pasted else path or "--")
    if pasted or path:
        text = read_text() if path is None else _content(path)
        started = _in_text(text, path or _TEXT, env, behind, among, stated, budget)
        begins = " ".join(typed)
    else:
        started = _in_words(Command(tuple(behind), env), among, stated, budget)
        begins = f"{started.program} ..." if started.program else "..."
    version = version or _tagged(started) or ""
    row, warning = pick(started.engine.versions, version or None, started.engine.name)
    if version and started.engine.newest:
        warning = warning or unread(version, started.engine.newest, started.engine.name)
    env = {key: value for key, value in started.env.items() if value.strip()}
    words, unopened = _respelled(_expanded(started.words, env, budget), started.engine.flags, here=not pasted)
    read = read_flags(words, started.engine.flags, env, started.engine.name)
    found = Launch(
        started.engine,
        row,
        version or None,
        started.program,
        read._replace(version=row),
        (*read.warnings, *([warning] if warning else ())),
        begins,
    )
    left = [f"{started.unread} is not read here, and what it may set was not looked at"] if started.unread else []
    return found._replace(warnings=(*left, *unopened, *_left_open(found), *_stray(found), *found.warnings))


def _expanded(words: Sequence[str], env: Mapping[str, str], budget: Budget) -> list[str]:
    """The words with variables' values in their places; one that holds flags may be several."""
    made: list[str] = []
    for word in words:
        value = expand(word, env, budget)
        made += value.split() if value != word and value.startswith("-") else [value]
    return made


def _respelled(words: list[str], flags: Flags, *, here: bool) -> tuple[list[str], list[str]]:
    """The words with what files of flags say, and with objects whole; and warnings of files that were not read."""
    if not words or not (flags.config or any(flag.fields for flag in flags.flags)):
        return words, []
    from kvcalc.commands.flag_files import joined, with_files

    words, unread_files = with_files(words, flags, here=here)
    return joined(words, flags), unread_files


def _in_words(command: Command, among: Sequence[Engine], stated: Engine | None, budget: Budget) -> EngineProgram:
    """The engine that words start; with a stated engine, they may be its flags alone."""
    alone = stated is not None and (not command.words or command.words[0].startswith("-"))
    found = [] if alone else _servers(programs_in(command, among, budget, strict=False))
    if found:
        return _only(found, "--")
    if stated is not None:
        if not alone:
            _refuse_others([command], stated, "--", budget)
        return _flags_alone(stated, command)
    text = escape(" ".join(command.words))[:40]
    raise KvcalcError(f"--: expected the command of an engine, got '{text}'", _such_as())


def _refuse_others(commands: Iterable[Command], stated: Engine, where: str, budget: Budget) -> None:
    """Raise KvcalcError where commands start another engine than `--engine` names."""
    others = [engine for engine in all_engines() if engine.name != stated.name]
    other = next((one for command in commands for one in programs_in(command, others, budget, strict=False)), None)
    if other is not None:
        raise KvcalcError(
            f"--engine: {stated.name} contradicts {where}, where {other.program} starts {other.engine.name}",
            f"leave --engine out, or name {other.engine.name}",
        )


def _flags_alone(engine: Engine, command: Command) -> EngineProgram:
    """Flags without a program, behind the variables in front. `num_beams=4` is an argument in Python's spelling, unless
    the engine knows a setting of that name: other variables have capitals.
    """
    known = {name for flag in engine.flags.flags for name in flag.env} | engine.flags.effects.keys()
    arguments = [name for name in command.env if not name.isupper() and name not in known]
    words = (*(f"{name}={command.env[name]}" for name in arguments), *command.words)
    env = {name: value for name, value in command.env.items() if name not in arguments}
    return EngineProgram(engine, "", words, env, unread=command.unread)


_MOST_WORDS = 2  # a file, and the name of one of its commands


def _text_file(words: Sequence[str], env: Mapping[str, str], among: Sequence[Engine]) -> str | None:
    """The path of a file that stands where a command is expected: none of an engine's programs, nor behind one."""
    if not 0 < len(words) <= _MOST_WORDS or len(words[0]) > _LONGEST_PATH or not os.path.isfile(words[0]):
        return None
    found = programs_in(Command(tuple(words), env), among, Budget("--"), strict=False)
    return None if any(True for _ in found) else words[0]


def _content(path: str) -> bytes:
    """What a file says that starts an engine, and is no model's."""
    from kvcalc.preset.yaml_file import read_bytes
    from kvcalc.sources.faults import Phrase, disguise
    from kvcalc.sources.files import is_config

    content = read_bytes(path)
    other = disguise(content)
    if other is None and is_config(content):
        other = Phrase("the configuration of a model"), f"kvcalc {escape(path)}"
    if other is not None:
        raise KvcalcError(f"{escape(path)}: expected a start-up command, or a file with one, got {other[0]}", other[1])
    return content


def _in_text(
    content: bytes,
    file: str,
    env: Mapping[str, str],
    typed: Sequence[str],
    among: Sequence[Engine],
    stated: Engine | None,
    budget: Budget,
) -> EngineProgram:
    """The one command of an engine in a text, or the one that is named."""
    from kvcalc.commands.manifests import read

    here, *names = typed
    if len(names) > 1:
        raise KvcalcError(f"-: expected the name of one command in the text, got {len(names)}", "one at a time")
    file = escape(file)
    form, commands = read(content, file, env, budget)
    if names:
        commands = [command for command in commands if command.name == names[0]]
    found = _servers(one for command in commands for one in programs_in(command, among, budget, strict=True))
    if found:
        return _only(found, file, here)
    if stated is not None and len(commands) == 1:
        _refuse_others(commands, stated, file, budget)
        return _flags_alone(stated, commands[0])
    of = f" called {shown(names[0])}" if names else ""
    raise KvcalcError(f"{file}: no command of an engine{of} is found in this {form}", _such_as())


def _servers(commands: Iterable[EngineProgram]) -> list[EngineProgram]:
    """The commands that differ. Of a server and its one client, the client with what the server is started with."""
    differing: dict[object, EngineProgram] = {}
    for one in commands:
        differing.setdefault((one.engine.name, one.program, one.words, frozenset(one.env.items())), one)
    found = list(differing.values())
    clients = [one for one in found if one.program in one.engine.flags.clients]
    servers = [one for one in found if one.program not in one.engine.flags.clients]
    if len(clients) == len(servers) == 1 and clients[0].engine is servers[0].engine:
        return [clients[0]._replace(env={**clients[0].env, **servers[0].env}, version=servers[0].version)]
    return found


def _only(found: Sequence[EngineProgram], where: str, here: str = "-") -> EngineProgram:
    """The one command. Raises KvcalcError for several, with the names to choose from."""
    if len(found) == 1:
        return found[0]
    listed = [f"{one.program} ({_place(one.name)})" if one.name else one.program for one in found[:_MOST_LISTED]]
    more = f" and {len(found) - _MOST_LISTED} more" if len(found) > _MOST_LISTED else ""
    names = {one.name for one in found}
    way_out = (
        f"name one of them: -- {escape(here)} {escape(found[0].name)}"
        if len(names) == len(found)
        else "leave the others out"
    )
    raise KvcalcError(f"{where}: expected one command of an engine, got {', '.join(listed)}{more}", way_out)


def _tagged(started: EngineProgram) -> str | None:
    """The version that an image's tag says, where the engine has such versions."""
    builds = started.engine.versions[-1].name.startswith("b")
    return started.version if started.version and started.version.startswith("b") == builds else None


def _place(name: str) -> str:
    return f"line {name}" if name.isdigit() else escape(name)[:60]


def _such_as() -> str:
    programs = ", ".join(engine.flags.programs[0] for engine in all_engines() if engine.flags.programs)
    return f"such as {programs}; before flags alone, name the engine: --engine NAME"


def _stray(found: Launch) -> list[str]:
    """A warning of words that belong to no flag, where the program takes none: a hyphen may be missing."""
    words = [escape(word)[:60] for word in found.read.others if word.strip() and left_open(word) is None]
    if not words or found.program not in found.engine.flags.wordless:
        return []
    more = f" and {len(words) - _MOST_LISTED} more" if len(words) > _MOST_LISTED else ""
    listed = ", ".join(f"'{word}'" for word in words[:_MOST_LISTED])
    return [f"{listed}{more}: {found.program or found.engine.name} takes no such words, and they were not looked at"]


def _left_open(found: Launch) -> list[str]:
    """Warnings of words that may be flags, and are not known. Raises KvcalcError where the text knows too much."""
    warnings = []
    for word in found.read.others:
        unknown = left_open(word)
        if unknown is None or word == found.named:
            continue
        if unknown.several:
            raise no_value("--", unknown)
        warnings.append(f"{escape(unknown.text)[:60]} is not known here, and flags that it may add were not looked at")
    return warnings
