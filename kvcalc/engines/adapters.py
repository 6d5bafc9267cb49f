"""Room that an engine keeps for low-rank adapters, by its own flags: the same of several engines."""

from collections.abc import Mapping

from kvcalc.commands.effects import Effect, Uncounted
from kvcalc.core.adapters import Adapters, adapter_bytes
from kvcalc.core.model import Model
from kvcalc.core.overheads import Estimate, Overhead
from kvcalc.core.parts import composition
from kvcalc.core.request import Request
from kvcalc.core.units import many
from kvcalc.engines.question import Question

__all__ = ["adapter_line", "adapter_room", "adapters_of", "unknown_adapters"]


def adapter_room(values: Mapping[str, object], number: int, rank: int) -> Adapters | None:
    """What `lora`, `max_loras` and `max_lora_rank` ask for, with an engine's defaults; None without the first."""
    if not values.get("lora"):
        return None
    most, largest = values.get("max_loras"), values.get("max_lora_rank")
    return Adapters(most if isinstance(most, int) else number, largest if isinstance(largest, int) else rank)


def unknown_adapters(model: Model, flag: str, targets: object, room: Adapters | None = None) -> tuple[Uncounted, ...]:
    """The flag as one that nothing counts: the widths of the matrices are not known, or the rank; or only some
    matrices are adapted.
    """
    parts = composition(model)
    if parts is not None and not parts.even and targets in (None, "all") and (room is None or room.rank):
        return ()
    return (Uncounted(flag, Effect("adapters", "keeps room for adapters", "more")),)


def adapter_line(request: Request, adapters: Adapters, source: str, *, sharded: bool = False) -> Overhead:
    """The room on one GPU. Raises KvcalcError where the widths of the matrices are not known."""
    size = Estimate(*adapter_bytes(request.facts, adapters, request.layout, sharded=sharded))
    rule = f"{many(adapters.number, 'adapter')} of rank {adapters.rank}: rank x (d_in + d_out) of each matrix"
    rule += "; at the least without experts" if size.low < size.likely else ""
    rule += "; at the most with tables"
    return Overhead("adapters", size, rule, source)


def adapters_of(question: Question, source: str) -> list[Overhead]:
    """The line for the setting `adapters`, where the flags make one."""
    room = question.settings.get("adapters")
    if not isinstance(room, Adapters):
        return []
    sharded = question.settings.get("fully_sharded_loras") is True
    return [adapter_line(question.request, room, source, sharded=sharded)]
