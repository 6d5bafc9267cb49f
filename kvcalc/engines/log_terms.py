"""Terms of a GPU's memory as engines print them at start-up, against which an estimate is held."""

from typing import NamedTuple

from kvcalc.core.memory import MemorySplit
from kvcalc.core.overheads import Estimate, exactly

__all__ = ["Parts"]


class Parts(NamedTuple):
    """What a printed term holds.

    Attributes:
        quantity: What it is called, by the names of `views.check`.
        of: Parts of the memory: `total`, `weights` (of a GPU), `all weights`, `cache`, or lines beside them by their
            names.
        but: Parts that come off those.
        unit: The unit that is printed with it.
        scale: Its bytes.
        summed: It is printed once for each device, and holds for all together.
    """

    quantity: str
    of: tuple[str, ...]
    but: tuple[str, ...] = ()
    unit: str = "GiB"
    scale: int = 2**30
    summed: bool = False

    def estimate(self, memory: MemorySplit) -> Estimate | None:
        """The bytes of these parts; None where the memory has none of them."""
        found = [_part(memory, name) for name in self.of]
        if all(each is None for each in found):
            return None
        held = [each or exactly(0) for each in found]
        taken = [_part(memory, name) or exactly(0) for name in self.but]
        return Estimate(
            sum(each.low for each in held) - sum(each.high for each in taken),
            sum(each.likely for each in held) - sum(each.likely for each in taken),
            sum(each.high for each in held) - sum(each.low for each in taken),
        )


def _part(memory: MemorySplit, name: str) -> Estimate | None:
    match name:
        case "total":
            return None if memory.vram is None else exactly(memory.vram)
        case "weights":
            return None if memory.weights is None else exactly(memory.weights)
        case "all weights":
            return None if memory.whole_weights is None else exactly(memory.whole_weights)
        case "cache":
            low, high, middle = memory.kv_budget_low, memory.kv_budget_high, memory.kv_budget
            return Estimate(middle if low is None else low, middle, middle if high is None else high)
        case _:
            return next((line.size for line in memory.overheads if line.name == name), None)
