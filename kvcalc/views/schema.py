"""The JSON Schema (draft 2020-12) of each verb's document, written from the types of `views.types`."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints, is_typeddict

from kvcalc.views.types.check import CheckDocument
from kvcalc.views.types.grid import CompareDocument, SweepDocument
from kvcalc.views.types.lists import (
    CardDocument,
    CardListDocument,
    MachineDocument,
    ModelDocument,
    ModelListDocument,
)
from kvcalc.views.types.plan import PlanDocument
from kvcalc.views.types.simulate import SimulateDocument
from kvcalc.views.types.size import OPEN, SizeDocument
from kvcalc.views.types.tradeoff import TradeoffDocument

__all__ = ["DOCUMENTS", "Schema", "paths_of", "schema_of"]

Schema: TypeAlias = dict[str, Any]

# What each verb may answer with.
DOCUMENTS: dict[str, tuple[type, ...]] = {
    "size": (SizeDocument,),
    "plan": (PlanDocument,),
    "sweep": (SweepDocument,),
    "compare": (CompareDocument,),
    "simulate": (SimulateDocument,),
    "tradeoff": (TradeoffDocument,),
    "check": (CheckDocument,),
    "models": (ModelListDocument, ModelDocument),
    "gpus": (CardListDocument, CardDocument, MachineDocument),
}

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_of(verb: str, *documents: type) -> Schema:
    """The schema of what a verb answers with: one of DOCUMENTS, or of these types."""
    parts: dict[str, Schema] = {}
    whole = _any_of([_value(document, parts) for document in documents or DOCUMENTS[verb]])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kvcalc.{verb}/1",
        **whole,
        "$defs": dict(sorted(parts.items())),
    }


def paths_of(kind: Any) -> Iterator[str]:
    """The dotted path of each value of a document's type, with * for any entry of a list."""
    for key, of in get_type_hints(kind).items():
        yield key
        for each in get_args(of) if get_origin(of) in (Union, UnionType) else (of,):
            listed = get_origin(each) is list
            part = get_args(each)[0] if listed else each
            if is_typeddict(part):
                yield from (f"{key}.*.{path}" if listed else f"{key}.{path}" for path in paths_of(part))


def _value(kind: Any, parts: dict[str, Schema]) -> Schema:
    """The schema of a type. Those that have keys are written once, among the `parts`."""
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    if is_typeddict(kind):
        if kind.__name__ not in parts:
            parts[kind.__name__] = {}  # its place, while its own parts are written
            parts[kind.__name__] = _object(kind, parts)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    of = get_args(kind)
    match get_origin(kind):
        case origin if origin is Literal:
            return {"enum": [*of]}
        case origin if origin in (Union, UnionType):
            return _any_of([_value(each, parts) for each in of])
        case origin if origin is list:
            return {"type": "array", "items": _value(of[0], parts)}
        case origin if origin is dict:
            return {"type": "object", "additionalProperties": _value(of[1], parts)}
    raise TypeError(f"no schema is known for {kind}")


def _any_of(schemas: list[Schema]) -> Schema:
    """One of these; types that have names are named together."""
    if len(schemas) == 1:
        return schemas[0]
    named = [schema["type"] for schema in schemas if schema.keys() == {"type"}]
    others = [schema for schema in schemas if schema.keys() != {"type"}]
    simple = {"type": named[0] if len(named) == 1 else named}
    return {"anyOf": [*others, *([simple] if named else [])]} if others else simple


def _object(kind: Any, parts: dict[str, Schema]) -> Schema:
    """The schema of a type with keys, none of which may be missing and no other be there, unless it says so."""
    keys = {key: _value(of, parts) for key, of in get_type_hints(kind).items()}
    return {
        "description": kind.__doc__ or "",  # none with `python -OO`
        "type": "object",
        "properties": keys,
        "required": [key for key in keys if key in kind.__required_keys__],
        **_open(kind, parts),
    }


def _open(kind: Any, parts: dict[str, Schema]) -> Schema:
    """Which keys there may be beside those that are named: bytes are integers under any."""
    if kind not in OPEN:
        return {"additionalProperties": False}
    return {
        "patternProperties": {"bytes": {"type": "integer"}},
        "additionalProperties": _value(OPEN[kind], parts),
    }
