"""The mixes of types in files of a format."""

import pytest

from kvcalc.core.formats import NAMES, format_of
from kvcalc.core.weights import rank_weights
from kvcalc.library import loader

# Bits per weight of Llama 3.1 8B (8,030,261,248 parameters), the table of llama.cpp's tools/quantize/README.md.
BITS = {
    "iq1_s": 2.0042, "iq1_m": 2.1460, "iq2_xxs": 2.3824, "q2_k": 3.1593, "iq3_xxs": 3.2548, "iq3_s": 3.6606,
    "iq3_m": 3.7628, "q3_k_s": 3.6429, "q3_k_m": 3.9960, "q3_k_l": 4.2979, "q4_k_s": 4.6672, "q4_k_m": 4.8944,
    "q5_k_s": 5.5704, "q5_k_m": 5.7036, "q6_k": 6.5633, "q8_0": 8.5008,
}  # fmt: skip


@pytest.mark.parametrize(("name", "bits"), BITS.items())
def test_bits_of_gguf_files(name: str, bits: float) -> None:
    """A file's bits per weight follow from llama.cpp's rule for each matrix: within 5 in ten thousand."""
    found = format_of(name)
    assert found is not None
    size = rank_weights(loader.load("llama3.1-8b"), found).fullest.likely
    assert 8 * size / 8_030_261_248 == pytest.approx(bits, rel=5e-4)


@pytest.mark.parametrize(("name", "bits"), [("iq4_xs", 4.4597), ("iq4_nl", 4.6818)])
def test_files_without_an_importance_matrix(name: str, bits: float) -> None:
    """The table's files of these types were made without one, for which the first layers get more bits."""
    found = format_of(name)
    assert found is not None
    size = rank_weights(loader.load("llama3.1-8b"), found).fullest
    assert 8 * size.likely / 8_030_261_248 == pytest.approx(bits, rel=0.01)
    assert size.low < bits * 8_030_261_248 / 8 < size.high


# What Ollama's library shows for its models, in GB of files with the projectors of towers (GitHub
# auditomatic/ollama-models-registry, scraped 2026-08-21). Qwen2.5 72B has rows that do not fill blocks of 256.
OLLAMA = [
    ("llama3.1-8b", "q4_k_m", 4.9), ("llama3.1-405b", "q4_k_m", 243), ("llama3.2-3b", "q4_k_m", 2.0),
    ("llama3.2-1b", "q8_0", 1.3), ("gemma3-12b", "q4_k_m", 8.1), ("qwen2.5-7b", "q4_k_m", 4.7),
    ("qwen2.5-72b", "q4_k_m", 47), ("qwen2.5-0.5b", "q4_k_m", 0.398), ("gemma3-1b", "q4_k_m", 0.815),
    ("deepseek-v3", "q4_k_m", 404), ("llama2-70b", "q4_0", 39), ("mixtral-8x7b", "q4_0", 26),
    ("qwen3-coder-480b", "q4_k_m", 290), ("llama4-scout", "q4_k_m", 67), ("qwen2.5-vl-7b", "q4_k_m", 6.0),
    ("phi-4", "q4_k_m", 9.1), ("llama3-70b", "q4_0", 40),
]  # fmt: skip


@pytest.mark.parametrize(("preset", "name", "gigabytes"), OLLAMA)
def test_published_sizes(preset: str, name: str, gigabytes: float) -> None:
    """Files of published models are as large as the rule has them, within 3 per cent, and within the range."""
    found = format_of(name)
    assert found is not None
    size = rank_weights(loader.load(preset), found).fullest
    assert size.likely == pytest.approx(gigabytes * 1e9, rel=0.03)
    assert size.low <= gigabytes * 1e9 * 1.01
    assert size.high >= gigabytes * 1e9 * 0.99


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("fp8", 8), ("int8", 8), ("nvfp4", 4.5), ("mxfp4", 4.25),
        ("awq", 4 + (16 + 4) / 128), ("gptq", 4 + (16 + 4) / 128), ("int4", 4 + (16 + 4) / 128),
        ("nf4", 4 + 32 / 64), ("fp4", 4 + 32 / 64), ("mlx_4bit", 4 + 32 / 64), ("mlx_8bit", 8 + 32 / 64),
    ],
)  # fmt: skip
def test_bits_of_linear_layers(name: str, bits: float) -> None:
    """Weights and the scales and zero points of their group."""
    found = format_of(name)
    assert found is not None
    assert 8 * found.packed.block_bytes / found.packed.block == bits


def test_ranges_have_their_middle() -> None:
    """Every format is an estimate whose likely size is within its bounds, for dense models and those with experts."""
    for preset in ("llama3.1-8b", "deepseek-v3", "gemma3-27b", "qwen3.5-35b-a3b"):
        for name in NAMES:
            found = format_of(name)
            assert found is not None
            size = rank_weights(loader.load(preset), found).fullest
            assert size.low <= size.likely <= size.high, (preset, name)
