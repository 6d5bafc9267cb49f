"""Sizes and counts, as people write and read them."""

import pytest

from kvcalc.core import units
from kvcalc.core.units import Units
from kvcalc.errors import KvcalcError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1B", 1),
        ("512 b", 512),
        ("80GB", 80_000_000_000),
        ("80gb", 80_000_000_000),
        (" 80 GB ", 80_000_000_000),
        ("1KB", 1_000),
        ("1MB", 1_000_000),
        ("2TB", 2_000_000_000_000),
        ("1PB", 10**15),
        ("1KiB", 1_024),
        ("24564MiB", 25_757_220_864),  # 24,564 x 1,048,576
        ("80GiB", 85_899_345_920),
        ("1TiB", 1_099_511_627_776),
        ("16Gi", 17_179_869_184),
        ("1ki", 1_024),
        ("1.5KB", 1_500),
        ("0.001KB", 1),
        ("79.2GiB", 85_040_352_460),  # 79.2 x 2^30 = 85,040,352,460.8
        ("1.9999B", 1),
        ("0.1KiB", 102),  # 102.4
        ("7EiB", 7 * 2**60),
        ("9223372036854775807B", 2**63 - 1),
    ],
)
def test_parse_size(text: str, size: int) -> None:
    """KB to EB are powers of 1000, KiB and Ki to EiB and Ei of 1024, in any case; decimals are floored to a byte."""
    assert units.parse_size(text, "--vram") == size


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("80G", "write 80GB (powers of 1000) or 80GiB (powers of 1024)"),
        ("1.5t", "write 1.5TB (powers of 1000) or 1.5TiB (powers of 1024)"),
        ("80", "write 80GB (powers of 1000) or 80GiB (powers of 1024), or 80B for bytes"),
    ],
)
def test_ambiguous_sizes_are_refused_with_both_readings(text: str, hint: str) -> None:
    """A bare number or a bare prefix is refused, and the hint shows both readings."""
    with pytest.raises(KvcalcError) as caught:
        units.parse_size(text, "--vram")
    assert str(caught.value) == f"--vram: expected a size with a unit, got '{text}', which can be read two ways"
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GB",
        "-1GB",
        "+1GB",
        "1e9B",
        "1,000B",
        "1.GB",
        ".5GB",
        "80 G B",
        "80gibb",
        "\uff18\uff10GB",
        "nanGB",
        "1.2.3GB",
    ],
)
def test_malformed_sizes_are_refused(text: str) -> None:
    """What is no number with a unit is refused, other alphabets' digits included."""
    with pytest.raises(KvcalcError, match=r"^--vram: expected a size with a unit, such as 80GB or 79.2GiB, got "):
        units.parse_size(text, "--vram")


@pytest.mark.parametrize("text", ["0B", "0GB", "0.5B", "8EiB", "9223372036854775808B", "99999999999TB"])
def test_sizes_out_of_range_are_refused(text: str) -> None:
    """Nothing, less than a byte and 8 EiB or more are refused."""
    with pytest.raises(KvcalcError, match=r"^--vram: expected a size above zero and below 8 EiB, got "):
        units.parse_size(text, "--vram")


@pytest.mark.parametrize("text", ["0", " 0 ", "0B", "0GB", "0.0GiB"])
def test_zero_where_it_is_allowed(text: str) -> None:
    """An overhead may be zero, with or without a unit."""
    assert units.parse_size(text, "--overhead", zero=True) == 0


def test_a_fraction_of_a_byte_is_not_zero() -> None:
    """Even where zero is allowed, what would silently become zero is refused."""
    with pytest.raises(KvcalcError):
        units.parse_size("0.5B", "--overhead", zero=True)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("4096", 4_096), ("4k", 4_096), ("128K", 131_072), ("1m", 1_048_576), ("1.5k", 1_536), ("1", 1), ("1m ", 2**20),
     ("1048576m", 2**40)],
)  # fmt: skip
def test_parse_tokens(text: str, tokens: int) -> None:
    """1k is 1,024 tokens and 1m is 1,048,576."""
    assert units.parse_tokens(text, "--context") == tokens


@pytest.mark.parametrize("text", ["", "k", "1.1k", "1.5", "-1", "4g", "4kb", "max", "4_096", "4,096"])
def test_malformed_tokens_are_refused(text: str) -> None:
    """A part of a token, and what is no number, are refused with an example."""
    with pytest.raises(KvcalcError, match=r"^--context: expected a whole number of tokens, got ") as caught:
        units.parse_tokens(text, "--context")
    assert caught.value.hint == "write 4096, 128k (1k is 1,024 tokens) or 1m"


@pytest.mark.parametrize("text", ["0", "0k", "1048577m", "1099511627777"])
def test_tokens_out_of_range_are_refused(text: str) -> None:
    """Zero and more than 2^40 tokens are refused."""
    with pytest.raises(KvcalcError, match=r"^--context: expected 1 to 1,099,511,627,776, got "):
        units.parse_tokens(text, "--context")


@pytest.mark.parametrize(("text", "number"), [("1", 1), (" 8 ", 8), ("1099511627776", 2**40)])
def test_parse_integer(text: str, number: int) -> None:
    """A plain number is read as it stands."""
    assert units.parse_integer(text, "--batch") == number


@pytest.mark.parametrize("text", ["", "1.0", "1k", "-1", "\u0663", "0x10", "0", "1099511627777"])
def test_integers_that_are_refused(text: str) -> None:
    """Signs, decimals, units, other digits, zero and the absurd are refused."""
    with pytest.raises(KvcalcError, match=r"^--batch: expected "):
        units.parse_integer(text, "--batch")


@pytest.mark.parametrize(
    ("text", "count"),
    [("70.55B", 70_550_000_000), ("124M", 124_000_000), ("8030261248", 8_030_261_248), ("1.5k", 1_500),
     ("1T", 10**12), ("1.5", None), ("many", None), ("7G", None), ("0.0001K", None)],
)  # fmt: skip
def test_parse_count(text: str, count: int | None) -> None:
    """Parameter counts use powers of 1000, and must come out whole."""
    assert units.parse_count(text) == count


@pytest.mark.parametrize(
    ("size", "system", "text"),
    [
        (0, "iec", "0 B"),
        (132, "iec", "132 B"),
        (1_023, "iec", "1023 B"),
        (1_024, "iec", "1 KiB"),
        (327_680, "iec", "320 KiB"),
        (327_680, "si", "327.7 KB"),
        (78_324, "si", "78.32 KB"),
        (70_272, "si", "70.27 KB"),
        (2_621_440, "iec", "2.5 MiB"),
        (1_342_177_280, "iec", "1.25 GiB"),
        (10 * 2**30, "iec", "10 GiB"),
        (80 * 10**9, "si", "80 GB"),
        (85_899_345_920, "si", "85.9 GB"),
        (1_000_499, "si", "1 MB"),  # 1.000499
        (1_000_500, "si", "1.001 MB"),  # 1.0005: halves go up
        (9_999_500, "si", "10 MB"),
        (2**40, "iec", "1 TiB"),
        (2**63 - 1, "iec", "8 EiB"),
        (2**70, "iec", "1024 EiB"),
        (-1_342_177_280, "iec", "-1.25 GiB"),
        (-1, "si", "-1 B"),
    ],
)
def test_format_bytes(size: int, system: Units, text: str) -> None:
    """The largest unit that leaves at least 1, at least four significant digits, trailing zeros dropped."""
    assert units.format_bytes(size, system) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(999, "999"), (1_000, "1K"), (124_000_000, "124M"), (8_030_261_248, "8.03B"), (70_550_000_000, "70.55B"),
     (1_500_000_000_000, "1.5T"), (10**16, "10000T")],
)  # fmt: skip
def test_format_count(count: int, text: str) -> None:
    """A parameter count is printed as a preset may write it."""
    assert units.format_count(count) == text


@pytest.mark.parametrize(("numerator", "quotient"), [(0, 0), (1, 1), (7, 1), (8, 2), (14, 2), (15, 3)])
def test_ceil_div(numerator: int, quotient: int) -> None:
    """Sevenths are rounded up."""
    assert units.ceil_div(numerator, 7) == quotient
