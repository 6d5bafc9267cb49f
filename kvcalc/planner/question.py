"""What a plan is asked for, and what it chooses among: cards, formats, and ways to spread a replica."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from kvcalc.core.card import Card
from kvcalc.core.fitting import Fit
from kvcalc.core.memory import MemorySplit
from kvcalc.core.overheads import Overhead, as_stated
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout
from kvcalc.core.units import MOST_TOKENS, Fraction
from kvcalc.core.weight_values import WeightBytes, WeightRange
from kvcalc.core.weights import Weights, fullest_rank
from kvcalc.launch.beside import Beside, usually_beside
from kvcalc.perf.demand import Found
from kvcalc.perf.latency import Targets
from kvcalc.perf.machine import Attained
from kvcalc.perf.workload import Lengths
from kvcalc.planner.memo import Memo
from kvcalc.planner.replica import ExactReplica, ReplicaLayout

__all__ = [
    "Backend",
    "Candidate",
    "ExactBackend",
    "ParallelConfig",
    "PlanQuestion",
    "Precision",
    "ReplicaMemory",
    "parallel_configs",
    "unsupported",
]


class PlanQuestion(NamedTuple):
    """What is asked for. `users` sequences at once, of up to `context` tokens; with `lengths`, of lengths as they are.

    `limit` is what a server must allow a sequence, one more than `context` where the last token is never written, and
    `sequences` how many of them it is told to allow, where the asker said so.
    `rate` are requests a second, of whose prompts `found` stands in the cache, and `targets` what they are promised.
    `overhead` stands for all lines, `stated` for some, and `company` for what else lives on the GPUs. `across`: tp may
    span machines. `pinned`: a replica may have any number of GPUs, since the asker chose its split or said so.
    """

    context: int
    users: int = 1
    lengths: Lengths | None = None
    rate: float | None = None
    found: Found = Found()
    targets: Targets | None = None
    most_gpus: int = 64
    dp: int | None = None
    pinned: bool = False
    across: bool = False
    overhead: int | None = None
    stated: Mapping[str, int] = {}
    attained: Attained = Attained()
    limit: int | None = None
    sequences: int | None = None
    company: Callable[[Request], tuple[Overhead, ...]] | None = None

    @property
    def allowed(self) -> int:
        """Tokens that a server lets a sequence have: prompt and answer together."""
        return self.limit or self.context


class Candidate(NamedTuple):
    """A card that may be taken, and how many of it where that is fixed.

    Attributes:
        card: The card.
        fixed: The number of GPUs that was asked for.
        counts: How many one machine may have, ascending; any where it is empty. A replica takes one of these, or all of
            several of the largest machines.
        slowest: Mean seconds of a token beyond which it is no plan; None for a card that was named.
    """

    card: Card
    fixed: int | None = None
    counts: tuple[int, ...] = ()
    slowest: float | None = None

    def rentable(self, gpus: int) -> bool:
        """Whether a replica may have so many GPUs."""
        if self.fixed is not None or not self.counts or gpus in self.counts:
            return True
        return gpus > self.counts[-1] > 1 and gpus % self.counts[-1] == 0

    @property
    def widest(self) -> int:
        """GPUs of the largest machine."""
        return self.counts[-1] if self.counts and self.fixed is None else self.card.machine


class Precision(NamedTuple):
    """Formats of cache and weights: as they were named, the question that they make, and the weights' bytes."""

    kv: str
    weights: Weights
    request: Request
    whole: WeightBytes
    weights_name: str
    packed: str | None = None  # a format that one engine alone has


class ParallelConfig(NamedTuple):
    """A replica before it has a card: how it is spread, and in which formats.

    `rank`: bytes of the weights on the GPU that holds most.
    """

    replica_layout: ReplicaLayout
    precision: Precision
    rank: WeightRange

    @property
    def layout(self) -> Layout:
        return self.replica_layout.layout

    @property
    def ranks(self) -> int:
        return self.layout.gpus

    @property
    def weights(self) -> int:
        """Bytes on the GPU that holds most."""
        return self.rank.likely


class ReplicaMemory(Protocol):
    """How the GPUs of one replica are filled. `tokens` are those of each sequence, `free` the bytes of each GPU."""

    most_sequences: int | None
    warnings: tuple[str, ...]
    pooled: bool  # sequences take what they need from one pool, and not their full length

    def needed(self, sequences: int, tokens: int) -> int: ...
    def each(self, tokens: int) -> int: ...
    def shared(self, tokens: int) -> int: ...
    def holds(self, sequences: int, tokens: int, free: int) -> bool: ...
    def largest(self, tokens: int, free: int, most: int = MOST_TOKENS) -> int: ...
    def least(self, sequences: int, tokens: int, free: int, most: int) -> int | None: ...
    def fit(self, memory: MemorySplit, request: Request) -> Fit: ...


class Backend(Protocol):
    """Who fills the memory: an engine, or nobody but the cache."""

    of_free: bool
    context_parallel: bool
    grows: bool  # what is beside weights and cache grows with the sequences and their tokens
    limited: bool  # and with how many sequences the engine's command allows
    vendors: tuple[str, ...]
    name: str
    release: str | None  # of the engine

    def replica_memory(self, config: ParallelConfig, card: Card) -> ReplicaMemory: ...
    def share(self, config: ParallelConfig, card: Card) -> Fraction: ...
    def lacking(self, card: Card, what: Literal["cache", "weights"], name: str) -> str | None: ...
    def spread(self, precision: "Precision", layout: Layout) -> Layout: ...
    def beside(
        self,
        config: ParallelConfig,
        card: Card,
        *,
        overhead: int | None,
        stated: Mapping[str, int],
        request: Request | None = None,
        allowed: int | None = None,
    ) -> Beside: ...


class ExactBackend:
    """No engine: the exact size, in a share of the memory."""

    of_free = context_parallel = grows = limited = False
    vendors: tuple[str, ...] = ()
    name = ""
    release: str | None = None

    def spread(self, precision: Precision, layout: Layout) -> Layout:  # noqa: ARG002 - one signature for all
        return layout

    def __init__(self, share: Fraction, shared_prefix: int = 0) -> None:
        self._share, self._prefix = share, shared_prefix
        self._replicas = Memo[ExactReplica]()

    def replica_memory(self, config: ParallelConfig, card: Card) -> ExactReplica:  # noqa: ARG002 - one signature for all
        return self._replicas.get(config, (), lambda: self._replica(config))

    def _replica(self, config: ParallelConfig) -> ExactReplica:
        request = config.precision.request
        made = ExactReplica(config.replica_layout, request.widths, request.encoder_tokens, self._prefix)
        made.needed(1, 1)  # raises for a format whose blocks the rows do not fill
        return made

    def share(self, config: ParallelConfig, card: Card) -> Fraction:  # noqa: ARG002 - one signature for all
        return self._share

    def lacking(self, card: Card, what: Literal["cache", "weights"], name: str) -> str | None:  # noqa: ARG002 - as above
        return None

    def beside(
        self,
        config: ParallelConfig,
        card: Card,
        *,
        overhead: int | None,
        stated: Mapping[str, int],
        request: Request | None = None,  # noqa: ARG002 - as above
        allowed: int | None = None,  # noqa: ARG002 - as above
    ) -> Beside:
        """As the engine takes it that is usual on the card; only what is stated where no card is named."""
        if not card.name:
            whole = {} if overhead is None else {"overhead": overhead}
            return Beside(tuple(as_stated(name, size) for name, size in (whole or stated).items()))
        one = config.precision.request._replace(batch=1, layout=config.layout)
        return usually_beside(one, card, overhead=overhead, stated=stated)


def parallel_configs(
    precision: Precision, replica_layouts: Sequence[ReplicaLayout], backend: Backend | None = None
) -> list[ParallelConfig]:
    """Every way to spread a replica in these formats, fewest GPUs first. A split of the context must save bytes.

    Experts are whole where the `backend` would not start otherwise.
    """
    if backend is not None:
        replica_layouts = [each._replace(layout=backend.spread(precision, each.layout)) for each in replica_layouts]
    ranks: dict[Layout, WeightRange] = {}
    configs = []
    for each in replica_layouts:
        alone = each.layout._replace(dcp=1)
        if alone not in ranks:
            ranks[alone] = fullest_rank(precision.request.facts, precision.weights, precision.whole, alone)
        configs.append(ParallelConfig(each, precision, ranks[alone]))
    whole = {}
    for config in configs:
        if config.layout.dcp == 1:
            whole[config.layout] = config
    kept = []
    for config in configs:
        base = whole.get(config.layout._replace(dcp=1))
        if base is None or base is config or _asked(config) < _asked(base):
            kept.append(config)
    return kept


def _asked(config: ParallelConfig) -> int:
    request = config.precision.request
    return ExactReplica(config.replica_layout, request.widths, request.encoder_tokens).needed(1, request.context)


def unsupported(card: Card, precision: Precision, backend: Backend) -> str | None:
    """What an engine cannot do on a card. Of a card without a name nothing is known.

    What a card can multiply is another fact (its rates), and any card can keep any format: without an engine no format
    is refused, as none is in a size.
    """
    if not card.name:
        return None
    if backend.vendors and card.vendor and card.vendor not in backend.vendors:
        return f"{backend.name} is not known to run on {card.label}"
    widths = precision.request.widths
    cached = [name for name in (widths.k.name, widths.v.name) if precision.kv != "auto" or name.startswith("fp8")]
    whys = [backend.lacking(card, "weights", precision.weights_name)]
    whys += [backend.lacking(card, "cache", name) for name in cached]
    return next(filter(None, whys), None)
