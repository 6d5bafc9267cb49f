"""Names of what is known, with the facts behind them as rows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvcalc.cards.shipped import Accelerator

__all__ = ["GpuNames", "ModelNames"]


class ModelNames(list[str]):
    """The names of the presets that can be loaded."""

    def rows(self) -> list[Mapping[str, Any]]:
        """A row for each with its shape and the size of its cache."""
        from kvcalc.views.models import listing, listing_values

        return [row for row in listing_values(listing().rows) if row["preset"] in self]


class GpuNames(list[str]):
    """The names of the cards that are known."""

    def __init__(self, cards: "Sequence[Accelerator]") -> None:
        super().__init__(card.id for card in cards)
        self._cards = cards

    def rows(self) -> list[Mapping[str, Any]]:
        """A row for each with its facts."""
        from kvcalc.views.gpus import card_values

        return [card_values(card) for card in self._cards]
