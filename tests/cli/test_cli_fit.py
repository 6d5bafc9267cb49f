"""What fits into a budget, and the exit status that says so. All numbers by hand."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kvcalc.cli.main import run


class Answer(NamedTuple):
    status: int
    fit: Any


Fits = Callable[..., Answer]

SEQUENCE = 1_342_177_280  # of llama3-70b at 4,096 tokens, 327,680 bytes a token
PARAMETERS = 70_550_000_000


@pytest.fixture
def fits(capsys: pytest.CaptureFixture[str]) -> Fits:
    """Status and `fit` of a command line."""

    def fits(*argv: str) -> Answer:
        status = run([*argv, "--json"])
        return Answer(status, json.loads(capsys.readouterr().out)["fit"])

    return fits


@pytest.mark.parametrize(
    ("argv", "status", "max_batch", "max_context", "capacity", "binding"),
    [
        # llama3-8b: 24e9 - 8.03e9 x 2 = 7.94e9 bytes; 131,072 bytes a token, 536,870,912 a sequence of 4,096
        (["llama3-8b", "--vram", "24GB"], 0, 14, 8192, 60_577, "kv"),
        (["llama3-8b", "--vram", "24GB", "-b", "14"], 0, 14, 4326, 60_577, "kv"),
        (["llama3-8b", "--vram", "24GB", "-b", "15"], 1, 14, 4038, 60_577, "kv"),
        # the budget in tokens does not depend on the context where nothing is fixed
        (["llama3-8b", "--vram", "24GB", "-c", "8k"], 0, 7, 8192, 60_577, "kv"),
        # llama3-70b: 1.25 GiB a sequence into 10 GiB
        (["llama3-70b", "--kv-memory", "10GiB"], 0, 8, 8192, 32_768, "kv"),
        (["llama3-70b", "--kv-memory", "10GiB", "-b", "8"], 0, 8, 4096, 32_768, "kv"),
        (["llama3-70b", "--kv-memory", "10GiB", "-b", "9"], 1, 8, 3640, 32_768, "kv"),
        (["llama3-70b", "--kv-memory", "10737418239B", "-b", "8"], 1, 7, 4095, 32_767, "kv"),
        (["llama3-70b", "--kv-memory", "1GiB"], 1, 0, 3276, 3276, "kv"),
        # each replica has 10 GiB of its own, and the fullest holds half of the batch, rounded up
        (["llama3-70b", "--kv-memory", "10GiB", "--dp", "2", "-b", "16"], 0, 16, 4096, 65_536, "kv"),
        (["llama3-70b", "--kv-memory", "10GiB", "--dp", "2", "-b", "17"], 1, 16, 3640, 65_536, "kv"),
        # one of eight heads on each GPU, and as much again with two ranks a head
        (["llama3-70b", "--kv-memory", "10GiB", "--tp", "8", "-b", "64"], 0, 64, 4096, 262_144, "kv"),
        (["llama3-70b", "--kv-memory", "10GiB", "--tp", "16", "-b", "65"], 1, 64, 4032, 262_144, "kv"),
        # 62,362,500,000 bytes beside the weights on each of eight GPUs
        (["llama3-70b", "--vram", "80GB", "--tp", "8", "-b", "371"], 0, 371, 4103, 1_522_521, "kv"),
        (["llama3-70b", "--vram", "80GB", "--tp", "8", "-b", "372"], 1, 371, 4092, 1_522_521, "kv"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_fits(
    fits: Fits, argv: list[str], status: int, max_batch: int, max_context: int, capacity: int, binding: str
) -> None:
    """Status 0 if the asked batch fits and 1 if not, with the largest batch, context and number of tokens."""
    answer = fits(*argv)
    assert [answer.fit[key] for key in ("max_batch", "max_context", "capacity_tokens", "binding", "fits")] == [
        max_batch, max_context, capacity, binding, status == 0
    ]  # fmt: skip
    assert answer.status == status


def test_without_a_budget_the_answer_is_status_0(fits: Fits) -> None:
    """Nothing to fit into is no failure."""
    assert fits("llama3-70b", "-b", "100000") == (0, None)


def test_kv_memory_leaves_weights_and_overheads_out(fits: Fits) -> None:
    """With `--kv-memory` everything but the cache's own budget is null."""
    fit = fits("llama3-70b", "--kv-memory", "10GiB").fit
    nulls = ("vram_bytes_per_gpu", "gpus", "utilization", "weights_bytes_per_gpu", "overhead_bytes_per_gpu")
    assert [fit[key] for key in nulls] == [None] * 5
    assert fit["kv_budget_bytes_per_gpu"] == 10 * 2**30


@pytest.mark.parametrize(
    ("weights", "whole"),
    [
        ("auto", PARAMETERS * 2), ("AUTO", PARAMETERS * 2), ("none", 0), ("bf16", PARAMETERS * 2),
        ("fp32", PARAMETERS * 4),
        ("fp8", PARAMETERS), ("int8", PARAMETERS), ("int4", PARAMETERS // 2), ("mxfp4", PARAMETERS // 32 * 17),
        ("nvfp4", PARAMETERS // 16 * 9), ("q8_0", PARAMETERS // 32 * 34), ("q4_0", PARAMETERS // 32 * 18),
        ("q4_K", -(-PARAMETERS // 256) * 144), ("q6_k", -(-PARAMETERS // 256) * 210), ("141GB", 141_000_000_000),
        ("42.5GB", 42_500_000_000), ("35GiB", 35 * 2**30), ("0", 0), ("1B", 1),
    ],
)  # fmt: skip
def test_weights(fits: Fits, weights: str, whole: int) -> None:
    """The whole model's weights, by word, dtype or size, are spread over tp x pp GPUs, rounded up to a byte."""
    fit = fits("llama3-70b", "--vram", "320GB", "--tp", "2", "--pp", "2", "--weights", weights).fit
    assert fit["weights_bytes_per_gpu"] == -(-whole // 4)
    assert fit["kv_budget_bytes_per_gpu"] == 320_000_000_000 - -(-whole // 4)


def test_auto_counts_the_dtype_of_the_checkpoint(fits: Fits) -> None:
    """DeepSeek V3 computes in bf16 and is stored in fp8, tables in 16 bits: vLLM prints 79.74 GiB for a rank of 8."""
    found = fits("deepseek-v3", "--vram", "141GB", "--tp", "8").fit["weights_bytes_per_gpu"]
    assert found == pytest.approx(79.74 * 2**30, rel=0.01)


def test_replicas_do_not_share_weights(fits: Fits) -> None:
    """Each dp replica has all the weights."""
    assert fits("llama3-70b", "--vram", "320GB", "--dp", "4").fit["weights_bytes_per_gpu"] == PARAMETERS * 2


@pytest.mark.parametrize(
    ("argv", "utilization", "overhead", "budget"),
    [
        ([], 1.0, 0, 80_000_000_000),
        (["--utilization", "0.9"], 0.9, 0, 72_000_000_000),
        (["--utilization", "1"], 1.0, 0, 80_000_000_000),
        (["--utilization", ".5"], 0.5, 0, 40_000_000_000),
        (["--overhead", "2GiB"], 1.0, 2_147_483_648, 77_852_516_352),
        (["--overhead", "0"], 1.0, 0, 80_000_000_000),
        (["--overhead", "1.5GB", "--utilization", "0.92"], 0.92, 1_500_000_000, 72_100_000_000),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_utilization_and_overhead(fits: Fits, argv: list[str], utilization: float, overhead: int, budget: int) -> None:
    """The share of the memory that may be used, less what else sits in it, is left for the cache."""
    fit = fits("llama3-70b", "--vram", "80GB", "--weights", "none", *argv).fit
    assert [fit[key] for key in ("utilization", "overhead_bytes_per_gpu", "kv_budget_bytes_per_gpu")] == [
        utilization, overhead, budget
    ]  # fmt: skip


def test_a_share_is_taken_without_rounding_errors(fits: Fits) -> None:
    """0.29 of 100 bytes are 29, where binary floating point would say 28."""
    assert (
        fits("llama3-70b", "--vram", "100B", "--weights", "none", "--utilization", "0.29").fit[
            "kv_budget_bytes_per_gpu"
        ]
        == 29
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GB", 80 * 10**9), ("80gb", 80 * 10**9), ("80 GB", 80 * 10**9), ("80GiB", 80 * 2**30), ("80Gi", 80 * 2**30),
        ("80gib", 80 * 2**30), ("24564MiB", 24_564 * 2**20), ("79.2GiB", 85_040_352_460),
        ("1.5KB", 1500), ("2TB", 2 * 10**12),
        ("1TiB", 2**40), ("1000000B", 10**6), ("1024KiB", 2**20), ("640Ki", 640 * 1024),
        ("3MB", 3 * 10**6), ("1.9999B", 1),
    ],
)  # fmt: skip
def test_sizes_in_any_unit_and_case(fits: Fits, text: str, size: int) -> None:
    """KB is 1,000 bytes and KiB is 1,024; decimals are floored to a byte (79.2 x 2^30 = 85,040,352,460.8)."""
    assert fits("llama3-70b", "--kv-memory", text).fit["kv_budget_bytes_per_gpu"] == size


@pytest.mark.parametrize("argv", [[], ["--overhead", "79GB", "--weights", "int4"]], ids=str)
def test_weights_alone_may_fill_the_memory(fits: Fits, argv: list[str]) -> None:
    """141.1 GB of weights do not go into 80 GB: status 1, no batch, no context, and the weights bind."""
    answer = fits("llama3-70b", "--vram", "80GB", *argv)
    assert [answer.fit[key] for key in ("fits", "max_batch", "max_context", "capacity_tokens", "binding")] == [
        False, 0, 0, 0, "weights"
    ]  # fmt: skip
    assert answer.status == 1


@pytest.mark.parametrize("model", ["t5-small", "falcon-7b"])
def test_without_a_published_limit_the_memory_binds(fits: Fits, model: str) -> None:
    """Where no limit is stated the largest context is what the memory holds."""
    # falcon-7b: 32 x 2 x 64 x 2 = 8,192 bytes a token; t5-small: 24,576, and 12,582,912 for the encoder's 512
    budget = {"falcon-7b": 8192 * 1_000_000 + 8191, "t5-small": 24_576 * 1_000_000 + 12_582_912}[model]
    assert fits(model, "--kv-memory", f"{budget}B").fit["max_context"] == 1_000_000


def test_a_recurrent_model_has_no_largest_context(fits: Fits) -> None:
    """A state of 22,937,600 bytes a sequence: no limit is stated and nothing binds."""
    fit = fits("mamba-2.8b", "--kv-memory", "229376000B").fit
    assert (fit["max_context"], fit["max_batch"]) == (None, 10)


def test_a_window_lets_the_context_reach_the_limit(fits: Fits) -> None:
    """Mistral 7B v0.1 never needs more than 4,096 tokens: one sequence of 536,870,912 bytes reaches 32,768."""
    assert fits("mistral-7b-v0.1", "--kv-memory", "512MiB").fit["max_context"] == 32_768
    assert fits("mistral-7b-v0.1", "--kv-memory", "536870911B", "-c", "1").fit["max_context"] == 4095


@pytest.mark.parametrize(
    "argv",
    [["-q"], ["--get", "fit.fits"], [], ["-f", "table"], ["-f", "csv"], ["-f", "markdown"], ["--explain"]],
    ids=str,
)
def test_every_format_exits_1_where_it_does_not_fit(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The status does not depend on how the answer is shown; the answer is no error."""
    status = run(["llama3-70b", "--kv-memory", "1GiB", *argv])
    captured = capsys.readouterr()
    assert (status, captured.out != "", captured.err) == (1, True, "")
