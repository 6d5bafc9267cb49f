"""A replica under load: what it holds, how fast it goes, and which resource gives out first."""

from collections.abc import Callable
from math import ceil, exp
from typing import NamedTuple

from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import NOTHING_FOUND, Found, Work
from kvcalc.perf.doubt import Doubt, Span
from kvcalc.perf.flow import Flow, Resource, flow
from kvcalc.perf.latency import Latency, Miss, Prompts, Targets, latency_of
from kvcalc.perf.pace import ALONE
from kvcalc.perf.waiting import mean_wait, wait_at
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

    `read`: bytes that a new token of a mean sequence reads there. These are not what is held: sparse attention looks at
    some tokens only, layers that share a cache read it once each, and every sequence reads a prefix that is held once.
    """

    pool: int
    held: Callable[[int], int]
    clock: Clock
    work: Work
    read: float


class Load(NamedTuple):
    """The answer for one replica. `concurrency` and what follows from it is None where no batch would keep up.

    `binding` is the resource that gives out, with `reason` in one line; both None where the load is carried.
    `wait_seconds` is None for a fixed number of users, and where the wait would grow without end. `ttft_seconds` is
    the mean: a wait for other prompts, its own passes, half a step until they begin, and the server's front end.
    `burst_seconds` is what the mean of it would be if all users came at once; 0 where they come by themselves.
    `clock` has the rates that all of it follows from. `latency` has percentiles, where targets are asked for.
    """

    rate: float  # requests a second
    concurrency: float | None  # sequences in the batch, on average
    seconds_per_token: float | None  # of one sequence (TPOT)
    prefill_load: float  # rho: share of the time that goes to prompts
    prefill_seconds: float  # of a mean prompt that comes alone
    ttft_seconds: float | None
    burst_seconds: float
    wait_seconds: float | None  # of 95 in 100 requests at most, before their prompt is begun
    context: float  # tokens of a sequence in the batch
    mean_tokens: float | None
    p99_tokens: float | None
    mean_share: float | None  # of the pool, in bytes
    p99_share: float | None
    capacity: float  # requests a second with a full pool
    binding: Resource | None
    reason: str | None
    clock: Clock
    latency: Latency | None = None
    missed: Miss | None = None

    @property
    def doubt(self) -> Doubt:
        """How far seconds may be off, and why."""
        return self.clock.doubt

    @property
    def tpot(self) -> Span | None:
        """Seconds of one sequence's token."""
        return None if self.seconds_per_token is None else self.doubt.around(self.seconds_per_token)

    @property
    def prefill(self) -> Span:
        """Seconds of a mean prompt that comes alone."""
        return self.doubt.around(self.prefill_seconds)

    @property
    def ttft(self) -> Span | None:
        """Seconds to the first token on average; at most if all users came at once."""
        if self.ttft_seconds is None:
            return None
        span = self.doubt.around(self.ttft_seconds)
        return span._replace(high=max(span.high, self.doubt.factor * self.burst_seconds))

    @property
    def most(self) -> Span:
        """Requests a second with a full pool."""
        return self.doubt.around(self.capacity)

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
    margins: Margins | None = None,
    arrivals: float = 1.0,
    targets: Targets | None = None,
    slowest: float | None = None,
    found: Found = NOTHING_FOUND,
    prompts: Prompts | None = None,
) -> Load:
    """A replica under `rate` requests a second, or with `users` sequences at all times: one of the two.

    `arrivals` is their dispersion (`workload.dispersion`, best in windows of `lengths.residence` steps): 1 where they
    come at random, more where in bursts. What is served but misses one of the `targets`, or whose token takes more than
    `slowest` seconds on average, is refused for latency; `found` is what of each prompt stands in the cache, as the
    work has it, and `prompts` their seconds, where many rates are asked for.
    """
    margins = margins or Margins()
    each = max(1, replica.held(ceil(lengths.context)))
    flowing = flow(replica.clock, replica.work, replica.read, lengths)
    batch = wait = filling = binding = reason = None
    before = 0.0
    if users is not None:
        batch, rate = float(users), flowing.rate(users)
    else:
        assert rate is not None, "a rate, or users"
        batch = flowing.batch(rate)
        if flowing.busy(rate) < 1:
            wait = wait_at(95, flowing.busy(rate), flowing.prompt_seconds, replica.work.variation, arrivals)
    full, busy = max(0, replica.pool) / each, flowing.busy(rate)
    if batch is None:
        binding, reason = _overrun(rate, flowing)
    else:
        filling = _fill(replica, lengths, batch, each, None if users is not None else arrivals)
        binding, reason = _verdict(batch, full, filling, wait, busy, flowing, margins)
    prefill, ttft, burst = replica.clock.alone(replica.work), None, 0.0
    if batch is not None:
        before = flowing.step(batch) / 2 + _front_end(flowing, batch, closed=users is not None)
        ttft = prefill + before
        if users is not None:
            burst = ttft + (users - 1) / 2 * flowing.prompt_seconds
        ttft += (1 - 1 / users if users else 1.0) * mean_wait(
            busy, flowing.prompt_seconds, replica.work.variation, arrivals
        )
    latency = missed = None
    token = None if batch is None else flowing.step(batch) / (1 - busy)
    if targets is not None and batch is not None:
        latency = latency_of(flowing, lengths, rate, batch, before, found=found, arrivals=arrivals, prompts=prompts)
        missed = latency.missed(targets)
    if missed is None and token is not None and slowest is not None and token > slowest:
        missed = Miss("TPOT", slowest, token, None)
    if binding is None and missed is not None:
        binding, reason = "latency", str(missed)
    return Load(
        rate=rate,
        concurrency=batch,
        seconds_per_token=token,
        prefill_load=busy,
        prefill_seconds=prefill,
        ttft_seconds=ttft,
        burst_seconds=burst,
        wait_seconds=wait,
        context=lengths.context,
        mean_tokens=filling and filling.mean_tokens,
        p99_tokens=filling and filling.p99_tokens,
        mean_share=filling and filling.mean_share,
        p99_share=filling and filling.p99_share,
        capacity=flowing.rate(full),
        binding=binding,
        reason=reason,
        clock=replica.clock,
        latency=latency,
        missed=missed,
    )


def _front_end(flowing: Flow, batch: float, *, closed: bool) -> float:
    """Seconds of the server before a request is in a step: more under many clients, who ask at once, than for one. Who
    comes by itself finds somebody there by the chance of a Poisson number, and then a step that is scheduled already.
    """
    pace = flowing.clock.machine.pace
    if closed:
        return ALONE if batch <= 1 else pace.front_end
    return pace.alone + (flowing.step(batch) * (1 - exp(-batch)) if pace.ahead else 0.0)


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


def _overrun(rate: float, flowing: Flow) -> tuple[Resource, str]:
    """Why no batch keeps up."""
    busy = flowing.busy(rate)
    if busy >= 1:
        return flowing.scarce_for_prompts, f"prompts alone ask for {busy:.0%} of the time"
    return flowing.scarce, (
        f"{rate:.3g} requests/s are more than the {flowing.most:.3g} that a batch without end would finish; prompts "
        f"alone take {busy:.0%} of the time"
    )


def _verdict(
    batch: float, full: float, filling: _Filling, wait: float | None, busy: float, flowing: Flow, margins: Margins
) -> tuple[Resource | None, str | None]:
    """What gives out first, and why."""
    if batch > full:
        return "kv", f"{batch:,.1f} sequences at once, of which the pool holds {full:,.1f}"
    if wait is not None and wait > margins.wait_seconds:
        return flowing.scarce_for_prompts, (
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
