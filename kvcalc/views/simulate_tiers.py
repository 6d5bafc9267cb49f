"""Tiers of a simulation, as values for JSON and as a table."""

from typing import TYPE_CHECKING

from kvcalc.queries.simulation import SimulateAnswer
from kvcalc.views.report import Bytes, Cell, Count, Section

if TYPE_CHECKING:
    from kvcalc.views.types.simulate import TierValues

__all__ = ["tier_sections", "tier_values"]


def tier_values(answer: SimulateAnswer) -> "list[TierValues]":
    """What each tier did."""
    return [
        {
            "name": each.tier.name,
            "bytes": each.tier.size,
            "bytes_per_second": each.tier.rate,
            "blocks": each.blocks,
            "loaded_blocks": each.loaded,
            "token_hit_rate": each.token_hit_rate,
        }
        for each in answer.tiers
    ]


def tier_sections(answer: SimulateAnswer) -> list[Section]:
    """A table, where there are tiers."""
    if not answer.tiers:
        return []
    rows: list[tuple[Cell, ...]] = [
        (each.tier.name, Bytes(each.tier.size), Count(each.loaded), f"{100 * each.token_hit_rate:.1f} %")
        for each in answer.tiers
    ]
    return [Section("tiers", ("tier of a replica", "size", "blocks loaded", "prompt tokens found"), rows, exact=False)]
