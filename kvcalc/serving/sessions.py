"""A closed loop of sessions: the next turn comes when the answer of the last has been read."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from math import isnan

from kvcalc.serving.records import Times
from kvcalc.serving.replica import Replica
from kvcalc.traffic.trace import Turns

__all__ = ["converse"]

_NEVER = float("inf")


def converse(
    turns: Turns, times: Times, fleet: Sequence[Replica], choose: Callable[[int, float], Replica], front_end: float
) -> int:
    """Work to the end; `times.arrived` becomes what it was. How many wait when the last session begins. An answer is
    read `front_end` seconds after its last token.
    """
    following: dict[int, list[int]] = {}
    coming: list[tuple[float, int]] = []
    for index, before in enumerate(turns.after):
        if before < 0:
            coming.append((times.arrived[index], index))
        else:
            following.setdefault(before, []).append(index)
    heapify(coming)
    last, left = max(index for _, index in coming), 0
    while True:
        at = coming[0][0] if coming else _NEVER
        one = min((each for each in fleet if each.load and each.now < at), key=lambda each: each.now, default=None)
        if one is not None:
            others = (each.soonest for each in fleet if each is not one and each.load)
            one.turn(min(at, min(others, default=_NEVER)))
            for index in one.ended:
                for then in _after(index, one, times, following):
                    times.arrived[then] = times.done[index] + front_end + turns.think[then]
                    heappush(coming, (times.arrived[then], then))
            one.ended.clear()
        elif coming:
            index = heappop(coming)[1]
            if index == last:
                left = sum(len(each.waiting) for each in fleet)
            choose(index, at).push(index)
        else:
            return left


def _after(index: int, one: Replica, times: Times, following: dict[int, list[int]]) -> Sequence[int]:
    """The turns that follow at once; of one that was refused, none ever comes."""
    then = following.pop(index, [])
    if not isnan(times.done[index]):
        return then
    while then:
        never = then.pop()
        times.arrived[never] = float("nan")
        one.refused += 1
        then += following.pop(never, [])
    return then
