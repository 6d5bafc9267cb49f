"""What a replay means for who asked: the shares of requests within their targets, and what keeps others waiting."""

from math import isnan

from kvcalc.perf.latency import Targets
from kvcalc.queries.simulation import Attainment
from kvcalc.serving.fleet import Served
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.steps import StepClock
from kvcalc.traffic.trace import Trace

__all__ = ["attained", "binding_of"]


def attained(targets: Targets, trace: Trace, served: Served, clock: StepClock) -> Attainment:
    """The share of all requests that meet each target. One that is never done meets none."""
    good = dict.fromkeys(("ttft", "tpot", "e2e", "all"), 0)
    times, front = served.times, clock.front_end
    for i, arrival in enumerate(times.arrived):
        if isnan(times.done[i]):
            continue
        tokens = trace.outputs[i] - 1
        met = {
            "ttft": targets.ttft is None or times.first[i] - arrival + front <= targets.ttft,
            "tpot": targets.tpot is None or not tokens or (times.done[i] - times.first[i]) / tokens <= targets.tpot,
            "e2e": targets.e2e is None or times.done[i] - arrival + front <= targets.e2e,
        }
        for name, each in met.items():
            good[name] += each
        good["all"] += all(met.values())
    count = len(trace)
    return Attainment(
        None if targets.ttft is None else good["ttft"] / count,
        None if targets.tpot is None else good["tpot"] / count,
        None if targets.e2e is None else good["e2e"] / count,
        good["all"] / count,
        good["all"] / served.seconds if served.seconds else 0.0,
    )


_FULL = 0.97  # of a pool or of the slots for a twentieth of the time


def binding_of(served: Served, scheduler: Scheduler) -> str | None:
    """What keeps requests waiting: the pool, the slots of a step, or the time; None where few wait."""
    if not served.overloaded and served.queue.p95 < 1 and not served.preemptions:
        return None
    if served.preemptions or served.tokens.p95 >= _FULL * scheduler.block * scheduler.blocks:
        return "kv"
    return "engine" if served.sequences.p95 >= _FULL * scheduler.limits.sequences else "compute"
