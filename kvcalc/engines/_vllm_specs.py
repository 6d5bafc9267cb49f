"""What vLLM makes of each cache: a spec with a page of bytes for a block of tokens, and blocks for a sequence.

Sources: vLLM 0.33.0, `v1/kv_cache_interface.py` and `model_executor/layers/mamba/mamba_utils.py`, unless said
otherwise. All sizes are those of one rank.
"""

from math import lcm
from typing import Literal, NamedTuple, assert_never

from kvcalc import dtypes
from kvcalc.dtypes import DType
from kvcalc.errors import KvcalcError
from kvcalc.formula import recurrent_state
from kvcalc.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.units import ceil_div

__all__ = [
    "Settings",
    "Spec",
    "blocks_per_sequence",
    "hybrid_block",
    "needed_tokens",
    "spec_of",
    "state_page",
    "token_bytes",
]

SpecKind = Literal["full", "mla", "sliding", "chunked", "mamba", "cross"]


class Settings(NamedTuple):
    """Everything beside the model on which the specs depend. `block` is the tokens of a block of attention layers.

    `in_flight`: tokens that may be on their way into the cache, which windows must hold beside themselves.
    `state_blocks`: blocks of a sequence in each group of states; `state_block`: tokens of one, 0 for all of them.
    """

    k: DType
    v: DType
    conv: DType
    state: DType
    packed: str  # a format of vLLM's own, or ""
    block: int
    in_flight: int
    encoder_budget: int
    speculative: int
    dcp: int
    state_blocks: int
    sparse: bool  # an indexer chooses tokens


class Spec(NamedTuple):
    """One cache of one layer. `page` bytes hold `block` tokens; `padded` is what the page is stretched to, or 0."""

    kind: SpecKind
    page: int
    block: int
    span: int = 0
    padded: int = 0

    @property
    def stored(self) -> int:
        return self.padded or self.page


def token_bytes(cache: Attention | Latent | Indexer, settings: Settings) -> int:
    """Bytes a token of one layer, with the scales that a format keeps beside it (`v1/attention/backends`)."""
    match cache:
        case Attention(kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            return heads * _head_bytes(k_dim, v_dim, settings)
        # fp8_ds_mla: 512 fp8, 4 fp32 scales and 64 bf16 rotary elements. On sparse models any fp8 becomes it.
        case Latent(rank=rank, rope=rope):
            if settings.packed == "fp8_ds_mla" or (settings.sparse and settings.k.name.startswith("fp8")):
                return rank + rank // 128 * 4 + 2 * rope
            if settings.packed:
                raise KvcalcError(f"--kv-dtype: no size of {settings.packed} is known for latents", "fp8 or bf16")
            return dtypes.row_bytes(settings.k, rank + rope)
        # 128 fp8 and one fp32 scale whatever the KV dtype; MiniMax-M3's keys are in the model's dtype.
        case Indexer(dim=dim, store=store):
            return dim + 4 if store == "fp8+scale" else dtypes.row_bytes(settings.conv, dim)
        case _:
            assert_never(cache)


def _head_bytes(k_dim: int, v_dim: int, settings: Settings) -> int:
    match settings.packed:
        case "":
            return dtypes.row_bytes(settings.k, k_dim) + dtypes.row_bytes(settings.v, v_dim)
        case "int8_per_token_head" | "fp8_per_token_head":  # two fp32 scales for each token and head
            return k_dim + v_dim + 8
        case "int4_per_token_head":
            return (k_dim + v_dim) // 2 + 8
        case other:
            raise KvcalcError(f"--kv-dtype: no size of {other} is known for this model", "fp8 or bf16")


def state_page(cache: Recurrent, settings: Settings) -> int:
    """Bytes of a state: the convolution keeps room for the speculative tokens beside its kernel - 1 columns."""
    state = recurrent_state(cache)
    # Mamba 1 cannot be rolled back, so that nothing is kept for drafts.
    columns = state.columns + (settings.speculative if state.columns and cache.kind != "mamba1" else 0)
    width = _state_dtype(cache, settings)
    return dtypes.packed_bytes(settings.conv, state.conv_width * columns) + dtypes.packed_bytes(width, state.state)


def _state_dtype(cache: Recurrent, settings: Settings) -> DType:
    return dtypes.FP32 if cache.kind == "kda" else settings.state


def spec_of(cache: Cache, settings: Settings) -> Spec | None:
    """The spec of a cache, None for one that stores nothing. Raises KvcalcError where vLLM's rule was not read."""
    block = settings.block
    match cache:
        case Attention(kv_heads=0) | Shared():
            return None
        case Attention(reach=reach, span=span):
            page = block * token_bytes(cache, settings)
            return Spec("full" if reach == "full" else reach, page, block, 0 if reach == "cross" else span or 0)
        case Latent() | Indexer():
            return Spec("mla", block * token_bytes(cache, settings), block)
        case Recurrent(kind="rglru" | "rwkv" | "rwkv4"):
            raise KvcalcError(f"--engine: vllm has no rule for a {cache.kind} state that was read", "leave it out")
        case Recurrent():
            return Spec("mamba", state_page(cache, settings), block)
        case Compressed():
            raise KvcalcError(
                "--engine: vllm's packed pages of compressed caches are not in this version", "leave it out"
            )
        case _:
            assert_never(cache)


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
        case "sliding":
            return min(spec.span - 1 + settings.in_flight, tokens)
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
    if spec.kind == "mamba":
        return settings.state_blocks
    # A window starts anywhere in its first block, so that it may need one more.
    return ceil_div(needed_tokens(spec, tokens, settings), spec.block) + (spec.kind == "sliding")
