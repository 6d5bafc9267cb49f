"""What requests meet at a rate, at any percentile: the first token, a token, and the whole answer.

The first token waits for the prompts before it (Erlang C, `waiting`), is computed, and passes the server. A token's
mean over a request strays with the prompts that come between, and with how many others are there; the whole answer
strays with its length.
"""

from functools import lru_cache
from math import erf, exp, inf, log, sqrt
from typing import NamedTuple, TypeAlias

from kvcalc.core.durations import format_seconds
from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import Found
from kvcalc.perf.flow import Flow
from kvcalc.perf.waiting import erlang_c, mean_wait
from kvcalc.perf.workload import Lengths

__all__ = ["Latency", "Miss", "Prompts", "Targets", "latency_of", "prompts_of"]

_MOST_PROMPTS = 64  # lengths that are told apart

Prompts: TypeAlias = tuple[tuple[float, float], ...]


class Targets(NamedTuple):
    """Seconds that so many of 100 requests are promised; None where nothing is."""

    ttft: float | None = None
    tpot: float | None = None
    e2e: float | None = None
    percentile: float = 95.0


class Miss(NamedTuple):
    """A target that is missed, by its name, and what is met instead."""

    name: str
    target: float
    found: float
    percentile: float | None  # None: the mean

    def __str__(self) -> str:
        at = "on average" if self.percentile is None else f"at p{self.percentile:g}"
        return f"{self.name} {at} is {format_seconds(self.found)}: above {format_seconds(self.target)}"

    @property
    def excess(self) -> float:
        """By what factor."""
        return self.found / self.target


class Latency(NamedTuple):
    """Times of one mix of requests. `waits` is the chance to wait at all and `wait` the mean of those who do.

    `prompts` are seconds of prompts by their shares, `before` what each request meets in any case: half a step and the
    server. `token` is the mean time of a token with its standard deviation over requests, `generated` their tokens.
    """

    waits: float
    wait: float
    prompts: Prompts
    before: float
    token: float
    token_spread: float
    generated: float
    generated_spread: float

    def ttft(self, percentile: float) -> float:
        """Seconds to the first token that so many of 100 requests do not exceed.

        From one prompt's time to the next longer one's, the share that has begun is s - w e exp(-x / wait), x seconds
        on: with s of requests whose prompt takes no longer, the chance w to wait, and e, in which each of them has
        decayed since its own time. That is solved for x; at a prompt's time itself the share jumps.
        """
        part, waits = percentile / 100, self.waits if self.wait else 0.0
        prompts = sorted(self.prompts)
        s = e = before = 0.0
        for (own, share), (following, _) in zip(prompts, [*prompts[1:], (inf, 0.0)], strict=True):
            s = 1.0 if following == inf else s + share
            e = share + (e * exp((before - own) / self.wait) if waits else 0.0)
            if s - waits * e >= part:
                return self.before + own
            if s > part and (begun := own + self.wait * log(waits * e / (s - part))) < following:
                return self.before + begun
            before = own
        return self.before + inf

    def tpot(self, percentile: float) -> float:
        """Seconds of a token, as the mean over a request's tokens, that so many of 100 requests do not exceed."""
        return self.token + _deviations(percentile) * self.token_spread

    def e2e(self, percentile: float) -> float:
        """Seconds of a whole answer that so many of 100 requests do not exceed."""
        mean = sum(share * seconds for seconds, share in self.prompts)
        first = self.before + self.waits * self.wait + mean
        square = sum(share * (seconds - mean) ** 2 for seconds, share in self.prompts)
        waited = self.waits * (2 - self.waits) * self.wait**2
        steps = max(self.generated - 1, 0.0)
        written = (self.token * self.generated_spread) ** 2 + (steps * self.token_spread) ** 2
        return first + steps * self.token + _deviations(percentile) * sqrt(square + waited + written)

    def missed(self, targets: Targets) -> Miss | None:
        """The first target that is missed."""
        of = {"TTFT": (targets.ttft, self.ttft), "TPOT": (targets.tpot, self.tpot), "E2E": (targets.e2e, self.e2e)}
        for name, (target, at) in of.items():
            if target is not None and (found := at(targets.percentile)) > target:
                return Miss(name, target, found, targets.percentile)
        return None


def latency_of(
    flowing: Flow,
    lengths: Lengths,
    rate: float,
    batch: float,
    before: float,
    *,
    found: Found,
    arrivals: float = 1.0,
    servers: int = 1,
    prompts: Prompts | None = None,
) -> Latency:
    """What requests meet with `batch` sequences there on average, and `before` seconds beside wait and prompt.

    `prompts` are `prompts_of` the same clock, where many rates are asked for.
    `servers` replicas take requests from one queue; 1 where each has its own.
    """
    clock, busy, seconds = flowing.clock, flowing.busy(rate), flowing.prompt_seconds
    variation = flowing.work.variation
    waits = erlang_c(servers, busy * servers)
    wait = mean_wait(busy, seconds, variation, arrivals, servers) / waits if waits else 0.0
    token = flowing.step(batch) / (1 - busy)
    # Prompts come between the tokens of a request as a compound Poisson stream over its time; and the batch, as Poisson
    # as its arrivals, makes steps longer or shorter for as long as it lasts.
    between = rate * seconds**2 * (1 + variation) * arrivals * token / max(lengths.generated, 1.0)
    slope = flowing.step(batch + 1) - flowing.step(batch)
    crowd = slope**2 * batch * arrivals / (1 - busy) ** 2
    prompts = prompts_of(clock, lengths, found) if prompts is None else prompts
    squares = max(lengths.generated_squares - lengths.generated**2, 0.0)
    return Latency(waits, wait, prompts, before, token, sqrt(between + crowd), lengths.generated, sqrt(squares))


def prompts_of(clock: Clock, lengths: Lengths, found: Found) -> Prompts:
    """Seconds of prompts that come alone, by their shares, of which `found` stands in the cache."""
    prompt = clock.prompting()
    return tuple((prompt(length, found.of(length)), share) for length, share in _told_apart(lengths))


def _told_apart(lengths: Lengths) -> list[tuple[float, float]]:
    """Lengths of prompts with their shares: all, or so many means of as many requests each."""
    if len(lengths.prompts) <= _MOST_PROMPTS:
        return list(lengths.prompts)
    found: list[tuple[float, float]] = []
    tokens = part = 0.0
    for length, share in sorted(lengths.prompts):
        tokens, part = tokens + length * share, part + share
        if part * _MOST_PROMPTS >= 1:
            found.append((tokens / part, part))
            tokens = part = 0.0
    return [*found, *([(tokens / part, part)] if part else [])]


@lru_cache(64)  # the same few percentiles for every row of a plan
def _deviations(percentile: float) -> float:
    """Standard deviations from the mean to a percentile of a normal distribution."""
    low, high = -9.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 + erf(middle / sqrt(2))) / 2 < percentile / 100 else (low, middle)
    return high
