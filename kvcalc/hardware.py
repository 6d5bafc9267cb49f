"""An accelerator: its memory, and what engines choose kernels by."""

from typing import NamedTuple

__all__ = ["Card"]


class Card(NamedTuple):
    """`memory` is what the runtime reports, in bytes; `capability` is CUDA's, None for other makers' cards.

    Not the marketing size: an H100 of 80 GB reports 79.18 GiB.
    """

    name: str
    label: str
    memory: int
    capability: tuple[int, int] | None = None

    @property
    def generation(self) -> int | None:
        """8 for Ampere and Ada, 9 for Hopper, 10 for Blackwell in data centres, 12 for other Blackwell."""
        return None if self.capability is None else self.capability[0]
