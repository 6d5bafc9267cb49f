"""The one version of SGLang whose rules are known."""

from typing import NamedTuple

__all__ = ["VERSIONS", "Version"]


class Version(NamedTuple):
    """A row of constants: the default of --mem-fraction-static is computed as 0.5.23 does."""

    name: str


VERSIONS = (Version("0.5.23"),)
