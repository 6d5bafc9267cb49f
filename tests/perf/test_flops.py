"""FLOPs of tokens and prompts, by kind of cache. All numbers by hand, or from the planning notes where it says so."""

import pytest

from kvcalc.core.dtypes import COMPUTE
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Layer, Model, Recurrent, Shared
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.perf.flops import Flops, count

DTYPE = COMPUTE["bf16"]
FULL = Attention("full", heads=32, kv_heads=8, k_dim=128, v_dim=128)
MLA = Latent(rank=512, rope=64, heads=128, k_dim=192, v_dim=128)


def flops(*layers: Layer, index: tuple[int, int] | None = None, encoder_tokens: int | None = None) -> Flops:
    """Those of a model of one parameter, so that 2 FLOP a token are not attention."""
    heads, topk = index or (None, None)
    model = Model(name="M", layers=layers, dtype=DTYPE, parameters=1, index_heads=heads, index_topk=topk)
    return count(model, encoder_tokens=encoder_tokens)


# Attention of one token at position t with the cache.
@pytest.mark.parametrize(
    ("layers", "t", "attention"),
    [
        # 32 heads, a product of 128 with each key and 128 values added: 4 x 32 x 128 = 16,384 a token
        ([(FULL,)], 1, 16_384),
        ([(FULL,)] * 32, 1_000, 32 * 16_384_000),
        # every query head computes, however few keys are kept
        ([(FULL._replace(kv_heads=1),)], 1_000, 16_384_000),
        # keys of 192 and values of 128: 2 x 32 x 320
        ([(FULL._replace(k_dim=192),)], 10, 204_800),
        # one vector as key and value
        ([(FULL._replace(v_dim=0),)], 1, 16_384),
        ([(FULL._replace(kv_heads=0),)], 1_000, 0),
        # a window of 100, and a chunk of 100, in which the 301st token is alone and the 400th sees all
        ([(FULL._replace(pattern="sliding", span=100),)], 99, 99 * 16_384),
        ([(FULL._replace(pattern="sliding", span=100),)], 5_000, 100 * 16_384),
        ([(FULL._replace(pattern="chunked", span=100),)], 301, 16_384),
        ([(FULL._replace(pattern="chunked", span=100),)], 400, 100 * 16_384),
        # an encoder of 1,500 tokens, wherever the decoder stands
        ([(FULL._replace(pattern="cross", span=1_500),)], 1, 1_500 * 16_384),
        ([(FULL._replace(pattern="cross", span=1_500),)], 400, 1_500 * 16_384),
        # another layer's cache is looked at too: Hunyuan's pairs compute twice and keep once
        ([(FULL,), (Shared(FULL),)], 10, 2 * 163_840),
        # absorbed: 128 heads, a product with 512 + 64, and 512 added: 2 x 128 x 1,088 = 278,528
        ([(MLA,)], 10, 2_785_280),
        # an entry for every 4 tokens, looked at once it is complete: 64 heads, 4 x 64 x 512
        ([(Compressed(ratio=4, dim=512, rope=64, heads=64),)], 3, 0),
        ([(Compressed(ratio=4, dim=512, rope=64, heads=64),)], 11, 2 * 131_072),
        # Mamba: 5,120 x 16 elements of 7 each, and 5,120 columns convolved with 4: whatever came before
        ([(Recurrent("mamba1", conv=4, inner=5_120, state=16),)], 1, 7 * 81_920 + 2 * 4 * 5_120),
        ([(Recurrent("mamba1", conv=4, inner=5_120, state=16),)], 10**6, 7 * 81_920 + 2 * 4 * 5_120),
        # Lightning attention: 64 heads of 96 x 96 with 5 each
        ([(Recurrent("lightning", heads=64, head_dim=96),)], 77, 5 * 64 * 96 * 96),
        # LFM2: a convolution of 3 over 2,048 columns
        ([(Recurrent("shortconv", width=2_048, conv=3),)], 77, 2 * 3 * 2_048),
    ],
)
def test_one_token_with_the_cache(layers: list[Layer], t: int, attention: int) -> None:
    """Each kind of cache by its own rule."""
    assert flops(*layers).token(t) == 2 + attention


def test_a_latent_is_expanded_for_a_prompt() -> None:
    """DeepSeek V3: heads of 192 + 128 for a prompt, of 576 + 512 for a token: 2 x 128 x 320 = 81,920 against 278,528."""
    latent = flops((MLA,))
    assert latent.prompt(1) == 2 + 81_920
    assert latent.prompt(3) == 6 + 81_920 * 6
    assert latent.token(1) == 2 + 278_528


def test_sparse_attention() -> None:
    """DeepSeek V3.2: 64 heads of 128 score every token, 16,384 FLOP each, and attention looks at 2,048 of them."""
    sparse = flops((MLA, Indexer(128)), index=(64, 2_048))
    assert sparse.token(100) == 2 + 100 * 16_384 + 100 * 278_528
    assert sparse.token(100_000) == 2 + 100_000 * 16_384 + 2_048 * 278_528
    assert not sparse.dense
    # a layer without an index of its own takes the choice of one that has it, and scores nothing (GLM-5.2)
    shared = flops((MLA, Indexer(128)), (MLA,), index=(64, 2_048))
    assert shared.token(100_000) == 2 + 100_000 * 16_384 + 2 * 2_048 * 278_528
    # MiniMax-M3's layers without an index look at everything
    mixed = flops((FULL, Indexer(128)), (FULL,), index=(4, 2_048))
    assert mixed.token(10_000) == 2 + 10_000 * 4 * 2 * 128 + 12_048 * 16_384


def test_sparse_attention_to_entries() -> None:
    """DeepSeek V4: 64 heads of 128 score an entry for every 4 tokens, and attention looks at 512 beside the window."""
    window = FULL._replace(pattern="sliding", span=128, heads=64, kv_heads=1, k_dim=512, v_dim=0)
    csa = Compressed(ratio=4, dim=512, rope=64, heads=64, overlap=True, indexer=128)
    layer = (window, csa)
    assert flops(layer, index=(64, 512)).token(40_000) == 2 + 128 * 131_072 + 512 * 131_072 + 10_000 * 16_384


def test_an_index_without_facts_is_an_upper_bound() -> None:
    """Where it is not known how many tokens are chosen, all of them count, and the answer says so."""
    unknown = flops((MLA, Indexer(128)))
    assert unknown.dense
    assert unknown.token(100_000) == 2 + 100_000 * 278_528


# Planning notes, section 3 e: Llama 3.1 8B with P = 8.03e9, 32 layers, d_q 4,096.
@pytest.mark.parametrize(
    ("prompt", "output", "with_cache", "without", "ratio"),
    [
        (128, 128, "4.11e+12", "3.95e+14", "96"),
        (512, 256, "1.25e+13", "2.66e+15", "213"),
        (1_155, 211, "2.24e+13", "4.358e+15", "194.5"),
        (4_096, 512, "7.96e+13", "3.83e+16", "482"),
        (8_192, 1_024, "1.70e+14", "1.635e+17", "960.3"),
    ],
)
def test_a_whole_generation(prompt: int, output: int, with_cache: str, without: str, ratio: str) -> None:
    """The published table, to the digits that it prints."""
    found = count(loader.load("llama3.1-8b"))
    done, again = found.with_cache(prompt, output), found.without_cache(prompt, output)
    assert f"{done:.2e}" == with_cache
    assert f"{again:.{len(without) - 6}e}" == without
    assert f"{again / done:.{len(ratio.partition('.')[2])}f}" == ratio


def test_a_cache_computes_each_token_once() -> None:
    """With a cache a whole generation costs what one pass over all but its last token does."""
    found = count(loader.load("llama3.1-8b"))
    assert found.with_cache(1_000, 200) == found.prompt(1_199)


def test_sums_do_not_count_token_by_token() -> None:
    """A million tokens of a million are answered at once: sum of 2 t over t below 2e6, from 1e6 on."""
    one = flops((FULL._replace(kv_heads=0),))
    assert one.without_cache(10**6, 10**6) == 2 * (10**6 * (10**6 + 2 * 10**6 - 1) // 2)


def test_parameters() -> None:
    """A mixture of experts computes with the parameters that are active; who knows better says so."""
    assert count(loader.load("deepseek-v3")).parameters == 37_000_000_000
    assert count(loader.load("deepseek-v3"), 38_000_000_000).linear == 76_000_000_000
    unknown = Model(name="M", layers=((FULL,),), dtype=DTYPE)
    with pytest.raises(KvcalcError, match="--parameters: the number of parameters of M is not known"):
        count(unknown)
    assert count(unknown, 5).linear == 10
