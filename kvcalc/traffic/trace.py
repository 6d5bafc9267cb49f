"""Requests in the order of their arrival, a column for each of their facts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array


@dataclass(frozen=True)
class Prefixes:
    """The blocks that each prompt begins with, as ids: two prompts that share a leading run of ids share those tokens.

    `blocks[i]` are the ids of request i, each of `tokens` tokens; the last one may stand for fewer.
    """

    tokens: int
    blocks: Sequence[tuple[int, ...]]


@dataclass(frozen=True)
class Trace:
    """n requests. `arrivals` in seconds, never falling; `prompts` and `outputs` in tokens, each at least 1.

    `sessions` tells requests of one conversation by an equal number. Columns are arrays, so that ten million requests
    take 240 MB.
    """

    arrivals: "array[float]"
    prompts: "array[int]"
    outputs: "array[int]"
    prefixes: Prefixes | None = None
    sessions: "array[int] | None" = None

    def __len__(self) -> int:
        return len(self.arrivals)
