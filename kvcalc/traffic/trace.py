"""Requests in the order of their arrival, a column for each of their facts."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence


@dataclass(frozen=True)
class Prefixes:
    """The blocks that each prompt begins with, as ids: two prompts that share a leading run of ids share those tokens.

    `blocks[i]` are the ids of request i, each of `tokens` tokens; the last one may stand for fewer. `answered[i]` are
    the whole blocks of prompt and answer together, where later prompts may begin with these.
    """

    tokens: int
    blocks: "Sequence[Sequence[int]]"
    answered: "Sequence[Sequence[int]] | None" = None


@dataclass(frozen=True)
class Turns:
    """Requests that come when others are answered: `after[i]` is the one that request i waits for, an earlier one (-1:
    none), and `think[i]` the seconds from the end of its answer to the arrival of i.
    """

    after: "array[int]"
    think: "array[float]"


@dataclass(frozen=True)
class Trace:
    """n requests. `arrivals` in seconds, never falling; `prompts` and `outputs` in tokens, each at least 1.

    `sessions` tells requests of one conversation by an equal number. With `turns`, arrivals of those that follow are
    the earliest that can be: as if answers took no time. Columns are arrays, so that ten million requests take 240 MB.
    """

    arrivals: "array[float]"
    prompts: "array[int]"
    outputs: "array[int]"
    prefixes: Prefixes | None = None
    sessions: "array[int] | None" = None
    turns: Turns | None = None

    def __len__(self) -> int:
        return len(self.arrivals)
