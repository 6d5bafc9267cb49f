"""Formats of cache and weights to choose from: those that were asked for, and smaller ones to tell of."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.cli.options import Given
from kvcalc.core.model import Model
from kvcalc.core.request import Request, ask
from kvcalc.core.units import parse_tokens
from kvcalc.core.weights import parse as parse_weights
from kvcalc.core.weights import weigh
from kvcalc.planner.question import PlanQuestion, Precision

if TYPE_CHECKING:
    from kvcalc.launch.command import Launch

__all__ = ["NamedEngine", "encoder_of", "engine_of", "precisions_of", "smaller", "words_of"]


class NamedEngine(NamedTuple):
    """The engine that was named, with what it says about options that were left to it."""

    started: "Launch"
    settings: Mapping[str, object]
    warnings: tuple[str, ...]

    @property
    def formats(self) -> tuple[str, ...]:
        return self.started.engine.formats


def engine_of(model: Model, given: Given) -> NamedEngine | None:
    if given["engine"] is None:
        return None
    from kvcalc.launch.command import launch

    started = launch(given["engine"], None)
    stated = started.engine.options_of(started.program, started.read, model)
    return NamedEngine(started, stated.settings, (*started.warnings, *stated.warnings))


def encoder_of(given: Given) -> int | None:
    text = given["encoder_tokens"]
    return None if text is None else parse_tokens(text, "--encoder-tokens")


def _precision(
    model: Model, given: Given, question: PlanQuestion, engine: NamedEngine | None, kv: str, weights: str
) -> Precision:
    """One pair of formats as a question. What an engine computes in by itself stands for auto."""
    packed, name = None, kv
    if engine is not None:
        known = engine.started.engine.packed
        if kv in known:
            packed, name = kv, known[kv]
        if kv == "auto":
            stated = engine.started.engine.options_of(engine.started.program, engine.started.read, model)
            name = str({**stated.defaults, **stated.options}.get("kv_dtype", "auto"))
    request = ask(
        model, context=question.context, batch=question.users, kv_dtype=name, encoder_tokens=encoder_of(given)
    )
    if kv == "auto":
        request = request._replace(auto=(True, True))
    parsed = parse_weights(weights, "--weights")
    named = "" if parsed == "none" or isinstance(parsed, int) else (
        (model.weights_dtype or model.dtype).name if parsed == "auto" else parsed.name
    )  # fmt: skip
    return Precision(kv, parsed, request, weigh(model, parsed), named, packed)


def words_of(text: str | None) -> list[str]:
    return ["auto"] if text is None else list(dict.fromkeys(word.strip().lower() for word in text.split(",")))


def precisions_of(
    model: Model, given: Given, question: PlanQuestion, engine: NamedEngine | None
) -> Iterator[Precision]:
    for kv in words_of(given["kv_dtype"]):
        for weights in words_of(given["weights"]):
            yield _precision(model, given, question, engine, kv, weights)


# Smaller formats that the answer tells of, the first of each that an engine has.
_SMALLER_CACHES = (("fp8", "q8_0"), ("int4", "nvfp4", "q4_0"))
_SMALLER_WEIGHTS = ("fp8", "int4")


def smaller(
    model: Model, given: Given, question: PlanQuestion, engine: NamedEngine | None, first: Precision
) -> Iterator[tuple[str, Precision]]:
    """What was not asked for and is smaller: quality is given up by nobody but the asker."""
    weights = words_of(given["weights"])
    for names in _SMALLER_CACHES:
        possible = [name for name in names if engine is None or name in engine.formats]
        if not possible or first.request.unused or possible[0] in words_of(given["kv_dtype"]):
            continue
        other = _precision(model, given, question, engine, possible[0], weights[0])
        if _bits(other.request) < _bits(first.request):
            yield "--kv-dtype", other
    if weights == ["auto"] and model.parameters is not None:
        for name in _SMALLER_WEIGHTS:
            smaller = _precision(model, given, question, engine, words_of(given["kv_dtype"])[0], name)
            if 10 * smaller.whole.bytes < 9 * first.whole.bytes:
                yield "--weights", smaller


def _bits(request: Request) -> float:
    k = request.widths.k
    return k.block_bytes / k.block
