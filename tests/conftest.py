"""What every test shares: how many examples and workers there are, no preset folder of the person who runs the tests, and
the way to recorded facts.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

from .examples import load_profile

Check = Callable[..., tuple[int, Any]]

load_profile()

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """A worker for each core where all tests are run; a part of them is through before workers have started."""
    return None if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


@pytest.fixture(autouse=True)
def only_bundled_presets(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Point the places of a user's own presets and models at nothing, and stay off the network.

    Output is buffered, as it is for people: what is left in a buffer at the end meets a full disk late.
    """
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.delenv("KVCALC_PRESETS", raising=False)
    monkeypatch.delenv("KVCALC_GPUS", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-configuration"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path_factory.getbasetemp() / "no-hub"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def shared_json() -> Callable[[str], Any]:
    """A reader of the recorded facts that lie beside the repository of the maintainers; skips where they are absent."""

    def read(name: str) -> Any:
        path = ROOT.parent / "shared" / name
        if not path.exists():
            pytest.skip(f"../shared/{name} is not here: it is no part of the repository")
        return json.loads(path.read_text(encoding="utf-8"))

    return read


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, str]]:
    """Error line and hint of a command line, which must be refused as the contract says."""

    def refused(*argv: str) -> tuple[str, str]:
        status = run(list(argv))
        out, err = capsys.readouterr()
        assert (status, out) == (2, "")
        assert err.endswith("\n")
        lines = err.split("\n")[:-1]
        assert [line[: len(start)] for line, start in zip(lines, ("kvcalc: error: ", "  hint: "), strict=False)] == (
            ["kvcalc: error: ", "  hint: "][: len(lines)]
        )
        assert len(lines) in (1, 2)
        assert [character for line in lines for character in line if not character.isprintable()] == []
        return lines[0].removeprefix("kvcalc: error: "), lines[1] if len(lines) > 1 else ""

    return refused


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
