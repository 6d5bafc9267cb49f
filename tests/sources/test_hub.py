"""Hub ids: the local cache, a server on this machine that speaks the hub's protocol, and no network at all."""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.sources import hub

REVISION = "0123456789abcdef0123456789abcdef01234567"
# Four layers with two KV heads of 64: 4 x 2 x 2 x 64 x 2 B = 2,048 B a token.
CONFIG = {
    "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "torch_dtype": "bfloat16", "max_position_embeddings": 4096,
}  # fmt: skip
TEXT = json.dumps(CONFIG).encode()


ANSWERED = ("/own/model-1/resolve/main/", "/own/model-1/resolve/v1/")
REFUSED = {
    "/own/model-1/": "RevisionNotFound", "/own/gated-1/": "GatedRepo", "/own/weights-1/": "EntryNotFound",
}  # fmt: skip


class Hub(BaseHTTPRequestHandler):
    """Serves one model's config.json, and counts what was asked for."""

    asked: list[str] = []

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        if self.answer():
            self.wfile.write(TEXT)

    def answer(self) -> bool:
        """Headers as the hub sends them; a refusal for everything but the one file of the one model."""
        self.asked.append(self.path)
        refused = next((code for start, code in REFUSED.items() if self.path.startswith(start)), "RepoNotFound")
        if not self.path.startswith(ANSWERED) or not self.path.endswith("/config.json"):
            self.send_response(403 if refused == "GatedRepo" else 404)
            self.send_header("X-Error-Code", refused)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return False
        self.send_response(200)
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("ETag", f'"{hashlib.sha1(TEXT).hexdigest()}"')
        self.send_header("Content-Length", str(len(TEXT)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        return True

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache of this test's own, without a model."""
    for name in ("HF_HOME", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def server() -> Iterator[str]:
    """The address of a hub on this machine."""
    Hub.asked.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as served:
        threading.Thread(target=served.serve_forever, args=[0.02], daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


def fill(cache: Path, content: bytes = TEXT, revision: str = REVISION) -> None:
    """What the hub's client leaves behind for own/model-1."""
    folder = cache / "models--own--model-1"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(revision)
    (folder / "snapshots" / revision).mkdir(parents=True)
    (folder / "snapshots" / revision / "config.json").write_bytes(content)


def test_the_local_cache_needs_no_network(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was fetched before is sized offline, under its hub id."""
    fill(empty_cache)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = loader.load("own/model-1")
    assert (model.name, model.ids, len(model.layers)) == ("model-1", ("own/model-1",), 4)


def test_a_cache_that_leads_elsewhere_is_not_followed(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A revision that is no revision is not joined to a path."""
    fill(empty_cache, revision="0123456")
    (empty_cache / "models--own--model-1" / "refs" / "main").write_text("../../../etc")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(KvcalcError, match="offline"):
        loader.load("own/model-1")


@pytest.mark.usefixtures("empty_cache")
def test_offline_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offline, an unknown hub id is one line with the nearest presets."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(KvcalcError, match=r"own/llama3-70: .*offline") as caught:
        loader.load("own/llama3-70")
    assert "llama3-70b" in str(caught.value.hint)


@pytest.mark.usefixtures("empty_cache")
def test_without_the_extra_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where huggingface_hub is not installed, the hint says how to install it."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(KvcalcError) as caught:
        loader.load("own/model-1")
    assert "pip install 'kvcalc[hub]'" in str(caught.value.hint)


def fetch(*argv: str, endpoint: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """kvcalc as a process of its own, since the hub's client reads its environment when it is imported."""
    environment = {"HF_ENDPOINT": endpoint, "HF_HUB_CACHE": str(cache), "PATH": "", "HF_HUB_DISABLE_TELEMETRY": "1"}
    return subprocess.run(
        [sys.executable, "-m", "kvcalc", *argv],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_only_the_configuration_is_fetched(empty_cache: Path, server: str) -> None:
    """One file is fetched, standard error says which and at which revision, and the second time it is there."""
    pytest.importorskip("huggingface_hub", reason="the hub extra is not installed")
    first = fetch("own/model-1", "--get", "kv.bytes_per_token", endpoint=server, cache=empty_cache)
    assert (first.returncode, first.stdout) == (0, "2048\n")
    assert first.stderr == f"kvcalc: fetched config.json of own/model-1 at revision {REVISION}\n"
    assert {path.rsplit("/", 1)[-1] for path in Hub.asked} == {"config.json"}
    Hub.asked.clear()
    second = fetch("own/model-1", "-q", "--context", "1", endpoint=server, cache=empty_cache)
    assert (second.returncode, second.stdout, second.stderr, Hub.asked) == (0, "2048\n", "", [])


def test_a_named_revision_is_fetched(empty_cache: Path, server: str) -> None:
    """`@v1` asks the hub for that revision, and for no other."""
    pytest.importorskip("huggingface_hub", reason="the hub extra is not installed")
    found = fetch("own/model-1@v1", "--get", "model.source", endpoint=server, cache=empty_cache)
    assert (found.returncode, found.stdout) == (0, "config.json of own/model-1 at v1\n")
    assert {path.split("/resolve/")[1] for path in Hub.asked} == {"v1/config.json"}


@pytest.mark.parametrize(
    ("model", "reason", "hint"),
    [
        ("own/model-2", "the hub has no such model, or it is private", "HF_TOKEN"),
        ("own/model-1@v2", "the hub has no such revision of it", "leave the revision out"),
        ("own/gated-1", "it is gated", "accept its licence on the hub"),
        ("own/weights-1", "it has none", "GGUF"),
    ],
)
def test_what_the_hub_refuses(model: str, reason: str, hint: str, empty_cache: Path, server: str) -> None:
    """The hub's no is one line with the reason and the way out, exit 2."""
    pytest.importorskip("huggingface_hub", reason="the hub extra is not installed")
    refused = fetch(model, endpoint=server, cache=empty_cache)
    error, way_out = refused.stderr.splitlines()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert error == f"kvcalc: error: {model}: its config.json cannot be fetched: {reason}"
    assert hint in way_out


def test_no_network_is_one_line(empty_cache: Path) -> None:
    """An address where nobody listens is a clear line, exit 2."""
    pytest.importorskip("huggingface_hub", reason="the hub extra is not installed")
    refused = fetch("own/model-1", endpoint="http://127.0.0.1:9", cache=empty_cache)
    lines = refused.stderr.splitlines()
    assert (refused.returncode, refused.stdout, len(lines) <= 2) == (2, "", True)
    assert lines[0].startswith("kvcalc: error: own/model-1: its config.json cannot be fetched: ")


@pytest.mark.parametrize(
    "text",
    ["own/..", "own/a/b", "../x", "own/", "/own", "own/a b", "own/" + "a" * 300, "own/a@", "own/a@x/../y", "own/a@-"],
)
def test_what_is_no_hub_id(text: str) -> None:
    """Only `org/name` and `org/name@revision` as the hub allows them are looked up."""
    assert hub.of_id(text) is None


def test_a_preset_comes_before_the_hub(capsys: pytest.CaptureFixture[str]) -> None:
    """An id that a preset names is never looked up elsewhere: 80 x 2 x 8 x 128 x 2 B."""
    assert run(["meta-llama/Meta-Llama-3-70B", "--get", "kv.bytes_per_token"]) == 0
    assert capsys.readouterr().out == f"{80 * 2 * 8 * 128 * 2}\n"
