"""What sits in a GPU's memory beside weights and cache: named lines, each with its range, its rule and its source."""

from collections.abc import Iterable
from typing import NamedTuple

from kvcalc.core.units import format_bytes

__all__ = ["Estimate", "Overhead", "as_stated", "beside", "exactly", "gain", "total"]


class Estimate(NamedTuple):
    """Bytes on each GPU: the least and the most that named causes allow, and what is counted with."""

    low: int
    likely: int
    high: int


class Overhead(NamedTuple):
    """One line of what a GPU holds beside weights and cache.

    Attributes:
        name: What it is, in a word or two.
        size: Bytes on each GPU.
        rule: How the size is found, in words with its numbers, and what its range comes from.
        source: Where the rule was read or measured.
        inside: It comes off the share of the memory that the engine may use; else it lies in what the share leaves.
        saving: What would give memory back and how much, in words; "" where nothing would.
    """

    name: str
    size: Estimate
    rule: str
    source: str
    inside: bool = True
    saving: str = ""


def exactly(size: int) -> Estimate:
    """A size without a range."""
    return Estimate(size, size, size)


def as_stated(name: str, size: int) -> Overhead:
    """A line that the asker states."""
    return Overhead(name, exactly(size), "as given", "the question")


def total(lines: Iterable[Overhead]) -> Estimate:
    """All lines together that come off the share."""
    return _sum(line.size for line in lines if line.inside)


def beside(lines: Iterable[Overhead]) -> Estimate:
    """All lines together that lie in what the share leaves."""
    return _sum(line.size for line in lines if not line.inside)


def _sum(sizes: Iterable[Estimate]) -> Estimate:
    found = list(sizes)
    return Estimate(*(sum(size[i] for size in found) for i in range(3)))


def gain(what: str, before: int, after: int) -> str:
    """What a change gives back, as `256 sequences instead of 1,024: + 3.5 GiB`; "" below 64 MiB."""
    return f"{what}: + {format_bytes(before - after)}" if before - after >= 1 << 26 else ""
