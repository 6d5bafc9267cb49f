"""Requests of one mix of lengths on one replica: how many sequences a rate keeps in the batch.

Little 1961 (doi 10.1287/opre.9.3.383) counts those present by the rate and the time that they stay.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import Work
from kvcalc.perf.workload import Lengths

__all__ = ["Flow", "Resource", "flow"]

Resource = Literal["kv", "compute", "bandwidth", "latency"]
_MOST_SEQUENCES = 2.0**40
_CLOSE = 1e-12
_MOST_TRIES = 200


class Flow(NamedTuple):
    """A clock with what each request asks of it on average: `generated` tokens and `prompt_seconds` of a stage.

    `read` are bytes of the cache that a new token reads on one GPU.
    """

    clock: Clock
    work: Work
    read: float
    generated: float
    prompt_seconds: float
    step: Callable[[float], float]  # seconds until each of so many sequences has one more token, were there no prompts

    def busy(self, rate: float) -> float:
        """Share of the time that goes to prompts (rho)."""
        return rate * self.prompt_seconds

    def rate(self, batch: float) -> float:
        """Requests a second at which `batch` sequences are there on average: grows with the batch, up to `most`.

        B = rate x g x TPOT, where TPOT = step / (1 - rho): prompts take the time.
        """
        return batch / (self.generated * self.step(batch) + batch * self.prompt_seconds) if batch > 0 else 0.0

    @property
    def most(self) -> float:
        """The rate that no batch reaches, were the pool endless."""
        each = self.clock.sequence(self.read, self.work.attention)
        return 1 / (self.generated * each + self.prompt_seconds)

    def batch(self, rate: float) -> float | None:
        """The mean sequences in the batch at a rate, None where no batch keeps up."""
        if rate >= self.most:
            return None
        left = self._left(rate)
        low, missing = 0.0, left(0.0)
        high, over = 1.0, left(1.0)
        while over < 0:
            low, missing = high, over
            high *= 4
            if high > _MOST_SEQUENCES:
                return None
            over = left(high)
        return _root(left, (low, missing), (high, over))

    def _left(self, rate: float) -> Callable[[float], float]:
        """By how many sequences a batch exceeds those that a rate brings; crosses 0 once, from below."""
        step, generated, prompt = (
            self.clock.stepping(self.read, self.work.attention),
            self.generated,
            self.prompt_seconds,
        )
        return lambda batch: batch - rate * (generated * step(batch) + batch * prompt)

    @property
    def scarce(self) -> Resource:
        """What takes most of a request's time in an endless batch."""
        clock = self.clock
        attending = clock.attending(self.read, self.work.attention)
        by_compute = attending > clock.attending(self.read, 0.0)
        compute = self.generated * (clock.computing + by_compute * attending) + self.prompt_computing
        whole = self.generated * clock.sequence(self.read, self.work.attention) + self.prompt_seconds
        return "compute" if 2 * compute >= whole else "bandwidth"

    @property
    def prompt_computing(self) -> float:
        """Seconds of a stage that a prompt's arithmetic takes."""
        return self.work.prompt_tokens * self.clock.computing + self.clock.prompt_attention(self.work.prompt)

    @property
    def scarce_for_prompts(self) -> Resource:
        """What prompts take most of: arithmetic, or what is moved and sent."""
        return "compute" if 2 * self.prompt_computing >= self.prompt_seconds else "bandwidth"


def _root(left: Callable[[float], float], low: tuple[float, float], high: tuple[float, float]) -> float:
    """Where a function crosses 0, between two points of which each is given with its value.

    By false position, where an end that stays twice counts half (the Illinois rule, Dowell and Jarratt 1971,
    doi 10.1007/BF01934364): a plan asks this thousands of times.
    """
    (a, below), (b, above) = low, high
    last, side = a, 0
    for _ in range(_MOST_TRIES):
        point = (a * above - b * below) / (above - below)
        value = left(point)
        if value == 0 or abs(point - last) <= _CLOSE * point:
            return point
        last = point
        if value < 0:
            a, below, above = point, value, above / 2 if side < 0 else above
            side = -1
        else:
            b, above, below = point, value, below / 2 if side > 0 else below
            side = 1
    return b


def flow(clock: Clock, work: Work, read: float, lengths: Lengths) -> Flow:
    """Requests of a mix of lengths on a clock."""
    seconds = clock.shared_prompt(work.prompt_tokens, work.prompt)
    return Flow(clock, work, read, lengths.generated, seconds, clock.stepping(read, work.attention))
