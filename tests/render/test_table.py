"""The table at any width of the terminal: no amount is cut, no line is wider, nothing ends in an ellipsis."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run
from kvcalc.core.units import Units, format_bytes

MODELS = [
    "llama3-70b", "gemma2-9b", "deepseek-v3.2", "deepseek-v4-pro", "jamba-1.5-mini", "whisper-large-v3", "mamba-2.8b",
    "llama3.2-90b-vision", "openelm-270m", "kimi-linear-48b",
]  # fmt: skip
QUESTIONS = {
    "plain": [],
    "huge": ["--batch", "123456", "-c", "777777"],
    "fits": ["--vram", "999GiB", "--utilization", "0.93", "--overhead", "1.7GiB"],
    "does not fit": ["--batch", "98765", "--vram", "24GB", "--overhead", "123MB"],
    "memory for the cache": ["--batch", "77", "--kv-memory", "79.3GiB", "--pp", "2", "--dp", "3"],
}


def amounts(document: Any) -> Iterator[tuple[str, int]]:
    """Every amount of bytes with its path; those of the layers only where there are several groups, and those of the
    textbook where nothing else is asked.
    """
    for part in ("kv", "fit") if document["fit"] else ("kv", "textbook"):
        for key, value in (document[part] or {}).items():
            if "bytes" in key and value and not key.startswith("kv_budget_bytes_per_gpu"):  # has a test of its own
                yield f"{part}.{key}", value
    groups = document["kv"]["layers"] if len(document["kv"]["layers"]) > 1 else []
    for i, group in enumerate(groups):
        for key in ("bytes_per_token", "bytes_per_sequence"):
            yield f"kv.layers.{i}.{key}", group[key]


@pytest.mark.parametrize(("width", "units"), [(60, "iec"), (60, "si"), (80, "iec"), (120, "si"), (200, "iec")])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("model", MODELS)
def test_no_amount_is_cut(
    model: str,
    question: str,
    units: Units,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each amount of the JSON stands whole, with its unit, in one line of the table."""
    monkeypatch.setenv("COLUMNS", str(width))
    argv = [model, *QUESTIONS[question]]
    status = run([*argv, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert run([*argv, "-f", "table", "--units", units]) == status
    table = capsys.readouterr().out
    assert [line for line in table.splitlines() if len(line) > width] == []
    assert ("…" in table, "\x1b" in table) == (False, False)
    shown = {format_bytes(value, units): path for path, value in amounts(document)}
    assert {human: path for human, path in shown.items() if human not in table} == {}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(
    "argv",
    [
        ["models"],
        ["models", "qwen3-next-80b"],
        ["llama3-70b", "--explain"],
        ["deepseek-v4-pro", "--explain", "--vram", "80GB"],
    ],
    ids=" ".join,
)
def test_no_line_is_wider_than_the_terminal(
    argv: list[str], width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lists, facts and explanations keep to the width as well."""
    monkeypatch.setenv("COLUMNS", str(width))
    assert run([*argv, "-f", "table"]) in (0, 1)
    table = capsys.readouterr().out
    assert [line for line in table.splitlines() if len(line) > width] == []
    assert "…" not in table


@pytest.mark.parametrize("width", [36, 50, 66, 90, 200])
def test_a_list_leaves_out_whole_columns(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However narrow the terminal, a list has one line for each preset with its whole name and its bytes a token."""
    run(["models", "--family", "gemma", "--json"])
    rows = json.loads(capsys.readouterr().out)["models"]
    monkeypatch.setenv("COLUMNS", str(width))
    assert run(["models", "--family", "gemma", "-f", "table"]) == 0
    heads, rule, *lines = capsys.readouterr().out.splitlines()
    assert (heads.split()[0], set(rule), len(rows) > 5) == ("preset", {"─"}, True)
    assert max(map(len, (heads, rule, *lines))) <= width
    for row, line in zip(rows, lines, strict=True):
        assert line.split()[0] == row["preset"]
        assert f" {format_bytes(row['bytes_per_token'])}" in line
    for head, least in (("size", 50), ("limit", 50), ("attention", 66), ("fixed part", 90)):
        assert (head in heads) == (width >= least)


def test_the_budget_of_the_cache_is_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What is left for the cache beside weights and overhead, 62,362,500,000 bytes, stands in the table too."""
    monkeypatch.setenv("COLUMNS", "100")
    run(["llama3-70b", "--vram", "80GB", "--tp", "8", "-b", "8", "-f", "table", "--units", "si"])
    assert "62.36 GB" in capsys.readouterr().out


def test_markup_in_a_name_is_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Square brackets and colons reach the reader as they were written."""
    monkeypatch.setenv("COLUMNS", "100")
    path = tmp_path / "tiny-1.yaml"
    name = "Tiny [bold]1[/bold] :smile: [/]"
    path.write_text(
        f"name: '{name}'\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n", encoding="utf-8"
    )
    assert run([str(path), "-f", "table"]) == 0
    assert name in capsys.readouterr().out
