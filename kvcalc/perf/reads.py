"""What one GPU reads of the cache for a new token."""

from collections.abc import Iterator
from typing import assert_never

from kvcalc.core.formula import size, token_bytes
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.core.request import Request
from kvcalc.core.sharding import Layout, shard
from kvcalc.perf.entries import Seen
from kvcalc.perf.flops import Index, Term, index_of, seen

__all__ = ["cache_reads"]


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
