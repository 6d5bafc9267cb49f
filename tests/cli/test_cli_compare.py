"""`kvcalc compare`: models, formats and engines side by side."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

Call = Callable[..., tuple[int, str, str]]
Refused = Callable[..., tuple[str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*argv: str) -> tuple[int, str, str]:
        status = run(["compare", *argv])
        return status, *capsys.readouterr()

    return call


def test_models_by_hand(call: Call) -> None:
    """Per token: 2 x 80 x 8 x 128 x 2 B and 61 x 576 x 2 B; grouped heads keep an eighth of the textbook's size."""
    document = json.loads(call("llama3-70b", "deepseek-v3", "mamba-2.8b", "--json")[1])
    found = document["rows"]
    assert document["schema"] == "kvcalc.compare/1"
    assert [model["preset"] for model in document["model"]] == ["llama3-70b", "deepseek-v3", "mamba-2.8b"]
    assert [row["bytes_per_token"] for row in found] == [327_680, 70_272, 0]
    assert [row["attention"] for row in found] == ["gqa", "mla", "ssm"]
    assert [row["textbook_ratio"] for row in found] == [0.125, round(576 / (128 * (192 + 128)), 6), None]
    assert [row["model_max_context"] for row in found] == [8192, 163_840, None]


def test_a_budget_by_hand(call: Call) -> None:
    """5 GiB hold 4 sequences of 1.25 GiB, and one of 16,384 tokens, of which the model takes 8,192."""
    rows = json.loads(call("llama3-70b", "--kv-dtype", "bf16,fp8", "--kv-memory", "5GiB", "--json")[1])["rows"]
    assert [(row["kv_dtype"], row["max_batch"], row["max_context"]) for row in rows] == [
        ("bf16", 4, 8192),
        ("fp8", 8, 8192),
    ]


def test_the_size_verb_says_the_same(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is the answer of `kvcalc MODEL` to the same question, with an engine and without."""
    argv = ["--gpu", "h100", "--batch", "3", "-c", "10000", "--json"]
    for engine in ([], ["--engine", "vllm"], ["--engine", "llama.cpp"]):
        rows = json.loads(call("qwen3-8b", "gemma3-27b", *engine, *argv)[1])["rows"]
        for model, row in zip(("qwen3-8b", "gemma3-27b"), rows, strict=True):
            run([model, *engine, *argv])
            size: dict[str, Any] = json.loads(capsys.readouterr().out)
            keys = ("max_batch", "max_context", "capacity_tokens", "fits", "kv_budget_bytes_per_gpu", "binding")
            assert {key: row[key] for key in keys} == {key: size["fit"][key] for key in keys}
            assert row["bytes_total"] == size["kv"]["bytes_total"]
            assert row["textbook_bytes_total"] == size["textbook"]["bytes_total"]
            assert row["reserved_bytes_total"] == (size["engine"] and size["engine"]["reserved_bytes_total"])


def test_a_refused_model_is_a_row(call: Call, refused: Refused) -> None:
    """What cannot be split so is a row with its reason; where nothing can, that is the error."""
    rows = json.loads(call("llama3-70b", "gpt2", "--tp", "8", "--json")[1])["rows"]
    assert [row["refused"] for row in rows] == [None, "--tp: 8 does not divide the model's 12 query heads"]
    assert refused("compare", "gpt2", "gpt2", "--tp", "8")[0] == "--tp: 8 does not divide the model's 12 query heads"


def test_csv_and_json_agree(call: Call) -> None:
    """The columns of CSV are the keys of the rows."""
    argv = ("llama3-70b", "gpt2", "--engine", "vllm,sglang", "--vram", "200GB")
    rows = json.loads(call(*argv, "--json")[1])["rows"]
    lines = list(csv.DictReader(io.StringIO(call(*argv, "-f", "csv")[1])))
    assert [list(line) for line in lines] == [list(row) for row in rows]
    assert [line["bytes_total"] for line in lines] == [str(row["bytes_total"]) for row in rows]


def test_bars_against_the_largest(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest bar is the largest cache, and the others are in proportion: fp8 is half of bf16."""
    monkeypatch.setenv("COLUMNS", "120")
    lines = call("llama3-70b", "--kv-dtype", "bf16,fp8", "-f", "table")[1].splitlines()
    bars = [line.count("█") for line in lines if line.startswith("Llama 3 70B   ")]
    assert bars[0] in (2 * bars[1], 2 * bars[1] + 1)
    assert bars[1] > 5


def test_warnings_name_their_model(call: Call) -> None:
    """What is said of one of several models says of which."""
    status, out, err = call("llama3-70b", "qwen3-8b", "-c", "32k", "-q")
    assert [line.rpartition("\t")[0] for line in out.splitlines()] == ["model=Llama 3 70B", "model=Qwen3 8B"]
    assert (status, err) == (0, "kvcalc: warning: Llama 3 70B: 32,768 tokens are above the model's limit of 8,192\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "Missing argument 'MODEL...'"),
        (["llama3-70b", "llama3-7b"], "no preset is called 'llama3-7b'"),
        (["-", "-"], "MODEL: standard input holds one model"),
        (["gpt2", "--kv-dtype", "fp9"], "--kv-dtype: expected a dtype"),
        (["gpt2", "--", "--block-size", "32"], "--: compare does not read an engine's own command line"),
    ],
    ids=str,
)
def test_bad_input(refused: Refused, argv: list[str], said: str) -> None:
    """A slip is one line."""
    assert said in refused("compare", *argv)[0]


def test_a_chart_has_a_bar_for_each(call: Call, tmp_path: Path) -> None:
    """Two models in two formats are four bars with their names."""
    path = tmp_path / "a.svg"
    call("llama3-70b", "gpt2", "--kv-dtype", "bf16,fp8", "--svg", str(path))
    text = path.read_text(encoding="utf-8")
    assert text.count('class="mark bar') == 4
    assert "Llama 3 70B, bf16" in text
