"""Whether an engine has room for a plan's row that was made without one: its own sizes in its own share decide."""

from collections.abc import Callable

from kvcalc.commands.versions import pick
from kvcalc.core.units import Fraction, many
from kvcalc.engines.base import Engine
from kvcalc.errors import KvcalcError
from kvcalc.planner.engine_fit import EngineBackend
from kvcalc.planner.question import PlanQuestion, unsupported
from kvcalc.planner.rows import PlanRow
from kvcalc.planner.search import Search

__all__ = ["lacking", "same_share"]


def same_share(engine: Engine) -> bool:
    """Whether an engine's share of the memory means what a plan's does: weights, cache and everything beside them."""
    return not engine.of_free and engine.common_share


def lacking(
    engine: Engine, question: PlanQuestion, share: Fraction | None, prefix: int
) -> Callable[[PlanRow], str | None]:
    """Why the engine's command would not do what a row says, in a few words; None where it does."""
    search = Search(question, EngineBackend(engine, pick(engine.versions, None, engine.name)[0], {}, share, prefix))

    def reason(row: PlanRow) -> str | None:
        card, config, sequences = row.card, row.config, row.request.sequences_per_replica
        if (why := unsupported(card, config.precision, search.backend)) is not None:
            return why
        try:
            free, memory = search.free(card, config), search.backend.replica_memory(config, card)
            if question.lengths is None:
                enough = free > 0 and memory.holds(sequences, question.context, free)
            else:
                enough = search.max_sequences(card, config, free) >= sequences
            if enough:
                return None
            max_sequences = search.max_sequences(card, config, free) * row.layout.dp
        except KvcalcError as error:
            return error.message.removeprefix("--engine: ")
        return f"{max_sequences:,} of {many(row.request.batch, 'sequence')} fit; --engine {engine.name} plans for it"

    return reason
