"""A command line run in this process, for the tests of every verb."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from kvcalc.cli.main import run


class Result(NamedTuple):
    status: int
    out: str
    err: str


Call = Callable[..., Result]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in this process."""

    def call(*argv: str) -> Result:
        status = run(list(argv))
        return Result(status, *capsys.readouterr())

    return call
