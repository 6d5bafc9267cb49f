"""What every test shares: no preset folder of the person who runs the tests, and the way to recorded facts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def only_bundled_presets(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Point the places of a user's own presets and models at nothing, and stay off the network."""
    monkeypatch.delenv("KVCALC_PRESETS", raising=False)
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
