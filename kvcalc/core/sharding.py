"""What one GPU holds: tensor, pipeline, data and decode-context parallelism, each kind of cache by its own rule."""

from collections import Counter
from typing import NamedTuple, assert_never

from kvcalc.core.formula import Widths, kept, size
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Model, Recurrent, Shared
from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError

__all__ = [
    "Layout",
    "PlacedLayer",
    "Placement",
    "fullest_stage",
    "place",
    "rank_bytes",
    "rank_tokens",
    "shard",
    "stage_of",
    "stages",
]


class Layout(NamedTuple):
    """A parallel configuration: how a model is spread over tp x pp x dp GPUs.

    Attributes:
        tp: Ranks of tensor parallelism, which split heads.
        pp: Stages of pipeline parallelism, which split layers.
        dp: Replicas of data parallelism, which split the batch.
        dcp: Ranks of decode context parallelism, which split tokens; they are ranks of tp, and add no GPUs.
        ep: Ranks of expert parallelism, each of which has whole experts; where these are fewer than share the experts,
            the others cut each expert. They add no GPUs.
        sharing: Replicas that share one copy of the experts: data-parallel attention. A divisor of dp.
    """

    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    ep: int = 1
    sharing: int = 1

    @property
    def sizes(self) -> dict[str, int]:
        """What is above 1, under the names of the options."""
        named = {"tp": self.tp, "pp": self.pp, "dp": self.dp, "dcp": self.dcp, "ep": self.ep}
        return {name: size for name, size in named.items() if size > 1}

    @property
    def expert_ranks(self) -> int:
        """GPUs over which the experts of a layer are divided."""
        return self.tp * self.sharing

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return self.tp * self.pp * self.dp


class PlacedLayer(NamedTuple):
    """A layer as one rank holds it.

    Attributes:
        position: The layer's number in the model, from 0.
        stage: The pipeline stage that has it, from 0.
        caches: One rank's part of its caches, in the layer's order.
    """

    position: int
    stage: int
    caches: Layer


class Placement(NamedTuple):
    """A model as it is spread over one replica.

    Attributes:
        layers: All layers in order, rank-local: one list with stages marked, because engines group over the whole
            model.
        layout: The parallel configuration.
    """

    layers: tuple[PlacedLayer, ...]
    layout: Layout


def stage_of(index: int, count: int, stages: int) -> int:
    """The pipeline stage of a layer: stage i holds floor(i L / pp) to floor((i + 1) L / pp)."""
    return ((index + 1) * stages - 1) // count


def place(model: Model, layout: Layout) -> Placement:
    """Spread a model's layers. Raises KvcalcError where the layout does not map onto the model."""
    count = len(model.layers)
    if layout.tp % layout.dcp:
        raise KvcalcError(f"--dcp: {layout.dcp} does not divide --tp {layout.tp}", "dcp splits the ranks of tp")
    if layout.pp > count:
        raise KvcalcError(f"--pp: {layout.pp} stages are more than the model's {count} layers")
    local = {layer: tuple(shard(cache, layout) for cache in layer) for layer in model.distinct_layers}
    by_object = {key: local[layer] for key, layer in {id(layer): layer for layer in model.layers}.items()}
    return Placement(
        tuple(
            PlacedLayer(i, stage_of(i, count, layout.pp), by_object[id(layer)]) for i, layer in enumerate(model.layers)
        ),
        layout,
    )


def shard(cache: Cache, layout: Layout) -> Cache:
    """One rank's part of a cache, in heads; how many tokens of it a rank holds is `rank_tokens`' matter.

    Raises KvcalcError where tp does not map onto its heads, or where no engine's rule for the split is known.
    """
    tp = layout.tp
    if layout == Layout():
        return cache
    match cache:
        case Attention():
            # Only what grows for ever is split over the context: its heads are on tp / dcp ranks instead of tp.
            ways = tp // layout.dcp if kept(cache) is None else tp
            heads = _share("query heads", cache.heads, tp, layout)
            return cache._replace(heads=heads, kv_heads=_replicated("KV heads", cache.kv_heads, ways, layout))
        # One vector serves all heads, so each rank needs the whole of it (vLLM 0.33 and SGLang 0.5.23 alike).
        case Latent():
            return cache._replace(heads=_share("query heads", cache.heads, tp, layout))
        case Compressed():
            if layout.dcp > 1:
                raise KvcalcError("--dcp: no engine's rule for splitting a compressed cache over ranks is known")
            return cache._replace(heads=_share("query heads", cache.heads, tp, layout))
        case Indexer():
            return cache
        case Recurrent():
            return _shard_state(cache, layout)
        case Shared():
            of = shard(cache.of, layout)
            assert not isinstance(of, Shared)
            return Shared(of)
        case _:
            assert_never(cache)


def _shard_state(cache: Recurrent, layout: Layout) -> Recurrent:
    tp = layout.tp

    def share(what: str, count: int) -> int:
        return _share(what, count, tp, layout)

    match cache.kind:
        case "mamba1":
            return cache._replace(inner=share("inner channels", cache.inner))
        case "mamba2":
            # More ranks than groups: one group on each, held several times (vLLM 0.33, mamba_utils.py).
            groups = _replicated("state groups", cache.groups, tp, layout)
            return cache._replace(heads=share("state heads", cache.heads), groups=groups)
        case "deltanet":
            k_heads, v_heads = share("key heads", cache.k_heads), share("value heads", cache.v_heads)
            return cache._replace(k_heads=k_heads, v_heads=v_heads)
        case "kda" | "lightning":
            return cache._replace(heads=share("state heads", cache.heads))
        case "shortconv" | "rglru":
            return cache._replace(width=share("channels", cache.width))
        case "rwkv" | "rwkv4":
            # The token shift holds the layer's input, which every rank has whole; no engine's rule for it is known.
            if tp > 1:
                raise KvcalcError(f"--tp: no engine's rule for splitting an RWKV state is known, got {tp}", "use --dp")
            return cache
        case _:
            assert_never(cache.kind)


def _share(what: str, count: int, ways: int, layout: Layout) -> int:
    if count % ways:
        raise _unmapped(f"{layout.tp} does not divide the model's {count:,} {what}")
    return count // ways


def _replicated(what: str, count: int, ways: int, layout: Layout) -> int:
    """Heads on one of `ways` ranks: a share, or one that several ranks hold alike (vLLM 0.33: max(1, n // tp))."""
    if count % ways == 0:
        return count // ways
    if ways % count == 0:
        return 1
    of = f" / dcp {layout.dcp}" if layout.dcp > 1 else ""
    raise _unmapped(f"{layout.tp}{of} neither divides the model's {count} {what} nor is a multiple of them")


def _unmapped(reason: str) -> KvcalcError:
    return KvcalcError(f"--tp: {reason}", "use a tp that divides them, or more --dp or --pp")


def rank_tokens(cache: Cache, tokens: int, dcp: int) -> int:
    """Tokens of one sequence on one rank: decode context parallelism spreads what grows with the whole context.

    Windows and states stay whole (vLLM 0.33: only full and latent layers hold ceil(T / dcp)).
    """
    return ceil_div(tokens, dcp) if kept(cache) is None else tokens


def fullest_stage(
    placement: Placement, tokens: int, widths: Widths, encoder_tokens: int | None
) -> tuple[int, dict[Cache, int]]:
    """The pipeline stage that holds most, and its caches on one GPU with how often each occurs."""
    sizes = _stage_bytes(placement, tokens, widths, encoder_tokens)
    stage = max(sizes, key=sizes.__getitem__)
    return stage, stages(placement)[stage]


def stages(placement: Placement) -> dict[int, dict[Cache, int]]:
    """The caches of each pipeline stage on one GPU, those that keep something, with how often each occurs."""
    counts: dict[int, Counter[Cache]] = {}
    for (stage, _), (caches, copies) in _equal_layers(placement).items():
        found = counts.setdefault(stage, Counter())
        for cache in caches:
            found[cache] += 0 if _keeps_nothing(cache) else copies
    return {stage: {cache: copies for cache, copies in found.items() if copies} for stage, found in counts.items()}


def _equal_layers(placement: Placement) -> dict[tuple[int, int], tuple[Layer, int]]:
    """Layers of one stage that are one object, with how many they are: comparing objects is quicker than facts."""
    layers: dict[tuple[int, int], tuple[Layer, int]] = {}
    for placed in placement.layers:
        key = placed.stage, id(placed.caches)
        layers[key] = placed.caches, layers.get(key, (placed.caches, 0))[1] + 1
    return layers


def _keeps_nothing(cache: Cache) -> bool:
    return isinstance(cache, Shared) or (isinstance(cache, Attention) and not cache.kv_heads)


def rank_bytes(placement: Placement, tokens: int, widths: Widths, encoder_tokens: int | None) -> int:
    """Bytes of one sequence on the fullest GPU of a replica."""
    return max(_stage_bytes(placement, tokens, widths, encoder_tokens).values(), default=0)


def _stage_bytes(placement: Placement, tokens: int, widths: Widths, encoder_tokens: int | None) -> Counter[int]:
    """Bytes of one sequence on one GPU of each pipeline stage."""
    layers = {id(placed.caches): placed.caches for placed in placement.layers}
    sizes = {
        key: sum(size(c, rank_tokens(c, tokens, placement.layout.dcp), widths, encoder_tokens) for c in caches)
        for key, caches in layers.items()
    }
    stages: Counter[int] = Counter()
    for placed in placement.layers:
        stages[placed.stage] += sizes[id(placed.caches)]
    return stages
