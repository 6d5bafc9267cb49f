"""What vLLM makes of each cache: a spec with a page of bytes for a block of tokens, and blocks for a sequence.

Sources: vLLM 0.33.0, `v1/kv_cache_interface.py` and `model_executor/layers/mamba/mamba_utils.py`, unless said
otherwise. All sizes are those of one rank.
"""

from collections.abc import Hashable
from math import lcm
from typing import Literal, NamedTuple, assert_never

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.formula import kept, recurrent_state
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Model, Recurrent, Shared
from kvcalc.core.units import ceil_div
from kvcalc.engines.question import no_rule
from kvcalc.engines.vllm import formats
from kvcalc.errors import KvcalcError

__all__ = [
    "Settings",
    "Spec",
    "blocks_per_sequence",
    "hybrid_block",
    "needed_tokens",
    "shortest_window",
    "specs_of",
    "state_page",
    "token_bytes",
    "window_of",
]

SpecKind = Literal["full", "mla", "sliding", "sliding_mla", "chunked", "mamba", "cross"]


class Settings(NamedTuple):
    """Everything beside the model on which the specs depend. `block` is the tokens of a block of attention layers.

    `in_flight`: tokens that may be on their way into the cache, which windows must hold beside themselves;
    `retained`: tokens before a window that several draft layers read again.
    `state_blocks`: blocks of a sequence in each group of states; `checkpoints`: kinds of states whose kernel takes one
    more for its own checkpoints. `skipped`: layers, by number or kind, that stay in
    `computed`, the dtype that the model computes in; `shared_page` is what windows are stretched to beside them, or 0.
    """

    k: DType
    v: DType
    computed: DType
    conv: DType
    state: DType
    packed: str  # a format of vLLM's own, or ""
    block: int
    in_flight: int
    encoder_budget: int
    speculative: int
    retained: int
    dcp: int
    state_blocks: int
    sparse: bool  # an indexer chooses tokens
    compressed: bool  # DeepSeek V4, whose pages of several sizes are packed
    checkpoints: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    shared_page: int = 0

    def at(self, layer: int, cache: Cache) -> "Settings":
        """The settings of a cache of one layer: those that are left out keep the model's dtype."""
        window = window_of(cache) == "sliding" and "sliding_window" in self.skipped
        return self.plain if window or str(layer) in self.skipped else self

    @property
    def plain(self) -> "Settings":
        """The settings of a layer that is left out."""
        return self._replace(k=self.computed, v=self.computed, packed="")


class Spec(NamedTuple):
    """One cache of one layer. `page` bytes hold `block` tokens; `padded` is what the page is stretched to, or 0.

    `span` is a window or chunk, or blocks of checkpoints. `shape` tells apart caches that share no group although their
    pages are equal. `part` is which part of a compressed cache this is; `state` are the bytes of what it stores for
    `tokens` tokens.
    """

    kind: SpecKind
    page: int
    block: int
    span: int = 0
    padded: int = 0
    shape: Hashable = None
    part: str = ""
    state: int = 0
    tokens: int = 1

    @property
    def stored(self) -> int:
        return self.padded or self.page


def token_bytes(cache: Attention | Latent | Indexer, settings: Settings) -> int:
    """Bytes a token of one layer, with the scales that a format keeps beside it (`v1/attention/backends`)."""
    match cache:
        case Attention(kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            if settings.compressed:
                return heads * _packed_vector(k_dim, cache.rope)
            return heads * formats.head_bytes(settings.packed, settings.k, settings.v, (k_dim, v_dim))
        case Latent(rank=rank, rope=rope):
            return formats.latent_bytes(settings.packed, settings.k, (rank, rope), sparse=settings.sparse)
        # 128 fp8 and one fp32 scale whatever the KV dtype; MiniMax-M3's keys are in the model's dtype.
        case Indexer(dim=dim, store=store):
            return dim + 4 if store == "fp8+scale" else dtypes.row_bytes(settings.computed, dim)
        case _:
            assert_never(cache)


def _packed_vector(dim: int, rope: int) -> int:
    """DeepSeek V4's vector: 448 fp8, 64 bf16 rotary elements and 8 bytes of scales (models/deepseek_v4)."""
    if (dim, rope) != (512, 64):
        raise KvcalcError("--engine: vllm packs compressed caches of 512 elements, 64 of them rotary", "leave it out")
    return dim - rope + 2 * rope + 8


def state_page(cache: Recurrent, settings: Settings) -> int:
    """Bytes of a state: the convolution keeps room for the speculative tokens beside its kernel - 1 columns."""
    state = recurrent_state(cache)
    # Mamba 1 cannot be rolled back, so that nothing is kept for drafts.
    columns = state.columns + (settings.speculative if state.columns and cache.kind != "mamba1" else 0)
    return dtypes.packed_bytes(settings.conv, state.conv_width * columns) + dtypes.packed_bytes(
        settings.state, state.state
    )


def specs_of(cache: Cache, settings: Settings) -> tuple[Spec, ...]:
    """The specs of a cache, none for one that stores nothing. Raises KvcalcError where no rule is known."""
    block = settings.block
    match cache:
        case Attention(kv_heads=0) | Shared():
            return ()
        case Attention():
            return (_attention(cache, settings),)
        case Latent() | Indexer():
            return (Spec("mla", block * token_bytes(cache, settings), block),)
        case Recurrent(kind="rglru" | "rwkv" | "rwkv4"):
            raise no_rule("vllm", cache)
        case Recurrent():
            return (Spec("mamba", state_page(cache, settings), block, cache.kind in settings.checkpoints, shape=cache),)
        case Compressed():
            return _compressed(cache, settings)
        case _:
            raise no_rule("vllm", cache)


def window_of(cache: Cache) -> Literal["sliding", "chunked"] | None:
    """Which of vLLM's two kinds of windows a cache is; None for none. Raises KvcalcError for a pattern of no rule."""
    if not isinstance(cache, Attention):
        return None
    match cache.pattern:
        case "sliding" | "chunked" as window:
            return window
        case "full" | "cross":
            return None
        case _:
            raise no_rule("vllm", cache)


def shortest_window(model: Model) -> int | None:
    """The shortest sliding window in tokens, to which vLLM cuts the length where windows are switched off."""
    return min((kept(c) or 0 for c in model.distinct_caches if window_of(c) == "sliding"), default=None)


def _attention(cache: Attention, settings: Settings) -> Spec:
    token, block = token_bytes(cache, settings), settings.block
    shape, span = (cache.kv_heads, cache.k_dim, cache.v_dim), kept(cache) or 0
    match cache.pattern:
        case "sliding" if settings.compressed:
            return _packed("sliding_mla", token, _WINDOW_BLOCK)._replace(span=span)
        case "sliding":
            return _window(Spec("sliding", block * token, block, span, shape=shape), token, settings)
        case "full" | "chunked" | "cross" as kind:
            return Spec(kind, block * token, block, span, shape=shape)
        case _:
            raise no_rule("vllm", cache)


def _window(spec: Spec, token: int, settings: Settings) -> Spec:
    """Where pages are stretched, windows take the largest block that fits (`attention.py: get_kv_cache_spec`)."""
    if not settings.shared_page:
        return spec
    block = max(settings.shared_page // token // _LEAST_BLOCK, 1) * _LEAST_BLOCK
    return spec._replace(page=block * token, block=block, padded=settings.shared_page)


_LEAST_BLOCK = 16  # tokens that the kernels of Hopper take at least
_WINDOW_BLOCK = 64  # tokens of DeepSeek V4's windows
_ALIGNMENT = 576  # bytes that its pages are whole multiples of, for the kernel's strides
_RINGS = {4: 4, 128: 8}  # tokens of a block of what waits to be compressed, by ratio


def _packed(kind: SpecKind, state: int, block: int, tokens: int = 1) -> Spec:
    page = block // tokens * state
    padded = ceil_div(page, _ALIGNMENT) * _ALIGNMENT
    return Spec(kind, page, block, padded=padded, state=state, tokens=tokens)


def _compressed(cache: Compressed, settings: Settings) -> tuple[Spec, ...]:
    """DeepSeek V4: entries, index keys (128 fp8 and a scale), and fp32 rings of keys and scores not yet compressed.

    `models/deepseek_v4/attention.py` and `compressor.py`. A ring's window is the ratio, twice where entries overlap.
    """
    if cache.ratio not in _RINGS:
        raise KvcalcError(f"--engine: vllm compresses 4 or 128 tokens, not {cache.ratio}", "leave it out")
    times = 1 + cache.overlap

    def ring(dim: int, part: str) -> Spec:
        spec = _packed("sliding_mla", 2 * times * dim * 4, _RINGS[cache.ratio])
        return spec._replace(span=times * cache.ratio, part=part)

    entries = _packed("mla", _packed_vector(cache.dim, cache.rope), settings.block, cache.ratio)
    specs = [entries._replace(part="entries"), ring(cache.dim, "ring of compression")]
    if cache.indexer:
        keys = _packed("mla", cache.indexer + 4, settings.block, cache.ratio)
        specs += [keys._replace(part="index keys"), ring(cache.indexer, "ring of index keys")]
    return tuple(specs)


def hybrid_block(token: int, pages: int, settings: Settings, *, latent: bool, alignment: int) -> int:
    """Tokens of a block when attention shares its pool with states: the least block whose page holds a state.

    `_align_hybrid_block_size`: `token` bytes of one token of one attention layer, `pages` the largest state. It never
    lowers the block; a latent's kernel takes at least 128.
    """
    step = lcm(max(settings.block, 128 if latent else 0), alignment)
    return max(settings.block, step * ceil_div(pages, step * token))


def needed_tokens(spec: Spec, tokens: int, settings: Settings) -> int:
    """Tokens that a sequence of `tokens` may come to hold in such a layer at the same time; 0 for a state."""
    match spec.kind:
        case "full" | "mla":
            return ceil_div(tokens, settings.dcp)
        # The window without the token itself, and what is in flight.
        case "sliding" | "sliding_mla":
            return min(spec.span - 1 + settings.retained + settings.in_flight, tokens)
        case "chunked":
            return min(spec.span + settings.in_flight, tokens)
        case "cross":
            return settings.encoder_budget
        case "mamba":
            return 0
        case _:
            assert_never(spec.kind)


def blocks_per_sequence(spec: Spec, tokens: int, settings: Settings) -> int:
    """Blocks that one sequence of `tokens` tokens may come to need in a group of such layers."""
    blocks = ceil_div(needed_tokens(spec, tokens, settings), spec.block)
    match spec.kind:
        case "mamba":
            return settings.state_blocks + spec.span
        case "sliding" | "sliding_mla":  # a window starts anywhere in its first block, and so may need one more
            return blocks + 1
        case "full" | "mla" | "chunked" | "cross":
            return blocks
        case _:
            assert_never(spec.kind)
