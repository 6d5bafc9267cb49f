"""What a cache buys: FLOPs and seconds with it and without it; and a prefix loaded from elsewhere or computed again.

Seconds are a roofline (Williams et al. 2009, doi 10.1145/1498765.1498785): a pass takes the longer of moving its bytes
and computing its FLOPs, each at the share of the peak that is attained. Weights, FLOPs and what one GPU holds divide
over the ranks of tp; what they exchange is not counted, with a cache or without.
"""

from collections.abc import Iterator
from typing import NamedTuple, assert_never

from kvcalc.core.formula import size, token_bytes
from kvcalc.core.kinds import encodes
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout, shard
from kvcalc.perf.entries import Seen
from kvcalc.perf.flops import Flops, Index, Term, index_of, seen
from kvcalc.perf.links import LINKS, Link
from kvcalc.perf.roofline import Attained

__all__ = ["Clock", "Comparison", "Loaded", "Pair", "Prefix", "Rig", "Times", "cache_reads", "compare"]


class Rig(NamedTuple):
    """One replica: the peaks of its GPUs together, and the weights that they hold together."""

    gpus: int
    bandwidth: int  # bytes a second
    flops: int  # a second
    weights: int  # bytes
    touched: int  # bytes of those that one token uses: less than `weights` with experts
    attained: Attained = Attained()

    def moving(self, moved: int) -> float:
        """Seconds for bytes that are spread over the GPUs."""
        return moved / (self.bandwidth * self.attained.bandwidth)

    def computing(self, flops: int) -> float:
        """Seconds for FLOPs that are spread over the GPUs."""
        return flops / (self.flops * self.attained.compute)

    def read(self, tokens: int) -> int:
        """Bytes of weights that a pass over so many tokens reads: with experts, no more than each token's own."""
        return min(self.weights, self.touched * tokens)

    def ridge(self, parameters: int) -> int:
        """Tokens in one pass up to which reading the weights that one token uses takes longer than computing, at peak.

        With 16-bit weights, peak FLOP/s over peak bandwidth: 295 on an H100.
        """
        return self.touched * self.flops // (2 * parameters * self.bandwidth)


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
    rig: Rig | None
    times: Times | None
    prefix: Prefix | None

    @property
    def last(self) -> int:
        """The position whose token comes last: the last one that is computed, since a sampled token is only shown."""
        return self.prompt + self.output - 1


def compare(
    request: Request, flops: Flops, prompt: int, output: int, rig: Rig | None = None, links: tuple[Link, ...] = LINKS
) -> Comparison:
    """Weigh a cache up, for a prompt and `output` new tokens. Without a rig there are no seconds."""
    last = prompt + output - 1
    return Comparison(
        request,
        flops,
        prompt,
        output,
        Pair(flops.token(last), flops.prompt(last)),
        Pair(flops.with_cache(prompt, output), flops.without_cache(prompt, output)),
        rig,
        None if rig is None else times(rig, request, flops, prompt, output),
        None if rig is None or _crosses(request) else prefix(rig, request, flops, prompt, links),
    )


def _crosses(request: Request) -> bool:
    """A part of the cache is the encoder's, whose own pass is not counted: computing it again cannot be weighed up."""
    return any(encodes(cache) for cache in request.model.distinct_caches)


def times(rig: Rig, request: Request, flops: Flops, prompt: int, output: int) -> Times:
    """Seconds of the last token and of the whole generation, for the batch at once."""
    batch, last = request.batch, prompt + output - 1
    clock = Clock(rig, flops, cache_reads(request, request.layout), batch)
    ridge = rig.ridge(flops.parameters)
    return Times(
        Pair(clock.step(last), clock.anew(last)),
        Pair(clock.generation(prompt, output), clock.generation_anew(prompt, output)),
        ridge,
        saves=batch * last > ridge,
    )


def prefix(rig: Rig, request: Request, flops: Flops, tokens: int, links: tuple[Link, ...]) -> Prefix:
    """A prefix of `tokens` tokens of one sequence. Computed again it rides along with other work: no fixed time."""
    caches = request.model.distinct_caches.items()
    held = sum(size(cache, tokens, request.widths, request.encoder_tokens) * copies for cache, copies in caches)
    recompute = rig.computing(flops.prompt(tokens))
    return Prefix(
        tokens, held, recompute, held / recompute, tuple(Loaded(link, held / link.bytes_per_second) for link in links)
    )


def cache_reads(request: Request, layout: Layout) -> tuple[Term, ...]:
    """Bytes that one GPU of a layout reads of the cache for one new token, and of how many entries."""
    model = request.model
    return tuple(
        Term(bytes_ * copies, looked_at)
        for layer, copies in model.distinct_layers.items()
        for cache in layer
        for bytes_, looked_at in _entries(shard(cache, layout), index_of(model, layer), request)
        if bytes_
    )


def _entries(cache: Cache, index: Index | None, request: Request) -> Iterator[tuple[int, Seen]]:
    """Bytes of an entry that a query reads. A state is read and written; an index chosen before is not read again."""
    looked_at = seen(cache, index, request.encoder_tokens)
    match cache:
        case Recurrent():
            yield 2 * size(cache, 0, request.widths, request.encoder_tokens), looked_at
        case Shared(of=of):
            if not isinstance(of, Indexer):
                yield from _entries(of, index, request)
        case Compressed(indexer=width) if width:  # the keys of all entries, and of the entries those that are chosen
            entry = cache._replace(indexer=0)
            yield token_bytes(entry, request.widths).bytes, looked_at
            yield (
                token_bytes(cache, request.widths).bytes - token_bytes(entry, request.widths).bytes,
                looked_at._replace(most=0),
            )
        case Attention() | Latent() | Indexer() | Compressed():
            yield token_bytes(cache, request.widths).bytes, looked_at
        case _:
            assert_never(cache)


class Clock(NamedTuple):
    """Seconds of one pass for a batch. `reads` is what one GPU reads of each sequence's cache."""

    rig: Rig
    flops: Flops
    reads: tuple[Term, ...]
    batch: int

    def step(self, t: int) -> float:
        """One more token for each sequence, at position t, with the cache."""
        read = sum(term.each * term.seen.at(t) for term in self.reads)
        return self._linear() + self._attention(read, self.flops.token(t) - self.flops.linear)

    def anew(self, t: int) -> float:
        """A pass over t tokens of each sequence: a prompt, or one more token without a cache."""
        moved, computed = self._sides(t)
        return self.rig.attained.fixed_seconds + max(moved, computed)

    def generation(self, prompt: int, output: int) -> float:
        """The prompt's pass and a step for each further token. Which side attention is bound by is taken as one."""
        last, steps = prompt + output - 1, output - 1
        read = sum(term.each * (term.seen.prefix(last) - term.seen.prefix(prompt)) for term in self.reads)
        attention = self.flops.decoding(prompt, output) - steps * self.flops.linear
        return self.anew(prompt) + steps * self._linear() + self._attention(read, attention)

    def generation_anew(self, prompt: int, output: int) -> float:
        """A pass over the whole prefix for each token: first bound by the weights, from some length on by compute."""
        first, last = prompt, prompt + output  # of a half-open range
        low, high = first, last
        while low < high:  # the first length that is bound by compute; each longer one is too
            middle = (low + high) // 2
            moved, computed = self._sides(middle)
            low, high = (low, middle) if computed >= moved else (middle + 1, high)
        computed = self.rig.computing(self.batch * self.flops.without_cache(low, last - low)) if low < last else 0.0
        fixed = output * self.rig.attained.fixed_seconds
        return fixed + self.rig.moving(self._reads_between(first, low)) + computed

    def _linear(self) -> float:
        """The part of a step that is the same at every position."""
        moved = self.rig.moving(self.rig.read(self.batch))
        return self.rig.attained.fixed_seconds + max(moved, self.rig.computing(self.batch * self.flops.linear))

    def _attention(self, read: int, flops: int) -> float:
        """Attention of the whole batch: each sequence reads its own cache."""
        rig = self.rig
        return max(rig.moving(self.batch * read * rig.gpus), rig.computing(self.batch * flops))

    def _sides(self, tokens: int) -> tuple[float, float]:
        """Seconds of moving the weights and of computing, of a pass over so many tokens of each sequence."""
        rig = self.rig
        return rig.moving(rig.read(self.batch * tokens)), rig.computing(self.batch * self.flops.prompt(tokens))

    def _reads_between(self, first: int, end: int) -> int:
        """Bytes of weights that passes over first, first + 1, ... end - 1 tokens read together."""
        each = self.rig.touched * self.batch
        rising = min(max(self.rig.weights // each + 1, first), end)  # lengths before this read no expert twice
        below = each * (rising * (rising - 1) - first * (first - 1)) // 2
        return below + self.rig.weights * (end - rising)
