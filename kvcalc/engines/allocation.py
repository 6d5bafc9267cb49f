"""What an engine reserves: bytes with the rules that lead to them, so that a difference explains itself."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, overload

from kvcalc.core.overheads import Estimate

__all__ = ["Allocation", "Capacity", "Charge", "Charges", "Device", "Rule", "Step", "rank_bytes"]


class Rule(NamedTuple):
    """Why an engine takes another number of bytes.

    Attributes:
        why: The reason in a few words.
        source: The file or pull request that the rule is from.
    """

    why: str
    source: str


class Step(NamedTuple):
    """The bytes of a cache once a rule and all before it hold.

    Attributes:
        rule: The rule.
        bytes: Bytes of all copies, sequences of one replica and ranks.
    """

    rule: Rule
    bytes: int


class Charge(NamedTuple):
    """What an engine allocates for equal caches of one stage, for all sequences of one replica.

    Attributes:
        name: The cache in words.
        copies: How many equal caches there are.
        exact: Bytes that they need.
        steps: The rules that lead from there to what is allocated.
        parts: Bytes that add up to what is allocated, by the names that JSON gives them (`k_bytes`, `state_bytes`).
        how: The sum in numbers.
        stage: The pipeline stage that has them.
        ranks: The ranks of tp over which all these bytes are spread.
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
        """What is allocated."""
        return self.steps[-1].bytes if self.steps else self.exact


class Charges(Sequence[Charge]):
    """Charges that are worked out when somebody looks at them: a search needs their sum alone, thousands of times."""

    def __init__(self, make: Callable[[], Iterable[Charge]]) -> None:
        self._make = make

    @cached_property
    def _made(self) -> tuple[Charge, ...]:
        return tuple(self._make())

    def __len__(self) -> int:
        return len(self._made)

    @overload
    def __getitem__(self, index: int) -> Charge: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Charge, ...]: ...

    def __getitem__(self, index: int | slice) -> Charge | tuple[Charge, ...]:
        return self._made[index]


class Capacity(NamedTuple):
    """What an engine with one pool counts for a budget.

    Attributes:
        tokens: Tokens of the pool.
        concurrency: Sequences of the asked length that it holds; None where the engine does not say.
        values: Further keys of JSON.
        log: The lines in which the engine says so.
    """

    tokens: int
    concurrency: float | None = None
    values: Mapping[str, "int | str | bool | None"] = {}
    log: tuple[str, ...] = ()


class Allocation(NamedTuple):
    """The reservation of one replica. It depends on no budget.

    Attributes:
        charges: What is allocated, cache by cache.
        values: The engine's own keys of JSON.
        facts: What was assumed or follows from flags, in words for people.
        warnings: What the asker should know.
        log: The lines in which the engine reports these numbers.
        capacity: Of engines with one pool for all sequences: what they count for the bytes that each GPU has for the
            cache.
        holds: Whether so many bytes on each GPU are enough for what was asked, where that is more than a comparison.
        peak: Bytes of the fullest GPU that are held for a while and must fit; 0 where none are more than in the end.
        most_sequences: Sequences that one instance takes, where that depends on the model or on flags.
        most_tokens: Tokens that each of them may have, where that does.
        fullest: Bytes of all charges on the fullest GPU, where the engine knows their sum without them.
    """

    charges: Sequence[Charge]
    values: Mapping[str, "int | str | bool | None"] = {}
    facts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    capacity: Callable[[int], Capacity] | None = None
    holds: Callable[[int], bool] | None = None
    peak: int = 0
    most_sequences: int | None = None
    most_tokens: int | None = None
    fullest: int | None = None

    @property
    def needed(self) -> int:
        """Bytes that the fullest GPU must have."""
        return max(rank_bytes(self), self.peak)

    def fits(self, budget: int) -> bool:
        """Whether a budget for each GPU is enough."""
        return self.needed <= budget if self.holds is None else self.holds(budget)


def rank_bytes(allocation: Allocation) -> int:
    """Bytes of a plan on the fullest of its GPUs."""
    if allocation.fullest is not None:
        return allocation.fullest
    stages: Counter[int] = Counter()
    for charge in allocation.charges:
        stages[charge.stage] += charge.bytes // charge.ranks
    return max(stages.values(), default=0)


class Device(NamedTuple):
    """What one device, or the host, holds in bytes.

    Attributes:
        name: `device 0`, or `host`.
        layers: Layers, the output counted as one more where it lies.
        weights: Bytes of weights.
        cache: Bytes of caches and states.
        compute: The buffer of a micro-batch.
        output: The buffer of the logits.
    """

    name: str
    layers: int
    weights: int
    cache: int
    compute: Estimate
    output: int = 0

    @property
    def likely(self) -> int:
        """All of it, as counted with."""
        return self.weights + self.cache + self.compute.likely + self.output
