"""The shipped presets against a reference table computed by hand from the published configurations.

Source of all numbers: a comparison of sixteen KV-cache calculators, whose reference column was worked out from the
published config.json files (bf16, batch 1). The arithmetic of each row stands beside it.
"""

from typing import NamedTuple

import pytest

from kvcalc.core import request
from kvcalc.core.sizing import Size, measure
from kvcalc.library import loader


class Row(NamedTuple):
    """A model at a context: bytes that one more token adds, bytes that no longer grow, bytes in all."""

    preset: str
    context: int
    slope: int
    fixed: int
    total: int


# Qwen3-Next's state, "about 77.3 MB": a gated delta layer keeps 3 columns of q, k and v (2 x 16 x 128 + 32 x 128 = 8,192
# elements, bf16) and 32 matrices of 128 x 128 in float32: 3 x 8,192 x 2 + 524,288 x 4 = 2,146,304 B, in 36 layers.
QWEN3_NEXT_STATE = 36 * 2_146_304

TABLE = (
    # 80 layers x 2 x 8 heads x 128 x 2 B
    Row("llama3-70b", 131_072, 327_680, 0, 42_949_672_960),
    # 36 layers x 2 x 8 heads x 128 x 2 B
    Row("qwen3-4b", 40_960, 147_456, 0, 6_039_797_760),
    # 61 layers x (512 + 64) x 2 B
    Row("deepseek-v3", 131_072, 70_272, 0, 9_210_691_584),
    # 61 layers x (576 x 2 + 132) B
    Row("deepseek-v3.2", 131_072, 78_324, 0, 10_266_083_328),
    # 8 heads x 256: 8,192 B a token and layer; 21 full, 21 hold 4,096 tokens
    Row("gemma2-9b", 8_192, 172_032, 704_643_072, 2_113_929_216),
    # 16 heads x 128: 8,192 B a token and layer; 10 full, 52 hold 1,024 tokens
    Row("gemma3-27b", 131_072, 81_920, 436_207_616, 11_173_625_856),
    # 8 heads x 256: 8,192 B a token and layer; 8 full, 40 hold 1,024 tokens
    Row("gemma3-12b", 131_072, 65_536, 335_544_320, 8_925_478_912),
    # 8 heads x 64: 2,048 B a token and layer; 18 full, 18 hold 128 tokens
    Row("gpt-oss-120b", 131_072, 36_864, 4_718_592, 4_836_556_800),
    # 2 heads x 256: 2,048 B a token and layer; 12 full
    Row("qwen3-next-80b", 131_072, 24_576, QWEN3_NEXT_STATE, 3_298_492_416),
    # 8 heads x 128: 4,096 B a token and layer; 12 full, 36 hold a chunk of 8,192 tokens
    Row("llama4-scout", 131_072, 49_152, 1_207_959_552, 7_650_410_496),
    # 8 heads x 128: 4,096 B a token and layer; all 32 hold 4,096 tokens
    Row("mistral-7b-v0.1", 32_768, 0, 536_870_912, 536_870_912),
    # one head of 64: 256 B a token and layer; 32 layers
    Row("falcon-7b", 2_048, 8_192, 0, 16_777_216),
    # 4 attention layers of 4,096 B; 28 Mamba layers of 8,192 x (3 x 2 + 16 x 4) B
    Row("jamba-1.5-mini", 131_072, 16_384, 16_056_320, 2_163_539_968),
    # 4 attention layers of 4,096 B; 24 Mamba-2 layers of 10,240 x 3 x 2 + 128 x 64 x 128 x 4 B
    Row("nemotron-h-8b", 8_192, 16_384, 102_137_856, 236_355_584),
    # 7 latent layers of 1,152 B; 20 KDA layers of 12,288 x 3 x 2 + 32 x 128 x 128 x 4 B
    Row("kimi-linear-48b", 131_072, 8_064, 43_417_600, 1_100_382_208),
    # 2 heads x 256: 2,048 B a token and layer; 4 full, 16 hold 512 tokens, 15 reuse them
    Row("gemma3n-e4b", 32_768, 8_192, 16_777_216, 285_212_672),
    # 20 heads x 64: 5,120 B a token and layer; 32 self, 32 cross over 1,500 frames
    Row("whisper-large-v3", 448, 163_840, 245_760_000, 319_160_320),
)


def bf16(preset: str, context: int, encoder_tokens: int | None = None) -> Size:
    """A shipped preset sized as the table has it."""
    model = loader.load(preset)
    return measure(request.ask(model, context=context, kv_dtype="bf16", encoder_tokens=encoder_tokens))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.preset)
def test_reference_table(row: Row) -> None:
    """A shipped preset has the slope, fixed part and total of the reference table."""
    actual = bf16(row.preset, row.context)
    found = (actual.bytes_per_token, actual.fixed_bytes_per_sequence, actual.bytes_per_sequence)
    assert found == (row.slope, row.fixed, row.total)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.preset)
def test_reference_table_adds_up(row: Row) -> None:
    """The table itself is consistent: slope x context + fixed part is the total."""
    assert row.slope * row.context + row.fixed == row.total


@pytest.mark.parametrize(("tokens", "encoder_tokens"), [(1, 1), (512, 512), (100, 2_000)])
def test_t5_xl_takes_two_lengths(tokens: int, encoder_tokens: int) -> None:
    """T5-XL keeps 196,608 B for each decoder token and as much for each encoder token (24 x 2 x 32 x 64 x 2 B)."""
    actual = bf16("flan-t5-xl", tokens, encoder_tokens)
    assert (actual.bytes_per_token, actual.fixed_bytes_per_sequence, actual.bytes_per_sequence) == (
        196_608,
        196_608 * encoder_tokens,
        196_608 * (tokens + encoder_tokens),
    )


def test_worked_example_of_llama_3_70b() -> None:
    """The first worked example: an eighth of the textbook size, at one sequence and at eight."""
    actual = measure(request.ask(loader.load("llama3-70b"), batch=8))
    assert actual.request.context == 4_096
    assert (actual.bytes_per_token, actual.bytes_per_sequence, actual.bytes_total) == (
        320 * 1024,
        1_342_177_280,
        10 * 1024**3,
    )
    assert actual.textbook is not None
    assert actual.textbook[:3] == (2_621_440, 10 * 1024**3, 80 * 1024**3)


def test_kv_heads_all_is_the_textbook_size() -> None:
    """--kv-heads all gives the textbook size of a model with full attention."""
    actual = measure(request.ask(loader.load("llama3-70b"), kv_heads="all"))
    assert actual.bytes_per_sequence == 10_737_418_240
