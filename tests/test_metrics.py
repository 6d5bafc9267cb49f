"""A server's metrics: two engines of vLLM by hand, SGLang's, two snapshots, and what is refused."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import kvcalc
from kvcalc.cli.main import run

pytest.importorskip("prometheus_client", reason="the extra metrics is not installed")
METRICS = Path(__file__).parent / "metrics"
BEFORE, AFTER, SGLANG = (str(METRICS / f"{name}.txt") for name in ("before", "after", "sglang"))


def document(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert run(["check", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_one_snapshot_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Two pools of 2,000 blocks of 16 tokens, 0.6 and 0.4 of them used by 20 sequences: 1,600 tokens each, 20 more fit."""
    found = document(capsys, BEFORE)
    assert found["schema"] == "kvcalc.metrics/1"
    assert (found["engine"], found["engines"], found["running"], found["waiting"]) == ("vllm", 2, 20, 0)
    pool = found["pool"]
    assert (pool["tokens"], pool["used_tokens"], pool["free_tokens"]) == (64_000, 32_000, 32_000)
    assert (pool["tokens_per_sequence"], pool["more_sequences"], found["binding"]) == (1600, 20, None)
    requests = found["requests"]
    assert (requests["mean_input_tokens"], requests["mean_output_tokens"]) == (1100, 200)
    assert (requests["prefix_hit_rate"], requests["preemptions"], requests["per_second"]) == (0.25, 6, None)
    assert found["lengths"] == "--input 1100 --output 200"
    assert found["model"]["preset"] == "llama3.1-8b"


def test_two_snapshots_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """In a minute 150 requests of 240,000 + 45,000 tokens, four preemptions; 80,000 of 100,000 tokens were found."""
    found = document(capsys, BEFORE, AFTER, "--interval", "60s")
    requests = found["requests"]
    assert (requests["answered"], requests["per_second"], requests["preemptions"]) == (150, 2.5, 4)
    assert (requests["mean_input_tokens"], requests["mean_output_tokens"]) == (1600, 300)
    assert requests["prefix_hit_rate"] == 0.8
    assert (found["binding"], found["waiting"], found["pool"]["used_tokens"]) == ("kv", 7, 61_440)
    assert kvcalc.metrics(BEFORE, AFTER, interval=60).to_dict() == found


def test_a_pool_that_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    """SGLang: 25,000 tokens are a quarter. Requests wait while three quarters are free: for the computation."""
    found = document(capsys, SGLANG)
    assert (found["pool"]["tokens"], found["pool"]["more_sequences"], found["binding"]) == (100_000, 30, "compute")
    assert run(["check", SGLANG, "-q"]) == 0
    assert capsys.readouterr().out == "30\n"


def test_the_prediction_is_that_of_size(capsys: pytest.CaptureFixture[str]) -> None:
    """What `size` says of the same card, engine, share of the memory and block."""
    found = document(capsys, BEFORE, "--gpu", "2xl4", "--dp", "2")
    size = kvcalc.size("llama3.1-8b", context=1024, gpu="2xl4", dp=2, engine="vllm", utilization=0.9, block_size=16)
    assert size.fit is not None
    assert found["pool"]["predicted_tokens"] == size.fit.capacity_tokens
    assert found["pool"]["predicted_low"] < size.fit.capacity_tokens < found["pool"]["predicted_high"]


REFUSED = {
    "other metrics": (b"# HELP up Up.\n# TYPE up gauge\nup 1\n", "no metric of vllm, sglang, tensorrt-llm, llama.cpp"),
    "no metrics": (b"# HELP vllm:x\nvllm:x{ 1\n", "expected metrics in Prometheus' text format"),
    "no text": (b"# HELP vllm:x\n\xff\n", "expected metrics in Prometheus' text format"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line."""
    text, expected = REFUSED[name]
    (tmp_path / "metrics").write_bytes(text)
    assert run(["check", str(tmp_path / "metrics")]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") <= 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([AFTER, BEFORE], "counts less than in the earlier snapshot"),
        ([BEFORE, "--interval", "60s"], "--interval: lies between two snapshots"),
        ([SGLANG, "--model", "jamba-1.5-mini", "--gpu", "h100", "--interval", "1s"], "--interval"),
        ([str(Path(__file__).parent / "logs/vllm-llama3.3-70b.log"), AFTER], "LATER: is for metrics"),
    ],
)
def test_what_does_not_go_together(words: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Snapshots in the wrong order, an interval without a second one, a log with one."""
    assert run(["check", *words]) == 2
    assert expected in capsys.readouterr().err


def test_tensorrt_llm_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """2,000 blocks of 32 tokens, of which 500 are used by 10 sequences: 1,600 each, 30 more fit; 40 requests of 60,000 and
    8,000 tokens; a quarter of 1,200 blocks was found.
    """
    found = document(capsys, str(METRICS / "trtllm.txt"))
    assert (found["engine"], found["running"], found["waiting"], found["binding"]) == ("tensorrt-llm", 10, 3, "compute")
    pool = found["pool"]
    assert (pool["tokens"], pool["used_tokens"], pool["tokens_per_sequence"], pool["more_sequences"]) == (
        64_000, 16_000, 1600, 30,
    )  # fmt: skip
    requests = found["requests"]
    assert (requests["mean_input_tokens"], requests["mean_output_tokens"], requests["prefix_hit_rate"]) == (
        1500, 200, 0.25,
    )  # fmt: skip


class _Server(BaseHTTPRequestHandler):
    """Metrics of two moments, and addresses that lead nowhere."""

    def do_GET(self) -> None:
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "/metrics")
            self.end_headers()
            return
        if self.path != "/metrics":
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(Path(BEFORE).read_bytes())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as here:
        thread = Thread(target=here.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{here.server_port}"
        here.shutdown()
        thread.join()


def test_an_address_is_the_file_behind_it(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same answer, on the command line and in Python, but for the name."""
    asked, read = document(capsys, f"{server}/metrics"), document(capsys, BEFORE)
    assert asked | {"files": None} == read | {"files": None}
    assert kvcalc.metrics(f"{server}/metrics").to_dict() == asked


@pytest.mark.parametrize(("path", "said"), [("/other", "Not Found"), ("/away", "Found")])
def test_addresses_without_metrics(path: str, said: str, server: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says why, and another address is not followed."""
    assert run(["check", server + path]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(f"kvcalc: error: {server}{path}: ")
    assert said in lines[0]


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Server) as here:
        port = here.server_port
    assert run(["check", f"http://127.0.0.1:{port}/metrics"]) == 2
    assert "refused" in capsys.readouterr().err
