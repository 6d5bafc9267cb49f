"""The verb `verify` as a shell sees it; what it says of real caches stands in tests/oracle."""

import csv
import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import jsonschema
import pytest

import kvcalc
from kvcalc.cli.main import run
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.allocation import Allocation, Charge
from kvcalc.engines.question import Question
from kvcalc.library import loader
from kvcalc.verifying import building, running
from kvcalc.verifying.building import Versions
from kvcalc.verifying.comparing import compare
from kvcalc.verifying.measuring import Reading

Refused = Callable[..., tuple[str, str]]

INSTALLED = Versions("2.13.0", "5.23.0")


class ComparedLayer(NamedTuple):
    """A row of an engine's versions."""

    name: str


def answer(*last: int) -> running.Verification:
    """GPT-2's twelve layers: 12 heads x (64 + 64) x 4 bytes, 6,144 a token; `last` are the bytes of the last layers."""
    size = measure(ask(loader.load("gpt2"), context=2))
    question = Question(size.request, size.placement, ComparedLayer("5.23.0"))
    found = []
    for step, tokens in (("prefill", 1), ("decode", 2)):
        bytes_each = 6144 * tokens
        real = [{"keys": bytes_each // 2, "values": bytes_each // 2}] * (12 - len(last)) + [{"keys": b} for b in last]
        plan = Allocation((Charge("full attention", 12, 12 * bytes_each, (), (), ""),), {"held_bytes_total": 200000})
        found.append(compare(question.at(1, tokens), plan, Reading(step, tokens, real, 200000)))
    return running.Verification(question, INSTALLED, "GPT2Model", False, tuple(found), ())


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let `verify` find these bytes in the last layers of GPT-2."""

    def answers(*last: int) -> None:
        monkeypatch.setattr(building, "installed", lambda: INSTALLED)
        monkeypatch.setattr(running, "verify", lambda *_: answer(*last))

    return answers


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_without_the_extra(missing: str, monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    """Where torch or transformers is missing, one line says how to install both."""
    if missing == "transformers":
        monkeypatch.setitem(sys.modules, "torch", object())
    monkeypatch.setitem(sys.modules, missing, None)
    line = "verify: torch and transformers are not installed: pip install 'kvcalc[verify]'"
    assert refused("verify", "gpt2") == (line, "")


def test_an_old_transformers(monkeypatch: pytest.MonkeyPatch, refused: Refused) -> None:
    """A transformers that is too old, or cannot be imported itself, is told from a missing one."""
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="2.13.0"))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(__version__="4.57.6"))
    hint = "  hint: pip install 'kvcalc[verify]'"
    assert refused("verify", "gpt2") == ("verify: expected transformers 5.6 or later, got 4.57.6", hint)


def test_equal(answers: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Equal is exit status 0 and the headline, and what is held beside the tensors is told."""
    answers()
    assert run(["verify", "gpt2", "-q"]) == 0
    assert capsys.readouterr().out == "equal\n"
    assert run(["verify", "gpt2"]) == 0
    out = capsys.readouterr().out
    assert "12 x full attention\t144 KiB\t147456\t144 KiB\t147456\tequal" in out
    assert "storage held\t195.3 KiB\t200000\t195.3 KiB\t200000\tequal" in out
    assert "equal to the byte: transformers 5.23.0 caches what is predicted" in out


def test_different(answers: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """Different is exit status 1, with the layers that differ and both numbers."""
    answers(
        12288, 12290
    )  # the layer before the last keeps two tokens after the prefill of one; the last two bytes more
    assert run(["verify", "gpt2", "-q"]) == 1
    assert capsys.readouterr().out == "different\n"
    assert run(["verify", "gpt2"]) == 1
    out = capsys.readouterr().out
    assert "12 x full attention\t144 KiB\t147456\t144 KiB\t147458\tlayer 11 differs" in out
    assert "different from the prediction: 2 layers of transformers 5.23.0" in out


def test_json_and_csv(answers: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    """One row for each step and group of equal caches, with what was predicted and what is real."""
    answers(12288)
    assert run(["verify", "gpt2", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(kvcalc.schema("verify")).validate(document)
    assert (document["schema"], document["verdict"], document["layers"]) == ("kvcalc.verify/1", "different", [11])
    assert document["installed"] == {"transformers": "5.23.0", "torch": "2.13.0"}
    assert (document["predicted_bytes_total"], document["real_bytes_total"]) == (147456, 147456)
    seen = [(row["step"], row["tokens"], row["real_bytes"], row["equal"], row["layers"]) for row in document["rows"]]
    assert seen == [("prefill", 1, 79872, False, [11]), ("decode", 2, 147456, True, [])]
    assert run(["verify", "gpt2", "--format", "csv"]) == 1
    assert [row["equal"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))] == ["false", "true"]
    assert run(["verify", "gpt2", "--get", "rows.0.predicted_bytes"]) == 1
    assert capsys.readouterr().out == "73728\n"


def test_no_engine_command(refused: Refused) -> None:
    """What is compared is the cache of `generate` with its defaults."""
    assert refused("verify", "gpt2", "--", "--cache-implementation", "static")[0].startswith("--: verify does not read")
