"""All presets at a glance, and one with its sources: what the verb `models` shows."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, get_args

from kvcalc.core.kinds import attention_class, kind
from kvcalc.core.model import Kind, Model, Recurrent, RecurrentKind
from kvcalc.core.request import ask
from kvcalc.core.sizing import Size, measure, slope_and_fixed
from kvcalc.core.units import format_count
from kvcalc.errors import KvcalcError, nearest, shown
from kvcalc.library import loader
from kvcalc.version import __version__
from kvcalc.views.model import model_facts, model_values
from kvcalc.views.report import Bytes, Count, Report, Section
from kvcalc.views.size import kv_values
from kvcalc.views.size_words import group_rows

if TYPE_CHECKING:
    from kvcalc.views.types.lists import ModelDocument, ModelListDocument, PresetFacts

__all__ = [
    "ATTENTION",
    "PresetRow",
    "listing",
    "listing_document",
    "listing_report",
    "listing_values",
    "model_document",
    "model_report",
]

_CLASSES = ("mha", "mqa", "gqa", "mla", "hybrid", "ssm", "encoder-decoder")
ATTENTION = (*_CLASSES, *get_args(Kind), *get_args(RecurrentKind))

# Past every published window, so that the slope and the fixed part are those of a long context.
_LONG = 2**24


class PresetRow(NamedTuple):
    """A preset with the two numbers of a long context: bytes a token, and bytes per sequence that no longer grow."""

    preset: str
    model: Model
    bytes_per_token: int
    fixed_bytes: int


class Listing(NamedTuple):
    """The presets that were asked for, and what is wrong with those that could not be read."""

    rows: list[PresetRow]
    warnings: list[str]
    family: str | None
    attention: str | None


def listing(family: str | None = None, attention: str | None = None) -> Listing:
    """The presets of a family and an attention kind. Raises KvcalcError for a word that none has."""
    if attention is not None and attention.lower() not in ATTENTION:
        close = nearest(attention, ATTENTION, 1)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(ATTENTION)}"
        raise KvcalcError(f"--attention: expected a kind of attention, got {shown(attention)}", hint)
    loaded, faults = [], []
    for entry in loader.entries():
        try:
            loaded.append((entry.name, loader.load_entry(entry)))
        except KvcalcError as error:  # one faulty file in a user's folder must not hide all others
            faults.append(error.message)
    families = sorted({model.family for _, model in loaded})
    if family is not None and family.lower() not in families:
        raise KvcalcError(f"--family: no preset is of {shown(family)}", f"one of {', '.join(families)}")
    rows = []
    for name, model in loaded:
        if family is not None and model.family != family.lower():
            continue
        if attention is not None and attention.lower() not in _words(model):
            continue
        try:
            rows.append(PresetRow(name, model, *_long(model)))
        except KvcalcError as error:  # a preset whose size depends on what the request alone can say
            faults.append(f"{name}: {error.message}")
    return Listing(rows, faults, family, attention)


def _words(model: Model) -> Iterable[str]:
    """All that --attention may call a model: its class, and the kinds of its caches."""
    caches = model.distinct_caches
    return {attention_class(model), *map(kind, caches), *(c.kind for c in caches if isinstance(c, Recurrent))}


def _long(model: Model) -> tuple[int, int]:
    slope, fixed = slope_and_fixed(ask(model, context=_LONG))
    return slope.per_token, fixed


def listing_values(rows: list[PresetRow]) -> "list[PresetFacts]":
    """One flat mapping for each preset."""
    return [
        {
            "preset": row.preset,
            **model_values(row.model),
            "bytes_per_token": row.bytes_per_token,
            "fixed_bytes_per_sequence": row.fixed_bytes,
        }
        for row in rows
    ]


def listing_document(found: Listing) -> "ModelListDocument":
    """The document of the list; its `model` is null, since it is about many."""
    return {
        "schema": "kvcalc.models/1",
        "kvcalc_version": __version__,
        "model": None,
        "request": {"name": None, "family": found.family, "attention": found.attention},
        "warnings": list(found.warnings),
        "models": listing_values(found.rows),
    }


def listing_report(found: Listing) -> Report:
    columns = ("preset", "size", "attention", "limit", "per token", "fixed part")
    return Report([Section("models", columns, [
        (
            row.preset,
            format_count(row.model.parameters) if row.model.parameters else "-",
            attention_class(row.model),
            Count(row.model.max_context, short=True) if row.model.max_context else "-",
            Bytes(row.bytes_per_token),
            Bytes(row.fixed_bytes),
        )
        for row in found.rows
    ], keys=True, drop=(5, 2, 3, 1))], warnings=found.warnings)  # fmt: skip


def model_document(model: Model) -> "ModelDocument":
    """The document of one preset, at the model's limit."""
    size = _at_limit(model)
    return {
        "schema": "kvcalc.models/1",
        "kvcalc_version": __version__,
        "model": model_values(model),
        "request": {"name": model.origin, "context": size.request.context, "family": None, "attention": None},
        "warnings": [],
        "kv": kv_values(size),
    }


def _at_limit(model: Model) -> Size:
    return measure(ask(model, context="max" if model.max_context else None))


def model_report(model: Model) -> Report:
    """One preset: its facts, its layers, and where they were read."""
    size = _at_limit(model)
    facts = [
        ("hub ids", ", ".join(model.ids) or "none"),
        ("family", model.family),
        ("model type", model.model_type or "not stated"),
        ("computes in", model.dtype.name),
        ("weights stored in", (model.weights_dtype or model.dtype).name),
        ("source", model.source or "not stated"),
        ("confidence", model.confidence or "not stated"),
    ]
    if model.draft:
        facts.append(("draft layers", str(len(model.draft))))
    if model.dimensions_source:
        facts.append(("widths from", model.dimensions_source))
    if model.note:
        facts.append(("note", model.note))
    return Report(
        [Section("preset", ("", ""), list(facts)), group_rows(size)],
        title=model.name,
        facts=model_facts(model),
        notes=[f"layers at {size.request.context:,} tokens"],
    )
