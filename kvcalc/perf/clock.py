"""The clock: seconds of a step, of a prompt, and of what a batch computes, for one model on one replica.

A pass takes what its kernels take one after another: matrices, attention, sums over ranks, and what each kernel, step
and sequence adds. Matrices are bound by the bytes that they read or by what they compute (Williams et al. 2009,
doi 10.1145/1498765.1498785); near the ridge by both, where measured times lie above either.
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.model import Model
from kvcalc.core.sharding import Layout
from kvcalc.perf.demand import Demand, Work, demand_of, prompt_attention
from kvcalc.perf.doubt import Doubt
from kvcalc.perf.machine import CARDS_OWN, HALF_SPEED, Attained, Machine, machine_of, quantises
from kvcalc.perf.pace import Pace, pace_for

__all__ = ["Clock", "clock_of"]


class Clock(NamedTuple):
    """One model's demand on one machine. Weights, FLOPs and what is computed divide evenly over tp x pp.

    A cache does not, where heads or latents are held several times: steps are told what one GPU reads of it.
    """

    machine: Machine
    demand: Demand

    @property
    def doubt(self) -> Doubt:
        """Why a time may be off."""
        return Doubt((*self.machine.unknown, *self.demand.unknown))

    @property
    def fixed(self) -> float:
        """Seconds of every pass through all stages, whatever is in it."""
        pace = self.machine.pace
        return self.demand.blocks.kernels * pace.kernel + pace.step

    def matrices(self, tokens: float) -> float:
        """Seconds of one stage for a pass of so many tokens through its weights, and between them."""
        return self._passing()(tokens)

    def _passing(self) -> Callable[[float], float]:
        """The same for many numbers of tokens, with what does not depend on them worked out once."""
        read, gpus, bandwidth = self.demand.read, self.machine.gpus, self.machine.bandwidth
        computing, moving = self.computing, self.moving

        def seconds(tokens: float) -> float:
            moved, computed = read(tokens) / gpus / bandwidth, tokens * computing
            return float((moved**3 + computed**3) ** (1 / 3)) + tokens * moving

        return seconds

    @property
    def computing(self) -> float:
        """Seconds of one stage to compute a token with its weights."""
        return (
            (self.demand.dense + self.demand.expert / self.machine.pace.experts)
            / self.machine.gpus
            / self.machine.matrices
        )

    @property
    def moving(self) -> float:
        """Seconds of one stage to move a token's activations."""
        machine, blocks = self.machine, self.demand.blocks
        return (blocks.moved + blocks.shared / machine.tp) / machine.pp / machine.bandwidth

    def sums(self, tokens: float) -> float:
        """Seconds of one stage's sums over the ranks of tp, two a layer (Shoeybi et al. 2019, arXiv 1909.08053).

        Each rank sends 2 (n - 1) / n of what is summed (Patarasuk and Yuan 2009, doi 10.1016/j.jpdc.2008.09.002).
        """
        machine = self.machine
        sent = 2 * (machine.tp - 1) / machine.tp * self.demand.exchanged * tokens
        return self.demand.blocks.sums / machine.pp * machine.summing(sent)

    def attending(self, read: float, flops: float) -> float:
        """Seconds of one stage for one sequence's new token, which reads so many bytes of the cache on each GPU."""
        machine = self.machine
        return max(read / machine.bandwidth, flops / machine.gpus / machine.attention)

    def step(self, batch: float, read: float, attention: float) -> float:
        """Seconds until each of `batch` sequences has one more token: each stage has its share, and all are passed.

        `read`: bytes that one GPU reads of a sequence's cache; `attention`: FLOPs of a sequence's, on all GPUs.
        """
        return self.stepping(read, attention)(batch)

    def stepping(self, read: float, attention: float) -> Callable[[float], float]:
        """The same for many batches: a plan asks for tens of thousands."""
        pp, fixed, sequence, sums = self.machine.pp, self.fixed, self.machine.pace.sequence, self.sums
        passing, attending = self._passing(), self.attending(read, attention)

        def seconds(batch: float) -> float:
            each = max(batch / pp, min(batch, 1.0))  # what is alone meets all stages, which then wait for it
            stage = passing(each) + sums(each) + each * attending
            return pp * stage + fixed + batch * sequence

        return seconds

    def sequence(self, read: float, attention: float) -> float:
        """Seconds that one more sequence adds to a step in an endless batch."""
        machine = self.machine
        sent = 2 * (machine.tp - 1) / machine.tp * self.demand.exchanged
        summed = 0.0
        if machine.tp > 1:
            summed = self.demand.blocks.sums / machine.pp * sent / max(machine.link or 0.0, machine.large_link or 0.0)
        return self.computing + self.moving + summed + self.attending(read, attention) + machine.pace.sequence

    def prompt(self, tokens: float, found: float = 0.0) -> float:
        """Seconds of a prompt that comes alone, of which the first `found` tokens stand in the cache."""
        return self.prompting()(tokens, found)

    def prompting(self) -> Callable[[float, float], float]:
        """The same for many prompts, by their tokens and how many of them stand in the cache."""
        full, demand, passes = float(self.machine.pace.prompt_tokens), self.demand.flops, self._passes
        passing = self._passing()
        whole = passing(full) + self.sums(full)

        def seconds(tokens: float, found: float) -> float:
            flops = prompt_attention(demand, tokens, found) * (1 + HALF_SPEED / tokens)
            new = tokens - found
            return passes(new, flops, whole if new >= full else passing(new) + self.sums(new))

        return seconds

    def alone(self, work: Work) -> float:
        """Seconds of a mean prompt that comes alone."""
        return self.passes(work.prompt_tokens, work.prompt)

    def passes(self, tokens: float, flops: float) -> float:
        """Seconds of a prompt's tokens in full passes, with so many FLOPs of attention at full speed."""
        each = min(tokens, float(self.machine.pace.prompt_tokens))
        return self._passes(tokens, flops, self.matrices(each) + self.sums(each))

    def _passes(self, tokens: float, flops: float, stage: float) -> float:
        """The same where a full pass, or all of fewer tokens, takes so many seconds of a stage."""
        each = min(tokens, float(self.machine.pace.prompt_tokens))
        linear = stage * tokens / each
        return self.machine.pp * (linear + self.prompt_attention(flops)) + ceil(tokens / each) * self.fixed

    def prompt_attention(self, flops: float) -> float:
        """Seconds of one stage for attention in prompts, of so many FLOPs at full speed."""
        return flops / self.machine.gpus / self.machine.attention

    def shared_prompt(self, tokens: float, flops: float) -> float:
        """Seconds that a prompt takes of one stage under load, where its passes are full with other prompts.

        `flops` are those of its attention at full speed.
        """
        full = float(self.machine.pace.prompt_tokens)
        passes = (self.matrices(full) + self.sums(full) + self.fixed / self.machine.pp) / full
        return tokens * passes + self.prompt_attention(flops)


def clock_of(
    card: Card, layout: Layout, model: Model, weights: int, format_: str, *, pace: Pace | None = None,
    attained: Attained = CARDS_OWN, used: int | None = None, encoder_tokens: int | None = None,
) -> Clock:  # fmt: skip
    """The clock of a replica: a model with `weights` bytes in a format, at an engine's pace.

    `attained` are shares that the asker states, `used` the parameters of one token. Raises KvcalcError where a rate of
    the card or the number of parameters is not known.
    """
    pace = pace or pace_for(format_)
    machine = machine_of(card, layout, format_, pace, attained)
    quantised = quantises(card, format_, pace)
    demand = demand_of(model, weights, format_, used=used, encoder_tokens=encoder_tokens, quantised=quantised)
    return Clock(machine, demand)
