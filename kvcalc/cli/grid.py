"""What `sweep` and `compare` have in common: options with lists become a grid's question."""

from typing import Any

import typer

from kvcalc.cli.group import BEHIND_DASHES
from kvcalc.cli.lists import GridWords
from kvcalc.cli.values import (
    cache_of,
    company_of,
    fraction_of,
    gpus_of,
    refuse_file_alone,
    run_of,
    size_of,
    split_of,
    tokens_of,
)
from kvcalc.grid.ranges import names
from kvcalc.queries.grid_question import Axes, GridQuestion
from kvcalc.queries.options import Memory

__all__ = ["grid_question"]


def grid_question(words: GridWords, ctx: typer.Context | None = None) -> GridQuestion:
    """The question of a grid; the engine's own flags stand in the context. Raises KvcalcError."""
    meta: dict[str, Any] = {} if ctx is None else ctx.meta
    if words.gpu is None:
        refuse_file_alone(words.gpu_file)

    def listed(text: str | None, option: str) -> list[str] | None:
        return None if text is None else names(text, option)

    return GridQuestion(
        axes=Axes(
            gpus=gpus_of(words.gpu, words.gpu_file),
            weights=listed(words.weights, "--weights"),
            engines=listed(words.engine, "--engine"),
            kv_dtypes=listed(words.kv_dtype, "--kv-dtype"),
            tps=words.tp,
            contexts=words.context,
            batches=words.batch,
        ),
        encoder_tokens=tokens_of(words.encoder_tokens, "--encoder-tokens", None),
        form=cache_of(words)._replace(kv_dtype=None),
        split=split_of(words, tp=False),
        memory=Memory(
            vram=size_of(words.vram, "--vram", None),
            kv_memory=size_of(words.kv_memory, "--kv-memory", None),
            utilization=fraction_of(words.utilization, "--utilization"),
            overhead=size_of(words.overhead, "--overhead", None, zero=True),
            **company_of(words),
        ),
        words=meta.get(BEHIND_DASHES),
        run=run_of(words),
    )
