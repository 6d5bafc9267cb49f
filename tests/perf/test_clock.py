"""Seconds of steps and prompts, against measured slopes and arithmetic by hand."""

import pytest

from kvcalc.cards.shipped import accelerators
from kvcalc.core.card import Card, Shares
from kvcalc.core.sharding import Layout
from kvcalc.core.weights import weigh
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.perf.clock import Clock, clock_of
from kvcalc.perf.demand import Found, Work, demand_of, work_of
from kvcalc.perf.doubt import Doubt, Span
from kvcalc.perf.flow import Flow, flow
from kvcalc.perf.kernels import blocks_of
from kvcalc.perf.machine import Attained, machine_of, quantises
from kvcalc.perf.pace import Pace, pace_for, pace_of
from kvcalc.perf.workload import Length, lengths

from .plain import NOTHING_ELSE, clock, demand, machine

# Llama 3.1 8B in bf16: 8.03e9 parameters, 32 layers, 32 query heads of 128, 131,072 B of cache a token.
P, TOKEN = 8.03e9, 131_072
H100 = clock(3350e9, 989e12, 2 * P, 2 * P)


def test_one_request_on_an_h100() -> None:
    """At full bandwidth a step takes 4.79 ms and 3.91e-5 ms for each token of context, half as much with an fp8 cache.

    vLLM measures 6.44 ms, 4.37e-5 and 2.37e-5, so that 74, 90 and 83 % are attained (planning notes, 3 d).
    """
    assert 1000 * H100.step(1, 0, 0) == pytest.approx(4.79, abs=0.005)
    slopes = [1000 * (H100.step(1, 1000 * token, 0) - H100.step(1, 0, 0)) for token in (TOKEN, TOKEN / 2)]
    assert slopes == pytest.approx([3.91e-2, 1.96e-2], abs=5e-5)


def test_vllm_on_an_h100() -> None:
    """The same step as the clock has it: 6.44 ms are measured, and 4.37e-5 ms a token of context."""
    model = loader.load("llama3.1-8b")
    found = clock_of(
        accelerators()["h100-sxm"].card(), Layout(), model, weigh(model, "auto").bytes, "bf16", pace=pace_of("vllm")
    )
    attention = 4 * 32 * 4096
    assert 1000 * found.step(1, 0, 0) == pytest.approx(6.44, rel=0.2)
    slope = found.step(1, 1001 * TOKEN, 1001 * attention) - found.step(1, TOKEN, attention)
    assert slope == pytest.approx(4.37e-5, rel=0.1)


def test_large_batches_are_bound_by_compute() -> None:
    """989e12 / 3350e9 = 295 FLOPs a byte: with 2-byte weights 295 sequences take as long to compute as the weights to
    read, and then both count: 2^(1/3) of either. Ten times more, and the weights hardly do.
    """
    assert H100.step(295.2, 0, 0) == pytest.approx(2 ** (1 / 3) * H100.step(1e-9, 0, 0), rel=1e-3)
    assert H100.step(2952, 0, 0) == pytest.approx(2952 * 16.06e9 / 989e12, rel=1e-3)


def test_sums_between_gpus() -> None:
    """70B at tp 4 with 64 sequences: 2 x 80 sums of 8,192 bf16, 252 MB sent by each GPU, 0.56 ms on NVLink, 10 on PCIe."""
    asked = demand(0, 0, exchanged=8192 * 2, sums=160)
    sent = 2 * 3 / 4 * 160 * 64 * 8192 * 2
    assert round(sent / 1e6) == 252
    seconds = {link: Clock(machine(1e20, 1e20, 4, link=link), asked).sums(64) for link in (450e9, 25e9)}
    assert seconds == pytest.approx({450e9: 0.559e-3, 25e9: 10.07e-3}, rel=1e-3)


@pytest.mark.parametrize(
    ("card", "tp", "megabytes", "microseconds"),
    [
        ("h100-sxm", 8, 0, 5.0),  # NVLink: 4.4 to 7.4 us before anything is sent
        ("h100-sxm", 8, 1.8, 5 + 1.8e6 / 180e3),  # one kernel: 0.4 of 450 GB/s
        ("h100-sxm", 8, 180, 40 + 180e6 / 360e3),  # NCCL: 0.8 of it, 370 of 450 GB/s by its maintainer
        ("rtx-pro-6000-blackwell", 8, 12, 24 + 12e6 / 11.97e3),  # 12 GB/s where eight share a bus
        ("rtx-pro-6000-blackwell", 2, 0, 6.0),
        ("l40s", 4, 15.75, 12 + 15.75e6 / 1.575e3),  # 1 to 2 GB/s
    ],
)
def test_links_as_measured(card: str, tp: int, megabytes: float, microseconds: float) -> None:
    """One sum over ranks, of which each sends so much, as tables of kernels have it."""
    found = machine_of(accelerators()[card].card(), Layout(tp), "bf16", Pace())
    assert found.summing(megabytes * 1e6) * 1e6 == pytest.approx(microseconds, rel=1e-3)


def test_ranks_share_weights_and_compute() -> None:
    """tp 2 halves what each GPU reads and computes; what it reads of the cache is told, since heads may be copied."""
    one, two = (Clock(machine(3350e9, 989e12, tp), demand(2 * P, 2 * P)) for tp in (1, 2))
    assert one.matrices(100) == pytest.approx(2 * two.matrices(100))
    assert one.attending(1e9, 0) == two.attending(1e9, 0)
    assert one.attending(0, 1e12) == 2 * two.attending(0, 1e12)


def test_stages_take_turns() -> None:
    """Four stages: each has a quarter of weights and batch, and a token passes all four: no quicker than one GPU."""
    pace = NOTHING_ELSE._replace(step=0.001)
    staged = Clock(machine(3350e9, 989e15, pp=4, pace=pace), demand(2 * P, 2 * P))
    whole = Clock(machine(3350e9, 989e15, pace=pace), demand(2 * P, 2 * P))
    # In all 1 ms + 4 x (4.015 GB + 8 sequences x 0.1 GB); as one 1 ms + 16.06 GB + 32 x 0.4 GB.
    assert staged.step(32, 1e8, 0) == pytest.approx(0.001 + 4 * (4.015e9 + 8e8) / 3350e9)
    assert whole.step(32, 4e8, 0) == pytest.approx(0.001 + (16.06e9 + 12.8e9) / 3350e9)
    # One sequence has its cache read by all four, one after another, as on one GPU; three more come along for nothing.
    for sequences in (1, 2, 4):
        assert staged.step(sequences, 1e8, 0) == pytest.approx(0.001 + 4 * (4.015e9 + 1e8) / 3350e9)
    assert whole.step(1, 4e8, 0) == pytest.approx(staged.step(1, 1e8, 0))
    # Half a sequence on average is one that is there half of the time.
    assert staged.step(0.5, 1e8, 0) == pytest.approx(0.001 + 4 * (4.015e9 + 0.5e8) / 3350e9)


# 8 of 256 experts: one token meets 3.1 %, and four 1 - (31/32)^4 = 11.9 %, not 12.5; 64 tokens 86.9 %, not all.
@pytest.mark.parametrize(("tokens", "met"), [(1, 0.03125), (4, 0.1193), (64, 0.8689), (1e4, 1.0), (0.1, 0.03125)])
def test_distinct_experts(tokens: float, met: float) -> None:
    """Tokens that go to the same expert read it once."""
    assert demand(1e9, 1e9, routed=100e9, drawn=8 / 256).read(tokens) == pytest.approx(1e9 + met * 100e9, rel=1e-3)


def test_experts_of_deepseek() -> None:
    """58 layers of 256 experts of 3 x 7,168 x 2,048 are 653.9 of 671 billion parameters; a token meets 8 of 256."""
    model = loader.load("deepseek-v3")
    found = demand_of(model, 671_000_000_000, "fp8")
    assert found.distinct
    assert found.routed == pytest.approx(58 * 256 * 3 * 7168 * 2048, rel=1e-6)
    assert found.drawn == 8 / 256
    assert found.expert == pytest.approx(2 * 58 * 8 * 3 * 7168 * 2048)
    # One row of 129,280 x 7,168 embeddings is looked up; the others are not read, and nothing is computed with them.
    assert found.dense + found.expert == pytest.approx(2 * (37e9 - 129_280 * 7168))
    assert found.always == pytest.approx(671e9 - found.routed - 129_280 * 7168, rel=1e-3)


def test_unknown_experts_are_said_and_widen_the_range() -> None:
    """Mixtral's numbers without its experts: no token shares weights with another, 25.8 GB each up to all 93.4 GB."""
    from dataclasses import replace

    model = replace(
        loader.load("mixtral-8x7b"), dimensions=None, parameters=46_700_000_000, active_parameters=12_900_000_000
    )
    found = demand_of(model, 93_400_000_000, "bf16")
    assert [found.read(n) for n in (0.1, 1, 2, 4, 100)] == pytest.approx([25.8e9, 25.8e9, 51.6e9, 93.4e9, 93.4e9])
    doubt = Clock(machine(1e12, 1e15), found).doubt
    assert "the model's experts are not known" in str(doubt)
    assert doubt.factor > Doubt().factor


def test_kernels_are_counted() -> None:
    """Llama 3.1 8B: 32 x (5 + 4), in fp8 2 more in each block; DeepSeek V3: 61 x 11, 3 dense of 4, 58 of 8 + 3."""
    llama, deepseek = loader.load("llama3.1-8b"), loader.load("deepseek-v3")
    assert blocks_of(llama, 4096, quantised=False).kernels == 288
    assert blocks_of(llama, 4096, quantised=True).kernels == 288 + 2 * 64
    assert blocks_of(deepseek, 7168, quantised=False).kernels == 61 * 11 + 3 * 4 + 58 * 11
    assert blocks_of(loader.load("gpt-oss-20b"), 2880, quantised=False).kernels == 24 * (5 + 6)
    assert blocks_of(loader.load("qwen3-32b"), 5120, quantised=False).kernels == 64 * (6 + 4)
    assert [blocks_of(llama, 4096, quantised=q).sums for q in (False, True)] == [64, 64]


def test_what_is_moved_between_matrices() -> None:
    """Llama 3.1 8B in 16 bits: 8 widths of 4,096 in norms and residuals, 2 of queries, 3 of 14,336 channels: 168 KB."""
    found = blocks_of(loader.load("llama3.1-8b"), 4096, quantised=False)
    assert found.moved == 32 * 2 * 8 * 4096
    assert found.shared == 32 * 2 * (2 * 4096 + 3 * 14_336)


# Of matrices 8,192 rows high: bf16 75 % on an H100, fp8 55; B200 FP4 38 % of 9 PFLOP/s; an A100 unpacks fp8 to 16 bits.
@pytest.mark.parametrize(
    ("card", "weights", "petaflops"),
    [
        ("h100-sxm", "bf16", 0.75 * 0.989),
        ("h100-sxm", "fp8", 0.55 * 1.979),
        ("h100-sxm", "mxfp4", 0.75 * 0.989),
        ("a100-80gb-sxm", "bf16", 0.80 * 0.312),
        ("a100-80gb-sxm", "fp8", 0.80 * 0.312),
        ("b200-sxm", "nvfp4", 0.38 * 9),
        ("gb200", "bf16", 0.62 * 2.5),
        ("l40s", "fp8", 0.45 * 0.733),
        ("rtx-pro-6000-blackwell", "nvfp4", 0.60 * 4 * 0.4678),
    ],
)
def test_formats_and_cards(card: str, weights: str, petaflops: float) -> None:
    """Each card at its own share of the peak of the format that it multiplies."""
    found = machine_of(accelerators()[card].card(), Layout(), weights, Pace())
    assert found.matrices / 1e15 == pytest.approx(petaflops, rel=1e-3)


def test_llama_cpp_has_its_own_rates() -> None:
    """GGUF: 0.92 of a 3090's 71.2 TFLOP/s, 0.28 of an L40S's 362; 0.71 of Apple's bandwidth, and 6 us a kernel."""
    rates = {
        card: machine_of(accelerators()[card].card(), Layout(), "q4_k", pace_for("q4_k"))
        for card in ("rtx-3090", "l40s", "apple-m2-ultra", "rtx-5090")
    }
    assert rates["rtx-3090"].matrices == pytest.approx(0.92 * 71.2e12)
    assert rates["l40s"].matrices == pytest.approx(0.28 * 362.05e12)
    assert rates["apple-m2-ultra"].bandwidth == pytest.approx(0.71 * 800e9)
    assert rates["l40s"].pace.kernel == 6e-6
    # Nobody measured a 5090: 60 to 130 TFLOP/s elsewhere, and the answer says so.
    assert 60e12 < rates["rtx-5090"].matrices < 130e12
    assert rates["rtx-5090"].unknown
    assert not rates["l40s"].unknown


CARD = Card("x", "X", 10**10, bandwidth=10**12, flops16=10**14, flops8=2 * 10**14, link=10**11)


def test_a_card_that_nobody_measured() -> None:
    """It gets what is common, and its range is wider than that of one with shares of its own."""
    known = CARD._replace(shares=Shares(bandwidth=0.8, flops16=0.65))
    unmeasured = machine_of(CARD, Layout(), "bf16", Pace())
    assert unmeasured.unknown == ("what kernels attain on X was not measured",)
    assert machine_of(known, Layout(), "bf16", Pace()).unknown == ()
    assert machine_of(CARD, Layout(), "bf16", Pace(), Attained(0.8, 0.5)).unknown == ()
    assert "int4 weights" in machine_of(known, Layout(), "int4", Pace()).unknown[0]


def test_stated_shares_count_instead() -> None:
    """--bandwidth-share and --compute-share stand for whatever the card attains."""
    card = accelerators()["h100-sxm"].card()
    found = machine_of(card, Layout(), "fp8", Pace(), Attained(0.5, 0.25))
    assert (found.bandwidth, found.matrices, found.attention) == pytest.approx((1675e9, 1979e12 / 4, 989e12 / 4))
    assert (found.peak_bandwidth, found.peak_matrices) == pytest.approx((3350e9, 1979e12))


@pytest.mark.parametrize(
    ("card", "layout", "what"),
    [
        (CARD._replace(bandwidth=None), Layout(), "bandwidth"),
        (CARD._replace(flops16=None), Layout(), "FLOP/s"),
        (CARD._replace(link=None), Layout(tp=2), "link between GPUs"),
    ],
)
def test_a_card_whose_rates_are_not_known(card: Card, layout: Layout, what: str) -> None:
    """No time is made up for a card whose rates nobody published."""
    with pytest.raises(KvcalcError, match=f"--gpu: the {what} of X is not known"):
        machine_of(card, layout, "bf16", Pace())


def test_inputs_are_converted_where_the_card_multiplies_them() -> None:
    """fp8 on an A100 is unpacked, and its inputs stay as they are."""
    h100, a100 = (accelerators()[name].card() for name in ("h100-sxm", "a100-80gb-sxm"))
    assert quantises(h100, "fp8", Pace())
    assert not quantises(a100, "fp8", Pace())
    assert not quantises(h100, "bf16", Pace())


def test_absorbed_latents_are_bound_by_compute() -> None:
    """DeepSeek V3 at 1,000 tokens: 61 layers x 576 x 2 B against 2 x 128 heads x (576 + 512) FLOPs a token, 242 a byte."""
    held, flops = 1000 * 61 * 576 * 2, 1000 * 61 * 2 * 128 * (576 + 512)
    assert flops / held == pytest.approx(241.8, abs=0.1)
    # Below the ridge of an H100 (295), above that of an H20 (148 TFLOP/s, 4 TB/s: 37).
    assert H100.attending(held, flops) == pytest.approx(held / 3350e9)
    assert clock(4e12, 148e12, 0, 0).attending(held, flops) == pytest.approx(flops / 148e12)


def test_a_prefix_that_is_found_is_not_computed() -> None:
    """7,900 of 8,000 tokens shared: 100 tokens through the weights, each of which attends to all before it."""
    flops = demand_of(loader.load("llama3.1-8b"), round(2 * P), "bf16").flops
    mix = lengths(Length(8000), Length(100))
    whole, part, share = work_of(flops, mix), work_of(flops, mix, Found(7900)), work_of(flops, mix, Found(share=0.5))
    assert (whole.prompt_tokens, part.prompt_tokens, share.prompt_tokens) == (8000, 100, 4000)
    # 2 L d_q (8000^2 - 7900^2), beside 2 L d_q 8000^2.
    assert part.prompt / whole.prompt == pytest.approx((8000**2 - 7900**2) / 8000**2, rel=1e-3)
    busy = [flow(H100, each, TOKEN * 8000, mix).prompt_seconds for each in (whole, share, part)]
    assert busy[2] < busy[1] / 20 < busy[0] / 30
    assert Found(9000).of(8000) == 7999  # at least one is computed


def simple(prompt: float = 0.0, step: float = 0.0, sequence: float = 0.0, generated: float = 100) -> Flow:
    """Seconds of a prompt, a step and a sequence, and nothing else."""
    pace = NOTHING_ELSE._replace(step=step, sequence=sequence)
    clock = Clock(machine(1e30, 1e30, pace=pace), demand(0, 0))
    return Flow(clock, Work(0, 0, 0), 0.0, generated, prompt, clock.stepping(0, 0))


def test_a_batch_by_hand() -> None:
    """10 ms a step and 1 ms a sequence, 100 tokens out, prompts of 50 ms, 4 requests/s: B = 4 x 100 x TPOT.

    rho = 0.2, TPOT = (0.010 + 0.001 B) / 0.8, B = 400 TPOT = 5 + 0.5 B: B = 10, TPOT = 25 ms.
    """
    ticking = simple(step=0.01, sequence=0.001, prompt=0.05)
    assert ticking.batch(4) == pytest.approx(10)
    assert ticking.step(10) / (1 - 4 * 0.05) == pytest.approx(0.025)
    assert ticking.rate(10) == pytest.approx(4)
    # Endless batches finish 1 / (100 x 0.001 + 0.05) = 6.67 requests/s.
    assert ticking.most == pytest.approx(6.667, abs=1e-3)
    assert ticking.batch(6.7) is None
    assert ticking.batch(20) is None  # rho = 1
    assert ticking.rate(0) == 0


def test_what_is_scarce() -> None:
    """What takes most of a request's time is what one would have to buy: arithmetic, or bytes moved."""
    slow_memory, slow_compute = clock(1e9, 1e15, 1e9, 1e9), clock(1e15, 1e9, 1e9, 1e9)
    for ticking, scarce in ((slow_memory, "bandwidth"), (slow_compute, "compute")):
        work = Work(attention=1e6, prompt_tokens=100, prompt=1e8)
        assert flow(ticking, work, 1e7, lengths(Length(100), Length(100))).scarce == scarce


def test_ranges() -> None:
    """A factor of 1.5 either way, and more for each cause."""
    assert Doubt().around(0.03) == pytest.approx(Span(0.02, 0.03, 0.045))
    assert Doubt(("a", "b")).factor == pytest.approx(1.5 * 1.3**2)
