"""The question of `simulate` and its answer, as values."""

from typing import TYPE_CHECKING, Literal, NamedTuple

from kvcalc.core.model import Model
from kvcalc.perf.latency import Targets
from kvcalc.perf.links import Link
from kvcalc.perf.tiers import Tier
from kvcalc.perf.workload import Length
from kvcalc.queries.day import DayPlan
from kvcalc.queries.options import CacheFormat, EngineChoice, Memory, Split
from kvcalc.queries.sessions import SessionFacts
from kvcalc.queries.source import Source
from kvcalc.queries.tiers import TierFound
from kvcalc.serving.day import Day
from kvcalc.serving.fleet import Router, Served
from kvcalc.serving.pools import Handover
from kvcalc.serving.rules import Scheduler
from kvcalc.traffic.arrivals import Arrivals
from kvcalc.traffic.course import Course
from kvcalc.traffic.occupancy import Occupancy
from kvcalc.traffic.reuse import Reuse
from kvcalc.traffic.trace import Trace

if TYPE_CHECKING:
    from kvcalc.queries.size import SizeAnswer
    from kvcalc.sources.traces.reader import Dropped

__all__ = [
    "Attainment",
    "MadeUp",
    "OpenLoop",
    "PoolSplit",
    "SeedFound",
    "SimulateAnswer",
    "SimulateQuestion",
    "Traffic",
]


class MadeUp(NamedTuple):
    """Requests that are made up.

    Attributes:
        input: Tokens of a prompt.
        output: Tokens that are generated.
        requests: How many.
        seed: Which of them.
        turns: Requests of a session, each of which adds `input` to what was said before; None where each stands alone.
        think: Milliseconds from the end of an answer to the next turn, with `turns`.
        seeds: How many draws of them, by this seed and those that follow.
    """

    input: Length
    output: Length
    requests: int = 1000
    seed: int = 0
    turns: Length | None = None
    think: Length | None = None
    seeds: int = 1


class Traffic(NamedTuple):
    """The requests.

    Attributes:
        path: A file of them; `-` is standard input; None where they are made up.
        unit: What the times of the file are counted in, where it leaves that open.
        made_up: Lengths and number, in place of a file.
        arrivals: How requests arrive that have no times.
        rate_scale: By how much faster all arrive.
        spread_ties: Requests that arrive together are spread evenly up to the next ones.
    """

    path: str | None = None
    unit: str | None = None
    made_up: MadeUp | None = None
    arrivals: Arrivals | None = None
    rate_scale: float = 1.0
    spread_ties: bool = False


class OpenLoop(NamedTuple):
    """A fixed time a step and no limit of memory: seconds, and tokens of a block."""

    step: float
    block: int = 1


class PoolSplit(NamedTuple):
    """Replicas that compute prompts alone, replicas that generate alone, and the link to one of these."""

    prefill: int
    decode: int
    link: Link


class SimulateQuestion(NamedTuple):
    """A trace on a deployment, or without one.

    Attributes:
        source: The model.
        traffic: The requests.
        open: A fixed time a step and no limit of memory; None for the closed loop.
        form: The formats of keys and values.
        split: How a replica is split over GPUs; dp are replicas, too.
        memory: What one GPU offers.
        engine: The engine that is asked, and how it runs. Default: the usual one on the card.
        replicas: How many replicas, or `auto`: the fewest that meet the targets.
        router: Which replica takes a request.
        prefix_cache: Blocks of prompts stay for later ones.
        tiers: Memory behind the pool, the nearest first, in which blocks of prompts stay; with `prefix_cache`.
        day: Rates of a day, for which one replica's highest rate is found.
        pools: Prefill and decode on replicas of their own, in place of `replicas`.
        capacities: Sizes of a prefix cache for which its hit rate is asked: tokens, or memory as text.
        targets: Seconds that so many of 100 requests are promised.
        drawn: What is held is wanted as it goes over time, for a picture.
    """

    source: Source
    traffic: Traffic
    open: OpenLoop | None = None
    form: CacheFormat = CacheFormat()
    split: Split = Split()
    memory: Memory = Memory()
    engine: EngineChoice = EngineChoice()
    replicas: int | Literal["auto"] = 1
    router: Router = "round-robin"
    prefix_cache: bool = False
    tiers: tuple[Tier, ...] = ()
    day: DayPlan | None = None
    pools: PoolSplit | None = None
    capacities: tuple[int | str, ...] = ()
    targets: Targets | None = None
    drawn: bool = False


class Attainment(NamedTuple):
    """The shares of requests that meet each target, and all of them; and how many such come out a second."""

    ttft: float | None
    tpot: float | None
    e2e: float | None
    all: float
    goodput: float

    def missed(self, percentile: float) -> tuple[str, ...]:
        """The targets that fewer than so many of 100 requests meet, each by itself as in `plan`."""
        shares = {"ttft": self.ttft, "tpot": self.tpot, "e2e": self.e2e}
        return tuple(name for name, share in shares.items() if share is not None and share * 100 < percentile)


class SeedFound(NamedTuple):
    """What requests of one seed met: seconds at the 95th percentile, and the share that met all targets."""

    seed: int
    overloaded: bool
    ttft: float
    tpot: float
    e2e: float
    met: float | None


class SimulateAnswer(NamedTuple):
    """The answer.

    Attributes:
        question: What was asked.
        model: The model.
        trace: The requests, in the order of arrival.
        dropped: Rows of the file that were left out.
        open: What the open loop holds; None for the closed loop.
        served: What the deployment did; None for the open loop.
        size: The deployment's memory; None for the open loop.
        scheduler: The rules of a replica; None for the open loop.
        replicas: How many there are.
        tiers: What each tier did.
        handover: What two pools did, where there are two; the pool of tokens is then that of decode.
        staging: Sequences of the mean length for which a decode replica has room beside those of a step.
        handed_bytes: The mean cache of a prompt, which goes from one pool to the other.
        course: What is held and who waits over time, where it is drawn.
        day: Replicas over a day; what is served is then one replica at its highest rate.
        curve: Hit rates of a prefix cache at the capacities, and without end.
        sessions: Where requests are turns of sessions.
        attainment: Where targets are asked for.
        bytes_per_token: Of the model, for capacities in bytes.
        peak_bytes: The most that the pool of one replica holds, or the open loop.
        binding: What gives out first; None where all is carried.
        warnings: What the asker should know.
        by_seed: What each seed met, where there are several; the rest is that of the first.
    """

    question: SimulateQuestion
    model: Model
    trace: Trace
    dropped: "tuple[Dropped, ...]"
    curve: tuple[Reuse, ...]
    bytes_per_token: int
    open: Occupancy | None = None
    served: Served | None = None
    size: "SizeAnswer | None" = None
    scheduler: Scheduler | None = None
    replicas: int = 0
    tiers: tuple[TierFound, ...] = ()
    handover: Handover | None = None
    staging: int = 0
    handed_bytes: int = 0
    course: Course | None = None
    day: Day | None = None
    sessions: SessionFacts | None = None
    attainment: Attainment | None = None
    peak_bytes: int = 0
    binding: str | None = None
    warnings: tuple[str, ...] = ()
    by_seed: tuple[SeedFound, ...] = ()

    @property
    def met(self) -> bool | None:
        """Whether the deployment keeps up and meets its targets; None where none runs."""
        if self.served is None:
            return None
        return not self.served.overloaded and not self.missed

    @property
    def missed(self) -> tuple[str, ...]:
        """The targets that are missed."""
        if self.attainment is None or self.question.targets is None:
            return ()
        return self.attainment.missed(self.question.targets.percentile)
