"""Engines that YAML starts in another way than as a container: texts for a shell, KServe, Ray Serve, charts of Helm.

SkyPilot, GitHub Actions and Ansible have shell texts under keys of their own. KServe's documentation of
InferenceService and LLMInferenceService, Ray Serve's LLMConfig, and the chart of vllm-project/production-stack.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kvcalc.commands.budget import ENTRY, INNER_TEXT, Budget, OverBudgetError
from kvcalc.commands.flag_files import as_json
from kvcalc.commands.shell import Command
from kvcalc.commands.shell import read as read_script
from kvcalc.commands.words import split
from kvcalc.errors import KvcalcError

__all__ = ["started"]

_Environment = Callable[[object], dict[str, str]]
_Mapping = Mapping[object, object]

_SHELL = (
    "run", "script", "shell", "sh", "bash", "bash_command", "setup", "exec", "start", "startup_script",
    "startup-script", "user_data", "user-data", "before_script", "inline", "commands", "runcmd",
    "ansible.builtin.shell", "ansible.builtin.command",
)  # fmt: skip
_ENVIRONMENTS = ("env", "envs", "environment", "secrets")
_EMBEDDED = ("serveConfigV2",)  # KubeRay has a text of YAML in its YAML
_DEEPEST = 3

# KServe's server takes vLLM's flags, and names for the model of its own (huggingfaceserver/__main__.py).
_KSERVE = {"--model_id": "--model", "--model_dir": "--model", "--model_name": "--served-model-name"}
_FORMATS = ("huggingface", "vllm")


def started(
    document: object, given: Mapping[str, str], file: str, budget: Budget, environment: _Environment, depth: int = 0
) -> Iterator[Command]:
    """The commands that a document's mappings come to, with the names that stand nearest. `environment` reads one."""
    waiting: list[tuple[str, object, Mapping[str, str]]] = [("", document, given)]
    seen: set[int] = set()
    while waiting:
        name, value, env = waiting.pop()
        if not isinstance(value, dict | list) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, list):
            waiting += [(name, one, env) for one in reversed(value)]
            continue
        name = _name(value) or name
        env = _inherited(value, env, given, budget, environment)
        yield from (command._replace(env=env, name=name) for command in _servers(value))
        for key, text in value.items():
            if key in _EMBEDDED and isinstance(text, str) and depth < _DEEPEST:
                yield from _embedded(text, env, file, budget, environment, depth + 1)
            elif _is_shell(key, text):
                yield from _in_shell(text, env, name or str(key), budget)
        waiting += [(str(key), one, env) for key, one in reversed(value.items())]


def _name(value: _Mapping) -> str:
    """What a mapping is called: by itself, or by its metadata."""
    metadata = value.get("metadata")
    named = value.get("name") or (metadata.get("name") if isinstance(metadata, dict) else None)
    return named if isinstance(named, str) else ""


def _inherited(
    value: _Mapping, env: Mapping[str, str], given: Mapping[str, str], budget: Budget, environment: _Environment
) -> Mapping[str, str]:
    """The variables of a mapping and those around it."""
    own: dict[str, str] = {}
    for key in _ENVIRONMENTS:
        found = value.get(key)
        if isinstance(found, dict | list) and found:
            budget.spend(ENTRY * (len(found) + len(env)))
            own |= environment(found)
    return {**env, **own, **given} if own else env


def _is_shell(key: object, value: object) -> bool:
    if isinstance(value, str):
        return key in _SHELL or str(key).endswith(".sh") or value.startswith("#!")
    return isinstance(value, list) and key in _SHELL


def _in_shell(value: object, env: Mapping[str, str], name: str, budget: Budget) -> Iterator[Command]:
    """The commands in a shell's text, or in a list of such texts; a list of lists has their words."""
    lines = value if isinstance(value, list) else [value]
    for words in (line for line in lines if isinstance(line, list)):
        yield Command(tuple(word for word in words if isinstance(word, str)), env, name)
    text = "\n".join(line for line in lines if isinstance(line, str))
    budget.spend(INNER_TEXT + len(text) + ENTRY * len(env))
    try:
        found = read_script(text, env, budget).commands
    except OverBudgetError:
        raise
    except KvcalcError:  # Python, perhaps: no shell's text
        return
    yield from (command._replace(name=name) for command in found)


def _embedded(
    text: str, env: Mapping[str, str], file: str, budget: Budget, environment: _Environment, depth: int
) -> Iterator[Command]:
    from kvcalc.preset.yaml_file import parse_all

    budget.spend(INNER_TEXT + len(text))
    for document in parse_all(text.encode(errors="replace"), file):
        yield from started(document, env, file, budget, environment, depth)


def _servers(value: _Mapping) -> Iterator[Command]:
    """vLLM as another program starts it, from its own names for the model and the flags."""
    engine, config = value.get("engine_kwargs"), value.get("vllmConfig")
    if isinstance(engine, dict):
        yield Command(("vllm", "serve", *_loaded(value.get("model_loading_config")), *_flags(engine)))
    if isinstance(config, dict):
        model, more = value.get("modelURL"), config.get("extraArgs")
        named = {_hyphens(str(key)): own for key, own in config.items() if key not in ("extraArgs", "v1", "v0")}
        words = [*([model] if isinstance(model, str) else ()), *_flags(named), *_strings(more)]
        image = f"{value['repository']}:{value.get('tag', '')}" if isinstance(value.get("repository"), str) else ""
        yield Command(("vllm", "serve", *words), within=image.rstrip(":"))
    form = value.get("modelFormat")
    if isinstance(form, dict) and form.get("name") in _FORMATS:
        yield from _inference(value)
    if value.get("kind") == "LLMInferenceService":
        yield from _inference_of_models(value.get("spec"))


def _inference(value: _Mapping) -> Iterator[Command]:
    """`spec.predictor.model` of an InferenceService, whose server hands vLLM's flags on."""
    words = [_renamed(word) for word in _strings(value.get("args"))]
    if any(word in ("--backend=huggingface", "huggingface") for word in words):
        return
    named = any(word.partition("=")[0] == "--model" for word in words)
    yield Command(("vllm", "serve", *(() if named else _hub(value.get("storageUri"))), *words))


def _inference_of_models(spec: object) -> Iterator[Command]:
    """An LLMInferenceService: a model, how it is spread, and vLLM's flags in a variable or behind the image."""
    if not isinstance(spec, dict):
        return
    model, spread, template = (spec.get(key) for key in ("model", "parallelism", "template"))
    words = list(_hub(model.get("uri")) if isinstance(model, dict) else ())
    if isinstance(spread, dict):
        sizes = {f"{key}-parallel-size": spread[key] for key in ("tensor", "data", "pipeline") if key in spread}
        words += _flags(sizes)
    containers = template.get("containers") if isinstance(template, dict) else None
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, dict) and container.get("name", "main") == "main":
            words += [*_additional(container.get("env")), *_strings(container.get("args"))]
    yield Command(("vllm", "serve", *words))


def _additional(env: object) -> list[str]:
    entries = [entry for entry in env if isinstance(entry, dict)] if isinstance(env, list) else []
    text = next((entry.get("value") for entry in entries if entry.get("name") == "VLLM_ADDITIONAL_ARGS"), None)
    try:
        return split(text) if isinstance(text, str) else []
    except ValueError:
        return []


def _loaded(config: object) -> list[str]:
    """The model of Ray Serve's `model_loading_config`: where it is loaded from, or what it is called."""
    found = [config.get(key) for key in ("model_source", "model_id")] if isinstance(config, dict) else []
    return [next((each for each in found if isinstance(each, str)), "")] if any(found) else []


def _hub(uri: object) -> list[str]:
    """A model of the hub; what lies elsewhere must be given in front."""
    return [uri.removeprefix("hf://").partition(":")[0]] if isinstance(uri, str) and uri.startswith("hf://") else []


def _renamed(word: str) -> str:
    name, equals, value = word.partition("=")
    return _KSERVE.get(f"--{name[2:].replace('-', '_')}", name) + equals + value


def _hyphens(name: str) -> str:
    """`tensorParallelSize` as a flag has it."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name[:80]).lower()


def _flags(settings: Mapping[Any, object]) -> list[str]:
    """Settings as flags: a switch stands alone or is turned off, a list has several words, a mapping is JSON."""
    words: list[str] = []
    for key, value in settings.items():
        name = str(key).replace("_", "-")
        match value:
            case None:
                continue
            case bool():
                words.append(f"--{name}" if value else f"--no-{name}")
            case list():
                words += [f"--{name}", *_strings(value)]
            case dict():
                words.append(f"--{name}={as_json(value, name)}")
            case _:
                words.append(f"--{name}={value}")
    return words


def _strings(value: object) -> list[str]:
    return [str(each) for each in value if isinstance(each, str | int | float)] if isinstance(value, list) else []
