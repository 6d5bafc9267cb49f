"""Why a plan is as it is: why the next cheaper one fails, why a card is out, and what other formats would change."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kvcalc.core.units import format_bytes, many
from kvcalc.errors import KvcalcError
from kvcalc.planner.overheads import total
from kvcalc.planner.question import Choice, Offer, Way, unable
from kvcalc.planner.ranking import simplicity
from kvcalc.planner.search import Found, Row, Search

__all__ = ["Binding", "Change", "Refused", "changed", "fewer", "nearest", "refuse"]

Binding = Literal["weights", "overhead", "kv", "model", "engine", "compute", "bandwidth", "dtype", "unknown"]


class Refused(NamedTuple):
    """A number of a card that does not do: how many of `users` it would hold, and what binds."""

    card: str
    label: str
    gpus: int
    held: int
    binding: Binding
    why: str
    fixed: bool = False  # the number was


class Change(NamedTuple):
    """What other formats would come to; `best` is None where they help nothing."""

    option: str
    choice: Choice
    best: Row | None
    words: str


class _Miss(NamedTuple):
    """One way that falls short: the sequences that it holds, and the bytes that are missing for one."""

    held: int
    free: int
    way: Way
    gpus: int


def refuse(search: Search, offer: Offer, ways: Sequence[Way], most: int) -> Refused:
    """Why no more than `most` of a card do: the way that comes nearest, and what binds it."""
    card = offer.card
    choice = ways[0].choice if ways else None

    def refused(gpus: int, held: int, binding: Binding, why: str) -> Refused:
        return Refused(card.name, card.label, gpus, held, binding, why, offer.fixed is not None)

    if choice is not None and (lacking := unable(card, choice, search.filling)):
        return refused(most, 0, "dtype", lacking)
    misses = [miss for way in ways if (miss := _miss(search, offer, way, most)) is not None]
    if not misses:
        known = search.trouble.get((card.name, choice.kv, choice.weights_name)) if choice else None
        return refused(most, 0, "engine" if known else "model", known or "no way to split the model has so many GPUs")
    best = max(
        misses, key=lambda miss: (miss.held, miss.free, -miss.gpus, *(-size for size in simplicity(miss.way.layout)))
    )
    return refused(best.gpus, *_short(search, offer, best))


def _miss(search: Search, offer: Offer, way: Way, most: int) -> _Miss | None:
    dp = search.need.dp or most // way.ranks
    if dp < 1 or dp * way.ranks > most or not search.spans(offer.card, way):
        return None
    if offer.fixed and dp * way.ranks != offer.fixed == most:
        return None
    try:
        free = search.free(offer.card, way)
        return _Miss(search.seats(offer.card, way, free) * dp, free, way, dp * way.ranks)
    except KvcalcError:
        return None


def _short(search: Search, offer: Offer, miss: _Miss) -> tuple[int, Binding, str]:
    """Sequences that are held, what binds, and the sentence."""
    card, need, way = offer.card, search.need, miss.way
    usable = search.filling.share(way, card).floor(card.memory)
    split = _split(way)
    weights = f"weights take {format_bytes(way.weights)} of {format_bytes(usable)}{split}"
    if miss.free <= 0:
        lines = total(search.lines(card, way)).likely
        if way.weights >= usable:
            return 0, "weights", weights
        return 0, "overhead" if lines > way.weights else "weights", f"{weights}, and the rest {format_bytes(lines)}"
    if not miss.held:
        one = search.filling.held(way, card).asked(1, need.context)
        return 0, "kv", (f"{weights}, one sequence needs {format_bytes(one)} and finds {format_bytes(miss.free)}")
    if miss.held < need.users:
        return miss.held, "kv", f"{weights}, {miss.held:,} of {many(need.users, 'sequence')} fit"
    if need.rate is not None:
        try:
            load = search.load(card, way, miss.free, rate=need.rate * way.ranks / miss.gpus)
        except KvcalcError as error:  # a rate of the card that is not published
            return miss.held, "unknown", error.message.removeprefix("--gpu: ")
        if load.binding is not None:
            return miss.held, load.binding, f"{load.reason}{split}"
    return miss.held, "unknown", weights


def _split(way: Way) -> str:
    sizes = [f"{name} {size}" for name, size in zip(("tp", "pp"), way.layout[:2], strict=True) if size > 1]
    return f" at {' x '.join(sizes)}" if sizes else ""


def fewer(search: Search, row: Row, ways: Sequence[Way]) -> Refused | None:
    """Why one GPU less than in a row does not do; None where there is no such."""
    if row.gpus == 1 or row.offer.fixed:
        return None
    return refuse(search, Offer(row.card), ways, row.gpus - 1)


def nearest(refusals: Sequence[Refused]) -> Refused:
    """What comes nearest to what is asked."""
    return max(refusals, key=lambda each: (each.held, -each.gpus, each.card))


def changed(search: Search, option: str, choice: Choice, before: Row | None, found: Sequence[Found]) -> Change:
    """What other formats change: on the same card where it is possible there, else on the best."""
    what = f"{choice.kv} cache" if option == "--kv-dtype" else f"{choice.weights_name} weights"
    same = [one for one in found if before is not None and one.offer == before.offer]
    candidates = same or found
    best = search.row(candidates[0]) if candidates else None
    if best is None:
        effect = "no plan either" if before is None else f"none of these has {choice.kv if 'kv' in option else what}"
    elif before is None:
        effect = f"{_number(best)} would do"
    else:
        effect = _difference(before, best, same=bool(same))
    return Change(option, choice, best, f"{what}: {effect}")


def _number(row: Row) -> str:
    return f"{row.gpus:,} x {row.card.name}" if row.card.name else many(row.gpus, "GPU")


def _difference(before: Row, after: Row, *, same: bool) -> str:
    saved = before.gpus - after.gpus
    if saved > 0:
        return f"{many(saved, 'GPU')} less: {_number(after)}"
    if not same:
        return f"not with {before.card.name}, and no fewer GPUs with others"
    if saved < 0:
        return f"{many(-saved, 'GPU')} more: {_number(after)}"
    if before.seats is None or after.seats is None:
        return "as many GPUs"
    return f"as many GPUs, {after.seats:,} sequences instead of {before.seats:,}"
