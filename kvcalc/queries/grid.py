"""Many sizes of one model: each choice on the axes is asked as the default verb would ask it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product, starmap
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.commands.effects import Uncounted, said, touching
from kvcalc.core import dtypes
from kvcalc.core.memory import memory_split
from kvcalc.core.memory import warnings as memory_warnings
from kvcalc.core.model import Model
from kvcalc.core.overheads import Overhead
from kvcalc.core.request import Request, ask
from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sizing import Size
from kvcalc.core.units import MOST_GPUS, parse_integer, parse_tokens
from kvcalc.core.weights import parse as parse_weights
from kvcalc.errors import KvcalcError
from kvcalc.grid.ranges import bounded, numbers
from kvcalc.grid.sweep import Grid, GridCell, Plane, PlaneQuestion
from kvcalc.queries.company import company_of
from kvcalc.queries.grid_question import Axes, GridAnswer, GridQuestion
from kvcalc.queries.memory import beside
from kvcalc.queries.options import (
    CacheFormat,
    EngineChoice,
    Memory,
    NamedGpu,
    Split,
    Workload,
    budget_for,
    budget_of_card,
    exact_size,
    layout_of,
)
from kvcalc.queries.source import Source

if TYPE_CHECKING:
    from kvcalc.launch.command import Launch
    from kvcalc.queries.engine import EngineQuestion

__all__ = ["answer", "refuse_if_empty"]


class _Lists(NamedTuple):
    """The axes written out: numbers are numbers."""

    gpus: Sequence[NamedGpu] | None
    weights: Sequence[str] | None
    engines: Sequence[str] | None
    kv_dtypes: Sequence[str] | None
    tps: Sequence[int] | None
    contexts: Sequence[int] | None
    batches: Sequence[int] | None


class _Choice(NamedTuple):
    """One value of every axis but the last two."""

    gpu: NamedGpu | None
    weights: str | None
    engine: str | None
    kv_dtype: str | None
    tp: int | None


_OPTIONS = ("--gpu", "--weights", "--engine", "--kv-dtype", "--tp", "--context", "--batch")


def answer(source: Source, model: Model, question: GridQuestion) -> GridAnswer:
    """The grid that is asked about a model. Raises KvcalcError for options that are wrong in themselves.

    A choice that cannot be is a plane of refused cells.
    """
    lists = _lists(model, question.axes)
    bounded({option: values or [None] for option, values in zip(_OPTIONS, lists, strict=True)})
    launches = _launches(lists, question.words)
    _check_dtypes(lists, launches)
    warnings: dict[str, None] = {}
    planes: list[Plane] = []
    formats: dict[tuple[str | None, str | None], str | None] = {}  # of an engine and a choice, as its answers call it
    every = (lists.gpus, lists.weights, lists.engines, lists.kv_dtypes, lists.tps)
    choices = list(starmap(_Choice, product(*(values or (None,) for values in every))))
    for choice in choices:
        chosen = _chosen(question, lists, choice)
        stated = budget_for(chosen.memory)
        try:
            size, posed = _posed(source, model, chosen, launches[choice.engine])
            budget = budget_of_card(stated) if posed is None else posed.budget(stated)
            growing = None
            if budget is not None and budget.vram is not None:
                budget = budget._replace(company=_company(source, chosen.memory, size, posed))
            if budget is not None and not budget.overheads:
                budget = budget._replace(overheads=beside(budget, size.request, posed).lines)
                growing = budget if posed is not None and posed.engine.grows else None
            memory = None if budget is None else memory_split(size, budget)
        except KvcalcError as error:
            planes.append(_impossible(model, lists, choice, chosen, error))
            continue
        uncounted: tuple[Uncounted, ...] = ()
        if posed is not None and budget is not None:
            uncounted = touching(posed.options.uncounted, cache_alone=budget.vram is None)
            warnings.update(dict.fromkeys(map(said, uncounted)))
        setting = PlaneQuestion(size, memory, posed and posed.engine, posed and posed.question, uncounted, growing)
        contexts, batches = lists.contexts or [size.request.context], lists.batches or [size.request.batch]
        formats[choice[2:4]] = called = _dtype(choice.kv_dtype, size.request, lists)
        names = (choice.gpu and choice.gpu.text, choice.weights, choice.engine, called, size.request.layout.tp)
        planes.append(Plane(names, tuple(contexts), tuple(batches), setting))
        stored = posed.stored if posed is not None and budget is not None and budget.weights == "auto" else None
        warnings.update(dict.fromkeys([*_said(size, posed, contexts, batches), *memory_warnings(memory, stored)]))
    for i, choice in enumerate(choices):  # flags behind -- may say another format than the model's own
        *others, own, tp = planes[i].names
        known = formats.get(choice[2:4], None if own is None else str(own))
        planes[i] = planes[i]._replace(names=(*others, known, tp))
    request = next((plane.setting.size.request for plane in planes if plane.setting is not None), None)
    return GridAnswer(model, Grid(tuple(planes)), question, request, tuple(warnings))


class _Chosen(NamedTuple):
    """A question of one size, with one value of each axis."""

    workload: Workload
    form: CacheFormat
    split: Split
    memory: Memory
    engine: EngineChoice


def _chosen(question: GridQuestion, lists: _Lists, choice: _Choice) -> _Chosen:
    context, batch = (None if values is None else values[0] for values in lists[5:])
    weights = None if choice.weights is None else parse_weights(choice.weights, "--weights")
    return _Chosen(
        Workload(context, batch, question.encoder_tokens),
        question.form._replace(kv_dtype=choice.kv_dtype),
        question.split._replace(tp=choice.tp),
        question.memory._replace(gpu=choice.gpu, weights=weights),
        EngineChoice(choice.engine, question.words, run=question.run),
    )


def _company(source: Source, memory: Memory, size: Size, posed: "EngineQuestion | None") -> tuple[Overhead, ...]:
    """What else lives on the GPU. Raises KvcalcError for a draft without an engine, whose cache has no plane."""
    company = company_of(source, memory, size, posed)
    if company.of_draft is not None:
        raise KvcalcError("--draft: a grid has one cache, and no engine counts both", "name an engine that does: vllm")
    return company.lines


def _posed(
    source: Source, model: Model, chosen: _Chosen, started: "Launch | None"
) -> "tuple[Size, EngineQuestion | None]":
    if started is None:
        return exact_size(model, chosen.workload, chosen.form, chosen.split, chosen.memory, chosen.engine), None
    from kvcalc.queries.engine import ask_engine

    return ask_engine(source, model, chosen.workload, chosen.form, chosen.split, chosen.memory, chosen.engine, started)


def _dtype(choice: str | None, request: Request, lists: _Lists) -> str | None:
    """What the model's own format is called, unless that is a choice of its own."""
    k, v = (dtype.name for dtype in request.widths[:2])
    own = k if k == v else f"{k}/{v}"
    if choice is not None and (choice.lower() != "auto" or own in (lists.kv_dtypes or ())):
        return choice
    return own


def _lists(model: Model, axes: Axes) -> _Lists:
    limit = model.max_context
    contexts = axes.contexts
    if contexts is not None and limit is None and (
        "max" in contexts.lower() if isinstance(contexts, str) else "max" in contexts
    ):  # fmt: skip
        raise KvcalcError(f"--context: max: no limit is published for {model.name}", "give a number of tokens")
    words = {} if limit is None else {"max": limit}
    return _Lists(
        axes.gpus,
        axes.weights,
        axes.engines,
        axes.kv_dtypes,
        numbers(axes.tps, "--tp", partial(parse_integer, most=MOST_GPUS)) if isinstance(axes.tps, str) else axes.tps,
        numbers(contexts, "--context", parse_tokens, words)
        if isinstance(contexts, str)
        else None
        if contexts is None
        else [words[each] if isinstance(each, str) else each for each in contexts],
        numbers(axes.batches, "--batch", parse_integer) if isinstance(axes.batches, str) else axes.batches,
    )


def _launches(lists: _Lists, words: Sequence[str] | None) -> "Mapping[str | None, Launch | None]":
    """Each named engine as it is started; None where none is named."""
    if lists.engines is None and words is None:
        return {None: None}
    from kvcalc.launch.command import launch

    if words is not None and lists.engines is not None and len(lists.engines) > 1:
        raise KvcalcError("--: flags are those of one engine, and --engine names several", "name one")
    return {name: launch(name, words, _no_text) for name in lists.engines or (None,)}


def _no_text() -> bytes:
    raise KvcalcError("--: expected a command or flags, got -", "kvcalc sweep MODEL --engine NAME -- FLAGS")


def _check_dtypes(lists: _Lists, launches: "Mapping[str | None, Launch | None]") -> None:
    """A format that nobody knows is a mistake; one that an engine does not have is an answer."""
    packed = {name for started in launches.values() if started is not None for name in started.engine.packed}
    for name in lists.kv_dtypes or []:
        if name.lower() not in packed | {"auto"}:
            dtypes.dtype_called(name, dtypes.KV, "--kv-dtype")


def _impossible(model: Model, lists: _Lists, choice: _Choice, chosen: _Chosen, error: KvcalcError) -> Plane:
    """A plane without answers, called what it would be called with them: a refusal is no value of another axis."""
    tp = choice.tp
    try:
        request = ask(model, k_dtype=chosen.form.k_dtype, v_dtype=chosen.form.v_dtype)
        tp = layout_of(chosen.split, chosen.memory.gpu)["tp"]
    except KvcalcError:  # perhaps the reason why there are none
        request = ask(model)
    contexts = lists.contexts or [request.context]
    called = _dtype(choice.kv_dtype, request, lists)
    names = (choice.gpu and choice.gpu.text, choice.weights, choice.engine, called, tp)
    return Plane(names, tuple(contexts), tuple(lists.batches or [1]), None, error)


def _said(size: Size, posed: "EngineQuestion | None", contexts: Sequence[int], batches: Sequence[int]) -> list[str]:
    """What the asker should know of a plane: its longest context and its smallest batch are the ones to warn of."""
    warned = request_warnings(size.request._replace(context=max(contexts), batch=min(batches)))
    if posed is None:
        return warned
    from kvcalc.engines.base import reserve

    try:
        of_engine = reserve(posed.engine, posed.question).allocation.warnings
    except KvcalcError:  # this cell is refused, and its row says so
        of_engine = ()
    return [*warned, *posed.warnings, *of_engine]


def refuse_if_empty(grids: Iterable[Grid]) -> None:
    """Raise KvcalcError with the reason where every cell is refused."""
    reason: KvcalcError | None = None
    for grid in grids:
        for plane, cell in grid.answers():
            if cell.refused is None:
                return
            reason = reason or plane.error or _why(plane, cell)
    if reason is not None:
        raise reason


def _why(plane: Plane, cell: GridCell) -> KvcalcError:
    """The reason of an engine with its hint, of which a row has no place."""
    from kvcalc.engines.base import reserve

    if plane.setting is not None and plane.setting.engine is not None and plane.setting.question is not None:
        request = plane.setting.question.request._replace(context=cell.context, batch=cell.batch)
        try:
            reserve(plane.setting.engine, plane.setting.question._replace(request=request))
        except KvcalcError as error:
            return error
    return KvcalcError(cell.refused or "")
