"""A server's metrics as values for JSON, and as words for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvcalc.core.units import many
from kvcalc.queries.metrics import MetricsAnswer
from kvcalc.version import __version__
from kvcalc.views.model import model_values
from kvcalc.views.report import Cell, Count, Report, Section
from kvcalc.views.words import limited_by

if TYPE_CHECKING:
    from kvcalc.views.types.metrics import MetricsDocument, PoolValues

__all__ = ["csv_rows", "headline", "metrics_document", "metrics_report"]


def metrics_document(answer: MetricsAnswer, files: Sequence[str]) -> "MetricsDocument":
    """The document of `check` for metrics."""
    return {
        "schema": "kvcalc.metrics/1",
        "kvcalc_version": __version__,
        "files": list(files),
        "engine": answer.engine,
        "engines": answer.engines,
        "model_name": answer.model_name,
        "model": None if answer.model is None else model_values(answer.model),
        "running": answer.running,
        "waiting": answer.waiting,
        "binding": answer.binding,
        "pool": _pool(answer),
        "requests": {
            "answered": answer.requests,
            "per_second": _rate(answer),
            "mean_input_tokens": answer.lengths.input,
            "mean_output_tokens": answer.lengths.output,
            "prefix_hit_rate": answer.prefix_hit_rate,
            "preemptions": answer.preemptions,
        },
        "between": answer.between,
        "lengths": answer.lengths.words,
        "warnings": list(answer.warnings),
    }


def csv_rows(document: "MetricsDocument") -> "list[MetricsDocument]":
    """CSV has one line."""
    return [document]


def headline(answer: MetricsAnswer) -> object:
    """What --quiet prints: how many more sequences fit, or where no pool is told how many run."""
    return answer.running if answer.more_mean is None else answer.more_mean


def _rate(answer: MetricsAnswer) -> float | None:
    return answer.requests / answer.seconds if answer.requests is not None and answer.seconds else None


def _pool(answer: MetricsAnswer) -> "PoolValues":
    pool, used, room = answer.pool_tokens, answer.used_tokens, answer.predicted
    return {
        "tokens": pool,
        "predicted_tokens": None if room is None else room.tokens,
        "predicted_low": None if room is None else room.low,
        "predicted_high": None if room is None else room.high,
        "difference_percent": None if room is None or not pool else 100 * (room.tokens - pool) / pool,
        "used_tokens": used,
        "free_tokens": None if pool is None or used is None else pool - used,
        "tokens_per_sequence": used / answer.running if used is not None and answer.running else None,
        "more_sequences": answer.more_mean,
    }


def metrics_report(answer: MetricsAnswer) -> Report:
    """Tables that fit 80 columns."""
    pool = _pool(answer)
    held: list[tuple[Cell, ...]] = [("tokens of the pool", _count(pool["tokens"]))]
    if answer.predicted is not None:
        room = answer.predicted
        held.append(("predicted", f"{room.tokens:,} ({room.low:,} to {room.high:,})"))
    held += [
        ("used by running sequences", _count(pool["used_tokens"])),
        ("free", _count(pool["free_tokens"])),
        ("sequences that run", _count(answer.running)),
        ("requests that wait", _count(answer.waiting)),
    ]
    if (mean := pool["tokens_per_sequence"]) is not None:
        held += [("tokens of a sequence, mean", Count(round(mean))), ("more of that length", _count(answer.more_mean))]
    sections = [Section("pool", ("pool", ""), held)]
    if rows := _requests(answer):
        sections.append(Section("requests", ("requests", ""), rows))
    return Report(
        sections,
        title=answer.model_name or (answer.model.name if answer.model else answer.engine),
        facts=[answer.engine, many(answer.engines, "engine")],
        verdict=_verdict(answer),
        notes=_notes(answer),
        warnings=list(answer.warnings),
    )


def _count(value: int | None) -> Cell:
    return "not told" if value is None else Count(value)


def _requests(answer: MetricsAnswer) -> list[tuple[Cell, ...]]:
    rate, lengths = _rate(answer), answer.lengths
    cells: list[tuple[str, Cell | None]] = [
        ("answered", None if answer.requests is None else Count(answer.requests)),
        ("a second", None if rate is None else f"{rate:.3g}"),
        ("tokens in, mean", None if lengths.input is None else Count(round(lengths.input))),
        ("tokens out, mean", None if lengths.output is None else Count(round(lengths.output))),
        ("prompt tokens found", None if answer.prefix_hit_rate is None else f"{100 * answer.prefix_hit_rate:.1f} %"),
        ("preemptions", None if answer.preemptions is None else Count(answer.preemptions)),
    ]
    return [(name, cell) for name, cell in cells if cell is not None]


def _verdict(answer: MetricsAnswer) -> str:
    if answer.binding is None:
        return "nothing waits"
    what = "requests wait" if answer.waiting else "requests were preempted"
    return f"{what}, limited by {limited_by(answer.binding)}"


def _notes(answer: MetricsAnswer) -> list[str]:
    since = "between the two snapshots" if answer.between else "since the server began"
    found = [f"requests and preemptions are counted {since}"]
    if answer.lengths.words is not None:
        found.append(f"for plan and simulate: {answer.lengths.words}")
    if answer.predicted is not None:
        found.append("the prediction is an estimate: a start-up log beside it says why they differ")
    return found
