"""What an engine reserves for a question, as a chain of rules from the exact size to the engine's own.

An engine is a folder of `kvcalc.engines` with a value ENGINE in `engine.py`. It states its rules for each cache and
nothing else: sums over layers, stages and replicas, and the differences by rule, are made here once for all of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from kvcalc.commands.flags import Flags, FlagValues
from kvcalc.commands.start import Start
from kvcalc.commands.versions import Version
from kvcalc.core.adapters import Adapters
from kvcalc.core.card import Capability, Card
from kvcalc.core.fitting import Allocator
from kvcalc.core.model import Model
from kvcalc.core.overheads import Overhead, total
from kvcalc.core.parts import Role
from kvcalc.core.units import Fraction
from kvcalc.engines.allocation import Allocation, Device, Rule, rank_bytes
from kvcalc.engines.options import EngineOptions, model_flag
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.serving.rules import Limits

__all__ = [
    "Difference",
    "Engine",
    "Reservation",
    "Stored",
    "allocator_of",
    "lacking",
    "reserve",
]


def whole(question: Question, vram: int) -> Fraction:  # noqa: ARG001 - one signature for all engines
    """All of the memory."""
    return Fraction(1, 1)


def no_pool(question: Question) -> int | None:  # noqa: ARG001 - one signature for all engines
    """The pool is what the memory leaves."""
    return None


def nothing_beside(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all
    """Nothing is known beside weights and cache."""
    return ()


def as_published(program: str, read: FlagValues, model: Model) -> str | None:  # noqa: ARG001 - one signature for all
    """The weights are those of the published checkpoint."""
    return None


Stored = Literal["cache", "weights"]


def apart(start: Start) -> bool:  # noqa: ARG001 - one signature for all engines
    """A command for each replica."""
    return False


def any_card(version: Version, what: Stored, name: str) -> Capability | None:  # noqa: ARG001 - as above
    """Whatever the format, kernels unpack it on any card."""
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
        newest: The last version whose rules are known; None where no later one is warned of.
        of_free: The utilization is of what weights and overheads leave, not of the whole memory.
        stored: How a command's weights are packed, in words; None where they are as in the model's facts.
        one_format: Keys and values cannot have different formats.
        block: The setting that says how many tokens a block has; None where no block size can be chosen.
        start: Writes the words of a start command. Raises KvcalcError for what the engine cannot do.
        replicates: Whether one command starts all dp replicas; else there is one for each.
        limit: The setting of the most sequences, where what is beside weights and cache grows with it.
        scheduler: What it takes into a step on a GPU of so many bytes; None where its rules are not known.
        divided: Roles of matrices that replicas of attention divide between them as they do the experts.
        devices: What lies where, with so many bytes of weights in all on so many devices, where an engine can leave a
            part to the host. The host comes last.
        grows: What it takes beside weights and cache grows with sequences and tokens.
        common_share: Its share of the memory means what a plan's does: weights, cache and all that is beside them.
        context_parallel: It has decode context parallelism.
        vendors: Whose cards it runs on; all where empty.
        least: The least capability of NVIDIA's cards with which a version runs weights (`weights`) or keeps a cache
            (`cache`) in a format; None where all do. What a card cannot multiply, kernels unpack to 16 bits.
        pooled: Sequences take what they need from one pool. Else each has its full length for itself, so that the
            lengths of requests as they are do not count.
        own_pool: Bytes of the pool on each GPU, where a flag states its blocks whatever the memory.
        keeps_whole: Its flag for whole experts, where it refuses ranks that cut a block of scaled weights; "" where no
            such check was read.
        run_flags: Its own flag or variable for each option of ours that says how it runs (`RunOptions`).
        lacks: What to do instead of such an option that it does not have.
        adapters: Its flags for room for adapters; None where no rule of it is known.
        drafts: Its flags for a model that drafts tokens; None where no rule of it is known.
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
    replicates: Callable[[Start], bool] = apart
    limit: str | None = None
    scheduler: Callable[[Question, int], Limits] | None = None
    divided: tuple[Role, ...] = ()
    devices: Callable[[Question, int, int], tuple[Device, ...]] | None = None
    grows: bool = False
    common_share: bool = True
    context_parallel: bool = False
    vendors: tuple[str, ...] = ()
    pooled: bool = True
    own_pool: Callable[[Question], int | None] = no_pool
    keeps_whole: str = ""
    run_flags: Mapping[str, str] = {}
    lacks: Mapping[str, str] = {}
    adapters: Callable[[Adapters], tuple[str, ...]] | None = None
    drafts: Callable[[str], tuple[str, ...]] | None = None
    least: Callable[[Version, Stored, str], Capability | None] = any_card


class Difference(NamedTuple):
    """What one rule changes.

    Attributes:
        rule: The rule.
        bytes: Bytes that it adds to the exact size of all replicas, or takes off.
    """

    rule: Rule
    bytes: int


class Reservation(NamedTuple):
    """An engine's answer: `reserved_total` = `exact_total` + the differences.

    Attributes:
        engine: The engine.
        question: What it was asked.
        allocation: The reservation of the fullest replica.
        replicas: Every kind of replica, the fullest first, and how many there are of it.
    """

    engine: Engine
    question: Question
    allocation: Allocation
    replicas: tuple[tuple[Allocation, int], ...]

    @property
    def exact_total(self) -> int:
        """Bytes that the model needs on all GPUs."""
        return sum(copies * charge.exact for each, copies in self.replicas for charge in each.charges)

    @property
    def reserved_total(self) -> int:
        """Bytes that the engine reserves on all GPUs."""
        return sum(copies * charge.bytes for each, copies in self.replicas for charge in each.charges)

    @property
    def reserved_per_gpu(self) -> int:
        """Bytes that it reserves on the fullest GPU."""
        return rank_bytes(self.allocation)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What each rule adds or takes off, in order of first occurrence."""
        found: Counter[Rule] = Counter()
        for each, copies in self.replicas:
            for charge in each.charges:
                before = charge.exact
                for step in charge.steps:
                    found[step.rule] += copies * (step.bytes - before)
                    before = step.bytes
        return tuple(Difference(rule, amount) for rule, amount in found.items() if amount)


def reserve(engine: Engine, question: Question) -> Reservation:
    """Ask an engine. All replicas are counted, and the allocation of the fullest is kept.

    Raises KvcalcError for a format that the engine does not have, for a cache without a rule, and for what it refuses.
    """
    request = question.request
    _check_formats(engine, question)
    dp = request.layout.dp
    allocation = engine.allocate(question)
    allocation = allocation._replace(warnings=(*allocation.warnings, *_lacking(engine, question)))
    replicas = [(allocation, dp)]
    lighter = request.batch // dp
    if lighter < question.sequences:  # replicas that hold one sequence less
        full = request.batch - lighter * dp
        replicas = [(allocation, full)]
        if lighter:
            replicas.append((engine.allocate(question.at(lighter, request.context)), dp - full))
    return Reservation(engine, question, allocation, tuple(replicas))


_PACKED = ("fp8", "nvfp4")  # formats that some cards have no units for


def _lacking(engine: Engine, question: Question) -> list[str]:
    """A warning of a cache that has room, and that the engine does not keep on this card."""
    card, widths = question.card, question.request.widths
    packed = {name for name in (widths.k.name, widths.v.name) if name.startswith(_PACKED)}
    whys = [lacking(engine, question.version, card, "cache", name) for name in sorted(packed)] if card else []
    return [why for why in whys if why]


def lacking(engine: Engine, version: Version, card: Card, what: Stored, name: str) -> str | None:
    """Why an engine does not run weights, or keep a cache, in a format on a card; None where nothing speaks against it.

    A capability is NVIDIA's. Of other makers' cards those with units for the format count, since the kernels that
    unpack it elsewhere are CUDA's.
    """
    least = engine.least(version, what, name)
    if least is None or not card.name or (card.capability is None and card.vendor in ("", "NVIDIA")):
        return None
    units = card.bf16 if name == "bf16" else bool(card.flops8) and name.startswith("fp8")
    if card.capability >= least if card.capability else units:
        return None
    does = f"runs no {name} weights" if what == "weights" else f"keeps no {name} cache"
    needs = f"compute capability {least[0]}.{least[1]}" if card.capability else "units for it"
    return f"{engine.name} {version.name} {does} on {card.label}, by what was read of it: it needs {needs}"


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
