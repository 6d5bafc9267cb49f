"""The search for a deployment: which GPUs, how many, split how, with which formats.

What one GPU of a replica holds is worked out once for each way to spread the model; a card then needs little more than
integer arithmetic: the most sequences that a replica holds, hence the fewest replicas, hence the GPUs.
"""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.fitting import Budget, Fit, kv_budget, split_memory
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout
from kvcalc.core.units import MOST_TOKENS, ceil_div
from kvcalc.errors import KvcalcError
from kvcalc.perf.demand import demand_of, machine_of
from kvcalc.perf.load import Load, Replica, replicas, serve
from kvcalc.perf.roofline import Demand
from kvcalc.perf.workload import Lengths, safe_batch
from kvcalc.planner.overheads import Overhead, estimate, given, total
from kvcalc.planner.question import Choice, Filling, Held, Need, Offer, Way

__all__ = ["Found", "Row", "Search"]


_MOST_RATE = 1e15


class Found(NamedTuple):
    """One deployment that does what is asked: what its rank goes by. `layout` has all replicas."""

    offer: Offer
    way: Way
    layout: Layout
    headroom: float
    load: Load | None

    @property
    def card(self) -> Card:
        return self.offer.card

    @property
    def gpus(self) -> int:
        return self.layout.gpus


class Row(NamedTuple):
    """The same with all that an answer says of it. `seats` are the most sequences at once over all replicas, None
    without a limit; `low` and `high` the same with the most and the least that overheads may take.
    """

    offer: Offer
    way: Way
    request: Request  # with the whole layout
    lines: tuple[Overhead, ...]
    fit: Fit
    seats: int | None
    low: int | None
    high: int | None
    headroom: float
    binding: str
    load: Load | None = None

    @property
    def card(self) -> Card:
        return self.offer.card

    @property
    def layout(self) -> Layout:
        return self.request.layout

    @property
    def gpus(self) -> int:
        return self.layout.gpus


class Search:
    """One question put to many cards. What does not depend on the card is kept; `trouble` is why ways were left out."""

    def __init__(self, need: Need, filling: Filling) -> None:
        self.need, self.filling = need, filling
        self.trouble: dict[tuple[str, str, str], str] = {}  # by card and formats
        self._lines: dict[tuple[int, bool], tuple[Overhead, ...]] = {}
        self._demands: dict[int, Demand] = {}

    def cheapest(self, offer: Offer, ways: Sequence[Way]) -> list[Found]:
        """Every way, of those in one choice of formats, that needs the fewest of a card; none where it cannot be."""
        most = offer.fixed or self.need.most_gpus
        found: list[tuple[Way, int]] = []
        for way in ways:
            if way.ranks > most:
                break  # ways come with the fewest GPUs first
            if not self.spans(offer.card, way):
                continue
            try:
                dp = self.least(offer, way, most // way.ranks)
            except KvcalcError as error:
                self.trouble.setdefault((offer.card.name, way.choice.kv, way.choice.weights_name), error.message)
                continue
            if dp is None:
                continue
            if dp * way.ranks < most:
                found, most = [], dp * way.ranks
            found.append((way, dp))
        return [self._found(offer, way, dp) for way, dp in found]

    def spans(self, card: Card, way: Way) -> bool:
        """Whether a card's machines are wide enough for tp."""
        return self.need.across or way.layout.tp <= card.machine

    def lines(self, card: Card, way: Way) -> tuple[Overhead, ...]:
        """The overheads of one GPU."""
        key = card.memory, way.ranks > 1
        kept = self._lines.get(key)
        if kept is None:
            need, facts = self.need, way.choice.request.facts
            if need.overhead is not None:
                kept = (given("overhead", need.overhead),)
            else:
                kept = estimate(facts, card.memory, way.ranks, names=self.filling.lines, stated=need.stated)
            self._lines[key] = kept
        return kept

    def free(self, card: Card, way: Way, overhead: int | None = None) -> int:
        """Bytes for the cache on each GPU: with the likely overheads, or with others."""
        if overhead is None:
            overhead = total(self.lines(card, way)).likely
        share = self.filling.share(way, card)
        return kv_budget(card.memory, share, way.weights, overhead, of_free=self.filling.of_free)

    def seats(self, card: Card, way: Way, free: int) -> int:
        """The most sequences on one replica: of the full length, or of lengths as they are, with a margin."""
        held, need = self.filling.held(way, card), self.need
        if free <= 0:
            return 0
        if need.lengths is None or not held.pooled:
            return held.largest(need.context, free)
        if not held.holds(1, need.context, free):
            return 0
        each, spread = _bytes(held, need.lengths)
        seats = int(safe_batch(free - held.shared(_mean(need.lengths)), each, spread)) if each else MOST_TOKENS
        return min(seats, held.most_sequences or MOST_TOKENS)

    def least(self, offer: Offer, way: Way, most: int) -> int | None:
        """The fewest replicas, up to `most`, that do what is asked. Where their number is fixed, that one or none."""
        need, card = self.need, offer.card
        fixed = need.dp or (most if offer.fixed else None)
        if fixed is not None and (fixed > most or (offer.fixed and fixed * way.ranks != offer.fixed)):
            return None
        most, free = fixed or most, self.free(card, way)
        if free <= 0 or most < 1:
            return None
        if need.lengths is None:
            needed = self.filling.held(way, card).least(need.users, need.context, free, most)
        else:
            seats = self.seats(card, way, free)
            needed = ceil_div(need.users, seats) if need.users <= seats * most else None
            if needed is not None and need.rate is not None:
                carried = replicas(lambda rate: self.load(card, way, free, rate=rate), need.rate, most)
                needed = None if carried is None else max(needed, carried)
        return needed if needed is None or fixed is None else fixed

    def load(self, card: Card, way: Way, free: int, *, rate: float | None = None, users: int | None = None) -> Load:
        """One replica under its part of the load. Raises KvcalcError where a rate of the card is not known."""
        need, choice = self.need, way.choice
        assert need.lengths is not None
        held, longest = self.filling.held(way, card), need.context
        each = held.each if held.pooled else lambda _: held.each(longest)
        machine = machine_of(card, way.layout, eight_bit=choice.weights_name.startswith("fp8"))
        replica = Replica(free - held.shared(_mean(need.lengths)), each, machine, self._demand(choice))
        return serve(replica, need.lengths, rate=rate, users=users, shares=need.shares)

    def _demand(self, choice: Choice) -> Demand:
        kept = self._demands.get(choice.whole.bytes)
        if kept is None:
            assert self.need.lengths is not None
            request = choice.request
            kept = demand_of(request.model, self.need.lengths, choice.whole.bytes, request.encoder_tokens)
            self._demands[choice.whole.bytes] = kept
        return kept

    def _found(self, offer: Offer, way: Way, dp: int) -> Found:
        free, held = self.free(offer.card, way), self.filling.held(way, offer.card)
        load = self._load(offer.card, way, free, dp)
        if load is not None and load.mean_share is not None:
            taken = load.mean_share
        else:
            taken = held.asked(ceil_div(self.need.users, dp), self._tokens) / free
        return Found(offer, way, way.layout._replace(dp=dp), max(0.0, 1 - taken), load)

    @property
    def _tokens(self) -> int:
        """Of a sequence: at most, or with lengths as they are on average."""
        return self.need.context if self.need.lengths is None else _mean(self.need.lengths)

    def row(self, found: Found) -> Row:
        """All that an answer says of a deployment."""
        need, card, way, load = self.need, found.card, found.way, found.load
        dp = found.layout.dp
        lines, share = self.lines(card, way), self.filling.share(way, card)
        size = total(lines)
        budget = Budget(card.memory, None, share, way.choice.weights, size.likely, card, self.filling.of_free)
        users = need.users
        if load is not None and load.concurrency is not None:
            users = max(users, ceil(load.concurrency * dp))
        request = way.choice.request._replace(context=self._tokens, batch=users, layout=found.layout)
        fit = self.filling.held(way, card).fit(split_memory(way.choice.whole, way.ranks, budget), request)
        seats: dict[int, int | None] = {}
        for overhead in size:
            if fit.max_batch is None or (need.lengths is None and overhead == size.likely):
                seats[overhead] = fit.max_batch
            else:
                seats[overhead] = self.seats(card, way, self.free(card, way, overhead)) * dp
        return Row(
            found.offer,
            way,
            request,
            lines,
            fit,
            seats=seats[size.likely],
            low=seats[size.high],
            high=seats[size.low],
            headroom=found.headroom,
            binding=fit.binding if need.rate is None else self._binding(card, way, dp),
            load=load,
        )

    def _load(self, card: Card, way: Way, free: int, dp: int) -> Load | None:
        """One replica at work; None where no lengths are known, or where a rate of the card is not."""
        need = self.need
        if need.lengths is None:
            return None
        if need.rate is not None:
            return self.load(card, way, free, rate=need.rate / dp)
        try:
            return self.load(card, way, free, users=ceil_div(need.users, dp))
        except KvcalcError:
            return None

    def _binding(self, card: Card, way: Way, dp: int) -> str:
        """What gives out first as the rate grows."""
        low = high = (self.need.rate or 1.0) / dp
        found, free = None, self.free(card, way)
        while high < _MOST_RATE and (high - low > low / 100 or found is None):
            rate = 2 * high if found is None else (low + high) / 2
            binding = self.load(card, way, free, rate=rate).binding
            if binding is not None:
                found, high = binding, rate
            else:
                low, high = rate, rate if found is None else high
        return found or "kv"


def _mean(lengths: Lengths) -> int:
    return ceil(lengths.context)


def _bytes(held: Held, lengths: Lengths) -> tuple[int, int]:
    """Bytes of a sequence of the mean length, and of one standard deviation."""
    mean = held.each(_mean(lengths))
    return mean, held.each(ceil(lengths.context + lengths.spread)) - mean
