"""What changed in TensorRT-LLM from version to version, as far as it changes the cache."""

from typing import NamedTuple

from kvcalc.core.units import Fraction

__all__ = ["VERSIONS", "Version"]


class Version(NamedTuple):
    """A row of constants: tokens of a block, the share of the memory left that the cache takes, and whether it prints
    bytes and tokens in two lines, as the first releases do.
    """

    name: str
    block: int
    utilization: Fraction
    two_lines: bool = False


# 64 tokens in the logs of 2025, 32 since; the release of the change is not known. The lines of 0.8: #1400 and #224 of
# NVIDIA/TensorRT-LLM; a log of 0.11 (janhq/cortex.cpp#981) has others.
VERSIONS = (
    Version("0.8.0", 64, Fraction(9, 10), two_lines=True),
    Version("0.11.0", 64, Fraction(9, 10)),
    Version("1.2.0", 32, Fraction(9, 10)),
)
