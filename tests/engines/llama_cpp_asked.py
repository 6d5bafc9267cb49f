"""How the tests of llama.cpp ask: a model and a command line, as the command line of kvcalc takes them apart."""

from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.llama_cpp.engine import ENGINE
from kvcalc.engines.question import Question
from kvcalc.launch.command import launch
from kvcalc.preset.mapping import model_from_preset


def question_of(model: Model, command: str, build: str = "", **options: object) -> Question:
    """What a command asks of a model; `options` are kvcalc's own."""
    started = launch(f"llama.cpp@{build}" if build else "llama.cpp", command.split())
    stated = ENGINE.options_of(started.program, started.read, model)
    request = ask(model, **{**stated.options, **options})  # type: ignore[arg-type]
    return Question(request, measure(request).placement, started.version, stated.settings)


def reserved(model: Model, command: str, build: str = "", **options: object) -> Reservation:
    """What llama.cpp reserves then."""
    return reserve(ENGINE, question_of(model, command, build, **options))


def model_with(**facts: object) -> Model:
    """A model of these facts and of small heads."""
    base = {"name": "x-1", "model_type": "llama", "dtype": "bf16", "heads": 8, "kv_heads": 2, "head_dim": 64}
    model, problems = model_from_preset({**base, **facts}, "x-1")
    assert model is not None, problems
    return model


def why(found: Reservation) -> dict[str, int]:
    """The differences by their words."""
    return {difference.rule.why: difference.bytes for difference in found.differences}
