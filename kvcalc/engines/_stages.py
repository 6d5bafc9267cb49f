"""Pipeline stages as an engine cuts them, where that is not our own way."""

from collections.abc import Sequence

from kvcalc.reserving import Question

__all__ = ["restaged"]


def restaged(question: Question, sizes: Sequence[int]) -> Question:
    """The same question, with as many layers on each pipeline stage as an engine puts there."""
    stages = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    layers = question.placement.layers
    if all(placed.stage == stage for placed, stage in zip(layers, stages, strict=True)):
        return question
    moved = tuple(placed._replace(stage=stage) for placed, stage in zip(layers, stages, strict=True))
    return question._replace(placement=question.placement._replace(layers=moved), groups=())
