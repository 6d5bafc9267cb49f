"""The caches of one replica as an engine allocates them: equal ones of a pipeline stage together."""

from typing import NamedTuple

from kvcalc.core.formula import size
from kvcalc.core.model import Cache
from kvcalc.engines.question import Question

__all__ = ["StageCaches", "stage_caches"]


class StageCaches(NamedTuple):
    """Equal caches of one pipeline stage.

    Attributes:
        stage: The stage.
        cache: One rank's part of one of them.
        whole: The same cache over all ranks of tp.
        copies: How many there are.
        exact: Bytes that they need for all sequences of one replica, over all ranks.
    """

    stage: int
    cache: Cache
    whole: Cache
    copies: int
    exact: int


def stage_caches(question: Question) -> list[StageCaches]:
    """The caches of one replica, equal ones together, in order of first occurrence."""
    request = question.request
    return [
        StageCaches(
            stage,
            cache,
            whole,
            copies,
            copies * question.sequences * size(whole, request.context, request.widths, request.encoder_tokens),
        )
        for stage, cache, whole, copies in question.placed()
    ]
