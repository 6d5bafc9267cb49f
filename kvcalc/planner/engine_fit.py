"""What an engine reserves, as fitting and planning ask for it: whether so many sequences of so many tokens fit."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kvcalc.commands.versions import Version
from kvcalc.core.card import Card
from kvcalc.core.fitting import Allocator, Fit, fill, most_of
from kvcalc.core.memory import MemorySplit
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout, place
from kvcalc.core.units import MOST_TOKENS, Fraction, ceil_div
from kvcalc.engines.base import Engine, Reservation, Stored, allocator_of, lacking, reserve
from kvcalc.engines.placement import cuts_blocks
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.launch.beside import Beside, beside_weights
from kvcalc.planner.memo import Memo
from kvcalc.planner.replica import ExactReplica

if TYPE_CHECKING:
    from kvcalc.planner.question import ParallelConfig, Precision

__all__ = ["EngineBackend", "EngineReplica"]


class EngineReplica:
    """A replica of an engine. `prefix` tokens, in whole blocks, are held once for all sequences: each sequence but one
    then needs less, by the bytes that exact full attention and latents have there. An engine has at least as many.
    A server is told to take `most` at once. With a GPU's `memory`, what is beside weights and cache grows with
    sequences and tokens.
    """

    def __init__(
        self, reservation: Reservation, config: "ParallelConfig", prefix: int, memory: int | None = None,
        most: int | None = None,
    ) -> None:  # fmt: skip
        self._reservation, self._way = reservation, config
        self._memory, self._allocator = memory, allocator_of(reservation, memory)
        limits = [each for each in (self._allocator.most_sequences, most) if each is not None]
        self.most_sequences = min(limits) if limits else None
        self.warnings = reservation.allocation.warnings
        self.pooled = reservation.allocation.capacity is not None
        self._needed: dict[tuple[int, int], int] = {}
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
        """Bytes of the fullest GPU: each answer is kept, since a search asks for a few of them again and again."""
        kept = self._needed.get((sequences, tokens))
        if kept is None:
            question = self._reservation.question.at(sequences, tokens)
            kept = self._reservation.engine.allocate(question).needed - self._bonus(sequences)
            self._needed[sequences, tokens] = kept
        return kept

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
        return self._held(self._allocator, sequences, tokens, free)

    def _held(self, allocator: Allocator, sequences: int, tokens: int, free: int) -> bool:
        if allocator.most_sequences is not None and sequences > allocator.most_sequences:
            return False
        return allocator.holds(sequences, tokens, free + self._bonus(sequences))

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
        """The same answer as the size verb's; what is beside weights and cache in `memory` is the request's."""
        question = self._reservation.question.at(request.sequences_per_replica, request.context)
        allocation = self._reservation.engine.allocate(question)
        capacity = allocation.capacity
        own = self._allocator
        if self._memory is not None:
            own = allocator_of(self._reservation._replace(question=question), self._memory)
        allocator = own._replace(
            needed=self.needed(request.sequences_per_replica, request.context),
            holds=partial(self._held, own),
            capacity=None if capacity is None else lambda free: capacity(free).tokens,
        )
        return fill(memory, request, allocator)


class EngineBackend:
    """One version of an engine, with its own share of the memory unless `share` says another.

    `most`: the sequences that each server is told to take at once. `grows`: what is beside weights and cache is not
    stated, and grows with sequences and tokens as the engine has it.
    """

    def __init__(
        self,
        engine: Engine,
        version: Version,
        settings: Mapping[str, object],
        share: Fraction | None = None,
        shared_prefix: int = 0,
        *,
        grows: bool = False,
        most: int | None = None,
    ) -> None:
        self.grows = engine.grows and grows
        self.limited = engine.limit is not None
        self.engine, self.version = engine, version
        self.of_free, self.context_parallel = engine.of_free, engine.context_parallel
        self.name, self.vendors = engine.name, engine.vendors
        self.release: str | None = version.name
        self._most = most
        self._settings, self._share, self._prefix = settings, share, shared_prefix
        self._counted, self._questions, self._shares = Memo[Question](), Memo[Question](), Memo[Fraction]()
        self._replicas = Memo[EngineReplica]()

    def replica_memory(self, config: "ParallelConfig", card: Card) -> EngineReplica:
        """An engine may choose by anything of a card, down to its name where two have the same memory and kernels."""
        return self._replicas.get(config, card, lambda: self._replica(config, card))

    def _replica(self, config: "ParallelConfig", card: Card) -> EngineReplica:
        memory = card.memory if self.grows else None
        return EngineReplica(
            reserve(self.engine, self._question(config, card)), config, self._prefix, memory, self._most
        )

    def _question(self, config: "ParallelConfig", card: Card) -> Question:
        return self._questions.get(config, card, lambda: self._made(config, card))

    def _made(self, config: "ParallelConfig", card: Card) -> Question:
        """Caches are counted once for all cards; what is found for one is its own."""
        counted = self._counted.get(config, None, lambda: self._count(config))
        return counted._replace(card=card if card.name else None, found={})

    def _count(self, config: "ParallelConfig") -> Question:
        precision = config.precision
        request = precision.request._replace(batch=1, layout=config.layout)
        settings = {**self._settings, "packed": precision.packed} if precision.packed else self._settings
        question = Question(request, place(request.model, config.layout), self.version, settings, alike={})
        return question.counted()

    def spread(self, precision: "Precision", layout: Layout) -> Layout:
        """Whole experts on each rank of tp, where the engine refuses to cut the blocks of the published checkpoint."""
        model = precision.request.model
        own = self.engine.keeps_whole and model.weights_dtype and model.weights_dtype.name == precision.weights_name
        experts = model.dimensions.experts if model.dimensions is not None else 0
        if own and layout.tp <= experts and cuts_blocks(model, layout):
            return layout._replace(ep=layout.tp)
        return layout

    def lacking(self, card: Card, what: Stored, name: str) -> str | None:
        return lacking(self.engine, self.version, card, what, name)

    def beside(
        self,
        config: "ParallelConfig",
        card: Card,
        *,
        overhead: int | None,
        stated: Mapping[str, int],
        request: Request | None = None,
        allowed: int | None = None,
    ) -> Beside:
        """For one sequence, or of an engine where it grows for those of a request; with so many that its command
        allows.
        """
        question = self._question(config, card)
        if request is not None and self.grows:
            question = question.at(request.sequences_per_replica, request.context)
        if request is not None and allowed is not None and self.engine.limit is not None:
            settings = {**question.settings, self.engine.limit: allowed}
            question = question.at(allowed, request.context)._replace(settings=settings)
        return beside_weights(self.engine, question, card.memory, overhead=overhead, stated=stated)

    def share(self, config: "ParallelConfig", card: Card) -> Fraction:
        if self._share is not None:
            return self._share
        question = self._question(config, card)
        return self._shares.get(config, card, lambda: self.engine.utilization(question, card.memory))
