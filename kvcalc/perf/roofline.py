"""The roofline clock: seconds of a step and of a prompt, and how many sequences a rate keeps in the batch.

Williams et al. 2009 (doi 10.1145/1498765.1498785) bound a kernel by what it moves and what it computes; Little 1961
(doi 10.1287/opre.9.3.383) counts those present by the rate and the time they stay.
"""

from math import log
from typing import Literal, NamedTuple

__all__ = ["Attained", "Clock", "Demand", "Machine", "Resource", "clock", "wait95"]

Resource = Literal["kv", "compute", "bandwidth"]
_MOST_SEQUENCES = 2.0**40


class Attained(NamedTuple):
    """What of the published peaks is attained, and the seconds that each step takes beside.

    Measured by others: 74 to 90 % of bandwidth (vLLM on H100, llama.cpp on an RTX 4090), 32 to 45 % of FLOP/s in
    prefill (L40S, A100, H100).
    """

    bandwidth: float = 0.8
    compute: float = 0.45
    fixed_seconds: float = 0.001

    def __str__(self) -> str:
        fixed = f"{1000 * self.fixed_seconds:g} ms beside each step"
        return f"{self.bandwidth:.0%} of peak bandwidth, {self.compute:.0%} of peak FLOP/s, {fixed}"


class Machine(NamedTuple):
    """One replica: peaks of one of its tp x pp GPUs, and the link between those of tp, all a second."""

    bandwidth: float  # bytes
    flops: float
    link: float | None = None  # bytes in one direction; needed where tp > 1
    tp: int = 1
    pp: int = 1


class Demand(NamedTuple):
    """What the whole model asks for, for lengths as they are: bytes and FLOPs before any split over GPUs.

    `attention` is that of one new token at the mean context; `exchanged` the bytes that all ranks of tp sum up for one
    token, over all layers. `variation` is the squared coefficient of variation of `prompt`.
    """

    weights: float  # bytes of all weights
    touched: float  # bytes of those that one token alone uses: less than `weights` with experts
    token: float  # FLOPs of one token through the weights
    attention: float
    prompt: float  # FLOPs of a mean prompt
    exchanged: float
    variation: float = 0.0


class Clock(NamedTuple):
    """Seconds on one stage of a replica: of a step, of each sequence in it, and of a mean prompt."""

    fixed: float
    weights: float  # all of them read once
    touched: float
    token: float  # a sequence's compute with the weights
    cache: float  # a sequence's cache read
    attention: float  # a sequence's compute with the cache
    exchange: float  # a sequence's sums between the ranks of tp
    prompt: float  # compute
    prompt_exchange: float
    stages: int = 1

    @property
    def prefill_seconds(self) -> float:
        """Seconds that a mean prompt keeps a GPU from all else."""
        return self.prompt + self.prompt_exchange

    def step(self, batch: float) -> float:
        """Seconds until each of `batch` sequences has one more token.

        Each stage of pp has its share of the batch, and all of them must be passed. With experts, tokens read no more
        weights than they touch one by one, and no more than there are.
        """
        each = batch / self.stages
        read = min(self.weights, self.touched * max(1.0, each))
        grows = max(self.cache, self.attention) + self.exchange
        return self.stages * (self.fixed + max(read, self.token * each) + grows * each)

    def rate(self, batch: float, generated: float) -> float:
        """Requests a second at which `batch` sequences are there on average: grows with the batch, up to `most`.

        By Little's law B = rate x g x TPOT, where TPOT = step / (1 - rho) and rho = rate x prefill_seconds: prompts
        take the time.
        """
        return batch / (generated * self.step(batch) + batch * self.prefill_seconds) if batch > 0 else 0.0

    def most(self, generated: float) -> float:
        """The rate that no batch reaches, were the pool endless."""
        return 1 / (generated * (self.token + max(self.cache, self.attention) + self.exchange) + self.prefill_seconds)

    def batch(self, rate: float, generated: float) -> float | None:
        """The mean sequences in the batch at a rate, None where no batch keeps up."""
        if rate >= self.most(generated):
            return None
        low, high = 0.0, 1.0
        while self.rate(high, generated) < rate:
            low, high = high, 2 * high
            if high > _MOST_SEQUENCES:
                return None
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.rate(middle, generated) < rate else (low, middle)
        return high

    def scarce(self, generated: float) -> Resource:
        """What takes most of a request's time in an endless batch."""
        attended = generated * max(self.cache, self.attention)
        by_compute = self.attention > self.cache
        compute = generated * self.token + self.prompt + (attended if by_compute else 0)
        moved = generated * self.exchange + self.prompt_exchange + (0 if by_compute else attended)
        return "compute" if compute >= moved else "bandwidth"


def clock(machine: Machine, demand: Demand, attained: Attained, read: float, prompt_tokens: float) -> Clock:
    """The clock of a replica where a new token reads `read` bytes of its sequence's cache on the fullest GPU.

    Weights and FLOPs divide evenly over tp x pp; the cache does not where heads or latents are held several times.
    """
    gpus = machine.tp * machine.pp
    bandwidth, flops = machine.bandwidth * attained.bandwidth, machine.flops * attained.compute * gpus
    exchange = _exchange(machine, demand)
    return Clock(
        fixed=attained.fixed_seconds,
        weights=demand.weights / gpus / bandwidth,
        touched=demand.touched / gpus / bandwidth,
        token=demand.token / flops,
        cache=read / bandwidth,
        attention=demand.attention / flops,
        exchange=exchange,
        prompt=demand.prompt / flops,
        prompt_exchange=prompt_tokens * exchange,
        stages=machine.pp,
    )


def _exchange(machine: Machine, demand: Demand) -> float:
    """Seconds of a stage's all-reduces for one token: in a ring each rank sends 2 (n - 1) / n of what is summed.

    Patarasuk and Yuan 2009 (doi 10.1016/j.jpdc.2008.09.002); two sums a layer, Shoeybi et al. 2019 (arXiv 1909.08053).
    """
    if machine.tp == 1:
        return 0.0
    assert machine.link, "ranks of tp need a link"
    return 2 * (machine.tp - 1) / machine.tp * demand.exchanged / machine.pp / machine.link


def wait95(load: float, seconds: float, arrivals: float, variation: float) -> float:
    """Seconds that 95 in 100 requests wait at most before their prompt is begun; `load` is rho, below 1.

    Kingman 1961 (doi 10.1017/S0305004100036094) for one server of mean service `seconds`, with the dispersion of
    arrivals for their variability (Fendick and Whitt 1989, doi 10.1109/5.21078), and those who wait at all (a share of
    rho) waiting exponentially long. Some 1.4 to 2 times what replays of the Azure trace show.
    """
    mean = seconds * (arrivals + variation) / 2 / (1 - load)  # of those who wait
    return mean * log(load / 0.05) if load > 0.05 else 0.0
