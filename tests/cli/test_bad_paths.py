"""Where a preset is read from: standard input, paths that lead nowhere, folders of the user, bases in a circle."""

import builtins
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

from ..tiny_preset import tiny

Refused = Callable[..., tuple[str, str]]  # the fixture of conftest.py


def test_a_faulty_preset_on_standard_input_is_named_so(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place of a fault on standard input has its line too."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(tiny(heads="four").encode())))
    error, _ = refused("-")
    assert ("stdin" in error, ":3" in error, "heads" in error) == (True, True, True)


def test_an_empty_text_of_a_command_has_its_own_way_out(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command is wanted, the hint pipes in a file with one, and no config.json."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    error, hint = refused("--", "FOO=bar", "-")
    assert "expected a start-up command, or a file with one, got nothing" in error
    assert "`kvcalc -- - < compose.yaml`" in hint


@pytest.mark.parametrize(
    ("content", "says", "way_out"),
    [
        (b"", "expected a preset or a config.json, got nothing", "`kvcalc - < config.json`"),
        (b"\xff", "", ""),
        (b"x" * (2**20 + 1), "1,048,576 bytes", "path"),
        (b"{" * 5000, "", ""),
        (b"GGUF" + bytes(2**21), "got a GGUF file", "path"),
        (b"<!DOCTYPE html>\n<html>", "got a web page", "/resolve/"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "got a Git LFS pointer", "git lfs pull"),
    ],
    ids=["nothing", "binary", "too long", "deep", "gguf", "web page", "pointer"],
)
def test_hostile_standard_input_is_refused(
    content: bytes, says: str, way_out: str, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard input is bounded and checked like a file; what it plainly is instead is told, with a way out."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    error, hint = refused("-")
    assert ("stdin" in error, says in error, way_out in hint) == (True, True, True)


def test_an_unreadable_file_is_refused(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that may not be read is named with the system's reason."""
    path, real = tmp_path / "secret-1.yaml", builtins.open
    path.write_text(tiny(), encoding="utf-8")

    def opener(file: Any, *rest: Any, **named: Any) -> Any:
        if str(file) == str(path):
            raise PermissionError(13, "Permission denied", file)
        return real(file, *rest, **named)

    monkeypatch.setattr(builtins, "open", opener)
    error, _ = refused(str(path))
    assert ("secret-1.yaml" in error, "Permission denied" in error) == (True, True)


def paths(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "folder-1.yaml").mkdir()
    (tmp_path / "loop-1.yaml").symlink_to(tmp_path / "loop-1.yaml")
    (tmp_path / "file").write_text("", encoding="utf-8")
    return {
        "missing": "missing-1.yaml", "missing with a folder": "./no/such/file", "missing folder": "./none/",
        "a folder with the ending": "folder-1.yaml", "a folder with a slash": f"{tmp_path}/",
        "a link to itself": "loop-1.yaml",
        "below a file": "file/x.yaml", "a name too long": "x" * 5000 + ".yaml", "control characters": "\x1b[31m.yaml",
        "bytes that are no text": "\udcff.yaml", "no text with a folder": "\udcff/x",
        "a configuration": "./config.json",
        "a gguf file": "model.gguf", "only an ending": ".yaml", "a slash": "/", "two dots": "..", "a dot": ".",
    }  # fmt: skip


@pytest.mark.parametrize(
    "which",
    ["missing", "missing with a folder", "missing folder", "a folder with the ending", "a folder with a slash",
     "a link to itself",
     "below a file", "a name too long", "control characters", "bytes that are no text", "no text with a folder",
     "a configuration", "a gguf file", "only an ending", "a slash", "two dots", "a dot"],
)  # fmt: skip
def test_a_path_that_leads_to_no_preset_is_refused(
    which: str, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands for MODEL, a path without a preset is one line with the path in it."""
    monkeypatch.chdir(tmp_path)
    path = paths(tmp_path)[which]
    error, _ = refused(path)
    shown = path[:20].encode("unicode_escape").decode() if not path.isprintable() else path[:20]
    assert shown in error


def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> None:
    for name, text in files.items():
        (tmp_path / f"{name.replace('_', '-')}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("KVCALC_PRESETS", str(tmp_path))


def test_bases_in_a_circle_are_refused(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two presets that start from one another end in an error at the key `base`."""
    own_folder(tmp_path, monkeypatch, ring_1=tiny(base="ring-2"), ring_2=tiny(base="ring-1"))
    error, _ = refused("ring-1")
    assert ("base" in error, ":7" in error) == (True, True)


def test_a_preset_that_starts_from_itself_is_refused(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preset of a new name cannot be its own base."""
    own_folder(tmp_path, monkeypatch, ring_1=tiny(base="ring-1"))
    assert "base" in refused("ring-1")[0]


def test_a_long_chain_of_bases_is_refused(refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of presets ends at a bound, not in a deep recursion."""
    own_folder(tmp_path, monkeypatch, **{f"ring_{i}": tiny(base=f"ring-{i + 1}") for i in range(100)}, ring_100=tiny())
    assert "base" in refused("ring-0")[0]


@pytest.mark.parametrize("stem", ["tiny", "Tiny-1", "tiny 1", "tiny_1", "-1"])
def test_a_users_preset_whose_name_breaks_the_rule_is_refused(
    stem: str, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that could be a verb, or is not lower case, is a load error that shows the name and a way out."""
    (tmp_path / f"{stem}.yaml").write_text(tiny(), encoding="utf-8")
    monkeypatch.setenv("KVCALC_PRESETS", f"{os.pathsep}{tmp_path}")
    error, hint = refused("size", stem.lstrip("-"))
    assert (f"'{stem}'" in error, hint) == (True, "  hint: rename the file")


def test_two_presets_of_one_name_in_a_folder_are_refused(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two files that agree once case and separators are dropped are both named."""
    own_folder(tmp_path, monkeypatch, tiny_1=tiny(), tiny1=tiny())
    error, _ = refused("TINY_1")
    assert ("tiny-1.yaml" in error, "tiny1.yaml" in error) == (True, True)


@pytest.mark.parametrize(
    "argv", [["meta-llama/Meta-Llama-3-70B", "-c", "1", "-q"], ["llama3-70b", "-c", "1", "-q"]], ids=" ".join
)
def test_a_faulty_file_of_the_user_leaves_bundled_models_alone(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that is called like a preset, or a broken one, stops no bundled model, by name or by hub id."""
    own_folder(tmp_path, monkeypatch, bad_1="id: meta-llama/Meta-Llama-3\nname: [")
    (tmp_path / "folder-1.yaml").mkdir()
    assert (run(argv), capsys.readouterr().out) == (0, "327680\n")


def test_a_misspelt_name_is_the_error_whatever_the_users_folder_holds(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mistake just made is the one that is reported, not an old one in a folder."""
    own_folder(tmp_path, monkeypatch, bad_1="name: [")
    (tmp_path / "folder-1.yaml").mkdir()
    error, hint = refused("llama3-7b")
    assert ("'llama3-7b'" in error, "llama3-70b" in hint) == (True, True)


@pytest.mark.skipif(os.name != "posix", reason="a shell that closes streams and removes its own folder")
@pytest.mark.parametrize(
    ("script", "status", "out"),
    [
        ("mkdir gone && cd gone && rmdir ../gone && {kvcalc} llama3-70b -q", 0, "1342177280\n"),
        ("{kvcalc} - <&-", 2, ""),
    ],
    ids=["no working folder", "no standard input"],
)
def test_a_poor_environment_is_no_bug(script: str, status: int, out: str, tmp_path: Path) -> None:
    """A folder that is gone and a stream that is closed bring no traceback."""
    command = script.format(kvcalc=f"{sys.executable} -P -m kvcalc")
    done = subprocess.run(["bash", "-c", command], capture_output=True, check=False, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (status, out, False)
