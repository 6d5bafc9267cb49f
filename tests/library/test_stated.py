"""Names that state the format of the weights."""

import pytest

from kvcalc.core.weights import rank_weights, weigh
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.library.stated import stated

NAMES = [
    ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama3.3-70b", "fp8"),
    ("nvidia/Llama-3.3-70B-Instruct-FP8", "llama3.3-70b", "fp8"),
    ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b", "awq"),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b", "gptq"),
    ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "qwen2.5-7b", "int8"),
    ("unsloth/Qwen2.5-7B-Instruct-bnb-4bit", "qwen2.5-7b", "nf4"),
    ("unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit", "qwen2.5-7b", "nf4"),
    ("mlx-community/Qwen3-8B-4bit", "qwen3-8b", "mlx_4bit"),
    ("mlx-community/gpt-oss-20b-MLX-8bit", "gpt-oss-20b", "mlx_8bit"),
    ("nvidia/Llama-3.3-70B-Instruct-FP4", "llama3.3-70b", "nvfp4"),
    ("nvidia/Qwen3-32B-NVFP4", "qwen3-32b", "nvfp4"),
    ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "llama3.1-8b", "int4"),
    ("RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8", "qwen2.5-7b", "int8"),
    ("Qwen3-8B-Q4_K_M", "qwen3-8b", "q4_k_m"),
    ("Qwen3-8B-Q4_K_M.gguf", "qwen3-8b", "q4_k_m"),
    ("unsloth/Qwen3-8B-GGUF:Q8_0", "qwen3-8b", "q8_0"),
    ("hf.co/bartowski/Qwen_Qwen3-8B-GGUF:IQ4_XS", "qwen3-8b", "iq4_xs"),
    ("llama3.1:8b-instruct-q4_K_M", "llama3.1-8b", "q4_k_m"),
    ("qwen3:30b-a3b-q8_0", "qwen3-30b-a3b-2507", "q8_0"),
]


@pytest.mark.parametrize(("name", "preset", "weights"), NAMES)
def test_formats_in_names(name: str, preset: str, weights: str) -> None:
    """The model is the preset of the name without its format, stored in that format, and says so."""
    model = loader.load(name)
    assert model.origin == preset
    assert model.weights_dtype is not None
    assert model.weights_dtype.name == weights
    assert model.named is not None
    assert weights in model.named
    plain = loader.load(preset)
    assert model.layers == plain.layers
    if plain.weights_dtype is None:  # 16 bits
        assert rank_weights(model, "auto").fullest.likely < 0.62 * rank_weights(plain, "auto").fullest.likely
    assert weigh(model, "auto").rough


def test_an_awq_checkpoint() -> None:
    """Qwen2.5-7B-Instruct-AWQ has 5.57 GB of tensors: 6.525B parameters in 4.16 bits, two tables in 16."""
    size = rank_weights(loader.load("Qwen/Qwen2.5-7B-Instruct-AWQ"), "auto").fullest.likely
    assert size == pytest.approx(6.525e9 * 4.15625 / 8 + 2 * 152_064 * 3584 * 2, rel=0.001)


def test_the_cache_only_where_the_name_says_so() -> None:
    """-FP8 is about weights; -FP8-KV is about the cache too."""
    assert loader.load("nvidia/Llama-3.3-70B-Instruct-FP8").kv_dtype is None
    cache = loader.load("amd/Llama-3.1-70B-Instruct-FP8-KV").kv_dtype
    assert cache is not None
    assert cache.name == "fp8"


@pytest.mark.parametrize(
    "name", ["qwen3-235b-a22b-fp8", "nvidia/DeepSeek-V3.1-NVFP4", "Qwen/Qwen3-235B-A22B-FP8", "llama3-70b",
             "ggml-org/gpt-oss-20b-GGUF", "deepseek-ai/DeepSeek-V3-Base"]
)  # fmt: skip
def test_names_of_presets_are_their_own(name: str) -> None:
    """A preset for such a checkpoint has its facts, and a name without a format leaves those of the preset."""
    assert loader.load(name).named is None


def test_a_publishers_own_mix_is_named() -> None:
    """Files of Unsloth and bartowski have more bits in some places: the nearest format is taken, and said."""
    assert "own mix, of which the nearest is q4_k_m" in str(loader.load("unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL").named)


@pytest.mark.parametrize("name", ["turboderp/Qwen3-8B-exl2", "x/Qwen3-8B-AQLM", "y/Qwen3-8B-HQQ"])
def test_formats_without_a_size_are_refused(name: str) -> None:
    """To take 16 bits for them in silence would be wrong by far."""
    with pytest.raises(KvcalcError, match=r"the size of weights in (exl2|aqlm|hqq) is not known$") as caught:
        loader.load(name)
    assert caught.value.hint == "give the model, and the size of its files: qwen3-8b --weights SIZE"


@pytest.mark.parametrize("name", ["", ":", "a:b", "-AWQ", "x" * 301 + "-AWQ", "/", "model", "Q4_K_M"])
def test_odd_names(name: str) -> None:
    """Other text states nothing, or nothing but a format, and is no reason to stop."""
    said = stated(name)
    assert said is None or said.format is not None
