"""Seconds of an engine's steps, quickly: what depends on the number of sequences is worked out once for each number."""

from collections.abc import Callable

from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import prompt_attention
from kvcalc.perf.machine import HALF_SPEED

__all__ = ["StepClock"]


class StepClock:
    """The clock of one replica. `read` are the bytes of the cache that a new token reads on one GPU at a context, and
    `attention` the FLOPs of a sequence's attention for it on all GPUs.
    """

    def __init__(self, clock: Clock, read: Callable[[float], float], attention: Callable[[float], float]) -> None:
        self._clock, self._read, self._attention = clock, read, attention
        self._passes: dict[int, float] = {}
        self._attending: dict[int, float] = {}
        self.sequence = clock.machine.pace.sequence
        self.front_end = clock.machine.pace.alone

    def passing(self, tokens: int) -> float:
        """A pass of so many tokens through the weights, of prompts and sequences together."""
        kept = self._passes.get(tokens)
        if kept is None:
            clock, pp = self._clock, self._clock.machine.pp
            each = max(tokens / pp, min(tokens, 1.0))
            kept = self._passes[tokens] = pp * (clock.matrices(each) + clock.sums(each)) + clock.fixed
        return kept

    def attending(self, prompt: int, generated: int) -> float:
        """What one sequence adds to each step: attention to its mean context over its time, and the engine's work."""
        context = (2 * prompt + generated) // 2
        key = context >> 4  # nearer than 16 tokens is the same
        kept = self._attending.get(key)
        if kept is None:
            tokens = float((key << 4) + 8)
            seconds = self._clock.attending(self._read(tokens), self._attention(tokens))
            kept = self._attending[key] = seconds + self.sequence
        return kept

    def prompt(self, tokens: int, found: int) -> float:
        """Attention of a piece of a prompt that ends at so many tokens, of which the first `found` were there."""
        flops = prompt_attention(self._clock.demand.flops, float(tokens), float(found))
        return self._clock.prompt_attention(flops * (1 + HALF_SPEED / tokens))

    def computing(self, tokens: int, found: int) -> float:
        """A piece of a prompt in passes that are full with others: what a load of it must beat."""
        clock, full = self._clock, self._clock.machine.pace.prompt_tokens
        return (tokens - found) * self.passing(full) / full + clock.machine.pp * self.prompt(tokens, found)
