"""A grid of answers as values for JSON and CSV, and as tables for people."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

from kvcalc.document import Value, model_values
from kvcalc.model import Model
from kvcalc.report import OVER, Bytes, Cell, Count, Gauge, Report, Section, model_facts
from kvcalc.sweeping import AXES, Grid, Plane
from kvcalc.sweeping import Cell as Answer
from kvcalc.units import format_tokens, many
from kvcalc.version import __version__

__all__ = [
    "FAR", "KEYS", "WORDS", "Form", "View", "axis_column", "budgets", "fits", "gauge", "label", "largest",
    "refusals", "rows", "settings", "size_column", "sizes", "sweep_document", "sweep_report", "value_on",
    "verdict", "view_of",
]  # fmt: skip

_PLANE = (
    "model", "gpu", "weights", "engine", "engine_version", "kv_dtype", "k_dtype", "v_dtype", "tp", "pp", "dp", "dcp",
    "gpus",
)  # fmt: skip
KEYS = (*_PLANE, *Answer._fields)  # of every row, whatever was asked

Form = Literal["terminal", "page", "text"]
_MANY = {"kv_dtype": "KV dtypes", "gpu": "GPUs", "batch": "batches", "weights": "weights", "tp": "sizes of tp"}
WORDS = {"kv_dtype": "KV dtype", "gpu": "GPU"}
FAR = 10  # times the longest bar: a budget beyond it would leave nothing of the bars


def _head(model: Model, plane: Plane) -> tuple[Value, ...]:
    """What all rows of a plane begin with."""
    gpu, weights, engine, kv_dtype, tp = plane.names
    if plane.setting is None:
        return (model.name, gpu, weights, engine, None, kv_dtype, None, None, tp, None, None, None, None)
    request, question = plane.setting.size.request, plane.setting.question
    k, v = (dtype.name for dtype in request.widths[:2])
    version = None if question is None else question.version.name
    name = None if plane.setting.engine is None else plane.setting.engine.name
    layout = request.layout
    return (model.name, gpu, weights, name, version, kv_dtype, k, v, *layout, layout.gpus)


def rows(model: Model, answers: Iterable[tuple[Plane, Answer]]) -> Iterator[tuple[Value, ...]]:
    """Every row, as it is reached: values under KEYS."""
    last: Plane | None = None
    beginning: tuple[Value, ...] = ()
    for plane, answer in answers:
        if plane is not last:
            last, beginning = plane, _head(model, plane)
        yield (*beginning, *answer)


def sweep_document(model: Model, grid: Grid, asked: Mapping[str, Value], warnings: Sequence[str]) -> dict[str, Value]:
    """The document without its rows. `asked`: the options in force that are not on an axis."""
    varied: list[list[Value]] = [_once(column) for column in zip(*(plane.names for plane in grid.planes), strict=True)]
    varied.append(_once(context for plane in grid.planes for context in plane.contexts))
    varied.append(_once(batch for plane in grid.planes for batch in plane.batches))
    return {
        "schema": "kvcalc.sweep/1",
        "kvcalc_version": __version__,
        "model": model_values(model),
        "request": {**{axis: list(values) for axis, values in zip(AXES, varied, strict=True)}, **asked},
        "warnings": list(warnings),
    }


def _once(values: Iterable[Value]) -> list[Value]:
    return [value for value in dict.fromkeys(values) if value is not None]


class View(NamedTuple):
    """What is shown of the answers: `key` is the amount that is held against the budget, `words` what that is."""

    answers: Sequence[tuple[Plane, Answer]]
    varied: tuple[str, ...]
    key: str
    words: str
    budget: bool
    several: bool  # GPUs
    engine: bool

    @property
    def title(self) -> str:
        """Of a chart."""
        return {"whole cache": "KV cache", "on the fullest GPU": "KV cache on the fullest GPU"}.get(
            self.words, self.words
        )

    def amount(self, answer: Answer) -> int | None:
        value = getattr(answer, self.key)
        assert value is None or isinstance(value, int)
        return value


def view_of(grid: Grid, answers: Sequence[tuple[Plane, Answer]]) -> View:
    settings = [plane.setting for plane in grid.planes if plane.setting is not None]
    several = any(setting.size.request.layout.gpus > 1 for setting in settings)
    budget = any(setting.room is not None for setting in settings)
    engine = any(setting.engine is not None for setting in settings)
    per_gpu = several or budget
    if engine:
        key = "reserved_bytes_per_gpu" if per_gpu else "reserved_bytes_total"
        words = "reserved on the fullest GPU" if per_gpu else "reserved"
    else:
        key = "bytes_total_per_gpu" if per_gpu else "bytes_total"
        words = "on the fullest GPU" if several else "whole cache"
    return View(answers, grid.varied, key, words, budget, several, engine)


def value_on(axis: str, plane: Plane, answer: Answer) -> str | int | None:
    match axis:
        case "context":
            return answer.context
        case "batch":
            return answer.batch
        case _:
            return plane.names[AXES.index(axis)]


def label(axis: str, value: str | int | None) -> str:
    """A value as it is called away from its column: `batch 8`, `32k tokens`, `fp8`."""
    match axis:
        case "context":
            return f"{format_tokens(int(value or 0))} tokens"
        case "kv_dtype" | "engine" | "gpu":
            return str(value)
        case _:
            return f"{axis} {value:,}" if isinstance(value, int) else f"{axis} {value}"


def sweep_report(
    model: Model, grid: Grid, answers: Sequence[tuple[Plane, Answer]], warnings: Sequence[str], form: Form
) -> Report:
    """Tables for people. A terminal has bars, or a matrix where two axes vary; a text repeats what does not vary."""
    view = view_of(grid, answers)
    terminal = form == "terminal"
    sections = _matrices(view) if terminal and len(view.varied) == 2 else [_listed(view, form)]
    if view.budget:
        sections.append(_memory(grid, view))
    fitting = sum(answer.fits is True for _, answer in answers)
    asked = sum(answer.refused is None for _, answer in answers)
    return Report(
        sections,
        title=model.name,
        facts=model_facts(model),
        verdict=verdict(fitting, asked) if view.budget else "",
        fits=fitting > 0 if view.budget else None,
        notes=[*settings(grid, view), *(refusals(answers) if terminal else [])],
        warnings=list(warnings),
    )


def verdict(fitting: int, asked: int) -> str:
    if asked == 1:
        return "fits" if fitting else "does not fit"
    return f"{fitting:,} of {asked:,} fit" if fitting else f"none of {asked:,} fits"


def settings(grid: Grid, view: View) -> list[str]:
    """What all answers have in common."""
    plane = next(plane for plane in grid.planes if plane.setting is not None)
    assert plane.setting is not None
    request = plane.setting.size.request
    counts = {axis: len({value_on(axis, plane, answer) for plane, answer in view.answers}) for axis in view.varied}
    over = " x ".join(f"{count:,} {_MANY.get(axis, f'{axis}s')}" for axis, count in counts.items())
    found = [f"over {over}"] if over else []
    found += [str(name) for axis, name in zip(AXES[:1], plane.names, strict=False) if name and axis not in view.varied]
    if "context" not in view.varied:
        found.append(many(plane.contexts[0], "token"))
    if "batch" not in view.varied:
        found.append(f"batch {plane.batches[0]:,}")
    if "kv_dtype" not in view.varied:
        k, v = (dtype.name for dtype in request.widths[:2])
        found.append(f"K and V in {k}" if k == v else f"K in {k}, V in {v}")
    shape = {name: size for name, size in request.layout._asdict().items() if size > 1 and name not in view.varied}
    found += [f"{name} {size}" for name, size in shape.items()]
    if request.encoder_tokens is not None:
        found.append(many(request.encoder_tokens, "encoder token"))
    if plane.setting.engine is not None and plane.setting.question is not None and "engine" not in view.varied:
        found.append(f"{plane.setting.engine.name} {plane.setting.question.version.name}")
    return found


def refusals(answers: Sequence[tuple[Plane, Answer]]) -> list[str]:
    reasons = list(dict.fromkeys(answer.refused for _, answer in answers if answer.refused is not None))
    more = [f"and {len(reasons) - 3} more reasons"] if len(reasons) > 3 else []
    return [f"refused: {reason}" for reason in reasons[:3]] + more


_Column = tuple[str, Callable[[Plane, Answer], Cell]]  # its heading, and what stands in it


def _listed(view: View, form: Form) -> Section:
    """A row for each answer."""
    whole = ("context", "batch") if form != "text" else AXES
    axes = [axis for axis in AXES if axis in (view.varied if form != "text" and view.varied else whole)]
    columns: list[_Column] = [(WORDS.get(axis, axis), axis_column(axis)) for axis in axes if _named(view, axis)]
    amounts = sizes(view)
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


def _refused(answer: Answer) -> str:
    return "" if answer.refused is None else "refused"


def _named(view: View, axis: str) -> bool:
    """There is something to say on an axis."""
    return any(value_on(axis, plane, answer) is not None for plane, answer in view.answers)


def sizes(view: View) -> dict[str, str]:
    """The amounts of a row, with their headings."""
    found = {"bytes_per_token": "per token", "bytes_per_sequence": "per sequence", "bytes_total": "whole cache"}
    if view.several:
        found["bytes_total_per_gpu"] = "per GPU"
    if view.engine:
        found["reserved_bytes_total"] = "reserved"
    if view.engine and view.several:
        found["reserved_bytes_per_gpu"] = "reserved per GPU"
    return found


def axis_column(axis: str) -> Callable[[Plane, Answer], Cell]:
    def cell(plane: Plane, answer: Answer) -> Cell:
        value = value_on(axis, plane, answer)
        return Count(value, short=axis == "context") if isinstance(value, int) else value or ""

    return cell


def size_column(key: str) -> Callable[[Plane, Answer], Cell]:
    place = Answer._fields.index(key)

    def cell(_: Plane, answer: Answer) -> Cell:
        amount = answer[place]
        return Bytes(amount) if isinstance(amount, int) else ""

    return cell


def largest(answer: Answer) -> Cell:
    return Count(answer.max_batch) if answer.refused is None else ""


def fits(_: Plane, answer: Answer) -> Cell:
    return "refused" if answer.fits is None else "yes" if answer.fits else "no"


def gauge(view: View) -> Callable[[Plane, Answer], Cell]:
    """A bar beside those of the other rows, with the budget as a mark, unless that is far beyond all bars."""
    longest = max((view.amount(answer) or 0 for _, answer in view.answers), default=0)

    def limit(answer: Answer) -> int | None:
        budget = answer.kv_budget_bytes_per_gpu
        return max(budget, 0) if budget is not None and budget <= FAR * longest else None

    whole = max([longest, *(limit(answer) or 0 for _, answer in view.answers)])
    return lambda _, answer: Gauge(view.amount(answer), whole, limit(answer))


def _matrices(view: View) -> list[Section]:
    """Two axes as rows and columns: the amounts and, where the batch is none of the axes, the largest batches."""
    down = next((axis for axis in ("context", "batch") if axis in view.varied), view.varied[0])
    across = next(axis for axis in view.varied if axis != down)
    at = {(value_on(down, p, a), value_on(across, p, a)): a for p, a in view.answers}
    lines, heads = (list(dict.fromkeys(key[i] for key in at)) for i in (0, 1))
    over = {head for (_, head), answer in at.items() if answer.fits is False}

    def section(title: str, cell: Callable[[Answer, bool], Cell]) -> Section:
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


def _marked(view: View, answer: Answer, over: bool) -> Cell:
    """An amount with its mark, or a blank for it where others have one."""
    amount = view.amount(answer)
    return "refused" if amount is None else Bytes(amount, OVER if answer.fits is False else " " if over else "")


def budgets(grid: Grid, view: View) -> list[tuple[str, int]]:
    """What each GPU has for the cache, with the choices on which that depends where there are several."""
    found: dict[int, list[str]] = {}
    for plane in grid.planes:
        if plane.setting is not None and plane.setting.room is not None:
            names = zip(AXES, plane.names, strict=False)
            of = ", ".join(label(axis, name) for axis, name in names if axis in view.varied and axis != "kv_dtype")
            labels = found.setdefault(plane.setting.room.kv_budget, [])
            labels += [of] if of not in labels else []
    if len(found) == 1:
        return [("", budget) for budget in found]
    return [("; ".join(labels), budget) for budget, labels in found.items()]


def _memory(grid: Grid, view: View) -> Section:
    rows: list[tuple[Cell, ...]] = [
        (f"budget for the cache{f', {label}' if label else ''}", Bytes(budget)) for label, budget in budgets(grid, view)
    ]
    return Section("memory of one GPU", ("", ""), rows, keys=True)
