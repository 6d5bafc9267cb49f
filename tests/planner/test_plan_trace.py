"""A plan for the requests of a trace: its first rows are what `simulate` says of them, and its judge is the replay."""

import json
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import kvcalc
from kvcalc.cli.main import run

MORNING, AGENTS = "tests/traces/morning.csv", "tests/traces/agents.jsonl"


def document(capsys: pytest.CaptureFixture[str], *argv: str, status: int = 0) -> Any:
    assert run([*argv, "--json"]) == status
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "asked",
    [
        f"{MORNING} --gpu l4,h100,a10 --ttft 2s --tpot 100ms",
        f"{MORNING} --gpu l4 --tp 2 --tpot 60ms --kv-dtype fp8 --engine vllm@0.11 --utilization 0.85 --rate-scale 2",
        f"{AGENTS} --gpu l4,a10 --e2e 30s --percentile p99 --weights fp8 --overhead 2GiB",
        f"{AGENTS} --gpu 4xl4 --tp 4",
    ],
)
def test_a_row_has_the_numbers_of_simulate(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The command of a row says the same of it, time by time."""
    plan = document(capsys, "plan", "llama3.1-8b", "--trace", *asked.split())
    assert plan["options"]
    for option in plan["options"]:
        row = option["replayed"]
        again = document(capsys, *shlex.split(row["command"])[1:])
        for name in ("queue_seconds", "ttft_seconds", "tpot_seconds", "e2e_seconds", "attainment", "binding"):
            assert row[name] == again[name]
        assert row["requests_per_second"] == option["requests_per_second"] == again["requests_per_second"]
        assert option["gpus"] == row["replicas"] * option["tp"] * option["pp"]
        assert (option["ttft_seconds"], option["tpot_seconds"]) == (row["ttft_seconds"]["mean"], row["tpot_seconds"]["mean"])  # fmt: skip


def test_the_replicas_are_the_fewest_that_simulate_finds(capsys: pytest.CaptureFixture[str]) -> None:
    """As `--replicas auto` has it, and the fewest GPUs come first."""
    targets = ["--ttft", "2s", "--tpot", "80ms"]
    plan = document(
        capsys, "plan", "llama3.1-8b", "--trace", MORNING, "--gpu", "l4", "--tp", "1", "--pp", "1", *targets
    )
    fleet = document(capsys, "simulate", "llama3.1-8b", MORNING, "--gpu", "l4", "--replicas", "auto", *targets)
    assert [option["gpus"] for option in plan["options"]] == [fleet["request"]["replicas"]]
    assert plan["best"]["replayed"]["attainment"]["tpot"] >= 0.95


def test_what_the_trace_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    """Counted in the file by hand: mean, and the least lengths that 228 and 240 of the 240 requests do not exceed."""
    rows = [line.split(",") for line in Path(MORNING).read_text(encoding="utf-8").splitlines()]
    at = rows[0].index("ContextTokens") if "ContextTokens" in rows[0] else 1
    prompts = sorted(int(row[at]) for row in rows[1:])
    request = document(capsys, "plan", "llama3.1-8b", "--trace", MORNING, "--gpu", "h100")["request"]
    mix = request["trace"]
    assert mix["requests"] == 240
    assert mix["input_tokens"] == {"mean": sum(prompts) / 240, "p95": prompts[227], "p99_9": prompts[239]}
    assert request["rate"] == pytest.approx(239 / mix["duration_seconds"])
    assert mix["token_hit_rate"] is None
    found = document(capsys, "plan", "llama3.1-8b", "--trace", AGENTS, "--gpu", "h100")["request"]["trace"]
    assert found["token_hit_rate"] == pytest.approx(0.8851, abs=1e-4)  # no limit, in docs/simulation.md


def test_who_misses_a_target_is_refused_by_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    """Of two L4 the requests ask too much, which the closed form refuses for all of the rate and takes for a tenth of it."""
    asked = ["plan", "llama3.1-8b", "--trace", MORNING, "--gpu", "2xl4", "--tp", "1", "--pp", "1", "--tpot", "90ms"]
    plan = document(capsys, *asked, status=1)
    assert plan["best"] is None
    (refused,) = (each for each in plan["refused"] if each["why"].startswith("replayed"))
    assert (refused["gpu"], refused["gpus"]) == ("l4", 2)
    assert refused["why"].startswith("replayed: meets TPOT for ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--input 100", "--input: contradicts --trace"),
        ("--rate 2", "--rate: contradicts --trace"),
        ("--users 4", "--users: contradicts --trace"),
        ("--context 4k", "--context: contradicts --trace"),
        ("--prefix-hit 0.5", "--prefix-hit: contradicts --trace"),
        ("--shared-prefix 100", "--shared-prefix: contradicts --trace"),
        ("--vram 80GB", "--vram: contradicts --trace"),
        ("--graphs 1GiB", "--graphs: contradicts --trace"),
        ("--sort rate", "--sort: rate is that of the trace"),
        ("--time-unit h", "--time-unit: expected s or ms"),
        ("--rate-scale 0", "--rate-scale: expected a number above zero"),
        ("--jobs 0", "--jobs: expected 1 to 61"),
    ],
)
def test_what_a_trace_says_is_not_said_twice(words: str, line: str, refused: Callable[..., tuple[str, str]]) -> None:
    """Each is one line with the option's name."""
    assert refused("plan", "llama3.1-8b", "--trace", MORNING, *words.split())[0].startswith(line)


@pytest.mark.parametrize("words", ["--time-unit s", "--rate-scale 2", "--jobs 2"])
def test_what_reads_a_trace_needs_one(words: str, refused: Callable[..., tuple[str, str]]) -> None:
    """Nothing is passed over in silence."""
    assert "has no effect without --trace" in refused("plan", "llama3.1-8b", *words.split())[0]


def test_requests_that_come_all_at_once_have_no_rate(tmp_path: Path, refused: Callable[..., tuple[str, str]]) -> None:
    """Nor does a single one."""
    path = tmp_path / "once.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,10\n0,20,5\n", encoding="utf-8")
    assert refused("plan", "llama3.1-8b", "--trace", str(path))[0].startswith(
        "--trace: the requests all arrive at once"
    )


def test_python_says_the_same_and_takes_an_executor(capsys: pytest.CaptureFixture[str]) -> None:
    """With another's threads, too, and with processes of its own."""
    asked: dict[str, Any] = {"trace": MORNING, "gpu": ["l4", "h100"], "ttft": "2s", "tpot": "100ms"}
    words = ["plan", "llama3.1-8b", "--trace", MORNING, "--gpu", "l4,h100", "--ttft", "2s", "--tpot", "100ms"]
    typed = document(capsys, *words)
    assert document(capsys, *words, "--jobs", "2") == typed
    with ThreadPoolExecutor(2) as threads:
        found = kvcalc.plan("llama3.1-8b", **asked, executor=threads).to_dict()
    assert json.loads(json.dumps(found)) == typed
    assert kvcalc.plan("llama3.1-8b", **asked, top=1).to_dict()["options"] == found["options"][:1]
    with pytest.raises(kvcalc.KvcalcError, match="time_unit: has no effect without trace"):
        kvcalc.plan("llama3.1-8b", time_unit="s")
