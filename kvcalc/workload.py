"""Lengths of requests, and what they come to in a pool: tokens held on average, and in its fullest hour."""

from collections.abc import Callable, Iterable, Sequence
from math import exp, gamma, lgamma, log, sqrt
from typing import NamedTuple

from kvcalc.errors import KvcalcError, shown
from kvcalc.units import MOST_TOKENS

__all__ = ["Z99", "Lengths", "Length", "dispersion", "lengths", "p99", "safe_batch", "sampled", "split"]

Z99 = 2.33  # standard deviations to the 99th percentile, to the digits of planning practice

# Lengths with a mean and a 95th percentile are taken as Weibull: mean x E^u / Γ(1 + u), E exponential, so that
# p95 / mean = (ln 20)^u / Γ(1 + u). It has all moments in closed form, ranges from all alike (u = 0) over exponential
# (u = 1, p95 = 3.0 x mean) to long tails, and misses the second moments of the Azure, Mooncake and arXiv traces less
# than the lognormal, whose tail runs away where p95 nears its own limit of 3.87 x mean (Azure's prompts: 3.54).
_FAR = log(20)
_WIDEST = 2.49  # where the ratio turns: from here on a longer tail has a lower 95th percentile


class Length(NamedTuple):
    """One length in tokens: its mean, and its 95th percentile where requests differ. Named on the command line."""

    mean: float
    p95: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:g}" if self.p95 is None else f"{self.mean:g}/{self.p95:g}"


class Lengths(NamedTuple):
    """Means over requests of p prompt and g generated tokens, and what makes of them a pool.

    A request holds p + k tokens in its k-th step, k from 0 to g - 1: the last sampled token is never written. `squares`
    is E[sum over k of (p + k)^2]. `prompts` are lengths of prompts and their shares of the requests, for whatever does
    not grow in proportion. `words` say how the lengths are known.
    """

    prompt: float  # E[p]
    generated: float  # E[g]
    product: float  # E[p g]
    generated_squares: float  # E[g^2]
    squares: float
    prompts: tuple[tuple[float, float], ...]
    words: str

    @property
    def token_steps(self) -> float:
        """Tokens x steps that a request holds in all: E[g p + g (g - 1) / 2]."""
        return self.product + (self.generated_squares - self.generated) / 2

    @property
    def context(self) -> float:
        """Tokens of a sequence in the batch at any moment: those who generate longer are there longer."""
        return self.token_steps / self.generated

    @property
    def spread(self) -> float:
        """Standard deviation of the same."""
        return sqrt(max(0.0, self.squares / self.generated - self.context**2))

    @property
    def residence(self) -> float:
        """Steps that a token stays: the window of the dispersion of arrivals, in steps."""
        return self.product / self.prompt

    def mean_over(self, of: Callable[[float], float]) -> float:
        """The mean of a function of a prompt's length."""
        return sum(share * of(length) for length, share in self.prompts)


def lengths(prompt: Length, generated: Length) -> Lengths:
    """Lengths by their means, or means and 95th percentiles, independent of each other. Raises KvcalcError."""
    raise NotImplementedError


def sampled(requests: Iterable[tuple[int, int]], words: str = "as sampled") -> Lengths:
    """Lengths from (prompt, generated) of real requests: exact, with what joins the two. Raises KvcalcError."""
    raise NotImplementedError


def p99(mean: float, variance: float, arrivals: float = 1.0) -> float:
    """The 99th percentile of a pool, with the dispersion of arrivals: compound Poisson has 1."""
    return mean + Z99 * sqrt(variance * arrivals)


def dispersion(times: Sequence[float], window: float) -> float:
    """Variance over mean of how many of the sorted `times` fall into windows of that length."""
    raise NotImplementedError


def split(arrivals: float, ways: int) -> float:
    """Dispersion of one of `ways` shares of a stream, dealt at random; dealt in turn it is less."""
    return 1 + (arrivals - 1) / ways


def safe_batch(pool: float, mean: float, spread: float) -> float:
    """The most sequences B with B x mean + 2.33 x spread x sqrt(B) within the pool, their lengths independent."""
    raise NotImplementedError
