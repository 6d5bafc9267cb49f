"""The rates of one replica's GPUs: published peaks, and the shares of them that kernels attain."""

from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.core.dtypes import COMPUTE
from kvcalc.core.sharding import Layout
from kvcalc.errors import KvcalcError
from kvcalc.perf.pace import Pace

__all__ = ["CARDS_OWN", "HALF_SPEED", "Attained", "Machine", "machine_of", "quantises"]


class Attained(NamedTuple):
    """Shares of the peaks that the asker states instead of the card's own: of bandwidth, and of all FLOP/s."""

    bandwidth: float | None = None
    compute: float | None = None


CARDS_OWN = Attained()

# Where no kernel of a card was measured: the middle of those that were.
_BANDWIDTH = 0.8
_MATRICES = {16: 0.65, 8: 0.5, 4: 0.38}
_ATTENTION = 0.55
_LINK, _LATENCY = 0.4, 5e-6

# llama.cpp's kernels multiply blocks of GGUF on 8-bit integer units: 60 to 130 TFLOP/s on every card of NVIDIA's and
# AMD's where they were measured, 95 in the middle, and at most some 0.6 of the 16-bit peak of a small one.
_PACKED, _MOST_PACKED = 95e12, 0.6
_PACKED_BANDWIDTH = 0.8

# With weights of 16 bits it calls cuBLAS and the like: 1.1 to 1.35 times as fast on seven cards of one public table.
_PLAIN = 1.25

# Attention of a prompt of n tokens attains n / (n + 1,000) of what long prompts do (the same tables).
HALF_SPEED = 1000

# Above some 12 MB a sum over ranks takes NCCL's way instead of one kernel's: it starts later, and fills the link to
# 0.8, which is 370 of 450 GB/s on an H100 (NVIDIA/nccl-tests #212, by NCCL's maintainer).
_LARGE_LATENCY, _LARGE_LINK = 40e-6, 0.8


class Machine(NamedTuple):
    """One replica of tp x pp GPUs: what each attains a second, and the seconds that its engine adds.

    `bandwidth` is in bytes, `matrices` in FLOPs of the format in which weights are multiplied, `attention` in FLOPs of
    long prompts. Ranks of tp sum up in the lesser of `latency` + bytes / `link` and `large_latency` + bytes /
    `large_link`; None where there is one rank. `bandwidth_share` and `compute_share` are of the peaks, which follow
    from them. `unknown` are the causes of doubt, in words.
    """

    bandwidth: float
    matrices: float
    attention: float
    tp: int = 1
    pp: int = 1
    latency: float = 0.0
    link: float | None = None
    large_latency: float = 0.0
    large_link: float | None = None
    pace: Pace = Pace()
    bandwidth_share: float = 1.0
    compute_share: float = 1.0
    unknown: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return self.tp * self.pp

    @property
    def peak_bandwidth(self) -> float:
        """Of one GPU, in bytes a second."""
        return self.bandwidth / self.bandwidth_share

    @property
    def peak_matrices(self) -> float:
        """Of one GPU, in FLOPs a second with elements of the format in which weights are multiplied."""
        return self.matrices / self.compute_share

    @property
    def words(self) -> str:
        """What is attained, for people."""
        fixed = f"{1000 * self.pace.step:g} ms a step and {1e6 * self.pace.kernel:g} µs a kernel"
        return f"{self.bandwidth_share:.0%} of peak bandwidth, {self.compute_share:.0%} of peak FLOP/s, {fixed}"

    def summing(self, sent: float) -> float:
        """Seconds of one sum over the ranks of tp, of which each sends so many bytes."""
        if self.tp == 1:
            return 0.0
        assert self.link, "ranks of tp need a link"
        seconds = self.latency + sent / self.link
        return min(seconds, self.large_latency + sent / self.large_link) if self.large_link else seconds


def machine_of(card: Card, layout: Layout, weights: str, pace: Pace, attained: Attained = CARDS_OWN) -> Machine:
    """One replica of a layout on a card, with weights in the format of that name.

    Raises KvcalcError where a rate that counts is not published.
    """
    if not card.bandwidth or not card.flops16 or (layout.tp > 1 and not card.link):
        what = "bandwidth" if not card.bandwidth else "link between GPUs" if card.flops16 else "FLOP/s"
        raise KvcalcError(f"--gpu: the {what} of {card.label} is not known, and times follow from it")
    shares, unknown = card.shares, []
    packed = pace.packed
    moved = shares.packed_bandwidth if packed else shares.bandwidth
    share, known = (attained.compute, True) if attained.compute else _share(card, weights, packed=packed)
    if (moved is None and attained.bandwidth is None) or not known:
        unknown.append(f"what kernels attain on {card.label} was not measured")
    if not packed and weights not in COMPUTE and not _native(card, weights):
        unknown.append(f"kernels that unpack {weights} weights were not measured on {card.label}")
    if not pace.measured:
        unknown.append("no times of this engine were measured")
    if layout.ep > 1:  # a step waits for the rank on which most of its experts are
        unknown.append("how evenly tokens fall on ranks with whole experts was not measured")
    if layout.sharing > 1:
        unknown.append("what replicas that share experts exchange is not counted")
    attention = shares.packed_flops if packed and card.vendor == "Apple" else shares.attention
    moved_share = attained.bandwidth or moved or (_PACKED_BANDWIDTH if packed else _BANDWIDTH)
    machine = Machine(
        bandwidth=card.bandwidth * moved_share,
        matrices=_peak(card, weights) * share,
        attention=card.flops16 * (attained.compute or attention or _ATTENTION),
        tp=layout.tp,
        pp=layout.pp,
        pace=pace,
        bandwidth_share=moved_share,
        compute_share=share,
        unknown=tuple(unknown),
    )
    return machine if layout.tp == 1 else _linked(machine, card)


def quantises(card: Card, weights: str, pace: Pace) -> bool:
    """Whether the inputs of matrices are converted to eight bits or fewer, as the weights in that format are."""
    return not pace.packed and _bits(card, weights) < 16


def _native(card: Card, weights: str) -> bool:
    """Whether matrices are multiplied in the format of the weights, and not unpacked to 16 bits before."""
    return _bits(card, weights) < 16 or weights in COMPUTE


def _bits(card: Card, weights: str) -> int:
    """Bits of the elements that a card multiplies for weights of a format: 16 where it has no units for fewer."""
    if weights in ("nvfp4", "mxfp4") and card.flops4:
        return 4
    return 8 if weights.startswith("fp8") and card.flops8 else 16


def _peak(card: Card, weights: str) -> float:
    peak = {4: card.flops4, 8: card.flops8}.get(_bits(card, weights)) or card.flops16
    assert peak
    return peak


def _share(card: Card, weights: str, *, packed: bool) -> tuple[float, bool]:
    """What large matrices attain of their peak, and whether anybody measured it."""
    shares, peak = card.shares, _peak(card, weights)
    if packed:
        assert card.flops16
        plain = _PLAIN if weights in COMPUTE else 1.0
        if shares.packed_flops:
            return plain * shares.packed_flops * card.flops16 / peak, True
        return plain * min(_PACKED, card.flops16 * _MOST_PACKED) / peak, False
    bits = _bits(card, weights)
    share = {16: shares.flops16, 8: shares.flops8, 4: shares.flops4}[bits]
    return share or _MATRICES[bits], share is not None


def _linked(machine: Machine, card: Card) -> Machine:
    """The link between ranks of tp, of which a bus is shared by all of them."""
    assert card.link
    shares, tp = card.shares, machine.tp
    if shares.link is None:
        why = f"what sums attain on the link of {card.label} was not measured"
        return machine._replace(link=card.link * _LINK, latency=_LATENCY, unknown=(*machine.unknown, why))
    if shares.rank_latency is not None:
        share = shares.crowded_link if tp > 2 and shares.crowded_link else shares.link
        return machine._replace(link=card.link * share, latency=shares.rank_latency * tp)
    return machine._replace(
        link=card.link * shares.link,
        latency=shares.latency or _LATENCY,
        large_link=card.link * _LARGE_LINK,
        large_latency=_LARGE_LATENCY,
    )
