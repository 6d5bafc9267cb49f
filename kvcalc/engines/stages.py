"""The caches of one replica as an engine allocates them: equal ones of a pipeline stage together."""

from typing import NamedTuple

from kvcalc.core.formula import size
from kvcalc.core.model import Cache
from kvcalc.engines.base import Question

__all__ = ["StageCaches", "stage_caches"]


class StageCaches(NamedTuple):
    """`copies` equal caches of one stage. `cache` is one rank's part of `whole`; `exact`: bytes of all sequences."""

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
