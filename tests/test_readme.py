"""The README's console blocks are run as they stand, on a terminal of 80 columns, and compared with what they show."""

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kvcalc.launch.registry import all_engines

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)


def commands() -> list[tuple[str, str]]:
    """Each `$ command` of the README with the lines that it prints."""
    found = []
    for block in BLOCKS:
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output))
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
@pytest.mark.parametrize(("command", "shown"), commands(), ids=[command for command, _ in commands()])
def test_console_block(command: str, shown: str, environment: dict[str, str]) -> None:
    """A command of the README prints on a terminal what the README shows."""
    assert on_terminal(command, environment) == shown


def test_there_are_console_blocks() -> None:
    """The README shows the worked example, so an empty list would mean that the pattern above is wrong."""
    assert "kvcalc llama3-70b --batch 8" in [command for command, _ in commands()]


def test_setup_is_what_ci_runs() -> None:
    """The set-up and test commands of the README are those of .ci/run, which proves them on a fresh environment."""
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL)).splitlines()
    assert [line for line in blocks if line not in script] == []
    assert len(blocks) == 3  # two set up, one tests


def test_every_engine_is_in_the_table() -> None:
    """An engine that the tool finds is one that the README tells of, with the newest version whose rules are known."""
    for engine in all_engines():
        row = next(line for line in README.splitlines() if line.startswith(f"| `{engine.name}` |"))
        newest = engine.versions[-1].name.lstrip("b").split(".")[:2]
        assert ".".join(newest) in row
