"""One rule for each kind of cache. Every number is worked out beside its test."""

from typing import get_args

import pytest

from kvcalc.core import formula
from kvcalc.core.dtypes import FP32, KV
from kvcalc.core.formula import Rate, State, Widths
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Recurrent, Shared, Stored
from kvcalc.errors import KvcalcError

BF16 = Widths(KV["bf16"], KV["bf16"], KV["bf16"], FP32)
INT8 = Widths(KV["int8"], KV["int8"], KV["bf16"], FP32)

FULL = Attention("full", heads=32, kv_heads=8, k_dim=128, v_dim=128)
SLIDING = Attention("sliding", heads=32, kv_heads=8, k_dim=128, v_dim=128, span=4_096)
CHUNKED = Attention("chunked", heads=40, kv_heads=8, k_dim=128, v_dim=128, span=8_192)
CROSS = Attention("cross", heads=20, kv_heads=20, k_dim=64, v_dim=64, span=1_500)
INPUT_CROSS = Attention("cross", heads=32, kv_heads=32, k_dim=64, v_dim=64)
LATENT = Latent(rank=512, rope=64, heads=128, k_dim=192, v_dim=128)
CSA = Compressed(ratio=4, dim=512, rope=64, heads=64, overlap=True, indexer=128)


@pytest.mark.parametrize(
    ("cache", "state"),
    [
        # Jamba: 8,192 channels are convolved, each with a state of 16
        (Recurrent("mamba1", inner=8_192, state=16, conv=4), State(8_192, 3, 131_072)),
        # Nemotron-H: 128 x 64 channels, B and C of 8 groups x 128; state 128 x 64 x 128
        (
            Recurrent("mamba2", heads=128, head_dim=64, groups=8, state=128, conv=4),
            State(8_192 + 2 * 1_024, 3, 1_048_576),
        ),
        # Qwen3-Next: q and k of 16 x 128, v of 32 x 128; state 32 x 128 x 128
        (
            Recurrent("deltanet", k_heads=16, k_dim=128, v_heads=32, v_dim=128, conv=4),
            State(2 * 2_048 + 4_096, 3, 524_288),
        ),
        # keys and values of unlike widths: the state is v_heads x v_dim x k_dim
        (Recurrent("deltanet", k_heads=2, k_dim=3, v_heads=5, v_dim=7, conv=2), State(2 * 6 + 35, 1, 105)),
        # Kimi Linear: q, k and v of 32 x 128; state 32 x 128 x 128
        (Recurrent("kda", heads=32, head_dim=128, conv=4), State(12_288, 3, 524_288)),
        # LFM2: 2,048 channels, kernel 3, no state
        (Recurrent("shortconv", width=2_048, conv=3), State(2_048, 2, 0)),
        # MiniMax-01: 64 heads, a matrix of 128 x 128 each, no convolution
        (Recurrent("lightning", heads=64, head_dim=128), State(0, 0, 1_048_576)),
        # RecurrentGemma: 2,560 channels, kernel 4, one number a channel
        (Recurrent("rglru", width=2_560, conv=4), State(2_560, 3, 2_560)),
        # RWKV 6 1.6B: two shifts of 2,048, 32 heads of 64 x 64
        (Recurrent("rwkv", width=2_048, head_dim=64), State(2 * 2_048, 1, 131_072)),
        # RWKV 4: five vectors of the width, two of them shifts
        (Recurrent("rwkv4", width=768), State(2 * 768, 1, 3 * 768)),
    ],
)
def test_recurrent_state(cache: Recurrent, state: State) -> None:
    """Each recurrent kind keeps kernel - 1 columns of what it convolves, and its state."""
    elements = formula.recurrent_state(cache)
    assert (elements.columns * elements.conv_width, elements.state) == (state.columns * state.conv_width, state.state)


def test_a_recurrent_layer_has_two_dtypes() -> None:
    """Columns take the model's dtype and the state its own: 8,192 x 3 x 2 B + 131,072 x 4 B, at any length."""
    mamba = Recurrent("mamba1", inner=8_192, state=16, conv=4)
    assert [formula.size(mamba, tokens, INT8, None) for tokens in (1, 1_000_000)] == [573_440, 573_440]
    assert formula.size(mamba, 1, BF16._replace(state=KV["bf16"]), None) == 49_152 + 262_144


@pytest.mark.parametrize(
    ("cache", "tokens", "size"),
    [
        (FULL, 1, 4_096),  # (8 x 128 + 8 x 128) x 2 B
        (FULL, 1_000, 4_096_000),
        (SLIDING, 4_095, 4_095 * 4_096),
        (SLIDING, 4_096, 4_096 * 4_096),
        (SLIDING, 4_097, 4_096 * 4_096),
        (CHUNKED, 8_191, 8_191 * 4_096),
        (CHUNKED, 100_000, 8_192 * 4_096),
        (Attention("full", heads=64, kv_heads=4, k_dim=192, v_dim=128), 10, 25_600),  # MiMo-V2: 4 x 320 x 2 B
        (Attention("sliding", heads=64, kv_heads=1, k_dim=512, v_dim=0, span=128), 200, 131_072),  # one vector for both
        (Attention("full", heads=64, kv_heads=0, k_dim=128, v_dim=128), 1_000, 0),  # all heads pruned
        (LATENT, 10, 11_520),  # 576 x 2 B
        (Indexer(128), 10, 2_560),
        (Indexer(128, store="fp8+scale"), 10, 1_320),  # 128 + 4 B
        (CSA, 3, 0),
        (CSA, 4, 1_280),  # (512 + 128) x 2 B
        (CSA, 11, 2_560),
        (Compressed(ratio=128, dim=512, rope=64, heads=64), 1_048_576, 8_388_608),  # 8,192 entries of 1,024 B
        (Shared(FULL), 1_000, 0),
    ],
)
def test_size(cache: Cache, tokens: int, size: int) -> None:
    """A cache of two-byte elements holds what its rule says for one sequence."""
    assert formula.size(cache, tokens, BF16, None) == size


def test_index_keys_with_a_store_ignore_the_kv_dtype() -> None:
    """An index key stored as fp8 with a scale stays 132 B under int8 and fp32; one without takes the KV dtype."""
    stored, plain = Indexer(128, store="fp8+scale"), Indexer(128)
    fp32 = BF16._replace(k=FP32, v=FP32)
    assert [formula.size(stored, 1, widths, None) for widths in (INT8, BF16, fp32)] == [132, 132, 132]
    assert [formula.size(plain, 1, widths, None) for widths in (INT8, BF16, fp32)] == [128, 256, 512]


def test_keys_and_values_may_have_unlike_formats() -> None:
    """K in q8_0 and V in q4_0: 1,024 elements each are 32 blocks of 34 B and of 18 B."""
    widths = Widths(KV["q8_0"], KV["q4_0"], KV["fp16"], FP32)
    assert formula.size(FULL, 100, widths, None) == 100 * (1_088 + 576)


def test_cross_attention_keeps_the_encoder() -> None:
    """A cross cache holds (20 x 64 x 2) x 2 B for each encoder token, whatever the decoder has written."""
    assert [formula.size(CROSS, tokens, BF16, None) for tokens in (1, 448)] == [7_680_000, 7_680_000]
    assert formula.size(CROSS, 448, BF16, 300) == 300 * 5_120
    assert formula.size(INPUT_CROSS, 1, BF16, 512) == 512 * 8_192


def test_cross_attention_needs_a_length() -> None:
    """Where the encoder's length is the request's and none was given, the answer is an error."""
    with pytest.raises(KvcalcError, match=r"^--encoder-tokens: this model's cross-attention cache depends on it"):
        formula.size(INPUT_CROSS, 1, BF16, None)


@pytest.mark.parametrize(
    ("cache", "tokens", "slope", "fixed"),
    [
        (FULL, 10, Rate(4_096), 0),
        (SLIDING, 4_095, Rate(4_096), 0),
        (SLIDING, 4_096, Rate(0), 16_777_216),
        (CHUNKED, 8_192, Rate(0), 33_554_432),
        (CROSS, 10, Rate(0), 7_680_000),
        (LATENT, 10, Rate(1_152), 0),
        (Indexer(128, store="fp8+scale"), 10, Rate(132), 0),
        (CSA, 10, Rate(1_280, 4), 0),
        (Recurrent("shortconv", width=2_048, conv=3), 10, Rate(0), 8_192),
        (Shared(FULL), 10, Rate(0), 0),
    ],
)
def test_slope_and_fixed_part(cache: Cache, tokens: int, slope: Rate, fixed: int) -> None:
    """What grows has a slope and no fixed part; a full window, a cross cache and a state the other way round."""
    actual = formula.slope(cache, tokens, BF16)
    assert (actual, formula.fixed(cache, tokens, BF16, None)) == (slope, fixed)


def test_rates_add_up_exactly() -> None:
    """A third and a quarter of a byte a token are 7 for every 12 tokens, and round up once."""
    total = formula.total_rate([Rate(1, 3), Rate(1, 4)])
    assert (total.bytes * 12, total.per_token) == (7 * total.tokens, 1)


def test_rate_per_token_rounds_up() -> None:
    """DeepSeek V4's index keys and entries: 1,280 B every 4 tokens are 320; 1,281 are 321."""
    assert (Rate(1_280, 4).per_token, Rate(1_281, 4).per_token, Rate(0).per_token) == (320, 321, 0)


def test_rates_of_copies() -> None:
    """21 layers that write 1,280 B every fourth token write 26,880 B."""
    assert Rate(1_280, 4).times(21) == Rate(26_880, 4)


@pytest.mark.parametrize(
    ("layer", "modules"),
    [
        ((FULL,), [FULL]),
        ((), []),
        ((FULL, CROSS), [FULL]),  # an encoder-decoder's textbook line is its decoder's self-attention
        ((CROSS,), []),
        ((Shared(SLIDING),), [SLIDING]),  # a shared layer attends
        ((LATENT, Indexer(128)), [LATENT]),
        ((LATENT, LATENT), [LATENT, LATENT]),
        ((SLIDING, CSA), [SLIDING]),  # entries beside a window belong to the same attention
        ((CSA,), [CSA]),
        ((Attention("full", heads=64, kv_heads=0, k_dim=128, v_dim=128),), []),
        ((FULL, Recurrent("shortconv", width=8, conv=3)), [FULL]),
    ],
)
def test_attending(layer: Layer, modules: list[Cache]) -> None:
    """The textbook counts the modules that look over the sequence: shared ones, but neither states nor cross caches."""
    assert formula.attending(layer) == modules


@pytest.mark.parametrize(
    ("cache", "rate"),
    [
        (FULL, 32 * 2 * 128 * 2),  # every query head
        (LATENT, 128 * (192 + 128) * 2),  # the widths before compression
        (Attention("sliding", heads=64, kv_heads=1, k_dim=512, v_dim=0, span=128), 64 * 2 * 512 * 2),
        (Attention("full", heads=64, kv_heads=4, k_dim=192, v_dim=128), 64 * 320 * 2),
        (CSA, 64 * 2 * 512 * 2),
    ],
)
def test_textbook_rate(cache: formula.Attending, rate: int) -> None:
    """The textbook caches K and V of every query head; a vector that serves as both counts twice."""
    assert formula.textbook_rate(cache, BF16) == rate


def test_two_caches_in_a_layer_add_up() -> None:
    """A layer of Falcon-H1 holds attention (2 x 2 x 128 x 2 B a token) and a Mamba-2 state (3,167,232 B)."""
    layer = (
        Attention("full", heads=8, kv_heads=2, k_dim=128, v_dim=128),
        Recurrent("mamba2", heads=48, head_dim=64, groups=1, state=256, conv=4),
    )
    assert sum(formula.size(cache, 100, BF16, None) for cache in layer) == 102_400 + 3_167_232


def test_kinds_of_caches_are_never_equal() -> None:
    """Caches are named tuples, which are equal to any tuple of their values: no two kinds have as many fields."""
    kinds = (*get_args(Stored), Shared)
    assert len({len(kind._fields) for kind in kinds}) == len(kinds) == 6


@pytest.mark.parametrize(
    ("cache", "tokens"),
    [
        (FULL, None),  # every token is read again
        (SLIDING, 4_096),  # Mistral 7B v0.1: nothing older than 4,096 tokens is
        (CHUNKED, 8_192),  # Llama 4: a chunk and no more
        (CROSS, 0),  # Whisper: 1,500 frames before the first token of the text
        (INPUT_CROSS, 0),
        (LATENT, None),
        (Indexer(128), None),
        (CSA, None),
        (Recurrent("mamba1", inner=8_192, state=16, conv=4), 0),
        (Shared(FULL), 0),
    ],
)
def test_after_how_many_tokens_a_cache_grows_no_more(cache: Cache, tokens: int | None) -> None:
    """None where it grows for ever, 0 where it has its size from the first token on."""
    assert formula.kept(cache) == tokens


def test_windows_as_long_as_the_context() -> None:
    """An engine that forgets nothing keeps a window like full attention; of the rest nothing changes."""
    assert formula.widened(SLIDING) == FULL
    assert formula.widened(CHUNKED) == Attention("full", heads=40, kv_heads=8, k_dim=128, v_dim=128)
    assert [formula.widened(cache) for cache in (FULL, CROSS, LATENT, CSA)] == [FULL, CROSS, LATENT, CSA]
