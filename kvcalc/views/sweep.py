"""A grid of answers as values for JSON and CSV, and as tables for people."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Literal, TypeVar

from kvcalc.core.model import Model
from kvcalc.grid.sweep import AXES, Grid, GridCell, Plane
from kvcalc.queries.grid_question import GridAnswer
from kvcalc.version import __version__
from kvcalc.views.grid import (
    WORDS,
    View,
    axis_column,
    budgets,
    fits,
    gauge,
    label,
    largest,
    refusals,
    settings,
    size_column,
    sizes,
    some_fit,
    value_on,
    verdict,
    view_of,
)
from kvcalc.views.model import model_facts, model_values
from kvcalc.views.report import OVER, Bytes, Cell, Count, Report, Section

if TYPE_CHECKING:
    from kvcalc.views.types.grid import GridOptions, SweepHead

__all__ = ["KEYS", "Form", "rows", "sweep_document", "sweep_report"]

_PLANE = (
    "model", "gpu", "weights", "engine", "engine_version", "kv_dtype", "k_dtype", "v_dtype", "tp", "pp", "dp", "dcp",
    "ep", "gpus",
)  # fmt: skip
KEYS = (*_PLANE, *GridCell._fields)  # of every row, whatever was asked

Form = Literal["terminal", "page", "text"]
_Named = TypeVar("_Named", str, int)


def _head(model: Model, plane: Plane) -> tuple[object, ...]:
    """What all rows of a plane begin with."""
    gpu, weights, engine, kv_dtype, tp = plane.names
    if plane.setting is None:
        return (model.name, gpu, weights, engine, None, kv_dtype, None, None, tp, None, None, None, None, None)
    request, question = plane.setting.size.request, plane.setting.question
    k, v = (dtype.name for dtype in request.widths[:2])
    version = None if question is None else question.version.name
    name = None if plane.setting.engine is None else plane.setting.engine.name
    layout = request.layout
    return (model.name, gpu, weights, name, version, kv_dtype, k, v, *layout[:5], layout.gpus)


def rows(model: Model, answers: Iterable[tuple[Plane, GridCell]]) -> Iterator[tuple[object, ...]]:
    """Every row, as it is reached: values under KEYS."""
    last: Plane | None = None
    beginning: tuple[object, ...] = ()
    for plane, answer in answers:
        if plane is not last:
            last, beginning = plane, _head(model, plane)
        yield (*beginning, *answer)


def in_force(answer: GridAnswer) -> "GridOptions":
    """The options in force that are not on an axis."""
    question, request = answer.question, answer.request
    layout = None if request is None else request.layout
    memory, share = question.memory, question.memory.utilization
    return {
        "k_dtype": question.form.k_dtype,
        "v_dtype": question.form.v_dtype,
        "kv_heads": None if request is None else request.kv_heads,
        "encoder_tokens": None if request is None else request.encoder_tokens,
        "pp": None if layout is None else layout.pp,
        "dp": None if layout is None else layout.dp,
        "dcp": None if layout is None else layout.dcp,
        "ep": None if layout is None else layout.ep,
        "dp_attention": None if layout is None else layout.sharing > 1,
        "utilization": None if share is None else share.part / share.of,
        "vram_bytes": memory.vram,
        "kv_memory_bytes": memory.kv_memory,
        "overhead_bytes": memory.overhead,
        "lora": None if memory.lora is None else f"{memory.lora.number}:{memory.lora.rank}",
        "draft": memory.draft,
        "beside": list(memory.beside),
        "max_num_seqs": question.run.max_num_seqs,
        "max_num_batched_tokens": question.run.max_num_batched_tokens,
        "enforce_eager": question.run.enforce_eager,
        "language_model_only": question.run.language_model_only,
    }


def sweep_document(answer: GridAnswer) -> "SweepHead":
    """The document without its rows."""
    planes = answer.grid.planes
    gpus, weights, engines, kv_dtypes, tps = zip(*(plane.names for plane in planes), strict=True)
    return {
        "schema": "kvcalc.sweep/1",
        "kvcalc_version": __version__,
        "model": model_values(answer.model),
        "request": {
            "gpu": _once(gpus, str),
            "weights": _once(weights, str),
            "engine": _once(engines, str),
            "kv_dtype": _once(kv_dtypes, str),
            "tp": _once(tps, int),
            "context": _once((context for plane in planes for context in plane.contexts), int),
            "batch": _once((batch for plane in planes for batch in plane.batches), int),
            **in_force(answer),
        },
        "warnings": list(answer.warnings),
    }


def _once(values: Iterable[object], of: type[_Named]) -> list[_Named]:
    """Each choice on an axis, none where there is no choice."""
    return [value for value in dict.fromkeys(values) if isinstance(value, of)]


def sweep_report(answer: GridAnswer, answers: Sequence[tuple[Plane, GridCell]], form: Form) -> Report:
    """Tables for people. A terminal has bars, or a matrix where two axes vary; a text repeats what does not vary."""
    model, grid = answer.model, answer.grid
    view = view_of(grid, answers)
    terminal = form == "terminal"
    several = view.budget and len(budgets(grid, view)) > 1
    matrix = terminal and _is_matrix(view)
    sections = _matrices(view) if matrix else [_listed(view, form, budget=several)]
    if view.budget and (matrix or not several):
        sections.append(_memory(grid, view))
    cells = [cell for _, cell in answers]
    return Report(
        sections,
        title=model.name,
        facts=model_facts(model),
        verdict=verdict(cells) if view.budget else "",
        fits=some_fit(cells) if view.budget else None,
        notes=[*settings(grid, view), *(refusals(answers) if terminal else [])],
        warnings=list(answer.warnings),
    )


_Column = tuple[str, Callable[[Plane, GridCell], Cell]]  # its heading, and what stands in it


def _listed(view: View, form: Form, *, budget: bool) -> Section:
    """A row for each answer, with its `budget` where that is not the same for all."""
    whole = ("context", "batch") if form != "text" else AXES
    axes = [axis for axis in AXES if axis in (view.varied if form != "text" and view.varied else whole)]
    columns: list[_Column] = [(WORDS.get(axis, axis), axis_column(axis)) for axis in axes if _named(view, axis)]
    amounts = sizes(view)
    if budget:
        amounts["kv_budget_bytes_per_gpu"] = "budget"
    drop = [len(columns) + i for i, key in enumerate(amounts) if key != view.key]
    columns += [(words, size_column(key)) for key, words in amounts.items()]
    if view.budget:
        columns += [("largest batch", lambda _, answer: largest(answer)), ("fits", fits)]
    if any(answer.refused is not None for _, answer in view.answers) and (form != "terminal" or not view.budget):
        columns.append(
            ("refused", lambda _, answer: (answer.refused or "") if form != "terminal" else _refused(answer))
        )
    if form == "terminal":
        columns.append(("", gauge(view)))
    rows = [tuple(cell(plane, answer) for _, cell in columns) for plane, answer in view.answers]
    return Section("", tuple(heading for heading, _ in columns), rows, keys=True, drop=tuple(drop))


def _refused(answer: GridCell) -> str:
    return "" if answer.refused is None else "refused"


def _named(view: View, axis: str) -> bool:
    """There is something to say on an axis."""
    return any(value_on(axis, plane, answer) is not None for plane, answer in view.answers)


def _is_matrix(view: View) -> bool:
    """Two axes vary, each value of one with each of the other."""
    if len(view.varied) != 2:
        return False
    keys = [tuple(value_on(axis, plane, answer) for axis in view.varied) for plane, answer in view.answers]
    return len(keys) == len(set(keys)) == prod(len(set(values)) for values in zip(*keys, strict=True))


def _matrices(view: View) -> list[Section]:
    """Two axes as rows and columns: the amounts and, where the batch is none of the axes, the largest batches."""
    down = next((axis for axis in ("context", "batch") if axis in view.varied), view.varied[0])
    across = next(axis for axis in view.varied if axis != down)
    at = {(value_on(down, p, a), value_on(across, p, a)): a for p, a in view.answers}
    lines, heads = (list(dict.fromkeys(key[i] for key in at)) for i in (0, 1))
    over = {head for (_, head), answer in at.items() if answer.fits is False}

    def section(title: str, cell: Callable[[GridCell, bool], Cell]) -> Section:
        columns = (WORDS.get(down, down), *(label(across, value) for value in heads))
        rows: list[tuple[Cell, ...]] = [
            (_in_column(down, line), *(cell(at[line, head], head in over) for head in heads)) for line in lines
        ]
        return Section(title, columns, rows, keys=True, wrap=True)

    amounts = section(f"{view.words}; {OVER} does not fit" if over else view.words, partial(_marked, view))
    if not view.budget:
        return [amounts]
    if "batch" not in view.varied:
        return [amounts, section("largest batch", lambda answer, _: largest(answer))]
    if across == "batch":
        rows = [(*row, largest(at[line, heads[0]])) for row, line in zip(amounts.rows, lines, strict=True)]
        return [amounts._replace(columns=(*amounts.columns, "largest batch"), rows=rows)]
    return [amounts]


def _in_column(axis: str, value: str | int | None) -> Cell:
    return Count(value, short=axis == "context") if isinstance(value, int) else str(value)


def _marked(view: View, answer: GridCell, over: bool) -> Cell:
    """An amount with its mark, or a blank for it where others have one."""
    amount = view.amount(answer)
    return "refused" if amount is None else Bytes(amount, OVER if answer.fits is False else " " if over else "")


def _memory(grid: Grid, view: View) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (f"budget for the cache{f', {label}' if label else ''}", Bytes(budget)) for label, budget in budgets(grid, view)
    ]
    return Section("memory of one GPU", ("", ""), rows, keys=True)
