"""Lengths of requests and the pool that they make, against replayed traces and arithmetic by hand."""

import csv
import json
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.perf.workload import Length, Lengths, dispersion, lengths, p99, safe_batch, sampled, split

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces"
Rows = list[tuple[float, int, int]]  # arrival in seconds, prompt, generated


class Sums(NamedTuple):
    """A trace's requests and sums over them: p prompt and g generated tokens; `squares` sums (p + k)^2, k below g."""

    requests: int
    p: int
    g: int
    pg: int
    gg: int
    squares: int
    context: int  # E[g p + g (g - 1) / 2] / E[g]
    naive: int  # E[p] + E[g] / 2


# Summed over the files with another program than kvcalc: Azure conversation 2023 (CC-BY 4.0, Patel et al., ISCA 2024),
# whole and its first 900 s; Mooncake conversation (Apache-2.0, Qin et al., FAST 2025). The context of the 900 s is
# printed in the planning notes too: 1,259, where E[p] + E[g] / 2 is 1,300.
SUMS = {
    "azure": Sums(19_366, 22_361_870, 4_088_665, 4_328_248_818, 1_376_914_593, 8_228_224_603_604, 1226, 1260),
    "azure 900 s": Sums(4_424, 5_188_168, 1_125_283, 1_207_680_374, 418_907_127, 2_153_638_923_426, 1259, 1300),
    "mooncake": Sums(
        12_031, 144_793_823, 4_122_048, 53_023_744_326, 2_163_675_940, 1_834_587_508_902_770, 13_125, 12_206
    ),
}


def of_sums(sums: Sums) -> Lengths:
    """The lengths of a trace, from its sums."""
    n, mean = sums.requests, sums.p / sums.requests
    moments = (mean, sums.g / n, sums.pg / n, sums.gg / n, sums.squares / n)
    return Lengths(*moments, prompts=((mean, 1.0),), words="a trace")


def azure() -> Rows:
    path = TRACES / "AzureLLMInferenceTrace_conv.csv"
    if not path.exists():
        pytest.skip("the traces are not beside this checkout")

    def seconds(stamp: str) -> float:  # seven fractional digits
        return datetime.fromisoformat(stamp[:26] + "+00:00").timestamp()

    with path.open(newline="", encoding="utf-8") as file:
        rows = [
            (seconds(row["TIMESTAMP"]), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
            for row in csv.DictReader(file)
        ]
    return [(at - rows[0][0], p, g) for at, p, g in rows]


def azure_begin() -> Rows:
    return [row for row in azure() if row[0] < 900]


def mooncake() -> Rows:
    path = TRACES / "mooncake_conversation_trace.jsonl"
    if not path.exists():
        pytest.skip("the traces are not beside this checkout")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(row["timestamp"] / 1000, row["input_length"], row["output_length"]) for row in rows]


@pytest.mark.parametrize("name", SUMS)
def test_the_context_is_weighted_by_time(name: str) -> None:
    """Who generates longer is in the batch longer, so the mean context is neither E[p] + E[g] / 2 nor the worst case."""
    sums = SUMS[name]
    found = of_sums(sums)
    by_hand = (sums.pg + (sums.gg - sums.g) / 2) / sums.g
    assert found.context == pytest.approx(by_hand)
    assert round(found.context) == sums.context
    assert round(found.prompt + found.generated / 2) == sums.naive


@pytest.mark.parametrize(("name", "read"), [("azure", azure), ("azure 900 s", azure_begin), ("mooncake", mooncake)])
def test_samples_have_the_sums_of_their_trace(name: str, read: Callable[[], Rows]) -> None:
    """Lengths read request by request keep what joins prompt and output."""
    found, expected = sampled((p, g) for _, p, g in read()), of_sums(SUMS[name])
    assert found[:5] == pytest.approx(expected[:5], rel=1e-12)
    assert found.mean_over(lambda length: length) == pytest.approx(found.prompt)


def test_the_last_token_is_never_written() -> None:
    """A prompt of 10 with 3 tokens out holds 10, 11 and 12 tokens, and one with a single token out holds its prompt."""
    three = sampled([(10, 3)])
    assert (three.token_steps, three.squares, three.context) == (33, 100 + 121 + 144, 11)
    assert three.spread == pytest.approx(math.sqrt(2 / 3))
    assert sampled([(10, 1)]).context == 10
    # Side by side: (10 + 11 + 12 + 20) / 4, of which naive averages make 15 + 1.
    assert sampled([(10, 3), (20, 1)]).context == 53 / 4
    by_means = lengths(Length(10), Length(3))
    assert (by_means.context, by_means.squares) == (11, 100 + 121 + 144)


# Open-loop replays with a fixed step, from the planning notes' oracles: seconds a step, duration, mean and p99 tokens.
REPLAYS = [
    ("azure", azure, 0.02, 3509.74, 28_575.7, 50_837),
    ("azure", azure, 0.05, 3522.76, 71_175.2, 109_976),
    ("mooncake", mooncake, 0.02, 3550.70, 304_748.5, 628_171),
    ("mooncake", mooncake, 0.05, 3575.75, 756_533.9, 1_172_190),
]


@pytest.mark.parametrize(("name", "read", "step", "duration", "mean", "exact"), REPLAYS)
def test_the_pool_of_a_trace(
    name: str, read: Callable[[], Rows], step: float, duration: float, mean: float, exact: int
) -> None:
    """Mean tokens are exact, and the 99th percentile is 0.84 to 1.13 of what a replay shows; without the dispersion of
    arrivals it is less, and too little for conversations.
    """
    sums, found = SUMS[name], of_sums(SUMS[name])
    rate = sums.requests / duration
    held, variance = rate * step * found.token_steps, rate * step * found.squares
    assert held == pytest.approx(mean, rel=3e-6)  # the oracles' tenths
    arrivals = dispersion([at for at, _, _ in read()], step * found.residence)
    assert 0.84 <= p99(held, variance, arrivals) / exact <= 1.13
    assert p99(held, variance) / exact < 0.97
    assert p99(held, variance) < p99(held, variance, arrivals)


def test_dispersion_of_counts() -> None:
    """Evenly spaced arrivals have none, pairs have more than singles, and bursts of n in every n-th window have n - 1."""
    assert dispersion([float(i) for i in range(101)], 1.0) == 0
    # 4 at once in every fourth of 100 windows: mean 1, variance (9 + 3 x 1) / 4 = 3.
    assert dispersion([4.0 * (i // 4) for i in range(100)] + [100.0], 1.0) == pytest.approx(3)
    # Two full windows are enough to tell from: 3 and 1 arrivals, mean 2, variance 1.
    assert dispersion([0.0, 0.1, 0.2, 1.0, 2.0], 1.0) == pytest.approx(0.5)
    for few in ([], [1.0], [0.0, 1.5]):
        assert dispersion(few, 1.0) == 1  # nothing to tell from


def test_dispersion_of_a_trace() -> None:
    """The planning notes print 1.4 for Azure's conversations and 7.9, an artefact of its clock, for Mooncake's, at 1 s."""
    assert round(dispersion([at for at, _, _ in azure()], 1.0), 1) == 1.4
    assert round(dispersion([at for at, _, _ in mooncake()], 1.0), 1) == 7.9


def test_a_share_of_a_stream_is_smoother() -> None:
    """Dealt over more replicas, bursts thin out towards random arrivals, and random ones stay random."""
    assert [split(13.2, n) for n in (1, 2, 61)] == pytest.approx([13.2, 7.1, 1.2])
    assert split(1.0, 8) == 1


# Weibull by hand, in units of the mean: (ln 20)^u / Γ(1 + u) is the 95th percentile, Γ(1 + n u) / Γ(1 + u)^n the moment.
@pytest.mark.parametrize(
    ("p95", "second", "third"),
    [
        (1.0, 1, 1),  # all alike
        (1.95303, 4 / math.pi, 6 / math.pi),  # Rayleigh, u = 1/2: 1.73082 / 0.886227; Γ(2.5) = 1.32934
        (math.log(20), 2, 6),  # exponential, u = 1
        (math.log(20) ** 2 / 2, 6, 90),  # u = 2: 4! / 2^2, 6! / 2^3
    ],
)
def test_mean_and_p95_make_a_distribution(p95: float, second: float, third: float) -> None:
    """The spread that a p95 beside the mean states counts in full, by the moments of a Weibull distribution."""
    found = lengths(Length(1000, 1000 * p95), Length(100, 100 * p95))
    pp, gg, ggg = 1000**2 * second, 100**2 * second, 100**3 * third
    assert found.context == pytest.approx(1000 + (gg - 100) / 2 / 100, rel=1e-4)
    # The sum over k below g of (p + k)^2 is g p^2 + p g (g - 1) + (2 g^3 - 3 g^2 + g) / 6.
    squares = 100 * pp + 1000 * (gg - 100) + (2 * ggg - 3 * gg + 100) / 6
    assert found.squares == pytest.approx(squares, rel=1e-4)
    assert found.mean_over(lambda length: length) == pytest.approx(1000, rel=1e-3)
    assert found.mean_over(lambda length: length**2) == pytest.approx(pp, rel=1e-3)


# Mean and p95 of real traces, and how far the context and its root mean square then are from those of the requests.
# Lognormal would miss Azure's by 1.77 where Weibull misses it by 1.40.
@pytest.mark.parametrize(
    ("prompt", "generated", "context", "root"),
    [
        ("1155/4083", "211/451", 1226, 1419),  # Azure conversation
        ("12035/39551", "343/698", 13_125, 21_097),  # Mooncake conversation: long prompts have long outputs
        ("2588/3813", "291/736", 2420, 2617),  # arXiv summarization, from vidur
    ],
)
def test_a_pair_stands_for_a_trace(prompt: str, generated: str, context: int, root: int) -> None:
    """Two numbers of each length give the mean pool of real requests within a fifth, and its fluctuation within 0.87 to
    1.4.
    """
    found = lengths(Length.parse(prompt, "--input"), Length.parse(generated, "--output"))
    assert found.context == pytest.approx(context, rel=0.2)
    assert 0.87 <= math.hypot(found.context, found.spread) / root <= 1.4
    assert found.words == (
        f"{prompt} tokens in, {generated} out: Weibull lengths through mean and p95, prompt and output independent"
    )


@pytest.mark.parametrize("text", ["1000/999", "1000/5000", "1000/0", "0", "/9", "4000/", "1/2/3", "-1", "9e9", "nan"])
def test_lengths_that_no_requests_have(text: str) -> None:
    """A p95 below the mean, or further above it than any usual distribution has, is refused by the option's name."""
    with pytest.raises(KvcalcError, match="--input"):
        lengths(Length.parse(text, "--input"), Length(10))


@pytest.mark.parametrize("mean", [0.5, -1, float("nan"), 2.0**41])
def test_means_that_no_requests_have(mean: float) -> None:
    """Less than a token on average, or more than any machine holds, is refused."""
    with pytest.raises(KvcalcError, match="--output: expected a mean of at least 1 token"):
        lengths(Length(10), Length(mean))


@pytest.mark.parametrize("requests", [[], [(0, 1)], [(1, 0)], [(5, 5), (5, -1)]])
def test_requests_without_tokens(requests: list[tuple[int, int]]) -> None:
    """Failed requests of a trace (nothing in, nothing out) must have been dropped with a reason before."""
    with pytest.raises(KvcalcError, match="expected at least"):
        sampled(requests)


def test_the_safe_batch() -> None:
    """100 sequences of 10 tokens that stray by 5 need 100 x 10 + 2.33 x 5 x 10 tokens, and not 100 times a long one."""
    assert safe_batch(1116.5, 10, 5) == pytest.approx(100)
    assert safe_batch(1000, 10, 0) == pytest.approx(100)
    assert safe_batch(0, 10, 5) == safe_batch(-1, 10, 5) == 0
    # Where all are alike an exactly full pool holds them all, to the last.
    assert [safe_batch(229_376 * n, 229_376, 0) for n in range(1, 200)] == list(range(1, 200))
    # H100 and Llama 3.1 8B, the planning notes: 444,864 tokens hold 353 of Azure's mean context.
    found = of_sums(SUMS["azure 900 s"])
    assert math.floor(safe_batch(444_864, found.context, 0)) == 353
    assert 330 < safe_batch(444_864, found.context, found.spread) < 353
