"""Rows that people would rent: counts that machines have, targets, prices, and commands that start the very row."""

import json
import shlex
from typing import Any

import pytest

import kvcalc
from kvcalc.cards.shipped import machines, rented
from kvcalc.cli.main import run


def answer(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    """The document of a command line."""
    assert run([*words, "--json"]) == status, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


SERVED = ("--input", "1155/4083", "--output", "211/451")
# Users of one length, of lengths as they are, at a rate; dense, with experts, with latents, with windows.
ASKED = [
    ("llama3.3-70b", "--users", "40", "--context", "16k", "--gpu", "h100,h200,l40s"),
    ("llama3.1-8b", *SERVED, "--rate", "5", "--gpu", "l4,l40s,h100"),
    ("llama3.1-8b", *SERVED, "--users", "50", "--gpu", "l4,h100"),
    ("qwen3-30b-a3b", "--users", "100", "--context", "8k", "--gpu", "h100,l40s"),
    ("deepseek-v3", "--users", "8", "--context", "32k", "--gpu", "h200"),
    ("gemma3-27b", "--users", "30", "--context", "8k", "--gpu", "a100-80gb,l40s", "--kv-dtype", "fp8"),
]


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
@pytest.mark.parametrize("words", ASKED, ids=" ".join)
def test_a_rows_command_is_the_row(words: tuple[str, ...], engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Read back, the command has the same memory split, KV budget and pool on as many GPUs, to the last byte."""
    status = run(["plan", *words, "--engine", engine, "--json"])
    captured = capsys.readouterr()
    if status == 2:  # a model that the engine does not have
        assert engine in captured.err or "fp8" in captured.err
        return
    for row in json.loads(captured.out)["options"]:
        command = row["engine_flags"].get(engine)
        if command is None:
            continue
        gpus = f"{row['gpus'] // row['servers'][engine]}x{row['gpu']}"
        front = [words[0]] if engine == "llama.cpp" else []
        assert run([*front, "--gpu", gpus, "--json", "--", *shlex.split(command)]) in (0, 1)
        read = json.loads(capsys.readouterr().out)
        if engine == "llama.cpp":  # the weights of its command are those of a file that is not here
            continue
        for key in (
            "weights_bytes_per_gpu",
            "overhead_bytes_per_gpu",
            "kv_budget_bytes_per_gpu",
            "utilization",
            "overheads",
        ):
            assert read["fit"][key] == row[key], (command, key)
        layout = {key: row[key] for key in ("tp", "pp", "dp")}
        replicas = row["servers"][engine]
        assert {key: read["request"][key] for key in layout} == {**layout, "dp": layout["dp"] // replicas}
        assert read["fit"]["capacity_tokens"] * replicas == row["capacity_tokens"]


@pytest.mark.parametrize(
    ("words", "best"),
    [
        # 671 GB of fp8 weights: 6 or 7 H200 would hold them, which no machine has; tp 8 is what serves
        (("deepseek-v3", "--users", "8", "--context", "32k", "--gpu", "h200"), (8, 8, 1, 1)),
        (("deepseek-v3", "--users", "8", "--context", "32k", "--gpu", "h200", "--count", "any"), (7, 1, 7, 1)),
        # 16 GB of weights and 8 GiB of cache in 44.4 GiB: one is enough
        (("llama3.1-8b", "--users", "8", "--context", "8k", "--gpu", "l40s"), (1, 1, 1, 1)),
        # what the asker pinned is never refused for its number
        (("llama3.3-70b", "--users", "10", "--context", "8k", "--gpu", "3xh200"), (3, 1, 3, 1)),
        (("llama3.3-70b", "--users", "10", "--context", "8k", "--gpu", "h200", "--tp", "2", "--pp", "1"), (2, 2, 1, 1)),
        # two of "24 GB" are less than one of 192
        (("llama3.1-8b", "--users", "8", "--context", "8k", "--gpu", "mi300x,l4"), (2, 2, 1, 1)),
    ],
)
def test_what_would_be_rented(
    words: tuple[str, ...], best: tuple[int, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """GPUs, tp, pp and dp of the first row."""
    found = answer(capsys, "plan", *words)["best"]
    assert tuple(found[key] for key in ("gpus", "tp", "pp", "dp")) == best


def test_every_count_can_be_rented(capsys: pytest.CaptureFixture[str]) -> None:
    """A replica has as many GPUs as a machine type, or all of several of the largest; and the row names the types."""
    found = answer(capsys, "plan", "llama3.3-70b", "--users", "60", "--context", "8k")
    assert len(found["options"]) > 5
    for row in found["options"]:
        counts = rented()[row["gpu"]]
        gpus = row["tp"] * row["pp"]
        assert gpus in counts or gpus % max(counts) == 0
        types = [machines()[name] for name in row["machines"]]
        assert types
        assert {(each.card, each.gpus) for each in types} == {(row["gpu"], gpus if gpus in counts else max(counts))}


def test_computers_of_desks_are_taken_only_when_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Not by a search, not by `all`, but by their name, of which one has one GPU."""
    words = ("llama3.1-8b", "--users", "4", "--context", "4k")
    for gpus in ([], ["--gpu", "all"]):
        found = answer(capsys, "plan", *words, *gpus)
        assert not [name for name in found["request"]["gpus"] if name.startswith(("apple", "gb10", "ryzen-ai"))]
    found = answer(capsys, "plan", *words, "--gpu", "m4-max:64GB")
    assert (found["best"]["gpu"], found["best"]["tp"], found["best"]["pp"]) == ("apple-m4-max:64GB", 1, 1)


@pytest.mark.parametrize("added", ["b200", "l4", "mi300x", "rtx-4090", "a100-40gb-sxm"])
def test_a_card_more_never_makes_the_best_row_worse(added: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The best of a longer list takes no more memory than that of a shorter one, and is not tight where it was sure."""
    words = ("plan", "qwen3-32b", *SERVED, "--rate", "4", "--ttft", "3s", "--gpu")
    few, many = (answer(capsys, *words, names)["best"] for names in ("l40s,h100", f"l40s,h100,{added}"))
    memory = [row["gpus"] * row["vram_bytes_per_gpu"] for row in (few, many)]
    assert memory[1] <= 1.05 * memory[0]
    assert many["tight"] <= few["tight"]


def test_targets_are_met_or_the_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """40 ms a token take more L4s than 100, and 1 ms no number of them."""
    words = ("plan", "llama3.1-8b", *SERVED, "--rate", "5", "--gpu", "l4")
    slow, quick = (answer(capsys, *words, "--tpot", each)["best"] for each in ("150ms", "60ms"))
    assert slow["gpus"] < quick["gpus"]
    assert quick["tpot_seconds"] < 0.060
    none = answer(capsys, *words, "--tpot", "1ms", status=1)
    assert none["best"] is None
    assert none["refused"][0]["binding"] == "latency"
    assert none["refused"][0]["why"].startswith("TPOT at p95 is ")
    assert none["request"]["tpot_seconds"] == 0.001


def test_a_searched_card_keeps_a_ceiling_and_a_named_one_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """100 ms a token: cards that were searched stay below it on average, one that was named is only told of."""
    words = ("plan", "llama3.1-8b", *SERVED, "--rate", "5")
    assert all(row["tpot_seconds"] <= 0.1 for row in answer(capsys, *words)["options"])
    named = answer(capsys, *words, "--gpu", "l4")
    assert named["best"]["tpot_seconds"] > 0.1
    assert any("readers find slow" in warning for warning in named["warnings"])


def test_what_a_million_tokens_cost(capsys: pytest.CaptureFixture[str]) -> None:
    """4 requests a second of 1,000 and 100 tokens are 14.4 and 1.44 million an hour, on GPUs of 1.80."""
    words = (
        "plan",
        "llama3.1-8b",
        "--input",
        "1000",
        "--output",
        "100",
        "--rate",
        "4",
        "--gpu",
        "l40s",
        "--price",
        "l40s=1.8",
    )
    best = answer(capsys, *words)["best"]
    hour = 1.8 * best["gpus"]
    assert best["price_per_hour"] == pytest.approx(hour)
    assert best["cost_per_million_tokens"]["input"] == pytest.approx(hour / 14.4)
    assert best["cost_per_million_tokens"]["output"] == pytest.approx(hour / 1.44)
    assert best["requests_per_second"] == pytest.approx(4)


def test_a_prefix_that_is_found_is_not_computed(capsys: pytest.CaptureFixture[str]) -> None:
    """Nine tenths of a prompt in the cache: a tenth of the work, and as much memory."""
    words = ("plan", "llama3.1-8b", "--input", "8000", "--output", "100", "--rate", "2", "--gpu", "1xh100")
    whole, found = (answer(capsys, *words, *more)["best"] for more in ((), ("--prefix-hit", "0.9")))
    assert found["load"]["prefill_load"] < 0.2 * whole["load"]["prefill_load"]
    assert found["kv_bytes_per_gpu"] <= whole["kv_bytes_per_gpu"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ttft", "2"), "--ttft: expected a duration with its unit, got '2'"),
        (("--ttft", "2s"), "--ttft: needs the lengths of requests"),
        ((*SERVED, "--tpot", "0ms"), "--tpot: expected a duration with its unit, got '0ms'"),
        (
            (*SERVED, "--tpot", "5ms", "--percentile", "100"),
            "--percentile: expected a percentile above 0 and below 100",
        ),
        ((*SERVED, "--percentile", "p99"), "--percentile: has no effect without a target"),
        (("--price", "h100"), "--price: expected a card and what an hour of it costs, got 'h100'"),
        (("--price", "h100=free"), "--price: expected a card and what an hour of it costs"),
        (("--price", "h200=3", "--gpu", "h100"), "--price: h200-sxm is not among the cards that are searched"),
        (("--count", "some"), "--count: expected machine or any, got 'some'"),
        (("--sort", "tpot"), "--sort: tpot needs the lengths of requests"),
        (("--sort", "memory"), "--sort: expected rank, price, tpot or rate, got 'memory'"),
        ((*SERVED, "--prefix-hit", "1.5"), "--prefix-hit: expected a share above 0 and up to 1"),
    ],
)
def test_bad_targets_and_prices(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line that names the option."""
    assert run(["plan", "llama3.1-8b", *words]) == 2
    assert capsys.readouterr().err.startswith(f"kvcalc: error: {says}")


def test_stages_over_machines_only_where_one_does_not_hold_the_model() -> None:
    """H100 NVL come in twos (Azure): Llama 3.3 70B in 16 bits fits, and replicas are added; DeepSeek V3, whose 671 GB in
    8 bits no eight H100 of 80 GB hold, spans two such machines.
    """
    fits = kvcalc.plan(
        "llama3.3-70b", users=100, input="1155/4083", output="211/451", engine="vllm", gpu="h100-nvl", tpot="50ms"
    )
    assert {row["pp"] for row in fits.rows()} == {1}
    spans = kvcalc.plan("deepseek-v3", users=4, context=4096, engine="vllm", gpu="h100")
    assert spans.best is not None
    assert spans.best.gpus > 8
    assert all(row["tp"] * row["pp"] > 8 for row in spans.rows())
