"""What is written down of a replay: times of requests, levels of pools, and a request in the batch."""

from array import array
from collections.abc import Sequence

from kvcalc.traffic.course import Course
from kvcalc.traffic.levels import Gauge

__all__ = ["Active", "Gauges", "Times"]


class Times:
    """When each request arrived, was begun, had its first token, and was done, in seconds; how often it was taken off;
    and how many tokens of its prompt were found. NaN: never.
    """

    def __init__(self, arrived: "array[float]") -> None:
        self.arrived, count = arrived, len(arrived)
        nothing = array("d", [float("nan")]) * count
        self.begun, self.first, self.done = nothing[:], nothing[:], nothing[:]
        self.taken_off = array("i", [0]) * count
        self.found = array("q", [0]) * count


class Gauges:
    """Tokens in the pool of a replica and sequences in its batch, over all replicas; as they go where that is asked."""

    def __init__(self, course: Course | None = None) -> None:
        self.tokens, self.sequences, self.course = Gauge(), Gauge(), course


class Active:
    """A request in the batch. `ids` and `own` are its blocks, `until` the step of its last token."""

    __slots__ = ("attending", "begun", "ids", "index", "own", "phase", "prompt", "until")

    def __init__(self, index: int, prompt: int, ids: Sequence[int], own: int) -> None:
        self.index, self.prompt, self.ids, self.own = index, prompt, ids, own
        self.begun = self.until = self.phase = -1
        self.attending = 0.0
