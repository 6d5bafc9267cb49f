"""Memory behind the GPUs of a replica, in which prompts' caches stay: host memory, disks, other machines."""

from collections.abc import Sequence
from typing import NamedTuple

from kvcalc.core.units import parse_size
from kvcalc.errors import KvcalcError, shown

__all__ = ["Kept", "Tier", "keep", "tiers_of"]


class Tier(NamedTuple):
    """Memory of one replica behind its GPUs: bytes, and how many of them it loads in a second."""

    name: str
    size: int
    rate: int


class Kept(NamedTuple):
    """Prompts of one length in a tier: how many, their tokens, the seconds to load one and to compute it again."""

    tier: Tier
    prompts: int
    tokens: int
    load: float
    recompute: float

    @property
    def pays_from(self) -> float | None:
        """The share of prompts that must be found so that the tier saves time even if GPUs wait for it to be written;
        None: loading takes as long as computing, and no share is enough.

        A prompt that is missed is written (bytes / rate), one that is found is loaded (bytes / rate): each prompt costs
        `load` either way, and those found save `recompute`. Where writing is beside the steps any share above 0 pays.
        """
        return self.load / self.recompute if self.load < self.recompute else None


def keep(tier: Tier, tokens: int, held: int, recompute: float) -> Kept:
    """What a tier is for prompts of `tokens` tokens, whose caches take `held` bytes each, fixed parts included."""
    return Kept(tier, tier.size // held, tier.size * tokens // held, held / tier.rate, recompute)


def tiers_of(texts: Sequence[str], what: str) -> tuple[Tier, ...]:
    """Tiers from `cpu=200GiB@50GB/s`, the nearest first. Raises KvcalcError, also for a name that comes twice."""
    found = tuple(_tier(text, what) for text in texts)
    names = [tier.name for tier in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise KvcalcError(f"{what}: {shown(twice)} is named twice", "each tier has a name of its own")
    return found


def _tier(text: str, what: str) -> Tier:
    name, equals, rest = text.strip().partition("=")
    size, at, rate = rest.partition("@")
    example = "such as cpu=200GiB@50GB/s"
    if not equals or not name.isascii() or not name.replace("-", "").isalnum() or len(name) > 32:
        raise KvcalcError(f"{what}: expected NAME=SIZE@RATE, {example}, got {shown(text)}")
    if not at:
        raise KvcalcError(f"{what}: {shown(text)} says no rate, without which no load has a time", example)
    each, slash, second = rate.partition("/")
    if not slash or second.strip() != "s":
        raise KvcalcError(f"{what}: expected bytes a second, {example}, got {shown(rate)}")
    return Tier(name, parse_size(size, what, zero=True), parse_size(each, what))
