"""What a cache buys, against the published numbers of planning notes 3 e and f, and arithmetic by hand."""

from itertools import pairwise

import pytest

from kvcalc.core.dtypes import COMPUTE
from kvcalc.core.model import Attention, Model, Recurrent
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.perf.flops import count
from kvcalc.perf.links import LINKS, parse_links
from kvcalc.perf.roofline import Attained
from kvcalc.perf.tradeoff import Comparison, Rig, cache_reads, compare

HALF = Attained(bandwidth=0.8, compute=0.5, fixed_seconds=0.001)
P8, P70 = 8_030_000_000, 70_550_000_000
H100 = Rig(1, 3_350 * 10**9, 989 * 10**12, 2 * P8, 2 * P8, HALF)
L4 = Rig(1, 300 * 10**9, 121 * 10**12, 2 * P8, 2 * P8, HALF)
FOUR_H100 = Rig(4, 4 * 3_350 * 10**9, 4 * 989 * 10**12, 2 * P70, 2 * P70, HALF)


def answer(name: str, rig: Rig, prompt: int, output: int = 2, batch: int = 1) -> Comparison:
    model = loader.load(name)
    return compare(ask(model, context=prompt + output, batch=batch, tp=rig.gpus), count(model), prompt, output, rig)


# Peak FLOP/s over peak bandwidth: 989 / 3.35 on an H100, 312 / 1.5 by kipply's numbers for an A100 of 40 GB.
@pytest.mark.parametrize(
    ("bandwidth", "flops", "weight_bytes", "ridge"),
    [
        (3_350, 989, 2, 295),
        (1_500, 312, 2, 208),
        (300, 121, 2, 403),
        (3_350, 1_979, 1, 295),  # 8-bit weights, computed at twice the speed
        (3_350, 989, 1, 147),
    ],
)
def test_ridge(bandwidth: int, flops: int, weight_bytes: int, ridge: int) -> None:
    """Tokens that are computed while the weights are read; half as many with weights of half the size."""
    rig = Rig(1, bandwidth * 10**9, flops * 10**12, weight_bytes * P8, weight_bytes * P8)
    assert rig.ridge(P8) == ridge


@pytest.mark.parametrize(("prompt", "saves"), [(293, False), (294, False), (295, True), (4_096, True)])
def test_no_time_is_saved_below_the_ridge(prompt: int, saves: bool) -> None:
    """At batch 1 the 295th token is the last without a gain; a batch of 32 passes the ridge at its tenth token."""
    for batch, tokens in ((1, prompt), (32, (prompt + 31) // 32)):
        times = answer("llama3.1-8b", H100, tokens, 2, batch).times
        assert times is not None
        assert times.saves == (batch * (tokens + 1) > 295)
    assert saves == (prompt + 1 > 295)


# Planning notes, 3 f, at 50 % of peak: microseconds a token to compute a prefix again, GB/s that break even.
@pytest.mark.parametrize(
    ("name", "rig", "prefix", "microseconds", "gigabytes"),
    [
        ("llama3.1-8b", H100, 1, "32.5", "4.0"),
        ("llama3.1-8b", H100, 8_192, "36.8", "3.6"),
        ("llama3.1-8b", H100, 131_072, "102", "1.3"),
        ("llama3.1-8b", L4, 1, "265", "0.5"),
        ("llama3-70b", FOUR_H100, 1, "71", "4.6"),
        ("llama3-70b", FOUR_H100, 8_192, "77", "4.3"),
        ("llama3-70b", FOUR_H100, 131_072, "158", "2.1"),
    ],
)
def test_break_even(name: str, rig: Rig, prefix: int, microseconds: str, gigabytes: str) -> None:
    """The published table, to the digits that it prints."""
    found = answer(name, rig, prefix).prefix
    assert found is not None
    each = found.recompute / prefix * 1e6
    assert f"{each:.{len(microseconds.partition('.')[2])}f}" == microseconds
    assert f"{found.break_even / 1e9:.1f}" == gigabytes


@pytest.mark.parametrize(("peak", "published"), [(312, 6), (989, 19)])
def test_mooncake(peak: int, published: int) -> None:
    """6 GB/s on 8 A800 and 19 GB/s on 8 H800 for a 70B at 8,192 tokens (Qin et al. 2025, FAST 25, equation 2).

    Their model: 80 layers of 22 d^2 FLOP for the weights and 4 p d for attention with d 8,192, and an eighth of the
    heads cached in 16 bits; the token at position p counts, not the mean over the prefix.
    """
    d = 8_192
    layer = (Attention("full", heads=64, kv_heads=8, k_dim=128, v_dim=128),)
    model = Model(name="M", layers=(layer,) * 80, dtype=COMPUTE["bf16"], parameters=80 * 11 * d * d)
    seconds = count(model).token(8_192) / (8 * peak * 10**12)
    assert round(80 * 2 * d * 2 / 8 / seconds / 1e9) == published


def test_a_prefix_of_8000_tokens() -> None:
    """8B on an H100: 294 ms to compute again; 21 ms over PCIe 5, 42 over PCIe 4, 150 from an NVMe drive."""
    found = answer("llama3.1-8b", H100, 8_000).prefix
    assert found is not None
    assert round(found.recompute * 1000) == 294
    loaded = {link.name: round(seconds * 1000) for link, seconds in found.loaded}
    assert loaded == {"pcie5": 21, "pcie4": 42, "nvme": 150, "400gbit": 26, "100gbit": 105}


# FLOPs of attention for each byte of cache: 2 (H_q / H_kv) / b, and for absorbed latents 2 H_q (2 r + rope) / (r + rope) b
@pytest.mark.parametrize(
    ("name", "dtype", "intensity"),
    [
        ("llama3.1-8b", "bf16", 4.0),  # 32 heads of queries, 8 of keys
        ("llama3-70b", "bf16", 8.0),
        ("llama3-70b", "fp8", 16.0),
        ("llama2-7b", "bf16", 1.0),
        ("deepseek-v3", "bf16", 2 * 128 * 1_088 / 1_152),  # "about 3.8 H_q / b"
    ],
)
def test_intensity_of_attention(name: str, dtype: str, intensity: float) -> None:
    """The same at any context and batch, so that it stays under the bandwidth roof, but for latents."""
    model = loader.load(name)
    for context in (10, 10_000):
        (read,) = cache_reads(ask(model, kv_dtype=dtype, context=context), Layout())
        flops = count(model)
        assert (flops.token(context) - flops.linear) / (read.each * read.seen.at(context)) == pytest.approx(intensity)
    if name == "deepseek-v3":
        assert round(intensity / (128 / 2), 1) == 3.8


def test_a_step_by_hand() -> None:
    """8B on an H100: 16.06 GB and 8,255 x 131,072 B at 80 % of 3.35 TB/s, and 1 ms; a pass over 8,255 at 50 % of 989."""
    times = answer("llama3.1-8b", H100, 8_000, 256).times
    assert times is not None
    assert times.token.with_cache == pytest.approx(0.001 + (16.06e9 + 8_255 * 131_072) / 2.68e12)
    passed = 2 * 8.03e9 * 8_255 + 4 * 32 * 4_096 * 8_255 * 8_256 / 2
    assert times.token.without_cache == pytest.approx(0.001 + passed / 494.5e12)


def test_a_batch_shares_the_weights() -> None:
    """32 sequences read 32 caches and the weights once."""
    times = answer("llama3.1-8b", H100, 8_000, 256, batch=32).times
    assert times is not None
    assert times.token.with_cache == pytest.approx(0.001 + (16.06e9 + 32 * 8_255 * 131_072) / 2.68e12)


def test_tensor_parallelism_divides() -> None:
    """Four GPUs halve nothing twice: weights, cache and FLOPs by four; eight of 4 KV heads keep each head twice."""
    times = answer("llama3-70b", FOUR_H100, 8_000, 2).times
    assert times is not None
    assert times.token.with_cache == pytest.approx(0.001 + (141.1e9 + 8_001 * 327_680) / (4 * 2.68e12))
    model = loader.load("qwen3-235b-a22b")  # 94 layers of 4 KV heads of 128: 192,512 B a token, 24,064 for an eighth
    (read,) = cache_reads(ask(model, tp=8), Layout(tp=8))
    assert read.each == 2 * 24_064


def test_experts() -> None:
    """One token reads the weights that it uses, many tokens all of them, and none more than there are."""
    rig = Rig(1, 3_350 * 10**9, 989 * 10**12, 671 * 10**9, 37 * 10**9)
    assert [rig.read(tokens) for tokens in (1, 2, 18, 19, 10**6)] == [
        37 * 10**9, 74 * 10**9, 666 * 10**9, 671 * 10**9, 671 * 10**9,
    ]  # fmt: skip
    # 8-bit weights at 16-bit speed: half of 295
    assert rig.ridge(37 * 10**9) == 147


def test_sparse_attention_reads_what_it_chooses() -> None:
    """DeepSeek V3.2 in bf16: 61 layers of 1,152 B for 2,048 latents, and 132 B of index for every token."""
    model = loader.load("deepseek-v3.2")
    read = cache_reads(ask(model), Layout())
    assert sum(term.each * term.seen.at(100_000) for term in read) == 61 * (2_048 * 1_152 + 100_000 * 132)


def test_a_state_is_read_and_written() -> None:
    """64 channels that keep the last 3 inputs in bf16: 384 B, twice for each token, whatever its position."""
    state = Recurrent("shortconv", conv=4, width=64)
    model = Model(name="M", layers=((state,),), dtype=COMPUTE["bf16"], parameters=1)
    (read,) = cache_reads(ask(model, context=10), Layout())
    assert [read.each * read.seen.at(t) for t in (1, 10_000)] == [768, 768]


def test_a_longer_text_takes_longer() -> None:
    """Both ways, at lengths on both sides of the ridge."""
    both = [answer("llama3.1-8b", H100, prompt, 300).times for prompt in (1, 100, 200, 400, 1_000, 10_000)]
    for before, after in pairwise(times.generation for times in both if times):
        assert before.with_cache < after.with_cache
        assert before.without_cache < after.without_cache


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        (None, [link.bytes_per_second for link in LINKS]),
        ("pcie4", [25 * 10**9]),
        ("PCIe-5, NVMe", [50 * 10**9, 7 * 10**9]),
        ("25GB/s", [25 * 10**9]),
        ("12.5 GB/s,100gbit", [12_500_000_000, 10 * 10**9]),
        ("1GiB/s", [2**30]),
    ],
)
def test_links(text: str | None, rates: list[int]) -> None:
    """Names in any spelling and rates with a unit."""
    assert [link.bytes_per_second for link in parse_links(text)] == rates


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pcie9", "--link: expected a link, got 'pcie9'"),
        ("", "--link: expected a link, got ''"),
        ("25GB", "--link: expected a link, got '25GB'"),
        ("25/s", "--link: expected a size with a unit, got '25', which can be read two ways"),
        ("0GB/s", "--link: expected a size above zero and below 8 EiB, got '0GB'"),
        (",".join(["nvme"] * 17), "--link: expected at most 16 links, got 17"),
    ],
)
def test_links_that_are_none(text: str, message: str) -> None:
    """One line that says what was expected."""
    with pytest.raises(KvcalcError) as raised:
        parse_links(text)
    assert raised.value.message == message


def test_a_rate_without_its_second() -> None:
    """The way out is what was meant."""
    with pytest.raises(KvcalcError) as raised:
        parse_links("25GB")
    assert raised.value.hint == "a rate is 25GB/s"
