"""Words of a command line in other spellings: files of flags, and objects whose fields stand one by one."""

import contextlib
import json
import os
from collections import deque
from collections.abc import Mapping, Sequence

from kvcalc.commands.flags import Flag, Flags, full_name, is_flag, long_names
from kvcalc.errors import KvcalcError, escape, shown
from kvcalc.preset.yaml_file import parse, read_bytes

__all__ = ["as_json", "joined", "with_files"]


def with_files(words: Sequence[str], flags: Flags, *, here: bool) -> tuple[list[str], list[str]]:
    """The words with those of the files that they name, as the engine would read them; a warning of a file unread.

    `here`: such a file is on this machine. That of a pasted text is likely on another one.
    """
    own: list[str] = []
    added: list[str] = []
    unread: list[str] = []
    rest = iter(words)
    for text in rest:
        name, equals, path = text.partition("=")
        if name not in flags.config:
            own.append(text)
            continue
        path = path if equals else next(rest, "")
        if here and os.path.isfile(path):
            added += _file_words(path, flags)
        else:
            unread.append(f"{name}: {shown(path)} is not read here, and what it may set was not looked at")
    if flags.config_last:
        return [*own, *added], unread
    first = next((i for i, word in enumerate(own) if word.startswith("-")), len(own))  # behind a model
    return [*own[:first], *added, *own[first:]], unread


def _file_words(path: str, flags: Flags) -> list[str]:
    """A YAML file of settings as flags: a switch stands alone, a list has several words, a mapping is JSON."""
    names = {name for flag in flags.flags for name in flag.names} | flags.switches
    words: list[str] = []
    for key, value in parse(read_bytes(path), path).data.items():
        name = f"--{key}" if flags.config_last else f"--{str(key).replace('_', '-')}"
        off = f"--no-{name[2:]}"
        match value:
            case True:
                words.append(name)
            case False:
                words += [off] if off in names else []
            case None:
                continue
            case list():
                words += [name, *(str(each) for each in value)] if value else []
            case dict():
                words.append(f"{name}={as_json(value, name)}")
            case _:
                words.append(f"{name}={value}")
    return words


def joined(words: Sequence[str], flags: Flags) -> list[str]:
    """The words, with fields that stand one by one (`--name.field value`) as one JSON object behind all others."""
    known = {name: flag for flag in flags.flags for name in flag.names}
    if not any(flag.fields for flag in flags.flags):
        return list(words)
    among = long_names(flags, known)
    objects: dict[str, dict[str, object]] = {}
    made: list[str] = []
    rest = deque(words)
    while rest:
        text = rest.popleft()
        name, equals, attached = text.partition("=")
        head, dot, path = name.partition(".")
        head = full_name(head, flags, among) if head.startswith("--") else head
        if not (dot and is_flag(text) and (equals or rest) and _an_object(head, flags, known)):
            made.append(text)
            continue
        value = attached if equals else rest.popleft()
        if head in known:
            _put(objects.setdefault(head, {}), path, value)
        else:
            made.append(f"{head}={value}")
    return [*made, *(f"{name}={as_json(fields, name)}" for name, fields in objects.items())]


def _an_object(name: str, flags: Flags, known: Mapping[str, Flag]) -> bool:
    return known[name].fields if name in known else name in flags.words


def _put(fields: dict[str, object], path: str, text: str) -> None:
    """A field of an object: its value is JSON, or else a text."""
    value: object = text
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text)
    *outer, last = path.split(".")
    for key in outer:
        inner = fields.setdefault(key, {})
        if not isinstance(inner, dict):
            return
        fields = inner
    fields[last.removesuffix("+")] = value


def as_json(value: object, name: str) -> str:
    """A mapping as an engine takes it in one word. Raises KvcalcError by the name of its setting."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):  # a key that is a list, a mapping within itself, too deep
        raise KvcalcError(f"{escape(name)[:80]}: expected plain values, as JSON has them") from None
