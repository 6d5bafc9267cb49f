"""The one version of MLX-LM whose rules are known."""

from typing import NamedTuple

__all__ = ["VERSIONS", "Version"]


class Version(NamedTuple):
    """mlx-lm has one version whose rules are known."""

    name: str


VERSIONS = (Version("0.32.2"),)
