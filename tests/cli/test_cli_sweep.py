"""`kvcalc sweep`: a grid of questions, as rows, tables and files."""

import csv
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from kvcalc.cli import rows as rows_module
from kvcalc.cli.main import run

Call = Callable[..., tuple[int, str, str]]
Refused = Callable[..., tuple[str, str]]
TOKEN = 2 * 80 * 8 * 128 * 2  # llama3-70b: K and V, 80 layers, 8 KV heads of 128, two bytes


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*argv: str) -> tuple[int, str, str]:
        status = run(["sweep", *argv])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def rows(call: Call) -> Callable[..., list[dict[str, Any]]]:
    def rows(*argv: str) -> list[dict[str, Any]]:
        status, out, _ = call(*argv, "--json")
        assert status in (0, 1)
        return json.loads(out)["rows"]

    return rows


def test_rows_by_hand(rows: Any) -> None:
    """Contexts times batches of llama3-70b, context by context: 327,680 B a token, and the textbook's eightfold."""
    found = rows("llama3-70b", "-c", "4k,8k", "-b", "1,8")
    assert [(row["context"], row["batch"], row["bytes_total"]) for row in found] == [
        (4096, 1, 1_342_177_280),
        (4096, 8, 10_737_418_240),
        (8192, 1, 2_684_354_560),
        (8192, 8, 21_474_836_480),
    ]
    assert {row["bytes_per_token"] for row in found} == {327_680} == {TOKEN}
    assert [row["textbook_bytes_total"] for row in found] == [8 * row["bytes_total"] for row in found]
    assert {row["fits"] for row in found} == {row["max_batch"] for row in found} == {None}


def test_the_order_of_rows(rows: Any) -> None:
    """Rows come in the order of the columns gpu, weights, engine, kv_dtype, tp, context, batch; the last changes first."""
    found = rows("llama3-8b", "-b", "2,1", "-c", "8k,4k", "--tp", "2,1", "--kv-dtype", "fp8,bf16", "--gpu", "h200,l4",
                 "--weights", "fp8,bf16", "--engine", "vllm,sglang")  # fmt: skip
    keys = ("gpu", "weights", "engine", "kv_dtype", "tp", "context", "batch")
    got = [tuple(row[key] for key in keys) for row in found]
    assert len(got) == 2**7
    places = [("h200-sxm", "l4"), ("fp8", "bf16"), ("vllm", "sglang"), ("fp8", "bf16"), (2, 1), (8192, 4096), (2, 1)]
    orders = [tuple(values.index(v) for values, v in zip(places, row, strict=True)) for row in got]  # type: ignore[arg-type]
    assert orders == sorted(orders)


def test_a_budget_by_hand(call: Call) -> None:
    """5 GiB for the cache hold 4 sequences of 4,096 tokens at 1.25 GiB, 2 of 8,192 and none of 32,768."""
    status, out, _ = call("llama3-70b", "-c", "4k,8k,32k", "-b", "1,4", "--kv-memory", "5GiB", "--json")
    found = json.loads(out)["rows"]
    assert [row["max_batch"] for row in found] == [4, 4, 2, 2, 0, 0]
    assert [row["fits"] for row in found] == [True, True, True, False, False, False]
    assert [row["capacity_tokens"] for row in found] == [16384] * 6
    assert {row["kv_budget_bytes_per_gpu"] for row in found} == {5 * 2**30}
    assert status == 0


def test_exit_status(call: Call, refused: Refused) -> None:
    """0 where any cell fits, 1 where none does, 2 where every cell is refused, with the reason."""
    assert call("llama3-70b", "-c", "4k,64k", "--kv-memory", "2GiB")[0] == 0
    assert call("llama3-70b", "-c", "32k,64k", "--kv-memory", "2GiB")[0] == 1
    assert call("llama3-70b", "-c", "32k,64k", "--kv-memory", "2GiB", "-f", "csv")[0] == 1
    message, hint = refused("sweep", "llama3-70b", "--tp", "3,5", "-c", "4k,8k")
    assert message == "--tp: 3 does not divide the model's 64 query heads"
    assert "use a tp that divides them" in hint


def test_a_refused_cell_is_a_row(rows: Any) -> None:
    """A split that does not map, or a format that an engine has not, leaves the rest of the grid alone."""
    found = rows("llama3-70b", "--tp", "2,3")
    assert [(row["tp"], row["bytes_total_per_gpu"], row["refused"]) for row in found] == [
        (2, TOKEN * 4096 // 2, None),
        (3, None, "--tp: 3 does not divide the model's 64 query heads"),
    ]
    found = rows("llama3-70b", "--engine", "vllm,llama.cpp", "--kv-dtype", "bf16,fp8")
    assert [row["refused"] and "has no fp8 cache" in row["refused"] for row in found] == [None, None, None, True]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        # 32 query heads: of three splits tp 3 is refused; an H100 holds 4,096 tokens, 512 MiB, beside 16.06 GB
        (["llama3-8b", "--tp", "1,3,4", "--gpu", "h100"], "2 of 3 fit, 1 refused"),
        (["llama3-8b", "--tp", "1,3", "--gpu", "h100"], "1 of 2 fit, 1 refused"),
        # 141 GB of weights on one card of 48 GB
        (["llama3-70b", "--tp", "1,3", "--gpu", "l40s"], "none of 2 fits, 1 refused"),
        (["llama3-8b", "--tp", "1,4", "--gpu", "h100"], "2 of 2 fit"),
    ],
)  # fmt: skip
def test_the_verdict_counts_a_refused_cell(call: Call, argv: list[str], said: str) -> None:
    """How many fit is said of all that were asked for, and a refused one is named."""
    assert f"verdict\t{said}\n" in call(*argv)[1]


def test_a_refused_cell_is_named_like_the_others(call: Call, rows: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A split of 64 heads by 3 does not exist, and is no second KV dtype: splits by contexts are a matrix still."""
    found = rows("llama3-70b", "--tp", "2,3")
    assert [row["kv_dtype"] for row in found] == ["bf16", "bf16"]
    assert [row["kv_dtype"] for row in rows("llama3-70b", "--tp", "2,3", "--k-dtype", "q8_0")] == ["q8_0/bf16"] * 2
    flags = ("--engine", "vllm", "--json", "--", "--kv-cache-dtype", "fp8")
    found = json.loads(call("llama3-70b", "--tp", "3,2", *flags)[1])["rows"]
    assert [row["kv_dtype"] for row in found] == ["fp8", "fp8"]
    lines = table(call, monkeypatch, 80, "llama3-70b", "--tp", "2,3", "-c", "4k,8k")
    assert "4k         640 MiB   refused" in lines  # 4,096 tokens x 327,680 B / 2
    assert any(line.startswith("over 2 sizes of tp x 2 contexts;") for line in lines)


def test_an_engine_s_reason_keeps_its_way_out(refused: Refused) -> None:
    """Where every cell is refused by the engine, the hint of one size stands here too."""
    argv = ("qwen3.5-35b-a3b", "--kv-dtype", "nvfp4", "--engine", "llama.cpp")
    assert refused("sweep", *argv) == refused("size", *argv)
    assert "q8_0" in refused("sweep", *argv)[1]


def test_a_cell_that_an_engine_refuses(rows: Any) -> None:
    """Ollama runs this model with one sequence at a time: the batch of two is refused, and the other answered."""
    found = rows("qwen3-next-80b", "--engine", "ollama", "-b", "2,1")
    assert [row["refused"] is None for row in found] == [False, True]


def test_csv_and_json_agree(call: Call) -> None:
    """The columns of CSV are the keys of the rows in JSON, with the same values, whatever was asked; what begins like a
    formula (`--tp: 3 does not divide ...`) stands behind an apostrophe.
    """
    argv = ("gemma3-27b", "-c", "1k..4k", "-b", "1,3", "--tp", "1,3,8", "--engine", "vllm", "--gpu", "h100")
    document = json.loads(call(*argv, "--json")[1])
    lines = list(csv.DictReader(io.StringIO(call(*argv, "-f", "csv")[1])))
    texts = {None: "", True: "true", False: "false"}
    as_text = [
        {key: texts[value] if value is None or isinstance(value, bool) else str(value) for key, value in row.items()}
        for row in document["rows"]
    ]
    assert {row["refused"] for row in as_text} == {"", as_text[8]["refused"]}
    assert as_text[8]["refused"].startswith("--tp: 3 ")
    assert lines == [{**row, "refused": f"'{row['refused']}" if row["refused"] else ""} for row in as_text]
    assert len(lines) == 4 * 2 * 3
    plain = json.loads(call("llama3-70b", "--json")[1])["rows"]
    assert list(plain[0]) == list(document["rows"][0])


def test_the_document(call: Call) -> None:
    """The document names its schema, the axes with their values and the options that hold for all cells."""
    document = json.loads(call("llama3-70b", "-c", "4k,max", "--kv-dtype", "fp8,auto", "--dp", "2", "--vram", "80GB",
                               "--json")[1])  # fmt: skip
    assert document["schema"] == "kvcalc.sweep/1"
    assert document["model"]["preset"] == "llama3-70b"
    request = document["request"]
    assert (request["context"], request["batch"], request["kv_dtype"]) == ([4096, 8192], [1], ["fp8", "bf16"])
    assert (request["dp"], request["vram_bytes"], request["gpu"]) == (2, 80 * 10**9, [])
    assert document["warnings"] == ["a batch of 1 leaves some of the 2 replicas (dp) idle"]


def test_quiet_and_get(call: Call) -> None:
    """--quiet is the size of each row behind what varies, a line each; --get picks from the document."""
    assert call("llama3-70b", "-q")[:2] == (0, "1342177280\n")
    assert call("llama3-70b", "-c", "4k,8k", "-q")[:2] == (0, "context=4096\t1342177280\ncontext=8192\t2684354560\n")
    lines = call("llama3-70b", "-c", "4k,8k", "--tp", "3,1", "-q")[1].splitlines()
    assert lines == [
        "tp=3\tcontext=4096\tnull", "tp=3\tcontext=8192\tnull",
        "tp=1\tcontext=4096\t1342177280", "tp=1\tcontext=8192\t2684354560",
    ]  # fmt: skip
    assert call("llama3-70b", "-c", "4k,8k", "--get", "rows.1.bytes_total")[:2] == (0, "2684354560\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--context", "8k..4k"], "--context: expected the smaller end first"),
        (["--context", "1..2000", "--batch", "1..2000"], "expected a grid of at most 1,000,000 cells, got 4,000,000"),
        (["--kv-dtype", "bf16,fb8"], "--kv-dtype: expected a dtype, got 'fb8'"),
        (["--engine", "vllm,vlm"], "--engine: expected the name of an engine, got 'vlm'"),
        (["--gpu", "h100,h1000"], "--gpu: 'h1000' is not in the table of GPUs"),
        (["--tp", "1,70000"], "--tp: expected 1 to 65,536"),
        (["--weights", "fp8,bf16"], "--weights: has no effect without a budget"),
        (["--vram", "80"], "--vram: expected a size with a unit"),
        (["--svg", "nowhere/at/all.svg"], "--svg: nowhere/at/all.svg: No such file or directory"),
        (["--svg", "a", "--html", "a"], "--svg: contradicts --html"),
        (["-c", "1k..100k", "-b", "1..100", "--svg", "x.svg"], "--svg: expected at most 24 lines in a chart, got 100"),
        (["--engine", "vllm,sglang", "--", "--block-size", "32"], "--: flags are those of one engine"),
    ],
    ids=str,
)
def test_bad_options(refused: Refused, argv: list[str], said: str) -> None:
    """A slip in any option is one line, and no part of the grid is answered."""
    assert said in refused("sweep", "llama3-70b", *argv)[0]
    assert not Path("x.svg").exists()


def test_no_limit_is_published(refused: Refused) -> None:
    """`max` needs a limit."""
    assert refused("sweep", "t5-small", "-c", "1k..max:x2")[0] == "--context: max: no limit is published for T5 small"


def test_an_engine_s_flags_hold_for_all_cells(call: Call) -> None:
    """vLLM with blocks of 32 tokens reserves whole blocks: 4,097 tokens are 129 blocks of 32 x 327,680 B."""
    argv = ("llama3-70b", "--engine", "vllm", "-c", "4096,4097", "--json", "--", "--block-size", "32")
    found = json.loads(call(*argv)[1])["rows"]
    assert [row["reserved_bytes_total"] for row in found] == [128 * 32 * TOKEN, 129 * 32 * TOKEN]


def table(call: Call, monkeypatch: pytest.MonkeyPatch, width: int, *argv: str) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    return call(*argv, "-f", "table")[1].splitlines()


def test_two_axes_are_a_matrix(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts down, batches across, what does not fit marked, and the largest batch at the end of each line."""
    lines = table(call, monkeypatch, 120, "llama3-70b", "-c", "4k,8k", "-b", "1,4", "--kv-memory", "5GiB")
    assert lines[2:7] == [
        "whole cache; ✗ does not fit",
        "context    batch 1    batch 4   largest batch",
        "─────────────────────────────────────────────",
        "4k        1.25 GiB    5 GiB                 4",
        "8k         2.5 GiB   10 GiB ✗               2",
    ]


def test_one_axis_has_bars_with_the_budget_in_them(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar of twice the tokens is twice as long; the budget stands at its own place, and what is beyond is pale."""
    lines = table(call, monkeypatch, 200, "llama3-70b", "-c", "4k,8k,16k", "--kv-memory", "2.5GiB")
    shown = [line for line in lines if line.startswith(("4k", "8k", "16k"))]
    bars = [line[shown[0].index("█") :] for line in shown]
    assert [(bar.count("█"), bar.count("▒"), bar.find("│")) for bar in bars] == [(12, 0, 24), (24, 0, 24), (24, 23, 24)]


def test_a_matrix_that_is_too_wide_goes_on_below(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """No column is cut: each stands once, and no line is longer than the terminal."""
    lines = table(call, monkeypatch, 60, "llama3-70b", "-c", "4k,8k", "-b", "1..12")
    text = "\n".join(lines[3:])
    assert [text.count(f"batch {b} ") + text.count(f"batch {b}\n") for b in range(1, 13)] == [1] * 12
    assert max(map(len, lines[3:])) <= 60


def test_files_are_written_beside_the_answer(call: Call, tmp_path: Path) -> None:
    """--svg and --html change nothing of what is printed; the chart has a mark for each cell and the budget's line."""
    argv = ("llama3-70b", "-c", "1k..8k:x2", "-b", "1,2,4", "--kv-memory", "5GiB", "-f", "csv")
    files = tmp_path / "a.svg", tmp_path / "a.html"
    drawn = call(*argv, "--svg", str(files[0]), "--html", str(files[1]))
    bare = call(*argv)
    assert drawn[:2] == bare[:2]
    assert drawn[2] == "".join(f"written: {file}\n" for file in files) + bare[2]
    tree = ET.fromstring(files[0].read_text(encoding="utf-8"))
    classes = [element.get("class", "").split() for element in tree.iter()]
    assert sum("mark" in names for names in classes) == 12
    texts = [element.text for element in tree.iter() if "limits" in element.get("class", "").split()]
    assert texts == ["budget 5 GiB"]
    page = files[1].read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    ET.fromstring(page.partition("\n")[2].replace('<html lang="en">', "<html>"))  # well-formed as XML too
    assert "over 4 contexts x 3 batches" in page
    assert "<script" not in page
    assert page.count("<tr>") == 1 + 12 + 2  # two tables' headings, and a line of budget
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o666 & ~umask


def test_a_file_is_written_whole_or_not_at_all(call: Call, refused: Refused, tmp_path: Path) -> None:
    """Where an answer is refused, an older file stays as it was, and nothing lies beside it."""
    path = tmp_path / "a.svg"
    path.write_text("older", encoding="utf-8")
    refused("sweep", "llama3-70b", "--tp", "3", "--svg", str(path))
    refused("sweep", "llama3-70b", "-c", "1k..100k", "-b", "1..100", "--svg", str(path))
    assert path.read_text(encoding="utf-8") == "older"
    assert call("llama3-70b", "--svg", str(path))[0] == 0
    assert path.read_text(encoding="utf-8").startswith("<svg")
    assert [file.name for file in tmp_path.iterdir()] == ["a.svg"]


def test_no_file_that_is_read_is_written_over(call: Call, refused: Refused, tmp_path: Path) -> None:
    """A chart never replaces the model or the GPUs that it is of, nor another chart, under whatever name."""
    model, cards, link = (tmp_path / name for name in ("my.yaml", "gpus.yaml", "link.svg"))
    model.write_text("name: Mine\nbase: llama3-8b\n", encoding="utf-8")
    cards.write_text("ours: {memory: 80GB}\n", encoding="utf-8")
    link.symlink_to(model)
    asked = (str(model), "--gpu", "ours", "--gpu-file", str(cards))
    for verb, option, path in (
        ("sweep", "--svg", model), ("sweep", "--html", cards), ("compare", "--svg", link), ("tradeoff", "--svg", model),
    ):  # fmt: skip
        message, hint = refused(verb, *asked, option, str(path))
        assert message == f"{option}: {path} is read, and would be written over"
        assert "name another file" in hint
    assert model.read_text(encoding="utf-8").startswith("name: Mine")
    chart, other = tmp_path / "a.svg", tmp_path / "b.svg"
    other.symlink_to(chart)
    assert "same file" in refused("sweep", "llama3-8b", "--svg", str(chart), "--html", str(other))[0]
    for nothing in ("", " ", "-"):
        assert refused("sweep", "llama3-8b", "--svg", nothing)[0] == f"--svg: expected a file, got '{nothing}'"
    assert call("llama3-8b", "--svg", os.devnull, "--html", os.devnull)[0] == 0
    assert not chart.exists()


def test_bars_name_what_is_refused(call: Call, tmp_path: Path) -> None:
    """Where neither context nor batch varies, each choice is a bar, and a refused one says why."""
    path = tmp_path / "a.svg"
    call("llama3-70b", "--tp", "1,2,3", "--svg", str(path))
    text = path.read_text(encoding="utf-8")
    assert text.count('class="mark bar') == 2
    assert "3 does not divide the model's 64 query heads" in text


def test_many_rows_are_written_as_they_come(call: Call) -> None:
    """A hundred thousand rows, the last of which is the largest."""
    status, out, _ = call("llama3-70b", "-c", "1k..100k", "-b", "1..1000", "-f", "csv")
    lines = out.splitlines()
    assert (status, len(lines)) == (0, 100_001)
    assert f",{TOKEN * 102_400 * 1000}," in lines[-1]


def test_axes_that_go_together_are_no_matrix(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight GPUs of one kind and four of another differ in two axes and are two rows, not four cells."""
    lines = table(call, monkeypatch, 100, "llama3-8b", "--gpu", "8xh100,4xl4")
    assert [line.split()[:2] for line in lines if "xh100" in line or "xl4" in line] == [
        ["8xh100-sxm", "8"],
        ["4xl4", "4"],
    ]


def test_a_list_of_gpus_is_one_of_names_and_machines(rows: Any) -> None:
    """A machine type brings the number of its GPUs, and `all` every card of the catalogue."""
    found = rows("llama3-8b", "--gpu", "l4,p5.48xlarge")
    assert [(row["gpu"], row["gpus"]) for row in found] == [("l4", 1), ("8xh100-sxm", 8)]
    assert len(rows("llama3-8b", "--gpu", "all")) >= 90


def test_a_long_sweep_says_how_far_it_is(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal's standard error, and only there; the line is gone at the end, and the answer is the same."""
    argv = ("llama3-8b", "-c", "1k..8k", "-b", "1..100", "-f", "csv")
    quiet = call(*argv)
    assert quiet[2] == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    clock = iter(range(0, 1000, 2))
    monkeypatch.setattr(rows_module, "monotonic", lambda: next(clock))
    status, out, err = call(*argv)
    assert (status, out) == quiet[:2]
    assert err.split("\r")[1:] == [*(f"{done} of 800 cells" for done in (200, 400, 600, 800)), "\x1b[K"]
