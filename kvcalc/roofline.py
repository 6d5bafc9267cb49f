"""The roofline clock: seconds of a step and of a prompt, and how many sequences a rate keeps in the batch.

Williams et al. 2009 (doi 10.1145/1498765.1498785) bound a kernel by what it moves and what it computes; Little 1961
(doi 10.1287/opre.9.3.383) counts those present by the rate and the time they stay.
"""

from typing import Literal, NamedTuple

__all__ = ["Clock", "Machine", "Resource", "Shares", "Work", "clock"]

Resource = Literal["kv", "compute", "bandwidth"]


class Shares(NamedTuple):
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


class Work(NamedTuple):
    """What the whole model asks for, for lengths as they are: bytes and FLOPs before any split over GPUs.

    `attention` is that of one new token at the mean context; `exchanged` the bytes that all ranks of tp sum up for one
    token, over all layers. `scatter` is the squared coefficient of variation of `prompt`.
    """

    weights: float  # bytes of all weights
    touched: float  # bytes of those that one token alone uses: less than `weights` with experts
    token: float  # FLOPs of one token through the weights
    attention: float
    prompt: float  # FLOPs of a mean prompt
    exchanged: float
    scatter: float = 0.0


class Clock(NamedTuple):
    """Seconds on one stage of a replica."""

    fixed: float
    weights: float
    touched: float
    token: float  # compute, each sequence
    cache: float  # each sequence
    exchange: float  # each sequence
    prompt: float  # that a prompt keeps a GPU busy
    stages: int

    def step(self, batch: float) -> float:
        """Seconds until each of `batch` sequences has one more token."""
        raise NotImplementedError


def clock(machine: Machine, work: Work, shares: Shares, held: float, prompt_tokens: float) -> Clock:
    """The clock of a replica where each sequence holds `held` bytes on a GPU."""
    raise NotImplementedError
