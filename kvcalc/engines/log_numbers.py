"""Numbers as they stand in a log, and what may have been rounded to them."""

import re
from typing import NamedTuple

from kvcalc.core.units import ceil_div

__all__ = ["Printed", "digits", "plain"]


_LONGEST_NUMBER = 24


class Printed(NamedTuple):
    """A number as it stands in a log.

    Attributes:
        value: It counts units of the last decimal: 1.25 is 125.
        places: Decimals that were printed.
    """

    value: int
    places: int = 0

    def bounds(self, scale: int = 1) -> tuple[int, int]:
        """The least and the largest whole number that may have been rounded to this one. `scale`: its unit in bytes."""
        if not self.places:
            return self.value * scale, self.value * scale
        per_digit: int = 2 * 10**self.places
        low, high = (2 * self.value - 1) * scale, (2 * self.value + 1) * scale
        return ceil_div(low, per_digit), high // per_digit

    def whole(self, scale: int = 1) -> int:
        """The number itself in bytes, cut."""
        per_unit: int = 10**self.places
        return self.value * scale // per_unit


def digits(text: str | None, places: int = 0) -> Printed | None:
    """The number that `text` writes; None where it writes none.

    It has at least `places` decimals, even where their zeros are not printed.
    """
    if text is None:
        return None
    match = re.fullmatch(r"\s*(-?)([0-9,_]{1,32})(?:\.([0-9]{1,12}))?\s*", text, re.ASCII)
    whole = re.sub(r"[,_]", "", match[2]) if match else ""
    if match is None or not whole or len(whole) > _LONGEST_NUMBER:
        return None
    decimals = (match[3] or "").ljust(places, "0")
    return Printed(int(match[1] + whole + decimals), len(decimals))


def plain(text: str | None) -> int | None:
    """The whole number that `text` writes; None where it writes none."""
    found = digits(text)
    return None if found is None or found.places else found.value
