"""An accelerator: its memory, what it moves and computes in a second, and what engines choose kernels by."""

from typing import NamedTuple

__all__ = ["MEMORY_SOURCES", "Capability", "Card", "Shares"]

Capability = tuple[int, int]  # CUDA's: 8.6 is (8, 6)

# Where a card's memory comes from, best first, and how an answer says so.
MEMORY_SOURCES = {
    "file": "as your file gives it",
    "runtime": "as its runtime reports it",
    "driver": "as its driver reports it",
    "driver-less-reserve": "its driver's total less 0.6 GiB",
    "unified-share": "the share of its unified memory for the GPU",
    "nominal-less-reserve": "estimated: its nominal GB less 0.6 GiB",
}


class Shares(NamedTuple):
    """What of its published peaks a card attains in large operations; None where nobody measured it.

    `bandwidth` and `link` are of the peaks of the same names, `flops16`, `flops8` and `flops4` of those of matrices
    with such elements, `attention` of `flops16` too. `latency` are seconds before the ranks of tp have any sum,
    `rank_latency` the same for each rank where they take turns on a bus; `crowded_link` is of `link` for four ranks and
    more on one. `packed_bandwidth` and `packed_flops` (of `flops16`) are
    llama.cpp's, whose own kernels unpack blocks of GGUF.
    """

    bandwidth: float | None = None
    flops16: float | None = None
    flops8: float | None = None
    flops4: float | None = None
    attention: float | None = None
    link: float | None = None
    latency: float | None = None
    rank_latency: float | None = None
    crowded_link: float | None = None
    packed_bandwidth: float | None = None
    packed_flops: float | None = None


class Card(NamedTuple):
    """One accelerator as its runtime reports it, and not as it is sold: an H100 of 80 GB reports 79.18 GiB.

    Rates are published peaks, None where none is published.

    Attributes:
        name: The word that users type: `h100-sxm`. "" for memory without a card.
        label: The name for people: `H100 SXM`.
        memory: Bytes of one device.
        capability: CUDA's compute capability, by which engines choose kernels; None for other makers' cards.
        vendor: `NVIDIA`, `AMD`, `Intel`, `Apple`; "" where it is not known.
        bandwidth: Bytes a second between the device and its memory.
        flops16: Operations a second of dense matrices with 16-bit elements.
        flops8: The same with fp8 elements; None also where the card has no fp8.
        flops4: The same with fp4 elements.
        bf16: Whether it computes in bf16.
        link: Bytes a second between two devices of one machine, in one direction.
        machine: Devices of one machine.
        price: An hour's price from a user's own file; no price is shipped.
        memory_source: Where `memory` comes from: a key of MEMORY_SOURCES.
        shares: What of these peaks the card attains.
    """

    name: str
    label: str
    memory: int
    capability: Capability | None = None
    vendor: str = ""
    bandwidth: int | None = None
    flops16: int | None = None
    flops8: int | None = None
    flops4: int | None = None
    bf16: bool = True
    link: int | None = None
    machine: int = 8
    price: float | None = None
    memory_source: str = "runtime"
    shares: Shares = Shares()

    @property
    def unified(self) -> bool:
        """Whether the memory is the host's too: shares of it, and chips of which a machine has one."""
        return self.memory_source == "unified-share" or self.name.startswith(("gb10", "jetson"))

    @property
    def generation(self) -> int | None:
        """8 for Ampere and Ada, 9 for Hopper, 10 for Blackwell in data centres, 12 for other Blackwell."""
        return None if self.capability is None else self.capability[0]
