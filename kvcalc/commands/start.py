"""A deployment as a plan's row says it, from which an engine's start command is written."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvcalc.core.adapters import Adapters
from kvcalc.core.card import Card
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction
from kvcalc.errors import KvcalcError, shown

__all__ = ["Start", "format_word", "model_word", "share_word", "weights_word", "words_of"]


class Start(NamedTuple):
    """What is to be started. `model` is a hub id, or the path of a checkpoint; it is hostile text.

    `sequences` are those of one replica, at the same time, with `context` tokens in each. `kv_dtype` is one of the
    engine's formats by our names, or one of its own (`Engine.packed`); None is what it takes by itself. `weights` is a
    format that the checkpoint is not published in; None is as published. `utilization` None is the engine's default.
    `adapters` is the room for such, and `run` how it runs by our names, both in the engine's flags.
    Neither `card` nor `version` nor `experts`, whether the
    model has any, is said in a command; a flag may depend on them.
    """

    model: str
    context: int
    sequences: int = 1
    layout: Layout = Layout()
    kv_dtype: str | None = None
    weights: str | None = None
    utilization: Fraction | None = None
    card: Card | None = None
    version: str | None = None
    experts: bool = False
    adapters: Adapters | None = None
    run: Mapping[str, int] = {}


def model_word(start: Start) -> str:
    """The model, where no program can take it for a flag."""
    if not start.model.strip() or start.model.startswith("-"):
        raise KvcalcError(f"MODEL: expected a name or a path that a command can have, got {shown(start.model)}")
    return start.model


def format_word(start: Start, words: Mapping[str, str], engine: str) -> str | None:
    """The KV format in the engine's `words`, None where it is left to it. Raises KvcalcError for one without a word."""
    if start.kv_dtype is None:
        return None
    if start.kv_dtype not in words:
        raise KvcalcError(
            f"--kv-dtype: the command of {engine} has no word for a {shown(start.kv_dtype)} cache",
            f"auto, or one of {', '.join(words)}",
        )
    return words[start.kv_dtype]


def weights_word(start: Start, words: Mapping[str, str], engine: str) -> str | None:
    """How the engine packs a checkpoint's 16 bits as it loads them. Raises KvcalcError where it cannot."""
    if start.weights is None:
        return None
    if start.weights not in words:
        raise KvcalcError(
            f"--weights: {engine} makes no {shown(start.weights)} weights of a published checkpoint as it loads it",
            "name a checkpoint that is stored so",
        )
    return words[start.weights]


def share_word(share: Fraction | None) -> str | None:
    """A share in decimals, as all engines read it."""
    return None if share is None else f"{share.part / share.of:.11f}".rstrip("0").rstrip(".")


def words_of(flags: Iterable[tuple[str, object]]) -> tuple[str, ...]:
    """Flags with their values, without those that have none."""
    return tuple(word for flag, value in flags if value is not None for word in (flag, str(value)))
