"""What a cache buys, against the published numbers of planning notes 3 e and f, and arithmetic by hand."""

from itertools import pairwise

import pytest

from kvcalc.cards.shipped import accelerators
from kvcalc.core.dtypes import COMPUTE
from kvcalc.core.model import Attention, Model, Recurrent
from kvcalc.core.request import ask
from kvcalc.core.sharding import Layout
from kvcalc.core.sizing import measure
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.perf.clock import Clock, clock_of
from kvcalc.perf.flops import count
from kvcalc.perf.links import LINKS, parse_links
from kvcalc.perf.reads import cache_reads
from kvcalc.perf.tradeoff import Comparison, Generation, compare, ridge

from .plain import NOTHING_ELSE, demand, machine

P8, P70 = 8_030_000_000, 70_550_000_000


def rig(bandwidth: int, flops: int, weights: int, parameters: int, tp: int = 1) -> Clock:
    """GPUs at 80 % of bandwidth in GB/s and 50 % of TFLOP/s, with 1 ms a step, that take no time for anything else."""
    at = machine(0.8 * bandwidth * 1e9, 0.5 * flops * 1e12, tp, pace=NOTHING_ELSE._replace(step=0.001))
    return Clock(at._replace(bandwidth_share=0.8, compute_share=0.5), demand(weights, 2 * parameters))


H100 = rig(3_350, 989, 2 * P8, P8)
FOUR_H100 = rig(3_350, 989, 2 * P70, P70, 4)


def answer(name: str, clock: Clock, prompt: int, output: int = 2, batch: int = 1) -> Comparison:
    model = loader.load(name)
    flops = count(model)
    clock = clock._replace(demand=clock.demand._replace(flops=flops))
    return compare(ask(model, context=prompt + output, batch=batch, tp=clock.machine.tp), flops, prompt, output, clock)


def cubes(x: float, y: float) -> float:
    """Reading and computing at the same time."""
    return float((x**3 + y**3) ** (1 / 3))


# Peak FLOP/s over peak bandwidth: 989 / 3.35 on an H100, 312 / 1.5 by kipply's numbers for an A100 of 40 GB.
@pytest.mark.parametrize(
    ("bandwidth", "flops", "weight_bytes", "tokens"),
    [
        (3_350, 989, 2, 295),
        (1_500, 312, 2, 208),
        (300, 121, 2, 403),
        (3_350, 1_979, 1, 295),  # 8-bit weights, computed at twice the speed
        (3_350, 989, 1, 147),
    ],
)
def test_ridge(bandwidth: int, flops: int, weight_bytes: int, tokens: int) -> None:
    """Tokens that are computed while the weights are read; half as many with weights of half the size."""
    assert ridge(rig(bandwidth, flops, weight_bytes * P8, P8)) == tokens


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
    ("name", "teraflops", "prefix", "microseconds", "gigabytes"),
    [
        ("llama3.1-8b", 989, 1, "32.5", "4.0"),
        ("llama3.1-8b", 989, 8_192, "36.8", "3.6"),
        ("llama3.1-8b", 989, 131_072, "102", "1.3"),
        ("llama3.1-8b", 121, 1, "265", "0.5"),
        ("llama3-70b", 4 * 989, 1, "71", "4.6"),
        ("llama3-70b", 4 * 989, 8_192, "77", "4.3"),
        ("llama3-70b", 4 * 989, 131_072, "158", "2.1"),
    ],
)
def test_flops_of_a_prefix(name: str, teraflops: int, prefix: int, microseconds: str, gigabytes: str) -> None:
    """The published table, to the digits that it prints: FLOPs at half the peak."""
    model = loader.load(name)
    seconds = count(model).prompt(prefix) / (0.5 * teraflops * 1e12)
    held = measure(ask(model, context=prefix)).bytes_per_sequence
    assert f"{seconds / prefix * 1e6:.{len(microseconds.partition('.')[2])}f}" == microseconds
    assert f"{held / seconds / 1e9:.1f}" == gigabytes


@pytest.mark.parametrize("prefix", [1_000, 8_000, 131_072])
def test_a_prefix_computed_again(prefix: int) -> None:
    """Matrices at half the peak; attention of n tokens at n / (n + 1,000) of that; a share of full passes of 8,192."""
    found = answer("llama3.1-8b", H100, prefix).prefix
    assert found is not None
    linear = cubes(16.06e9 / 2.68e12, 8_192 * 16.06e9 / 494.5e12) + 0.001
    attention = 4 * 32 * 4_096 * prefix * (prefix + 1) / 2 / 494.5e12
    assert found.recompute == pytest.approx(linear * prefix / 8_192 + attention * (1 + 1_000 / prefix), rel=1e-3)
    assert found.break_even == pytest.approx(found.bytes / found.recompute)


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
    """8B on an H100: 294 ms to compute again by its FLOPs; 21 ms over PCIe 5, 42 over PCIe 4, 150 from an NVMe drive."""
    found = answer("llama3.1-8b", H100, 8_000).prefix
    assert found is not None
    assert found.recompute == pytest.approx(0.294, rel=0.03)  # attention at 8/9 of its speed
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
    """8B on an H100: 16.06 GB and 8,255 x 131,072 B at 80 % of 3.35 TB/s, and 1 ms; passes over 8,255 at 50 % of 989."""
    times = answer("llama3.1-8b", H100, 8_000, 256).times
    assert times is not None
    read, one = 16.06e9 / 2.68e12, 16.06e9 / 494.5e12
    assert times.token.with_cache == pytest.approx(0.001 + cubes(read, one) + 8_255 * 131_072 / 2.68e12)
    linear = cubes(read, 8_192 * one) * 8_255 / 8_192  # passes of 8,192 tokens, two of which each take 1 ms more
    attention = 4 * 32 * 4_096 * 8_255 * 8_256 / 2 / 494.5e12 * (1 + 1_000 / 8_255)
    assert times.token.without_cache == pytest.approx(0.002 + linear + attention)


def test_a_batch_shares_the_weights() -> None:
    """32 sequences read 32 caches and the weights once."""
    times = answer("llama3.1-8b", H100, 8_000, 256, batch=32).times
    assert times is not None
    linear = cubes(16.06e9 / 2.68e12, 32 * 16.06e9 / 494.5e12)
    assert times.token.with_cache == pytest.approx(0.001 + linear + 32 * 8_255 * 131_072 / 2.68e12)


def test_tensor_parallelism_divides() -> None:
    """Four GPUs halve nothing twice: weights, cache and FLOPs by four; eight of 4 KV heads keep each head twice."""
    times = answer("llama3-70b", FOUR_H100, 8_000, 2).times
    assert times is not None
    linear = cubes(141.1e9 / 4 / 2.68e12, 141.1e9 / 4 / 494.5e12)
    assert times.token.with_cache == pytest.approx(0.001 + linear + 8_001 * 327_680 / (4 * 2.68e12))
    model = loader.load("qwen3-235b-a22b")  # 94 layers of 4 KV heads of 128: 192,512 B a token, 24,064 for an eighth
    (read,) = cache_reads(ask(model, tp=8), Layout(tp=8))
    assert read.each == 2 * 24_064


def test_what_ranks_exchange_counts() -> None:
    """8B at tp 2 on NVLink: 64 sums, of which each takes 5 us before 2 x 1/2 x 8,192 B go at 180 GB/s."""
    model = loader.load("llama3.1-8b")
    request = ask(model, context=4_096, tp=2)
    card = accelerators()["h100-sxm"].card()
    linked = clock_of(card, request.layout, model, 16_060_000_000, "bf16")
    without = linked._replace(machine=linked.machine._replace(latency=0.0, link=1e30))
    steps = [Generation(each, cache_reads(request, request.layout), 1).step(4_096) for each in (linked, without)]
    assert steps[0] - steps[1] == pytest.approx(64 * (5e-6 + 8_192 / 180e9))


def test_experts() -> None:
    """8-bit weights at 16-bit speed, 37 of 671e9 parameters used: half of 295."""
    asked = demand(0, 2 * 37e9, routed=671e9, drawn=37 / 671)
    at = machine(3_350e9, 989e12)
    assert ridge(Clock(at, asked)) == 147


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
