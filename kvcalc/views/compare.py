"""Models, formats or engines side by side: values for JSON and CSV, and a table for people."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.kinds import attention_class
from kvcalc.core.model import Model
from kvcalc.grid.sweep import Grid, GridCell, Plane, longest
from kvcalc.queries.grid_question import GridAnswer
from kvcalc.version import __version__
from kvcalc.views.grid import (
    WORDS,
    View,
    axis_column,
    fits,
    gauge,
    largest,
    refusals,
    settings,
    size_column,
    sizes,
    some_fit,
    verdict,
    view_of,
)
from kvcalc.views.model import model_facts, model_values
from kvcalc.views.report import Cell, Count, Report, Section
from kvcalc.views.sweep import KEYS as SWEEP_KEYS
from kvcalc.views.sweep import Form, in_force
from kvcalc.views.sweep import rows as sweep_rows

if TYPE_CHECKING:
    from kvcalc.views.types.grid import CompareHead

__all__ = ["KEYS", "Compared", "compare_document", "compare_report", "compared", "rows", "view_of_all"]

KEYS = (*SWEEP_KEYS, "attention", "layers", "model_max_context", "textbook_ratio", "max_context")

# Columns that go where a terminal is narrow, the first one first.
_DROPPED = ("per token", "limit", "budget", "longest context", "of textbook")

_MOST_NAMED = 4  # models in a title


class Compared(NamedTuple):
    """One of what is compared. `max_context`: the longest context at the asked batch that fits into the budget."""

    model: Model
    plane: Plane
    answer: GridCell
    row: tuple[object, ...]
    max_context: int | None

    @property
    def textbook_ratio(self) -> float | None:
        """The cache as a part of its textbook size."""
        exact, textbook = self.answer.bytes_total, self.answer.textbook_bytes_total
        return round(exact / textbook, 6) if exact is not None and textbook else None


def compared(grids: Sequence[GridAnswer]) -> list[Compared]:
    """Everything, model by model in the order given."""
    found = []
    for each in grids:
        cells = list(each.grid.answers())
        for (plane, cell), row in zip(cells, sweep_rows(each.model, cells), strict=True):
            found.append(Compared(each.model, plane, cell, row, _longest(plane, cell)))
    return found


def _longest(plane: Plane, answer: GridCell) -> int | None:
    if plane.setting is None or answer.refused is not None:
        return None
    return longest(plane.setting, answer.context, answer.batch)


def rows(all_of: Sequence[Compared]) -> Iterator[tuple[object, ...]]:
    """Values under KEYS."""
    for one in all_of:
        model = one.model
        facts = (attention_class(model), len(model.layers), model.max_context)
        yield (*one.row, *facts, one.textbook_ratio, one.max_context)


def compare_document(grids: Sequence[GridAnswer], warnings: Sequence[str]) -> "CompareHead":
    """The document without its rows; `model` is a list."""
    return {
        "schema": "kvcalc.compare/1",
        "kvcalc_version": __version__,
        "model": [model_values(each.model) for each in grids],
        "request": in_force(grids[0]),
        "warnings": list(warnings),
    }


def compare_report(all_of: Sequence[Compared], warnings: Sequence[str], form: Form) -> Report:
    """A table for people, on a terminal with bars against the largest."""
    view, grid = view_of_all(all_of)
    models = list(dict.fromkeys(one.model for one in all_of))
    columns = _columns(all_of, view, form)
    rows = [tuple(cell(one) for _, cell in columns) for one in all_of]
    headings = tuple(heading for heading, _ in columns)
    others = [words for key, words in sizes(view).items() if key not in (view.key, "bytes_per_token")]
    drop = [headings.index(heading) for heading in (*_DROPPED, *others) if heading in headings]
    sections = [Section("", headings, rows, keys=True, drop=tuple(drop))]
    cells = [one.answer for one in all_of]
    return Report(
        sections,
        title=", ".join(model.name for model in models) if len(models) <= _MOST_NAMED else f"{len(models)} models",
        facts=model_facts(models[0]) if len(models) == 1 else settings(grid, view)[1 if view.varied else 0 :],
        verdict=verdict(cells) if view.budget else "",
        fits=some_fit(cells) if view.budget else None,
        notes=[
            *(settings(grid, view) if len(models) == 1 else []),
            *(refusals(view.answers) if form == "terminal" else []),
        ],
        warnings=list(warnings),
    )


def view_of_all(all_of: Sequence[Compared]) -> tuple[View, Grid]:
    """All of it as if it were of one model, for what does not depend on the model."""
    grid = Grid(tuple({id(one.plane): one.plane for one in all_of}.values()))
    return view_of(grid, [(one.plane, one.answer) for one in all_of]), grid


_Column = tuple[str, Callable[[Compared], Cell]]


def _columns(all_of: Sequence[Compared], view: View, form: Form) -> list[_Column]:
    def of_answer(cell: Callable[[Plane, GridCell], Cell]) -> Callable[[Compared], Cell]:
        return lambda one: cell(one.plane, one.answer)

    columns: list[_Column] = [("model", lambda one: one.model.name)]
    columns += [(WORDS.get(axis, axis), of_answer(axis_column(axis))) for axis in view.varied]
    columns.append(("attention", lambda one: attention_class(one.model)))
    columns += [(words, of_answer(size_column(key))) for key, words in sizes(view).items()]
    if view.budget:
        columns.append(("budget", of_answer(size_column("kv_budget_bytes_per_gpu"))))
    columns.append(("of textbook", _of_textbook))
    columns.append(("limit", lambda one: Count(one.model.max_context, short=True) if one.model.max_context else ""))
    if view.budget:
        columns.append(("largest batch", lambda one: largest(one.answer)))
        columns.append(("longest context", lambda one: "" if one.answer.refused else Count(one.max_context)))
        columns.append(("fits", of_answer(fits)))
    if form != "terminal" and any(one.answer.refused for one in all_of):
        columns.append(("refused", lambda one: one.answer.refused or ""))
    if form == "terminal":
        columns.append(("", of_answer(gauge(view))))
    return columns


def _of_textbook(one: Compared) -> Cell:
    ratio = one.textbook_ratio
    return "" if ratio is None else f"{100 * ratio:.3g} %"
