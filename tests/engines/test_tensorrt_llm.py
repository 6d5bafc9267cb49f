"""TensorRT-LLM's numbers: its formulas on the models of the maintainers' specs (engines-gpu.md C and D.2), posted logs."""

import json

import pytest

from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError

from .asking import counted, reservation

GIB = 2**30


@pytest.mark.parametrize(
    ("preset", "flags", "tokens", "blocks"),
    [("llama3.1-8b", "", 327_680, 10_240), ("deepseek-v3", "", 611_168, 19_099)],
)
def test_tokens_in_forty_gib(preset: str, flags: str, tokens: int, blocks: int) -> None:
    """D.2: bytes a token, then blocks of 32."""
    found = counted(preset, "tensorrt-llm", 40 * GIB, flags)
    assert (found.tokens, found.values["num_blocks"]) == (tokens, blocks)


def test_each_window_has_an_equal_share_of_the_bytes() -> None:
    """D.2: gpt-oss-20b: 27,306 blocks for each of its two windows."""
    assert counted("gpt-oss-20b", "tensorrt-llm", 40 * GIB, context=131072).values["num_blocks"] == 27_306


@pytest.mark.parametrize(
    ("preset", "options", "version", "tokens", "logged"),
    [
        # C.4: the GiB that the log gives for its tokens, which are a multiple of the block
        ("qwen3-0.6b", {}, "", 643_136, "68.69"),
        ("llama3.1-8b", {"kv_dtype": "fp8"}, "", 263_008, "16.05"),
        ("llama3.1-8b", {}, "@0.8.0", 220_480, "26.91"),
        ("kimi-k2.5", {"kv_dtype": "fp8"}, "", 5_073_376, "166.02"),
        ("smollm2-135m", {}, "", 422_048, "9.06"),
    ],
)  # fmt: skip
def test_blocks_of_posted_logs(preset: str, options: dict[str, str], version: str, tokens: int, logged: str) -> None:
    """A token's bytes times the logged tokens are the logged memory."""
    plan = reservation(preset, f"tensorrt-llm{version}", **options).allocation
    block, width = plan.values["block_size"], plan.values["bytes_per_block"]
    assert isinstance(block, int)
    assert isinstance(width, int)
    assert tokens % block == 0
    assert f"{tokens // block * width / GIB:.2f}" == logged


def test_what_depends_on_the_revision_is_refused() -> None:
    """The factor of index keys was another in each revision read."""
    with pytest.raises(KvcalcError, match="tensorrt-llm's factor for index keys"):
        reservation("deepseek-v3.2", "tensorrt-llm")


def test_the_lines_of_the_log() -> None:
    """engines-gpu.md C.3 and C.4: Qwen3-0.6B with 643,136 tokens of 114,688 B: 68.69 GiB, 20,098 blocks of 32."""
    found = counted("qwen3-0.6b", "tensorrt-llm", 643_136 * 114_688, context=40960)
    assert found.log == (
        "Max KV cache blocks per sequence: 1280 [window size=40960], tokens per block=32, primary blocks=20098, "  # noqa: ISC004
        "secondary blocks=0, max sequence length=40960",
        "Number of tokens per block: 32.",
        "[MemUsageChange] Allocated 68.69 GiB for max tokens in paged KV cache (643136).",
    )


def test_its_share_is_of_what_the_weights_leave(capsys: pytest.CaptureFixture[str]) -> None:
    """free_gpu_memory_fraction 0.9 of 80e9 - 16.06e9 B of weights, not of 80e9 (C.1)."""
    argv = ["llama3-8b", "--vram", "80GB", "--overhead", "0", "--json"]
    assert run([*argv, "--engine", "tensorrt-llm"]) == 0
    assert (
        json.loads(capsys.readouterr().out)["fit"]["kv_budget_bytes_per_gpu"] == (80 * 10**9 - 16_060_000_000) * 9 // 10
    )
    assert run([*argv, "--", "trtllm-serve", "x", "--kv_cache_free_gpu_memory_fraction", "0.5"]) == 0
    assert json.loads(capsys.readouterr().out)["fit"]["kv_budget_bytes_per_gpu"] == (80 * 10**9 - 16_060_000_000) // 2


@pytest.mark.parametrize(
    ("preset", "options", "flags", "words"),
    [
        ("llama3.1-8b", {}, "--use_kv_cache_manager_v2", "byte quotas"),
        ("gemma4-e2b", {"pp": 2}, "", "would keep no cache"),
        ("qwen3-next-80b", {}, "", "tensorrt-llm's rule for deltanet state is not known"),
    ],
)
def test_what_has_no_rule_is_refused(preset: str, options: dict[str, int], flags: str, words: str) -> None:
    """One line that names it."""
    with pytest.raises(KvcalcError) as refused:
        reservation(preset, "tensorrt-llm", flags, **options)
    assert words in refused.value.message


# Two layers of 2 KV heads of 64 + 64 elements in bf16, 512 B a token each; one of them has a window of 1,024 tokens.
HALF = {
    "name": "M-1", "dtype": "bf16", "heads": 4, "kv_heads": 2, "head_dim": 64, "layers": "sliding, full",
    "caches": {"sliding": {"window": 1024}}, "max_context": 131072,
}  # fmt: skip


@pytest.mark.parametrize(
    ("context", "blocks", "tokens"),
    [
        # up to its length a window is no window: one pool of 1,024 B a token, 256 blocks of 32
        (1_023, None, 8_192),
        (1_024, None, 8_192),
        # past it each kind has half of the bytes, at 512 B a token
        (1_025, 8_192, 8_192),
    ],
)
def test_a_window_as_long_as_the_context_is_none(context: int, blocks: int | None, tokens: int) -> None:
    """8 MiB, as one pool and as two."""
    found = counted(HALF, "tensorrt-llm", 8 * 2**20, context=context)
    assert (found.tokens, found.values.get("swa_tokens")) == (tokens, blocks)


@pytest.mark.parametrize(
    ("context", "batch", "budget", "fits"),
    [
        # one pool: 1,024 tokens of 1,024 B
        (1_024, 8, 8 * 2**20, True),
        (1_024, 8, 8 * 2**20 - 1, False),
        # two: 2,048 tokens of 512 B in the half of the full layer, 1,024 in the other's, which stays half empty
        (2_048, 4, 8 * 2**20, True),
        (2_048, 4, 8 * 2**20 - 1, False),
        (2_048, 5, 8 * 2**20, False),
    ],
)
def test_both_halves_must_hold_their_kind(context: int, batch: int, budget: int, fits: bool) -> None:
    """Equal bytes for each kind, whatever each needs."""
    assert reservation(HALF, "tensorrt-llm", context=context, batch=batch).allocation.fits(budget) is fits


def test_the_stage_that_holds_most_tells_the_tokens() -> None:
    """Three layers of 512 B on two stages are one and two: 8 MiB hold 8,192 tokens of two, 16,384 of one."""
    three = {**HALF, "layers": "3 full"}
    del three["caches"]
    assert counted(three, "tensorrt-llm", 8 * 2**20, context=1_024, pp=2).tokens == 8_192
