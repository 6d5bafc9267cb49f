"""The JSON Schemas of answers."""

from typing import Any

from kvcalc.errors import KvcalcError, shown

__all__ = ["schema"]


def schema(verb: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a verb's document: what `--json` prints and `to_dict()` returns.

    It is that of this version, in full: keys keep their meaning within a schema's number, and later versions may have
    more. Raises KvcalcError for a verb that has none.
    """
    from kvcalc.verifying.types import VerifyDocument
    from kvcalc.views.schema import DOCUMENTS, schema_of

    documents = {**DOCUMENTS, "verify": (VerifyDocument,)}
    if not isinstance(verb, str) or verb not in documents:
        raise KvcalcError(f"verb: expected one of {', '.join(documents)}, got {shown(verb)}")
    return schema_of(verb, *documents[verb])
