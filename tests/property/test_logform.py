"""A printed number stands for an interval, and the truth lies in it."""

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.engines.log_form import GIB, MIB
from kvcalc.engines.log_numbers import Printed, digits, plain

SIZES = st.integers(0, 2**52)
PLACES = st.integers(1, 4)
UNITS = st.sampled_from([1000, 2**10, MIB, GIB, 10**9])


@given(SIZES, PLACES, UNITS)
def test_the_truth_lies_in_what_was_printed(size: int, places: int, unit: int) -> None:
    """A size printed with some decimals may have been any that rounds to them, and the real one is among those."""
    printed = digits(f"{size / unit:.{places}f}")
    assert printed is not None
    low, high = printed.bounds(unit)
    assert low <= size <= high
    assert high - low <= unit // 10**places


@given(SIZES, st.integers(1, 4))
def test_zeros_that_were_not_printed_count(size: int, places: int) -> None:
    """vLLM prints 19.9 for 19.90: the interval is that of two decimals all the same."""
    text = str(round(size / GIB, places))
    printed = digits(text, places)
    assert printed is not None
    low, high = printed.bounds(GIB)
    assert low <= size <= high
    assert high - low <= GIB // 10**places


@given(st.integers(0, 10**23))
def test_a_count_is_itself(count: int) -> None:
    """Whole numbers have no interval, with or without separators."""
    for text in (str(count), f"{count:,}"):
        assert digits(text) == Printed(count)
        assert plain(text) == count
    assert Printed(count).bounds() == (count, count)


@given(st.text(max_size=40))
def test_any_text_is_a_number_or_none(text: str) -> None:
    """What is no number is none, and no text fails."""
    printed = digits(text)
    if printed is not None:
        assert f"{text.strip().replace(',', '').replace('_', '')}".isascii()
