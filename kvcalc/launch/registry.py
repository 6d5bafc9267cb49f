"""Engines found by their names. Nothing lists them: a folder of `kvcalc.engines` is an engine."""

import os
import re
from importlib import import_module

from kvcalc import engines
from kvcalc.engines.base import Engine
from kvcalc.engines.log_form import EngineLog
from kvcalc.errors import KvcalcError, nearest, shown

__all__ = ["all_engines", "engine_called", "log_forms", "name_and_version"]


# What people type for an engine: the names of its packages, images and programs.
_ALIASES = {"trtllm": "tensorrt_llm", "trt_llm": "tensorrt_llm", "tensorrtllm": "tensorrt_llm", "llamacpp": "llama_cpp",
            "hf": "transformers", "mlx_lm": "mlx"}  # fmt: skip


def all_engines() -> list[Engine]:
    """Every engine, by name."""
    return [_load(name) for name in _packages()]


def engine_called(name: str) -> Engine:
    """The engine of a name as users write it. Raises KvcalcError with the nearest names for one that is not known."""
    package = _package_of(name)
    if re.fullmatch(r"[a-z]\w*", package, re.ASCII) and package in _packages():
        return _load(package)
    names = [engine.name for engine in all_engines()]
    close = nearest(name, names, 1)
    hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(names)}"
    raise KvcalcError(f"--engine: expected the name of an engine, got {shown(name)}", hint)


def name_and_version(text: str) -> tuple[str, str]:
    """`vllm@0.18` in two, the version "" where none is asked for. Raises KvcalcError for an empty one."""
    name, at, version = text.partition("@")
    if at and not version.strip():
        raise KvcalcError(f"--engine: expected a version behind @, got {shown(text)}", "leave the @ out for the newest")
    return name, version


def log_forms(name: str | None) -> list[EngineLog]:
    """The engines whose logs can be read, or the named one of them. Raises KvcalcError for a name that is not known."""
    wanted = [engine_called(name)] if name else all_engines()
    found = []
    for engine in wanted:
        package = _package_of(engine.name)
        if any(os.path.exists(os.path.join(folder, package, "log.py")) for folder in engines.__path__):
            found.append(EngineLog(engine, import_module(f"{engines.__name__}.{package}.log").FORM))
    if name and not found:
        raise KvcalcError(f"--engine: no log of {wanted[0].name} can be read")
    return found


def _packages() -> list[str]:
    # As pkgutil would list them, whose import costs as much as an engine's.
    names = {name for folder in engines.__path__ for name in os.listdir(folder)}
    return sorted(name for name in names if "." not in name and not name.startswith("_"))


def _package_of(name: str) -> str:
    package = re.sub(r"[-.]", "_", name.strip().lower())
    return _ALIASES.get(package, package)


def _load(package: str) -> Engine:
    engine = import_module(f"{engines.__name__}.{package}.engine").ENGINE
    assert isinstance(engine, Engine)
    return engine
