"""`help`, `version`, a bare `kvcalc`, and the examples with which each verb's help ends."""

import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from kvcalc.cli.group import VERB_MODULES
from kvcalc.cli.main import run

TESTS = Path(__file__).parent.parent


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What an answered command line prints, and nothing on standard error."""
    assert run(list(words)) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def test_the_words_for_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """Bare, `help` and `--help` are one, `help plan` is `plan --help`, and `version` and `-V` are `--version`."""
    whole = said(capsys, "--help")
    for words in ((), ("help",), ("help", "help"), ("help", "version"), ("help", "--help"), ("version", "-h")):
        assert said(capsys, *words) == whole
    for verb in VERB_MODULES:
        assert said(capsys, "help", verb) == said(capsys, verb, "--help")
    assert said(capsys, "version") == said(capsys, "-V") == said(capsys, "--version")


@pytest.mark.parametrize(
    "words", [["help", "llama3-70b"], ["help", "plan", "sweep"], ["help", "--json"], ["version", "1"]], ids=" ".join
)
def test_what_help_and_version_do_not_take_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A word that says nothing is not passed over in silence."""
    assert run(words) == 2
    assert capsys.readouterr().err.startswith(f"kvcalc: error: {words[0]}: expected ")


@pytest.mark.parametrize("verb", VERB_MODULES)
def test_each_help_ends_with_two_examples_that_run(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are answered as they stand, where the files that they name are; `verify` wants transformers."""
    examples = re.findall(r"^  kvcalc (.*)$", said(capsys, verb, "--help").partition("\nExamples:\n")[2], re.MULTILINE)
    assert len(examples) == 2
    assert all(example.split()[0] == verb for example in examples) or verb == "size"
    shutil.copy(TESTS / "logs/vllm-llama3.3-70b.log", tmp_path / "server.log")
    shutil.copy(TESTS / "traces/morning.csv", tmp_path / "trace.csv")
    shutil.copytree(TESTS / "models/gemma-tiny", tmp_path / "my-model")
    shutil.copy(TESTS / "models/gemma-tiny/config.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    for example in examples:
        if verb == "verify" and not (find_spec("torch") and find_spec("transformers")):
            assert run(shlex.split(example)) == 2
            assert "torch and transformers are not installed" in capsys.readouterr().err
        else:
            assert said(capsys, *shlex.split(example)) != ""
