"""What an engine reserves for a question, as a chain of rules from the exact size to the engine's own.

An engine is one module of `kvcalc.engines` with a value ENGINE. It states its rules for each cache and nothing else:
sums over layers, stages and replicas, and the differences by rule, are made here once for all of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from kvcalc.commands.flags import Flags, FlagValues
from kvcalc.commands.start import Start
from kvcalc.commands.versions import Version
from kvcalc.core.card import Card
from kvcalc.core.dtypes import DType
from kvcalc.core.fitting import Allocator
from kvcalc.core.formula import size
from kvcalc.core.model import Cache, Model
from kvcalc.core.overheads import Estimate, Overhead, total
from kvcalc.core.request import Request
from kvcalc.core.sharding import Placement
from kvcalc.core.units import Fraction
from kvcalc.errors import KvcalcError

__all__ = [
    "Allocation",
    "Capacity",
    "Charge",
    "Device",
    "Difference",
    "Engine",
    "EngineOptions",
    "Question",
    "Reservation",
    "Rule",
    "StageCaches",
    "Step",
    "allocator_of",
    "reserve",
    "stage_caches",
]  # fmt: skip


class Rule(NamedTuple):
    """Why an engine takes another number of bytes, in a few words, and where the rule was read."""

    why: str
    source: str


class Step(NamedTuple):
    """The bytes of a cache once `rule` and all before it hold."""

    rule: Rule
    bytes: int


class Charge(NamedTuple):
    """What an engine allocates for `copies` equal caches of one stage, for all sequences of one replica.

    `exact` is what they need; `steps` lead from there to what is allocated. `parts` add up to that, under the names
    that JSON gives them (`k_bytes`, `state_bytes`). `how` is the sum in numbers. Bytes are those of all `ranks`.
    """

    name: str
    copies: int
    exact: int
    steps: tuple[Step, ...]
    parts: tuple[tuple[str, int], ...]
    how: str
    stage: int = 0
    ranks: int = 1

    @property
    def bytes(self) -> int:
        return self.steps[-1].bytes if self.steps else self.exact


class Capacity(NamedTuple):
    """What a pool engine counts for a budget, and the lines in which it says so. `values` are further keys of JSON."""

    tokens: int
    concurrency: float | None = None
    values: Mapping[str, "int | str | bool | None"] = {}
    log: tuple[str, ...] = ()


class Allocation(NamedTuple):
    """The reservation of one replica. It depends on no budget.

    `capacity`, of engines with one pool for all sequences, takes the bytes that each GPU has for the cache; `holds`
    says whether such a budget is enough for what was asked, where that is more than a comparison of bytes.
    `peak` are bytes of the fullest GPU that are held for a while, where those are more than in the end, and must fit.
    `most_sequences` is what one instance takes, and `most_tokens` what each of them may have, where that depends on
    the model or on flags. `values` are the engine's
    own keys of JSON, `facts` what was assumed or follows from flags, in words for people, `log` the lines in which the
    engine reports these numbers.
    """

    charges: tuple[Charge, ...]
    values: Mapping[str, "int | str | bool | None"] = {}
    facts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    capacity: Callable[[int], Capacity] | None = None
    holds: Callable[[int], bool] | None = None
    peak: int = 0
    most_sequences: int | None = None
    most_tokens: int | None = None

    @property
    def needed(self) -> int:
        """Bytes that the fullest GPU must have."""
        return max(rank_bytes(self), self.peak)

    def fits(self, budget: int) -> bool:
        """Whether a budget for each GPU is enough."""
        return self.needed <= budget if self.holds is None else self.holds(budget)


PlacedCaches: TypeAlias = tuple[int, Cache, Cache, int]  # stage, one rank's part of a cache, the whole cache, copies


class Question(NamedTuple):
    """A request put to one version of an engine. `knobs` are its own settings, from flags; what is not there has its
    default. `groups`: equal caches, where they were counted already. `card`: what it runs on, where named.
    `kept`: where an engine may leave what depends on neither batch nor context, since a fit asks some eighty times.
    """

    request: Request
    placement: Placement
    version: Version
    settings: Mapping[str, object] = {}
    groups: tuple[PlacedCaches, ...] = ()
    card: Card | None = None
    kept: dict[str, Any] | None = None

    def counted(self) -> "Question":
        """The same question, whose equal caches need not be counted again for another number of tokens."""
        return self._replace(groups=_groups(self), kept={})

    @property
    def sequences(self) -> int:
        """Sequences on the fullest replica."""
        return self.request.sequences_per_replica

    def at(self, sequences: int, tokens: int) -> "Question":
        """The same question of another number of sequences a replica, and of tokens in each."""
        batch = sequences * self.request.layout.dp
        return self._replace(request=self.request._replace(batch=batch, context=tokens))


class EngineOptions(NamedTuple):
    """What an engine's flags say: options of ours under the names of `request.ask`, and the engine's own settings.

    `defaults` are options too, which hold where nobody says another; so do `sequences`, those of one replica.
    `utilization` and `kv_memory` are its words for the memory that it may use, where there are any; `loaded` is what it
    packs the weights into as it loads them. `draft`: the model that drafts tokens, in the engine's words, whose layers
    are to stand as the model's draft layers.
    """

    options: Mapping[str, object] = {}
    settings: Mapping[str, object] = {}
    warnings: tuple[str, ...] = ()
    utilization: Fraction | None = None
    kv_memory: int | None = None
    defaults: Mapping[str, object] = {}
    draft: str | None = None
    sequences: int | None = None
    loaded: DType | None = None


class Device(NamedTuple):
    """What one device, or the host, holds in bytes. `layers` count the output as one more, where it lies.

    `compute` and `output` are the buffers of a micro-batch, and of the logits.
    """

    name: str
    layers: int
    weights: int
    cache: int
    compute: Estimate
    output: int = 0

    @property
    def likely(self) -> int:
        """All of it, as counted with."""
        return self.weights + self.cache + self.compute.likely + self.output


def model_flag(program: str, read: FlagValues) -> str | None:  # noqa: ARG001 - one signature for all engines
    """The model that the flag with the key `model` names."""
    model = read.values.get("model")
    return model if isinstance(model, str) else None


def whole(question: Question, vram: int) -> Fraction:  # noqa: ARG001 - one signature for all engines
    """All of the memory."""
    return Fraction(1, 1)


def nothing_beside(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all
    """Nothing is known beside weights and cache."""
    return ()


def as_published(program: str, read: FlagValues, model: Model) -> str | None:  # noqa: ARG001 - one signature for all
    """The weights are those of the published checkpoint."""
    return None


class Engine(NamedTuple):
    """One engine: everything that the command line, the answers and the documentation need to know of it.

    Attributes:
        name: What users call it: the word of `--engine`.
        versions: The versions whose rules are known, oldest first.
        allocate: What one replica reserves for a question. Raises KvcalcError where no rule is known.
        formats: The KV dtypes that it has, by our names.
        flags: Its command line: programs, images and flags.
        options_of: Turns the values of its flags into options of ours and settings of its own. Takes the program (""
            for flags alone), the values, and the model, whose limit may be a default. Raises KvcalcError.
        model_of: The model that a command names, in the engine's words; None where it names none.
        most_sequences: What one instance can hold at once; None where nothing but memory limits it.
        utilization: The fraction of a GPU's memory that it uses by default, given the question and its bytes.
        memory: What it takes on one GPU of so many bytes beside weights and cache, term by term, whatever layer is
            placed where.
        packed: KV formats of this engine alone, with the plain format whose elements they have. The name becomes the
            setting `packed`.
        named: Turns the engine's own name of a model, given the presets' names, into whatever MODEL may be.
        newest: The last version that was read.
        of_free: The utilization is of what weights and overheads leave, not of the whole memory.
        stored: How a command's weights are packed, in words; None where they are as in the model's facts.
        one_format: Keys and values cannot have different formats.
        block: The setting that says how many tokens a block has; None where no block size can be chosen.
        start: Writes the words of a start command. Raises KvcalcError for what the engine cannot do.
        replicates: One command starts all dp replicas; else there is one for each.
        devices: What lies where, with so many bytes of weights in all on so many devices, where an engine can leave a
            part to the host. The host comes last.
        grows: What it takes beside weights and cache grows with sequences and tokens.
        common_share: Its share of the memory means what a plan's does: weights, cache and all that is beside them.
        context_parallel: It has decode context parallelism.
        vendors: Whose cards it runs on; all where empty.
        pooled: Sequences take what they need from one pool. Else each has its full length for itself, so that the
            lengths of requests as they are do not count.
    """

    name: str
    versions: tuple[Version, ...]
    allocate: Callable[[Question], Allocation]
    formats: tuple[str, ...]
    flags: Flags
    options_of: Callable[[str, FlagValues, Model], EngineOptions]
    model_of: Callable[[str, FlagValues], str | None] = model_flag
    most_sequences: int | None = None
    utilization: Callable[[Question, int], Fraction] = whole
    memory: Callable[[Question, int], tuple[Overhead, ...]] = nothing_beside
    packed: Mapping[str, str] = {}
    named: Callable[[str, Sequence[str]], str] | None = None
    newest: str | None = None
    of_free: bool = False
    stored: Callable[[str, FlagValues, Model], str | None] = as_published
    one_format: bool = False
    block: str | None = None
    start: Callable[[Start], tuple[str, ...]] | None = None
    replicates: bool = False
    devices: Callable[[Question, int, int], tuple[Device, ...]] | None = None
    grows: bool = False
    common_share: bool = True
    context_parallel: bool = False
    vendors: tuple[str, ...] = ()
    pooled: bool = True


class StageCaches(NamedTuple):
    """`copies` equal caches of one stage. `cache` is one rank's part of `whole`; `exact`: bytes of all sequences."""

    stage: int
    cache: Cache
    whole: Cache
    copies: int
    exact: int


def stage_caches(question: Question) -> list[StageCaches]:
    """The caches of one replica, equal ones together, in order of first occurrence."""
    request = question.request
    return [
        StageCaches(
            stage,
            cache,
            whole,
            copies,
            copies * question.sequences * size(whole, request.context, request.widths, request.encoder_tokens),
        )
        for stage, cache, whole, copies in question.groups or _groups(question)
    ]


def _groups(question: Question) -> tuple[PlacedCaches, ...]:
    counts: Counter[tuple[int, Cache, Cache]] = Counter()
    for placed, layer in zip(question.placement.layers, question.request.model.layers, strict=True):
        for cache, whole in zip(placed.caches, layer, strict=True):
            counts[placed.stage, cache, whole] += 1
    return tuple((*key, copies) for key, copies in counts.items())


class Difference(NamedTuple):
    """Bytes that one rule adds to the exact size, or takes off."""

    rule: Rule
    bytes: int


class Reservation(NamedTuple):
    """An engine's answer: `reserved_total` = `exact_total` + the differences."""

    engine: Engine
    question: Question
    allocation: Allocation
    exact_total: int
    reserved_total: int
    reserved_per_gpu: int
    differences: tuple[Difference, ...]


def reserve(engine: Engine, question: Question) -> Reservation:
    """Ask an engine. All replicas are counted; the fullest one's plan is kept. Raises KvcalcError."""
    request = question.request
    _check_formats(engine, question)
    dp = request.layout.dp
    allocation = engine.allocate(question)
    allocations = [(allocation, dp)]
    lighter = request.batch // dp
    if lighter < question.sequences:  # replicas that hold one sequence less
        full = request.batch - lighter * dp
        allocations = [(allocation, full)]
        if lighter:
            allocations.append((engine.allocate(question.at(lighter, request.context)), dp - full))
    differences: Counter[Rule] = Counter()
    exact = reserved = 0
    for each, copies in allocations:
        for charge in each.charges:
            exact += copies * charge.exact
            reserved += copies * charge.bytes
            before = charge.exact
            for step in charge.steps:
                differences[step.rule] += copies * (step.bytes - before)
                before = step.bytes
    return Reservation(
        engine,
        question,
        allocation,
        exact,
        reserved,
        rank_bytes(allocation),
        tuple(Difference(rule, amount) for rule, amount in differences.items() if amount),
    )


def allocator_of(reservation: Reservation, memory: int | None = None) -> Allocator:
    """How the engine fills one GPU, for a fit. With a GPU's `memory` in bytes, what is beside weights and cache grows
    with the question too, from what it is for the one that was reserved for.
    """
    engine, question, allocation = reservation.engine, reservation.question, reservation.allocation
    capacity = allocation.capacity
    counted = None if memory is None else total(engine.memory(question, memory)).likely

    def holds(sequences: int, tokens: int, free: int) -> bool:
        asked = question.at(sequences, tokens)
        if memory is not None and counted is not None:
            free -= total(engine.memory(asked, memory)).likely - counted
        return engine.allocate(asked).fits(free)

    return Allocator(
        allocation.needed,
        holds,
        allocation.most_sequences or engine.most_sequences,
        None if capacity is None else lambda free: capacity(free).tokens,
        allocation.most_tokens,
    )


def rank_bytes(allocation: Allocation) -> int:
    """Bytes of a plan on the fullest of its GPUs."""
    stages: Counter[int] = Counter()
    for charge in allocation.charges:
        stages[charge.stage] += charge.bytes // charge.ranks
    return max(stages.values(), default=0)


def _check_formats(engine: Engine, question: Question) -> None:
    """A KV dtype that was asked for must be one of the engine's, or what the model computes in.

    Formats of the engine's own were found among its own when they were read.
    """
    request, computed = question.request, question.settings.get("computed", question.request.model.dtype)
    k, v = request.widths[:2]
    options = ("--kv-dtype", "--kv-dtype") if k == v else ("--k-dtype", "--v-dtype")
    for option, dtype, auto in zip(options, (k, v), request.auto, strict=True):
        if not (auto or "packed" in question.settings or dtype.name in engine.formats or dtype == computed):
            hint = f"one of {', '.join(engine.formats)}"
            raise KvcalcError(f"{option}: {engine.name} has no {dtype.name} cache", hint)
    if engine.one_format and k != v:
        raise KvcalcError(
            f"--v-dtype: {engine.name} keeps keys and values in one format, not in {k.name} and {v.name}",
            "use --kv-dtype",
        )
