"""A deployment as a plan's row says it, from which an engine's start command is written."""

from typing import NamedTuple

from kvcalc.fitting import Share
from kvcalc.hardware import Card
from kvcalc.sharding import Layout

__all__ = ["Start"]


class Start(NamedTuple):
    """What is to be started. `model` is a hub id, or the path of a checkpoint; it is hostile text.

    `sequences` are those of one replica, at the same time, with `context` tokens in each. `kv_dtype` is one of the
    engine's formats by our names, or one of its own (`Engine.packed`); None is the engine's default. `weights`: a format
    that the checkpoint is not published in; None is as published. `utilization` None is the engine's default. Neither
    `card` nor `version` is said in a command; a flag may depend on them.
    """

    model: str
    context: int
    sequences: int = 1
    layout: Layout = Layout()
    kv_dtype: str | None = None
    weights: str | None = None
    utilization: Share | None = None
    card: Card | None = None
    version: str | None = None
