"""A checked log as values for JSON, and as words for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcalc.logs.checks import Failed
from kvcalc.logs.compare import Checked, Compared, Verdict, overall
from kvcalc.version import __version__
from kvcalc.views.failed import failure_values, failure_words
from kvcalc.views.model import model_values
from kvcalc.views.report import Cell, Report, Section

if TYPE_CHECKING:
    from kvcalc.views.types.check import CheckDocument, LogLine, LogRun

__all__ = ["check_document", "check_report", "rows", "verdict"]

# What people call the quantities; the others are called in words of their own.
_WORDS = {
    "tokens": "tokens that fit",
    "num_blocks": "blocks",
    "cpu_blocks": "blocks in host memory",
    "needed": "needed for one request",
    "longest": "longest request that fits",
    "stored": "tokens of all blocks",
    "attn_block": "tokens of a block",
    "mamba_pad_pct": "padding of a state's page",
    "token_bytes": "bytes of a token",
    "bytes": "whole cache",
    "kv": "K and V",
    "kv_gb": "K and V",
    "kv_gib": "K and V",
    "kv_mib": "K and V",
    "k_gb": "K",
    "v_gb": "V",
    "k_mib": "K",
    "v_mib": "V",
    "conv_gb": "convolutions",
    "ssm_gb": "states",
    "mamba_slots": "slots of states",
    "swa_layer_tokens": "tokens of windows",
    "rs_mib": "states",
    "rs_cells": "cells of states",
    "rs_layers": "layers of the model",
    "r_f32_mib": "R of states",
    "s_f32_mib": "S of states",
    "p_f32_mib": "P of states",
}
_MOST_EXPLANATIONS = 3
_Start = Checked | Failed
_POOLS = {"swa": "windows", "csa": "entries of 4", "hca": "entries of 128", "lid": "their index", "index": "index"}


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
            _line(line, each, i) for i, each in enumerate(starts) if isinstance(each, Checked) for line in each.compared
        ],
        "runs": runs,
    }


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
    }


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
            [_row(line) for line in each.compared],
        )
        for each in checked
        if each.compared
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
        _words(expected.quantity),
        _amount(_printed(compared), places, expected.unit),
        _amount(_scaled(compared, expected.predicted), places, expected.unit),
        _between(compared),
        f"{compared.verdict}: {compared.why}" if compared.why else compared.verdict,
    )


def _words(quantity: str) -> str:
    pool, _, rest = quantity.partition("_")
    if pool in _POOLS and quantity not in _WORDS:
        return f"{_WORDS.get(rest, rest)} of {_POOLS[pool]}"
    return _WORDS.get(quantity, quantity)


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
    if checked.explained:
        found.append(f"the numbers would agree with {' or with '.join(checked.explained[:_MOST_EXPLANATIONS])}")
    return found
