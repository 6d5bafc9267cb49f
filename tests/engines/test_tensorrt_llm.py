"""TensorRT-LLM's numbers: its formulas on the models of the maintainers' specs (engines-gpu.md C and D.2), posted logs."""

import pytest

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
    plan = reservation(preset, f"tensorrt-llm{version}", **options).plan
    block, width = plan.values["block_size"], plan.values["bytes_per_block"]
    assert isinstance(block, int)
    assert isinstance(width, int)
    assert tokens % block == 0
    assert f"{tokens // block * width / GIB:.2f}" == logged


def test_what_depends_on_the_revision_is_refused() -> None:
    """The factor of index keys was another in each revision read."""
    with pytest.raises(KvcalcError, match="tensorrt-llm's factor for index keys"):
        reservation("deepseek-v3.2", "tensorrt-llm")
