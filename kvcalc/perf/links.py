"""Ways by which a cache comes back to a GPU: PCIe, a drive, a network, or a rate."""

import re
from typing import NamedTuple

from kvcalc.core.units import parse_size
from kvcalc.errors import KvcalcError, nearest, shown

__all__ = ["LINKS", "Link", "parse_links"]


class Link(NamedTuple):
    """A way by which a cache comes back to the GPU."""

    name: str
    label: str
    bytes_per_second: int


# What is attained in one direction, not what the standard states. PCIe 5: 50 of 63 GB/s between an H100 and its host,
# in blocks of megabytes (vLLM's blog on offloading); PCIe 4 half of that. NVMe: one drive of PCIe 4 reads 7 GB/s by its
# data sheet. Networks: 80 % of the line; over RDMA, 142 and 164 of 200 GB/s were measured.
LINKS = (
    Link("pcie5", "PCIe 5 x16", 50 * 10**9),
    Link("pcie4", "PCIe 4 x16", 25 * 10**9),
    Link("nvme", "NVMe drive", 7 * 10**9),
    Link("400gbit", "400 Gbit/s network", 40 * 10**9),
    Link("100gbit", "100 Gbit/s network", 10 * 10**9),
)
_MOST_LINKS = 16


def parse_links(text: str | None) -> tuple[Link, ...]:
    """Names of LINKS and rates such as 25GB/s, separated by commas; all of LINKS where nothing is given."""
    if text is None:
        return LINKS
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST_LINKS:
        raise KvcalcError(f"--link: expected at most {_MOST_LINKS} links, got {len(parts):,}")
    return tuple(map(_link, parts))


def _link(text: str) -> Link:
    rate = re.fullmatch(r"(.{1,60}?)\s?/\s?s", text)
    if rate is not None:
        bytes_per_second = parse_size(rate[1], "--link")
        said = "".join(text.split())
        return Link(said, said, bytes_per_second)
    wanted = re.sub(r"[\s._-]", "", text.lower())
    found = next((link for link in LINKS if link.name == wanted), None)
    if found is None:
        names = [link.name for link in LINKS]
        hint = f"one of {', '.join(names)}, or a rate such as 25GB/s"
        if re.fullmatch(r"[0-9.]{1,9} ?[a-zA-Z]{1,3}", text):
            hint = f"a rate is {text}/s"
        elif close := nearest(wanted[:20], names, 1):
            hint = f"did you mean {close[0]}?"
        raise KvcalcError(f"--link: expected a link, got {shown(text)}", hint)
    return found
