"""SGLang's numbers: its formulas on the models of the maintainers' specs (engines-gpu.md B and D.2), and posted logs."""

from typing import Any

import pytest

from .asking import counted, reservation

GIB = 2**30


@pytest.mark.parametrize(
    ("preset", "options", "flags", "tokens", "further"),
    [
        # D.2: 40 GiB
        ("llama3.1-8b", {}, "", 327_680, {}),
        ("deepseek-v3", {}, "", 611_191, {}),
        ("deepseek-v3", {}, "--page-size 64", 611_136, {}),
        ("deepseek-v3.2", {"kv_dtype": "fp8"}, "", 893_504, {}),
        ("deepseek-v3.2", {}, "", 548_352, {}),
        ("gpt-oss-20b", {}, "", 970_903, {"swa_tokens": 776_722}),
        ("qwen3-next-80b", {}, "", 920_754, {"state_slots": 262}),
        ("qwen3-next-80b", {}, "--mamba-ssm-dtype bfloat16", 921_114, {"state_slots": 513}),
    ],
)  # fmt: skip
def test_tokens_in_forty_gib(
    preset: str, options: dict[str, Any], flags: str, tokens: int, further: dict[str, int]
) -> None:
    """Cells, pages, the window ratio and the pool of states."""
    found = counted(preset, "sglang", 40 * GIB, flags, **options)
    assert found.tokens == tokens
    assert {key: found.values[key] for key in further} == further


@pytest.mark.parametrize(
    ("preset", "options", "cell", "source"),
    [
        # (tokens + page) x cell, as the logs have it: Kimi K2.5 2,454,421 tokens in 160.63 GiB, DeepSeek V3 fp8 524,288 in
        # 17.16 GiB; Qwen3-30B-A3B 1,669,816 in 2 x 76.44 GiB (E330); Qwen2.5-0.5B 20,480 in 2 x 0.12 GiB (E439)
        ("kimi-k2.5", {}, 61 * 576 * 2, (2_454_421, "160.63")),
        ("deepseek-v3", {"kv_dtype": "fp8"}, 61 * 576, (524_288, "17.16")),
        ("qwen3-30b-a3b", {}, 48 * 4 * 256 * 2, (1_669_816, "152.88")),
        ("qwen2.5-0.5b", {}, 24 * 2 * 128 * 2, (20_480, "0.23")),
    ],
)  # fmt: skip
def test_a_cell_is_what_logs_divide_by(
    preset: str, options: dict[str, Any], cell: int, source: tuple[int, str]
) -> None:
    """The bytes of a token, worked out by hand, agree with the memory that SGLang logs for its tokens."""
    tokens, logged = source
    assert f"{(tokens + 1) * cell / GIB:.2f}" == logged
    assert reservation(preset, "sglang", **options).plan.values["bytes_per_block"] == cell


def test_gemma_3_is_sized_as_if_all_layers_were_full() -> None:
    """Its architecture is on no list of those with windows: 62 layers x 16 x 256 x 2 B a token."""
    assert counted("gemma3-27b", "sglang", 40 * GIB).tokens == 40 * GIB // (62 * 16 * 256 * 2)


@pytest.mark.parametrize(
    ("vram", "tp", "preset", "fraction"),
    [
        # 80 GiB, tp 1, chunk 8,192: 512 + 12,288 + 128 + 2 x 256 + 8 x 58 lengths = 13,904 of 81,920 MiB: 0.830
        (80 * GIB, 1, "llama3-70b", 830),
        # 24 GiB, tp 1, chunk 4,096: 512 + 6,144 + 128 + 2 x 48 + 8 x 50 = 7,280 of 24,576: 0.704
        (24 * GIB, 1, "llama3-8b", 704),
        # a latent takes 1,536 MiB of graphs: 512 + 12,288 + 1,024 + 2 x 512 + 1,536 = 16,384 of 81,920: 0.8
        (80 * GIB, 8, "deepseek-v3", 800),
    ],
)  # fmt: skip
def test_the_default_share_of_the_memory(vram: int, tp: int, preset: str, fraction: int) -> None:
    """R = 512 + 1.5 x chunk + tp x pp / 8 x 1,024 + graphs, in MiB.

    Lengths that are captured: 8 + 14 + 8 + 8 + 12 up to 4,096, then each 512 tokens.
    """
    found = reservation(preset, "sglang", tp=tp)
    share = found.engine.utilization(found.question, vram)
    assert (share.part, share.of) == (fraction, 1000)
