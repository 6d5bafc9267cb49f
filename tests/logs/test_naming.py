"""What a log calls its model, as one of the presets."""

import pytest

from kvcalc.logs.naming import preset_of


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3.3-70b"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama3.3-70b"),
        ("/models/Llama-3.3-70B-Instruct-AWQ/", "llama3.3-70b"),
        ("/mnt/d/gx/Desktop/Model/Qwen3-0___6B", "qwen3-0.6b"),
        (r"D:\models\gemma-2-2b-it-Q4_K_M.gguf", "gemma2-2b"),
        ("gpt-oss-120b-mxfp4-00001-of-00003.gguf", "gpt-oss-120b"),
        ("/srv/.cache/huggingface/hub/models--openai--gpt-oss-120b/snapshots/b5c939de8f754692", "gpt-oss-120b"),
        ("Gemma 2 2b It", "gemma2-2b"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b-fp8"),  # a preset of its own goes before the plain one
        ("RedHatAI/Qwen3-235B-A22B-FP8-dynamic", "qwen3-235b-a22b"),
        ("rdtand/Qwen3.6-35B-A3B-PrismaQuant-4.75bit-vllm", "qwen3.6-35b-a3b"),
        ("deepseek-ai/DeepSeek-R1-0528", "deepseek-v3"),
    ],
)
def test_a_name_is_recognised(name: str, preset: str) -> None:
    """Paths, formats and who quantised it do not hide a model."""
    found = preset_of([name])
    assert found is not None
    assert found[0].name == preset


@pytest.mark.parametrize(
    "name",
    ["", "/", "..", "/etc/passwd", "../../etc/passwd.yaml", "-", "x" * 100_000, "model\0", "it", "fp8",
     "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "Qwen3-Embedding-8B-GGUF", "\x1b[31m"],
)  # fmt: skip
def test_what_is_no_name_of_a_model_is_none(name: str) -> None:
    """A log opens no file by what it calls its model, and another model is not taken for it."""
    assert preset_of([name]) is None
