"""How an engine schedules: what it takes into a step, when it admits a request, and what it does without memory."""

from typing import NamedTuple

from kvcalc.serving.tiers import Level

__all__ = ["Limits", "Scheduler"]


class Limits(NamedTuple):
    """What an engine's version and flags say of its steps.

    Attributes:
        sequences: The most sequences in a step.
        tokens: The most tokens in a step, those of prompts and of sequences together.
        chunked: A prompt may be computed in pieces, beside the sequences that decode.
        whole: A request is admitted only when its whole length fits, so that none is ever taken off.
        ahead: A step is scheduled while the one before it runs, so that who comes meanwhile waits for both.
        by_piece: A request is admitted when the first piece of its prompt fits; not replayed, all of it must fit here.
    """

    sequences: int
    tokens: int
    chunked: bool = True
    whole: bool = False
    ahead: bool = False
    by_piece: bool = False


class Scheduler(NamedTuple):
    """The rules of one replica: an engine's limits, and its pool of `blocks` of `block` tokens each.

    `caching`: blocks of prompts stay in the pool for later ones until their room is needed. `tiers`: where else
    they are kept, the nearest first.
    """

    limits: Limits
    block: int
    blocks: int
    caching: bool = False
    tiers: tuple[Level, ...] = ()
