"""A short, seeded run of the fuzzer of texts that start engines; fuzz_texts.py runs as long as one likes."""

from itertools import islice
from pathlib import Path

import pytest

from .fuzz_texts import checked, inputs


@pytest.mark.parametrize(("reader", "least"), [("T", 50), ("C", 30)])
def test_mutations_of_texts_give_one_line(reader: str, least: int, tmp_path: Path) -> None:
    """Several hundred mutations of real texts give a command or one line, soon; a good part is still read."""
    outcomes = [checked(each, reader, tmp_path, turn)[0] for turn, each in enumerate(islice(inputs(7, reader), 400))]
    assert outcomes.count(None) > least
