"""The search for a deployment: which GPUs, how many, split how, with which formats.

What one GPU of a replica holds is worked out once for each way to spread the model; a card then needs little more than
integer arithmetic: the most sequences that a replica holds, hence the fewest replicas, hence the GPUs.
"""

from collections.abc import Sequence
from contextlib import suppress
from math import ceil, sqrt

from kvcalc.core.card import Card
from kvcalc.core.memory import Budget, kv_budget, split_memory
from kvcalc.core.overheads import Overhead, total
from kvcalc.core.request import Request
from kvcalc.core.units import MOST_TOKENS, ceil_div
from kvcalc.errors import KvcalcError
from kvcalc.perf.load import Load, replicas
from kvcalc.perf.workload import Lengths, safe_batch
from kvcalc.planner.memo import Memo
from kvcalc.planner.question import Backend, Candidate, ParallelConfig, PlanQuestion, ReplicaMemory
from kvcalc.planner.rows import Deployment, PlanRow
from kvcalc.planner.times import Times

__all__ = ["Search"]

_MOST_RATE = 1e15
_P99 = 2.33  # standard deviations


class Search:
    """One question put to many cards. What does not depend on the card is kept; `trouble` is why ways were left out."""

    def __init__(self, question: PlanQuestion, backend: Backend) -> None:
        self.question, self.backend = question, backend
        self.trouble: dict[tuple[str, str, str], str] = {}  # by card and formats
        self._lines = Memo[tuple[Overhead, ...]]()
        self._pools: dict[tuple[int, int], int] = {}  # by replica, which its backend keeps alive, and free bytes
        self.times = Times(question, backend, self._pool)

    def cheapest(
        self, candidate: Candidate, configs: Sequence[ParallelConfig], *, sure: bool = False
    ) -> list[Deployment]:
        """Every way, of those in one choice of formats, that needs the fewest of a card; none where it cannot be.

        `sure`: with the most that overheads may take.
        """
        most = candidate.fixed or self.question.most_gpus
        found: list[tuple[ParallelConfig, int]] = []
        widest = candidate.widest if self._within_one(candidate, configs) else most
        for config in configs:
            if config.ranks > min(most, widest):
                break  # ways come with the fewest GPUs first
            if not self.spans(candidate, config):
                continue
            try:
                dp = self.least(candidate, config, most // config.ranks, sure=sure)
            except KvcalcError as error:
                self.trouble.setdefault(
                    (candidate.card.name, config.precision.kv, config.precision.weights_name), error.message
                )
                continue
            if dp is None:
                continue
            if dp * config.ranks < most:
                found, most = [], dp * config.ranks
            found.append((config, dp))
        return [self.deployment(candidate, config, dp, sure=sure) for config, dp in found]

    def _within_one(self, candidate: Candidate, configs: Sequence[ParallelConfig]) -> bool:
        """Whether some replica fits into one machine: then nobody would rent several for the stages of one."""
        if self.question.pinned or self.question.across or candidate.fixed or not candidate.counts:
            return False
        for config in configs:
            if config.ranks > candidate.widest:
                return False
            with suppress(KvcalcError):  # why not is said of each way in turn
                if self.spans(candidate, config) and self.max_sequences(
                    candidate.card, config, self.free(candidate.card, config)
                ):
                    return True
        return False

    def spans(self, candidate: Candidate, config: ParallelConfig) -> bool:
        """Whether a machine is wide enough for tp, and there are machines with so many GPUs."""
        question, tp = self.question, config.layout.tp
        if question.pinned:
            return question.across or tp <= candidate.card.machine
        return (question.across or tp <= candidate.widest) and candidate.rentable(config.ranks)

    def lines(
        self, card: Card, config: ParallelConfig, request: Request | None = None, allowed: int | None = None
    ) -> tuple[Overhead, ...]:
        """What one GPU holds beside weights and cache: with one sequence, or where it grows with those of a request, or
        with how many a server allows.
        """
        asked, of = self.question, request if self.backend.grows or (allowed and self.backend.limited) else None

        def made() -> tuple[Overhead, ...]:
            lines = self.backend.beside(
                config, card, overhead=asked.overhead, stated=asked.stated, request=of, allowed=allowed
            ).lines
            more = asked.company
            return lines if more is None else (*lines, *more(config.precision.request._replace(layout=config.layout)))

        return made() if of is not None else self._lines.get(config, card, made)

    def free(self, card: Card, config: ParallelConfig, overhead: int | None = None) -> int:
        """Bytes for the cache on each GPU: with the likely overheads, or with others."""
        if overhead is None:
            overhead = total(self.lines(card, config)).likely
        share = self.backend.share(config, card)
        return kv_budget(card.memory, share, config.weights, overhead, of_free=self.backend.of_free)

    def max_sequences(self, card: Card, config: ParallelConfig, free: int) -> int:
        """The most sequences on one replica: of the full length, or of lengths as they are, with a margin."""
        memory, question = self.backend.replica_memory(config, card), self.question
        if free <= 0:
            return 0
        if question.lengths is None or not memory.pooled:
            return memory.largest(question.allowed, free)
        if not memory.holds(1, question.allowed, free):
            return 0
        each, spread = _bytes(memory, question.lengths)
        max_sequences = int(safe_batch(self._pool(memory, free), each, spread)) if each else MOST_TOKENS
        return min(max_sequences, memory.most_sequences or MOST_TOKENS)

    def _pool(self, memory: ReplicaMemory, free: int) -> int:
        """Bytes for what sequences of the mean length have of their own. Where an engine's pools do not fill together
        (a null block, equal bytes for each window, slots of states, so many sequences), only those that it can fill.
        """
        key = id(memory), free
        if key not in self._pools:
            tokens = self._tokens
            each, pool = memory.each(tokens), free - memory.shared(tokens)
            if memory.pooled and each and pool > 0:
                by_bytes = min(pool // each, memory.most_sequences or MOST_TOKENS)
                pool = pool if memory.holds(by_bytes, tokens, free) else each * memory.largest(tokens, free, by_bytes)
            if (most := memory.most_sequences) is not None:
                pool = min(pool, most * (each if memory.pooled else memory.each(self.question.allowed)))
            self._pools[key] = pool
        return self._pools[key]

    def least(self, candidate: Candidate, config: ParallelConfig, most: int, *, sure: bool = False) -> int | None:
        """The fewest replicas, up to `most`, that do what is asked. Where their number is fixed, that one or none."""
        question, card = self.question, candidate.card
        fixed = question.dp or (most if candidate.fixed else None)
        if fixed is not None and (fixed > most or (candidate.fixed and fixed * config.ranks != candidate.fixed)):
            return None
        most = fixed or most
        if most < 1 or self.free(card, config, overhead=0) <= 0:  # the weights alone, which need no lines to be made
            return None
        free = self.free(card, config, total(self.lines(card, config)).high if sure else None)
        if free <= 0:
            return None
        if question.lengths is None:
            needed = self.backend.replica_memory(config, card).least(question.users, question.context, free, most)
        else:
            max_sequences = self.max_sequences(card, config, free)
            needed = ceil_div(question.users, max_sequences) if question.users <= max_sequences * most else None
            if needed is not None and question.rate is not None:
                slowest = candidate.slowest
                carried = replicas(
                    lambda rate: self.times.load(card, config, free, rate=rate, slowest=slowest), question.rate, most
                )
                needed = None if carried is None else max(needed, carried)
            elif needed is not None and (question.targets is not None or candidate.slowest is not None):
                needed = self._quick_enough(candidate, config, free, needed, most)
        return needed if needed is None or fixed is None else fixed

    def _quick_enough(self, candidate: Candidate, config: ParallelConfig, free: int, low: int, high: int) -> int | None:
        """The fewest of `low` to `high` replicas on which the users meet the targets, or None."""

        def met(dp: int) -> bool:
            return self.times.missed(candidate, config, free, dp) is None

        if not met(high):
            return None
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if met(middle) else (middle + 1, high)
        return high

    def deployment(self, candidate: Candidate, config: ParallelConfig, dp: int, *, sure: bool) -> Deployment:
        """So many replicas of a card, whatever they carry."""
        free, memory = self.free(candidate.card, config), self.backend.replica_memory(config, candidate.card)
        load = self._load(candidate.card, config, free, dp)
        if load is not None and load.mean_share is not None:
            taken = load.mean_share
        else:
            lines = self.lines(candidate.card, config, self._request(config, dp, self.question.users))
            room = self.free(candidate.card, config, total(lines).likely)
            taken = memory.needed(ceil_div(self.question.users, dp), self._tokens) / room
        layout = config.layout._replace(dp=dp)
        return Deployment(
            candidate, config, layout, max(0.0, 1 - taken), load, sure or self._surely(candidate, config, dp)
        )

    def _surely(self, candidate: Candidate, config: ParallelConfig, dp: int) -> bool:
        """Whether so many replicas do with the most that overheads may take."""
        needed = self.least(candidate, config, dp, sure=True)
        return needed is not None and needed <= dp

    def _request(self, config: ParallelConfig, dp: int, users: int) -> Request:
        layout = config.layout._replace(dp=dp)
        return config.precision.request._replace(context=self._tokens, batch=users, layout=layout)

    @property
    def _tokens(self) -> int:
        """Of a sequence: at most, or with lengths as they are on average."""
        return self.question.context if self.question.lengths is None else _mean(self.question.lengths)

    def row(self, found: Deployment) -> PlanRow:
        """All that an answer says of a deployment."""
        question, card, config, load = self.question, found.card, found.config, found.load
        dp = found.layout.dp
        share = self.backend.share(config, card)
        users = question.users
        if load is not None and load.concurrency is not None:
            users = max(users, ceil(load.concurrency * dp))
        request = self._request(config, dp, users)
        allowed = self._allowed(found)
        longest = request._replace(context=question.allowed)
        lines = self.lines(card, config, longest if self.backend.limited else request, allowed)
        size = total(lines if self.backend.limited else self.lines(card, config))
        budget = Budget(card.memory, None, share, config.precision.weights, lines, card, self.backend.of_free)
        memory, split = (
            self.backend.replica_memory(config, card),
            split_memory(config.precision.whole, config.rank, budget),
        )
        fit = memory.fit(split, request)
        if self.backend.name and question.lengths is not None:  # the pool as the engine counts it, by its own limit
            fit = fit._replace(capacity_tokens=memory.fit(split, longest).capacity_tokens)
        max_sequences: dict[int, int | None] = {}
        for overhead in size:
            if fit.max_batch is None or (question.lengths is None and overhead == size.likely):
                max_sequences[overhead] = fit.max_batch
            else:
                max_sequences[overhead] = self.max_sequences(card, config, self.free(card, config, overhead)) * dp
        return PlanRow(
            found.candidate,
            config,
            request,
            lines,
            fit,
            max_sequences=max_sequences[size.likely],
            max_sequences_low=max_sequences[size.high],
            max_sequences_high=max_sequences[size.low],
            headroom=found.headroom,
            binding=fit.binding if question.rate is None else self._binding(card, config, dp),
            load=load,
            sequences=allowed,
            sure=found.sure,
        )

    def _allowed(self, found: Deployment) -> int:
        """Sequences that one server is told to allow: those of its users, or at a rate as many as are there at times.

        At random arrivals their number is Poisson: 99 in 100 times no more than mean + 2.33 deviations, and one more.
        """
        users, load = ceil_div(self.question.users, found.layout.dp), found.load
        mean = None if load is None or self.question.rate is None else load.concurrency
        if self.question.sequences or mean is None:
            return self.question.sequences or users
        most = self.backend.replica_memory(found.config, found.card).most_sequences or MOST_TOKENS
        return max(users, min(ceil(mean + _P99 * sqrt(mean)) + 1, most))

    def _load(self, card: Card, config: ParallelConfig, free: int, dp: int) -> Load | None:
        """One replica at work; None where no lengths are known, or where a rate of the card is not."""
        question = self.question
        if question.lengths is None:
            return None
        if question.rate is not None:
            return self.times.load(card, config, free, rate=question.rate / dp)
        try:
            return self.times.load(card, config, free, users=ceil_div(question.users, dp))
        except KvcalcError:
            return None

    def _binding(self, card: Card, config: ParallelConfig, dp: int) -> str:
        """What gives out first as the rate grows."""
        low = high = (self.question.rate or 1.0) / dp
        found, free = None, self.free(card, config)
        while high < _MOST_RATE and (high - low > low / 100 or found is None):
            rate = 2 * high if found is None else (low + high) / 2
            binding = self.times.load(card, config, free, rate=rate).binding
            if binding is not None:
                found, high = binding, rate
            else:
                low, high = rate, rate if found is None else high
        return found or "kv"


def _mean(lengths: Lengths) -> int:
    return ceil(lengths.context)


def _bytes(memory: ReplicaMemory, lengths: Lengths) -> tuple[int, int]:
    """Bytes of a sequence of the mean length, and of one standard deviation."""
    mean = memory.each(_mean(lengths))
    return mean, memory.each(ceil(lengths.context + lengths.spread)) - mean
