"""What an engine reserves, as fitting and planning ask for it: whether so many sequences of so many tokens fit."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvcalc.commands.versions import Version
from kvcalc.core.card import Card
from kvcalc.core.fitting import Fit, MemorySplit, fill, most_of
from kvcalc.core.request import Request
from kvcalc.core.sharding import place
from kvcalc.core.units import MOST_TOKENS, Fraction, ceil_div
from kvcalc.engines.base import Engine, Question, Reservation, allocator_of, reserve
from kvcalc.errors import KvcalcError
from kvcalc.launch.beside import Beside, beside_weights
from kvcalc.planner.replica import ExactReplica

if TYPE_CHECKING:
    from kvcalc.planner.question import ParallelConfig

__all__ = ["EngineBackend", "EngineReplica"]


class EngineReplica:
    """A replica of an engine. `prefix` tokens, in whole blocks, are held once for all sequences: each sequence but one
    then needs less, by the bytes that exact full attention and latents have there. An engine has at least as many.
    With a GPU's `memory`, what is beside weights and cache grows with sequences and tokens.
    """

    def __init__(
        self, reservation: Reservation, config: "ParallelConfig", prefix: int, memory: int | None = None
    ) -> None:
        self._reservation, self._way = reservation, config
        self._allocator = allocator_of(reservation, memory)
        self.most_sequences = self._allocator.most_sequences
        self.warnings = reservation.allocation.warnings
        self.pooled = reservation.allocation.capacity is not None
        self._saved = 0
        if prefix:
            if reservation.allocation.capacity is None:
                name = reservation.engine.name
                raise KvcalcError(f"--shared-prefix: {name} has no pool in which sequences share one", "leave it out")
            block = reservation.allocation.values.get("block_size")
            whole = prefix // block * block if isinstance(block, int) and block else prefix
            request = config.precision.request
            exact = ExactReplica(config.replica_layout, request.widths, request.encoder_tokens, whole)
            self._saved = exact.least_shared(whole)

    def _bonus(self, sequences: int) -> int:
        return (sequences - 1) * self._saved

    def needed(self, sequences: int, tokens: int) -> int:
        question = self._reservation.question.at(sequences, tokens)
        return self._reservation.engine.allocate(question).needed - self._bonus(sequences)

    def each(self, tokens: int) -> int:
        """Bytes that one more sequence adds; of an engine for a single sequence, those of that one."""
        one = self.needed(1, tokens)
        return one if self.most_sequences == 1 else max(self.needed(2, tokens) - one, 0)

    def shared(self, tokens: int) -> int:
        """What does not grow with the number of sequences."""
        return max(self.needed(1, tokens) - self.each(tokens), 0)

    def holds(self, sequences: int, tokens: int, free: int) -> bool:
        if self.most_sequences is not None and sequences > self.most_sequences:
            return False
        return self._allocator.holds(sequences, tokens, free + self._bonus(sequences))

    def largest(self, tokens: int, free: int, most: int = MOST_TOKENS) -> int:
        """The most sequences on one replica."""
        return most_of(lambda sequences: self.holds(sequences, tokens, free), min(most, self.most_sequences or most))

    def least(self, sequences: int, tokens: int, free: int, most: int) -> int | None:
        """The fewest replicas, up to `most`, on which so many sequences find room."""
        if not self.holds(ceil_div(sequences, most), tokens, free):
            return None
        low, high = 0, most
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.holds(ceil_div(sequences, middle), tokens, free) else (middle, high)
        return high

    def fit(self, memory: MemorySplit, request: Request) -> Fit:
        """The same answer as the size verb's."""
        question = self._reservation.question.at(request.sequences_per_replica, request.context)
        allocation = self._reservation.engine.allocate(question)
        capacity = allocation.capacity
        allocator = self._allocator._replace(
            needed=self.needed(request.sequences_per_replica, request.context),
            holds=self.holds,
            capacity=None if capacity is None else lambda free: capacity(free).tokens,
        )
        return fill(memory, request, allocator)


class EngineBackend:
    """One version of an engine, with its own share of the memory unless `share` says another.

    `bare`: what is beside weights and cache is stated, and does not grow.
    """

    def __init__(
        self,
        engine: Engine,
        version: Version,
        settings: Mapping[str, object],
        share: Fraction | None = None,
        shared_prefix: int = 0,
        *,
        bare: bool = False,
    ) -> None:
        self._grows = engine.grows and not bare
        self.engine, self.version = engine, version
        self.of_free, self.context_parallel = engine.of_free, engine.context_parallel
        self.name, self.vendors = engine.name, engine.vendors
        self._settings, self._share, self._prefix = settings, share, shared_prefix
        self._known: dict[int, ParallelConfig] = {}  # alive, so that no other has the same id
        self._questions: dict[tuple[object, ...], Question] = {}
        self._can_be_shared: dict[tuple[int, int], Fraction] = {}
        self._kept: dict[tuple[object, ...], EngineReplica | KvcalcError] = {}

    def replica_memory(self, config: "ParallelConfig", card: Card) -> EngineReplica:
        """What an engine reserves depends on the card by its memory and its kernels alone."""
        key = self._id(config), card.memory, card.capability
        if key not in self._kept:
            try:
                made: EngineReplica | KvcalcError = EngineReplica(
                    reserve(self.engine, self._question(config, card)),
                    config,
                    self._prefix,
                    card.memory if self._grows else None,
                )
            except KvcalcError as error:
                made = error
            self._kept[key] = made
        found = self._kept[key]
        if isinstance(found, KvcalcError):
            raise found
        return found

    def _question(self, config: "ParallelConfig", card: Card) -> Question:
        key = self._id(config), card.memory, card.capability
        if key not in self._questions:
            request = config.precision.request._replace(batch=1, layout=config.layout)
            settings = (
                {**self._settings, "packed": config.precision.packed} if config.precision.packed else self._settings
            )
            placed = place(request.model, config.layout)
            named = card if card.name else None
            self._questions[key] = Question(request, placed, self.version, settings, card=named).counted()
        return self._questions[key]

    def _id(self, config: "ParallelConfig") -> int:
        return id(self._known.setdefault(id(config), config))

    def beside(
        self, config: "ParallelConfig", card: Card, *, overhead: int | None, stated: Mapping[str, int]
    ) -> Beside:
        question = self._question(config, card)._replace(card=card if card.name else None)  # equal memory, other limits
        return beside_weights(self.engine, question, card.memory, overhead=overhead, stated=stated)

    def share(self, config: "ParallelConfig", card: Card) -> Fraction:
        if self._share is not None:
            return self._share
        key = self._id(config), card.memory
        if key not in self._can_be_shared:
            self._can_be_shared[key] = self.engine.utilization(self._question(config, card), card.memory)
        return self._can_be_shared[key]
