"""What a GPU holds beside weights and cache, by the engine that is asked about or by the one that is usual on a card.

Every verb asks here, so that the same question has one answer.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.overheads import Overhead, as_stated
from kvcalc.core.request import Request
from kvcalc.core.sharding import Placement
from kvcalc.engines.base import Engine
from kvcalc.engines.question import Question
from kvcalc.launch.registry import engine_called

__all__ = ["NAMES", "Beside", "beside_weights", "usual_engine", "usually_beside"]

# Lines that the asker may state each for itself, by the names that engines give them.
NAMES = ("activations", "graphs", "communication", "runtime")


class Beside(NamedTuple):
    """The lines, and whose they are: `vllm 0.33.0`; "" where they are stated, or nothing is counted.

    `usual`: no engine was asked about, and this one is usual on the card.
    """

    lines: tuple[Overhead, ...] = ()
    engine: str = ""
    usual: bool = False


def beside_weights(
    engine: Engine,
    question: Question,
    memory: int,
    *,
    overhead: int | None = None,
    stated: Mapping[str, int] | None = None,
    usual: bool = False,
) -> Beside:
    """What an engine takes on each GPU of `memory` bytes.

    `overhead` stands for all lines (0 for bare arithmetic), `stated` for some by their names.
    """
    if overhead is not None:
        return Beside((as_stated("overhead", overhead),) if overhead else ())
    lines = engine.memory(question, memory)
    if stated:
        kept = [line for line in lines if line.name not in stated]
        lines = (*(as_stated(name, size) for name, size in stated.items()), *kept)
    return Beside(lines, f"{engine.name} {question.version.name}", usual)


def usually_beside(
    request: Request,
    card: Card,
    *,
    overhead: int | None = None,
    stated: Mapping[str, int] | None = None,
) -> Beside:
    """The same where no engine is asked about: by the newest version of the one that is usual on a named card."""
    engine = usual_engine(card)
    nowhere = Placement((), request.layout)  # what is beside the cache asks for no layer's place
    question = Question(request, nowhere, engine.versions[-1], card=card)
    return beside_weights(engine, question, card.memory, overhead=overhead, stated=stated, usual=True)


def usual_engine(card: Card) -> Engine:
    """vLLM on servers and on NVIDIA's cards, llama.cpp on Apple's and on desktop cards of others."""
    server = card.vendor == "AMD" and card.name.startswith("mi")
    return _called("vllm" if card.vendor in ("NVIDIA", "") or server else "llama.cpp")


_called = lru_cache(engine_called)
