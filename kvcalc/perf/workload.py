"""Lengths of requests, and what they come to in a pool: tokens held on average, and in its fullest hour."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import exp, gamma, lgamma, log, sqrt
from typing import NamedTuple

from kvcalc.core.units import MOST_TOKENS, parse_tokens
from kvcalc.errors import KvcalcError, shown

__all__ = ["Z99", "Length", "Lengths", "dispersion", "exponent", "lengths", "p99", "safe_batch", "sampled", "split"]

Z99 = 2.33  # standard deviations to the 99th percentile, to the digits of planning practice

# Lengths with a mean and a 95th percentile are taken as Weibull: mean x E^u / Γ(1 + u), E exponential, so that
# p95 / mean = (ln 20)^u / Γ(1 + u). It has all moments in closed form, and ranges from all alike (u = 0) over
# exponential (u = 1, p95 = 3.0 x mean) to long tails. From its mean and p95 the root mean square of what a sequence
# holds comes out at 1.40, 0.88 and 1.12 of that of the Azure, Mooncake and arXiv traces; a lognormal's at 1.77, 1.02
# and 1.12, since its tail runs away where p95 nears its own limit of 3.87 x mean (Azure's prompts: 3.54).
_FAR = log(20)
_WIDEST = 2.49  # where the ratio turns: from here on a longer tail has a lower 95th percentile


class Length(NamedTuple):
    """One length in tokens: its mean, and its 95th percentile where requests differ. Named on the command line."""

    mean: float
    p95: float | None = None

    def __str__(self) -> str:
        return f"{self.mean:.12g}" if self.p95 is None else f"{self.mean:.12g}/{self.p95:.12g}"

    @classmethod
    def parse(cls, text: str, what: str) -> "Length":
        """`1155`, or `1155/4083` with the 95th percentile; `what` names the option in errors."""
        mean, slash, p95 = text.partition("/")
        return cls(parse_tokens(mean, what), parse_tokens(p95, what) if slash else None)


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
    u, v = exponent(prompt, "--input"), exponent(generated, "--output")
    p, g = prompt.mean, generated.mean
    pp, gg, ggg = p**2 * _moment(u, 2), g**2 * _moment(v, 2), g**3 * _moment(v, 3)
    alike = "all alike" if u == v == 0 else "Weibull lengths through mean and p95, prompt and output independent"
    return Lengths(
        prompt=p,
        generated=g,
        product=p * g,
        generated_squares=gg,
        squares=g * pp + p * (gg - g) + (2 * ggg - 3 * gg + g) / 6,
        prompts=_shares(p, u),
        words=f"{prompt} tokens in, {generated} out: {alike}",
    )


def exponent(length: Length, what: str) -> float:
    """The u of lengths as mean x E^u / Γ(1 + u): 0 where all are alike. `what` names the option in errors."""
    mean, p95 = length
    if not 1 <= mean <= MOST_TOKENS:
        raise KvcalcError(f"{what}: expected a mean of at least 1 token and at most 2^40, got {shown(mean)}")
    if p95 is None or p95 == mean:
        return 0.0
    widest = _ratio(_WIDEST)
    if not 1 < p95 / mean <= widest:
        raise KvcalcError(
            f"{what}: expected a p95 of 1 to {widest:.2f} times the mean, got {length}",
            "no usual distribution of lengths has others: give the mean alone, or a trace",
        )
    low, high = 0.0, _WIDEST
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _ratio(middle) * mean < p95 else (low, middle)
    return high


def _ratio(u: float) -> float:
    """p95 over mean."""
    return exp(u * log(_FAR) - lgamma(1 + u))


def _moment(u: float, n: int) -> float:
    """E[x^n] of a length of mean 1."""
    return gamma(1 + n * u) / gamma(1 + u) ** n


def _shares(mean: float, u: float) -> tuple[tuple[float, float], ...]:
    """A few lengths with their shares, by the trapezoid rule over log E, which is exact to some four digits here."""
    if u == 0:
        return ((mean, 1.0),)
    points = [step / 2 for step in range(-19, 8)]
    attained = [exp(x - exp(x)) / 2 for x in points]
    attained[0] += 1 - sum(attained)  # all that lies below
    return tuple((mean * exp(u * x) / gamma(1 + u), share) for x, share in zip(points, attained, strict=True))


def sampled(requests: Iterable[tuple[int, int]], words: str = "as sampled") -> Lengths:
    """Lengths from (prompt, generated) of real requests: exact, with what joins the two. Raises KvcalcError."""
    count = p_sum = g_sum = pg = gg = squares = 0
    prompts: Counter[int] = Counter()
    for p, g in requests:
        if p < 1 or g < 1:
            raise KvcalcError(f"lengths: expected at least 1 token in and 1 out, got {shown(p)} and {shown(g)}")
        count += 1
        prompts[p] += 1
        p_sum, g_sum, pg, gg = p_sum + p, g_sum + g, pg + p * g, gg + g * g
        squares += g * p * p + p * g * (g - 1) + (g - 1) * g * (2 * g - 1) // 6
    if not count:
        raise KvcalcError("lengths: expected at least one request, got none")
    attained = tuple((float(p), times / count) for p, times in prompts.items())
    return Lengths(p_sum / count, g_sum / count, pg / count, gg / count, squares / count, attained, words)


def p99(mean: float, variance: float, arrivals: float = 1.0) -> float:
    """The 99th percentile of a pool. `arrivals` is their dispersion: 1 where they come at random (compound Poisson)."""
    return mean + Z99 * sqrt(variance * arrivals)


def dispersion(times: Sequence[float], window: float) -> float:
    """Variance over mean of how many of `times` fall into windows of that length; 1 where less than two are full.

    Cox and Lewis 1966, The Statistical Analysis of Series of Events. The window that matters for a pool is the time
    that its tokens stay.
    """
    start = min(times, default=0.0)
    count = int((max(times, default=0.0) - start) / window)
    if count < 2:
        return 1.0
    full = Counter(int((time - start) / window) for time in times)
    counts = [full[i] for i in range(count)]
    mean = sum(counts) / count
    return sum((n - mean) ** 2 for n in counts) / count / mean if mean else 1.0


def split(arrivals: float, ways: int) -> float:
    """Dispersion of one of `ways` shares of a stream, dealt at random; dealt in turn it is less."""
    return 1 + (arrivals - 1) / ways


def safe_batch(pool: float, mean: float, spread: float) -> float:
    """The most sequences B with B x mean + 2.33 x spread x sqrt(B) within the pool: lengths are independent.

    Far more than pool / p99 of a length, since long sequences stand beside short ones.
    """
    if pool <= 0:
        return 0.0
    if not spread:
        return pool / mean  # the roots below would leave an exactly full pool a digit short
    half = Z99 * spread / 2
    return ((sqrt(half**2 + mean * pool) - half) / mean) ** 2
