"""A plan as charts: how many sequences its rows hold over the context, and how fast they go over the concurrency."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Literal

from kvcalc.errors import KvcalcError
from kvcalc.perf.load import Load
from kvcalc.planner.ranking import leading
from kvcalc.planner.rows import PlanRow
from kvcalc.queries.plan import PlanAnswer
from kvcalc.views.chart import MOST_SERIES, Axis, Chart, Limit, Lines, Point, Series
from kvcalc.views.plan_words import row_names

__all__ = ["plan_charts"]

_LEAST = 1024  # tokens at which a curve begins
_SPAN = 8  # times the context that was asked for, where no limit is published
_MOST_SEQUENCES = 4096  # on one replica: batches beyond are not run
_POINTS_AN_OCTAVE = 2


def plan_charts(answer: PlanAnswer, option: str) -> list[Chart]:
    """Sequences over the context; with lengths, times over the sequences at once, with what is promised as a line.

    The best row of each card, or all rows where there is one card. Raises KvcalcError naming the `option` where there
    are more than can be told apart.
    """
    rows = leading(answer.proposal.rows)
    cards = len({(row.card.name, row.candidate.fixed) for row in rows})
    rows = rows[: min(answer.question.top, cards if cards > 1 else len(rows))]
    if len(rows) > MOST_SERIES:
        raise KvcalcError(
            f"{option}: expected at most {MOST_SERIES} lines in a chart, got {len(rows)}", f"--top {MOST_SERIES}"
        )
    if not rows:
        return []
    charts = [_sequences(answer, rows), _times(answer, rows, "TPOT")]
    targets = answer.question.targets
    if targets is not None and targets.ttft is not None:
        charts.append(_times(answer, rows, "TTFT"))
    return [chart for chart in charts if chart is not None]


def _sequences(answer: PlanAnswer, rows: Sequence[PlanRow]) -> Lines | None:
    """The most sequences at once of so many tokens each, with the likely overheads of the row."""
    wanted, backend = answer.proposal.search.question, answer.proposal.search.backend
    limit = answer.proposal.facts.max_context or _SPAN * wanted.context
    series = []
    for name, row in zip(row_names(rows), rows, strict=True):
        memory = backend.replica_memory(row.config, row.card)
        largest = [(t, memory.largest(t, row.fit.memory.kv_budget) * row.layout.dp) for t in _doubled(_LEAST, limit)]
        points = tuple(Point(tokens, most) for tokens, most in largest if most)
        if points:
            series.append(Series(name, points))
    if not series:
        return None
    limits = [Limit("context", wanted.context, upright=True)] if wanted.context >= _LEAST else []
    if wanted.lengths is None:
        limits.append(Limit("users", wanted.users))
    return Lines(
        f"{answer.model.name}: sequences over the context",
        "the most sequences at once over all replicas, all of them so long, with the likely overheads of each row",
        Axis("context (tokens)", "tokens", "log2"),
        Axis("sequences", "", "log2"),
        tuple(series),
        tuple(limits),
    )


def _times(answer: PlanAnswer, rows: Sequence[PlanRow], what: Literal["TPOT", "TTFT"]) -> Lines | None:
    """Seconds over the sequences at once: at the percentile that is promised, else on average. None without lengths."""
    targets = answer.question.targets
    target = None if targets is None else targets.tpot if what == "TPOT" else targets.ttft
    series = []
    for name, row in zip(row_names(rows), rows, strict=True):
        points = tuple(
            Point(users * row.layout.dp, seconds)
            for users, load in _loads(answer, row)
            if (seconds := _seconds(load, what, None if targets is None else targets.percentile)) is not None
        )
        if points:
            series.append(Series(name, points))
    if not series:
        return None
    limits = [] if target is None else [Limit("target", target)]
    slowest = {row.candidate.slowest for row in rows} - {None}
    if what == "TPOT" and target is None and targets is None:
        limits += [Limit("ceiling", seconds) for seconds in slowest if seconds is not None]
    if answer.question.rate is None:
        limits.append(Limit("users", answer.question.users, upright=True))
    at = "on average" if targets is None else f"at p{targets.percentile:g}"
    words = {"TPOT": "time per token", "TTFT": "time to the first token"}[what]
    return Lines(
        f"{answer.model.name}: {words} over the concurrency",
        f"estimates, {at}: so many sequences at all times, up to what the row holds; "
        f"{answer.question.input} tokens in, {answer.question.output} out",
        Axis("sequences at once", "", "log2"),
        Axis(f"{what} {at}", "s", "log10"),
        tuple(series),
        tuple(limits),
    )


def _loads(answer: PlanAnswer, row: PlanRow) -> Iterator[tuple[int, Load]]:
    """One replica with each number of sequences; nothing where no lengths, or a rate of the card, are known."""
    search = answer.proposal.search
    if search.question.lengths is None or row.load is None:
        return
    most = _MOST_SEQUENCES if row.max_sequences is None else row.max_sequences // row.layout.dp
    for users in _doubled(1, max(1, min(most, _MOST_SEQUENCES))):
        yield users, search.times.load(row.card, row.config, row.fit.memory.kv_budget, users=users)


def _seconds(load: Load, what: Literal["TPOT", "TTFT"], percentile: float | None) -> float | None:
    if percentile is None or load.latency is None:
        return load.seconds_per_token if what == "TPOT" else load.ttft_seconds
    at: Callable[[float], float] = load.latency.tpot if what == "TPOT" else load.latency.ttft
    return at(percentile)


def _doubled(least: int, most: int) -> list[int]:
    """Whole numbers from the least to the most, at even distances on a logarithmic axis."""
    first = min(least, most)
    steps = range(_POINTS_AN_OCTAVE * (most // first).bit_length())
    found = {ceil(first * 2 ** (step / _POINTS_AN_OCTAVE)) for step in steps}
    return sorted({each for each in found if each < most} | {most})
