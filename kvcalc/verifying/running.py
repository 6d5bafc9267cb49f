"""One model's cache built for real and compared: what the verb `verify` answers, as values and as words."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from kvcalc.core.kinds import kind
from kvcalc.core.request import Request, warnings
from kvcalc.core.sizing import measure
from kvcalc.core.units import many
from kvcalc.engines.base import reserve
from kvcalc.engines.question import Question
from kvcalc.launch.command import launch
from kvcalc.verifying.building import Versions, config_of_file, config_of_model, on_meta
from kvcalc.verifying.comparing import Comparison, compare
from kvcalc.verifying.measuring import readings
from kvcalc.verifying.types import VerifyDocument, VerifyRow
from kvcalc.version import __version__
from kvcalc.views.model import model_facts, model_values
from kvcalc.views.report import Bytes, Cell, Report, Section

__all__ = ["File", "Verification", "comparisons", "question_of", "verify"]


class File(NamedTuple):
    """The config.json that a model was read from, and its name in messages."""

    data: Mapping[str, object]
    name: str


class Verification(NamedTuple):
    """The answer: equal in every layer after each step, or where not."""

    question: Question
    versions: Versions
    model_class: str
    from_file: bool
    comparisons: tuple[Comparison, ...]
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> Literal["equal", "different"]:
        """The headline: equal after every step, or different."""
        return "equal" if all(each.equal for each in self.comparisons) else "different"

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that differ after some step."""
        return tuple(sorted({layer for each in self.comparisons for layer in each.layers}))


def question_of(request: Request, version: str) -> tuple[Question, tuple[str, ...]]:
    """The request as it is put to the engine in a version, without any flags, and warnings about the version."""
    started = launch(f"transformers@{version}", None)
    stated = started.engine.options_of("", started.read, request.facts)
    size = measure(request)
    return Question(size.request, size.placement, started.version, stated.settings), started.warnings


def comparisons(built: Any, question: Question) -> Iterator[Comparison]:
    """The cache of a model on the meta device, after a prefill and after a decode step, against the prediction."""
    request = question.request
    engine = launch("transformers", None).engine
    for reading in readings(built, request.batch, request.context, request.encoder_tokens):
        then = question.at(question.sequences, reading.tokens)
        then = then._replace(settings={**question.settings, "max_new_tokens": int(reading.step == "decode")})
        yield compare(then, reserve(engine, then).allocation, reading)


def verify(request: Request, versions: Versions, file: File | None) -> Verification:
    """Build, fill and compare. Without a file of a type that transformers has, the model's facts make one."""
    question, said = question_of(request, versions.transformers)
    config = None if file is None else config_of_file(file.data, file.name)
    from_file = config is not None
    built = on_meta(config if from_file else config_of_model(request.facts), request.facts.dtype.name)
    found = tuple(comparisons(built, question))
    return Verification(question, versions, type(built).__name__, from_file, found, (*warnings(request), *said))


def document(found: Verification) -> VerifyDocument:
    """What --json prints."""
    request, last = found.question.request, found.comparisons[-1]
    return {
        "schema": "kvcalc.verify/1",
        "kvcalc_version": __version__,
        "model": model_values(request.facts),
        "request": {
            "context": request.context,
            "batch": request.batch,
            "encoder_tokens": request.encoder_tokens,
            "engine": "transformers",
            "engine_version": found.question.version.name,
        },
        "warnings": list(found.warnings),
        "installed": {"transformers": found.versions.transformers, "torch": found.versions.torch},
        "model_class": found.model_class,
        "configuration": "file" if found.from_file else "facts",
        "verdict": found.verdict,
        "layers": list(found.layers),
        "predicted_bytes_total": last.predicted_bytes,
        "real_bytes_total": last.real_bytes,
        "predicted_held_bytes_total": last.held[0],
        "real_held_bytes_total": last.held[1],
        "rows": [row for each in found.comparisons for row in _rows(each)],
    }


def _rows(each: Comparison) -> list[VerifyRow]:
    return [
        {
            "step": each.step,
            "tokens": each.tokens,
            "kind": None if row.cache is None else kind(row.cache),
            "name": row.name,
            "count": row.copies,
            "predicted_bytes": row.predicted_bytes,
            "real_bytes": row.real_bytes,
            "equal": not row.layers,
            "layers": list(row.layers),
        }
        for row in each.rows
    ]


def report(found: Verification) -> Report:
    """The answer in words: a table for each step."""
    version = f"transformers {found.versions.transformers}"
    origin = "the file as it stands" if found.from_file else "the model's facts, read back as the same layers"
    return Report(
        title=found.question.request.facts.name,
        facts=model_facts(found.question.request.facts),
        sections=[_section(each, found.question.request.batch) for each in found.comparisons],
        verdict=_verdict(found, version),
        fits=found.verdict == "equal",
        notes=[f"{found.model_class} of {version}, built of {origin}, run on the meta device"],
        warnings=list(found.warnings),
    )


def _section(each: Comparison, batch: int) -> Section:
    step = "a prefill" if each.step == "prefill" else "one decode step"
    title = f"after {step}: {many(batch, 'sequence')} of {each.tokens:,} tokens"
    rows: list[tuple[Cell, ...]] = [
        (f"{row.copies} x {row.name}", Bytes(row.predicted_bytes), Bytes(row.real_bytes), _where(row.layers))
        for row in each.rows
    ]
    rows.append(("all layers", Bytes(each.predicted_bytes), Bytes(each.real_bytes), _where(each.layers)))
    if set(each.held) != {each.real_bytes}:
        rows.append(("storage held", *map(Bytes, each.held), "equal" if each.held[0] == each.held[1] else "differs"))
    return Section(title, (title, "predicted", "real", ""), rows)


def _where(layers: tuple[int, ...]) -> str:
    if not layers:
        return "equal"
    shown = ", ".join(map(str, layers[:8]))
    return f"layers {shown}{', ...' if len(layers) > 8 else ''} differ" if len(layers) > 1 else f"layer {shown} differs"


def _verdict(found: Verification, version: str) -> str:
    if found.verdict == "equal":
        return f"equal to the byte: {version} caches what is predicted"
    differ = many(len(found.layers), "layer") if found.layers else "the storage held"
    return f"different from the prediction: {differ} of {version}"
