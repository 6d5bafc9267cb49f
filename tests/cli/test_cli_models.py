"""The verb `models`: the list, one preset, a check of a file, and where presets are looked for."""

import csv
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import kvcalc

from ..tiny_preset import tiny
from .conftest import Call

TINY = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n"  # 1,024 bytes a token


@pytest.fixture
def bundled() -> list[str]:
    """The names of the presets of this repository."""
    return sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "presets").glob("*.yaml"))


def names(call: Call, *argv: str) -> list[str]:
    result = call("models", "-q", *argv)
    assert (result.status, result.err) == (0, "")
    return result.out.splitlines()


def test_quiet_lists_names_one_a_line(call: Call, bundled: list[str]) -> None:
    """`models -q` prints every bundled name once, in order, and nothing else."""
    assert names(call) == bundled


def test_every_listed_name_is_one_that_can_be_asked_for(call: Call) -> None:
    """What `models -q` prints can be handed back to kvcalc."""
    assert [name for name in names(call) if call(name, "-c", "1", "-q").status != 0] == []


@pytest.mark.parametrize(
    "form", [[], ["-f", "plain"], ["-f", "table"], ["-f", "markdown"], ["-f", "csv"], ["--json"]], ids=str
)
def test_every_format_lists_every_preset(
    call: Call, bundled: list[str], form: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No format leaves a preset out or cuts its name."""
    monkeypatch.setenv("COLUMNS", "120")
    result = call("models", *form)
    assert (result.status, [name for name in bundled if name not in result.out]) == (0, [])


def test_the_list_as_json(call: Call, bundled: list[str]) -> None:
    """JSON has the schema of the verb and one entry for each preset, with its facts."""
    document = json.loads(call("models", "--json").out)
    rows = {row["preset"]: row for row in document["models"]}
    assert (document["schema"], sorted(rows), document["warnings"]) == ("kvcalc.models/1", bundled, [])
    row = rows["llama3-70b"]
    keys = ("id", "layers", "heads", "kv_heads", "head_dim", "attention", "parameters", "max_context")
    assert [row[key] for key in keys] == [
        "meta-llama/Meta-Llama-3-70B", 80, 64, 8, 128, "gqa", 70_550_000_000, 8192
    ]  # fmt: skip
    assert (row["bytes_per_token"], row["fixed_bytes_per_sequence"]) == (327_680, 0)


def test_the_list_as_csv_has_a_row_for_each_preset(call: Call, bundled: list[str]) -> None:
    """A list is rows, so that CSV has a line for each preset under one heading."""
    rows = list(csv.DictReader(io.StringIO(call("models", "-f", "csv").out)))
    assert sorted(row["preset"] for row in rows) == bundled


@pytest.mark.parametrize(
    ("argv", "some", "others"),
    [
        (["--family", "gemma"], ["gemma2-9b", "gemma3-27b"], ["llama3-70b", "gpt2"]),
        (["--family", "LLAMA"], ["llama3-70b", "llama4-scout"], ["tinyllama-1.1b", "nemotron-super-49b"]),
        (["--attention", "mla"], ["deepseek-v3", "deepseek-v3.2"], ["llama3-70b", "kimi-linear-48b"]),
        (["--attention", "GQA"], ["llama3-70b", "gemma2-9b"], ["gpt2", "falcon-7b"]),
        (["--attention", "mqa"], ["falcon-7b"], ["gpt2", "llama3-70b"]),
        (["--attention", "encoder-decoder"], ["t5-small", "whisper-tiny"], ["llama3-70b"]),
        (["--attention", "sliding"], ["gemma2-9b", "mistral-7b-v0.1"], ["llama3-70b"]),
        (["--attention", "cross"], ["t5-small", "llama3.2-11b-vision"], ["llama3-70b"]),
        (["--attention", "mamba1"], ["mamba-2.8b", "jamba-1.5-mini"], ["nemotron-h-8b", "llama3-70b"]),
        (["--attention", "ssm"], ["mamba-2.8b", "rwkv6-1.6b"], ["jamba-1.5-mini"]),
        (["--attention", "recurrent"], ["mamba-2.8b", "jamba-1.5-mini"], ["llama3-70b"]),
        (["--family", "qwen", "--attention", "hybrid"], ["qwen3-next-80b"], ["qwen3-8b", "jamba-1.5-mini"]),
    ],
    ids=" ".join,
)
def test_the_list_can_be_narrowed(call: Call, argv: list[str], some: list[str], others: list[str]) -> None:
    """Families and kinds of attention, in any case and together."""
    found = names(call, *argv)
    assert [name for name in some if name not in found] == []
    assert [name for name in others if name in found] == []


@pytest.mark.parametrize("name", ["llama3-70b", "Llama-3-70B", "meta-llama/Meta-Llama-3-70B"])
def test_one_preset_is_shown_with_its_sources(call: Call, name: str) -> None:
    """A name in any spelling and a hub id show the preset, its hub ids and where it was read."""
    result = call("models", name)
    assert result.status == 0
    source = "config.json in aws-neuron/neuronx-distributed, examples/training/llama"
    parts = ["Llama 3 70B", "meta-llama/Meta-Llama-3-70B-Instruct", source, "config file read"]
    assert [part for part in parts if part not in result.out] == []


def test_one_preset_as_json(call: Call) -> None:
    """One preset's document has its facts under `model`."""
    document = json.loads(call("models", "llama3-70b", "--json").out)
    assert (document["schema"], document["model"]["id"], document["model"]["layers"]) == (
        "kvcalc.models/1", "meta-llama/Meta-Llama-3-70B", 80
    )  # fmt: skip
    assert call("models", "llama3-70b", "--get", "model.kv_heads") == (0, "8\n", "")


@pytest.mark.parametrize("name", kvcalc.models())
def test_yaml_reads_back_as_the_same_model(call: Call, name: str, tmp_path: Path) -> None:
    """`--format yaml` prints a preset that is sound and means the same."""
    path = tmp_path / "copy-1.yaml"
    path.write_text(call("models", name, "--format", "yaml").out, encoding="utf-8")
    assert kvcalc.load(str(path)) == kvcalc.load(name)
    assert call("models", "--check", str(path)).status == 0
    assert call("models", str(path), "--format", "yaml").out == path.read_text(encoding="utf-8")


def test_a_sound_file_passes_the_check(call: Call, tmp_path: Path) -> None:
    """`--check` of a good preset exits 0 and says so on standard output, with the file's name."""
    path = tmp_path / "tiny-1.yaml"
    path.write_text(TINY + "source: by hand\nconfidence: from memory\n", encoding="utf-8")
    result = call("models", "--check", str(path))
    assert (result.status, str(path) in result.out) == (0, True)


def test_a_folder_is_checked_whole(call: Call, tmp_path: Path) -> None:
    """`--check FOLDER` checks each YAML in it; one fault is status 2. A folder without a preset says so."""
    (tmp_path / "a-1.yaml").write_text(tiny(), encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no preset", encoding="utf-8")
    assert call("models", "--check", f"{tmp_path}/").status == 0
    (tmp_path / "b-1.yml").write_text(tiny(heads="four"), encoding="utf-8")
    result = call("models", "--check", str(tmp_path))
    assert (result.status, result.out) == (2, f"{tmp_path}/a-1.yaml: a sound preset\n")
    assert f"kvcalc: error: {tmp_path}/b-1.yml:3: heads: " in result.err
    (tmp_path / "empty").mkdir()
    result = call("models", "--check", f"{tmp_path}/empty")
    assert (result.status, result.err) == (
        2, f"kvcalc: error: {tmp_path}/empty: expected presets, which end in .yaml, got a folder without one\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "status", "says"),
    [
        (tiny(), 0, "no source"),
        (tiny(heads="four"), 2, "<stdin>:3: heads: "),
        ('{"model_type": "llama"}', 2, "`kvcalc preset - > my-model.yaml`"),
    ],
)
def test_standard_input_is_checked(
    call: Call, monkeypatch: pytest.MonkeyPatch, text: str, status: int, says: str
) -> None:
    """`--check -` checks a preset on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    result = call("models", "--check", "-")
    assert result.status == status
    assert says in result.err


def test_every_bundled_preset_passes_the_check(call: Call, bundled: list[str]) -> None:
    """All shipped presets are sound and in canonical form: nothing on standard error."""
    folder = Path(__file__).resolve().parents[2] / "presets"
    results = [call("models", "--check", str(folder / f"{name}.yaml")) for name in bundled]
    assert [(result.status, result.err) for result in results] == [(0, "")] * len(bundled)


def test_a_faulty_file_fails_the_check_with_all_its_faults(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fault is a line of its own with file, line, key and, where a word is near, the word that was meant."""
    monkeypatch.chdir(tmp_path)
    text = TINY.replace("dtype: bf16", "dtype: bf61").replace("heads: 4\n", "heads: -4\n", 1)
    Path("bad-1.yaml").write_text(text + "max_contxt: 5\ncount: 3\nparameters: many\n", encoding="utf-8")
    result = call("models", "--check", "bad-1.yaml")
    lines = result.err.splitlines()
    assert (result.status, result.out) == (2, "")
    assert [line for line in lines if not line.startswith(("kvcalc: error: bad-1.yaml:", "  hint: "))] == []
    for place, word in ((2, "dtype"), (3, "heads"), (7, "max_context"), (8, "count"), (9, "parameters")):
        assert [line for line in lines if line.startswith(f"kvcalc: error: bad-1.yaml:{place}: ") and word in line]


def test_a_faulty_base_is_named_with_its_own_file_and_line(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault that stands in the preset one starts from is reported where it stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path))
    Path("old-1.yaml").write_text(TINY.replace("heads: 4", "heads: four", 1), encoding="utf-8")
    Path("new-1.yaml").write_text("base: old-1\nname: New 1\n", encoding="utf-8")
    result = call("models", "--check", "new-1.yaml")
    assert (result.status, "old-1.yaml:3: heads" in result.err) == (2, True)


@pytest.mark.parametrize(
    "argv",
    [
        ["llama3-70b", "--family", "llama"], ["llama3-70b", "--attention", "gqa"], ["llama3-70b", "--check", "x.yaml"],
        ["--check", "x.yaml", "--family", "llama"], ["--check", "x.yaml", "--attention", "gqa"], ["--json", "-q"],
        ["--get", "models", "--format", "csv"], ["-q", "--format", "yaml"], ["--format", "yaml"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_contradictions_are_usage_errors(call: Call, argv: list[str]) -> None:
    """Two questions, or two outputs, at once exit 2 with one line of error and nothing on standard output."""
    result = call("models", *argv)
    lines = result.err.splitlines()
    assert (result.status, result.out, [line.startswith("kvcalc: error: ") for line in lines[:1]]) == (2, "", [True])
    assert [line for line in lines[1:] if not line.startswith("  hint: ")] == []


def folder_with(path: Path, **files: str) -> Path:
    """A folder of presets; `_` in a name stands for a hyphen."""
    path.mkdir(parents=True)
    for name, text in files.items():
        (path / f"{name.replace('_', '-')}.yaml").write_text(text, encoding="utf-8")
    return path


def test_presets_of_the_user_come_first(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KVCALC_PRESETS comes before the folder under the XDG config home, and both before the bundled presets."""
    first = folder_with(tmp_path / "first", tiny_1=TINY)
    second = folder_with(
        tmp_path / "second", tiny_1=TINY.replace("2 full", "4 full"), tiny_2=TINY.replace("2 full", "6 full")
    )
    folder_with(
        tmp_path / "config" / "kvcalc" / "presets",
        tiny_2=TINY.replace("2 full", "8 full"), tiny_3=TINY.replace("2 full", "10 full"), gpt2=TINY, llama3_70b=TINY,
    )  # fmt: skip
    monkeypatch.setenv("KVCALC_PRESETS", os.pathsep.join([str(first), str(tmp_path / "absent"), str(second)]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    asked = ("tiny-1", "tiny-2", "TINY3", "gpt2", "llama3-70b")
    assert [call(name, "-c", "1", "-q").out for name in asked] == ["1024\n", "3072\n", "5120\n", "1024\n", "1024\n"]
    found = names(call)
    assert [found.count(name) for name in ("tiny-1", "tiny-2", "tiny-3", "gpt2", "llama3-70b")] == [1] * 5


def test_another_spelling_of_a_users_preset_hides_the_bundled_one(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's `llama-3-70b` is what `llama3-70b` means from then on, and is listed once."""
    monkeypatch.setenv("KVCALC_PRESETS", str(folder_with(tmp_path / "own", llama_3_70b=TINY)))
    assert call("llama3-70b", "-c", "1", "-q") == (0, "1024\n", "")
    assert [name for name in names(call) if name in ("llama3-70b", "llama-3-70b")] == ["llama-3-70b"]


def test_a_users_hub_id_is_found(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub id that a user's preset names as its own leads to that preset."""
    monkeypatch.setenv("KVCALC_PRESETS", str(folder_with(tmp_path / "own", tiny_1=TINY + "id: Someone/Tiny-One\n")))
    assert call("someone/tiny-one", "-c", "1", "-q") == (0, "1024\n", "")


def test_a_preset_may_start_from_another(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`base` takes every key that is not given anew: llama3-70b with one KV head has 40,960 bytes a token."""
    own = "base: Llama-3-70B\nname: My 70B\nkv_heads: 1\nmax_context: 100\n"
    monkeypatch.setenv("KVCALC_PRESETS", str(folder_with(tmp_path / "own", my_70b=own)))
    assert call("my-70b", "-q") == (0, f"{40_960 * 100}\n", "")
    assert call("my-70b", "--get", "model.heads") == (0, "64\n", "")


def test_a_preset_may_start_from_the_one_it_replaces(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user's llama3-70b with `base: llama3-70b` starts from the bundled one."""
    monkeypatch.setenv(
        "KVCALC_PRESETS", str(folder_with(tmp_path / "own", llama3_70b="base: llama3-70b\nkv_heads: 1\n"))
    )
    assert call("llama3-70b", "-c", "1", "-q") == (0, "40960\n", "")


def test_caches_of_a_base_merge_by_name(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One field of one cache may change: Gemma 2 9B with windows of 1,024 keeps 21 x 8,192 x 1,024 bytes in them."""
    own = "base: gemma2-9b\nname: My Gemma\ncaches:\n  sliding: {window: 1024}\n"
    monkeypatch.setenv("KVCALC_PRESETS", str(folder_with(tmp_path / "own", my_gemma=own)))
    kv: Any = json.loads(call("my-gemma", "-c", "4k", "--json").out)["kv"]
    assert (kv["fixed_bytes_per_sequence"], kv["bytes_per_token"]) == (176_160_768, 172_032)


def test_one_faulty_preset_of_a_user_does_not_spoil_the_others(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken file in the user's folder never stops a bundled model from being sized by its name."""
    monkeypatch.setenv("KVCALC_PRESETS", str(folder_with(tmp_path / "own", bad_1="name: [")))
    assert call("llama3-70b", "-c", "1", "-q") == (0, "327680\n", "")
