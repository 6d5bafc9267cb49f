"""Prefill and decode on replicas of their own: prompts are computed on the first, their caches go over a link, and the
second generate.

The decode side keeps room for a whole prompt before it pulls the cache (vLLM's NixlConnector, SGLang's
disaggregation), so that a pull holds memory and no place in the batch; the pulls of one replica go one after the other.
It computes the prompt's last token, which yields the first of the answer. What a prompt holds on the prefill side until
it is pulled is not counted: blocks are free there when the prompt is computed.
"""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from math import isnan
from typing import NamedTuple

from kvcalc.serving.fleet import Router, Served, Spread, left_over, router_of, spread, summed
from kvcalc.serving.records import Active, Gauges, Times
from kvcalc.serving.replica import Replica
from kvcalc.serving.rules import Scheduler
from kvcalc.serving.steps import StepClock
from kvcalc.traffic.trace import Trace

__all__ = ["Handover", "PoolUse", "serve_split"]

_NEVER = float("inf")


class PoolUse(NamedTuple):
    """One of the two pools: its replicas, the share of the time in which they work, and how long requests wait."""

    replicas: int
    busy: float
    waiting: Spread


class Handover(NamedTuple):
    """What split serving adds: both pools, and the seconds in which the cache of a prompt goes from one to the other,
    waiting for the link included and for room apart.
    """

    prefill: PoolUse
    decode: PoolUse
    transfer: Spread


class _Decoder(Replica):
    """A replica whose prompts come as caches over a link. `seconds`: how long the cache of so many tokens takes."""

    def __init__(
        self,
        trace: Trace,
        rules: Scheduler,
        clock: StepClock,
        times: Times,
        gauges: Gauges,
        seconds: Callable[[int], float],
    ) -> None:
        super().__init__(trace, rules, clock, times, gauges)
        self._seconds, self._free, self._order = seconds, 0.0, 0
        self._pulling: list[tuple[float, int, Active, int]] = []  # ready when, in which order, what, with tokens found
        self.pulled = array("d", [float("nan")]) * len(trace)

    @property
    def load(self) -> int:
        return super().load + len(self._pulling)

    def turn(self, until: float) -> None:
        while self._pulling and self._pulling[0][0] <= self.now and self._slots:
            _, _, one, found = heappop(self._pulling)
            self._prefilling.append((one, found, 0))
        super().turn(until)

    @property
    def _slots(self) -> bool:
        return self._count + len(self._prefilling) < self._rules.limits.sequences

    def _idle(self) -> None:
        if self._pulling:
            self.now = max(self.now, self._pulling[0][0])
        else:
            super()._idle()

    def _stop(self, until: float) -> float:
        ready = self._pulling[0][0] if self._pulling and self._slots else _NEVER
        return min(super()._stop(until), ready)

    def _found(self, ids: Sequence[int], prompt: int, generated: int) -> int:
        """All but the last token comes over the link; one that was taken off is computed anew."""
        return super()._found(ids, prompt, generated) if generated else prompt - 1

    def _join(self, one: Active, found: int, generated: int) -> None:
        if generated:
            super()._join(one, found, generated)
            return
        start = max(self.now, self._free)
        self._free = start + self._seconds(one.prompt)
        self.pulled[one.index] = self._free
        self._order += 1
        heappush(self._pulling, (self._free, self._order, one, found))

    def _take_off(self) -> None:
        one = self._active[-1]
        entry = next((each for each in self._pulling if each[2] is one), None)
        if entry is None:
            super()._take_off()
            return
        self._pulling.remove(entry)
        heapify(self._pulling)
        self._active.remove(one)
        self.pool.give_back(one.ids, one.own, keep=False)
        self.tokens -= entry[3]
        self.waiting.appendleft((one.index, 0))
        self._times.taken_off[one.index] += 1
        self._short = True


def serve_split(
    trace: Trace,
    replicas: tuple[int, int],
    router: Router,
    rules: tuple[Scheduler, Scheduler],
    clocks: tuple[StepClock, StepClock],
    seconds: Callable[[int], float],
) -> tuple[Served, Handover]:
    """Replay a trace on two pools; of what there are two, that of prefill comes first. `seconds`: how long the cache of
    so many tokens takes to one decode replica.
    """
    first, prefill, late = _prefilled(trace, replicas[0], router, rules[0], clocks[0])
    order = sorted((i for i in range(len(trace)) if not isnan(first.done[i])), key=lambda i: (first.done[i], i))
    handed = Trace(
        array("d", (first.done[i] for i in order)),
        array("q", (trace.prompts[i] for i in order)),
        array("q", (trace.outputs[i] for i in order)),
    )
    second, gauges = Times(handed.arrivals), Gauges()
    decode = [_Decoder(handed, rules[1]._replace(caching=False, tiers=()), clocks[1], second, gauges, seconds)
              for _ in range(replicas[1])]  # fmt: skip
    if order:
        _replay(handed, decode, "round-robin" if router == "round-robin" else "least-loaded")
        late = left_over(handed, decode) or late
    times = _joined(trace, first, second, order)
    served = summed(trace, [*prefill, *decode], times, gauges, clocks[0], overloaded=late)
    return served, _handover(trace, served, first, second, handed, prefill, decode)


def _prefilled(
    trace: Trace, replicas: int, router: Router, rules: Scheduler, clock: StepClock
) -> tuple[Times, list[Replica], bool]:
    """Each prompt computed, up to its first token, which is not kept."""
    times = Times(trace.arrivals)
    prompts = replace(trace, outputs=array("q", [1]) * len(trace))
    fleet = [Replica(prompts, rules, clock, times, Gauges()) for _ in range(replicas)]
    _replay(prompts, fleet, router)
    late = left_over(prompts, fleet)
    return times, fleet, late


def _replay(trace: Trace, fleet: Sequence[Replica], router: Router) -> None:
    choose = router_of(trace, fleet, router)
    for index, arrival in enumerate(trace.arrivals):
        one = choose(index, arrival)
        one.advance(arrival)
        one.push(index)


def _joined(trace: Trace, first: Times, second: Times, order: Sequence[int]) -> Times:
    """What each request met in both pools: begun in the first, its tokens in the second."""
    times = Times(trace.arrivals)
    times.begun, times.found = first.begun, first.found
    times.taken_off = first.taken_off[:]
    for at, index in enumerate(order):
        times.first[index], times.done[index] = second.first[at], second.done[at]
        times.taken_off[index] += second.taken_off[at]
    return times


def _handover(
    trace: Trace,
    served: Served,
    first: Times,
    second: Times,
    handed: Trace,
    prefill: Sequence[Replica],
    decode: Sequence["_Decoder"],
) -> Handover:
    begun = [i for i in range(len(handed)) if not isnan(second.begun[i])]
    pulled = [next(one.pulled[i] for one in decode if not isnan(one.pulled[i])) for i in begun]
    span = served.seconds or 1.0
    return Handover(
        PoolUse(
            len(prefill),
            sum(one.busy for one in prefill) / len(prefill) / span,
            spread(first.begun[i] - trace.arrivals[i] for i in range(len(trace)) if not isnan(first.begun[i])),
        ),
        PoolUse(
            len(decode),
            sum(one.busy for one in decode) / len(decode) / span,
            spread(second.begun[i] - handed.arrivals[i] for i in begun),
        ),
        spread(ready - second.begun[i] for i, ready in zip(begun, pulled, strict=True)),
    )
