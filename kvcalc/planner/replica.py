"""One replica's cache as its GPUs hold it, worked out once for each way to spread a model and shared by all cards."""

from collections import Counter
from typing import NamedTuple, assert_never

from kvcalc.core.fitting import Allocator, Fit, fill
from kvcalc.core.formula import Widths, kept, size
from kvcalc.core.memory import MemorySplit
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Model, Recurrent, Shared
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout, place, rank_tokens
from kvcalc.core.units import MOST_TOKENS, ceil_div
from kvcalc.errors import KvcalcError

__all__ = ["ExactReplica", "ReplicaLayout", "replica_layout", "replica_layouts"]

Stage = tuple[tuple[Cache, int], ...]  # one rank's caches of a pipeline stage, and how often each occurs


class ReplicaLayout(NamedTuple):
    """The stages of a replica that differ, as one rank of each holds them."""

    layout: Layout
    stages: tuple[Stage, ...]


def replica_layout(model: Model, layout: Layout) -> ReplicaLayout:
    """Place a model's layers. Raises KvcalcError where the layout does not map onto it."""
    counts: dict[int, Counter[Cache]] = {}
    for placed in place(model, layout).layers:
        counts.setdefault(placed.stage, Counter()).update(placed.caches)
    return ReplicaLayout(layout, tuple(dict.fromkeys(tuple(stage.items()) for stage in counts.values())))


def replica_layouts(
    model: Model, most: int, widest: int, pinned: Layout, *, context_parallel: bool = False
) -> list[ReplicaLayout]:
    """Every tp x pp of up to `most` GPUs that maps onto a model, tp up to `widest`, fewest GPUs first.

    What is above 0 in `pinned` is as it says. `context_parallel`: every dcp too, else only a pinned one. Raises
    KvcalcError where nothing maps that is pinned.
    """
    found, refused = [], None
    for tp in [pinned.tp] if pinned.tp else range(1, min(most, widest) + 1):
        every = [n for n in range(1, tp + 1) if tp % n == 0] if context_parallel else [1]
        for dcp in [pinned.dcp] if pinned.dcp else every:
            stages = min(most // tp, len(model.layers))
            for pp in [pinned.pp] if pinned.pp else range(1, stages + 1):
                try:
                    found.append(replica_layout(model, Layout(tp, pp, 1, dcp)))
                except KvcalcError as error:  # what one number of stages cannot, none can
                    refused = refused or error
                    break
    if not found and refused is not None and pinned != Layout(0, 0, 0, 0):
        raise refused
    return sorted(found, key=lambda each: (each.layout.gpus, each.layout))


class ExactReplica:
    """A replica without an engine: nothing but the cache, with `shared` tokens of all sequences held once.

    Only full attention, latents and their indexes are shared: windows and states are each sequence's own.
    """

    most_sequences: int | None = None
    pooled = True
    warnings: tuple[str, ...] = ()

    def __init__(
        self, replica_layout: ReplicaLayout, widths: Widths, encoder_tokens: int | None, shared: int = 0
    ) -> None:
        self._stages, self._dcp = replica_layout.stages, replica_layout.layout.dcp
        self._widths, self._encoder_tokens = widths, encoder_tokens
        self._prefix = shared
        self._kept: dict[int, tuple[tuple[int, int], ...]] = {}

    def _parts(self, tokens: int) -> tuple[tuple[int, int], ...]:
        """Bytes of each stage: what all sequences share, and what each has of its own."""
        if tokens not in self._kept:
            self._kept[tokens] = tuple(dict.fromkeys(self._part(stage, tokens) for stage in self._stages))
        return self._kept[tokens]

    def _part(self, stage: Stage, tokens: int) -> tuple[int, int]:
        shared = own = 0
        for cache, copies in stage:
            whole = copies * self._bytes(cache, tokens)
            part = (
                copies * self._bytes(cache, min(self._prefix, tokens)) if self._prefix and _can_be_shared(cache) else 0
            )
            shared, own = shared + part, own + whole - part
        return shared, own

    def _bytes(self, cache: Cache, tokens: int) -> int:
        return size(cache, rank_tokens(cache, tokens, self._dcp), self._widths, self._encoder_tokens)

    def needed(self, sequences: int, tokens: int) -> int:
        """Bytes of the fullest GPU."""
        return max(shared + sequences * own for shared, own in self._parts(tokens))

    def each(self, tokens: int) -> int:
        """Bytes that one more sequence adds where most are added."""
        return max(own for _, own in self._parts(tokens))

    def shared(self, tokens: int) -> int:
        """Bytes that are there whatever the number of sequences."""
        return max(shared for shared, _ in self._parts(tokens))

    def least_shared(self, tokens: int) -> int:
        """The same where least is: what every GPU of a replica has at least."""
        return min(shared for shared, _ in self._parts(tokens))

    def holds(self, sequences: int, tokens: int, free: int) -> bool:
        return all(shared + sequences * own <= free for shared, own in self._parts(tokens))

    def largest(self, tokens: int, free: int, most: int = MOST_TOKENS) -> int:
        """The most sequences on one replica."""
        for shared, own in self._parts(tokens):
            if shared > free:
                return 0
            if own:
                most = min(most, (free - shared) // own)
        return most

    def least(self, sequences: int, tokens: int, free: int, most: int) -> int | None:
        """The fewest replicas, up to `most`, on which so many sequences find room."""
        largest = self.largest(tokens, free)
        if not largest:
            return None
        replicas = ceil_div(sequences, largest)
        return replicas if replicas <= most else None

    def fit(self, memory: MemorySplit, request: Request) -> Fit:
        """The same answer as the size verb's."""
        sequences, context = request.sequences_per_replica, request.context
        if not self._prefix:
            each = self.needed(1, context)
            return fill(memory, request, Allocator(each * sequences, self.holds), each)
        alone = ExactReplica(ReplicaLayout(request.layout, self._stages), self._widths, self._encoder_tokens).needed(
            1, context
        )
        allocator = Allocator(
            self.needed(sequences, context), self.holds, capacity=lambda free: free * context // alone if alone else 0
        )
        return fill(memory, request, allocator)


def _can_be_shared(cache: Cache) -> bool:
    """Whether sequences with the same prefix can read one copy of it: what a window or a state keeps is its own."""
    match cache:
        case Attention():
            return kept(cache) is None
        case Latent() | Indexer():
            return True
        case Compressed():  # no engine's rule for sharing a prefix of such entries is known
            return False
        case Recurrent() | Shared():
            return False
        case _:
            assert_never(cache)
