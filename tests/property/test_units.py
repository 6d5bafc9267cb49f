"""What is printed can be read again."""

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.core import units
from kvcalc.core.units import Units

SIZES = st.integers(1, 2**62) | st.integers(0, 62).map(lambda n: 2**n) | st.integers(0, 18).map(lambda n: 10**n)
SYSTEMS = st.sampled_from(["iec", "si"])


@given(SIZES, SYSTEMS)
def test_printed_sizes_are_near(size: int, system: Units) -> None:
    """A printed size has at least four significant digits: read again it is off by at most 5 in 10,000, and a byte."""
    read = units.parse_size(units.format_bytes(size, system), "--vram")
    assert abs(read - size) * 2_000 <= size + 2_000


@given(SIZES, SIZES, SYSTEMS)
def test_printed_sizes_keep_their_order(one: int, other: int, system: Units) -> None:
    """A larger size never prints as a smaller one."""
    small, large = (units.parse_size(units.format_bytes(n, system), "--vram") for n in sorted((one, other)))
    assert small <= large


@given(st.integers(1, 2**63 - 1), st.sampled_from(["B", "b", " B"]))
def test_bytes_are_read_exactly(size: int, unit: str) -> None:
    """A size in bytes is the number itself."""
    assert units.parse_size(f"{size}{unit}", "--vram") == size


@given(
    st.integers(1, 1_000),
    st.sampled_from([("KB", 10**3), ("MB", 10**6), ("gb", 10**9), ("TB", 10**12), ("KiB", 2**10), ("mib", 2**20),
                     ("GiB", 2**30), ("Ti", 2**40)]),
    st.integers(0, 999),
)  # fmt: skip
def test_decimals_are_floored_to_a_byte(whole: int, unit: tuple[str, int], thousandths: int) -> None:
    """Three decimals of any unit are that many thousandths of it, rounded down."""
    size = units.parse_size(f"{whole}.{thousandths:03}{unit[0]}", "--vram")
    assert size == (1_000 * whole + thousandths) * unit[1] // 1_000


@given(st.integers(1, 2**40))
def test_tokens_are_read_exactly(tokens: int) -> None:
    """A number of tokens is the number itself."""
    assert units.parse_tokens(str(tokens), "--context") == tokens
    assert units.parse_integer(str(tokens), "--batch") == tokens


@given(st.integers(1, 2**20), st.sampled_from([("k", 2**10), ("K", 2**10), ("m", 2**20), ("M", 2**20)]))
def test_token_units_are_binary(number: int, unit: tuple[str, int]) -> None:
    """1k is 1,024 tokens and 1m is 1,048,576."""
    assert units.parse_tokens(f"{number}{unit[0]}", "--context") == number * unit[1]


@given(st.integers(1, 10**16))
def test_printed_counts_are_near(count: int) -> None:
    """A printed number of parameters is off by at most 5 in 10,000 when read again."""
    read = units.parse_count(units.format_count(count))
    assert read is not None
    assert abs(read - count) * 2_000 <= count


@given(st.integers(0, 10**30), st.integers(1, 10**12))
def test_ceil_div_rounds_up(numerator: int, denominator: int) -> None:
    """The quotient is the least whole number that is not too small."""
    quotient = units.ceil_div(numerator, denominator)
    assert quotient * denominator >= numerator > (quotient - 1) * denominator
