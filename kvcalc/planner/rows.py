"""The rows of a plan: what their rank goes by, and all that an answer says of them."""

from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.fitting import Fit
from kvcalc.core.overheads import Overhead
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout
from kvcalc.perf.load import Load
from kvcalc.planner.question import Candidate, ParallelConfig

__all__ = ["Deployment", "PlanRow"]


class Deployment(NamedTuple):
    """One deployment that does what is asked: what its rank goes by. `layout` has all replicas."""

    candidate: Candidate
    config: ParallelConfig
    layout: Layout
    headroom: float
    load: Load | None
    sure: bool = True  # it does with the most that overheads may take, too

    @property
    def card(self) -> Card:
        return self.candidate.card

    @property
    def gpus(self) -> int:
        return self.layout.gpus


class PlanRow(NamedTuple):
    """The same with all that an answer says of it.

    `max_sequences` are the most sequences at once over all replicas, None without a limit; `max_sequences_low` and
    `max_sequences_high` are the same with the most and the least that overheads may take.
    """

    candidate: Candidate
    config: ParallelConfig
    request: Request  # with the whole layout
    lines: tuple[Overhead, ...]
    fit: Fit
    max_sequences: int | None
    max_sequences_low: int | None
    max_sequences_high: int | None
    headroom: float
    binding: str
    load: Load | None = None
    sequences: int = 1  # that a server of one replica is told to allow
    sure: bool = True  # it does with the most that overheads may take, too

    @property
    def card(self) -> Card:
        return self.candidate.card

    @property
    def layout(self) -> Layout:
        return self.request.layout

    @property
    def gpus(self) -> int:
        return self.layout.gpus
