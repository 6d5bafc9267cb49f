"""How the arrays of MLX-LM's caches grow, in tokens: the update rules of mlx_lm/models/cache.py 0.32.2 in closed form.

`generate_step` reads all of a prompt but its last token in chunks, and then writes one token at a time. Each function
gives the capacity of a cache's arrays at one moment of that.
"""

from functools import lru_cache
from typing import NamedTuple

from kvcalc.core.units import ceil_div

__all__ = ["STEP", "Moment", "chunked", "grown", "moments", "rotated"]

STEP = 256  # KVCache.step, RotatingKVCache.step and ChunkedKVCache.step alike


class Moment(NamedTuple):
    """`tokens` have been written, the first `read` of them in chunks of `chunk`, the others one by one."""

    tokens: int
    read: int
    chunk: int
    quantised: bool = False

    @property
    def last(self) -> int:
        """Tokens of the last write."""
        return 1 if self.tokens > self.read else self.read % self.chunk or min(self.chunk, self.read)


def moments(tokens: int, read: int, chunk: int, start: int | None) -> list[Moment]:
    """When most can be held: after the last whole chunk, after all chunks, before quantising, and in the end.

    Caches are quantised after the write that takes them to `start` tokens.
    """

    def after(written: int) -> Moment:
        return Moment(written, min(written, read), chunk, start is not None and written >= start)

    found = [after(read // chunk * chunk), after(read)]
    if start is not None and start <= tokens:
        first = max(start, 1)
        crossing = min(ceil_div(first, chunk) * chunk, read) if first <= read else first
        found.append(after(crossing)._replace(quantised=False))
    return [*found, after(tokens)]


def grown(at: Moment) -> int:
    """KVCache.update_and_fetch: whole blocks of 256 tokens are appended, and what was left of the last one cut off."""
    capacity = _after_chunks(at.read, at.chunk)
    return capacity + _blocks(at.tokens - capacity)


def rotated(at: Moment, most: int) -> int:
    """RotatingKVCache: a write of several tokens keeps most - 1 earlier ones beside them; single ones bring it to most.

    A first write of several tokens is stored as it is. A chunk of one token is written like those that follow.
    """
    together = at.read if at.chunk > 1 else 0
    if together % at.chunk == 1:
        together -= 1
    capacity = together
    if together > at.chunk:
        last = together % at.chunk or at.chunk
        capacity = min(together - last, most - 1) + last
    single = at.tokens - together
    if not single:
        return capacity
    return most if capacity >= most else min(most, capacity + _blocks(single))


def chunked(at: Moment, span: int) -> int:
    """ChunkedKVCache: cut to the chunk before each write once it is longer (maybe_trim_front), else like KVCache."""
    return grown(at) if at.tokens - at.last <= span else span + _blocks(at.last)


def _blocks(tokens: int) -> int:
    return max(0, ceil_div(tokens, STEP)) * STEP


@lru_cache(maxsize=256)
def _after_chunks(read: int, chunk: int) -> int:
    """The capacity after `read` tokens in chunks. Where blocks do not match chunks, it repeats after some of them."""
    if chunk % STEP == 0:
        return _blocks(read)
    capacity = offset = 0
    seen: dict[tuple[int, int], int] = {}
    while offset < read:
        write = min(chunk, read - offset)
        if offset + write > capacity:
            capacity = (offset if offset % STEP else capacity) + _blocks(write)
        offset += write
        state = (capacity - offset, offset % STEP)
        if state in seen:
            period = offset - seen[state]
            skipped = (read - offset) // period * period
            capacity, offset = capacity + skipped, offset + skipped
            seen = {}
        else:
            seen[state] = offset
    return capacity
