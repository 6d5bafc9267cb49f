"""Numbers that papers, vendors and engines' logs have printed, recomputed to the byte.

`published` is the number as printed, in the unit that was meant (many print GB and mean GiB). Each row must print back to
those digits.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import pytest

from kvcalc.core import request
from kvcalc.core.model import Attention, Model
from kvcalc.core.sizing import measure
from kvcalc.library import loader

UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


class Row(NamedTuple):
    """A published number. `of`: all GPUs together without replication, one GPU, all tp ranks' copies, or one GPU's keys."""

    id: str
    model: str
    context: int
    bytes: int
    published: str
    unit: str
    batch: int = 1
    kv_dtype: str = "bf16"
    kv_heads: int | None = None
    tp: int = 1
    of: Literal["total", "gpu", "ranks", "keys"] = "total"


def plain(name: str, layers: int, heads: int, head_dim: int) -> str:
    """A preset of a multi-head model for which none ships."""
    return (
        f"{{name: {name}, dtype: fp16, heads: {heads}, kv_heads: {heads}, head_dim: {head_dim}, layers: {layers} full}}"
    )


OPT_175B = plain("OPT-175B", 96, 96, 128)  # hidden size 12,288
OPT_30B = plain("OPT-30B", 48, 56, 128)  # hidden size 7,168
LONGALPACA_7B = plain("LongAlpaca-7B", 32, 32, 128)
EMBEDDER = plain("embedding model 12 x 384", 12, 12, 32)

# One attention module of DeepSeek V4 with entries compressed 128:1 beside its window of 128.
C128A = """
name: V4 c128a layer
dtype: bf16
heads: 64
layers: window+hca
caches:
  window: {kind: sliding, window: 128, kv_heads: 1, k_dim: 512, v_dim: 0}
  hca: {kind: compressed, ratio: 128, dim: 512}
"""

TABLE = (
    # NVIDIA developer blog 2023-11, Mastering LLM Techniques: Inference Optimization
    Row("nv-llama2-7b", "llama2-7b", 4_096, 2_147_483_648, "2", "GiB"),
    # Hugging Face blog 2024-07, Llama 3.1: 1k is 1,024 there, 16k and 128k are 16,000 and 128,000
    Row("hf-llama31-8b-1k", "llama3.1-8b", 1_024, 134_217_728, "0.125", "GiB"),
    Row("hf-llama31-8b-128k", "llama3.1-8b", 128_000, 16_777_216_000, "15.62", "GiB"),
    Row("hf-llama31-70b-1k", "llama3.1-70b", 1_024, 335_544_320, "0.313", "GiB"),
    Row("hf-llama31-70b-128k", "llama3.1-70b", 128_000, 41_943_040_000, "39.06", "GiB"),
    # The configuration first uploaded for 405B had 16 KV heads, the one that stands today has 8.
    Row("hf-llama31-405b-16k", "llama3.1-405b", 16_000, 16_515_072_000, "15.38", "GiB", kv_heads=16),
    # Jamba-1.5 report, Table 1: KV cache at 256K context, 16 bit
    Row("jamba-mixtral-8x7b", "mixtral-8x7b", 262_144, 34_359_738_368, "32", "GiB"),
    Row("jamba-mixtral-8x22b", "mixtral-8x22b", 262_144, 60_129_542_144, "56", "GiB"),
    Row("jamba-llama31-70b", "llama3.1-70b", 262_144, 85_899_345_920, "80", "GiB"),
    Row("jamba-llama31-405b", "llama3.1-405b", 262_144, 270_582_939_648, "252", "GiB", kv_heads=16),
    # DeepSeek-AI 2025, Insights into DeepSeek-V3 (ISCA 25), Table 1
    Row("ds-v3-token", "deepseek-v3", 1, 70_272, "70.272", "KB"),
    # Sheng et al. 2023, FlexGen: 512 tokens in, 32 out
    Row("flexgen-opt175b", OPT_175B, 544, 1_314_259_992_576, "1.2", "TiB", batch=512),
    # Zhang et al. 2023, H2O
    Row("h2o-30b", OPT_30B, 1_024, 180_388_626_432, "180", "GB", batch=128),
    # Databricks 2023, LLM Inference Performance Engineering: Best Practices, Table 3
    Row("databricks-70b-b16-int8", "llama2-70b", 1_024, 2_684_354_560, "2.5", "GiB", batch=16, kv_dtype="int8"),
    # Qin et al. 2025, Mooncake (FAST 25)
    Row("mooncake-320", "llama3-70b", 1, 327_680, "320", "KiB"),
    # Mooncake documentation, vLLM PD disaggregation: a block of 16 tokens more than the prompt is moved
    Row("mooncake-qwen3-8b-256", "qwen3-8b", 256 + 16, 40_108_032, "38", "MiB"),
    Row("mooncake-qwen3-8b-1024", "qwen3-8b", 1_024 + 16, 153_354_240, "146", "MiB"),
    Row("mooncake-qwen3-8b-16384", "qwen3-8b", 16_384 + 16, 2_418_278_400, "2.25", "GiB"),
    Row("mooncake-qwen3-8b-32768", "qwen3-8b", 32_768 + 16, 4_834_197_504, "4.5", "GiB"),
    # Mooncake documentation, SGLang PD disaggregation, tp 8: each of the 4 KV heads is held twice
    Row("mooncake-qwen3-235b-1024", "qwen3-235b-a22b", 1_024, 394_264_576, "394", "MB", tp=8, of="ranks"),
    Row("mooncake-qwen3-235b-2048", "qwen3-235b-a22b", 2_048, 788_529_152, "789", "MB", tp=8, of="ranks"),
    Row("mooncake-qwen3-235b-8192", "qwen3-235b-a22b", 8_192, 3_154_116_608, "3.15", "GB", tp=8, of="ranks"),
    Row("mooncake-qwen3-235b-32768", "qwen3-235b-a22b", 32_768, 12_616_466_432, "12.62", "GB", tp=8, of="ranks"),
    # vLLM blog 2026-01, KV offloading connector: one block of 16 tokens (64 for DeepSeek) on one GPU
    Row("vllm-blk-llama-31-70b-instruct", "llama3.1-70b", 16, 1_310_720, "1.25", "MiB", tp=4, of="gpu"),
    Row("vllm-blk-qwen3-06b", "qwen3-0.6b", 16, 1_835_008, "1.75", "MiB", of="gpu"),
    Row("vllm-blk-qwen3-4b-instruct-2507", "qwen3-4b", 16, 2_359_296, "2.25", "MiB", of="gpu"),
    Row("vllm-blk-qwen25-15b-instruct", "qwen2.5-1.5b", 16, 458_752, "0.44", "MiB", of="gpu"),
    Row("vllm-blk-dsv2lite", "deepseek-v2-lite", 64, 1_990_656, "1.9", "MiB", of="gpu"),
    # vLLM blog 2026-04, DeepSeek V4: (128 + n / 128) entries of 1,024 B
    Row("dsv4-c128a", C128A, 1_048_576, 8_519_680, "8.1", "MiB"),
    # JAX team, How to Scale Your Model, inference chapters
    Row("sb-13b", "llama2-13b", 8_192, 6_710_886_400, "6.7", "GB"),
    # Bekman, Machine Learning Engineering, inference chapter (Llama 3.1 8B)
    Row("stas-8b-1024", "llama3.1-8b", 1_024, 134_217_728, "134", "MB"),
    # Start-up logs of engines, quoted in public repositories
    Row("log-trt-qwen25-15b", "qwen2.5-1.5b", 273_792, 7_850_164_224, "7.31", "GiB"),
    Row("log-trt-8b", "llama3-8b", 12_800, 1_677_721_600, "1.56", "GiB", kv_dtype="fp16"),
    Row("log-llamacpp-gqa", "llama3-8b", 8_192, 1_073_741_824, "1.0", "GiB", kv_dtype="fp16"),
    Row("log-llamacpp-bert", EMBEDDER, 512, 9_437_184, "9", "MiB", kv_dtype="fp16"),
    Row("log-sglang-qwen32b", "qwen2.5-32b", 46_611, 1_527_349_248, "1.42", "GiB", tp=4, of="keys"),
    # A survey of 2025 papers; the second has 1K = 1,000 tokens and GB = GiB
    Row("survey-cake-7b", LONGALPACA_7B, 1, 524_288, "512", "KiB"),
    Row("survey-evic-8b", "llama3.1-8b", 1_000, 131_072_000, "0.12", "GiB"),
    # Gao et al. 2024, CachedAttention (USENIX ATC 24)
    Row("cached-65b", "llama-65b", 1, 2_621_440, "2.5", "MiB"),
)  # fmt: skip

# The one published size that is not recomputed: it multiplies a rounded 162 kB a token by 32,768.
ROUNDED_INPUT = "sb-70b-32k"


def _without_values(model: Model) -> Model:
    """The model with its values left out: what an engine that logs keys and values apart calls the size of K."""
    layers = tuple(tuple(c._replace(v_dim=0) for c in layer if isinstance(c, Attention)) for layer in model.layers)
    return replace(model, layers=layers)


def computed(row: Row) -> int:
    """The bytes that a row speaks of, as we compute them."""
    inline = ":" in row.model
    model = loader.load_text(row.model.encode(), row.id) if inline else loader.load(row.model)
    asked = request.ask(
        model, context=row.context, batch=row.batch, kv_dtype=row.kv_dtype, kv_heads=row.kv_heads, tp=row.tp
    )
    if row.of == "keys":
        no_values = asked._replace(model=_without_values(asked.model))
        return measure(no_values).bytes_per_gpu
    measured = measure(asked)
    match row.of:
        case "total":
            return measured.bytes_total
        case "gpu":
            return measured.bytes_per_gpu
        case "ranks":
            return measured.bytes_per_gpu * row.tp


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_published_bytes(row: Row) -> None:
    """A published size comes out to the byte."""
    assert computed(row) == row.bytes


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_published_digits(row: Row) -> None:
    """The bytes print back to the published digits: they lie within half a unit of the last one."""
    half_of_last_digit = Fraction(1, 2 * 10 ** len(row.published.partition(".")[2]))
    assert abs(Fraction(computed(row), UNITS[row.unit]) - Fraction(row.published)) <= half_of_last_digit


def test_every_recorded_size_is_here(shared_json: Callable[[str], Any]) -> None:
    """The table holds every published cache size that the maintainers recorded with its inputs, and the same bytes."""
    recorded = {
        case["id"]: (case["computed"]["raw"], case["unit_meaning"], Fraction(str(case["published"]["value"])))
        for case in shared_json("cases/published_numbers.json")
        if case["kind"] == "kv_bytes" and case["inputs"] and case["id"] != ROUNDED_INPUT
    }
    assert {row.id: (row.bytes, row.unit, Fraction(row.published)) for row in TABLE} == recorded


def test_how_much_smaller_deepseek_v4_is() -> None:
    """vLLM's post on DeepSeek V4 (2026-04) prints 8.7 times less than V3.2, at 1,048,576 tokens with all in bf16.

    V3.2 then keeps 61 x (512 + 64 latent + 128 index) x 2 B a token: 90,060,095,488 B, where its own index keys have 8
    bits. The two together are 8.7146 to 1.
    """
    in_bf16 = 61 * (512 + 64 + 128) * 2 * 1_048_576
    v32, v4 = (
        measure(request.ask(loader.load(name), context=1_048_576)).bytes_per_sequence
        for name in ("deepseek-v3.2", "deepseek-v4-pro")
    )
    assert in_bf16 == 90_060_095_488
    assert v32 == in_bf16 - 61 * (256 - 132) * 1_048_576  # 128 index elements of 2 B, or 128 of 1 B and a scale of 4 B
    assert round(in_bf16 / v4, 4) == 8.7146
