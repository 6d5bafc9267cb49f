"""Names of the Ollama library: the model that they stand for, and the size of its file as the library shows it."""

import json
from pathlib import Path

import pytest

import kvcalc
from kvcalc.library.ollama import hub_name

NAMES = json.loads((Path(__file__).parents[2] / "presets" / "ollama.json").read_text(encoding="utf-8"))["names"]

# ollama.com/library, as scraped by auditomatic/ollama-models-registry on 2026-08-21: GB of the file.
SIZES = {
    "llama3.1": ("llama3.1-8b", 4.9), "qwen3:8b": ("qwen3-8b", 5.2), "qwen3:30b": ("qwen3-30b-a3b-2507", 19),
    "mistral": ("mistral-7b-v0.3", 4.4), "deepseek-r1:32b": ("deepseek-r1-distill-qwen-32b", 20),
    "deepseek-r1:70b": ("deepseek-r1-distill-llama-70b", 43), "llama3.3": ("llama3.3-70b", 43),
    "qwen2.5-coder:7b": ("qwen2-7b", 4.7),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_a_name_is_a_model_and_a_format(name: str) -> None:
    """The weights are those of the file within 6 per cent; 16 bits would be three times as much."""
    preset, gigabytes = SIZES[name]
    model = kvcalc.load(name)
    assert model.origin == preset
    fit = kvcalc.size(model, gpu="h200", context=1024).fit
    assert fit is not None
    assert fit.memory.whole_weights == pytest.approx(gigabytes * 1e9, rel=0.06)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_finds_its_preset(name: str) -> None:
    """The hub id is one of a preset's own."""
    hub = NAMES[name].rpartition(":")[0]
    assert hub.lower() in [each.lower() for each in kvcalc.load(name).ids]


def test_a_tag_may_go_on_with_a_format() -> None:
    """A name with :latest is the name, and another format replaces the tag's."""
    assert hub_name("mistral:latest") == hub_name("mistral") == "mistralai/Mistral-7B-Instruct-v0.3:Q4_K_M"
    assert hub_name("qwen3:8b-q8_0") == "Qwen/Qwen3-8B:Q8_0"
    assert hub_name("nosuch:7b") is None


def test_a_presets_own_name_comes_first() -> None:
    """`gpt-oss-20b` is the preset and no name of the library."""
    assert kvcalc.load("gpt-oss-20b").named is None
