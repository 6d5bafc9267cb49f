"""The question of a plan and its answer, as values."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kvcalc.core.adapters import Adapters
from kvcalc.core.images import Images
from kvcalc.core.model import Model
from kvcalc.core.units import Fraction
from kvcalc.perf.latency import Targets
from kvcalc.perf.workload import Length
from kvcalc.planner.proposal import Proposal
from kvcalc.planner.question import Candidate, Precision
from kvcalc.planner.ranking import Order
from kvcalc.planner.rows import PlanRow
from kvcalc.queries.options import NamedGpu, RunOptions, Split
from kvcalc.queries.precisions import NamedEngine
from kvcalc.queries.source import Source

if TYPE_CHECKING:
    from kvcalc.queries.simulation import SimulateAnswer, Traffic

__all__ = ["DeploymentQuestion", "Mix", "PlanAnswer", "Spread"]


class DeploymentQuestion(NamedTuple):
    """What is to be served, and what may be taken for it.

    Attributes:
        source: The model.
        context: Tokens of the longest sequence, or `max`. Default: by the lengths, else 4,096 or the limit if less.
        users: Sequences at the same time, over all replicas.
        input: Tokens of a prompt; None where sequences count with their full length.
        output: Tokens that are generated.
        rate: Requests a second; needs the lengths.
        shared_prefix: Tokens that all sequences begin with, held once in each replica.
        images: Images of each request, whose tokens come on top of the context and the prompt.
        encoder_tokens: Tokens on the encoder's side.
        kv_dtypes: Formats of the cache to choose from, by their names.
        weights: Formats of the weights to choose from, or their size, as words.
        engine: `NAME[@VERSION]`, whose sizes count; None for the exact size.
        run: How the engine runs: each row does so, and its command says it.
        gpus: Cards to choose from; `all` for every one but computers of desks, None for those that clouds rent.
        gpu_file: A file of cards that the asker has beside the shipped ones.
        max_gpus: The most GPUs in all.
        vram: Bytes of one GPU, where no card is named.
        utilization: The fraction of the memory that is used. Default: the engine's own, else 0.9, with `vram` 1.
        split: What of the split is fixed; `dp` fixes the number of replicas.
        across_machines: tp may span machines.
        overhead: Bytes on each GPU beside weights and cache, instead of the estimates.
        lora: Adapters that a GPU has room for.
        beside: Other models on the same GPU: their names or paths.
        overheads: The same for single ones, by their names in `launch.beside`.
        targets: Seconds that so many of 100 requests are promised.
        prefix_hit: The share of a prompt's tokens that a replica finds in its cache.
        every_count: A replica may have any number of GPUs, whatever machines have.
        prices: An hour of one GPU, by names of cards; they come before those of files.
        sort: The order of rows.
        top: Rows of the table.
        machines: The machine types that have the cards are named.
        trace: Requests of a file, in place of lengths and a rate; its first rows are replayed.
    """

    source: Source
    context: int | Literal["max"] | None = None
    users: int = 1
    input: Length | None = None
    output: Length | None = None
    rate: float | None = None
    shared_prefix: int = 0
    encoder_tokens: int | None = None
    images: Images | None = None
    kv_dtypes: Sequence[str] = ("auto",)
    weights: Sequence[str] = ("auto",)
    engine: str | None = None
    run: RunOptions = RunOptions()
    gpus: Sequence[NamedGpu] | Literal["all"] | None = None
    gpu_file: str | None = None
    max_gpus: int = 64
    vram: int | None = None
    utilization: Fraction | None = None
    split: Split = Split()
    across_machines: bool = False
    overhead: int | None = None
    lora: Adapters | None = None
    beside: tuple[str, ...] = ()
    overheads: Mapping[str, int] = {}
    targets: Targets | None = None
    prefix_hit: float = 0.0
    every_count: bool = False
    prices: Mapping[str, float] = {}
    sort: Order = "rank"
    top: int = 10
    machines: bool = False
    trace: "Traffic | None" = None


class Spread(NamedTuple):
    """Lengths of requests in tokens: their mean, and what 95 in 100 and 999 in 1,000 of them do not exceed."""

    mean: float
    p95: int
    p999: int


class Mix(NamedTuple):
    """What a trace asks for. `rate` is in requests a second, `token_hit_rate` the share of prompt tokens that a cache
    without end would find; None where the trace has no prefixes.
    """

    requests: int
    seconds: float
    rate: float
    input: Spread
    output: Spread
    token_hit_rate: float | None


class PlanAnswer(NamedTuple):
    """The answer.

    Attributes:
        question: What was asked.
        model: The model.
        proposal: The rows in order, why cheaper ones fail, and what other formats would change.
        engine: The engine that was named.
        precisions: The formats that were asked for.
        candidates: The cards that were chosen from.
        warnings: What the asker should know, one sentence each.
        notes: How the answer was found, one sentence each.
        simulated: The replay of each row, where a trace is planned for.
        mix: What that trace asks for.
    """

    question: DeploymentQuestion
    model: Model
    proposal: Proposal
    engine: NamedEngine | None
    precisions: tuple[Precision, ...]
    candidates: tuple[Candidate, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    simulated: "tuple[SimulateAnswer, ...]" = ()
    mix: Mix | None = None

    @property
    def best(self) -> PlanRow | None:
        """The first row; None where there is no plan."""
        return self.proposal.best
