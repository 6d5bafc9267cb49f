"""The tensors that transformers keeps for each kind of cache, from those of the exact size one rule at a time."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, assert_never

from kvcalc.core.dtypes import FP32, DType, packed_bytes
from kvcalc.core.formula import attention_tokens, kept, recurrent_state
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Recurrent, Stored
from kvcalc.engines.allocation import Rule
from kvcalc.engines.question import no_rule
from kvcalc.engines.transformers.generation import Generation
from kvcalc.engines.transformers.quantized_cache import quantised_bytes
from kvcalc.errors import KvcalcError

__all__ = ["STATIC", "Stage", "Tensor", "copied", "live_bytes", "stages", "tensor_bytes"]

_CACHE = "transformers 5.23.0, cache_utils.py: "
_MODELS = "transformers 5.23.0, models/"
_DTYPE = Rule("in the model's dtype", _CACHE + "DynamicLayer.lazy_initialization")
_QUANTISED = Rule("quantised with scale and shift", _CACHE + "QuantizedLayer")
_FP8 = Rule("in fp8 with a scale for each tensor", _CACHE + "Fp8QuantizedLayer")
_HEADS = Rule("query heads cached", _MODELS + "falcon: FalconAttention._split_heads")
_TWICE = Rule("one vector stored as key and as value", _CACHE + "DynamicSlidingWindowLayer.update")
_WINDOW = Rule("window keeps W - 1 tokens", _CACHE + "DynamicSlidingWindowLayer.update")
_IGNORED = Rule("window ignored", _CACHE + "DynamicCache without a config, get_layer_types_and_kwargs")
STATIC = Rule("static cache of max_cache_len", _CACHE + "StaticLayer, StaticSlidingWindowLayer")
_EXPANDED = Rule("expanded latents", "transformers 5.14.0, models/deepseek_v3/modeling_deepseek_v3.py")
_INDEX = Rule("index keys in the model's dtype", _CACHE + "DynamicIndexedLayer.update_indexer")
_BUFFERS = Rule("tokens that wait for the compressor", _MODELS + "deepseek_v4: DeepseekV4HCACache, DeepseekV4CSACache")
_KERNEL = Rule("kernel columns instead of kernel - 1", _CACHE + "LinearAttentionLayer.update_conv_state")
_FLOAT = Rule("state in fp32", _CACHE + "LinearAttentionLayer.update_recurrent_state")
_SAME = Rule("state in the model's dtype", "transformers, models/: MiniMaxCache, and all models before 5.14")


class Tensor(NamedTuple):
    """`width` elements for each of `tokens` (1 for a state), and the part of the cache that they count to.

    A view keeps the storage of `live` tokens alive.
    """

    part: str
    width: int
    tokens: int
    live: int
    dtype: DType


Stage: TypeAlias = tuple[Rule, tuple[Tensor, ...]]


def stages(cache: Stored, run: Generation, *, entries: bool) -> Iterator[Stage]:
    """What a cache holds for one sequence after each rule. `entries`: compressed ones stand beside it."""
    match cache:
        case Attention():
            yield from _attention(cache, run, entries=entries)
        case Latent(rank=rank, rope=rope, heads=heads):
            yield _plain(run, rank, rope, run.tokens)
            k, v = (rank, rope) if run.version.compressed else (heads * cache.k_dim, heads * cache.v_dim)
            yield _EXPANDED, _pair(run, k, v, run.tokens)
            yield STATIC, _pair(run, k, v, run.static or run.tokens)
        case Indexer(dim=dim):
            for rule, tokens in ((_INDEX, run.tokens), (STATIC, run.static or run.tokens)):
                yield rule, (Tensor("index_bytes", dim, tokens, tokens, run.dtype),)
        case Compressed():
            yield from _compressed(cache, run)
        case Recurrent():
            yield from _recurrent(cache, run)
        case _:
            raise no_rule("transformers", cache)


def _pair(run: Generation, k: int, v: int, tokens: int, live: int | None = None) -> tuple[Tensor, ...]:
    live = tokens if live is None else live
    return Tensor("k_bytes", k, tokens, live, run.dtype), Tensor("v_bytes", v, tokens, live, run.dtype)


def _plain(run: Generation, k: int, v: int, tokens: int) -> Stage:
    """Keys and values in the format that the run gives them."""
    rule = _DTYPE if run.quantised is None else _FP8 if run.quantised.backend == "fp8" else _QUANTISED
    return rule, _pair(run, k, v, tokens)


def _attention(cache: Attention, run: Generation, *, entries: bool) -> Iterator[Stage]:
    k, v = cache.kv_heads * cache.k_dim, cache.kv_heads * cache.v_dim
    tokens = attention_tokens(cache, run.tokens, run.encoder_tokens)
    yield _plain(run, k, v, tokens)
    if run.habits.query_heads and cache.kv_heads > 1:
        k, v = cache.heads * cache.k_dim, cache.heads * cache.v_dim
        yield _HEADS, _pair(run, k, v, tokens)
    if not v and not entries:
        v = k
        yield _TWICE, _pair(run, k, v, tokens)
    match cache.pattern:
        case "cross":  # of the encoder's length, static or not: `_prepare_static_cache` in generation/utils.py
            return
        case "full" | "sliding" | "chunked":
            rule, tokens, live = _window(kept(cache), run)
            yield rule, _pair(run, k, v, tokens, live)
        case _:
            raise no_rule("transformers", cache)


def _window(span: int | None, run: Generation) -> tuple[Rule, int, int]:
    """Tokens of a layer, and those whose storage lives. A window keeps a view of what the last forward attended to."""
    if span is None or not run.windows:
        tokens = run.static or run.tokens
        return STATIC if run.static else _IGNORED, tokens, tokens
    span += run.beside
    if run.static:
        tokens = min(span, run.static)
        return STATIC, tokens, tokens
    if span == 1:  # the slice [-1 + 1:] is everything
        return _IGNORED, run.tokens, run.tokens
    return _WINDOW, min(run.tokens, span - 1), min(run.tokens - run.last, span - 1) + run.last


def _compressed(cache: Compressed, run: Generation) -> Iterator[Stage]:
    entries, rest = divmod(run.tokens, cache.ratio)
    packed = tuple(
        Tensor(part, width, entries, entries, run.dtype)
        for part, width in (("k_bytes", cache.dim), ("index_bytes", cache.indexer))
    )
    yield _DTYPE, packed
    # Projections and their gates, of two windows where these overlap; an empty view keeps its storage too.
    width = 2 * (cache.dim + cache.indexer)
    live = (run.tokens - run.last) % cache.ratio + run.last
    waiting = Tensor("compressor_bytes", width * (2 if cache.overlap else 1), rest, live, run.dtype)
    overlap = cache.ratio if cache.overlap and entries else 0
    yield _BUFFERS, (*packed, waiting, Tensor("compressor_bytes", width, overlap, overlap, run.dtype))


def _recurrent(cache: Recurrent, run: Generation) -> Iterator[Stage]:
    state, columns = recurrent_state(cache), recurrent_state(cache).columns
    held = Tensor("state_bytes", state.state, 1, 1, run.widths.state)
    convolution = Tensor("state_bytes", state.conv_width, columns, columns, run.dtype)
    yield _DTYPE, (convolution, held)
    match cache.kind:
        case "mamba1" | "mamba2" | "deltanet" | "kda" | "shortconv":
            convolution = convolution._replace(tokens=columns + 1, live=columns + 1)
            yield _KERNEL, (convolution, held)
        case "rglru":  # modeling_recurrent_gemma.py: the last columns are a view of those that a token was added to
            convolution = convolution._replace(live=columns + bool(run.decoded))
        case "lightning" | "rwkv4":
            pass
        case "rwkv":
            raise KvcalcError(
                "model_type: transformers has no RWKV after the fourth", "without --engine: the exact size"
            )
        case _:
            assert_never(cache.kind)
    dtype = FP32 if cache.kind in run.float_states else run.dtype
    yield (_FLOAT if dtype == FP32 else _SAME), (convolution, held._replace(dtype=dtype))


def tensor_bytes(tensor: Tensor, run: Generation, sequences: int) -> int:
    """Bytes of one layer's tensor for all sequences, which a quantised one holds together."""
    if run.quantised is not None and tensor.part in {"k_bytes", "v_bytes"}:
        axis = run.quantised.axes[tensor.part == "v_bytes"]
        return quantised_bytes(run.quantised, run.dtype, axis, tensor.width, tensor.tokens, sequences)
    return sequences * packed_bytes(tensor.dtype, tensor.width * tensor.tokens)


def live_bytes(tensor: Tensor, run: Generation, sequences: int) -> int:
    """Bytes of the storage that a tensor keeps alive."""
    return tensor_bytes(tensor._replace(tokens=tensor.live), run, sequences)


def copied(cache: Attention, run: Generation) -> tuple[Tensor, ...]:
    """What windows share with later layers beside their cache, before 5.6: all that the last forward attended to.

    The cache is a view of it. Of full attention the same tensor is shared.
    """
    if not run.windows:  # the cache has all of it
        return ()
    if run.static:
        raise KvcalcError(
            "cache_implementation: what a static cache shares is not known", "cache_implementation=dynamic"
        )
    _, _, tokens = _window(kept(cache), run)
    return _pair(run, cache.kv_heads * cache.k_dim, cache.kv_heads * cache.v_dim, tokens, 0)
