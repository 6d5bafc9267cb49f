"""Dockerfiles and Ollama's Modelfiles read as the command that a container, or a model, is started with.

https://docs.docker.com/reference/dockerfile, and docs/modelfile.md of ollama/ollama. Nothing is built.
"""

import json
import re
from collections.abc import Iterator, Mapping

from kvcalc.commands.budget import ENTRY, INNER_TEXT, Budget
from kvcalc.commands.shell import Command
from kvcalc.commands.variables import expand
from kvcalc.commands.words import split
from kvcalc.errors import KvcalcError

__all__ = ["dockerfile", "form", "modelfile"]

_OF_MODELS = (
    "PARAMETER",
    "TEMPLATE",
    "SYSTEM",
    "ADAPTER",
    "LICENSE",
    "MESSAGE",
    "RENDERER",
    "PARSER",
    "REQUIRES",
    "DRAFT",
)
_OF_IMAGES = (
    "RUN", "CMD", "ENTRYPOINT", "ENV", "COPY", "ADD", "EXPOSE", "WORKDIR", "ARG", "LABEL", "USER", "VOLUME", "SHELL",
    "HEALTHCHECK", "STOPSIGNAL", "ONBUILD", "MAINTAINER",
)  # fmt: skip
_WORD = re.compile(r"\s*([A-Za-z]+)\s")


def form(text: str) -> str | None:
    """`Dockerfile`, `Modelfile`, or None for what is neither: both begin with FROM, a Dockerfile also with ARG."""
    first = None
    for line in text.split("\n"):
        match = _WORD.match(f"{line} ")
        word = match[1].upper() if match else ""
        if not line.strip() or line.lstrip()[0] == "#":
            continue
        if first is None:
            first = word
            if word not in ("FROM", "ARG") or not line.strip()[len(word) :].strip():
                return None
        if word in _OF_MODELS:
            return "Modelfile"
        if word in _OF_IMAGES:
            return "Dockerfile"
    return "Modelfile" if first == "FROM" else None


def dockerfile(text: str, given: Mapping[str, str], file: str, budget: Budget) -> Iterator[Command]:
    """What the last stage starts: ENTRYPOINT and CMD, behind the entrypoint of the image that it is made from."""
    env, image, entrypoint, command, line = dict(given), "", list[str](), list[str](), 1
    for number, name, value in _instructions(text):
        place = f"{file}:{number}"
        match name:
            case "FROM":
                words = [word for word in value.split() if not word.startswith("--")]
                image = expand(words[0], env, budget) if words else ""
                entrypoint, command, line = [], [], number
            case "ARG" | "ENV":
                budget.spend(INNER_TEXT)
                env |= {key: own for key, own in _assigned(value, env, place, budget).items() if key not in given}
            case "ENTRYPOINT":
                entrypoint, command, line = _run(value, place), [], number
            case "CMD":
                command, line = _run(value, place), number
    budget.spend(ENTRY * len(env))
    if image or entrypoint or command:
        yield Command((*entrypoint, *command), env, str(line), "" if entrypoint else image, "", image)


def modelfile(text: str, given: Mapping[str, str]) -> Iterator[Command]:
    """The model, run with the parameters that are set: `PARAMETER num_ctx 8192`."""
    values, model, line = dict[str, str](), "", 1
    inside = False  # a text of several lines, between three quotes
    for number, own in enumerate(text.split("\n"), 1):
        began = inside
        inside ^= own.count('"""') % 2 == 1
        words = own.split(None, 2)
        if began or not words:
            continue
        if words[0].upper() == "FROM" and len(words) > 1:
            model, line = own.split(None, 1)[1].strip().strip('"'), number
        elif words[0].upper() == "PARAMETER" and len(words) > 2:
            values[words[1].lower()] = words[2].strip().strip('"')
    if model:
        yield Command(("ollama", "run", model), {**values, **given}, str(line))


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Each instruction with its line, in capitals, and what follows; those that a backslash continues as one."""
    parts: list[str] = []
    begin = 0
    for number, line in enumerate(text.split("\n"), 1):
        own = line.strip()
        if own[:1] == "#" or (not own and parts):  # comments and empty lines may stand between
            continue
        begin = begin or number
        parts.append(own.removesuffix("\\"))
        if not own.endswith("\\"):
            name, _, value = " ".join(parts).strip().partition(" ")
            yield begin, name.upper(), value.strip()
            parts, begin = [], 0


def _run(value: str, place: str) -> list[str]:
    """Words as a JSON list, or the text of a shell."""
    if value.startswith("["):
        try:
            words = json.loads(value)
        except (ValueError, RecursionError):
            words = None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise KvcalcError(f"{place}: expected a list of words in quotes") from None
        return words
    return ["sh", "-c", value] if value else []


def _assigned(value: str, env: Mapping[str, str], place: str, budget: Budget) -> dict[str, str]:
    """`NAME=VALUE ...`, or the older `NAME VALUE`."""
    try:
        words = split(value)
    except ValueError:
        raise KvcalcError(f"{place}: a quote is opened and not closed") from None
    if words and "=" not in words[0]:
        return {words[0]: expand(" ".join(words[1:]), env, budget)} if len(words) > 1 else {}
    pairs = (word.partition("=") for word in words)
    return {name: expand(own, env, budget) for name, equals, own in pairs if equals}
