"""A short, seeded run of the fuzzer of the readers; fuzz_readers.py runs as long as one likes."""

import tracemalloc
from itertools import islice

from .fuzz_readers import checked, inputs, run, seeds


def test_seeds_are_right(tmp_path):
    """Every preset and file of weights is read, so that mutations start close to what is right."""
    assert {run(seed, tmp_path) for seed in seeds("GSP")} == {None}


def test_most_types_are_read_by_their_defaults(tmp_path):
    """A configuration with nothing but its type and the values of its class is read, or refused by name."""
    outcomes = [run(seed, tmp_path) for seed in seeds("C")]
    assert outcomes.count(None) > len(outcomes) // 2
    assert [line for line in outcomes if line is not None and "config.json" not in line] == []


def test_mutations_of_files_give_one_line(tmp_path):
    """Several hundred mutations of small files give a preset, weights or one line, soon and in bounded memory."""
    tracemalloc.start()
    try:
        for data in islice(inputs(7, seeds()), 600):
            checked(data, tmp_path)
    finally:
        tracemalloc.stop()
