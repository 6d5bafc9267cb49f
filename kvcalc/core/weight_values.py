"""How many bytes weights take, as values: of a whole model, and on each rank."""

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.core.parts import Role

__all__ = ["RankWeights", "WeightBytes", "WeightRange"]


class WeightRange(NamedTuple):
    """Bytes: what is likely, and between which bounds. All three are one number where nothing is estimated."""

    low: int
    likely: int
    high: int


class WeightBytes(NamedTuple):
    """The weights of a whole model.

    Attributes:
        bytes: What all GPUs of a replica hold together.
        source: How they are known, in words.
        rough: They are estimated.
        low: The least that such files have.
        high: The most.
    """

    bytes: int
    source: str
    rough: bool = False
    low: int = 0
    high: int = 0


class RankWeights(NamedTuple):
    """Bytes on one GPU of each pipeline stage, and how they are known; `estimated` where a range is more than rounding.

    `roles` are the likely bytes of the fullest stage by role, whose sum is `fullest.likely`.
    """

    stages: tuple[WeightRange, ...]
    source: str
    estimated: bool
    roles: Mapping[Role, int]

    @property
    def fullest(self) -> WeightRange:
        """Of the stage that holds most."""
        return max(self.stages, key=lambda stage: stage.likely)
