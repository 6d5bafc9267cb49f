"""A text checked as `kvcalc check` does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

Check = Callable[..., tuple[int, Any]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Exit status and document of a check of a text; no document where it is refused."""

    def check(text: str, *options: str) -> tuple[int, Any]:
        log = tmp_path / "engine.log"
        log.write_text(text)
        status = run(["check", str(log), "--json", *options])
        out = capsys.readouterr().out
        return status, json.loads(out) if out else None

    return check
