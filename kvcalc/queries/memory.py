"""What a GPU holds beside weights and cache, by the engine that is asked or the one that is usual on the card.

Every verb asks here, so that the same question has one answer.
"""

from typing import TYPE_CHECKING

from kvcalc.launch.beside import Beside, beside_weights, usually_beside

if TYPE_CHECKING:
    from kvcalc.core.memory import Budget
    from kvcalc.core.request import Request
    from kvcalc.queries.engine import EngineQuestion

__all__ = ["beside"]


def beside(budget: "Budget", request: "Request", posed: "EngineQuestion | None") -> Beside:
    """The lines that a budget leaves to an estimate, and whose they are. There are none where they were stated, for a
    size of memory without an engine, and for the memory of the cache alone.
    """
    if budget.vram is None or budget.overheads:
        return Beside()
    if posed is not None:
        return beside_weights(posed.engine, posed.question, budget.vram)
    if budget.card is None:
        return Beside()
    return usually_beside(request, budget.card)
