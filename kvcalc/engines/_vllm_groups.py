"""How vLLM lays layers of several kinds into one pool of blocks: equal pages, groups, and the widest group's bytes.

Source: vLLM 0.33.0, `v1/core/kv_cache_planning.py`, `get_kv_cache_groups`. Groups are formed over the whole model in
the order of its layers, and cut into pipeline stages afterwards.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.engines._vllm_specs import Spec
from kvcalc.errors import KvcalcError
from kvcalc.units import ceil_div

__all__ = ["Entry", "Group", "group", "widest"]


class Entry(NamedTuple):
    """A cache of the model in vLLM's list: which one, on which stage."""

    position: int
    stage: int
    spec: Spec


class Group(NamedTuple):
    """Layers that share the blocks of a sequence: each of its blocks is one page of each of them."""

    entries: tuple[Entry, ...]

    @property
    def specs(self) -> dict[Spec, None]:
        """The specs that differ, in order."""
        return dict.fromkeys(entry.spec for entry in self.entries)

    def pages(self, stage: int) -> int:
        """Bytes of a block on one stage."""
        return sum(entry.spec.stored for entry in self.entries if entry.stage == stage)


def group(entries: Sequence[Entry], ratio: tuple[int, int] | None) -> list[Group]:
    """The groups of a model. `ratio` is the version's: up to which the largest kind sets the size of groups."""
    specs = {entry.spec for entry in entries}
    if len(specs) <= 1 or _uniform(specs):
        return [Group(tuple(entries))]
    return _split(_unified(entries), ratio)


def _uniform(specs: set[Spec]) -> bool:
    """One type and one block, whatever the pages: they become one group whose block is the sum of its pages.

    Full and latent layers are one type; windows must be one.
    """
    kinds = {"full" if spec.kind == "mla" else spec.kind for spec in specs}
    return len(kinds) == 1 and "mamba" not in kinds and len({(spec.block, spec.span) for spec in specs}) == 1


def _unified(entries: Sequence[Entry]) -> list[Entry]:
    """All pages as large as the largest: a block of more tokens where that fits exactly, padding elsewhere."""
    largest = max(entry.spec.page for entry in entries)

    def unify(spec: Spec) -> Spec:
        if spec.page == largest:
            return spec
        if spec.kind != "mamba" and largest % spec.page == 0:
            return spec._replace(page=largest, block=spec.block * (largest // spec.page))
        if spec.kind == "mla":
            raise KvcalcError(
                "--engine: vllm cannot bring the pages of this model's latents to one size", "leave it out"
            )
        return spec._replace(padded=largest)

    return [entry._replace(spec=unify(entry.spec)) for entry in entries]


def _split(entries: Sequence[Entry], ratio: tuple[int, int] | None) -> list[Group]:
    """Groups of at most as many layers as the rarest kind has, or the commonest where the two are close."""
    buckets: dict[Spec, list[Entry]] = {}
    for entry in entries:
        buckets.setdefault(entry.spec, []).append(entry)
    least, most = min(map(len, buckets.values())), max(map(len, buckets.values()))
    size = most if ratio is not None and most * ratio[1] < least * ratio[0] else least
    groups = []
    for bucket in buckets.values():
        count = ceil_div(len(bucket), size)
        groups += [Group(tuple(bucket[i::count])) for i in range(count)]
    return groups


def widest(groups: Sequence[Group], stage: int) -> int:
    """Bytes of a block on one stage: every block is as wide as the widest group's."""
    return max(group.pages(stage) for group in groups)
