"""Documents as JSON and CSV: values exactly, for programs."""

from collections.abc import Mapping, Sequence

from kvcalc.document import Value, flat

__all__ = ["as_csv", "as_json", "raw"]


def as_json(document: Mapping[str, Value]) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def as_csv(documents: Sequence[Mapping[str, Value]]) -> str:
    """One line of dotted keys and one line for each document; of lists only the warnings, joined."""
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for i, document in enumerate(documents):
        values = dict(flat(document))
        warnings = document.get("warnings")
        if isinstance(warnings, list):
            values["warnings"] = "; ".join(map(str, warnings))
        if not i:
            writer.writerow(values)
        writer.writerow("" if value is None else raw(value) for value in values.values())
    return out.getvalue()


def raw(value: Value) -> str:
    """One value for a shell: text and numbers as they are, null, true and lists as JSON has them."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # the usual case, which need not wait for json
    import json

    return json.dumps(value)
