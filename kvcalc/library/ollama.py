"""Names of the Ollama library: `qwen3:30b` and `mistral` are a model of the hub and the format of its file."""

import os

from kvcalc.library.index import bundled

__all__ = ["hub_name"]


def hub_name(name: str) -> str | None:
    """The hub id and the format that a name of the library stands for, as ORG/NAME:Q4_K_M; None for another name.

    A tag that goes on with a format (qwen3:30b-q8_0) is the tag's model in that format.
    """
    import json  # what a short question does not ask about

    from kvcalc.library.stated import stated

    with open(os.path.join(bundled(), "ollama.json"), encoding="utf-8") as file:
        names: dict[str, str] = json.load(file)["names"]
    whole = name.lower().removesuffix(":latest")
    if whole in names:
        return names[whole]
    said = stated(whole)
    if said is None or said.format is None or said.name not in names:
        return None
    model = names[said.name].rpartition(":")[0]
    return f"{model}:{whole[len(said.name) + 1 :].upper()}"
