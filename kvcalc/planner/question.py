"""What a plan is asked for, and what it chooses among: cards, formats, and ways to spread a replica."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from kvcalc.core.card import Card
from kvcalc.core.fitting import Fit, MemorySplit
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout
from kvcalc.core.units import MOST_TOKENS, Fraction, ceil_div
from kvcalc.core.weights import WeightBytes, Weights
from kvcalc.errors import KvcalcError
from kvcalc.perf.roofline import Attained
from kvcalc.perf.workload import Lengths
from kvcalc.planner.overheads import NAMES
from kvcalc.planner.replica import Exact, Spread

__all__ = ["Choice", "Filling", "Held", "Need", "Offer", "Plain", "Way", "unable", "ways_of"]


class Need(NamedTuple):
    """What is asked for. `users` sequences at once, of up to `context` tokens; with `lengths`, of lengths as they are.

    `rate` are requests a second. `overhead` stands for all lines, `stated` for some. `across`: tp may span machines.
    """

    context: int
    users: int = 1
    lengths: Lengths | None = None
    rate: float | None = None
    most_gpus: int = 64
    dp: int | None = None
    across: bool = False
    overhead: int | None = None
    stated: Mapping[str, int] = {}
    shares: Attained = Attained()


class Offer(NamedTuple):
    """A card that may be taken, and how many of it where that is fixed."""

    card: Card
    fixed: int | None = None


class Choice(NamedTuple):
    """Formats of cache and weights: as they were named, the question that they make, and the weights' bytes."""

    kv: str
    weights: Weights
    request: Request
    whole: WeightBytes
    weights_name: str
    packed: str | None = None  # a format that one engine alone has


class Way(NamedTuple):
    """A replica before it has a card: how it is spread, and in which formats."""

    spread: Spread
    choice: Choice

    @property
    def layout(self) -> Layout:
        return self.spread.layout

    @property
    def ranks(self) -> int:
        return self.layout.gpus

    @property
    def weights(self) -> int:
        """Bytes on one GPU."""
        return ceil_div(self.choice.whole.bytes, self.ranks)


class Held(Protocol):
    """How the GPUs of one replica are filled. `tokens` are those of each sequence, `free` the bytes of each GPU."""

    most_sequences: int | None
    warnings: tuple[str, ...]
    pooled: bool  # sequences take what they need from one pool, and not their full length

    def asked(self, sequences: int, tokens: int) -> int: ...
    def each(self, tokens: int) -> int: ...
    def shared(self, tokens: int) -> int: ...
    def holds(self, sequences: int, tokens: int, free: int) -> bool: ...
    def largest(self, tokens: int, free: int, most: int = MOST_TOKENS) -> int: ...
    def least(self, sequences: int, tokens: int, free: int, most: int) -> int | None: ...
    def fit(self, memory: MemorySplit, request: Request) -> Fit: ...


class Filling(Protocol):
    """Who fills the memory: an engine, or nobody but the cache. `lines` are the overheads within its share."""

    of_free: bool
    lines: tuple[str, ...]
    splits: bool
    vendors: tuple[str, ...]
    name: str

    def held(self, way: Way, card: Card) -> Held: ...
    def share(self, way: Way, card: Card) -> Fraction: ...


class Plain:
    """No engine: the exact size, in a share of the memory."""

    of_free = splits = False
    vendors: tuple[str, ...] = ()
    name = ""
    lines: tuple[str, ...] = NAMES

    def __init__(self, share: Fraction, shared_prefix: int = 0) -> None:
        self._share, self._prefix = share, shared_prefix
        self._kept: dict[int, tuple[Way, Exact | KvcalcError]] = {}  # by identity: hashing a model is slow

    def held(self, way: Way, card: Card) -> Exact:  # noqa: ARG002 - one signature for all
        if id(way) not in self._kept:
            self._kept[id(way)] = way, self._made(way)
        made = self._kept[id(way)][1]
        if isinstance(made, KvcalcError):
            raise made
        return made

    def _made(self, way: Way) -> Exact | KvcalcError:
        request = way.choice.request
        made = Exact(way.spread, request.widths, request.encoder_tokens, self._prefix)
        try:
            made.asked(1, 1)
        except KvcalcError as error:  # a format whose blocks the rows do not fill
            return error
        return made

    def share(self, way: Way, card: Card) -> Fraction:  # noqa: ARG002 - one signature for all
        return self._share


def ways_of(choice: Choice, spreads: Sequence[Spread]) -> list[Way]:
    """Every way to spread a replica in these formats, fewest GPUs first. A split of the context must save bytes."""
    ways = [Way(each, choice) for each in spreads]
    whole = {}
    for way in ways:
        if way.layout.dcp == 1:
            whole[way.layout] = way
    kept = []
    for way in ways:
        base = whole.get(way.layout._replace(dcp=1))
        if base is None or base is way or _asked(way) < _asked(base):
            kept.append(way)
    return kept


def _asked(way: Way) -> int:
    request = way.choice.request
    return Exact(way.spread, request.widths, request.encoder_tokens).asked(1, request.context)


# Formats of 8 and of 4 bits that a card's matrices must know. Ada (8.9) is the first of NVIDIA's with fp8, Blackwell
# (10.0) with NVFP4. Other formats are unpacked to 16 bits by kernels, on any card.
_FP8, _NVFP4 = (8, 9), (10, 0)


def unable(card: Card, choice: Choice, filling: Filling) -> str | None:
    """What a card cannot do: an engine, or a format. Of a card without a name nothing is known."""
    if not card.name:
        return None
    if filling.vendors and card.vendor and card.vendor not in filling.vendors:
        return f"{filling.name} does not run on {card.label}, by what was read of it"
    able = card.capability or (0, 0)
    widths = choice.request.widths
    for what, name in (("cache", widths.k.name), ("cache", widths.v.name), ("weights", choice.weights_name)):
        if name.startswith("fp8") and not card.flops8 and able < _FP8:
            return f"{card.label} has no fp8, in which the {what} {'is' if what == 'cache' else 'are'} asked for"
        if name == "nvfp4" and able < _NVFP4:
            return f"{card.label} has no nvfp4, in which the {what} {'is' if what == 'cache' else 'are'} asked for"
        if name == "bf16" and not card.bf16 and choice.kv != "auto" and what == "cache":
            return f"{card.label} has no bf16, in which the cache is asked for"
    return None
