"""What a cache buys: FLOPs and seconds with it and without it; and a prefix loaded from elsewhere or computed again.

Seconds are the clock's: with a cache, steps for one token of each sequence; without one, passes over all text before.
"""

from collections.abc import Callable
from typing import NamedTuple

from kvcalc.core.formula import size
from kvcalc.core.kinds import encodes
from kvcalc.core.request import Request
from kvcalc.perf.clock import Clock
from kvcalc.perf.demand import prompt_attention
from kvcalc.perf.flops import Flops, Term
from kvcalc.perf.links import LINKS, Link
from kvcalc.perf.machine import HALF_SPEED
from kvcalc.perf.reads import cache_reads

__all__ = ["Comparison", "Generation", "Loaded", "Pair", "Prefix", "Times", "compare", "ridge"]

_PASSES = 256  # of a text without a cache that are worked out one by one; of longer ones so many, evenly spaced


class Pair(NamedTuple):
    """The same with a cache and without it."""

    with_cache: float
    without_cache: float

    @property
    def ratio(self) -> float:
        return self.without_cache / self.with_cache


class Times(NamedTuple):
    """Seconds for the whole batch. `saves`: the asked position is past the ridge, so that there is time to save."""

    token: Pair
    generation: Pair
    ridge: int
    saves: bool


class Loaded(NamedTuple):
    """A prefix over a link."""

    link: Link
    seconds: float


class Prefix(NamedTuple):
    """One sequence's cache of the prompt, brought back over a link or computed again."""

    tokens: int
    bytes: int
    recompute: float
    break_even: float  # bytes a second at which both take the same time
    loaded: tuple[Loaded, ...]


class Comparison(NamedTuple):
    """The answer. FLOPs are those of one sequence, seconds those of the batch; both need no cache to be held twice."""

    request: Request
    flops: Flops
    prompt: int
    output: int
    token: Pair
    generation: Pair
    clock: Clock | None
    times: Times | None
    prefix: Prefix | None

    @property
    def last(self) -> int:
        """The position whose token comes last: the last one that is computed, since a sampled token is only shown."""
        return self.prompt + self.output - 1


def compare(
    request: Request,
    flops: Flops,
    prompt: int,
    output: int,
    clock: Clock | None = None,
    links: tuple[Link, ...] = LINKS,
) -> Comparison:
    """`prompt` tokens, and `output` new ones of which the prompt's pass yields the first; times on a clock."""
    last = prompt + output - 1
    return Comparison(
        request,
        flops,
        prompt,
        output,
        Pair(flops.token(last), flops.prompt(last)),
        Pair(flops.with_cache(prompt, output), flops.without_cache(prompt, output)),
        clock,
        None if clock is None else times(clock, request, prompt, output),
        None if clock is None or _crosses(request) else prefix(clock, request, prompt, links),
    )


def _crosses(request: Request) -> bool:
    """A part of the cache is the encoder's, whose own pass is not counted: computing it again cannot be weighed up."""
    return any(encodes(cache) for cache in request.model.distinct_caches)


def ridge(clock: Clock) -> int:
    """Tokens in one pass up to which reading the weights that one token uses takes longer than computing, at peak.

    With 16-bit weights, peak FLOP/s over peak bandwidth: 295 on an H100.
    """
    machine, demand = clock.machine, clock.demand
    computed = (demand.dense + demand.expert) * machine.peak_bandwidth
    return int(demand.read(1) * machine.peak_matrices / computed) if computed else 0


def times(clock: Clock, request: Request, prompt: int, output: int) -> Times:
    """Seconds of the last token and of the whole generation, for the batch at once."""
    last, at_ridge = prompt + output - 1, ridge(clock)
    going = Generation(clock, cache_reads(request, request.layout), request.batch)
    return Times(
        Pair(going.step(last), going.anew(last)),
        Pair(going.whole(prompt, output), going.whole_anew(prompt, output)),
        at_ridge,
        saves=request.batch * last > at_ridge,
    )


def prefix(clock: Clock, request: Request, tokens: int, links: tuple[Link, ...]) -> Prefix:
    """A prefix of `tokens` tokens of one sequence. Computed again it rides along with other work."""
    caches = request.model.distinct_caches.items()
    held = sum(size(cache, tokens, request.widths, request.encoder_tokens) * copies for cache, copies in caches)
    flops = prompt_attention(clock.demand.flops, tokens) * (1 + HALF_SPEED / tokens)
    recompute = clock.machine.pp * clock.shared_prompt(tokens, flops)
    return Prefix(
        tokens, held, recompute, held / recompute, tuple(Loaded(link, held / link.bytes_per_second) for link in links)
    )


class Generation(NamedTuple):
    """Seconds of a batch that writes on. `reads` is what one GPU reads of each sequence's cache."""

    clock: Clock
    reads: tuple[Term, ...]
    batch: int

    def step(self, t: int) -> float:
        """One more token for each sequence, at position t, with the cache."""
        read = sum(term.each * term.seen.at(t) for term in self.reads)
        flops = self.clock.demand.flops
        return self.clock.step(self.batch, read, flops.token(t) - flops.linear)

    def anew(self, t: int) -> float:
        """A pass over t tokens of each sequence: a prompt, or one more token without a cache."""
        flops = prompt_attention(self.clock.demand.flops, t) * (1 + HALF_SPEED / t)
        return self.clock.passes(self.batch * t, self.batch * flops)

    def whole(self, prompt: int, output: int) -> float:
        """The prompt's pass and a step for each further token. Which side attention is bound by is taken as one."""
        last, steps, flops = prompt + output - 1, output - 1, self.clock.demand.flops
        read = sum(term.each * (term.seen.prefix(last) - term.seen.prefix(prompt)) for term in self.reads)
        attention = flops.decoding(prompt, output) - steps * flops.linear
        linear = steps * self.clock.step(self.batch, 0, 0)
        return self.anew(prompt) + linear + self.batch * self.clock.attending(read, attention)

    def whole_anew(self, prompt: int, output: int) -> float:
        """A pass over the whole prefix for each token."""
        return _summed(self.anew, prompt, output)


def _summed(of: Callable[[int], float], first: int, count: int) -> float:
    """The sum of a smooth function over `count` whole numbers: of each, or by the trapezoid rule over some of them."""
    if count <= _PASSES:
        return sum(map(of, range(first, first + count)))
    last = first + count - 1
    points = [first + (last - first) * i // _PASSES for i in range(_PASSES + 1)]
    values = [of(point) for point in points]
    spans = zip(points, points[1:], values, values[1:], strict=False)
    return (values[0] + values[-1]) / 2 + sum((b - a) * (x + y) / 2 for a, b, x, y in spans)
