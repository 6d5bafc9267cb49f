"""How vLLM lays layers of several kinds into one pool of blocks: equal pages, groups, and the widest group's bytes.

Source: vLLM 0.33.0, `v1/core/kv_cache_planning.py`, `get_kv_cache_groups`. Groups are formed over the whole model in
the order of its layers, and cut into pipeline stages afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from kvcalc.core.units import ceil_div
from kvcalc.engines.vllm.specs import Spec
from kvcalc.errors import KvcalcError

__all__ = ["Entry", "KVCacheGroup", "group", "widest"]


class Entry(NamedTuple):
    """A cache of the model in vLLM's list: which one, on which stage."""

    position: int
    stage: int
    spec: Spec


@dataclass(frozen=True)
class KVCacheGroup:
    """Layers that share the blocks of a sequence: each of its blocks is one page of each of them."""

    entries: tuple[Entry, ...]

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """The specs that differ, in order."""
        return tuple(dict.fromkeys(entry.spec for entry in self.entries))

    def pages(self, stage: int) -> int:
        """Bytes of a block on one stage."""
        return sum(entry.spec.stored for entry in self.entries if entry.stage == stage)


def group(entries: Sequence[Entry], ratio: tuple[int, int] | None, *, packed: bool) -> list[KVCacheGroup]:
    """The groups of a model. `ratio` is the version's: up to which the largest kind sets the size of groups.

    `packed`: a block's pages stand side by side, of whatever size (DeepSeek V4).
    """
    specs = {entry.spec for entry in entries}
    if len(specs) <= 1 or _uniform(specs):
        return [KVCacheGroup(tuple(entries))]
    if packed:
        return _packed(entries)
    equal = _unified(entries)
    if equal is not None:
        return _split(equal, ratio)
    promoted = _promoted(entries)
    if _uniform({entry.spec for entry in promoted}):
        return [KVCacheGroup(tuple(promoted))]
    raise KvcalcError("--engine: vllm cannot bring the pages of this model's latents to one size", "leave it out")


def _uniform(specs: set[Spec]) -> bool:
    """One type and one block, whatever the pages: they become one group whose block is the sum of its pages.

    Full and latent layers are one type; windows must be one, and states must have equal pages.
    """
    kinds = {"full" if spec.kind == "mla" else spec.kind for spec in specs}
    alike = len(kinds) == 1 and len({(spec.block, spec.span) for spec in specs}) == 1
    return alike and ("mamba" not in kinds or len({spec.stored for spec in specs}) == 1)


def _unified(entries: Sequence[Entry]) -> list[Entry] | None:
    """All pages as large as the largest: a block of more tokens where that fits exactly, padding elsewhere.

    None where a latent's page does neither.
    """
    largest = max(entry.spec.stored for entry in entries)

    def unify(spec: Spec) -> Spec:
        if spec.stored == largest:
            return spec
        if spec.kind != "mamba" and not spec.padded and largest % spec.page == 0:
            return spec._replace(page=largest, block=spec.block * (largest // spec.page))
        return spec._replace(padded=largest)

    if any(e.spec.kind == "mla" and largest % e.spec.page for e in entries):
        return None
    return [entry._replace(spec=unify(entry.spec)) for entry in entries]


def _promoted(entries: Sequence[Entry]) -> list[Entry]:
    """Windows kept as long as the context, in blocks of the full layers."""
    block = next((e.spec.block for e in entries if e.spec.kind in ("full", "mla")), 0)

    def promote(spec: Spec) -> Spec:
        if spec.kind != "sliding":
            return spec
        return spec._replace(kind="full", span=0, page=spec.page * block // spec.block, block=block)

    return [entry._replace(spec=promote(entry.spec)) for entry in entries]


def _split(entries: Sequence[Entry], ratio: tuple[int, int] | None) -> list[KVCacheGroup]:
    """Groups of at most as many layers as the rarest kind has, or the commonest where the two are close."""
    buckets: dict[Spec, list[Entry]] = {}
    for entry in entries:
        buckets.setdefault(entry.spec, []).append(entry)
    least, most = min(map(len, buckets.values())), max(map(len, buckets.values()))
    size = most if ratio is not None and most * ratio[1] < least * ratio[0] else least
    groups = []
    for bucket in buckets.values():
        count = ceil_div(len(bucket), size)
        groups += [KVCacheGroup(tuple(bucket[i::count])) for i in range(count)]
    return groups


def _packed(entries: Sequence[Entry]) -> list[KVCacheGroup]:
    """Kinds that are alike form a bucket; how it is split is `buckets`' matter."""
    from kvcalc.engines.vllm.buckets import Bucket, split_packed  # few models need it

    kinds: list[list[Entry]] = []
    for entry in entries:
        for kind in kinds:
            if _uniform({kind[0].spec, entry.spec}):
                kind.append(entry)
                break
        else:
            kinds.append([entry])
    buckets = [
        Bucket(tuple(e.spec.stored for e in kind), of == "mamba", of in ("sliding", "sliding_mla"))
        for kind in kinds
        for of in (kind[0].spec.kind,)
    ]
    return [
        KVCacheGroup(tuple(kind[i] for i in part))
        for kind, parts in zip(kinds, split_packed(buckets), strict=True)
        for part in parts
    ]


def widest(groups: Sequence[KVCacheGroup], stage: int) -> int:
    """Bytes of a block on one stage: every block is as wide as the widest group's. Raises KvcalcError for none."""
    width = max(group.pages(stage) for group in groups)
    if not width:
        raise KvcalcError("--pp: a stage of this model would keep no cache, which vllm does not start with", "lower it")
    return width
