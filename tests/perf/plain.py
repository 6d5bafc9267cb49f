"""Clocks without kernels, activations or partial speeds, for sums that can be done by hand."""

from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import Demand
from kvcalc.perf.flops import Flops
from kvcalc.perf.kernels import Blocks
from kvcalc.perf.machine import Machine
from kvcalc.perf.pace import Pace

__all__ = ["NOTHING_ELSE", "demand", "machine"]

NOTHING_ELSE = Pace(kernel=0, step=0, sequence=0, front_end=0, experts=1)


def machine(
    bandwidth: float, flops: float, tp: int = 1, pp: int = 1, pace: Pace = NOTHING_ELSE, link: float = 1e30
) -> Machine:
    """Whatever is asked is attained, in attention too."""
    return Machine(bandwidth, flops, flops, tp, pp, link=link, pace=pace)


def demand(
    weights: float, linear: float, *, exchanged: float = 0.0, sums: int = 0, routed: float = 0.0, drawn: float = 0.0
) -> Demand:
    """So many bytes of weights that every token reads, and so many FLOPs of a token."""
    flops = Flops(round(linear / 2), (), ())
    return Demand(
        flops, round(weights + routed), weights, routed, drawn, linear, 0.0, exchanged, Blocks(sums, 0, 0.0, 0.0)
    )


def clock(bandwidth: float, flops: float, weights: float, linear: float) -> Clock:
    """One GPU."""
    return Clock(machine(bandwidth, flops), demand(weights, linear))
