"""Seconds of steps and prompts, against measured slopes and arithmetic by hand."""

import math

import pytest

from kvcalc.perf.roofline import Attained, Clock, Demand, Machine, clock, wait95

PEAKS = Attained(bandwidth=1, compute=1, fixed_seconds=0)
H100 = Machine(bandwidth=3350e9, flops=989e12)

# Llama 3.1 8B in bf16: 8.03e9 parameters, 32 layers, 32 query heads of 128, 131,072 B of cache a token.
P, TOKEN = 8.03e9, 131_072


def llama8b(prompt: float = 0.0) -> Demand:
    return Demand(weights=2 * P, touched=2 * P, token=2 * P, attention=0, prompt=prompt, exchanged=0)


def step_ms(held: float, batch: float = 1, machine: Machine = H100, demand: Demand | None = None) -> float:
    return 1000 * clock(machine, demand or llama8b(), PEAKS, held, 0).step(batch)


def test_one_request_on_an_h100() -> None:
    """At full bandwidth a step takes 4.79 ms and 3.91e-5 ms for each token of context, half as much with an fp8 cache.

    vLLM measures 6.44 ms, 4.37e-5 and 2.37e-5, so that 74, 90 and 83 % are attained (planning notes, 3 d).
    """
    assert step_ms(0) == pytest.approx(4.79, abs=0.005)
    slopes = [step_ms(1000 * token) - step_ms(0) for token in (TOKEN, TOKEN / 2)]
    assert slopes == pytest.approx([3.91e-2, 1.96e-2], abs=5e-5)
    assert [round(share, 2) for share in (4.79 / 6.44, 3.91 / 4.37, 1.96 / 2.37)] == [0.74, 0.89, 0.83]


def test_the_cache_weighs_as_much_as_the_weights() -> None:
    """16.06 GB of weights over 131,072 B a token: 122,528 tokens, 3,829 for each of 32 sequences."""
    at = clock(H100, llama8b(), PEAKS, 122_528 * TOKEN, 0)
    after = clock(H100, llama8b(), PEAKS, 122_529 * TOKEN, 0)
    assert at.cache <= at.weights < after.cache
    assert 122_528 // 32 == 3829


def test_large_batches_are_bound_by_compute() -> None:
    """989e12 / 3350e9 = 295 FLOPs a byte: with 2-byte weights, the 296th sequence waits for the arithmetic."""
    assert step_ms(0, 295) == step_ms(0)
    assert step_ms(0, 296) == pytest.approx(296 * 16.06e9 / 989e12 * 1000)
    assert step_ms(0, 296) > step_ms(0)


def test_sums_between_gpus() -> None:
    """70B at tp 4 with 64 sequences: 2 x 80 sums of 8,192 bf16, 252 MB sent by each GPU, 0.56 ms on NVLink, 10 on PCIe."""
    demand = Demand(weights=0, touched=0, token=0, attention=0, prompt=0, exchanged=2 * 80 * 8192 * 2)
    sent = 2 * 3 / 4 * 2 * 80 * 64 * 8192 * 2
    assert round(sent / 1e6) == 252
    seconds = {
        link: step_ms(0, 64, Machine(3350e9, 989e12, link=link, tp=4), demand)
        for link in (450e9, 25e9)  # NVLink of an H100 in one direction; PCIe 4 x16 as copies attain it
    }
    assert seconds == pytest.approx({450e9: 0.559, 25e9: 10.07}, rel=1e-3)
    # Sums over a prompt of 1,000 tokens take 1,000 times those of one token.
    assert clock(Machine(3350e9, 989e12, 450e9, 4), demand, PEAKS, 0, 1000).prefill_seconds == pytest.approx(
        0.559e-3 / 64 * 1000, rel=1e-3
    )


def test_ranks_share_weights_and_compute() -> None:
    """tp 2 halves what each GPU reads and computes; what it holds of the cache is told, since heads may be copied."""
    one, two = (clock(Machine(3350e9, 989e12, 450e9, tp), llama8b(prompt=1e13), PEAKS, 1e9, 1000) for tp in (1, 2))
    assert (one.weights, one.token, one.prompt) == (2 * two.weights, 2 * two.token, 2 * two.prompt)
    assert one.cache == two.cache


def test_stages_take_turns() -> None:
    """Four stages: each has a quarter of weights and batch, and a token passes all four: no quicker, with more overhead."""
    attained = Attained(1, 1, 0.001)
    whole = clock(H100, llama8b(), attained, 4e8, 0)
    staged = clock(Machine(3350e9, 989e12, pp=4), llama8b(), attained, 1e8, 0)
    # In all 4 x (1 ms + 4.015 GB + 8 sequences x 0.1 GB); as one 1 ms + 16.06 GB + 32 x 0.4 GB.
    assert staged.step(32) == pytest.approx(4 * (0.001 + (4.015e9 + 8e8) / 3350e9))
    assert whole.step(32) == pytest.approx(0.001 + (16.06e9 + 12.8e9) / 3350e9)


def test_stages_share_the_sums() -> None:
    """Half of the layers have half of the sums: 1.5 x 8,000 B at 1 MB/s are 12 ms of one stage, 6 ms of each of two."""
    demand = Demand(weights=0, touched=0, token=0, attention=0, prompt=0, exchanged=8_000)
    exchange = [clock(Machine(1, 1, link=1e6, tp=4, pp=pp), demand, PEAKS, 0, 0).exchange for pp in (1, 2)]
    assert exchange == pytest.approx([0.012, 0.006])


def test_experts_are_read_as_far_as_tokens_touch_them() -> None:
    """One token of Mixtral 8x7B (46.7e9 parameters, 12.9e9 active) reads 25.8 GB, and no batch more than 93.4 GB."""
    mixtral = Demand(weights=93.4e9, touched=25.8e9, token=25.8e9, attention=0, prompt=0, exchanged=0)
    read = [step_ms(0, batch, demand=mixtral) * 3350e9 / 1000 for batch in (0.1, 1, 2, 4, 100)]
    assert read == pytest.approx([25.8e9, 25.8e9, 51.6e9, 93.4e9, 93.4e9])


def test_absorbed_latents_are_bound_by_compute() -> None:
    """DeepSeek V3 at 1,000 tokens: 61 layers x 576 x 2 B against 2 x 128 heads x (576 + 512) FLOPs a token, 242 a byte."""
    held, flops = 1000 * 61 * 576 * 2, 1000 * 61 * 2 * 128 * (576 + 512)
    assert flops / held == pytest.approx(241.8, abs=0.1)
    demand = Demand(weights=0, touched=0, token=0, attention=flops, prompt=0, exchanged=0)
    # Below the ridge of an H100 (295), above that of an H20 (148 TFLOP/s, 4 TB/s: 37).
    assert step_ms(held, demand=demand) == pytest.approx(held / 3350e9 * 1000)
    assert step_ms(held, machine=Machine(4e12, 148e12), demand=demand) == pytest.approx(flops / 148e12 * 1000)


def simple(**seconds: float) -> Clock:
    """A clock with zeros but for what a test is about."""
    names = ("fixed", "weights", "touched", "token", "cache", "attention", "exchange", "prompt", "prompt_exchange")
    return Clock(*(seconds.get(name, 0.0) for name in names))


def test_a_batch_by_hand() -> None:
    """10 ms a step and 1 ms a sequence, 100 tokens out, prompts of 50 ms, 4 requests/s: B = 4 x 100 x TPOT.

    rho = 0.2, TPOT = (0.010 + 0.001 B) / 0.8, B = 400 TPOT = 5 + 0.5 B: B = 10, TPOT = 25 ms.
    """
    ticking = simple(fixed=0.01, cache=0.001, prompt=0.05)
    assert ticking.batch(4, 100) == pytest.approx(10)
    assert ticking.step(10) / (1 - 4 * 0.05) == pytest.approx(0.025)
    assert ticking.rate(10, 100) == pytest.approx(4)
    # Endless batches finish 1 / (100 x 0.001 + 0.05) = 6.67 requests/s.
    assert ticking.most(100) == pytest.approx(6.667, abs=1e-3)
    assert ticking.batch(6.7, 100) is None
    assert ticking.batch(20, 100) is None  # rho = 1
    assert ticking.rate(0, 100) == 0


@pytest.mark.parametrize(
    ("seconds", "scarce"),
    [
        ({"cache": 0.001, "prompt": 0.05}, "bandwidth"),  # 100 ms of cache against 50 of compute
        ({"cache": 0.001, "prompt": 0.2}, "compute"),
        ({"cache": 0.001, "attention": 0.002}, "compute"),
        ({"token": 0.001, "exchange": 0.002}, "bandwidth"),
        ({"prompt": 0.1, "prompt_exchange": 0.2}, "bandwidth"),
    ],
)
def test_what_is_scarce(seconds: dict[str, float], scarce: str) -> None:
    """What takes most of a request's time is what one would have to buy: arithmetic, or bytes moved."""
    assert simple(**seconds).scarce(100) == scarce


def test_shares_are_said() -> None:
    """The assumed efficiencies stand in words beside an answer."""
    assert str(Attained()) == "80% of peak bandwidth, 45% of peak FLOP/s, 1 ms beside each step"


def test_waiting_by_hand() -> None:
    """A server busy for 0.8 of the time with equal tasks of 1 s that come at random: those who wait, wait 2.5 s on
    average (M/D/1), 1 in 20 of all for 2.5 x ln(0.8 / 0.05) = 6.93 s; in bursts of dispersion 13, for 13 times that.
    """
    assert wait95(0.8, 1, 1, 0) == pytest.approx(6.93, abs=0.005)
    assert wait95(0.8, 1, 13, 0) == pytest.approx(13 * 6.93, abs=0.05)
    assert wait95(0.8, 1, 1, 1) == pytest.approx(2 * 2.5 * math.log(16))  # exponential tasks: M/M/1, exact
    assert wait95(0.05, 1, 1, 1) == wait95(0.01, 1, 1, 1) == 0  # 19 in 20 find it idle
