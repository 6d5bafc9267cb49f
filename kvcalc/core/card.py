"""An accelerator: its memory, what it moves and computes in a second, and what engines choose kernels by."""

from typing import NamedTuple

__all__ = ["MEMORY_SOURCES", "Card"]

# Where a card's memory comes from, best first, and how an answer says so.
MEMORY_SOURCES = {
    "file": "as your file gives it",
    "runtime": "as its runtime reports it",
    "driver": "as its driver reports it",
    "driver-less-reserve": "its driver's total less 0.6 GiB",
    "unified-share": "the share of its unified memory for the GPU",
    "nominal-less-reserve": "estimated: its nominal GB less 0.6 GiB",
}


class Card(NamedTuple):
    """One device. `memory` is what the runtime reports, in bytes; `capability` is CUDA's, None for other makers' cards.

    Not the marketing size: an H100 of 80 GB reports 79.18 GiB. `memory_source` is a key of MEMORY_SOURCES. Rates are
    peaks, None where not published: `bandwidth` and `link` in bytes a second (`link` between devices of one machine, in
    one direction), `flops16` and `flops8` in operations a second of dense matrices with 16-bit and with fp8 elements.
    `machine` devices stand in one machine.
    """

    name: str
    label: str
    memory: int
    capability: tuple[int, int] | None = None
    vendor: str = ""
    bandwidth: int | None = None
    flops16: int | None = None
    flops8: int | None = None
    bf16: bool = True
    link: int | None = None
    machine: int = 8
    price: float | None = None  # an hour, from a user's own file; none is shipped
    memory_source: str = "runtime"

    @property
    def unified(self) -> bool:
        """Whether the memory is the host's too: shares of it, and chips of which a machine has one."""
        return self.memory_source == "unified-share" or self.name.startswith(("gb10", "jetson"))

    @property
    def generation(self) -> int | None:
        """8 for Ampere and Ada, 9 for Hopper, 10 for Blackwell in data centres, 12 for other Blackwell."""
        return None if self.capability is None else self.capability[0]
