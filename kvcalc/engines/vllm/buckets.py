"""How vLLM packs pages of several sizes side by side into one block (DeepSeek V4).

Source: vLLM 0.33.0, `v1/core/kv_cache_planning.py`, `_get_packed_kv_cache_groups`.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.units import ceil_div

__all__ = ["Bucket", "split_packed"]


class Bucket(NamedTuple):
    """The pages of layers that may share a group, in order, and whether they hold states or windows."""

    pages: tuple[int, ...]
    states: bool
    windows: bool

    @property
    def counts(self) -> Counter[int]:
        """How many layers have a page of each size."""
        return Counter(self.pages)

    @property
    def repeats(self) -> int:
        return max(self.counts.values())

    @property
    def balanced(self) -> bool:
        """As many layers of each size: a pattern that repeats, and may be cut between repeats."""
        return len(set(self.counts.values())) == 1

    def widest(self, parts: int) -> int:
        """Bytes of the widest of the groups that the bucket is split into."""
        return sum(ceil_div(count, parts) * page for page, count in self.counts.items())


def split_packed(buckets: Sequence[Bucket]) -> list[list[tuple[int, ...]]]:
    """The groups of each bucket, as positions in it."""
    least = max((b.repeats for b in buckets if b.balanced and len(b.counts) > 1), default=0)
    repeats = _chunk([b.repeats for b in buckets if b.balanced], least) if least else None

    def parts_of(bucket: Bucket) -> int:
        return ceil_div(bucket.repeats, repeats) if repeats and bucket.balanced else 1

    def small(bucket: Bucket) -> bool:
        """Buckets that may go down to one layer a group."""
        return bucket.states or (bucket.windows and repeats is None)

    # A block is at least this wide.
    anchor = max(b.widest(len(b.pages) if small(b) else parts_of(b)) for b in buckets)
    found = []
    for bucket in buckets:
        parts = parts_of(bucket)
        if small(bucket):
            parts = max(parts, ceil_div(len(bucket.pages), max(anchor // bucket.pages[0], 1)))
        found.append(_cut(bucket, parts))
    return found


def _chunk(repeats: list[int], least: int) -> int:
    """The number from `least` on to which all are rounded up with the least padding; the larger of equals."""
    return min(range(least, max(repeats) + 1), key=lambda d: (sum(-x % d for x in repeats), -d))


def _cut(bucket: Bucket, parts: int) -> list[tuple[int, ...]]:
    if parts == 1:
        return [tuple(range(len(bucket.pages)))]
    sizes: dict[int, list[int]] = {}
    for position, page in enumerate(bucket.pages):
        sizes.setdefault(page, []).append(position)
    pattern = list(zip(*sizes.values(), strict=True))
    return [tuple(position for repeat in pattern[i::parts] for position in repeat) for i in range(parts)]
