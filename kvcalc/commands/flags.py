"""An engine's own flags, as its users type them: `-c 4096`, `--ctx-size=4096`, `LLAMA_ARG_CTX_SIZE=4096` in front."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kvcalc.commands.effects import Effects, Uncounted, found
from kvcalc.commands.variables import Open, left_open
from kvcalc.errors import KvcalcError, escape, shown

__all__ = [
    "MODEL_KEYS",
    "Flag",
    "FlagValues",
    "Flags",
    "Image",
    "full_name",
    "is_flag",
    "long_names",
    "no_value",
    "read_flags",
    "word",
]

Parse = Callable[[str, str], object]

_MOST_WARNINGS = 20  # of flags that are not known, one by one

MODEL_KEYS = (
    "model",
    "repo",
    "url",
    "file",
)  # of what names the model: it may be left open, since MODEL in front comes first


class Flag(NamedTuple):
    """A flag that changes the cache. `key` is what it sets; a switch takes no word and sets `constant`.

    `parse` takes the word and the flag's name, which stands in errors. `env` are variables that mean the same. `bare`
    is what a flag sets that may stand without its word. `several`: all words up to the next flag are its own, and
    `parse` takes them with spaces between. `fields`: the word is a JSON object, whose fields may stand one by one:
    `--name.field value`. `apart`: the cache does not depend on it, so that it may be left open, and is None then.
    """

    key: str
    names: tuple[str, ...]
    parse: Parse | None = None
    constant: object = True
    env: tuple[str, ...] = ()
    bare: object = None
    several: bool = False
    fields: bool = False
    apart: bool = False


def word(text: str, what: str) -> str:  # noqa: ARG001 - the signature of every parser of flags
    """A word as it stands."""
    return text


class Image(NamedTuple):
    """A container's image that starts an engine: the words of its entrypoint, and of its command where none is given.

    `name` may lack a registry in front, and a tag; a tag that is named stands for all that go on with a hyphen.
    """

    name: str
    entrypoint: str
    command: str = ""


class Flags(NamedTuple):
    """All flags of an engine: those that change the cache, and names of those that cannot, by whether a word follows.

    `programs` start the engine; each is a name or several words, such as `ollama run`. `clients` are those that ask a
    server, whose variables count. `images` start the engine by their names. `underscores` may stand for the hyphens of
    long names; those may be `abbreviated`, as argparse allows it. `wordless` are programs that take no words but their
    flags' ("" for flags alone), of which `many` take several. `config` are flags that name a YAML file of more flags,
    whose words stand before those of the command, or behind them where they are `config_last`. `effects`: what flags
    and variables change of the memory that no rule here counts.
    """

    programs: tuple[str, ...] = ()
    flags: tuple[Flag, ...] = ()
    words: frozenset[str] = frozenset()
    switches: frozenset[str] = frozenset()
    underscores: bool = False
    images: tuple[Image, ...] = ()
    abbreviated: bool = False
    clients: tuple[str, ...] = ()
    wordless: tuple[str, ...] = ()
    many: frozenset[str] = frozenset()
    config: tuple[str, ...] = ()
    config_last: bool = False
    effects: Effects = {}


class FlagValues(NamedTuple):
    """What a command line says: values by key, words that belong to no flag, and what was not understood.

    `version` is the row of the engine's table that holds, since defaults change; they may depend on `memory` too, the
    bytes of all GPUs of one server, where these are known. `unknown` are names of flags. `uncounted` are flags that
    change the memory and are not counted.
    """

    values: Mapping[str, object]
    others: tuple[str, ...]
    warnings: tuple[str, ...]
    version: object = None
    unknown: tuple[str, ...] = ()
    memory: int | None = None
    uncounted: tuple[Uncounted, ...] = ()


def read_flags(words: Sequence[str], flags: Flags, env: Mapping[str, str], engine: str) -> FlagValues:
    """Read the words that follow a program's name. Raises KvcalcError for a flag whose word is missing or faulty.

    The last of two equal flags counts, and a flag more than a variable, as engines have it. A flag that is not known
    is named in a warning, and takes the next word with it if that is no flag.
    """
    known = {name: flag for flag in flags.flags for name in flag.names}
    values = {flag.key: _value(flag, name, env[name]) for flag in flags.flags for name in flag.env if name in env}
    among = long_names(flags, known)
    others, warnings, unknown, rest = [], [], [], deque(words)
    given = [(name, env[name]) for name in flags.effects if name in env]
    while rest:
        text = rest.popleft()
        name, equals, attached = text.partition("=")
        if name.startswith("--"):
            name = full_name(name, flags, among)
        flag = known.get(name)
        if not is_flag(text):
            others.append(text)
        elif flag is None:
            took = attached if equals else _word_of(name, rest, flags)
            given.append((name, took or ""))
            if name not in flags.switches and name not in flags.words:
                warnings.append(_unknown(name if equals or took is None else f"{name} {took}", engine))
                unknown.append(name)
        else:
            values[flag.key], word_given = _read(flag, name, attached if equals else None, rest)
            given.append((name, word_given))  # a flag that counts in one way may change the memory in another
    uncounted = found(given, flags.effects)
    return FlagValues(values, tuple(others), _first(warnings, engine), unknown=tuple(unknown), uncounted=uncounted)


def _read(flag: Flag, name: str, attached: str | None, rest: deque[str]) -> tuple[object, str]:
    """The value of a flag, and the word that it was read from."""
    if attached is not None:
        return _value(flag, name, attached), attached
    if flag.parse is None:
        return flag.constant, ""
    if flag.bare is not None and (not rest or is_flag(rest[0])):
        return flag.bare, ""
    text = _behind(name, flag, rest)
    return _value(flag, name, text), text


def _first(warnings: list[str], engine: str) -> tuple[str, ...]:
    """Nobody reads thousands."""
    more = len(warnings) - _MOST_WARNINGS
    rest = [f"{more:,} more flags of {engine} are not known to kvcalc"] if more > 0 else []
    return (*warnings[:_MOST_WARNINGS], *rest)


def _behind(name: str, flag: Flag, rest: deque[str]) -> str:
    """The word behind a flag, or all its words with spaces between."""
    if not rest:
        raise KvcalcError(f"{name}: expected a value behind it")
    words = [rest.popleft()]
    while flag.several and rest and not is_flag(rest[0]):
        words.append(rest.popleft())
    return " ".join(words)


def _unknown(flag: str, engine: str) -> str:
    return f"{shown(flag)} of {engine} is not known to kvcalc, and was taken to leave the cache as it is"


def _word_of(name: str, rest: deque[str], flags: Flags) -> str | None:
    """Pass over the words of a flag that sets nothing here, of which the first is given back."""
    if name in flags.switches:
        return None
    # argparse takes no word that looks like a flag.
    takes = rest and (not is_flag(rest[0]) or (name in flags.words and not flags.abbreviated))
    took = rest.popleft() if takes else None
    while name in flags.many and rest and not is_flag(rest[0]):
        rest.popleft()
    return took


def long_names(flags: Flags, known: Mapping[str, Flag]) -> list[str]:
    """All names that an abbreviation may stand for, in order."""
    return sorted({*known, *flags.words, *flags.switches}) if flags.abbreviated else []


def full_name(name: str, flags: Flags, among: Sequence[str]) -> str:
    """The long name that is meant: with hyphens, and whole where only one of `among` begins so."""
    if flags.underscores:
        name = name.replace("_", "-")
    at = bisect_left(among, name)
    meant = [full for full in among[at : at + 2] if full.startswith(name)]
    return meant[0] if name != "--" and meant and (len(meant) == 1 or meant[0] == name) else name


def is_flag(word: str) -> bool:
    """`-` alone, and numbers below zero, are words."""
    return len(word) > 1 and word[0] == "-" and not (word[1].isdigit() or word[1] == ".")


_YES, _NO = ("1", "on", "true", "yes", "enabled"), ("0", "off", "false", "no", "disabled")


def _value(flag: Flag, name: str, text: str) -> object:
    """What a flag sets: a switch written with a value (`--no-x=false`, `LLAMA_ARG_X=1`) holds if that says yes."""
    unknown = left_open(text) if flag.key not in MODEL_KEYS else None
    if unknown is not None and flag.apart:
        return None
    if unknown is not None:
        raise no_value(name, unknown)
    if flag.parse is not None:
        return flag.parse(text, name)
    if text.lower() in _YES:
        return flag.constant
    if text.lower() in _NO and isinstance(flag.constant, bool):
        return not flag.constant
    raise KvcalcError(f"{name}: expected on or off, got {shown(text)}")


def no_value(name: str, unknown: Open) -> KvcalcError:
    """A flag whose word depends on what is not known here."""
    text = escape(unknown.text[:60])
    if not unknown.name:
        return KvcalcError(f"{name}: {text} is not run here", "write its result in its place")
    why = "has several values in this text" if unknown.several else "has no value here"
    way_out = (
        "write its value in its place" if unknown.name.isdigit() else f"give it in front: -- {unknown.name}=VALUE ..."
    )
    return KvcalcError(f"{name}: {text} {why}", way_out)
