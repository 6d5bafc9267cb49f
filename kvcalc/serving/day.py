"""Replicas over a day: as many in each part of it as its rate needs, against as many all day as its peak does."""

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

__all__ = ["Day", "Part", "Staffed", "staffed"]


class Part(NamedTuple):
    """From an hour on so many requests a second, for so many hours."""

    hour: float
    rate: float
    hours: float


class Staffed(NamedTuple):
    """A part of a day, and the replicas that it needs."""

    part: Part
    replicas: int


class Day(NamedTuple):
    """A day on replicas that each carry `each` requests a second.

    `hours` are those of all replicas, each paid from when it begins to start; `fixed_hours` those of as many all day as
    the peak needs.
    """

    parts: tuple[Staffed, ...]
    each: float
    peak: int
    hours: float
    fixed_hours: float
    start_seconds: float


def staffed(parts: Sequence[Part], each: float, start_seconds: float = 0.0) -> Day:
    """The fewest replicas in each part; the next day is as this one, so that the first part follows on the last."""
    needed = [Staffed(part, ceil(part.rate / each * (1 - 1e-12))) for part in parts]
    peak = max(one.replicas for one in needed)
    after = [*needed[1:], needed[0]]
    started = sum(max(0, then.replicas - now.replicas) for now, then in zip(needed, after, strict=True))
    hours = sum(one.replicas * one.part.hours for one in needed) + started * start_seconds / 3600
    return Day(tuple(needed), each, peak, hours, peak * sum(part.hours for part in parts), start_seconds)
