"""What each kind of cache holds for one sequence, independent of any engine. Pure functions, one rule each.

T is the context in tokens. All results are bytes. A cache that never stops growing has a slope and no fixed part; a
full window, a state or a cross-attention cache has a fixed part and no slope.
"""

from math import lcm
from typing import NamedTuple, TypeAlias, assert_never

from kvcalc.core.dtypes import DType, packed_bytes, row_bytes
from kvcalc.core.kinds import attends, encodes
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Model, Recurrent, Shared
from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError

__all__ = [
    "Attending",
    "Rate",
    "State",
    "Widths",
    "attending",
    "attention_tokens",
    "fixed",
    "has_state",
    "head_dims",
    "kept",
    "recurrent_state",
    "size",
    "slope",
    "textbook_rate",
    "token_bytes",
    "total_rate",
    "widened",
]

Attending: TypeAlias = Attention | Latent | Compressed


class Widths(NamedTuple):
    """The formats in force.

    Attributes:
        k: Format of keys, and of what is key and value in one.
        v: Format of values.
        conv: Format of a convolution's columns: the model's dtype.
        state: Format of recurrent states.
    """

    k: DType
    v: DType
    conv: DType
    state: DType


class Rate(NamedTuple):
    """Bytes added for every few tokens: exact, since a compressed cache adds nothing for single tokens.

    Attributes:
        bytes: What is added.
        tokens: For how many tokens together.
    """

    bytes: int
    tokens: int = 1

    @property
    def per_token(self) -> int:
        """Bytes a token, rounded up once."""
        return ceil_div(self.bytes, self.tokens)

    def times(self, count: int) -> "Rate":
        """The rate of `count` equal caches."""
        return Rate(self.bytes * count, self.tokens)


def total_rate(rates: list[Rate]) -> Rate:
    """The exact sum of rates."""
    tokens = lcm(*(rate.tokens for rate in rates))
    return Rate(sum(rate.bytes * (tokens // rate.tokens) for rate in rates), tokens)


class State(NamedTuple):
    """A recurrent layer's memory for one sequence, in elements: `columns` x `conv_width` + `state`.

    Attributes:
        conv_width: Elements of one input of the convolution.
        columns: Inputs that the convolution keeps.
        state: Elements of the recurrent state.
    """

    conv_width: int
    columns: int
    state: int


def recurrent_state(cache: Recurrent) -> State:
    """Elements that a recurrent layer keeps. The convolution keeps its last kernel - 1 inputs."""
    columns = cache.conv - 1
    match cache.kind:
        case "mamba1":  # Gu and Dao 2023 (arXiv 2312.00752): x is convolved, the state is inner x N
            return State(cache.inner, columns, cache.inner * cache.state)
        case "mamba2":  # Dao and Gu 2024 (arXiv 2405.21060): x, B and C are convolved, B and C once per group
            inner = cache.heads * cache.head_dim
            return State(inner + 2 * cache.groups * cache.state, columns, inner * cache.state)
        case (
            "deltanet"
        ):  # Yang et al. 2024 (arXiv 2412.06464): q, k and v are convolved; one k x v matrix per value head
            keys, values = cache.k_heads * cache.k_dim, cache.v_heads * cache.v_dim
            return State(2 * keys + values, columns, values * cache.k_dim)
        case "kda":  # Kimi Linear 2025 (arXiv 2510.26692): q, k and v are convolved; one d x d matrix per head
            return State(3 * cache.heads * cache.head_dim, columns, cache.heads * cache.head_dim**2)
        case "shortconv":  # LFM2 report 2025 (arXiv 2511.23404): a gated convolution and no state
            return State(cache.width, columns, 0)
        case "lightning":  # MiniMax-01 2025 (arXiv 2501.08313): linear attention, one d x d matrix per head
            return State(0, 0, cache.heads * cache.head_dim**2)
        case "rglru":  # Griffin, De et al. 2024 (arXiv 2402.19427): one gated real number per channel
            return State(cache.width, columns, cache.width)
        case "rwkv":  # Peng et al. 2024 (arXiv 2404.05892): two token shifts, one d x d matrix per head of width / d
            return State(2 * cache.width, 1, cache.width * cache.head_dim)
        case "rwkv4":  # Peng et al. 2023 (arXiv 2305.13048): two token shifts; numerator, denominator and maximum
            return State(2 * cache.width, 1, 3 * cache.width)
        case _:
            assert_never(cache.kind)


def has_state(model: Model) -> bool:
    """Some layer keeps a recurrent state, so that the state's dtype matters."""
    return any(isinstance(cache, Recurrent) and recurrent_state(cache).state for cache in model.distinct_caches)


def attention_tokens(cache: Attention, tokens: int, encoder_tokens: int | None) -> int:
    """Tokens that an attention layer keeps for one sequence of `tokens`.

    Raises KvcalcError for cross-attention whose length neither the request nor the model says.
    """
    match cache.pattern:
        case "full":
            return tokens
        # A query sees its window of W tokens (Jiang et al. 2023, arXiv 2310.06825), or those of its own chunk, which is
        # never longer than the chunk (Llama 4's attention_chunk_size): nothing older is ever read again.
        case "sliding" | "chunked":
            assert cache.span is not None
            return min(tokens, cache.span)
        # Keys and values of the encoder's output, computed once per sequence (Vaswani et al. 2017, arXiv 1706.03762).
        # The request's length counts where it has one; a model's own length (Whisper's 1,500 frames) is the default.
        case "cross":
            length = encoder_tokens if encoder_tokens is not None else cache.span
            if length is None:
                raise KvcalcError("--encoder-tokens: this model's cross-attention cache depends on it; none was given")
            return length
        case _:
            assert_never(cache.pattern)


def kept(cache: Cache) -> int | None:
    """Tokens after which a cache grows no more: 0 where it never grows, None where it grows for ever.

    The one place that knows which attention patterns forget. A cache for which it is neither 0 nor None is a window.
    """
    match cache:
        case Attention(pattern=pattern):
            match pattern:
                case "full":
                    return None
                case "sliding" | "chunked":
                    assert cache.span is not None
                    return cache.span
                case "cross":  # the encoder's tokens are all there before the first of the sequence
                    return 0
                case _:
                    assert_never(pattern)
        case Latent() | Indexer() | Compressed():
            return None
        case Recurrent() | Shared():
            return 0
        case _:
            assert_never(cache)


def widened(cache: Cache) -> Cache:
    """A window as long as the context, which is what it becomes where nothing is forgotten; others as they are."""
    if isinstance(cache, Attention) and kept(cache):
        return cache._replace(pattern="full", span=None)
    return cache


def token_bytes(cache: Cache, widths: Widths) -> Rate:
    """Bytes a token while the cache grows; for a cross cache, bytes an encoder token; nothing for a state.

    Raises KvcalcError where a row does not fill the blocks of its format.
    """
    match cache:
        # K and V of each KV head: Shazeer 2019 (arXiv 1911.02150) for one head, Ainslie et al. 2023 (arXiv 2305.13245)
        # for groups. Query heads do not enter.
        case Attention():
            keys = row_bytes(widths.k, cache.kv_heads * cache.k_dim)
            return Rate(keys + row_bytes(widths.v, cache.kv_heads * cache.v_dim))
        # DeepSeek-V2 2024 (arXiv 2405.04434), section 2.1: the latent and the shared rotary key, once for K and V.
        case Latent():
            return Rate(row_bytes(widths.k, cache.rank + cache.rope))
        # DeepSeek-V3.2 and GLM-5 keep 8-bit floats and one fp32 scale: 128 + 4 = 132 B
        # (vLLM 0.33 and SGLang 0.5.23 alike).
        # MiniMax-M3 keeps its keys in the cache's dtype: a public vLLM log of 237,312 tokens in 16.81 GiB at tp 2
        # follows from 256 B and not from 132 B.
        case Indexer():
            return Rate(cache.dim + 4 if cache.store == "fp8+scale" else row_bytes(widths.k, cache.dim))
        # DeepSeek V4 (vLLM blog of April 2026, appendix): one entry for every `ratio` tokens.
        case Compressed():
            return Rate(row_bytes(widths.k, cache.dim) + row_bytes(widths.k, cache.indexer), cache.ratio)
        # Another layer's keys and values are read: Brandon et al. 2024 (arXiv 2405.12981).
        case Recurrent() | Shared():
            return Rate(0)
        case _:
            assert_never(cache)


def size(cache: Cache, tokens: int, widths: Widths, encoder_tokens: int | None) -> int:
    """Bytes that one cache of one layer holds for one sequence of `tokens` tokens.

    `encoder_tokens`: the length of cross-attention, None for the model's own. Raises KvcalcError as `attention_tokens`
    and `token_bytes` do.
    """
    match cache:
        case Attention():
            return attention_tokens(cache, tokens, encoder_tokens) * token_bytes(cache, widths).bytes
        case Compressed():  # whole entries only: the rest waits in working state, which is the engine's
            rate = token_bytes(cache, widths)
            return tokens // rate.tokens * rate.bytes
        case Latent() | Indexer():
            return tokens * token_bytes(cache, widths).bytes
        case Recurrent():
            state = recurrent_state(cache)
            convolution = packed_bytes(widths.conv, state.conv_width * state.columns)
            return convolution + packed_bytes(widths.state, state.state)
        case Shared():
            return 0
        case _:
            assert_never(cache)


def slope(cache: Cache, tokens: int, widths: Widths) -> Rate:
    """Bytes that one more token adds at a context of `tokens`: nothing once a window or chunk is full."""
    most = kept(cache)
    return token_bytes(cache, widths) if most is None or tokens < most else Rate(0)


def fixed(cache: Cache, tokens: int, widths: Widths, encoder_tokens: int | None) -> int:
    """Bytes for one sequence that no longer grow at a context of `tokens`."""
    return 0 if slope(cache, tokens, widths).bytes else size(cache, tokens, widths, encoder_tokens)


def attending(layer: Layer) -> list[Attending]:
    """The attention modules of a layer that look over the sequence, shared ones included, pruned and cross ones not.

    Compressed entries stand beside the window of the same attention (DeepSeek V4), and count only where none is.
    """
    caches = [c.of if isinstance(c, Shared) else c for c in layer]
    own = [c for c in caches if attends(c) and not encodes(c) and not (isinstance(c, Attention) and not c.kv_heads)]
    return [c for c in own if not isinstance(c, Compressed)] or own


def head_dims(cache: Attending) -> tuple[int, int]:
    """Widths of one head's key and value as the textbook has them: a vector that serves as both counts twice."""
    match cache:
        case Attention(k_dim=k_dim, v_dim=v_dim):
            return k_dim, v_dim or k_dim
        case Latent(k_dim=k_dim, v_dim=v_dim):  # before compression
            return k_dim, v_dim
        case Compressed(dim=dim):
            return dim, dim
        case _:
            assert_never(cache)


def textbook_rate(cache: Attending, widths: Widths) -> int:
    """Bytes a token by the formula people learn first: K and V of every query head."""
    k_dim, v_dim = head_dims(cache)
    return packed_bytes(widths.k, cache.heads * k_dim) + packed_bytes(widths.v, cache.heads * v_dim)
