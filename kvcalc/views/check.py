"""A checked log as values for JSON, and as words for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcalc.core.units import format_bytes
from kvcalc.logs.checks import Failed
from kvcalc.logs.compare import Checked, Compared, Verdict, overall
from kvcalc.logs.estimates import worst
from kvcalc.version import __version__
from kvcalc.views.check_words import words_of
from kvcalc.views.failed import failure_values, failure_words
from kvcalc.views.model import model_values
from kvcalc.views.report import Cell, Report, Section

if TYPE_CHECKING:
    from kvcalc.views.types.check import CheckDocument, LogLine, LogRun

__all__ = ["check_document", "check_report", "rows", "verdict"]

_MOST_EXPLANATIONS = 3
_Start = Checked | Failed


def verdict(checked: Sequence[Checked]) -> Verdict:
    return overall(line for each in checked for line in each.compared)


def check_document(file: str, starts: Sequence[_Start], warnings: Sequence[str]) -> "CheckDocument":
    """The document of `check`. Model and request are those of the first start that could be compared; `runs` has all of
    them. `failed` is the first start that failed, or null.
    """
    runs = [_run(each) for each in starts]
    checked = [each for each in starts if isinstance(each, Checked)]
    known = next((run for run in runs if run["model"] is not None), None)
    failed = [
        failure_values(each.failure, each.engine.name, i) for i, each in enumerate(starts) if each.failure is not None
    ]
    return {
        "schema": "kvcalc.check/1",
        "kvcalc_version": __version__,
        "log": file,
        "model": None if known is None else known["model"],
        "request": None if known is None else known["request"],
        "warnings": list(warnings),
        "verdict": verdict(checked),
        "failed": failed[0] if failed else None,
        "lines": [
            _line(line, each, i) for i, each in enumerate(starts) if isinstance(each, Checked) for line in _lines(each)
        ],
        "runs": runs,
    }


def _lines(checked: Checked) -> tuple[Compared, ...]:
    """All numbers of a start: those that are compared, and behind them those that are estimated."""
    return (*checked.compared, *checked.estimated)


def rows(document: "CheckDocument") -> "list[LogLine]":
    """The lines, as CSV has them."""
    return document["lines"]


def _run(start: _Start) -> "LogRun":
    """One start: what it was taken for. `rules_of` is the version whose rules hold for the one that it names.

    `explained_by`: values of what the log leaves open, under each of which its numbers agree.
    """
    if isinstance(start, Failed):
        return {
            "engine": start.engine.name,
            "version": start.version,
            "rules_of": None,
            "verdict": "unknown",
            "assumed": None,
            "explained_by": [],
            "explanations": [],
            "failed": True,
            "model": None,
            "request": None,
        }
    request, question = start.question.request, start.question
    return {
        "engine": start.engine.name,
        "version": start.version,
        "rules_of": question.version.name,
        "verdict": start.verdict,
        "assumed": start.assumed or None,
        "explained_by": [start.assumed] if start.assumed else list(start.possible),
        "explanations": list(start.explained),
        "failed": start.failure is not None,
        "model": model_values(request.facts),
        "request": {
            "context": request.context,
            "batch": request.batch,
            "k_dtype": request.widths.k.name,
            "v_dtype": request.widths.v.name,
            "kv_heads": request.kv_heads,
            "encoder_tokens": request.encoder_tokens,
            "engine": start.engine.name,
            "engine_version": start.version or question.version.name,
            "tp": request.layout.tp,
            "pp": request.layout.pp,
            "dp": request.layout.dp,
            "dcp": request.layout.dcp,
            "ep": request.layout.ep,
            "dp_attention": request.layout.sharing > 1,
        },
    }


def _line(compared: Compared, checked: Checked, run: int) -> "LogLine":
    """`low` to `high` is where the printed number may lie; all four are in `unit`."""
    expected = compared.expected
    return {
        "line": expected.number,
        "run": run,
        "engine": checked.engine.name,
        "quantity": expected.quantity,
        "unit": expected.unit or None,
        "printed": _printed(compared),
        "predicted": _scaled(compared, expected.predicted),
        "low": _end(compared, expected.low, -1),
        "high": _end(compared, expected.high, 1),
        "verdict": compared.verdict,
        "why": compared.why or None,
        "difference": _difference(compared),
        "difference_percent": _percent(compared),
    }


def _difference(compared: Compared) -> float | None:
    """How much an estimate is above what was printed, in the printed unit."""
    if compared.verdict != "estimate" or compared.difference is None:
        return None
    return round(compared.difference / compared.expected.scale, compared.expected.printed.places + 1)


def _percent(compared: Compared) -> float | None:
    printed = compared.expected.printed.whole(compared.expected.scale)
    if compared.verdict != "estimate" or compared.difference is None or not printed:
        return None
    return round(100 * compared.difference / abs(printed), 1)


def _printed(compared: Compared) -> int | float:
    value, places = compared.expected.printed
    return value / 10**places if places else value


def _scaled(compared: Compared, value: int | None) -> int | float | None:
    """In the printed unit, with three digits more than were printed."""
    expected = compared.expected
    if value is None or expected.scale == 1:
        return value
    return round(value / expected.scale, expected.printed.places + 3)


def _end(compared: Compared, value: int | None, way: int) -> int | float | None:
    """An end of the interval: half a digit beyond what is predicted, where the printed number was rounded."""
    scaled, places = _scaled(compared, value), compared.expected.printed.places
    return scaled if scaled is None or not places else round(scaled + way * 0.5 / 10**places, places + 3)


def check_report(starts: Sequence[_Start], warnings: Sequence[str]) -> Report:
    """A table for each start, and one verdict."""
    checked = [each for each in starts if isinstance(each, Checked)]
    alone = len(starts) == 1
    sections = [
        Section(
            "line" if alone else f"{_engine(each)}, {each.question.request.facts.name}",
            ("", "quantity", "printed", "predicted", "may be printed", "verdict"),
            [_row(line) for line in _lines(each)],
        )
        for each in checked
        if _lines(each)
    ]
    said = verdict(checked)
    verdicts = [line.verdict for each in checked for line in each.compared]
    agree = f"{verdicts.count('match')} of {len(verdicts)} numbers agree"
    failures = [each.failure for each in starts if each.failure is not None]
    if failures:
        first = failures[0]
        agree = f"the start failed at line {first.line}: {first.what}" + (f"; {agree}" if verdicts else "")
    return Report(
        sections,
        title=checked[0].question.request.facts.name if alone and checked else "",
        facts=_facts(checked[0]) if checked else [starts[0].engine.name],
        verdict=f"{said}: {agree}",
        fits={"match": not failures, "mismatch": False, "unknown": None}[said],
        notes=[note for told in (*map(failure_words, failures), *map(_notes, checked)) for note in told],
        warnings=list(warnings),
    )


def _engine(checked: Checked) -> str:
    return f"{checked.engine.name} {checked.version or checked.question.version.name}"


def _facts(checked: Checked) -> list[str]:
    request = checked.question.request
    k, v = request.widths.k.name, request.widths.v.name
    facts = [_engine(checked), f"{request.context:,} tokens", k if k == v else f"K in {k}, V in {v}"]
    facts += [f"batch {request.batch}"] * (request.batch > 1)
    return facts + [f"{name} {size}" for name, size in request.layout.sizes.items()]


def _row(compared: Compared) -> tuple[Cell, ...]:
    expected = compared.expected
    places = expected.printed.places
    return (
        str(expected.number),
        words_of(expected.quantity),
        _amount(_printed(compared), places, expected.unit),
        _amount(_scaled(compared, expected.predicted), places, expected.unit),
        _between(compared),
        _said(compared),
    )


def _said(compared: Compared) -> str:
    if compared.verdict == "estimate":
        off, percent = _difference(compared), _percent(compared)
        share = "" if percent is None else f", {percent:+.1f} %"
        return f"estimate: {off:+,.2f} {compared.expected.unit}{share}"
    return f"{compared.verdict}: {compared.why}" if compared.why else compared.verdict


def _amount(value: float | None, places: int, unit: str) -> str:
    if value is None:
        return ""
    number = f"{value:,.{places}f}" if places else f"{value:,}"
    return number + (unit if unit in ("x", "%") else f" {unit}" if unit else "")


def _between(compared: Compared) -> str:
    """The interval; nothing where the prediction is one whole number."""
    expected, places = compared.expected, compared.expected.printed.places
    low, high = _end(compared, expected.low, -1), _end(compared, expected.high, 1)
    if low is None or high is None or (low == high and not places):
        return ""
    return f"{_amount(low, places and places + 1, '')}-{_amount(high, places and places + 1, '')}"


def _notes(checked: Checked) -> list[str]:
    found = []
    if checked.possible:
        several = " or with ".join(checked.possible[:_MOST_EXPLANATIONS])
        more = len(checked.possible) - _MOST_EXPLANATIONS
        others = f" or with {more} more" if more > 0 else ""
        found.append(f"the log does not say, and the numbers agree with {several}{others}")
    elif checked.assumed:
        found.append(f"not in the log, and taken since the numbers then agree: {checked.assumed}")
    elif checked.version is None:
        found.append(f"the version is not in the log: the rules of {_engine(checked)} were taken")
    if (most := worst(checked.estimated)) is not None and most.difference:
        way = "above" if most.difference > 0 else "below"
        size = format_bytes(abs(most.difference))
        found.append(
            f"of the estimated terms {words_of(most.expected.quantity)} is off most: {size} {way} what is printed"
        )
    if checked.explained:
        found.append(f"the numbers would agree with {' or with '.join(checked.explained[:_MOST_EXPLANATIONS])}")
    return found
