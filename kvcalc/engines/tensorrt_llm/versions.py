"""What changed in TensorRT-LLM from version to version, as far as it changes the cache."""

from typing import NamedTuple

from kvcalc.core.units import Fraction

__all__ = ["VERSIONS", "Version"]


class Version(NamedTuple):
    """A row of constants: tokens of a block, and the share of the memory left that the cache takes."""

    name: str
    block: int
    utilization: Fraction


# 64 tokens in the logs of 2025, 32 since; the release of the change is not known.
VERSIONS = (Version("0.8.0", 64, Fraction(9, 10)), Version("1.2.0", 32, Fraction(9, 10)))
