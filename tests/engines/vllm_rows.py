"""Rows of vLLM 0.33.0's own planning code, run without an engine on specs built by hand from the facts of each preset.

`get_global_kv_cache_groups`, `get_kv_cache_configs`, `get_kv_cache_capacity` and `MambaStateShapeCalculator`, with 8,192
batched tokens and asynchronous scheduling; alignment and checkpoints as on Hopper. Blocks beside layers that are left
out of a format: `_align_heterogeneous_kv_block_size`, and `customize_spec` of each backend.
"""

from typing import Any, NamedTuple

__all__ = ["FLAGGED", "ROWS", "Row"]


class Row(NamedTuple):
    """A preset, flags, options, and GiB for the cache on each GPU; then what the planning code makes of them."""

    preset: str
    flags: str
    options: dict[str, Any]
    gib: int
    bytes_per_block: int
    blocks: int
    tokens: int
    concurrency: float
    groups: int


ROWS = (
    Row("llama3.1-8b", "", {"context": 100001}, 20, 2_097_152, 10_240, 163_815, 1.64, 1),
    Row("llama3.3-70b", "", {"context": 131072, "tp": 8, "pp": 2, "kv_dtype": "fp8"},
        60, 163_840, 393_216, 6_291_456, 48.0, 1),
    Row("qwen3-235b-a22b", "", {"context": 40960, "tp": 8}, 40, 770_048, 55_775, 892_400, 21.79, 1),
    Row("phi-4", "", {"context": 16384, "tp": 2}, 30, 1_638_400, 19_660, 314_560, 19.2, 1),
    Row("falcon-40b", "", {"context": 2048, "tp": 4}, 30, 491_520, 65_536, 1_048_576, 512.0, 1),
    Row("gpt2", "", {"context": 1000}, 4, 1_179_648, 3_640, 57_777, 57.78, 1),
    Row("gemma2-27b", "", {"context": 8192}, 20, 3_014_656, 7_123, 56_928, 6.95, 2),
    Row("gemma3-27b", "", {"context": 131072, "tp": 8}, 40, 163_840, 262_144, 2_333_270, 17.8, 7),
    Row("gemma3-27b", "", {"context": 100001, "pp": 3, "kv_dtype": "fp8"}, 40, 262_144, 163_840, 865_558, 8.66, 7),
    Row("gemma4-31b", "", {"context": 262144, "tp": 2}, 60, 1_310_720, 49_152, 944_848, 3.6, 6),
    Row("gemma3n-e4b", "", {"context": 32768}, 10, 131_072, 81_920, 427_717, 13.05, 5),
    Row("gpt-oss-120b", "", {"context": 131072, "tp": 4}, 30, 147_456, 218_453, 3_103_856, 23.68, 2),
    Row("gpt-oss-120b", "", {"context": 10000, "tp": 8, "pp": 2}, 30, 36_864, 873_813, 6_984_916, 698.49, 2),
    Row("mistral-7b-v0.1", "", {"context": 32768}, 20, 2_097_152, 10_240, 261_939, 7.99, 1),
    Row("olmo3.1-32b", "", {"context": 65536, "tp": 2}, 40, 524_288, 81_920, 676_245, 10.32, 4),
    Row("step-3.7-flash", "", {"context": 131072, "tp": 8}, 40, 98_304, 436_906, 5_039_702, 38.45, 4),
    Row("llama4-maverick", "--disable-hybrid-kv-cache-manager", {"context": 1000000, "tp": 8},
        60, 393_216, 163_840, 2_621_440, 2.62, 1),
    Row("deepseek-v3", "", {"context": 163840, "tp": 8, "kv_dtype": "fp8"}, 40, 2_248_704, 19_099, 1_222_336, 7.46, 1),
    Row("deepseek-v3", "", {"context": 100001, "pp": 4}, 40, 294_912, 145_635, 2_329_810, 23.3, 1),
    Row("kimi-k2.5", "", {"context": 262144, "tp": 8, "kv_dtype": "fp8"}, 40, 2_248_704, 19_099, 1_222_336, 4.66, 1),
    Row("longcat-flash", "", {"context": 131072, "tp": 8}, 40, 1_032_192, 41_610, 665_760, 5.08, 1),
    Row("deepseek-v3.2", "", {"context": 163840, "pp": 2, "kv_dtype": "fp8"},
        40, 1_563_392, 27_472, 1_758_208, 10.73, 1),
    Row("glm-5.2", "", {"context": 200000, "tp": 8}, 40, 5_928_192, 7_244, 463_616, 2.32, 1),
    Row("glm-5.2", "", {"context": 131072, "tp": 8, "kv_dtype": "fp8"}, 40, 3_452_160, 12_441, 796_224, 6.07, 1),
    Row("minimax-m3", "", {"context": 100001, "tp": 2}, 40, 9_732_096, 4_413, 564_327, 5.64, 1),
    Row("deepseek-v4-flash", "", {"context": 1048576}, 40, 1_002_240, 42_853, 4_169_106, 3.98, 5),
    Row("deepseek-v4-flash", "", {"context": 131072, "tp": 8, "pp": 2}, 40, 524_160, 81_940, 1_020_722, 7.79, 5),
    Row("deepseek-v4-pro", "", {"context": 1000000, "tp": 8}, 60, 1_435_968, 44_864, 4_236_849, 4.24, 5),
    Row("falcon-mamba-7b", "", {"context": 8192}, 10, 19_922_944, 538, 4_407_296, 538.0, 1),
    Row("jamba-1.5-mini", "", {"context": 262144}, 40, 1_310_720, 32_768, 2_610_129, 9.96, 8),
    Row("jamba-1.5-mini", "", {"context": 100001, "tp": 8}, 40, 163_840, 262_144, 20_723_053, 207.23, 8),
    Row("nemotron3-nano-30b", "", {"context": 262144}, 40, 12_877_824, 3_335, 6_335_146, 24.17, 5),
    Row("nemotron3-ultra-550b", "", {"context": 131072, "tp": 8}, 40, 12_779_520, 3_360, 5_794_762, 44.21, 5),
    Row("granite4-h-small", "", {"context": 131072}, 40, 8_650_752, 4_964, 2_357_396, 17.99, 10),
    Row("zamba2-7b", "", {"context": 4096}, 40, 17_891_328, 2_400, 91_872, 22.43, 8),
    Row("qwen3-next-80b", "", {"context": 262144, "tp": 4, "kv_dtype": "fp8"},
        40, 3_538_944, 12_136, 6_841_676, 26.1, 4),
    Row("qwen3.5-397b-a17b", "", {"context": 262144, "tp": 8}, 40, 8_847_360, 4_854, 2_736_445, 10.44, 4),
    Row("qwen3.5-27b", "", {"context": 100001, "pp": 2}, 40, 27_262_976, 1_575, 1_211_550, 12.12, 4),
    Row("kimi-linear-48b", "", {"context": 1048576, "tp": 8}, 40, 2_064_384, 20_805, 5_318_289, 5.07, 4),
    Row("kimi-k3", "", {"context": 1048576, "tp": 8}, 100, 21_233_664, 5_056, 3_855_709, 3.68, 4),
    Row("minimax-text-01", "", {"context": 1000000, "tp": 8}, 60, 2_621_440, 24_576, 12_487_804, 12.49, 8),
    Row("nemotron-super-49b", "", {"context": 131072, "pp": 4}, 30, 1_310_720, 24_576, 393_216, 3.0, 1),
    Row("whisper-large-v3-turbo", "", {"context": 448}, 10, 327_680, 32_768, 27_185, 60.68, 2),
    Row("openelm-270m", "", {"context": 2048}, 4, 258_048, 16_644, 266_304, 130.03, 1),
)  # fmt: skip

FLAGGED = (
    Row("deepseek-v3", "--spec-method mtp --spec-tokens 2", {"context": 163840},
        100, 1_142_784, 93_958, 1_503_328, 9.18, 1),
    Row("deepseek-v3.2", "--spec-method mtp --spec-tokens 2", {"context": 163840},
        100, 5_094_912, 21_074, 1_348_736, 8.23, 1),
    Row("qwen3.5-27b", "--spec-method mtp --spec-tokens 2", {"context": 131072},
        100, 57_933_824, 1_853, 1_403_909, 10.71, 4),
    Row("nemotron3-super-120b", "--spec-method mtp --spec-tokens 2", {"context": 131072, "kv_dtype": "bf16"},
        100, 38_780_928, 2_768, 6_365_040, 48.56, 6),
    Row("nemotron3-super-120b", "--spec-method mtp --spec-tokens 2", {"context": 131072, "pp": 2, "kv_dtype": "bf16"},
        100, 21_544_960, 4_983, 11_458_452, 87.42, 6),
    Row("glm4.6", "--spec-method mtp --spec-tokens 2", {"context": 131072}, 100, 6_094_848, 17_617, 281_872, 2.15, 1),
    Row("minimax-m3", "--spec-method mtp --spec-tokens 2", {"context": 100001},
        100, 17_891_328, 6_001, 767_398, 7.67, 1),
    Row("deepseek-v4-flash", "--spec-method mtp --spec-tokens 2", {"context": 131072},
        100, 1_002_240, 107_134, 1_951_941, 14.89, 5),
    Row("glm-5.2", "--spec-method mtp --spec-tokens 2", {"context": 131072},
        100, 6_010_368, 17_864, 1_143_296, 8.72, 1),
    Row("gpt-oss-20b", "--num-gpu-blocks-override 20000", {"context": 8192}, 40, 393_216, 20_000, 159_843, 19.51, 2),
    Row("qwen3-next-80b", "--num-gpu-blocks-override 20000", {"context": 8192},
        40, 14_155_776, 20_000, 6_826_666, 833.33, 4),
    Row("deepseek-v4-flash", "--num-gpu-blocks-override 20000", {"context": 8192},
        40, 1_002_240, 20_000, 48_703, 5.95, 5),
    Row("deepseek-v3", "", {"context": 100001, "tp": 8, "dcp": 4}, 60, 1_124_352, 57_299, 3_665_999, 36.66, 1),
    Row("deepseek-v3.2", "", {"context": 100001, "tp": 8, "dcp": 2}, 60, 5_012_736, 12_852, 1_643_494, 16.43, 1),
    Row("qwen3-235b-a22b", "", {"context": 100001, "tp": 16, "dcp": 2}, 60, 770_048, 83_662, 2_676_354, 26.76, 1),
    Row("qwen3-235b-a22b", "", {"context": 100001, "tp": 8, "dcp": 2}, 60, 770_048, 83_662, 2_676_354, 26.76, 1),
    Row("kimi-linear-48b", "", {"context": 100001, "tp": 8, "dcp": 4}, 60, 2_064_384, 31_207, 30_007_030, 300.07, 4),
    Row("llama3.1-8b", "", {"context": 100001, "tp": 16, "dcp": 2}, 60, 262_144, 245_760, 7_861_882, 78.62, 1),
    Row("llama3.1-8b", "--kv-cache-dtype turboquant_k8v4", {"context": 32768},
        40, 2_893_824, 14_841, 712_020, 21.73, 1),
    Row("llama3.1-8b", "--kv-cache-dtype turboquant_4bit_nc", {"context": 32768},
        40, 2_969_600, 14_463, 925_632, 28.25, 1),
    Row("llama3.1-8b", "--kv-cache-dtype turboquant_k3v4_nc", {"context": 32768},
        40, 3_425_280, 12_539, 1_002_141, 30.58, 1),
    Row("llama3.1-8b", "--kv-cache-dtype turboquant_3bit_nc", {"context": 32768},
        40, 3_766_272, 11_403, 1_092_554, 33.34, 1),
    Row("llama3.1-8b", "--kv-cache-dtype int8_per_token_head", {"context": 32768},
        40, 1_081_344, 39_718, 635_488, 19.39, 1),
    Row("llama3.1-8b", "--kv-cache-dtype int4_per_token_head", {"context": 32768},
        40, 557_056, 77_101, 1_233_616, 37.65, 1),
    Row("gemma3-27b", "--kv-cache-dtype fp8_per_token_head", {"context": 32768}, 40, 675_840, 63_550, 242_648, 7.41, 7),
    Row("gpt-oss-20b", "--kv-cache-dtype int8_per_token_head", {"context": 100001},
        40, 208_896, 205_603, 2_822_694, 28.23, 2),
    Row("gpt-oss-20b", "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers sliding_window", {"context": 32768},
        40, 393_216, 109_226, 1_739_969, 53.1, 2),
    Row("gemma3-27b", "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers sliding_window", {"context": 100001},
        40, 1_310_720, 32_768, 339_216, 3.39, 7),
    Row("llama3.1-8b", "--kv-cache-dtype fp8 --kv-cache-dtype-skip-layers 0 5", {"context": 32768},
        40, 2_228_224, 19_275, 616_800, 18.82, 1),
    Row("llama3.1-8b", "--kv-cache-dtype int4_per_token_head --kv-cache-dtype-skip-layers 0 31", {"context": 32768},
        40, 2_613_248, 16_435, 1_051_840, 32.1, 1),
    Row("gemma3-27b", "--kv-cache-dtype int4_per_token_head --kv-cache-dtype-skip-layers sliding_window",
        {"context": 100001}, 40, 1_392_640, 30_840, 380_885, 3.81, 7),
    Row("gemma3-27b", "--kv-cache-dtype int4_per_token_head --kv-cache-dtype-skip-layers 0 5", {"context": 100001},
        40, 524_288, 81_920, 267_348, 2.67, 62),
)  # fmt: skip
