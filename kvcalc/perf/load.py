"""A replica under load: what it holds, how fast it goes, and which resource gives out first."""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from kvcalc.perf.roofline import Attained, Clock, Demand, Machine, Resource, clock, wait95
from kvcalc.perf.workload import Lengths, p99

__all__ = ["Load", "Margins", "Replica", "replicas", "serve"]


class Margins(NamedTuple):
    """How full a pool may be: on average, or in its fullest hundredth; and how long one request in 20 may wait.

    Either of the two shares suffices: a large pool hardly strays from its mean, in a small one the 99th percentile of
    random lengths is a pessimist. Replayed traces queue for 6 s with 77 % of the pool in use on average, and for 25 s
    with 86 %.
    """

    mean: float = 0.6
    p99: float = 0.9
    wait_seconds: float = 5.0


class Replica(NamedTuple):
    """One replica: bytes for the cache on each GPU, and what a sequence of so many tokens takes of the fullest.

    `read`: bytes that a new token reads there, where these are not what is held: sparse attention looks at some tokens
    only, and layers that share a cache read it once each.
    """

    pool: int
    held: Callable[[int], int]
    machine: Machine
    demand: Demand
    read: Callable[[int], int] | None = None


class Load(NamedTuple):
    """The answer for one replica. `concurrency` and what follows from it is None where no batch would keep up.

    `binding` is the resource that gives out, with `reason` in one line; both None where the load is carried.
    `wait_seconds` is None for a fixed number of users, and where the wait would grow without end.
    """

    rate: float  # requests a second
    concurrency: float | None  # sequences in the batch, on average
    seconds_per_token: float | None  # of one sequence (TPOT)
    prefill_load: float  # rho: share of the time that goes to prompts
    prefill_seconds: float  # of a mean prompt
    wait_seconds: float | None  # of 95 in 100 requests at most, before their prompt is begun
    context: float  # tokens of a sequence in the batch
    mean_tokens: float | None
    p99_tokens: float | None
    mean_share: float | None  # of the pool, in bytes
    p99_share: float | None
    capacity: float  # requests a second with a full pool
    binding: Resource | None
    reason: str | None
    attained: Attained

    @property
    def carried(self) -> bool:
        """All of it is there, with the margins."""
        return self.binding is None


class _Filling(NamedTuple):
    """What a batch holds, in tokens and as shares of the pool."""

    mean_tokens: float
    p99_tokens: float
    mean_share: float
    p99_share: float


def serve(
    replica: Replica,
    lengths: Lengths,
    *,
    rate: float | None = None,
    users: int | None = None,
    attained: Attained | None = None,
    margins: Margins | None = None,
    arrivals: float = 1.0,
) -> Load:
    """A replica under `rate` requests a second, or with `users` sequences at all times: one of the two.

    `arrivals` is their dispersion (`workload.dispersion`, best in windows of `lengths.residence` steps): 1 where they
    come at random, more where in bursts.
    """
    attained, margins = attained or Attained(), margins or Margins()
    context = ceil(lengths.context)
    each = max(1, replica.held(context))
    read = replica.read(context) if replica.read else each
    ticking = clock(replica.machine, replica.demand, attained, read, lengths.prompt)
    batch = wait = filling = binding = reason = None
    if users is not None:
        batch, rate = float(users), ticking.rate(users, lengths.generated)
    else:
        assert rate is not None, "a rate, or users"
        batch = ticking.batch(rate, lengths.generated)
        if rate * ticking.prefill_seconds < 1:
            wait = wait95(rate * ticking.prefill_seconds, ticking.prefill_seconds, arrivals, replica.demand.variation)
    full = max(0, replica.pool) / each
    if batch is None:
        binding, reason = _overrun(rate, ticking, lengths)
    else:
        filling = _fill(replica, lengths, batch, each, None if users is not None else arrivals)
        binding, reason = _verdict(batch, full, filling, wait, rate * ticking.prefill_seconds, ticking, margins)
    return Load(
        rate=rate,
        concurrency=batch,
        seconds_per_token=None if batch is None else ticking.step(batch) / (1 - rate * ticking.prefill_seconds),
        prefill_load=rate * ticking.prefill_seconds,
        prefill_seconds=ticking.prefill_seconds * ticking.stages,
        wait_seconds=wait,
        context=lengths.context,
        mean_tokens=filling and filling.mean_tokens,
        p99_tokens=filling and filling.p99_tokens,
        mean_share=filling and filling.mean_share,
        p99_share=filling and filling.p99_share,
        capacity=ticking.rate(full, lengths.generated),
        binding=binding,
        reason=reason,
        attained=attained,
    )


def _fill(replica: Replica, lengths: Lengths, batch: float, each: int, arrivals: float | None) -> _Filling:
    """A batch in the pool. Sequences that come and go (`arrivals`) vary in number too, those of users in length alone.

    In an infinite-server queue the variance is the sum of squares over those present, times the dispersion of arrivals
    (Eick, Massey and Whitt 1993, doi 10.1287/opre.41.4.731). In bytes too, where windows stop growing and states never
    grow: what one standard deviation of tokens adds.
    """

    def fullest(mean: float, spread: float) -> float:
        squares = spread**2 + (0 if arrivals is None else mean**2)
        return p99(batch * mean, batch * squares, 1.0 if arrivals is None else arrivals)

    pool = max(1, replica.pool)
    grown = replica.held(ceil(lengths.context + lengths.spread)) - each
    return _Filling(
        batch * lengths.context,
        fullest(lengths.context, lengths.spread),
        batch * each / pool,
        fullest(each, grown) / pool,
    )


def _overrun(rate: float, ticking: Clock, lengths: Lengths) -> tuple[Resource, str]:
    """Why no batch keeps up."""
    busy = rate * ticking.prefill_seconds
    if busy >= 1:
        return _for_prompts(ticking), f"prompts alone ask for {busy:.0%} of the time"
    most = ticking.most(lengths.generated)
    return ticking.scarce(lengths.generated), (
        f"{rate:.3g} requests/s are more than the {most:.3g} that a batch without end would finish; prompts alone take "
        f"{busy:.0%} of the time"
    )


def _for_prompts(ticking: Clock) -> Resource:
    """What prompts take most of: arithmetic, or the link between GPUs."""
    return "compute" if ticking.prompt >= ticking.prompt_exchange else "bandwidth"


def _verdict(
    batch: float, full: float, filling: _Filling, wait: float | None, busy: float, ticking: Clock, margins: Margins
) -> tuple[Resource | None, str | None]:
    """What gives out first, and why."""
    if batch > full:
        return "kv", f"{batch:,.1f} sequences at once, of which the pool holds {full:,.1f}"
    if wait is not None and wait > margins.wait_seconds:
        return _for_prompts(ticking), (
            f"prompts take {busy:.0%} of the time, and 1 request in 20 waits {wait:.1f} s or longer for its turn: "
            f"above {margins.wait_seconds:g} s"
        )
    if filling.mean_share > margins.mean and filling.p99_share > margins.p99:
        return "kv", (
            f"{filling.mean_share:.0%} of the pool in use on average and {filling.p99_share:.0%} at the 99th "
            f"percentile: above {margins.mean:.0%} and {margins.p99:.0%}"
        )
    return None, None


def replicas(load_at: Callable[[float], Load], rate: float, most: int, *, spare: bool = False) -> int | None:
    """The fewest replicas up to `most` that carry a rate dealt evenly, one more with `spare`; None where none do."""
    highest = most - spare
    if highest < 1 or not load_at(rate / highest).carried:
        return None
    low, high = 0, highest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if load_at(rate / middle).carried else (middle, high)
    return high + spare
