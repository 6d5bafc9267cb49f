"""Answers as charts: lines where a number varies, bars where only names do."""

from collections.abc import Sequence

from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError
from kvcalc.grid.sweep import Grid, GridCell, Plane
from kvcalc.views.chart import (
    MOST_POINTS,
    MOST_SERIES,
    Axis,
    Bar,
    Bars,
    Chart,
    Limit,
    Lines,
    Point,
    Scale,
    Series,
    scale_of,
)
from kvcalc.views.compare import Compared, view_of_all
from kvcalc.views.grid import FAR, View, budgets, label, settings, value_on, view_of

__all__ = ["compare_chart", "sweep_chart"]

_MOST_BARS = 200


def sweep_chart(model: Model, grid: Grid, answers: Sequence[tuple[Plane, GridCell]], option: str) -> Chart:
    """The answers as lines over the context or the batch, or as bars where neither varies.

    Raises KvcalcError naming the `option` where there are more than can be told apart.
    """
    view = view_of(grid, answers)
    if len(answers) > MOST_POINTS:
        raise KvcalcError(f"{option}: expected at most {MOST_POINTS:,} cells in a chart, got {len(answers):,}")
    shown = [(plane, answer) for plane, answer in answers if view.amount(answer) is not None]
    title = f"{model.name}: {view.title}"
    about = "; ".join(settings(grid, view))
    lines = {x: _series(view, shown, x) for x in ("context", "batch") if x in view.varied}
    few = [x for x, series in lines.items() if len(series) <= MOST_SERIES]
    if lines and not few:
        count = min(map(len, lines.values()))
        raise KvcalcError(f"{option}: expected at most {MOST_SERIES} lines in a chart, got {count:,}", "vary less")
    if not lines:
        return _bars(view, title, about, option, [", ".join(_labels(view, *pair)) for pair in answers])
    return _lines(grid, view, few[0], lines[few[0]], title, about)


def _series(view: View, shown: Sequence[tuple[Plane, GridCell]], x: str) -> tuple[Series, ...]:
    """The points over an axis, a line for each choice on the others."""
    points: dict[str, list[Point]] = {}
    for plane, answer in shown:
        name = ", ".join(label(axis, value_on(axis, plane, answer)) for axis in view.varied if axis != x)
        over, amount = value_on(x, plane, answer), view.amount(answer)
        assert isinstance(over, int)
        assert amount is not None
        note = {True: "fits", False: "does not fit", None: ""}[answer.fits]
        points.setdefault(name, []).append(Point(over, amount, note))
    return tuple(Series(name, tuple(sorted(found, key=lambda point: point.x))) for name, found in points.items())


def _lines(grid: Grid, view: View, x: str, series: tuple[Series, ...], title: str, about: str) -> Lines:
    above = [(of, budget) for of, budget in budgets(grid, view) if budget > 0] if view.budget else []
    limits = tuple(Limit(f"budget{f', {of}:' if of else ''}", budget) for of, budget in above)
    points = [point for line in series for point in line.points]
    x_scale = scale_of([point.x for point in points])
    amounts = [point.y for point in points]
    y_scale: Scale = "linear"
    if min(amounts) > 0 and (x_scale != "linear" or any(limit.at > FAR * max(amounts) for limit in limits)):
        y_scale = "log2"
    return Lines(
        title,
        about,
        Axis(
            "context (tokens)" if x == "context" else "batch (sequences)", "tokens" if x == "context" else "", x_scale
        ),
        Axis(view.words, "bytes", y_scale),
        series,
        limits,
    )


def compare_chart(all_of: Sequence[Compared], option: str) -> Chart:
    """A bar for each of what is compared. Raises KvcalcError naming the `option` where there are too many."""
    view, grid = view_of_all(all_of)
    models = list(dict.fromkeys(one.model.name for one in all_of))
    names = models if len(models) > 1 else []
    named = [", ".join([*([one.model.name] if names else []), *_labels(view, one.plane, one.answer)]) for one in all_of]
    title = view.title if names else f"{models[0]}: {view.title}"
    return _bars(view, title, "; ".join(settings(grid, view)), option, named)


def _labels(view: View, plane: Plane, answer: GridCell) -> list[str]:
    return [label(axis, value_on(axis, plane, answer)) for axis in view.varied]


def _bars(view: View, title: str, about: str, option: str, names: Sequence[str]) -> Bars:
    if len(view.answers) > _MOST_BARS:
        raise KvcalcError(f"{option}: expected at most {_MOST_BARS} bars in a chart, got {len(view.answers)}")
    bars = tuple(
        Bar(
            name or view.title,
            view.amount(answer),
            None if (budget := answer.kv_budget_bytes_per_gpu) is None else max(budget, 0),
            answer.refused or "",
        )
        for name, (_, answer) in zip(names, view.answers, strict=True)
    )
    return Bars(title, about, Axis(view.words, "bytes"), bars, "budget for the cache" if view.budget else "")
