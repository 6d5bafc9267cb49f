"""Machines with any rates, for what must hold on all of them."""

from hypothesis import strategies as st

from kvcalc.perf.machine import Machine
from kvcalc.perf.pace import Pace

__all__ = ["machines"]


@st.composite
def machines(draw: st.DrawFn, *, ranks: bool) -> Machine:
    """Slow and fast memory beside slow and fast compute, with kernels and steps that take some time or none."""
    pace = Pace(kernel=draw(st.floats(0, 1e-5)), step=draw(st.floats(0, 0.01)), sequence=draw(st.floats(0, 1e-4)))
    return Machine(
        bandwidth=draw(st.floats(1e10, 1e13)),
        matrices=draw(st.floats(1e12, 1e16)),
        attention=draw(st.floats(1e12, 1e16)),
        tp=draw(st.sampled_from([1, 2, 8])) if ranks else 1,
        pp=draw(st.sampled_from([1, 2, 5])) if ranks else 1,
        latency=draw(st.floats(0, 1e-4)),
        link=draw(st.floats(1e10, 1e12)),
        pace=pace,
    )
