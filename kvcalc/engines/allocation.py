"""What an engine reserves: bytes with the rules that lead to them, so that a difference explains itself."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Allocation", "Capacity", "Charge", "Rule", "Step", "rank_bytes"]


class Rule(NamedTuple):
    """Why an engine takes another number of bytes, in a few words, and where the rule was read."""

    why: str
    source: str


class Step(NamedTuple):
    """The bytes of a cache once `rule` and all before it hold."""

    rule: Rule
    bytes: int


class Charge(NamedTuple):
    """What an engine allocates for `copies` equal caches of one stage, for all sequences of one replica.

    `exact` is what they need; `steps` lead from there to what is allocated. `parts` add up to that, under the names
    that JSON gives them (`k_bytes`, `state_bytes`). `how` is the sum in numbers. Bytes are those of all `ranks`.
    """

    name: str
    copies: int
    exact: int
    steps: tuple[Step, ...]
    parts: tuple[tuple[str, int], ...]
    how: str
    stage: int = 0
    ranks: int = 1

    @property
    def bytes(self) -> int:
        return self.steps[-1].bytes if self.steps else self.exact


class Capacity(NamedTuple):
    """What a pool engine counts for a budget, and the lines in which it says so. `values` are further keys of JSON."""

    tokens: int
    concurrency: float | None = None
    values: Mapping[str, "int | str | bool | None"] = {}
    log: tuple[str, ...] = ()


class Allocation(NamedTuple):
    """The reservation of one replica. It depends on no budget.

    `capacity`, of engines with one pool for all sequences, takes the bytes that each GPU has for the cache; `holds`
    says whether such a budget is enough for what was asked, where that is more than a comparison of bytes.
    `peak` are bytes of the fullest GPU that are held for a while, where those are more than in the end, and must fit.
    `most_sequences` is what one instance takes, and `most_tokens` what each of them may have, where that depends on
    the model or on flags. `values` are the engine's
    own keys of JSON, `facts` what was assumed or follows from flags, in words for people, `log` the lines in which the
    engine reports these numbers.
    """

    charges: tuple[Charge, ...]
    values: Mapping[str, "int | str | bool | None"] = {}
    facts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    capacity: Callable[[int], Capacity] | None = None
    holds: Callable[[int], bool] | None = None
    peak: int = 0
    most_sequences: int | None = None
    most_tokens: int | None = None

    @property
    def needed(self) -> int:
        """Bytes that the fullest GPU must have."""
        return max(rank_bytes(self), self.peak)

    def fits(self, budget: int) -> bool:
        """Whether a budget for each GPU is enough."""
        return self.needed <= budget if self.holds is None else self.holds(budget)


def rank_bytes(allocation: Allocation) -> int:
    """Bytes of a plan on the fullest of its GPUs."""
    stages: Counter[int] = Counter()
    for charge in allocation.charges:
        stages[charge.stage] += charge.bytes // charge.ranks
    return max(stages.values(), default=0)
