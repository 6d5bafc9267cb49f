"""llama.cpp: which models it has, by the architecture that its converters give them."""

import pytest

import kvcalc
from kvcalc.core.model import Attention, Shared
from kvcalc.engines.llama_cpp.archs import _ARCHS, WINDOWED, arch_of
from kvcalc.errors import KvcalcError
from kvcalc.sources.gguf.families import FAMILIES, NO_CACHE

from .llama_cpp_asked import model_with, reserved

# conversion/__init__.py of llama.cpp 0c1e57098 registers no class of these model types; bailing_hybrid was not looked up.
WITHOUT_CONVERTER = """
    bart-base bart-large-cnn gpt-j-6b hunyuan-7b hunyuan-large internlm-7b ling-3.0-tiny llama3.2-11b-vision llama3.2-90b-vision
    longcat-flash mimo-7b molmo-7b-d opt-125m opt-13b opt-6.7b opt-66b recurrentgemma-2b sarvam-105b
    whisper-large-v3 whisper-large-v3-turbo whisper-medium whisper-tiny zamba2-7b
""".split()  # noqa: SIM905 - one a word

# MODEL_ARCH of the converter's class, gguf-py/gguf/constants.py.
ARCHS = {
    "mistral-7b-v0.3": "llama", "mixtral-8x7b": "llama", "yi-34b": "llama", "phi-4": "phi3", "phi-2": "phi2",
    "qwen3-30b-a3b": "qwen3moe", "qwen2.5-vl-7b": "qwen2vl", "glm4-9b": "chatglm", "glm4.6": "glm4moe",
    "glm4.7-flash": "deepseek2", "kimi-k2": "deepseek2", "kimi-k3": "kimi-k3", "glm-5.2": "glm-dsa", "grok-1": "grok",
    "santacoder-1.1b": "starcoder", "command-r-plus": "command-r", "gemma3-1b": "gemma3", "olmo3-7b": "olmo2",
    "bamba-9b": "granitehybrid", "nemotron-super-49b": "deci", "codestral-mamba-7b": "mamba2",
    "falcon-mamba-7b": "mamba", "step-3.7-flash": "step35", "mimo-v2-flash": "mimo2", "exaone4.5-33b": "exaone4",
    "qwen3.8-2.4t-a95b": "qwen35moe", "qwen3-asr-0.6b": "qwen3vl", "ministral3-8b": "mistral3", "ministral-8b": "llama",
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_CONVERTER)
def test_models_without_a_converter_are_refused(name: str) -> None:
    """With a way out, since files may exist all the same."""
    with pytest.raises(KvcalcError, match="has no GGUF architecture that is known here") as error:
        reserved(kvcalc.load(name), "", context=4096, batch=1)
    assert "`gguf: llama`" in (error.value.hint or "")


def test_all_other_presets_are_answered() -> None:
    """Each bundled preset, for four sequences."""
    names = {*kvcalc.models()} - {*WITHOUT_CONVERTER}
    assert {name for name in names if reserved(kvcalc.load(name), "", context=4096, batch=4).reserved_total} == names


@pytest.mark.parametrize(("name", "arch"), ARCHS.items())
def test_architectures(name: str, arch: str) -> None:
    """The architecture decides about windows, indexers and drafts."""
    assert arch_of(kvcalc.load(name)) == arch


def test_a_preset_may_name_its_architecture() -> None:
    """The way out of the refusal, and over what the type says."""
    assert arch_of(model_with(model_type="mimo", layers="1 full", gguf="qwen2")) == "qwen2"


def test_every_architecture_is_one_of_gguf_files() -> None:
    """Names that the reader of GGUF files knows as well."""
    assert {*_ARCHS.values(), *WINDOWED} - {*FAMILIES} == set()
    assert {*_ARCHS.values()} & {*NO_CACHE} == set()


def test_windows_of_presets_are_kept_or_ignored_by_architecture() -> None:
    """swa_type in src/models: Gemma, gpt-oss, Cohere, OLMo 3 and others have a cache for them, Mistral and Phi have not."""
    ignored = set()
    for name in kvcalc.models():
        model = kvcalc.load(name)
        caches = [cache.of if isinstance(cache, Shared) else cache for cache in model.distinct_caches]
        if name not in WITHOUT_CONVERTER and any(
            isinstance(c, Attention) and c.pattern in ("sliding", "chunked") for c in caches
        ):
            differences = [d.rule.why for d in reserved(model, "", context=1 << 19, batch=1).differences]
            ignored |= {name} if "window ignored" in differences else set()
    assert ignored == {
        "internvl2-4b", "ministral-8b", "mistral-7b-v0.1", "phi-4-mini", "phi-mini-moe", "phi3-medium-4k",
        "phi3-mini-128k", "phi3-mini-4k", "phi3.5-vision", "starcoder2-15b", "starcoder2-3b", "starcoder2-7b",
    }  # fmt: skip
