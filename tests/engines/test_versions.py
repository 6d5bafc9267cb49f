"""Versions of an engine: which row of rules holds for the one that is asked for."""

import re
from typing import NamedTuple

import pytest

from kvcalc.commands.versions import parse, pick
from kvcalc.errors import KvcalcError


class Row(NamedTuple):
    name: str


ROWS = (Row("0.11.0"), Row("0.20.0"), Row("0.20.2"), Row("0.33.0"))


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        (None, "0.33.0"), ("0.33.0", "0.33.0"), ("1.2", "0.33.0"), ("0.20", "0.20.0"), ("0.20.1", "0.20.0"),
        ("v0.20.2", "0.20.2"), ("0.32.9", "0.20.2"), ("0.33.0rc1", "0.33.0"), ("0.20.2+abc", "0.20.2"),
        ("0.20.2.post1", "0.20.2"), ("0.21.0.dev3+g12ab", "0.20.2"), ("0.11.0", "0.11.0"),
    ],
)  # fmt: skip
def test_a_version_follows_the_newest_row_that_is_not_newer(asked: str | None, row: str) -> None:
    """A version between two known ones follows the lower; suffixes are accepted (contract, section 3)."""
    assert pick(ROWS, asked, "engine") == (Row(row), None)


def test_a_version_older_than_all_uses_the_oldest_and_says_so() -> None:
    """The answer must not pass for one that was read."""
    row, warning = pick(ROWS, "0.9.2", "engine")
    assert row == ROWS[0]
    assert warning is not None
    assert "0.9.2" in warning
    assert "0.11.0" in warning


def test_build_numbers_are_versions() -> None:
    """llama.cpp counts its builds."""
    assert (parse("b9496", ""), parse("9496", ""), parse("b9496-3f2c1a", "")) == ((9496,), (9496,), (9496,))


@pytest.mark.parametrize(
    "text", ["", "latest", "1..2", "1.2.3.4.5", "0.1\x1b[31m", "9" * 80, "1,2", "-1", "\u0663.\u0661"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    """One line that names the option."""
    with pytest.raises(KvcalcError, match="--engine: expected a version"):
        parse(text, "--engine")


@pytest.mark.parametrize("asked", ["0.1.2", "5c1e57098", "0c1e57098", "b5c1e57098", "v9496", "9496rc1"])
def test_a_version_that_is_no_build_is_refused_where_builds_are_counted(asked: str) -> None:
    """llama.cpp 0.1.2 is not older than its build 9496, nor is a commit's hash build 5: nothing says which it is."""
    with pytest.raises(KvcalcError, match=rf"expected a build of llama\.cpp such as b9496, got '{re.escape(asked)}'"):
        pick((Row("b1"), Row("b9496")), asked, "llama.cpp")


@pytest.mark.parametrize("asked", ["b9496", "9496", "B9500", "b9496-3f2c1a", "9496_cuda", " b9999 "])
def test_builds_with_suffixes_are_builds(asked: str) -> None:
    """`git describe` and images write the commit or the device behind the count."""
    assert pick((Row("b1"), Row("b9496")), asked, "llama.cpp") == (Row("b9496"), None)
