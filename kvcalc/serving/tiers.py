"""Tiers behind a replica's pool: blocks of prompts that stand in host memory or on disks, and are loaded from there.

Each tier holds what the tiers and the pool before it held, and more (inclusive): a prompt that is computed is written
to all of them, and the least recently used goes where one is full. A load holds up the step that it is for, which is
the worst case: engines that load beside their steps lose less. Writing is beside the steps and costs none.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Level", "Loaded", "Tiers"]


class Level(NamedTuple):
    """One tier: how many of a trace's blocks it holds, and the seconds to load one."""

    blocks: int
    seconds: float


class Loaded(NamedTuple):
    """What would be loaded after the blocks in the pool: how many of each tier, and the seconds of all."""

    blocks: tuple[int, ...]
    seconds: float


class Tiers:
    """The tiers of one replica, the nearest first. `loaded` are blocks of each that were loaded, `slower` those that
    are computed again since that takes less time.
    """

    def __init__(self, levels: Sequence[Level]) -> None:
        self.levels = levels
        self.loaded = [0] * len(levels)
        self.slower = 0
        self.seconds = 0.0
        self._there: list[OrderedDict[int, None]] = [OrderedDict() for _ in levels]

    def after(self, ids: Sequence[int], depth: int) -> Loaded:
        """The leading run of these blocks that stands in the first `depth` tiers."""
        counts, seconds = [0] * len(self.levels), 0.0
        for one in ids:
            found = next((level for level, there in enumerate(self._there[:depth]) if one in there), None)
            if found is None:
                break
            counts[found] += 1
            seconds += self.levels[found].seconds
        return Loaded(tuple(counts), seconds)

    def load(self, run: Loaded) -> None:
        """Count a run that is loaded."""
        self.loaded = [before + more for before, more in zip(self.loaded, run.blocks, strict=True)]
        self.seconds += run.seconds

    def touch(self, ids: Sequence[int]) -> None:
        """A prompt has these blocks: each tier has them as its newest."""
        for there, level in zip(self._there, self.levels, strict=True):
            for one in ids:
                there[one] = None
                there.move_to_end(one)
            while len(there) > level.blocks:
                there.popitem(last=False)
