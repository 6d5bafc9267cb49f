"""Sizes: one, many over a grid, and models side by side."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Unpack

from kvcalc.api.arguments import (
    card_of,
    count_of,
    flags_of,
    in_python,
    optional,
    path_of,
    source_of,
    text_of,
    workers_of,
    wrong,
)
from kvcalc.api.grids import GridOptions, grid_of
from kvcalc.api.listed import GpuNames, ModelNames
from kvcalc.api.parts import form_of, memory_of, run_of, split_of, workload_of
from kvcalc.api.results import (
    CompareResult,
    FitResult,
    SizeResult,
    SweepResult,
)
from kvcalc.core.model import Model
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import Size
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.queries import size as sizes
from kvcalc.queries.options import CacheFormat, EngineChoice, Split, Workload
from kvcalc.queries.source import Source, load_model

if TYPE_CHECKING:
    from concurrent.futures import Executor

__all__ = ["compare", "fit", "gpus", "load", "models", "size", "sweep"]


def load(source: str | os.PathLike[str] | Model) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a model of the hub. A model is itself.

    Raises KvcalcError, or its subclass DocumentError for a faulty file.
    """
    return load_model(source_of(source, "source"))


def models(*, family: str | None = None, attention: str | None = None) -> ModelNames:
    """The names of all presets that can be loaded, or of those of a family or with a kind of attention."""
    if family is None and attention is None:
        return ModelNames(entry.name for entry in loader.entries())
    from kvcalc.views.models import listing

    with in_python():
        found = listing(optional(text_of, family, "family"), optional(text_of, attention, "attention"))
    return ModelNames(row.preset for row in found.rows)


def gpus(
    name: str | None = None,
    *,
    vendor: str | None = None,
    sort: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
) -> GpuNames:
    """The names of all cards that are known, with those of a file of your own: of one maker, in an order, the one
    that `name` means, or with `local` those of this machine.
    """
    from kvcalc.cards.names import catalogue, find_machine, find_one
    from kvcalc.views.gpus import listing

    with in_python():
        path, one = optional(path_of, gpu_file, "gpu_file"), optional(text_of, name, "name")
        by, order = optional(text_of, vendor, "vendor"), optional(text_of, sort, "sort")
        if one in (None, "local"):
            return GpuNames(listing(by, order, path, here=one is not None).cards)
        if by is not None or order is not None:
            raise KvcalcError(f"name: contradicts {'sort' if by is None else 'vendor'}", "leave one of them out")
        known = catalogue(path)
        machine = None if one in known else find_machine(one)
        return GpuNames([find_one(one, path) if machine is None else known[machine.card]])


def size(
    model: Model | str | os.PathLike[str],
    *,
    context: int | str | None = None,
    batch: int | None = None,
    encoder_tokens: int | str | None = None,
    images: int | str | None = None,
    kv_dtype: str | None = None,
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    dcp: int | None = None,
    ep: int | None = None,
    dp_attention: bool | None = None,
    gpus: int | None = None,
    vram: int | str | None = None,
    gpu: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    kv_memory: int | str | None = None,
    utilization: float | str | None = None,
    weights: int | str | None = None,
    overhead: int | str | None = None,
    lora: str | None = None,
    draft: str | None = None,
    beside: str | list[str] | None = None,
    engine: str | None = None,
    block_size: int | None = None,
    max_num_seqs: int | None = None,
    max_num_batched_tokens: int | str | None = None,
    enforce_eager: bool | None = None,
    language_model_only: bool | None = None,
    flags: Sequence[str] | None = None,
) -> SizeResult:
    """The exact size of the cache of `batch` sequences of `context` tokens, in bytes; what an engine reserves for it;
    and what fits, where `vram`, `gpu` or `kv_memory` says how much memory there is.

    `flags` are the engine's own, as they stand behind `--`. Raises KvcalcError where the arguments contradict the model
    or each other.
    """
    with in_python():
        question = sizes.SizeQuestion(
            source_of(model),
            workload_of(context, batch, encoder_tokens, images),
            form_of(kv_dtype, k_dtype, v_dtype, kv_heads),
            split_of(tp, pp, dp, dcp, gpus, ep, dp_attention),
            memory_of(vram, card_of(gpu, gpu_file), kv_memory, utilization, weights, overhead, lora, draft, beside),
            EngineChoice(
                optional(text_of, engine, "engine"),
                optional(flags_of, flags, "flags"),
                optional(count_of, block_size, "block_size"),
                run_of(max_num_seqs, max_num_batched_tokens, enforce_eager, language_model_only),
            ),
        )
        return SizeResult(sizes.answer(question), question)


def fit(
    size: SizeResult | Size,
    *,
    vram: int | str | None = None,
    gpu: str | None = None,
    gpu_file: str | os.PathLike[str] | None = None,
    kv_memory: int | str | None = None,
    utilization: float | str | None = None,
    weights: int | str = "auto",
    overhead: int | str | None = None,
) -> FitResult:
    """What fits of a size into the memory of each GPU: `vram` or a card's, or `kv_memory` for the cache alone.

    It is what `size` says when it is asked the same with this memory, of the same engine and over as many GPUs as `gpu`
    counts: beside weights and cache stands its estimate, where it has one, unless `overhead` is given. A bare `Size`
    knows of no engine. Raises KvcalcError.
    """
    if not isinstance(size, SizeResult | Size):
        raise wrong("size", "what size() returns", size)
    if vram is None and gpu is None and kv_memory is None:
        raise KvcalcError("vram: expected a size, or gpu or kv_memory instead")
    with in_python():
        if weights is None:
            raise wrong("weights", "auto, none, a format or a size", weights)
        stated = None if kv_memory is not None and weights == "auto" else weights
        memory = memory_of(vram, card_of(gpu, gpu_file), kv_memory, utilization, stated, overhead)
        asked = size.question if isinstance(size, SizeResult) else _question_of(size)
        said = asked.memory
        memory = memory._replace(lora=said.lora, draft=said.draft, beside=said.beside)
        return FitResult.of(sizes.answer(asked._replace(memory=memory)))


def _question_of(size: Size) -> sizes.SizeQuestion:
    """The question that has this size, without an engine."""
    request = size.request
    layout, (auto_k, auto_v) = request.layout, request.auto
    return sizes.SizeQuestion(
        Source(request.facts),
        Workload(request.context, request.batch, request.encoder_tokens),
        CacheFormat(
            None,
            None if auto_k else request.widths.k.name,
            None if auto_v else request.widths.v.name,
            request.kv_heads,
        ),
        _split_again(layout),
    )


def _split_again(layout: Layout) -> Split:
    """The split that was asked for, so that a card that is named alone may still say how many there are."""
    if layout.gpus == 1:
        return Split()
    found = Split(layout.tp, layout.pp, layout.dp, layout.dcp)
    return found if layout.ep == layout.sharing == 1 else found._replace(ep=layout.ep, dp_attention=layout.sharing > 1)


def sweep(
    model: Model | str | os.PathLike[str],
    *,
    flags: Sequence[str] | None = None,
    executor: "Executor | None" = None,
    **options: Unpack[GridOptions],
) -> SweepResult:
    """Sizes of one model over a grid. `flags` are the engine's own, as they stand behind `--`; an `executor` of
    `concurrent.futures` does the work in its place. Raises KvcalcError.
    """
    from kvcalc.queries.grid import answer, refuse_if_empty

    with in_python():
        source = source_of(model)
        found = answer(source, load_model(source), grid_of(flags, **options))
        refuse_if_empty([found.grid])
        return SweepResult(found, optional(workers_of, executor, "executor"))


def compare(*models: Model | str | os.PathLike[str], **options: Unpack[GridOptions]) -> CompareResult:
    """Models side by side, or one model in several formats or engines: `options` are those of `sweep`.

    Raises KvcalcError.
    """
    from kvcalc.queries.grid import answer, refuse_if_empty

    if not models:
        raise KvcalcError("models: expected at least one model")
    with in_python():
        question = grid_of(None, **options)
        sources = [source_of(model) for model in models]
        answers = [answer(source, load_model(source), question) for source in sources]
        refuse_if_empty(each.grid for each in answers)
        named = len(answers) > 1
        warnings = [f"{each.model.name}: {text}" if named else text for each in answers for text in each.warnings]
        return CompareResult(answers, warnings)
