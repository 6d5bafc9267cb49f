"""Documents as JSON and CSV: values exactly, for programs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from kvcalc.views.document import flat

__all__ = ["as_csv", "as_json", "csv_lines", "json_lines", "raw"]

_AT_ONCE = 2000  # rows that are written together


def as_json(document: Mapping[str, object]) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=True) + "\n"


def as_csv(documents: Sequence[Mapping[str, object]]) -> str:
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
            writer.writerow(map(_inert, values))
        writer.writerow("" if value is None else _cell(value) for value in values.values())
    return out.getvalue()


def csv_lines(keys: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Rows of plain values under their keys, some at a time, so that however many there are no memory holds them."""
    import csv
    import io
    from itertools import islice

    def text(some: Iterable[Sequence[object]]) -> str:
        out = io.StringIO()
        lines = (
            [_inert(v) if isinstance(v, str) else "true" if v is True else "false" if v is False else v for v in row]
            for row in some
        )
        csv.writer(out, lineterminator="\n").writerows(lines)
        return out.getvalue()

    yield text([keys])
    rest = iter(rows)
    while lines := text(islice(rest, _AT_ONCE)):
        yield lines


# What spreadsheets take for the beginning of a formula, which may start programs and send data away.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def _cell(value: object) -> str:
    """A value as CSV has it: numbers as they are, and text so that no spreadsheet runs it."""
    return _inert(value) if isinstance(value, str) else raw(value)


def _inert(text: str) -> str:
    """Text behind an apostrophe where it looks like a formula: spreadsheets then show it, and take it for text."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def json_lines(
    document: Mapping[str, object], keys: Sequence[str], rows: Iterable[Sequence[object]], under: str = "rows"
) -> Iterator[str]:
    """A document with its rows at the end, one a line and written some at a time."""
    import json
    from itertools import islice

    begun = as_json(document).removesuffix("\n}\n")
    yield f'{begun},\n  "{under}": ['
    rest, first = iter(rows), True
    while some := list(islice(rest, _AT_ONCE)):
        lines = ",\n    ".join(json.dumps(dict(zip(keys, row, strict=True))) for row in some)
        yield ("\n    " if first else ",\n    ") + lines
        first = False
    yield "\n  ]\n}\n"


def raw(value: object) -> str:
    """One value for a shell: text and numbers as they are, null, true and lists as JSON has them."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # the usual case, which need not wait for json
    import json

    return json.dumps(value)
