"""What the planner's tests plan for: models whose bytes one can work out by hand, cards, and an engine with one rule.

A layer of full attention has 2 KV heads of 64 + 64 elements in bf16: 512 B a token. A window has the same, and keeps 100
tokens of it.
"""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.commands.flags import Flags
from kvcalc.core.card import Card
from kvcalc.core.dtypes import COMPUTE
from kvcalc.core.model import Attention, Cache, Model
from kvcalc.core.overheads import Overhead
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction, ceil_div
from kvcalc.core.weights import weigh
from kvcalc.engines.allocation import Allocation, Capacity, Charge, Rule, Step
from kvcalc.engines.base import Engine
from kvcalc.engines.options import EngineOptions
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches
from kvcalc.errors import KvcalcError
from kvcalc.planner.question import Backend, ExactBackend, ParallelConfig, PlanQuestion, Precision, parallel_configs
from kvcalc.planner.replica import replica_layout, replica_layouts
from kvcalc.planner.search import Search

__all__ = [
    "ALONE",
    "ANY",
    "FULL",
    "WHOLE",
    "WINDOW",
    "alone",
    "card",
    "config",
    "configs",
    "engine",
    "model",
    "precision",
    "search",
]

FULL = Attention("full", heads=4, kv_heads=2, k_dim=64, v_dim=64)
WINDOW = Attention("sliding", heads=4, kv_heads=2, k_dim=64, v_dim=64, span=100)
WHOLE = Fraction(1, 1)
ALONE = Layout()
ANY = Layout(0, 0, 0, 0)  # nothing is pinned


def model(*caches: Cache, **facts: object) -> Model:
    """One layer for each cache; four full ones, 2,048 B a token, where none is named."""
    layers = tuple((cache,) for cache in caches or (FULL,) * 4)
    return Model(name="M", layers=layers, dtype=COMPUTE["bf16"], **{"parameters": 1_000_000, **facts})  # type: ignore[arg-type]


def card(memory: int, name: str = "", **facts: object) -> Card:
    return Card(name, name.upper(), memory, **facts)  # type: ignore[arg-type]


def precision(
    of: Model, weights: int = 0, kv: str = "auto", weights_name: str = "bf16", context: int = 1_000
) -> Precision:
    return Precision(kv, weights, ask(of, context=context, kv_dtype=kv), weigh(of, weights), weights_name)


def config(of: Model, layout: Layout = ALONE, weights: int = 0) -> ParallelConfig:
    """One way to spread a model."""
    return alone(layout, precision(of, weights))


def alone(layout: Layout, of: Precision) -> ParallelConfig:
    """One way to spread what a precision is of."""
    (only,) = parallel_configs(of, [replica_layout(of.request.facts, layout)])
    return only


def configs(of: Precision, most: int = 16, widest: int = 8, pinned: Layout = ANY) -> list[ParallelConfig]:
    """All ways, fewest GPUs first."""
    return parallel_configs(of, replica_layouts(of.request.facts, most, widest, pinned))


def search(question: PlanQuestion, backend: Backend | None = None) -> Search:
    """Without overheads, unless the question states some, and with all of a card's memory."""
    if question.overhead is None and not question.stated:
        question = question._replace(overhead=0)
    return Search(question, ExactBackend(WHOLE) if backend is None else backend)


class _Version(NamedTuple):
    name: str


_BLOCKS = Rule("whole blocks of 16 tokens", "made up for these tests")


def engine(
    *,
    pooled: bool = True,
    most: int | None = None,
    utilization: Callable[[Question, int], Fraction] | None = None,
    memory: Callable[[Question, int], tuple[Overhead, ...]] | None = None,
) -> Engine:
    """An engine that keeps each sequence in whole blocks of 16 tokens, in one pool or without any, and `most` at once."""

    def allocate(question: Question) -> Allocation:
        if most is not None and question.sequences > most:
            raise KvcalcError(f"--batch: made-up has at most {most}")
        tokens, charges = question.request.context, []
        for each in stage_caches(question):
            blocks = each.exact // tokens * ceil_div(tokens, 16) * 16
            steps = (Step(_BLOCKS, blocks),)
            charges.append(Charge("kv", each.copies, each.exact, steps, (("kv_bytes", blocks),), "", each.stage))
        counted = (lambda budget: Capacity(budget // 2048)) if pooled else None
        return Allocation(tuple(charges), values={"block_size": 16}, capacity=counted, most_sequences=most)

    share = utilization or (lambda _question, _vram: WHOLE)
    options = EngineOptions()
    made = Engine("made-up", (_Version("1"),), allocate, ("bf16",), Flags(), lambda _p, _r, _m: options)
    return made._replace(utilization=share, pooled=pooled, memory=memory or made.memory)
