"""The open loop: what requests would hold if a step always took as long, and memory had no end.

A request that arrives at a with p tokens of prompt and g of output holds p + k tokens on [a + k step, a + (k + 1) step)
for k = 0 .. g - 1: its prompt is there at once, and its last token is never cached.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kvcalc.traffic.levels import Event, Levels, levels
from kvcalc.traffic.trace import Trace

__all__ = ["Occupancy", "occupancy"]

_MOST_EXACT = 2_000_000  # steps that are followed one by one; beyond, a request grows on a straight line


class Occupancy(NamedTuple):
    """What the open loop holds: tokens (whole blocks), sequences, and bytes of the model."""

    tokens: Levels
    sequences: Levels
    bytes: Levels


def occupancy(trace: Trace, step: float, block: int, held: Callable[[int], int], knots: Sequence[int]) -> Occupancy:
    """Follow a trace at `step` seconds a token, in blocks of so many tokens.

    `held` are a sequence's bytes at so many tokens, straight between `knots` (the windows of the model).
    """
    sequences = levels(_counted(trace, step))
    whole = sequences.seconds
    area = sum(step * _held_steps(p, g, block) for p, g in zip(trace.prompts, trace.outputs, strict=True))
    blocks = sum(g // block + 2 for g in trace.outputs)
    events = _stepwise(trace, step, block) if blocks <= _MOST_EXACT else _straight(trace, step)
    tokens = levels(events, mean=area / whole if whole else 0.0)
    return Occupancy(tokens, sequences, levels(_in_bytes(trace, step, held, sorted(set(knots)))))


def _counted(trace: Trace, step: float) -> Iterator[Event]:
    for arrival, generated in zip(trace.arrivals, trace.outputs, strict=True):
        yield Event(arrival, 1)
        yield Event(arrival + generated * step, -1)


def _held_steps(prompt: int, generated: int, block: int) -> int:
    """Tokens x steps of a request, each step in whole blocks."""
    if block == 1:
        return prompt * generated + generated * (generated - 1) // 2
    return _up_to(prompt + generated - 1, block) - _up_to(prompt - 1, block)


def _up_to(tokens: int, block: int) -> int:
    """The sum over t = 1 .. tokens of t rounded up to whole blocks."""
    full, rest = divmod(tokens, block)
    return block * (block * full * (full + 1) // 2 + rest * (full + 1))


def _stepwise(trace: Trace, step: float, block: int) -> Iterator[Event]:
    """Each block as it is taken, and all of them given back."""
    for arrival, prompt, generated in zip(trace.arrivals, trace.prompts, trace.outputs, strict=True):
        first = -(-prompt // block)
        yield Event(arrival, first * block)
        last = -(-(prompt + generated - 1) // block)
        for blocks in range(first, last):  # the one that is begun when so many are full
            yield Event(arrival + (blocks * block + 1 - prompt) * step, block)
        yield Event(arrival + generated * step, -last * block)


def _straight(trace: Trace, step: float) -> Iterator[Event]:
    """A token a step as a line through the middles of the steps."""
    for arrival, prompt, generated in zip(trace.arrivals, trace.prompts, trace.outputs, strict=True):
        yield Event(arrival, prompt - 0.5, 1 / step)
        yield Event(arrival + generated * step, -(prompt - 0.5 + generated), -1 / step)


def _in_bytes(trace: Trace, step: float, held: Callable[[int], int], knots: Sequence[int]) -> Iterator[Event]:
    sizes: dict[int, int] = {}

    def size(tokens: int) -> int:
        if tokens not in sizes:
            sizes[tokens] = held(tokens)
        return sizes[tokens]

    for arrival, prompt, generated in zip(trace.arrivals, trace.prompts, trace.outputs, strict=True):
        end = prompt + generated
        places = [prompt, *(knot for knot in knots if prompt < knot < end), end]
        slope = 0.0
        for i, place in enumerate(places[:-1]):
            after = places[i + 1]
            bend = (size(after) - size(place)) / ((after - place) * step)
            yield Event(arrival + (place - prompt) * step, 0.0 if i else float(size(prompt)), bend - slope)
            slope = bend
        yield Event(arrival + generated * step, -float(size(end)), -slope)
