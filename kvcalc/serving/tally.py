"""A level that runs straight between events, summed as it goes: a long run takes no more memory than a short one."""

from collections import defaultdict
from collections.abc import Sequence

from kvcalc.traffic.levels import Levels, reached

__all__ = ["Tally", "together"]

_GRAINS = 2**16  # values that are told apart: 0.0015 % of the highest


class Tally:
    """Seconds at each value of a level that is at most `highest`. The mean and the peak are exact."""

    __slots__ = ("area", "grain", "peak", "rates", "seconds", "stays")

    def __init__(self, highest: int) -> None:
        self.grain = max(1, highest // _GRAINS)
        self.area = self.seconds = 0.0
        self.peak = 0
        self.stays: dict[int, float] = defaultdict(float)  # seconds at a value
        self.rates: dict[int, float] = defaultdict(float)  # seconds for each value above this one, more than below

    def add(self, low: int, high: int, seconds: float) -> None:
        """The level rises from `low` to `high`."""
        first, last = low // self.grain, high // self.grain
        if first == last:
            self.stays[first] += seconds
        else:
            each = seconds / (last - first)
            self.rates[first] += each
            self.rates[last] -= each
        self.area += (low + high) / 2 * seconds
        self.seconds += seconds
        self.peak = max(self.peak, high)


def together(each: Sequence[Tally]) -> Levels:
    """Equal replicas as one: the mean of a replica, and its percentiles over all of them."""
    seconds = sum(one.seconds for one in each)
    if not seconds:
        return Levels(0, 0, 0, 0, 0, 0, 0)
    bends: list[tuple[float, float, float]] = []
    for one in each:
        bends += [(float(value * one.grain), stay, 0.0) for value, stay in one.stays.items()]
        bends += [(float(value * one.grain), 0.0, rate / one.grain) for value, rate in one.rates.items()]
    p50, p95, p99 = reached(bends, seconds, (50.0, 95.0, 99.0))
    return Levels(sum(one.area for one in each) / seconds, p50, p95, p99, max(one.peak for one in each), 0.0, seconds)
