"""The question of a grid and its answer, as values."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.request import Request
from kvcalc.grid.sweep import Grid
from kvcalc.queries.options import (
    CacheFormat,
    Memory,
    NamedGpu,
    RunOptions,
    Split,
)

__all__ = ["Axes", "GridAnswer", "GridQuestion"]


class Axes(NamedTuple):
    """The values on each axis, None where an option was not given. A text is a list or range such as `1k..64k:x2`.

    Attributes:
        gpus: Cards, each as it was named alone.
        weights: Formats or sizes of the weights, as words.
        engines: Names of engines, each with its version or without.
        kv_dtypes: Formats of the cache, as words.
        tps: Tensor-parallel sizes.
        contexts: Tokens of each sequence; `max` is the model's limit.
        batches: Sequences over all replicas.
    """

    gpus: Sequence[NamedGpu] | None = None
    weights: Sequence[str] | None = None
    engines: Sequence[str] | None = None
    kv_dtypes: Sequence[str] | None = None
    tps: Sequence[int] | str | None = None
    contexts: Sequence[int | Literal["max"]] | str | None = None
    batches: Sequence[int] | str | None = None


class GridQuestion(NamedTuple):
    """A grid over one model.

    Attributes:
        axes: What varies.
        encoder_tokens: Tokens on the encoder's side.
        form: The formats of keys and values, where `kv_dtype` is None: it is an axis.
        split: How it is split, where `tp` is None: it is an axis.
        memory: What one GPU offers, without `gpu` and `weights`, which are axes.
        words: The engine's own flags, of the one engine that is named.
        run: How the engines run, in words of ours.
    """

    axes: Axes = Axes()
    encoder_tokens: int | None = None
    form: CacheFormat = CacheFormat()
    split: Split = Split()
    memory: Memory = Memory()
    words: Sequence[str] | None = None
    run: RunOptions = RunOptions()


class GridAnswer(NamedTuple):
    """The grid, whose cells are worked out as they are reached.

    Attributes:
        model: The model.
        grid: Its planes and cells.
        question: What was asked.
        request: A request of the grid, with every default filled in; None where no cell can be asked.
        warnings: What the asker should know of all of it.
    """

    model: Model
    grid: Grid
    question: GridQuestion
    request: Request | None
    warnings: tuple[str, ...]
