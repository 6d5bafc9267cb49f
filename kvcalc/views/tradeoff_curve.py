"""What one new token takes over the context, with the cache and without, as a curve."""

from typing import TYPE_CHECKING

from kvcalc.perf.reads import cache_reads
from kvcalc.perf.tradeoff import Generation
from kvcalc.queries.tradeoff import TradeoffAnswer
from kvcalc.views.chart import Axis, Limit, Lines, Point, Series
from kvcalc.views.tradeoff import answer_facts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["tradeoff_chart"]

_POINTS_AN_OCTAVE = 4
_SPAN = 4096  # tokens that a curve shows where no limit is published


def tradeoff_chart(answer: TradeoffAnswer) -> Lines:
    """What one new token takes over the context, with and without the cache: seconds on a GPU, else FLOPs."""
    found, request = answer.comparison, answer.comparison.request
    what = "compute" if found.clock is None else "time"
    with_cache: Callable[[int], float] = found.flops.token
    without: Callable[[int], float] = found.flops.prompt
    if found.clock is not None:
        going = Generation(found.clock, cache_reads(request, request.layout), request.batch)
        with_cache, without = going.step, going.anew
    contexts = _contexts(max(found.last, request.facts.max_context or _SPAN))
    on = "" if answer.card is None else f" on {answer_facts(answer)[-1]}"
    about = f"{what} of a new token over the context, with the cache and without: {', '.join(answer_facts(answer)[1:])}"
    limits = [Limit("asked", found.last, upright=True)]
    if found.times is not None and request.batch == 1 and found.times.ridge:
        about += "; ridge: where computing takes as long as reading the weights, at peak rates"
        limits.append(Limit("ridge", found.times.ridge, upright=True))
    return Lines(
        f"{request.facts.name}{on}: what caching buys",
        about,
        Axis("context", "tokens", "log2"),
        Axis(f"{what} of a new token", "FLOP" if found.clock is None else "s", "log10"),
        (
            Series("without the cache", tuple(Point(t, without(t)) for t in contexts)),
            Series("with the cache", tuple(Point(t, with_cache(t)) for t in contexts)),
        ),
        tuple(limits),
    )


def _contexts(most: int) -> list[int]:
    """Lengths from 1 up, at even distances on a logarithmic axis."""
    steps = range(_POINTS_AN_OCTAVE * most.bit_length())
    lengths = {round(2 ** (step / _POINTS_AN_OCTAVE)) for step in steps}
    return sorted({length for length in lengths if length < most} | {most})
