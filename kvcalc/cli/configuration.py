"""Defaults of a user's own: `config.yaml` in the configuration folder says which GPU, engine and units to ask with.

What is taken from it is named in the answer; Python reads no such file.
"""

import os
from typing import Any, NamedTuple

from kvcalc.errors import DocumentError, KvcalcError, shown_path
from kvcalc.library.index import in_configuration

__all__ = ["Taken", "take"]

# Each key is the option of that name, and yields to any of these.
_YIELDS = {"gpu": ("gpu", "vram", "kv_memory"), "engine": ("engine",), "units": ("units",)}


class Taken(NamedTuple):
    """What a question takes from the file, as an answer names it."""

    values: dict[str, str]
    path: str

    def note(self) -> str:
        """The sentence that names it."""
        listed = ", ".join(f"--{key} {value}" for key, value in self.values.items())
        return f"{listed}: by {shown_path(self.path)}, which --no-config leaves out"


def take(typed: dict[str, Any], *, commanded: bool) -> Taken | None:
    """Fill in what nobody typed, by option; an engine's own command (`commanded`) names the engine.

    Raises KvcalcError for a faulty file.
    """
    path = in_configuration("config.yaml")
    if typed.get("no_config", True) or not os.path.isfile(path):
        return None
    values = {
        key: value
        for key, value in _values(path).items()
        if key in typed and not any(typed.get(other) for other in _YIELDS[key]) and not (commanded and key == "engine")
    }
    typed.update(values)
    return Taken(values, path) if values else None


def _values(path: str) -> dict[str, str]:
    from kvcalc.preset.fields import Reader
    from kvcalc.preset.yaml_file import parse, read_bytes

    try:
        document = parse(read_bytes(path), path)
    except DocumentError:
        raise
    except KvcalcError as error:
        raise KvcalcError(error.message, "it is YAML, such as `gpu: h100`; --no-config leaves it out") from None
    reader = Reader(document.data)
    found = {key: reader.text(key) for key in _YIELDS}
    reader.close()
    if reader.problems:
        raise DocumentError(
            [problem._replace(file=path, line=document.line(problem.path)) for problem in reader.problems]
        )
    return {key: value for key, value in found.items() if value is not None}
