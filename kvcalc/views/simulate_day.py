"""Replicas over a day, as values for JSON and as tables."""

from typing import TYPE_CHECKING

from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.views.report import Cell, Count, Section

if TYPE_CHECKING:
    from kvcalc.views.types.simulate import DayValues, HourValues

__all__ = ["day_sections", "day_values", "hour_values"]


def day_values(answer: SimulateAnswer) -> "DayValues | None":
    """The day as a whole."""
    day = answer.day
    if day is None:
        return None
    return {
        "requests_per_second_per_replica": day.each,
        "peak_replicas": day.peak,
        "gpu_hours": day.hours * _gpus(answer),
        "static_gpu_hours": day.fixed_hours * _gpus(answer),
        "start_seconds": day.start_seconds,
        "cost": None if (price := _price(answer)) is None else day.hours * _gpus(answer) * price,
        "static_cost": None if price is None else day.fixed_hours * _gpus(answer) * price,
    }


def _price(answer: SimulateAnswer) -> float | None:
    """An hour of one GPU, where somebody said."""
    plan, gpu = answer.question.day, answer.question.memory.gpu
    if plan is None or gpu is None:
        return None
    return plan.prices.get(gpu.card.name, gpu.card.price)


def hour_values(answer: SimulateAnswer) -> "list[HourValues]":
    """Its parts."""
    return [
        {"hour": part.hour, "hours": part.hours, "requests_per_second": part.rate, "replicas": replicas}
        for part, replicas in (() if answer.day is None else answer.day.parts)
    ]


def _gpus(answer: SimulateAnswer) -> int:
    assert answer.size is not None
    return answer.size.size.request.layout.gpus


def day_sections(answer: SimulateAnswer) -> list[Section]:
    """Two tables, where a day is asked for."""
    day = answer.day
    if day is None:
        return []
    gpus = _gpus(answer)
    whole: list[tuple[Cell, ...]] = [
        ("requests a second that a replica carries", f"{day.each:.3g}"),
        ("replicas at the peak", Count(day.peak)),
        ("GPU-hours, as many replicas as each part needs", f"{day.hours * gpus:,.1f}"),
        ("GPU-hours, the peak's replicas all day", f"{day.fixed_hours * gpus:,.1f}"),
    ]
    if (price := _price(answer)) is not None:
        whole += [
            ("cost, as many replicas as each part needs", f"{day.hours * gpus * price:,.2f}"),
            ("cost, the peak's replicas all day", f"{day.fixed_hours * gpus * price:,.2f}"),
        ]
    parts: list[tuple[Cell, ...]] = [
        (f"{part.hour:g}", f"{part.rate:.3g}", Count(replicas)) for part, replicas in day.parts
    ]
    return [
        Section("day", ("day", ""), whole),
        Section("hours", ("from the hour", "requests a second", "replicas"), parts),
    ]
