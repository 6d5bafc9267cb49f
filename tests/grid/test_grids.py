"""Lists and ranges, as people write them."""

import pytest

from kvcalc.core.units import parse_integer, parse_tokens
from kvcalc.errors import KvcalcError
from kvcalc.grid.ranges import bounded, names, numbers

K = 1024


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4096", [4096]),
        ("4k,8k,32k", [4 * K, 8 * K, 32 * K]),
        ("1..4", [1, 2, 3, 4]),
        ("7..7", [7]),
        ("1k..4k", [K, 2 * K, 3 * K, 4 * K]),  # by one of the unit of the first end
        ("1..1k:+256", [1, 257, 513, 769]),
        ("8..64:+8", [8, 16, 24, 32, 40, 48, 56, 64]),
        ("8k..32k:+8k", [8 * K, 16 * K, 24 * K, 32 * K]),
        ("1k..8k:x2", [K, 2 * K, 4 * K, 8 * K]),
        ("1..100:x10", [1, 10, 100]),
        ("1..99:x10", [1, 10]),
        ("3..50:X3", [3, 9, 27]),
        ("8,1..3,2,16", [8, 1, 2, 3, 16]),  # once each, where it came first
        (" 1 , 2 .. 3 ", [1, 2, 3]),
        ("max,1k", [8 * K, K]),
        ("2k..max:x2", [2 * K, 4 * K, 8 * K]),
    ],
)
def test_numbers(text: str, expected: list[int]) -> None:
    """A list with ranges is what a reader would write out by hand, in its order."""
    assert numbers(text, "--context", parse_tokens, {"max": 8 * K}) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a value or a list"),
        ("1,,2", "expected a value or a list"),
        ("1,", "expected a value or a list"),
        ("8..1", "expected the smaller end first"),
        ("..8", "expected a range such as"),
        ("1..", "expected a range such as"),
        ("1..2..3", "expected a range such as"),
        ("1..8:", "expected a range such as"),
        ("1..8:2", "expected a range such as"),
        ("1..8:x1", "expected a whole factor from 2 on"),
        ("1..8:x1.5", "expected a whole factor from 2 on"),
        ("1..8:+0", "expected 1 to"),
        ("0..8", "expected 1 to"),
        ("1..1000001", "expected at most 1,000,000 values, got 1,000,001"),
        ("1..1000000,1..1000000", "expected at most 1,000,000 values, got 2,000,000"),
        ("1..1099511627776", "expected at most 1,000,000 values, got 1,099,511,627,776"),
        ("a..b", "expected a whole number above zero"),
        ("1" * 200_000, "expected a value or a list"),
    ],
    ids=lambda text: text[:30],
)
def test_numbers_that_are_refused(text: str, said: str) -> None:
    """A slip is refused in one line that begins with the option, and a huge range without writing it out."""
    with pytest.raises(KvcalcError) as error:
        numbers(text, "--batch", parse_integer)
    assert error.value.message.startswith("--batch: ")
    assert said in error.value.message
    assert len(error.value.message) < 300


def test_a_range_the_wrong_way_round_keeps_its_step() -> None:
    """What the hint says to write is the whole range that was meant."""
    with pytest.raises(KvcalcError) as error:
        numbers("8k..1k:x2", "--context", parse_tokens)
    assert error.value.hint == "write 1k..8k:x2"


def test_names() -> None:
    """Words keep their order, and one in another case is the same word."""
    assert names("fp8, bf16,FP8,auto", "--kv-dtype") == ["fp8", "bf16", "auto"]
    with pytest.raises(KvcalcError, match="--kv-dtype: expected a value or a list"):
        names("fp8,,bf16", "--kv-dtype")


def test_a_grid_is_bounded() -> None:
    """Four million cells are refused with the product that makes them; a million are not."""
    bounded({"--context": range(1000), "--batch": range(1000), "--tp": [1]})
    with pytest.raises(KvcalcError, match=r"got 4,000,000: 2,000 \(--context\) x 1,000 \(--batch\) x 2 \(--tp\)"):
        bounded({"--context": range(2000), "--batch": range(1000), "--tp": [1, 2]})
