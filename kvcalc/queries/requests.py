"""The requests of a simulation: read from a file or made up, with what was left out of them."""

from array import array
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.units import many
from kvcalc.errors import KvcalcError, escape
from kvcalc.queries.simulation import Traffic
from kvcalc.traffic.arrivals import arrive, synthetic
from kvcalc.traffic.trace import Trace
from kvcalc.traffic.turns import SessionLengths, paced, sessions

if TYPE_CHECKING:
    from kvcalc.sources.traces.reader import Dropped

__all__ = ["Requests", "requests_of"]


class Requests(NamedTuple):
    """The trace, what was left out, and what the asker should know of it."""

    trace: Trace
    dropped: "tuple[Dropped, ...]"
    warnings: tuple[str, ...]


def requests_of(traffic: Traffic) -> Requests:
    """Find the requests. Raises KvcalcError where neither a file nor lengths are given, and for a faulty file."""
    if traffic.path is None:
        if traffic.made_up is None or traffic.arrivals is None:
            raise KvcalcError("TRACE: expected a file of requests", "or --rate, --input and --output to make them up")
        made = traffic.made_up
        if made.turns is not None and made.think is not None:
            lengths = SessionLengths(made.turns, made.input, made.output, made.think)
            return Requests(_scaled(sessions(made.requests, traffic.arrivals, lengths, made.seed), traffic), (), ())
        trace = synthetic(made.requests, traffic.arrivals, made.input, made.output, made.seed)
        return Requests(_scaled(trace, traffic), (), ())
    if traffic.made_up is not None:
        raise KvcalcError("--input: contradicts TRACE, which has the lengths", "leave one of them out")
    from kvcalc.sources.traces.reader import read_trace

    name = "<stdin>" if traffic.path == "-" else escape(traffic.path)
    found = read_trace(traffic.path, name, unit=traffic.unit)
    trace, warnings = found.trace, []
    if not found.timed:
        if traffic.arrivals is None:
            raise KvcalcError(f"{name}: no column is the time of arrival", "--rate R makes times up")
        trace = _timed(trace, arrive(len(trace), traffic.arrivals, Random(0)))  # noqa: S311 - nothing secret
    elif traffic.arrivals is not None:
        raise KvcalcError("--rate: contradicts TRACE, which has times", "--rate-scale F makes them come faster")
    if found.unsorted is not None:
        warnings.append(f"request {found.unsorted:,} is earlier than the one before: sorted by time")
    warnings += [
        f"{many(each.rows, 'row')} left out, with {each.reason}; the first is in line {each.first:,}"
        for each in found.dropped
    ]
    gaps = sorted(b - a for a, b in zip(trace.arrivals, trace.arrivals[1:], strict=False))
    if gaps and not gaps[len(gaps) // 2] and not traffic.spread_ties:
        warnings.append("most requests arrive together with another, on ticks of a clock: --spread-ties spreads them")
    return Requests(_scaled(trace, traffic), found.dropped, tuple(warnings))


def _timed(trace: Trace, arrivals: "array[float]") -> Trace:
    return replace(trace, arrivals=arrivals)


def _scaled(trace: Trace, traffic: Traffic) -> Trace:
    if traffic.spread_ties:
        trace = _timed(trace, array("d", _spread(trace.arrivals)))
    if traffic.rate_scale != 1:
        trace = paced(trace, traffic.rate_scale)
    return trace


def _spread(times: "array[float]") -> Iterator[float]:
    """Equal times at equal distances up to the next."""
    ticks = [(time, sum(1 for _ in same)) for time, same in groupby(times)]
    after = [time for time, _ in ticks[1:]]
    after.append(ticks[-1][0] + (ticks[-1][0] - ticks[-2][0] if len(ticks) > 1 else 0.0))
    for (time, count), then in zip(ticks, after, strict=True):
        yield from (time + (then - time) * i / count for i in range(count))
