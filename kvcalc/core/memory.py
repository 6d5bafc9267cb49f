"""Where the memory of one GPU goes: what is outside the share, weights, what sits beside them, and the cache."""

from typing import Literal, NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.dtypes import DType
from kvcalc.core.overheads import Overhead, beside, total
from kvcalc.core.parts import Role
from kvcalc.core.sizing import Size
from kvcalc.core.units import Fraction, ceil_div, format_bytes
from kvcalc.core.weight_values import WeightBytes, WeightRange
from kvcalc.core.weights import Weights, fullest_rank, weigh
from kvcalc.errors import KvcalcError

__all__ = ["Binding", "Budget", "MemorySplit", "kv_budget", "memory_split", "split_memory", "warnings"]


Binding = Literal["weights", "kv", "model", "engine"]


class Budget(NamedTuple):
    """What one GPU offers: `vram` bytes, weights and overheads still to come off, or `kv_memory` for the cache alone.

    Attributes:
        vram: Bytes of one GPU; None with `kv_memory`.
        kv_memory: Bytes of one GPU for the cache alone.
        utilization: The fraction of `vram` that is used; None for all of it, where neither the asker nor an engine
            says.
        weights: How the weights are counted.
        overheads: What is on each GPU beside weights and cache, line by line.
        card: The card whose memory `vram` is, where it was named.
        of_free: The utilization is of what weights and overhead leave, as TensorRT-LLM has it.
        loaded: What an engine packs `auto` weights into; None where it takes them as they are stored.
        company: Lines of what else lives on the GPU, which no estimate of the engine's stands for.
        divided: Roles of matrices that replicas of attention divide between them as they do the experts.
        on_host: Bytes of the weights of each GPU that are to lie in the host's memory.
    """

    vram: int | None = None
    kv_memory: int | None = None
    utilization: Fraction | None = None
    weights: Weights = "auto"
    overheads: tuple[Overhead, ...] = ()
    card: Card | None = None
    of_free: bool = False
    loaded: DType | None = None
    divided: tuple[Role, ...] = ()
    company: tuple[Overhead, ...] = ()
    on_host: int = 0

    @property
    def lines(self) -> tuple[Overhead, ...]:
        """All of what is beside weights and cache."""
        return (*self.overheads, *self.company)

    @property
    def overhead(self) -> int:
        """Bytes that come off the share beside the weights, as counted with."""
        return total(self.lines).likely


class MemorySplit(NamedTuple):
    """Where the memory of one GPU goes: `vram` = `outside` + `weights` + `overhead` + `kv_budget`.

    All but `kv_budget` have their defaults where the budget was given as --kv-memory.

    Attributes:
        kv_budget: Bytes for the cache; below zero where weights and overhead take more than may be used.
        vram: Bytes of the GPU.
        utilization: The fraction of it that is used.
        outside: Bytes that the utilization leaves out.
        weights: Bytes of the weights on the GPU that holds most.
        overhead: Bytes beside weights and cache: the lines of `overheads` that lie inside the share.
        gpus_for_weights: The fewest such GPUs that hold the weights beside the overhead; None where no number does.
        whole_weights: Bytes of the weights on all GPUs together.
        weights_source: How the weights are known, in words.
        card: The card whose memory it is, where it was named.
        of_free: The utilization is of what weights and overhead leave.
        rough_weights: The weights are estimated from a format that only a part of the checkpoint has.
        overheads: What is beside weights and cache, line by line.
        kv_budget_low: `kv_budget` where overheads and weights take the most; None where they have no range.
        kv_budget_high: The same where they take the least.
        weights_range: Bytes of all GPUs together, where files of a format differ.
        on_host: Bytes of a GPU's weights that the host holds, and from the least to the most; None where none are to.
    """

    kv_budget: int
    vram: int | None = None
    utilization: Fraction | None = None
    outside: int | None = None
    weights: int | None = None
    overhead: int | None = None
    gpus_for_weights: int | None = None
    whole_weights: int | None = None
    weights_source: str | None = None
    card: Card | None = None
    of_free: bool = False
    rough_weights: bool = False
    overheads: tuple[Overhead, ...] = ()
    kv_budget_low: int | None = None
    kv_budget_high: int | None = None
    weights_range: tuple[int, int] | None = None
    on_host: WeightRange | None = None

    @property
    def free(self) -> int:
        """Bytes for the cache, none where weights and overhead take more than all."""
        return max(self.kv_budget, 0)

    @property
    def full(self) -> Binding:
        """What it is called that no more fits."""
        return "weights" if self.vram is not None and self.kv_budget <= 0 else "kv"


def kv_budget(vram: int, share: Fraction, weights: int, overhead: int, *, of_free: bool = False) -> int:
    """Bytes of a GPU that are left for the cache; less than nothing where the others do not fit."""
    if not of_free:
        return share.floor(vram) - weights - overhead
    left = vram - weights - overhead
    return share.floor(left) if left > 0 else left


def memory_split(size: Size, budget: Budget) -> MemorySplit:
    """budget for the cache = vram x utilization - weights of the fullest rank - overheads, on each GPU.

    Raises KvcalcError where the weights are not known.
    """
    if budget.kv_memory is not None:
        return MemorySplit(budget.kv_memory)
    model, layout = size.request.facts, size.request.layout
    whole = weigh(model, budget.weights, budget.loaded)
    rank = fullest_rank(model, budget.weights, whole, layout, divided=budget.divided, loaded=budget.loaded)
    if not budget.on_host:
        return split_memory(whole, rank, budget)
    from kvcalc.core.hosted import hosted

    parts = hosted(model, budget.weights, rank, budget.on_host, layout, divided=budget.divided, loaded=budget.loaded)
    return split_memory(whole, parts.stay, budget, parts.away)


def split_memory(whole: WeightBytes, rank: WeightRange, budget: Budget, away: WeightRange | None = None) -> MemorySplit:
    """The same for weights that are known: of the whole model, and of the GPU that holds most of them; `away` are those
    that the host holds for it.

    Raises KvcalcError for a budget without `vram`.
    """
    if budget.vram is None:
        raise KvcalcError("--vram: expected a size, or --kv-memory instead")
    vram, share, size = budget.vram, budget.utilization or Fraction(1, 1), total(budget.lines)
    weights = rank.likely
    low, left, high = (
        kv_budget(vram, share, held, overhead, of_free=budget.of_free)
        for held, overhead in ((rank.high, size.high), (weights, size.likely), (rank.low, size.low))
    )
    beside_weights = (vram if budget.of_free else share.floor(vram)) - size.likely + (away.likely if away else 0)
    return MemorySplit(
        kv_budget=left,
        vram=vram,
        utilization=share,
        outside=vram - size.likely - weights - left,
        of_free=budget.of_free,
        weights=weights,
        overhead=size.likely,
        gpus_for_weights=ceil_div(whole.bytes, beside_weights) if beside_weights > 0 else None,
        on_host=away,
        whole_weights=whole.bytes,
        weights_source=whole.source,
        card=budget.card,
        rough_weights=whole.rough,
        overheads=budget.lines,
        kv_budget_low=low if low < high else None,
        kv_budget_high=high if low < high else None,
        weights_range=(whole.low, whole.high) if whole.rough and whole.low < whole.high else None,
    )


_SMALL = 10 * 2**30


def _shared(card: Card) -> str:
    """What cannot be known of unified memory. macOS: MLX's documentation of mlx.core.set_wired_limit."""
    what = f"{card.label} shares its memory with the system, and what that holds is not known"
    if card.vendor == "Apple":
        return f"{what}: --vram takes the limit that `sysctl iogpu.wired_limit_mb` says, unless it is 0, the default"
    return f"{what}: --vram takes what is free"


def warnings(memory: MemorySplit | None, stored: str | None = None) -> list[str]:
    """What the asker should know about the memory that is counted with. `stored`: what runs in their place."""
    if memory is None or memory.weights_source is None:
        return []
    return [*_weights_warning(memory, stored), *_host_warning(memory), *_overhead_warnings(memory)]


def _host_warning(memory: MemorySplit) -> list[str]:
    """Pinned memory is taken in powers of two, tensor by tensor (PyTorch's CachingHostAllocator: `PowerOf2Ceil`)."""
    if memory.on_host is None:
        return []
    read, most = format_bytes(memory.on_host.high), format_bytes(2 * memory.on_host.high)
    return [
        f"a step reads up to {read} of weights from the host, which needs up to {most} of pinned memory for each GPU"
    ]


def _weights_warning(memory: MemorySplit, stored: str | None) -> list[str]:
    if stored is not None:
        return [
            f"weights counted as {memory.weights_source}, while what runs is {stored}: --weights SIZE takes its size"
        ]
    if memory.weights_range is not None:
        low, high = map(format_bytes, memory.weights_range)
        return [f"weights estimated as {memory.weights_source}, {low} to {high}; --weights SIZE takes a measured size"]
    if memory.rough_weights:
        estimate = f"weights estimated as {memory.weights_source}"
        return [f"{estimate}, without what is stored in wider formats; --weights SIZE takes a measured size"]
    return []


def _overhead_warnings(memory: MemorySplit) -> list[str]:
    """Memory that is the host's too, a small pool of which one GiB is much, and too little beside the share."""
    found = []
    if memory.card is not None and memory.card.unified:
        found.append(_shared(memory.card))
    low, high = memory.kv_budget_low, memory.kv_budget_high
    if low is not None and high is not None and 0 < memory.kv_budget < _SMALL:
        between = f"{format_bytes(max(low, 0))} to {format_bytes(high)}"
        found.append(f"the cache has {between} on each GPU, so that one GiB decides: measure, or leave headroom")
    apart = beside(memory.overheads).likely
    if memory.outside is not None and apart > memory.outside:
        names = " and ".join(line.name for line in memory.overheads if not line.inside)
        needs = f"{names} take some {format_bytes(apart)} outside of the share"
        found.append(f"{needs}, which leaves {format_bytes(memory.outside)}: use a lower --utilization")
    return found
