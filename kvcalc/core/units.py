"""Sizes, token counts and parameter counts, as people write them and as they read them.

Bytes are ints everywhere. A size that could mean two things (`80G`, a bare `80`) is refused rather than guessed.
"""

import re
from typing import Literal, NamedTuple

from kvcalc.errors import KvcalcError, shown

__all__ = [
    "MOST_BYTES",
    "MOST_GPUS",
    "MOST_TOKENS",
    "Fraction",
    "Units",
    "ceil_div",
    "format_bytes",
    "format_count",
    "format_tokens",
    "many",
    "parse_count",
    "parse_integer",
    "parse_size",
    "parse_tokens",
]

Units = Literal["iec", "si"]

# Bounds against slips and hostile input, far above any machine: 8 EiB less a byte, 2^40 tokens or sequences, and 65,536
# GPUs.
MOST_BYTES = 2**63 - 1
MOST_TOKENS = 2**40
MOST_GPUS = 2**16

_PREFIXES = "KMGTPE"
_SIZE_UNITS = (
    {"b": 1}
    | {f"{p}b".lower(): 1000 ** (i + 1) for i, p in enumerate(_PREFIXES)}
    | {f"{p}i{b}".lower(): 1024 ** (i + 1) for i, p in enumerate(_PREFIXES) for b in ("b", "")}
)
_TOKEN_UNITS = {"": 1, "k": 1024, "m": 1024**2}  # a context of 128k is 131,072 tokens, as model cards have it
_COUNT_UNITS = {"": 1, "k": 10**3, "m": 10**6, "b": 10**9, "t": 10**12}

# Written out for ASCII digits only, and bounded, so that no input is slow to match.
_NUMBER = re.compile(r"([0-9]{1,24})(?:\.([0-9]{1,24}))?\s?([A-Za-z]{0,4})")


def ceil_div(numerator: int, denominator: int) -> int:
    """Division of ints rounded up."""
    return -(-numerator // denominator)


def _scaled(text: str, units: dict[str, int]) -> tuple[int, int] | None:
    """`text` as the fraction (numerator, denominator) of a whole, or None if it is no number with one of `units`."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[3].lower() not in units:
        return None
    whole, decimals = match[1], match[2] or ""
    return int(whole + decimals) * units[match[3].lower()], 10 ** len(decimals)


def parse_size(text: str, what: str, *, zero: bool = False) -> int:
    """Bytes from `80GB`, `79.2GiB`, `24564MiB`; decimals are floored to a byte.

    `what` names the option in errors; `zero`: 0 is a size too. Raises KvcalcError for a size without a unit, or with
    one that can be read two ways.
    """
    if zero and text.strip() == "0":
        return 0
    scaled = _scaled(text, _SIZE_UNITS)
    if scaled is None:
        raise _size_error(text, what)
    size = scaled[0] // scaled[1]
    if size > MOST_BYTES or (size == 0 and not (zero and scaled[0] == 0)):
        raise KvcalcError(f"{what}: expected a size above zero and below 8 EiB, got {shown(text)}")
    return size


def _size_error(text: str, what: str) -> KvcalcError:
    bare = re.fullmatch(r"([0-9]{1,24}(?:\.[0-9]{1,24})?)\s?([KMGTkmgt]?)", text.strip())
    if bare is None:
        return KvcalcError(f"{what}: expected a size with a unit, such as 80GB or 79.2GiB, got {shown(text)}")
    number, prefix = bare[1], bare[2].upper()
    hint = f"write {number}{prefix or 'G'}B (powers of 1000) or {number}{prefix or 'G'}iB (powers of 1024)"
    if not prefix:
        hint += f", or {number}B for bytes"
    return KvcalcError(f"{what}: expected a size with a unit, got {shown(text)}, which can be read two ways", hint)


def parse_tokens(text: str, what: str) -> int:
    """A length or count in tokens: `4096`, `4k` (4,096), `1m` (1,048,576). Raises KvcalcError for what is no whole
    number.
    """
    scaled = _scaled(text, _TOKEN_UNITS)
    if scaled is None or scaled[0] % scaled[1]:
        raise KvcalcError(
            f"{what}: expected a whole number of tokens, got {shown(text)}",
            "write 4096, 128k (1k is 1,024 tokens) or 1m",
        )
    return _within(scaled[0] // scaled[1], MOST_TOKENS, text, what)


def parse_integer(text: str, what: str, most: int = MOST_TOKENS) -> int:
    """A whole number from 1 to `most`. Raises KvcalcError for any other text."""
    if not re.fullmatch(r"[0-9]{1,24}", text.strip()):
        raise KvcalcError(f"{what}: expected a whole number above zero, got {shown(text)}")
    return _within(int(text), most, text, what)


def _within(number: int, most: int, text: str, what: str) -> int:
    if not 1 <= number <= most:
        raise KvcalcError(f"{what}: expected 1 to {most:,}, got {shown(text)}")
    return number


def parse_count(text: str) -> int | None:
    """A number of parameters: `70.55B`, `124M`, `8030261248`; None if it is not one."""
    scaled = _scaled(text, _COUNT_UNITS)
    return None if scaled is None or scaled[0] % scaled[1] else scaled[0] // scaled[1]


def format_bytes(size: int, units: Units = "iec") -> str:
    """A size for people, in the largest unit that leaves at least 1: `1.25 GiB`, `78.32 KB`, `132 B`.

    Three decimals below 10, two below 100, one below 1000, trailing zeros dropped: at least four significant digits.
    """
    step, suffixes = (1024, "B KiB MiB GiB TiB PiB EiB") if units == "iec" else (1000, "B KB MB GB TB PB EB")
    sign, size = ("-", -size) if size < 0 else ("", size)
    names = suffixes.split()
    power = 0
    # A size that would round up to 1024 KiB is 1 MiB.
    while power < len(names) - 1 and size >= step ** (power + 1) - _half_a_last_digit(step**power):
        power += 1
    return f"{sign}{_decimal(size, step**power)} {names[power]}"


def _half_a_last_digit(unit: int) -> int:
    """Half of what the last printed digit is worth just below the next unit, where one decimal is shown."""
    return 0 if unit == 1 else unit // 20


def format_count(count: int) -> str:
    """A number of parameters for people: `70.55B`, `124M`."""
    power = 0
    while power < 4 and count >= 1000 ** (power + 1):
        power += 1
    return _decimal(count, 1000**power) + ("", "K", "M", "B", "T")[power]


def format_tokens(tokens: int) -> str:
    """A length in the shortest exact form: `128k`, `1m`, `448`."""
    for suffix in ("m", "k"):
        if tokens and tokens % _TOKEN_UNITS[suffix] == 0:
            return f"{tokens // _TOKEN_UNITS[suffix]:,}{suffix}"
    return f"{tokens:,}"


def many(count: int, noun: str) -> str:
    """`1 sequence`, `1,024 sequences`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _decimal(value: int, unit: int) -> str:
    """`value / unit` rounded half up in whole-number arithmetic, so that no float is ever between bytes and text."""
    whole = value // unit
    places = 0 if unit == 1 else 3 if whole < 10 else 2 if whole < 100 else 1
    scaled = (2 * value * 10**places + unit) // (2 * unit)
    text = str(scaled)
    if places:
        text = f"{text[:-places] or '0'}.{text[-places:].rjust(places, '0')}".rstrip("0").rstrip(".")
    return text


class Fraction(NamedTuple):
    """A fraction of a whole, as written: 0.9 is 9 of 10, so that no rounding of floats reaches a byte.

    Attributes:
        part: The numerator, above 0 and at most `of`.
        of: The denominator.
    """

    part: int
    of: int

    @classmethod
    def parse(cls, text: str, what: str) -> "Fraction":
        """A fraction above 0 and up to 1, such as `0.9`. `what` names the option in errors. Raises KvcalcError."""
        whole, _, decimals = text.strip().partition(".")
        digits = whole + decimals
        if len(digits) <= 12 and digits.isascii() and digits.isdigit():
            fraction = cls(int(digits), 10 ** len(decimals))
            if 0 < fraction.part <= fraction.of:
                return fraction
        raise KvcalcError(f"{what}: expected a share above 0 and up to 1, such as 0.9, got {shown(text)}")

    def floor(self, whole: int) -> int:
        """The fraction of `whole` bytes, rounded down."""
        return whole * self.part // self.of

    def __str__(self) -> str:
        return f"{self.part / self.of:g}"
