"""Compose files, Kubernetes manifests, units, Dockerfiles and scripts read as the commands in them. Nothing is run."""

import re
from collections.abc import Iterator, Mapping

from kvcalc.commands import image_files
from kvcalc.commands.budget import ENTRY, INNER_TEXT, Budget, OverBudgetError
from kvcalc.commands.deployments import started
from kvcalc.commands.shell import Command
from kvcalc.commands.shell import read as read_script
from kvcalc.commands.variables import expand
from kvcalc.commands.words import split
from kvcalc.errors import DocumentError, KvcalcError, escape

__all__ = ["read"]

_MOST_SCRIPT = 1 << 18  # characters; the longest that people paste have some 50,000
_UNIT = re.compile(r"\[(?:Unit|Service|Container|Install)\]")
_YAML = re.compile(r"---|[\w.\"'-]++\s*+:(?:\s|$)|-\s|\[\s*+[\"'-]|\{\s*+[\"}]")
_LONGEST_PLACE = 60  # characters of a container's name, in a message
_KEYS = ("image", "command", "args", "entrypoint", "cmd")
_PREFIXES = "-@:+!|"  # of ExecStart=, systemd.service(5)


def read(content: bytes, file: str, given: Mapping[str, str], budget: Budget) -> tuple[str, list[Command]]:
    """What a text is, and the commands in it. `given` are variables with their values. Raises KvcalcError."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise KvcalcError(f"{file}:{content[: error.start].count(10) + 1}: expected UTF-8 text") from None
    if "\0" in text:
        raise KvcalcError(f"{file}: expected text, got binary data")
    form = _form(text)
    if form == "unit":
        return "unit", list(_units(text, given, file, budget))
    if form == "YAML":
        return "YAML", list(_services(content, file, given, budget))
    if form == "Dockerfile":
        return form, list(image_files.dockerfile(text, given, file, budget))
    if form == "Modelfile":
        return form, list(image_files.modelfile(text, given))
    return "script", _script(text, given, file, budget)


def _script(text: str, given: Mapping[str, str], file: str, budget: Budget) -> list[Command]:
    """The commands of a script, and those of the units and compose files that it writes."""
    if len(text) > _MOST_SCRIPT:
        raise KvcalcError(
            f"{file}: expected a script of at most {_MOST_SCRIPT:,} characters", "give its start-up line alone"
        )
    try:
        script = read_script(text, given, budget)
    except OverBudgetError:
        raise
    except KvcalcError as error:
        raise KvcalcError(f"{file}: {error.message}", error.hint) from None
    commands = script.commands
    for line, inner in script.texts:  # a script that writes a unit or a compose file
        match _form(inner):
            case "unit":
                found = list(_units(inner, given, file, budget))
            case "YAML":
                found = list(_services(inner.encode(), file, given, budget))
            case _:
                continue
        commands += [command._replace(name=str(line)) for command in found]
    return commands


def _form(text: str) -> str:
    """What a text is, by its first line that is no comment."""
    for line in text.split("\n"):
        start = line.strip()
        if start and (start[0] not in "#;" or start.startswith("#!")):
            if _UNIT.fullmatch(start):
                return "unit"
            return "YAML" if _YAML.match(start) else image_files.form(text) or "script"
    return "script"


def _units(text: str, given: Mapping[str, str], file: str, budget: Budget) -> Iterator[Command]:
    """ExecStart= of services, and Exec= of Podman's containers, with what Environment= says anywhere in the unit."""
    lines = list(_lines(text))
    starts = [i for i, (_, line) in enumerate(lines) if line == "[Unit]"]
    for begin, end in zip([0, *starts], [*starts, len(lines)], strict=True):
        unit = [(number, *line.partition("=")[::2]) for number, line in lines[begin:end]]
        values = [(number, key.strip(), value.strip()) for number, key, value in unit]
        budget.spend(INNER_TEXT + ENTRY * len(given))
        env = dict(given)
        for number, key, value in values:
            if key == "Environment":
                env |= _assigned(_split(value, f"{file}:{number}"))
        last = {key: value for _, key, value in values}
        image, entrypoint = last.get("Image", ""), last.get("Entrypoint", "")
        unread = "EnvironmentFile" if "EnvironmentFile" in last else ""
        found = 0
        for number, key, value in values:
            if key == "ExecStart" and value:
                words = tuple(_executed(value, env, f"{file}:{number}", budget))
                yield Command(words, env, str(number), unread=unread)
            elif key == "Exec":
                words = (*((entrypoint,) if entrypoint else ()), *_split(value, f"{file}:{number}"))
                yield Command(words, env, str(number), "" if entrypoint else image, unread, image)
            else:
                continue
            found += 1
        if not found and (image or len(env) > len(given)):
            yield Command((), env, "unit", image, unread)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, those that a backslash continues as one. Comments may stand between them."""
    parts: list[str] = []
    begin = 0
    for number, line in enumerate(text.split("\n"), 1):
        own = line.strip()
        if own[:1] in ("#", ";"):
            continue
        begin = begin or number
        parts.append(own.removesuffix("\\"))
        if not own.endswith("\\"):
            yield begin, " ".join(parts).strip()
            parts, begin = [], 0


def _executed(value: str, env: Mapping[str, str], place: str, budget: Budget) -> list[str]:
    """The words of ExecStart=: prefixes say how it is run, `$NAME` alone is split at blanks, `$$` is a `$`."""
    rest = value.lstrip(_PREFIXES)
    prefix = value[: len(value) - len(rest)]
    words = _split(rest, place)
    if "@" in prefix:  # the second word is only what the process calls itself
        del words[1:2]
    if ":" in prefix:
        return words
    made: list[str] = []
    for word in words:
        value = _interpolated(word, env, budget)
        made += value.split() if word.startswith("$") and word[1:].isidentifier() else [value]
    return made


def _services(content: bytes, file: str, given: Mapping[str, str], budget: Budget) -> Iterator[Command]:
    """What containers run: services of a compose file, containers of Kubernetes, a list of arguments alone."""
    from kvcalc.preset.yaml_file import parse_all

    try:
        documents = parse_all(content, file)
    except DocumentError as error:
        if b"{{" in content:
            raise KvcalcError(error.message, "render the template first, such as with `helm template`") from None
        raise
    for document in documents:
        if isinstance(document, list) and not any(isinstance(one, dict | list) for one in document):
            yield Command(tuple(_words(document, file, budget)), given)
            continue
        compose = isinstance(document, dict) and "services" in document
        macros = document.get("macros") if isinstance(document, dict) else None  # llama-swap has them
        values = {**_environment(macros), **given}
        for name, service in _containers(document):
            place = f"{file}: {escape(name[:_LONGEST_PLACE])}"
            yield _command(service, name, place, values, budget, compose=compose)
        yield from started(document, values, file, budget, _environment)


def _containers(document: object) -> Iterator[tuple[str, dict[object, object]]]:
    """The mappings that say what a container runs, each once, with their names."""
    waiting: list[tuple[str, object]] = [("", document)]
    seen: set[int] = set()
    while waiting:
        name, value = waiting.pop()
        if not isinstance(value, dict | list) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list):
            waiting += [(name, one) for one in reversed(value)]
            continue
        own = value.get("name")
        name = own if isinstance(own, str) else name
        if _image(value) or any(isinstance(value.get(key), str | list) for key in _KEYS[1:]):
            yield name, value
        waiting += [(str(key), one) for key, one in reversed(value.items())]


def _image(service: Mapping[object, object]) -> str:
    """The name of an image, in one word or as charts have it: `{repository: vllm/vllm-openai, tag: v0.11.0}`."""
    image = service.get("image")
    if not isinstance(image, dict):
        return image if isinstance(image, str) else ""
    parts = [_text(image.get(key)) for key in ("registry", "repository", "tag")]
    path = "/".join(part for part in parts[:2] if part)
    return f"{path}:{parts[2].partition('@')[0]}".rstrip(":") if path else ""


def _command(
    service: dict[object, object], name: str, place: str, given: Mapping[str, str], budget: Budget, *, compose: bool
) -> Command:
    """What one container runs. Compose files put values in place of variables, Kubernetes only `$(NAME)`."""
    image = _image(service)
    stated = service.get("environment", service.get("env"))
    budget.spend(ENTRY * (len(given) + (len(stated) if isinstance(stated, dict | list) else 0)))
    env = _environment(stated)
    unread = next((key for key in ("env_file", "envFrom") if key in service), "")
    if compose or "entrypoint" in service or "environment" in service:
        env = {**{key: _interpolated(value, given, budget) for key, value in env.items()}, **given}
        image = _interpolated(image, given, budget)
        entrypoint, command = (_words(service.get(key), place, budget, given) for key in ("entrypoint", "command"))
        return Command((*entrypoint, *command), env, name, "" if entrypoint else image, unread, image)
    env = {**env, **given}
    if "cmd" in service:
        return Command(tuple(_words(service.get("cmd"), place, budget, given)), env, name)

    def value(match: re.Match[str]) -> str:
        made = env.get(match[1], match[0])
        budget.spend(len(made))
        return made

    def valued(word: str) -> str:
        return re.sub(r"\$\((\w+)\)", value, word)

    command, args = ([valued(word) for word in _words(service.get(key), place, budget)] for key in ("command", "args"))
    alone = not command or command[0].startswith("-")
    return Command((*command, *args), env, name, image if alone else "", unread, image)


def _words(value: object, place: str, budget: Budget, given: Mapping[str, str] | None = None) -> list[str]:
    """The words of a list, or of a text; with `given`, its variables' values in their places."""
    texts = [_text(one) for one in value] if isinstance(value, list) else [] if value is None else [_text(value)]
    budget.spend(sum(map(len, texts)) + ENTRY * len(texts))  # an alias stands for as many again
    if given is not None:
        texts = [_interpolated(text, given, budget) for text in texts]
    return texts if isinstance(value, list) else [word for text in texts for word in _split(text, place)]


def _environment(value: object) -> dict[str, str]:
    """Variables as a mapping, as NAME=VALUE, or as {name, value}. Those whose values stand elsewhere are left open."""
    if isinstance(value, dict):
        return {str(key): f"${{{key}}}" if one is None else _text(one) for key, one in value.items()}
    env: dict[str, str] = {}
    for entry in value if isinstance(value, list) else ():
        if isinstance(entry, dict) and "name" in entry:
            name = str(entry["name"])
            env[name] = _text(entry["value"]) if "value" in entry else f"${{{name}}}"
        elif isinstance(entry, str):
            name, equals, own = entry.partition("=")
            env[name] = own if equals else f"${{{name}}}"
    return env


def _assigned(words: list[str]) -> dict[str, str]:
    return {name: value for name, equals, value in (word.partition("=") for word in words) if equals}


def _text(value: object) -> str:
    """A scalar as YAML has it: `true` and not Python's True."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: ""}[value]
    return str(value) if isinstance(value, str | int | float) else ""


def _interpolated(text: str, values: Mapping[str, str], budget: Budget) -> str:
    """Variables' values in their places; `$$` is a `$`."""
    return "$".join(expand(part, values, budget) for part in text.split("$$"))


def _split(text: str, place: str) -> list[str]:
    try:
        return split(text)
    except ValueError:
        raise KvcalcError(f"{place}: a quote is opened and not closed") from None
