"""What requests of several seeds met, as values for JSON and as a table."""

from typing import TYPE_CHECKING

from kvcalc.core.durations import format_seconds
from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.views.report import Cell, Section

if TYPE_CHECKING:
    from kvcalc.views.types.simulate import SeedValues

__all__ = ["seed_sections", "seed_values"]


def seed_values(answer: SimulateAnswer) -> "list[SeedValues]":
    """A row for each seed; none where one alone was asked."""
    return [
        {
            "seed": each.seed,
            "overloaded": each.overloaded,
            "ttft_p95_seconds": each.ttft,
            "tpot_p95_seconds": each.tpot,
            "e2e_p95_seconds": each.e2e,
            "attained": each.met,
        }
        for each in answer.by_seed
    ]


def seed_sections(answer: SimulateAnswer) -> list[Section]:
    """The least, the middle and the most over the seeds, where there are several."""
    found = answer.by_seed
    if not found:
        return []
    rows: list[tuple[Cell, ...]] = []
    for name, values in (
        ("TTFT, p95", [each.ttft for each in found]),
        ("TPOT, p95", [each.tpot for each in found]),
        ("end to end, p95", [each.e2e for each in found]),
    ):
        rows.append((name, *map(format_seconds, _spread(values))))
    met = [each.met for each in found if each.met is not None]
    if met:
        rows.append(("meet all targets", *(f"{100 * share:.1f} %" for share in _spread(met))))
    return [Section("seeds", ("over seeds", "least", "middle", "most"), rows)]


def _spread(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return ordered[0], ordered[len(ordered) // 2], ordered[-1]
