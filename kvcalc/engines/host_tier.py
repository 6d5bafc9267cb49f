"""A second cache in the host's memory, into which an engine copies blocks of prompts: what it holds and takes."""

from typing import NamedTuple

from kvcalc.core.units import format_bytes, many

__all__ = ["HostTier", "values_of"]


class HostTier(NamedTuple):
    """The tier of one replica: bytes of all its ranks, tokens of which it keeps the cache.

    `tokens` is None where caches of several kinds share it, since how they do is not known here. `high`: the most that
    the host was seen to give for such a tier.
    """

    bytes: int
    tokens: int | None
    high: int | None = None

    def said(self, seen: str = "") -> str:
        """One note; `seen` says where the most was seen."""
        held = "how many tokens that holds of several kinds of caches is not known"
        if self.tokens is not None:
            held = f"for {many(self.tokens, 'token')}"
        found = f"the host keeps {format_bytes(self.bytes)} for each replica, {held}"
        return found if self.high is None else f"{found}; {format_bytes(self.high)} {seen}"


def values_of(tier: HostTier | None) -> "dict[str, int | str | bool | None]":
    """The keys of JSON."""
    if tier is None:
        return {}
    return {"host_tier_bytes": tier.bytes, "host_tier_bytes_high": tier.high, "host_tier_tokens": tier.tokens}
