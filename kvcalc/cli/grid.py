"""A grid of questions from lists of options: each choice is asked as the default verb would ask it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli import options as o
from kvcalc.cli.question import Posed, budget_of_card, pose
from kvcalc.core import dtypes
from kvcalc.core.fitting import memory_split
from kvcalc.core.fitting import warnings as fit_warnings
from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.request import warnings as request_warnings
from kvcalc.core.sizing import Size
from kvcalc.core.units import Fraction, parse_integer, parse_size, parse_tokens
from kvcalc.errors import KvcalcError
from kvcalc.grid.ranges import Parse, bounded, names, numbers
from kvcalc.grid.sweep import Grid, GridCell, Plane, PlaneQuestion
from kvcalc.views.document import Value

if TYPE_CHECKING:
    from kvcalc.launch.command import Launch

__all__ = ["Swept", "answered", "grid_of"]

_MOST_GPUS = 65536
Choice = str | int | None  # of one axis
_NAMES = ("gpu", "weights", "engine", "kv_dtype", "tp")


class Swept(NamedTuple):
    """A grid, the options in force that are not on an axis, and what there is to say of all of it."""

    grid: Grid
    asked: dict[str, Value]
    warnings: tuple[str, ...]


class _Lists(NamedTuple):
    """The values of each option, None where it was not given."""

    gpu: list[str] | None
    weights: list[str] | None
    engine: list[str] | None
    kv_dtype: list[str] | None
    tp: list[int] | None
    context: list[int] | None
    batch: list[int] | None


def grid_of(model: Model, behind: Sequence[str] | None, given: o.Given) -> Swept:
    """The grid that the options ask about a model. Raises KvcalcError for options that are wrong in themselves."""
    lists = _lists(model, given)
    bounded({f"--{name.replace('_', '-')}": values or [None] for name, values in lists._asdict().items()})
    launches = _launches(lists, behind)
    _check_dtypes(lists, launches)
    warnings: dict[str, None] = {}
    planes: list[Plane] = []
    formats: dict[tuple[Choice, ...], Choice] = {}  # of an engine and a choice, as its answers call it
    choices = list(product(*(values or [None] for values in lists[: len(_NAMES)])))
    for choice in choices:
        texts = {name: None if value is None else str(value) for name, value in zip(_NAMES, choice, strict=True)}
        chosen = {**given, **texts, **{name: _first(lists, name) for name in ("context", "batch")}}
        budget = o.budget_of(chosen)
        try:
            size, posed = pose(model, chosen, launches[choice[2]])
            budget = budget_of_card(budget) if posed is None else posed.budget(budget)
            memory = None if budget is None else memory_split(size, budget)
        except KvcalcError as error:
            planes.append(_impossible(model, lists, choice, chosen, error))
            continue
        setting = PlaneQuestion(size, memory, posed and posed.engine, posed and posed.question)
        contexts, batches = lists.context or [size.request.context], lists.batch or [size.request.batch]
        named = (*choice[:3], _dtype(choice[3], size.request, lists), size.request.layout.tp)
        formats[choice[2:4]] = named[3]
        planes.append(Plane(named, tuple(contexts), tuple(batches), setting))
        stored = posed.stored if posed is not None and budget is not None and budget.weights == "auto" else None
        warnings.update(dict.fromkeys([*_said(size, posed, contexts, batches), *fit_warnings(memory, stored)]))
    for i, choice in enumerate(choices):  # flags behind -- may say another format than the model's own
        *others, own, tp = planes[i].names
        planes[i] = planes[i]._replace(names=(*others, formats.get(choice[2:4], own), tp))
    grid = Grid(tuple(planes))
    return Swept(grid, _in_force(grid, given), tuple(warnings))


def _dtype(choice: Choice, request: Request, lists: _Lists) -> Choice:
    """What the model's own format is called, unless that is a choice of its own."""
    k, v = (dtype.name for dtype in request.widths[:2])
    own = k if k == v else f"{k}/{v}"
    if choice is not None and (str(choice).lower() != "auto" or own in (lists.kv_dtype or ())):
        return choice
    return own


def _in_force(grid: Grid, given: o.Given) -> dict[str, Value]:
    request = next((plane.setting.size.request for plane in grid.planes if plane.setting is not None), None)
    layout = None if request is None else request.layout
    memory = {name: given[name] for name in ("vram", "kv_memory", "overhead")}
    share = None if given["utilization"] is None else Fraction.parse(given["utilization"], "--utilization")
    return {
        "k_dtype": given["k_dtype"],
        "v_dtype": given["v_dtype"],
        "kv_heads": None if request is None else request.kv_heads,
        "encoder_tokens": None if request is None else request.encoder_tokens,
        "pp": None if layout is None else layout.pp,
        "dp": None if layout is None else layout.dp,
        "dcp": None if layout is None else layout.dcp,
        "utilization": None if share is None else share.part / share.of,
        **{
            f"{name}_bytes": None if text is None else parse_size(text, f"--{name}", zero=True)
            for name, text in memory.items()
        },
    }


def _lists(model: Model, given: o.Given) -> _Lists:
    def words(name: str) -> list[str] | None:
        return None if given[name] is None else names(given[name], f"--{name.replace('_', '-')}")

    def counts(name: str, parse: Parse, known: dict[str, int] | None = None) -> list[int] | None:
        return None if given[name] is None else numbers(given[name], f"--{name}", parse, known)

    limit = model.max_context
    if limit is None and "max" in (given["context"] or "").lower():
        raise KvcalcError(f"--context: max: no limit is published for {model.name}", "give a number of tokens")
    return _Lists(
        None if given["gpu"] is None else _cards(given["gpu"], given["gpu_file"]),
        words("weights"),
        words("engine"),
        words("kv_dtype"),
        counts("tp", partial(parse_integer, most=_MOST_GPUS)),
        counts("context", parse_tokens, {} if limit is None else {"max": limit}),
        counts("batch", parse_integer),
    )


def _cards(text: str, file: str | None) -> list[str]:
    """The cards that are named, as each may be named alone."""
    from kvcalc.cards.names import cards_called

    return [card.name if count is None else f"{count}x{card.name}" for count, card in cards_called(text, file=file)]


def _first(lists: _Lists, name: str) -> str | None:
    values = getattr(lists, name)
    return None if values is None else str(values[0])


def _launches(lists: _Lists, behind: Sequence[str] | None) -> "Mapping[Choice, Launch | None]":
    """Each named engine as it is started; None where none is named."""
    if lists.engine is None and behind is None:
        return {None: None}
    from kvcalc.launch.command import launch

    if behind is not None and lists.engine is not None and len(lists.engine) > 1:
        raise KvcalcError("--: flags are those of one engine, and --engine names several", "name one")
    return {name: launch(name, behind, _no_text) for name in lists.engine or (None,)}


def _no_text() -> bytes:
    raise KvcalcError("--: expected a command or flags, got -", "kvcalc sweep MODEL --engine NAME -- FLAGS")


def _check_dtypes(lists: _Lists, launches: "Mapping[Choice, Launch | None]") -> None:
    """A format that nobody knows is a mistake; one that an engine does not have is an answer."""
    packed = {name for started in launches.values() if started is not None for name in started.engine.packed}
    for name in lists.kv_dtype or []:
        if name.lower() not in packed | {"auto"}:
            dtypes.dtype_called(name, dtypes.KV, "--kv-dtype")


def _impossible(model: Model, lists: _Lists, choice: tuple[Choice, ...], chosen: o.Given, error: KvcalcError) -> Plane:
    """A plane without answers, called what it would be called with them: a refusal is no value of another axis."""
    tp = choice[4]
    try:
        request = ask(model, k_dtype=chosen["k_dtype"], v_dtype=chosen["v_dtype"])
        tp = o.layout_of(chosen)["tp"]
    except KvcalcError:  # perhaps the reason why there are none
        request = ask(model)
    contexts = lists.context or [request.context]
    named = (*choice[:3], _dtype(choice[3], request, lists), tp)
    return Plane(named, tuple(contexts), tuple(lists.batch or [1]), None, error)


def _said(size: Size, posed: Posed | None, contexts: Sequence[int], batches: Sequence[int]) -> list[str]:
    """What the asker should know of a plane: its longest context and its smallest batch are the ones to warn of."""
    said = request_warnings(size.request._replace(context=max(contexts), batch=min(batches)))
    if posed is None:
        return said
    from kvcalc.engines.base import reserve

    try:
        planned = reserve(posed.engine, posed.question).allocation.warnings
    except KvcalcError:  # this cell is refused, and its row says so
        planned = ()
    return [*said, *posed.warnings, *planned]


def answered(grids: Iterable[Grid]) -> None:
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
