"""A day's rates from a file: columns hour and rate, a row for each part of it."""

from collections.abc import Mapping
from itertools import pairwise
from math import isfinite
from typing import Any

from kvcalc.errors import KvcalcError, shown
from kvcalc.serving.day import Part
from kvcalc.sources.traces.rows import rows_of

__all__ = ["read_day"]

_MOST_ROWS = 100_000
_MOST = 1e6  # hours, and requests a second


def read_day(path: str) -> tuple[Part, ...]:
    """Parts of a day; each lasts until the next, and the last as long as the one before. Raises KvcalcError."""
    name = "<stdin>" if path == "-" else path
    read: list[tuple[float, float]] = []
    for number, row in rows_of(path, name):
        hour, rate = (_number(row, column, name, number) for column in ("hour", "rate"))
        if read and hour <= read[-1][0]:
            raise KvcalcError(f"{name}: row {number:,} is not later than the one before", "sort the rows by hour")
        read.append((hour, rate))
        if len(read) > _MOST_ROWS:
            raise KvcalcError(f"{name}: expected at most {_MOST_ROWS:,} rows")
    if not any(rate for _, rate in read):
        raise KvcalcError(f"{name}: expected rows with a rate above zero", "columns hour and rate, such as 9,2.5")
    hours = [then - now for (now, _), (then, _) in pairwise(read)]
    hours.append(hours[-1] if hours else 1.0)
    return tuple(Part(hour, rate, lasts) for (hour, rate), lasts in zip(read, hours, strict=True))


def _number(row: Mapping[str, Any], column: str, name: str, number: int) -> float:
    named = {key.strip().lower(): value for key, value in row.items() if isinstance(key, str)}
    if column not in named:
        raise KvcalcError(f"{name}: no column is called {column}", "columns hour and rate, requests a second")
    try:
        value = float(named[column])
    except (TypeError, ValueError):
        value = -1.0
    if not isfinite(value) or not 0 <= value <= _MOST:
        raise KvcalcError(f"{name}: row {number:,}: expected {column} to be 0 or above, got {shown(named[column])}")
    return value
