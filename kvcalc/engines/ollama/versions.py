"""What changed in Ollama from version to version, as far as it changes the cache."""

from typing import NamedTuple

from kvcalc.commands.versions import pick
from kvcalc.engines.llama_cpp import versions as llama

__all__ = ["VERSIONS", "Version"]


class Version(NamedTuple):
    """One version and those after it. `build`: the llama-server that it starts; None: engines inside Ollama itself.

    `alone`: architectures that are run with one sequence at a time (server/sched.go, load).
    """

    name: str
    build: llama.Version | None
    alone: frozenset[str]


def _build(name: str) -> llama.Version:
    return pick(llama.VERSIONS, name, "llama.cpp")[0]


_VISION = frozenset({"mllama", "qwen3vl", "qwen3vlmoe"})
_STATES = frozenset({"qwen35", "qwen35moe", "qwen3next", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe"})

VERSIONS = (
    Version("0.11.0", None, _VISION),  # kvcache/causal.go with swaMemorySize, August 2025
    # Pull request 16031 of 2026-05-29 removed the engines of its own; 16775 brought b9672.
    Version("0.30.0", _build("b9672"), _VISION | _STATES),
    Version("0.33.0", _build("b10488"), _VISION | _STATES),  # LLAMA_CPP_VERSION at fb3076099
)
