"""The clock of a plan: one replica of a card under its part of the load. What does not depend on the card is kept."""

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from kvcalc.core.card import Card
from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError
from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import Demand, Work, demand_of, work_of
from kvcalc.perf.latency import Miss, Prompts, prompts_of
from kvcalc.perf.load import Load, Replica, serve
from kvcalc.perf.machine import machine_of, quantises
from kvcalc.perf.pace import pace_for, pace_of
from kvcalc.perf.reads import cache_reads
from kvcalc.planner.question import Backend, Candidate, ParallelConfig, PlanQuestion, Precision, ReplicaMemory

if TYPE_CHECKING:
    from kvcalc.core.formula import Widths
    from kvcalc.core.sharding import Layout

__all__ = ["Times"]


class Times:
    """How fast the ways of a question go. `pool` says how many bytes of a replica sequences have of their own."""

    def __init__(self, question: PlanQuestion, backend: Backend, pool: Callable[[ReplicaMemory, int], int]) -> None:
        self.question, self.backend, self._pool = question, backend, pool
        self._demands: dict[tuple[int, str, bool], Demand] = {}
        self._work: Work | None = None
        self._reads: dict[tuple[Widths, Layout], float] = {}
        self._prompts: dict[int, Prompts] = {}
        self._clocks: dict[tuple[str, int, str, Layout], Clock] = {}

    def load(
        self,
        card: Card,
        config: ParallelConfig,
        free: int,
        *,
        rate: float | None = None,
        users: int | None = None,
        slowest: float | None = None,
    ) -> Load:
        """One replica under its part of the load. Raises KvcalcError where a rate of the card is not known."""
        question = self.question
        assert question.lengths is not None
        memory, longest = self.backend.replica_memory(config, card), question.allowed
        each = memory.each if memory.pooled else lambda _: memory.each(longest)
        clock, read = self.clock(card, config), self._read(config)
        if self._work is None:
            self._work = work_of(clock.demand.flops, question.lengths, question.found)
        return serve(
            Replica(self._pool(memory, free), each, clock, self._work, read),
            question.lengths,
            rate=rate,
            users=users,
            targets=question.targets,
            slowest=slowest,
            found=question.found,
            prompts=None if question.targets is None else self._prompts_of(clock),
        )

    def _prompts_of(self, clock: Clock) -> Prompts:
        """Seconds of prompts on a clock of `_clocks`, which keeps it alive."""
        assert self.question.lengths is not None
        kept = self._prompts.get(id(clock))
        if kept is None:
            kept = self._prompts[id(clock)] = prompts_of(clock, self.question.lengths, self.question.found)
        return kept

    def clock(self, card: Card, config: ParallelConfig) -> Clock:
        """The clock of one replica. Raises KvcalcError where a rate of the card is not known."""
        precision, facts = config.precision, config.precision.request.facts
        name = precision.weights_name or (facts.weights_dtype or facts.dtype).name
        dense = not facts.active_parameters
        pace = pace_of(self.backend.name, self.backend.release, dense=dense) if self.backend.name else pace_for(name)
        key = card.name, precision.whole.bytes, name, config.layout
        kept = self._clocks.get(key)
        if kept is None:
            machine = machine_of(card, config.layout, name, pace, self.question.attained)
            demand = self._demand(precision, name, quantised=quantises(card, name, pace))
            kept = self._clocks[key] = Clock(machine, demand)
        return kept

    def _demand(self, precision: Precision, name: str, *, quantised: bool) -> Demand:
        key = precision.whole.bytes, name, quantised
        kept = self._demands.get(key)
        if kept is None:
            request, weights = precision.request, precision.whole.bytes
            kept = self._demands[key] = demand_of(
                request.model, weights, name, encoder_tokens=request.encoder_tokens, quantised=quantised
            )
        return kept

    def _read(self, config: ParallelConfig) -> float:
        """Bytes of the cache that a new token of a mean sequence reads on one GPU, each stage its own part."""
        request, layout = config.precision.request, config.layout
        key = request.widths, layout
        kept = self._reads.get(key)
        if kept is None:
            assert self.question.lengths is not None
            tokens = ceil(self.question.lengths.context)
            read = sum(term.each * term.seen.at(tokens) for term in cache_reads(request, layout))
            kept = self._reads[key] = read / layout.pp
        return kept

    def missed(self, candidate: Candidate, config: ParallelConfig, free: int, dp: int) -> Miss | None:
        """Which target the users miss on so many replicas. Raises KvcalcError where there are targets, and a rate of
        the card is not known.
        """
        users = ceil_div(self.question.users, dp)
        try:
            return self.load(candidate.card, config, free, users=users, slowest=candidate.slowest).missed
        except KvcalcError:
            if self.question.targets is not None:
                raise
            return None
