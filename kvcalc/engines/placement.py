"""How an engine spreads a model, where that is not our own way: pipeline stages, and no tensor parallelism."""

from collections.abc import Sequence

from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["restaged", "without_tp"]


def restaged(question: Question, sizes: Sequence[int]) -> Question:
    """The same question, with as many layers on each pipeline stage as an engine puts there."""
    stages = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    layers = question.placement.layers
    if all(placed.stage == stage for placed, stage in zip(layers, stages, strict=True)):
        return question
    moved = tuple(placed._replace(stage=stage) for placed, stage in zip(layers, stages, strict=True))
    return question._replace(placement=question.placement._replace(layers=moved), groups=())


def without_tp(question: Question, engine: str) -> None:
    """Refuse to split heads where an engine's rule for it is not known."""
    if question.request.layout.tp > 1:
        raise KvcalcError(f"--tp: no rule for splitting the heads of a cache in {engine} is known", "use --pp or --dp")
