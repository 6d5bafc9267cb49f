"""The console blocks of README and docs are run as they stand, on a terminal of 80 columns, and compared with what
they show; what docs/ says of options and keys is what the code has.
"""

import doctest
import importlib.util
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run
from kvcalc.launch.registry import all_engines

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands() -> list[Any]:
    """Each `$ command` of README and docs with the lines that it prints."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```console\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append(pytest.param(command, output, id=f"{page.name}: {command}"))
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell that finds kvcalc, in a folder without presets of its own, on a plain terminal."""
    tool = tmp_path / "bin" / "kvcalc"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kvcalc "$@"\n')
    tool.chmod(0o755)
    return {
        "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TERM": "dumb",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "80",
        "HOME": str(tmp_path),
    }


def on_terminal(command: str, environment: dict[str, str]) -> str:
    """What a shell command prints to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=environment, cwd=ROOT
    ) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # how Linux says that the other side has closed
                break
            if not piece:
                break
            output += piece
        process.wait()
    os.close(ours)
    return output.decode().replace("\r\n", "\n")


@pytest.mark.skipif(shutil.which("bash") is None, reason="the README's commands are typed into bash")
@pytest.mark.parametrize(("command", "shown"), commands())
def test_console_block(command: str, shown: str, environment: dict[str, str]) -> None:
    """A command prints on a terminal what the page shows."""
    assert on_terminal(command, environment) == shown


def test_there_are_console_blocks() -> None:
    """The README shows the worked example, so an empty list would mean that the pattern above is wrong."""
    assert "kvcalc llama3-70b --batch 8" in [each.values[0] for each in commands()]


def test_setup_is_what_ci_runs() -> None:
    """The README's first block has two commands, of which .ci/run runs each as it stands, in a fresh copy."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    block = README.split("```sh\n", 1)[1].split("```", 1)[0].splitlines()
    assert [line.rpartition(" && ")[2] for line in block] == [
        ".venv/bin/kvcalc llama3-70b --batch 8", ".venv/bin/python -m pytest",
    ]  # fmt: skip
    assert "sed -n '/^```sh$/,/^```$/p' README.md" in script


def test_the_readme_is_short() -> None:
    """What does not fit into 200 lines is a page of docs/."""
    assert len(README.splitlines()) <= 200


def test_the_reference_is_what_the_code_has() -> None:
    """Every option and every key of the JSON stands in docs/ with its meaning: `python docs/reference.py` writes them."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    for name, page in reference.PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), f"python docs/reference.py writes {name}"


def test_the_python_page_is_true() -> None:
    """Its examples are run."""
    failed, tried = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert (failed, tried > 5) == (0, True)


def test_the_picture_is_what_the_tool_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/kv-cache.svg is the chart of `kvcalc compare`."""
    drawn = tmp_path / "kv-cache.svg"
    models = ("llama3.3-70b", "qwen3-32b", "gpt-oss-120b", "deepseek-v3", "gemma3-27b")
    assert run(["compare", *models, "--context", "32k", "--svg", str(drawn), "-q"]) == 0
    capsys.readouterr()
    assert drawn.read_text(encoding="utf-8") == (ROOT / "docs" / "kv-cache.svg").read_text(encoding="utf-8")


def test_every_engine_is_in_the_table() -> None:
    """An engine that the tool finds is one that its page tells of, with the newest version whose rules are known."""
    page = (ROOT / "docs" / "engines.md").read_text(encoding="utf-8")
    for engine in all_engines():
        row = next(line for line in page.splitlines() if line.startswith(f"| `{engine.name}` |"))
        newest = engine.versions[-1].name.lstrip("b").split(".")[:2]
        assert ".".join(newest) in row
