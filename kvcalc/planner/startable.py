"""Whether an engine has room for a plan's row that was made without one: its own sizes in its own share decide."""

from collections.abc import Callable

from kvcalc.commands.versions import pick
from kvcalc.core.units import Fraction, many
from kvcalc.engines.base import Engine
from kvcalc.errors import KvcalcError
from kvcalc.planner.engine_fit import Engaged
from kvcalc.planner.overheads import NAMES
from kvcalc.planner.question import Need
from kvcalc.planner.search import Row, Search

__all__ = ["lacking", "same_share"]


def same_share(engine: Engine) -> bool:
    """Whether an engine's share of the memory means what a plan's does: weights, cache and everything beside them."""
    return not engine.of_free and set(engine.beside) == set(NAMES)


def lacking(engine: Engine, need: Need, share: Fraction | None, prefix: int) -> Callable[[Row], str | None]:
    """Why the engine's command would not do what a row says, in a few words; None where it does."""
    search = Search(need, Engaged(engine, pick(engine.versions, None, engine.name)[0], {}, share, prefix))

    def reason(row: Row) -> str | None:
        card, way, sequences = row.card, row.way, row.request.sequences_per_replica
        try:
            free, held = search.free(card, way), search.filling.held(way, card)
            if need.lengths is None:
                enough = free > 0 and held.holds(sequences, need.context, free)
            else:
                enough = search.seats(card, way, free) >= sequences
            if enough:
                return None
            seats = search.seats(card, way, free) * row.layout.dp
        except KvcalcError as error:
            return error.message.removeprefix("--engine: ")
        return f"{seats:,} of {many(row.request.batch, 'sequence')} fit; --engine {engine.name} plans for it"

    return reason
