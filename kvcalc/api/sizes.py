"""Sizes: one, many over a grid, and models side by side."""

from collections.abc import Sequence
from typing import Literal, Unpack

from kvcalc.api.arguments import (
    GridOptions,
    bytes_of,
    card_of,
    fraction_of,
    grid_of,
    in_python,
    optional,
    source_of,
    weights_of,
)
from kvcalc.api.results import (
    CompareResult,
    GpuNames,
    ModelNames,
    SizeResult,
    SweepResult,
)
from kvcalc.core.fitting import Fit
from kvcalc.core.fitting import fit as fit_budget
from kvcalc.core.model import Model
from kvcalc.core.sizing import Size
from kvcalc.errors import KvcalcError, shown
from kvcalc.library import loader
from kvcalc.queries import size as sizes
from kvcalc.queries.options import CacheFormat, EngineChoice, Memory, Split, Workload, budget_for, budget_of_card
from kvcalc.queries.source import load_model

__all__ = ["compare", "fit", "gpus", "load", "models", "size", "sweep"]


def load(source: str) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a model of the hub.

    Raises KvcalcError, or its subclass DocumentError for a faulty file.
    """
    if not isinstance(source, str):
        raise KvcalcError(f"source: expected the name of a model, got {shown(source)}")
    return loader.load(source)


def models() -> ModelNames:
    """The names of all presets that can be loaded."""
    return ModelNames(entry.name for entry in loader.entries())


def gpus(gpu_file: str | None = None) -> GpuNames:
    """The names of all cards that are known, with those of a file of your own."""
    from kvcalc.cards.names import catalogue

    return GpuNames(list(catalogue(gpu_file).values()))


def size(
    model: Model | str,
    *,
    context: int | Literal["max"] | None = None,
    batch: int | None = None,
    encoder_tokens: int | None = None,
    kv_dtype: str | None = None,
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    tp: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    dcp: int | None = None,
    gpus: int | None = None,
    vram: int | str | None = None,
    gpu: str | None = None,
    gpu_file: str | None = None,
    kv_memory: int | str | None = None,
    utilization: float | str | None = None,
    weights: int | str | None = None,
    overhead: int | str | None = None,
    engine: str | None = None,
    block_size: int | None = None,
    flags: Sequence[str] | None = None,
) -> SizeResult:
    """The exact size of the cache of `batch` sequences of `context` tokens, in bytes; what an engine reserves for it;
    and what fits, where `vram`, `gpu` or `kv_memory` says how much memory there is.

    `flags` are the engine's own, as they stand behind `--`. Raises KvcalcError where the arguments contradict the model
    or each other.
    """
    with in_python():
        return SizeResult(
            sizes.answer(
                sizes.SizeQuestion(
                    source_of(model),
                    Workload(context, batch, encoder_tokens),
                    CacheFormat(kv_dtype, k_dtype, v_dtype, kv_heads),
                    Split(tp, pp, dp, dcp, gpus),
                    Memory(
                        optional(bytes_of, vram, "vram"),
                        card_of(gpu, gpu_file),
                        optional(bytes_of, kv_memory, "kv_memory"),
                        optional(fraction_of, utilization, "utilization"),
                        optional(weights_of, weights, "weights"),
                        optional(bytes_of, overhead, "overhead"),
                    ),
                    EngineChoice(engine, flags, block_size),
                )
            )
        )


def fit(
    size: SizeResult | Size,
    *,
    vram: int | str | None = None,
    gpu: str | None = None,
    kv_memory: int | str | None = None,
    utilization: float | str | None = None,
    weights: int | str = "auto",
    overhead: int | str = 0,
) -> Fit:
    """What fits of an exact size into the memory of each GPU: `vram` or a card's, or `kv_memory` for the cache alone.

    With an engine, ask `size` itself. Raises KvcalcError.
    """
    if kv_memory is not None and (vram is not None or gpu is not None):
        raise KvcalcError(f"kv_memory: contradicts {'gpu' if vram is None else 'vram'}, which is all of the memory")
    if vram is None and gpu is None and kv_memory is None:
        raise KvcalcError("vram: expected a size, or gpu or kv_memory instead")
    with in_python():
        memory = Memory(
            optional(bytes_of, vram, "vram"),
            card_of(gpu, None),
            optional(bytes_of, kv_memory, "kv_memory"),
            optional(fraction_of, utilization, "utilization"),
            None if kv_memory is not None else weights_of(weights, "weights"),
            None if kv_memory is not None else bytes_of(overhead, "overhead"),
        )
        budget = budget_of_card(budget_for(memory))
        assert budget is not None
        return fit_budget(size.size if isinstance(size, SizeResult) else size, budget)


def sweep(model: Model | str, *, flags: Sequence[str] | None = None, **options: Unpack[GridOptions]) -> SweepResult:
    """Sizes of one model over a grid. `flags` are the engine's own, as they stand behind `--`. Raises KvcalcError."""
    from kvcalc.queries.grid import answer, refuse_if_empty

    with in_python():
        source = source_of(model)
        found = answer(source, load_model(source), grid_of(flags, **options))
        refuse_if_empty([found.grid])
        return SweepResult(found)


def compare(*models: Model | str, **options: Unpack[GridOptions]) -> CompareResult:
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
