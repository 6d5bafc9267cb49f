"""The default verb: how a model is named, how an answer is asked for, and the worked example of the contract."""

import csv
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from .conftest import Call

# 2 layers x 2 KV heads x (64 + 64) elements x 2 bytes = 1,024 bytes a token
TINY = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n"

ONE_SEQUENCE = "1342177280\n"  # llama3-70b: 80 layers x 8 KV heads x (128 + 128) x 2 bytes x 4,096 tokens
EIGHT_SEQUENCES = "10737418240\n"


def numbers(text: str) -> set[int]:
    """All whole numbers of a text, thousands separators removed."""
    return {int(found.replace(",", "")) for found in re.findall(r"(?<![\d.])\d[\d,]*(?!\.?\d)", text)}


@pytest.mark.parametrize(
    "argv",
    [
        ["llama3-70b", "-q"],
        ["size", "llama3-70b", "-q"],
        ["-q", "llama3-70b"],
        ["size", "-q", "llama3-70b"],
        ["--context", "4096", "llama3-70b", "--quiet"],
        ["-c", "4k", "-b", "1", "llama3-70b", "-q"],
        ["-c4k", "-b1", "llama3-70b", "-q"],
        ["--context=4096", "--batch=1", "llama3-70b", "-q"],
        ["Llama3-70B", "-q"],
        ["llama-3-70b", "-q"],
        ["LLAMA_3_70B", "-q"],
        ["meta-llama/Meta-Llama-3-70B", "-q"],
        ["META-LLAMA/meta-llama-3-70b", "-q"],
        ["meta-llama/Meta-Llama-3-70B-Instruct", "-q"],
    ],
    ids=" ".join,
)
def test_every_way_to_name_the_model_gives_the_same_size(call: Call, argv: list[str]) -> None:
    """The verb, the place of options, the spelling and the hub id make no difference."""
    assert call(*argv) == (0, ONE_SEQUENCE, "")


@pytest.mark.parametrize("name", ["./tiny-1.yaml", "tiny-1.yaml", "sub/tiny.yml", "any name.yaml"])
def test_a_path_is_read_as_a_preset(call: Call, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path with a slash or a known ending is a file, whatever its name."""
    monkeypatch.chdir(tmp_path)
    Path("sub").mkdir()
    Path(name).write_text(TINY, encoding="utf-8")
    assert call(name, "-c", "10", "-q") == (0, "10240\n", "")


def test_a_path_without_ending_is_read_if_it_exists(call: Call, tmp_path: Path) -> None:
    """A file named with a slash needs no ending."""
    path = tmp_path / "preset"
    path.write_text(TINY, encoding="utf-8")
    assert call(str(path), "-c", "10", "-q") == (0, "10240\n", "")


def test_a_dash_reads_a_preset_from_standard_input(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` is a preset on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TINY.encode())))
    assert call("-", "--context", "10", "-q") == (0, "10240\n", "")


def test_a_preset_with_a_byte_order_mark_and_windows_lines_is_read(call: Call, tmp_path: Path) -> None:
    """A file saved by a Windows editor is as good as any."""
    path = tmp_path / "tiny-1.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + TINY.replace("\n", "\r\n").encode())
    assert call(str(path), "-c", "10", "-q") == (0, "10240\n", "")


def test_a_preset_may_be_one_mebibyte_long(call: Call, tmp_path: Path) -> None:
    """The bound on a file's length is the last that is read, not the first that is refused."""
    path = tmp_path / "tiny-1.yaml"
    path.write_text(TINY + "#" * (2**20 - len(TINY)), encoding="utf-8")
    assert call(str(path), "-c", "10", "-q") == (0, "10240\n", "")


WORKED = [  # contract, section 5: human form and bytes of what the model caches, then of the textbook formula
    ("320 KiB", 327_680, "2.5 MiB", 2_621_440),
    ("1.25 GiB", 1_342_177_280, "10 GiB", 10_737_418_240),
    ("10 GiB", 10_737_418_240, "80 GiB", 85_899_345_920),
]


@pytest.mark.parametrize("form", [[], ["--format", "plain"], ["-f", "table"], ["--format", "markdown"]], ids=str)
@pytest.mark.parametrize("row", WORKED, ids=lambda row: str(row[0]))
def test_the_worked_example_stands_side_by_side(
    call: Call, form: list[str], row: tuple[str, int, str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both sizes stand in one line of text, for people and to the byte."""
    monkeypatch.setenv("COLUMNS", "120")
    result = call("llama3-70b", "--batch", "8", *form)
    assert result.status == 0
    found = [
        line
        for line in result.out.splitlines()
        if row[0] in line and row[2] in line.split(row[0], 1)[1] and {row[1], row[3]} <= numbers(line)
    ]
    assert len(found) == 1


def test_the_worked_example_without_a_batch_has_both_sizes_in_the_default_output(call: Call) -> None:
    """`kvcalc llama3-70b` alone shows the 2.5 MiB of the textbook beside the 320 KiB that the model needs."""
    lines = call("llama3-70b").out.splitlines()
    assert [line for line in lines if {327_680, 2_621_440} <= numbers(line)]
    assert [line for line in lines if {1_342_177_280, 10_737_418_240} <= numbers(line)]


def test_the_worked_example_in_json(call: Call) -> None:
    """JSON has both sizes as integers."""
    document = json.loads(call("llama3-70b", "--batch", "8", "--json").out)
    assert {key: document["kv"][key] for key in ("bytes_per_token", "bytes_per_sequence", "bytes_total")} == {
        "bytes_per_token": 327_680,
        "bytes_per_sequence": 1_342_177_280,
        "bytes_total": 10_737_418_240,
    }
    assert {key: value for key, value in document["textbook"].items() if key != "formula"} == {
        "bytes_per_token": 2_621_440,
        "bytes_per_sequence": 10_737_418_240,
        "bytes_total": 85_899_345_920,
    }


def test_the_worked_example_in_csv(call: Call) -> None:
    """CSV has one line of dotted keys and one of values, both sizes among them."""
    rows = list(csv.reader(io.StringIO(call("llama3-70b", "--batch", "8", "--format", "csv").out)))
    assert len(rows) == 2
    values = dict(zip(*rows, strict=True))
    assert [values[f"kv.{key}"] for key in ("bytes_per_token", "bytes_per_sequence", "bytes_total")] == [
        "327680", "1342177280", "10737418240"
    ]  # fmt: skip
    assert [values[f"textbook.{key}"] for key in ("bytes_per_token", "bytes_per_sequence", "bytes_total")] == [
        "2621440", "10737418240", "85899345920"
    ]  # fmt: skip


def test_json_and_format_json_are_one(call: Call) -> None:
    """`--json` is short for `--format json`, and both together are no contradiction."""
    short = call("llama3-70b", "--json")
    assert short == call("llama3-70b", "--format", "json") == call("llama3-70b", "--json", "-f", "json")
    got = call("llama3-70b", "--get", "kv.bytes_per_token")  # one value of the JSON, whether or not JSON is asked for
    assert got == call("llama3-70b", "--json", "--get", "kv.bytes_per_token")
    assert got == call("llama3-70b", "-f", "json", "--get", "kv.bytes_per_token")
    assert json.loads(short.out)["schema"] == "kvcalc.size/1"


@pytest.mark.parametrize("argv", [["--quiet"], ["-q"], ["--get", "kv.bytes_total"]], ids=" ".join)
def test_the_headline_number_is_the_total_in_bytes(call: Call, argv: list[str]) -> None:
    """`--quiet` is `--get kv.bytes_total`: a raw number and nothing else."""
    assert call("llama3-70b", "--batch", "8", *argv) == (0, EIGHT_SEQUENCES, "")


@pytest.mark.parametrize("form", [[], ["-f", "table"], ["-f", "markdown"]], ids=str)
def test_units_si_changes_the_text(call: Call, form: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--units si` shows 1,342,177,280 bytes as 1.342 GB, and no power of two."""
    monkeypatch.setenv("COLUMNS", "120")
    out = call("llama3-70b", "--units", "si", *form).out
    assert ("1.342 GB" in out, "2.621 MB" in out, "iB" in out) == (True, True, False)


@pytest.mark.parametrize("form", [["--json"], ["-f", "csv"], ["-q"], ["--get", "kv.bytes_total"]], ids=" ".join)
def test_units_change_no_number_for_programs(call: Call, form: list[str]) -> None:
    """`--units` is display only: what programs read is in bytes."""
    assert call("llama3-70b", "--units", "si", *form) == call("llama3-70b", "--units", "iec", *form)


@pytest.mark.parametrize("form", ["plain", "table", "markdown", "json"])
def test_explain_adds_the_terms_of_the_sum(call: Call, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--explain` names each factor of the product and the bytes it comes to."""
    monkeypatch.setenv("COLUMNS", "200")
    short, result = call("llama3-8b", "-f", form), call("llama3-8b", "-f", form, "--explain")
    added = result.out
    assert result.status == 0
    assert len(added) > len(short.out)
    # 32 layers x 4,096 tokens x 2 x 8 KV heads x 128 x 2 bytes = 536,870,912 bytes
    found = [line for line in added.splitlines() if {32, 4096, 2, 8, 128} <= numbers(line)]
    assert found
    assert 536_870_912 in numbers(added)


CONTEXTS = [
    ("4096", 4096),
    ("4k", 4096),
    ("128k", 131_072),
    ("128K", 131_072),
    ("1m", 1_048_576),
    ("1", 1),
    ("0.5k", 512),
]


@pytest.mark.parametrize(("text", "tokens"), CONTEXTS)
def test_the_context_is_read_in_powers_of_1024(call: Call, text: str, tokens: int) -> None:
    """1k is 1,024 tokens, and llama3-70b keeps 327,680 bytes for each."""
    document = json.loads(call("llama3-70b", "-c", text, "--json").out)
    assert (document["request"]["context"], document["kv"]["bytes_total"]) == (tokens, 327_680 * tokens)


@pytest.mark.parametrize(
    ("model", "tokens"),
    [("llama3.1-8b", 4096), ("gpt2", 1024), ("whisper-tiny", 448), ("phi-2", 2048), ("t5-small", 4096)],
)
def test_the_default_context_is_4096_or_the_limit(call: Call, model: str, tokens: int) -> None:
    """4,096 tokens, or the model's limit if that is smaller, or 4,096 where no limit is known."""
    assert call(model, "--get", "request.context") == (0, f"{tokens}\n", "")


def test_max_is_the_models_limit(call: Call) -> None:
    """`--context max` asks for all that the model was made for: 8,192 tokens."""
    assert call("llama3-70b", "--context", "max", "-q") == (0, "2684354560\n", "")


@pytest.mark.parametrize("form", ["plain", "table", "markdown"])
def test_the_context_in_force_is_printed(call: Call, form: str) -> None:
    """Whatever was written, the number of tokens used stands in the answer."""
    assert {131_072} <= numbers(call("llama3.1-8b", "-c", "128k", "-f", form).out)
    assert {8192} <= numbers(call("llama3-8b", "-c", "max", "-f", form).out.split("tokens", 1)[1])


def test_a_context_above_the_limit_is_answered_with_a_warning(call: Call) -> None:
    """9,000 tokens are above llama3-70b's 8,192: a warning that names both, and status 0."""
    result = call("llama3-70b", "-c", "9000", "--json")
    document = json.loads(result.out)
    assert (result.status, document["kv"]["bytes_total"], len(document["warnings"])) == (0, 9000 * 327_680, 1)
    assert {9000, 8192} <= numbers(document["warnings"][0])
    assert json.loads(call("llama3-70b", "-c", "8192", "--json").out)["warnings"] == []


@pytest.mark.parametrize("form", ["plain", "table", "markdown"])
def test_a_warning_stands_in_text(call: Call, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning about the limit can be read in every text format, and nowhere where none is due."""
    monkeypatch.setenv("COLUMNS", "120")
    answers = [call("llama3-70b", "-c", tokens, "-f", form) for tokens in ("9000", "8192")]
    assert ["warning" in result.out + result.err for result in answers] == [True, False]


def test_a_quiet_answer_stays_one_number_under_a_warning(call: Call) -> None:
    """A warning never joins the number on standard output."""
    assert call("llama3-70b", "-c", "9000", "-q")[:2] == (0, "2949120000\n")


def test_a_presets_own_default_context_is_used(call: Call, tmp_path: Path) -> None:
    """A file may bring the length that is used when none is asked for."""
    path = tmp_path / "tiny-1.yaml"
    path.write_text(TINY + "context: 10\n", encoding="utf-8")
    assert call(str(path), "-q") == (0, "10240\n", "")


def documents(call: Call, *argv: str) -> Any:
    return json.loads(call(*argv, "--json").out)


def test_the_state_of_a_recurrent_model_does_not_depend_on_the_context(call: Call) -> None:
    """mamba-2.8b: 64 layers x (5,120 x 3 columns x 2 B + 5,120 x 16 x 4 B) at any length; no textbook size."""
    short, long = (documents(call, "mamba-2.8b", "-c", tokens) for tokens in ("1", "1m"))
    assert short["kv"]["bytes_total"] == long["kv"]["bytes_total"] == 64 * (30_720 + 327_680)
    assert (long["kv"]["bytes_per_token"], long["kv"]["fixed_bytes_per_sequence"]) == (0, 22_937_600)
    assert short["textbook"] is None
