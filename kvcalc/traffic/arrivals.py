"""Requests that are made up: arrivals at a rate, and lengths by their mean and 95th percentile. A seed says which."""

from array import array
from math import gamma, log
from random import Random
from typing import Literal, NamedTuple, TypeAlias, assert_never

from kvcalc.perf.workload import Length, exponent
from kvcalc.traffic.trace import Trace

__all__ = ["Arrivals", "arrive", "drawn", "synthetic"]

Kind: TypeAlias = Literal["poisson", "gamma", "constant"]


class Arrivals(NamedTuple):
    """How requests come: `rate` a second; gaps are exponential, gamma (bursts, above a variation of 1), or alike."""

    rate: float
    kind: Kind = "poisson"
    variation: float = 1.0


def arrive(count: int, how: Arrivals, random: Random) -> "array[float]":
    """Times of arrival in seconds, the first at 0."""
    shape, times, now = 1 / how.variation**2, array("d"), 0.0
    for _ in range(count):
        times.append(now)
        match how.kind:
            case "poisson":
                now += random.expovariate(how.rate)
            case "gamma":
                now += random.gammavariate(shape, 1 / (how.rate * shape))
            case "constant":
                now += 1 / how.rate
            case _:
                assert_never(how.kind)
    return times


def synthetic(count: int, how: Arrivals, prompt: Length, generated: Length, seed: int) -> Trace:
    """So many requests with Weibull lengths, prompt and output independent. Raises KvcalcError for no such lengths."""
    random = Random(seed)  # noqa: S311 - nothing secret
    times = arrive(count, how, random)
    return Trace(times, drawn(count, prompt, "--input", random), drawn(count, generated, "--output", random))


def drawn(count: int, length: Length, what: str, random: Random) -> "array[int]":
    """So many whole numbers from 1 on, Weibull through a mean and a 95th percentile."""
    power = exponent(length, what)
    scale = length.mean / gamma(1 + power)
    return array("q", (max(1, round(scale * (-log(1 - random.random())) ** power)) for _ in range(count)))
