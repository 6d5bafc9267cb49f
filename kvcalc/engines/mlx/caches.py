"""The arrays that MLX-LM keeps for each kind of cache: mlx_lm/models of mlx-lm 0.32.2."""

from typing import Literal, NamedTuple, assert_never

from kvcalc.core.dtypes import FP32, DType, packed_bytes
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import kept, recurrent_state
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.engines.mlx.flags import Settings
from kvcalc.engines.mlx.growth import Moment, chunked, grown, rotated
from kvcalc.engines.mlx.model_types import EXACT, Family
from kvcalc.engines.question import no_rule
from kvcalc.errors import KvcalcError

__all__ = ["CacheRun", "Growth", "Pair", "growth_of", "pair_of", "state_bytes"]


Growth = Literal["whole", "ring", "chunks"]


class CacheRun(NamedTuple):
    """A question as MLX-LM runs it. `windows` are those that it keeps, `at` when most can be held, and the end.

    It fails with more than `most_tokens`.
    """

    family: Family
    settings: Settings
    dtype: DType
    windows: frozenset[Cache]
    at: tuple[Moment, ...]
    sequences: int
    most_tokens: int | None = None

    @property
    def end(self) -> Moment:
        return self.at[-1]


class Pair(NamedTuple):
    """A cache of two arrays, with `elements` a token in each, from heads of `dims`. `grows` into `span` tokens."""

    elements: tuple[int, int]
    dims: tuple[int, int]
    grows: Growth = "whole"
    span: int = 0
    quantises: bool = False

    def capacity(self, at: Moment) -> int:
        match self.grows:
            case "whole":
                return grown(at)
            case "ring":
                return rotated(at, self.span)
            case "chunks":
                return chunked(at, self.span)
            case _:
                assert_never(self.grows)

    def bytes(self, at: Moment, run: CacheRun) -> tuple[int, int]:
        """Bytes of the two arrays. Quantised: bits packed into words, a scale and a bias for each group."""
        tokens, size = self.capacity(at), run.dtype.block_bytes
        if not at.quantised or not self.quantises:
            return tokens * self.elements[0] * size, tokens * self.elements[1] * size
        bits, group = run.settings.kv_bits or 0, run.settings.kv_group_size
        k, v = (tokens * (n * bits // 8 + 2 * (n // group) * size) for n in self.elements)
        return k, v


def growth_of(cache: Attention) -> Growth:
    """How the arrays of a layer grow that MLX-LM keeps as what it is. Raises KvcalcError where it has no such cache."""
    match cache.pattern:
        case "full":
            return "whole"
        case "sliding":
            return "ring"
        case "chunked":
            return "chunks"
        case "cross":
            raise _missing(cache)
        case _:
            raise no_rule("mlx", cache, EXACT)


def _missing(cache: Cache) -> KvcalcError:
    return KvcalcError(f"model_type: MLX-LM has no {cache_name(cache)}", EXACT)


def pair_of(cache: Cache, run: CacheRun) -> Pair | None:
    """The two arrays of a cache; None for layers that reuse those of others."""
    family, use = run.family, run.settings
    quantises = use.kv_bits is not None and not family.packed
    match cache:
        case Attention(kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            pair, grows = Pair((heads * k_dim, heads * v_dim), (k_dim, v_dim), quantises=quantises), growth_of(cache)
            if cache in run.windows:
                # maybe_quantize_kv_cache passes over ChunkedKVCache, which has no to_quantized.
                return pair._replace(grows=grows, span=kept(cache) or 0, quantises=False)
        case Latent(rank=rank, rope=rope, heads=heads, k_dim=k_dim, v_dim=v_dim):
            if not family.expanded:
                pair = Pair((rank, rope), (rank, rope))
            else:
                pair = Pair((heads * k_dim, heads * v_dim), (k_dim, v_dim), quantises=quantises)
        case Indexer(dim=dim):
            return Pair((dim, dim if family.index_values else 0), (dim, dim))
        case Shared(of=of):
            return pair_of(of, run) if family.copies else None
        case Compressed() | Recurrent():
            raise _missing(cache)
        case _:
            raise no_rule("mlx", cache, EXACT)
    if use.max_kv_size and not family.own:
        return pair._replace(grows="ring", span=use.max_kv_size)
    if pair.quantises and any(dim % use.kv_group_size for dim in pair.dims):
        dims = " and ".join(str(dim) for dim in dict.fromkeys(pair.dims))
        raise KvcalcError(
            f"--kv-group-size: {use.kv_group_size} does not divide the head size {dims}, and MLX-LM fails",
            "one of 32, 64, 128 that does",
        )
    return pair


def state_bytes(cache: Recurrent, run: CacheRun) -> int:
    """A convolution keeps kernel - 1 columns in the model's dtype; states are float32, but for the oldest kinds."""
    state = recurrent_state(cache)
    match cache.kind:
        case "mamba1" | "rglru" | "shortconv":
            dtype = run.dtype
        case "mamba2" | "deltanet" | "kda":
            dtype = FP32
        case "lightning" | "rwkv" | "rwkv4":
            raise KvcalcError(f"model_type: MLX-LM's {cache_name(cache)} is not known", EXACT)
        case _:
            assert_never(cache.kind)
    return packed_bytes(run.dtype, state.conv_width * state.columns) + packed_bytes(dtype, state.state)
