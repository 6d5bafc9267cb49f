"""The caches that transformers really builds, beside what `--engine transformers` predicts: equal, or the test fails.

Needs the extra `verify`, takes minutes, and so is no part of the quick tests: `python -m pytest tests/oracle`.
"""

from functools import cache
from typing import Any

import pytest

from kvcalc import library
from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError
from kvcalc.model import Attention, Kind, Model, Recurrent, RecurrentKind, kind
from kvcalc.request import ask
from kvcalc.verifying.building import config_of_model, installed, on_meta
from kvcalc.verifying.running import comparisons, question_of

pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")

# Types whose published models are remote code, or another package's: transformers 5.23 has no class for them.
WITHOUT_A_CLASS = {
    "baichuan", "chatglm", "grok-1", "hunyuan", "internlm", "internlm2", "mimo", "minicpm", "molmo", "nemotron-nas",
    "openelm", "qwen", "rwkv6",
}  # fmt: skip

# Long enough for several states and compressed entries, shorter than any window.
SHORT = 37


def kinds(model: Model) -> frozenset[str]:
    """The kinds of attention in a model; recurrent ones by their own names."""
    return frozenset(each.kind if isinstance(each, Recurrent) else kind(each) for each in model.distinct_caches)


def models() -> list[Model]:
    """Every preset whose model transformers has."""
    loaded = [library.load_entry(entry) for entry in library.entries()]
    return [model for model in loaded if model.model_type not in WITHOUT_A_CLASS]


MODELS = {model.origin: model for model in models()}
# One for each model type and set of kinds, by which its layers, heads and classes may differ.
REPRESENTATIVES = {(model.model_type, kinds(model)): name for name, model in reversed(MODELS.items())}
OTHERS = sorted(MODELS.keys() - set(REPRESENTATIVES.values()))


def contexts(model: Model) -> list[int]:
    """Contexts on both sides of each window and chunk. A prefill of one token less is compared too."""
    spans = {each.span for each in model.distinct_caches if isinstance(each, Attention) and each.reach != "cross"}
    return sorted({SHORT, *(span + more for span in spans if span for more in (0, 2))})


@cache
def version() -> str:
    return installed().transformers


def differing(model: Model, built: Any, context: int, batch: int) -> list[object]:
    """What differs after a prefill or a decode step: nothing."""
    question, _ = question_of(ask(model, context=context, batch=batch), version())
    found = list(comparisons(built, question))
    assert [each.step for each in found] == ["prefill", "decode"]
    assert all(each.real_bytes for each in found)
    return [each for each in found if not each.equal or each.predicted_bytes != each.real_bytes]


def built_of(model: Model) -> Any:
    version()
    return on_meta(config_of_model(model), model.dtype.name)


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


def test_enough_is_compared() -> None:
    """At least 40 architectures, and every kind of attention of which transformers has a model with a preset."""
    assert len({model_type for model_type, _ in REPRESENTATIVES}) >= 75
    everything = {*Kind.__args__, *RecurrentKind.__args__} - {"recurrent"}
    # RWKV 6 and RWKV 4 have no preset that transformers has a class for.
    assert everything - frozenset().union(*(found for _, found in REPRESENTATIVES)) == {"rwkv", "rwkv4"}


@pytest.mark.parametrize("model_type", sorted(WITHOUT_A_CLASS))
def test_what_transformers_lacks_is_refused(model_type: str) -> None:
    """A type that transformers does not have is named, with the version that lacks it."""
    model = next(m for m in map(library.load_entry, library.entries()) if m.model_type == model_type)
    with pytest.raises(KvcalcError, match=rf"^model_type: transformers {version()} has no class for '{model_type}'"):
        built_of(model)


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """`kvcalc verify` answers with 0, and in a word."""
    assert run(["verify", "gpt2", "--context", "12", "--quiet"]) == 0
    assert capsys.readouterr().out == "equal\n"
