"""The caches that transformers really builds, beside what `--engine transformers` predicts: equal, or the test fails.

Needs the extra `verify`, takes minutes, and so is no part of the quick tests: `python -m pytest tests/oracle`.
"""

import json
from functools import cache
from typing import Any, get_args

import pytest

from kvcalc.cli.main import run
from kvcalc.core.kinds import kind
from kvcalc.core.model import Attention, Kind, Model, Recurrent, RecurrentKind
from kvcalc.core.request import ask
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources.config.families import FAMILIES
from kvcalc.sources.config.reader import preset_from_config
from kvcalc.verifying.building import config_of_file, config_of_model, installed, on_meta
from kvcalc.verifying.running import comparisons, question_of

pytest.importorskip("transformers")
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

pytestmark = pytest.mark.filterwarnings("ignore")

# Types of presets whose models are remote code, or another package's: transformers 5.23 has no class for them.
WITHOUT_A_CLASS = {
    "bailing_moe", "baichuan", "chatglm", "deepseek", "exaone", "grok-1", "hunyuan", "internlm", "internlm2", "kimi_k2",
    "mimo", "minicpm", "minimax_m1", "minimax_text_01", "molmo", "nemotron-nas", "openelm", "orion", "qwen", "rwkv6",
    "sarvam_mla",
}  # fmt: skip
# Presets whose facts do not make a configuration of their class: a shape without the states or windows that the class
# expects, latents under another key, or a number that the class lacks (dots1).
NOT_BY_FACTS = {"dots.llm1", "exaone4-1.2b", "granite4-1b", "granite4-350m", "granite4-micro", "ling-3.0-tiny"}

# Types without a preset that cannot be built by the defaults of their class.
NOT_BY_DEFAULT = {
    # The class saves them with keys that the reader of config.json refuses, or that contradict each other.
    "bailing_hybrid", "doge", "gemma4_unified_text", "inkling_text", "longt5", "marian", "qwen3_omni_moe_text",
    # The class lacks a number that its own model needs.
    "chameleon", "cohere_compass_text", "deepseek_ocr2_text", "dots1", "glm_image_text", "hunyuan_v1_moe",
    "hunyuan_vl_text", "ministral", "nemotron", "qwen3_omni_moe_talker_text", "step3p5", "t5_gemma_module",
    "t5gemma2_decoder", "t5gemma2_text",
    # The model reads something else than tokens and the states of an encoder.
    "nllb-moe", "qwen3_omni_moe_talker_code_predictor", "switch_transformers", "udop",
}  # fmt: skip

# Long enough for several states and compressed entries, shorter than any window.
SHORT = 37
# Where no published model has one, a longer window is not worth its time.
LONG = 5000


def kinds(model: Model) -> frozenset[str]:
    """The kinds of attention in a model; recurrent ones by their own names."""
    return frozenset(each.kind if isinstance(each, Recurrent) else kind(each) for each in model.distinct_caches)


ALL = {entry.name: loader.load_entry(entry) for entry in loader.entries()}
MODELS = {
    name: model for name, model in ALL.items() if model.model_type not in WITHOUT_A_CLASS and name not in NOT_BY_FACTS
}
# One for each model type and set of kinds, by which its layers, heads and classes may differ.
REPRESENTATIVES = {(model.model_type, kinds(model)): name for name, model in reversed(MODELS.items())}
OTHERS = sorted(MODELS.keys() - set(REPRESENTATIVES.values()))
DEFAULTS = sorted(
    (FAMILIES.keys() & set(CONFIG_MAPPING_NAMES)) - {model.model_type for model in ALL.values()} - NOT_BY_DEFAULT
)


def contexts(model: Model) -> list[int]:
    """Contexts on both sides of each window and chunk. A prefill of one token less is compared too."""
    spans = {each.span for each in model.distinct_caches if isinstance(each, Attention) and each.pattern != "cross"}
    return sorted({SHORT, *(span + more for span in spans if span for more in (0, 2))})


@cache
def version() -> str:
    return installed().transformers


def built_of(model: Model) -> Any:
    version()
    return on_meta(config_of_model(model), model.dtype.name)


def differing(model: Model, built: Any, context: int, batch: int) -> list[object]:
    """What differs after a prefill or a decode step: nothing."""
    question, _ = question_of(ask(model, context=context, batch=batch), version())
    found = list(comparisons(built, question))
    assert [each.step for each in found] == ["prefill", "decode"]
    assert all(each.real_bytes and each.held[1] for each in found)
    return [each for each in found if not each.equal or each.predicted_bytes != each.real_bytes]


@pytest.mark.parametrize("name", sorted(REPRESENTATIVES.values()))
def test_both_sides_of_each_window(name: str) -> None:
    """One preset of each architecture: every layer has the predicted bytes, for one sequence and for three."""
    model = MODELS[name]
    built = built_of(model)
    wrong = [differing(model, built, context, batch) for context in contexts(model) for batch in (1, 3)]
    assert [each for each in wrong if each] == []


@pytest.mark.parametrize("name", OTHERS)
def test_every_other_preset(name: str) -> None:
    """All other presets: every layer has the predicted bytes."""
    model = MODELS[name]
    assert differing(model, built_of(model), SHORT, 3) == []


@cache
def by_default(model_type: str) -> tuple[Model, dict[str, object]]:
    """A model type by the defaults of its class, and the config.json that transformers saves of it."""
    data = json.loads(CONFIG_MAPPING[model_type]().to_json_string(use_diff=False)) | {"dtype": "bfloat16"}
    model, problems = model_from_preset(preset_from_config(data, file=model_type), model_type)
    assert model is not None, problems
    return model, data


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_types_without_a_preset(model_type: str) -> None:
    """What transformers saves is read as what it caches, and its facts make the same configuration again."""
    model, data = by_default(model_type)
    built = on_meta(config_of_file(data, model_type), model.dtype.name)
    wrong = [differing(model, built, context, 3) for context in contexts(model) if context <= LONG]
    assert [each for each in wrong if each] == []
    config_of_model(model)


def test_enough_is_compared() -> None:
    """More than 40 architectures, and every kind of attention that transformers has."""
    assert len({model_type for model_type, _ in REPRESENTATIVES}) >= 75
    assert len(DEFAULTS) >= 60  # a type with a preset is no longer one by its defaults
    seen = [found for _, found in REPRESENTATIVES] + [kinds(by_default(model_type)[0]) for model_type in DEFAULTS]
    everything = {*get_args(Kind), *get_args(RecurrentKind)} - {"recurrent"}
    assert everything - frozenset().union(*seen) == {"rwkv"}  # transformers has RWKV 4 alone


@pytest.mark.parametrize("model_type", sorted(WITHOUT_A_CLASS))
def test_what_transformers_lacks_is_refused(model_type: str) -> None:
    """A type that transformers does not have is named, with the version that lacks it."""
    model = next(model for model in ALL.values() if model.model_type == model_type)
    with pytest.raises(KvcalcError, match=rf"^model_type: transformers {version()} has no class for '{model_type}'"):
        built_of(model)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`kvcalc verify` answers with 0, and in a word."""
    assert run(["verify", "gpt2", "--context", "12", "--quiet"]) == 0
    assert capsys.readouterr().out == "equal\n"
