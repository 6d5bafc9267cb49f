"""A replica under load: what it holds, how fast it goes, and which resource gives out first."""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.hardware import Card
from kvcalc.model import Model
from kvcalc.roofline import Machine, Resource, Shares, Work
from kvcalc.sharding import Layout
from kvcalc.workload import Lengths

__all__ = ["Load", "Margins", "Replica", "machine_of", "replicas", "serve", "work_of"]


class Margins(NamedTuple):
    """How full a pool may be: on average, or in its fullest hundredth; and how long one request in 20 may wait.

    Replayed traces: a mean of 75 % of the pool already queues for seconds. Either of the two shares suffices.
    """

    mean: float = 0.6
    p99: float = 0.9
    wait_seconds: float = 5.0


class Replica(NamedTuple):
    """One replica: bytes for the cache on each GPU, and what a sequence of so many tokens takes of the fullest."""

    pool: int
    held: Callable[[int], int]
    machine: Machine
    work: Work


class Load(NamedTuple):
    """The answer for one replica. `concurrency` and what follows from it is None where no batch would keep up.

    `binding` is the resource that gives out, with `reason` in one line; both None where the load is carried.
    """

    rate: float  # requests a second
    concurrency: float | None  # sequences in the batch, on average
    seconds_per_token: float | None  # of one sequence (TPOT)
    prefill_load: float  # rho: share of the time that goes to prompts
    prefill_seconds: float  # of a mean prompt
    wait_seconds: float | None  # of 95 in 100 requests at most, before their prompt is begun
    context: float  # tokens of a sequence in the batch
    mean_tokens: float | None
    p99_tokens: float | None
    mean_share: float | None  # of the pool, in bytes
    p99_share: float | None
    capacity: float  # requests a second with a full pool
    binding: Resource | None
    reason: str | None
    shares: Shares

    @property
    def carried(self) -> bool:
        return self.binding is None


def serve(
    replica: Replica,
    lengths: Lengths,
    *,
    rate: float | None = None,
    users: int | None = None,
    shares: Shares = Shares(),
    margins: Margins = Margins(),
    arrivals: float = 1.0,
) -> Load:
    """A replica under `rate` requests a second, or with `users` sequences at all times: one of the two.

    `arrivals` is their dispersion (`workload.dispersion`): 1 where they come at random, more where in bursts.
    """
    raise NotImplementedError


def replicas(load_at: Callable[[float], Load], rate: float, most: int, *, spare: bool = False) -> int | None:
    """The fewest replicas up to `most` that carry a rate dealt evenly, one more with `spare`; None where none do."""
    raise NotImplementedError


def machine_of(card: Card, layout: Layout, *, eight_bit: bool = False) -> Machine:
    """The rates of a card for one replica of a layout. Raises KvcalcError where one that counts is not published."""
    raise NotImplementedError


def work_of(model: Model, lengths: Lengths, weights_bytes: int, layout: Layout) -> Work:
    """What a model asks for. Raises KvcalcError where its parameters are not known."""
    raise NotImplementedError
