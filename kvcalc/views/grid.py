"""What is shown of a grid, whatever it becomes: which amount, its axes in words, and what stands in a column."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvcalc.core.units import format_tokens, many
from kvcalc.grid.sweep import AXES, Grid, GridCell, Plane
from kvcalc.views.report import Bytes, Cell, Count, Gauge

__all__ = [
    "FAR", "WORDS", "View", "axis_column", "budgets", "fits", "gauge", "label", "largest", "refusals", "settings",
    "size_column", "sizes", "some_fit", "value_on", "verdict", "view_of",
]  # fmt: skip

WORDS = {"kv_dtype": "KV dtype", "gpu": "GPU"}
FAR = 10  # times the longest bar: a budget beyond it would leave nothing of the bars

_MANY = {"kv_dtype": "KV dtypes", "gpu": "GPUs", "batch": "batches", "weights": "weights", "tp": "sizes of tp"}


class View(NamedTuple):
    """What is shown of the answers: `key` is the amount that is held against the budget, `words` what that is."""

    answers: Sequence[tuple[Plane, GridCell]]
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

    def amount(self, answer: GridCell) -> int | None:
        value = getattr(answer, self.key)
        assert value is None or isinstance(value, int)
        return value


def view_of(grid: Grid, answers: Sequence[tuple[Plane, GridCell]]) -> View:
    settings = [plane.setting for plane in grid.planes if plane.setting is not None]
    several = any(setting.size.request.layout.gpus > 1 for setting in settings)
    budget = any(setting.memory is not None for setting in settings)
    engine = any(setting.engine is not None for setting in settings)
    per_gpu = several or budget
    if engine:
        key = "reserved_bytes_per_gpu" if per_gpu else "reserved_bytes_total"
        words = "reserved on the fullest GPU" if per_gpu else "reserved"
    else:
        key = "bytes_total_per_gpu" if per_gpu else "bytes_total"
        words = "on the fullest GPU" if several else "whole cache"
    return View(answers, grid.varied, key, words, budget, several, engine)


def value_on(axis: str, plane: Plane, answer: GridCell) -> str | int | None:
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
    found += [f"{name} {size}" for name, size in request.layout.sizes.items() if name not in view.varied]
    if request.encoder_tokens is not None:
        found.append(many(request.encoder_tokens, "encoder token"))
    if plane.setting.engine is not None and plane.setting.question is not None and "engine" not in view.varied:
        found.append(f"{plane.setting.engine.name} {plane.setting.question.version.name}")
    return found


def budgets(grid: Grid, view: View) -> list[tuple[str, int]]:
    """What each GPU has for the cache, with the choices on which that depends where there are several."""
    found: dict[int, list[str]] = {}
    for plane in grid.planes:
        if plane.setting is not None and plane.setting.memory is not None:
            names = zip(AXES, plane.names, strict=False)
            of = ", ".join(label(axis, name) for axis, name in names if axis in view.varied and axis != "kv_dtype")
            labels = found.setdefault(plane.setting.memory.kv_budget, [])
            labels += [of] if of not in labels else []
    if len(found) == 1:
        return [("", budget) for budget in found]
    return [("; ".join(labels), budget) for budget, labels in found.items()]


def verdict(answers: Sequence[GridCell]) -> str:
    """How many fit of all; a refused one is named, and what hangs on a flag that is not counted is neither."""
    asked = [answer for answer in answers if answer.refused is None]
    fitting, undecided = sum(answer.fits is True for answer in asked), sum(answer.fits is None for answer in asked)
    rest = f", {undecided:,} undecided, since a flag is not counted" if undecided else ""
    refused = len(answers) - len(asked)
    rest += f", {refused:,} refused" if refused else ""
    if len(answers) == 1:
        return "fits" if fitting else f"undecided{rest.partition('undecided')[2]}" if undecided else "does not fit"
    some = fitting or undecided
    return f"{fitting:,} of {len(answers):,} fit{rest}" if some else f"none of {len(answers):,} fits{rest}"


def some_fit(answers: Sequence[GridCell]) -> bool | None:
    """Whether any fits; None where none does for sure and some are undecided."""
    if any(answer.fits for answer in answers):
        return True
    return None if any(answer.fits is None and answer.refused is None for answer in answers) else False


def refusals(answers: Sequence[tuple[Plane, GridCell]]) -> list[str]:
    reasons = list(dict.fromkeys(answer.refused for _, answer in answers if answer.refused is not None))
    more = [f"and {len(reasons) - 3} more reasons"] if len(reasons) > 3 else []
    return [f"refused: {reason}" for reason in reasons[:3]] + more


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


def axis_column(axis: str) -> Callable[[Plane, GridCell], Cell]:
    def cell(plane: Plane, answer: GridCell) -> Cell:
        value = value_on(axis, plane, answer)
        return Count(value, short=axis == "context") if isinstance(value, int) else value or ""

    return cell


def size_column(key: str) -> Callable[[Plane, GridCell], Cell]:
    place = GridCell._fields.index(key)

    def cell(_: Plane, answer: GridCell) -> Cell:
        amount = answer[place]
        return Bytes(amount) if isinstance(amount, int) else ""

    return cell


def largest(answer: GridCell) -> Cell:
    return Count(answer.max_batch) if answer.refused is None else ""


def fits(_: Plane, answer: GridCell) -> Cell:
    if answer.fits is None:  # a flag that is not counted may decide
        return "refused" if answer.refused is not None else "open"
    return "yes" if answer.fits else "no"


def gauge(view: View) -> Callable[[Plane, GridCell], Cell]:
    """A bar beside those of the other rows, with the budget as a mark, unless that is far beyond all bars."""
    longest = max((view.amount(answer) or 0 for _, answer in view.answers), default=0)

    def limit(answer: GridCell) -> int | None:
        budget = answer.kv_budget_bytes_per_gpu
        return max(budget, 0) if budget is not None and budget <= FAR * longest else None

    whole = max([longest, *(limit(answer) or 0 for _, answer in view.answers)])
    return lambda _, answer: Gauge(view.amount(answer), whole, limit(answer))
