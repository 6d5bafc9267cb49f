"""The arguments of a grid, some of which are axes."""

import os
from collections.abc import Callable, Sequence
from typing import Literal, TypedDict, Unpack

from kvcalc.api.arguments import (
    cards_of,
    context_of,
    count_of,
    flags_of,
    gpus_of,
    optional,
    sequence_of,
    tokens_of,
    words_of,
)
from kvcalc.api.parts import form_of, memory_of, run_of, split_of
from kvcalc.errors import KvcalcError
from kvcalc.grid.ranges import names
from kvcalc.queries.grid_question import Axes, GridQuestion

__all__ = ["GridOptions", "grid_of"]


class GridOptions(TypedDict, total=False):
    """The options of a grid, as the command line has them; None is what was not said.

    Sizes are bytes, or text with a unit. `context`, `batch`, `kv_dtype`, `tp`, `engine`, `gpu` and `weights` are axes:
    one value, a list, or a text such as "4k,8k", and of numbers "1k..64k:x2".
    """

    context: int | str | Sequence[int | str] | None
    batch: int | str | Sequence[int] | None
    encoder_tokens: int | str | None
    kv_dtype: str | Sequence[str] | None
    k_dtype: str | None
    v_dtype: str | None
    kv_heads: int | Literal["all"] | None
    engine: str | Sequence[str] | None
    max_num_seqs: int | None
    max_num_batched_tokens: int | str | None
    enforce_eager: bool | None
    language_model_only: bool | None
    vram: int | str | None
    gpu: str | Sequence[str] | None
    gpu_file: str | os.PathLike[str] | None
    kv_memory: int | str | None
    utilization: float | str | None
    weights: str | Sequence[str] | None
    overhead: int | str | None
    lora: str | None
    draft: str | None
    beside: str | list[str] | None
    tp: int | str | Sequence[int] | None
    pp: int | None
    dp: int | None
    dcp: int | None
    ep: int | None
    dp_attention: bool | None
    gpus: int | None


def grid_of(flags: object, **options: Unpack[GridOptions]) -> GridQuestion:
    """The question of a grid; `flags` are the engine's own. Raises KvcalcError."""
    unknown = sorted(options.keys() - GridOptions.__annotations__.keys())
    if unknown:
        raise KvcalcError(f"{unknown[0]}: expected one of {', '.join(GridOptions.__annotations__)}")
    said = options.get
    return GridQuestion(
        axes=Axes(
            gpus=cards_of(said("gpu"), said("gpu_file")),
            weights=optional(_names, said("weights"), "weights"),
            engines=optional(_names, said("engine"), "engine"),
            kv_dtypes=optional(_names, said("kv_dtype"), "kv_dtype"),
            tps=_numbers(said("tp"), "tp", gpus_of),
            contexts=_contexts(said("context"), "context"),
            batches=_numbers(said("batch"), "batch", count_of),
        ),
        encoder_tokens=optional(tokens_of, said("encoder_tokens"), "encoder_tokens"),
        form=form_of(None, said("k_dtype"), said("v_dtype"), said("kv_heads")),
        split=split_of(None, said("pp"), said("dp"), said("dcp"), said("gpus"), said("ep"), said("dp_attention")),
        memory=memory_of(
            *(said("vram"), None, said("kv_memory"), said("utilization"), None, said("overhead")),
            *(said("lora"), said("draft"), said("beside")),
        ),
        words=optional(flags_of, flags, "flags"),
        run=run_of(
            said("max_num_seqs"),
            said("max_num_batched_tokens"),
            said("enforce_eager"),
            said("language_model_only"),
        ),
    )


def _names(value: object, what: str) -> list[str]:
    return names(",".join(words_of(value, what)), what)


def _numbers(value: object, what: str, read: Callable[[object, str], int]) -> Sequence[int] | str | None:
    """One number, a list of them, or a text with a list or range."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return [read(value, what)]
    return [read(each, what) for each in sequence_of(value, what, "a whole number, a list of them or text")]


def _contexts(value: object, what: str) -> Sequence[int | Literal["max"]] | str | None:
    """The same of lengths, which may also be texts in a list."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return [context_of(value, what)]
    return [context_of(each, what) for each in sequence_of(value, what, "tokens, a list of them or text")]
