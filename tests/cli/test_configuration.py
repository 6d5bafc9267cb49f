"""A user's own config.yaml: what it fills in, what it yields to, that the answer names it, and what is wrong with it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import Call

# An H100 reports 79.18 GiB (gpus.json); a token of Llama 3 8B takes 2 x 32 layers x 8 heads x 128 x 2 B = 131,072 B.
H100 = int(79.18 * 2**30)
WHOLE = "gpu: h100\nengine: vllm\nunits: si\n"

Configure = Callable[[str], Path]


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Configure:
    """Write the file where it is looked for."""

    def write(text: str) -> Path:
        path = tmp_path / "kvcalc" / "config.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
        return path

    return write


def test_the_answer_is_that_of_the_options_and_names_the_file(configure: Configure, call: Call) -> None:
    """GPU, engine and units are as if they had been typed, and a warning says what was taken from where."""
    typed = json.loads(call("llama3-8b", "--gpu", "h100", "--engine", "vllm", "--json").out)
    path = configure(WHOLE)
    taken = json.loads(call("llama3-8b", "--json").out)
    said = f"--gpu h100, --engine vllm, --units si: by {path}, which --no-config leaves out"
    assert taken["fit"]["vram_bytes_per_gpu"] == H100
    assert taken == {**typed, "warnings": [*typed["warnings"], said]}
    assert said in call("llama3-8b", "-f", "plain").out
    assert call("llama3-8b", "-q") == (0, "536870912\n", f"kvcalc: warning: {said}\n")
    for form in (["--json"], ["-f", "plain"]):
        assert said in call("sweep", "llama3-8b", "-c", "4k,8k", *form).out
    assert call("llama3-8b", "-f", "plain").out.count("GB") > call("llama3-8b", "-f", "plain").out.count("GiB")


@pytest.mark.parametrize(
    ("argv", "taken"),
    [
        (("--vram", "80GB"), "--engine vllm, --units si"),
        (("--kv-memory", "8GiB"), "--engine vllm, --units si"),
        (("--gpu", "h200", "--units", "iec"), "--engine vllm"),
        (("--engine", "sglang"), "--gpu h100, --units si"),
        (("--", "vllm", "serve", "x"), "--gpu h100, --units si"),
    ],
)
def test_what_is_typed_comes_first(argv: tuple[str, ...], taken: str, configure: Configure, call: Call) -> None:
    """Memory that is given leaves the card of the file out, and a command behind -- its engine."""
    configure(WHOLE)
    front, behind = ("llama3-8b", "-q"), argv
    assert call(*front, *behind).err.startswith(f"kvcalc: warning: {taken}: by ")
    assert call("llama3-8b", "-q", "--no-config", *argv) == call(*front, *argv)._replace(err="")


def test_an_error_that_it_leads_to_names_it(configure: Configure, call: Call) -> None:
    """A card that was not typed must not be what an error is about without a word on where it is from."""
    configure("gpu: 8xh100\n")
    status, _, err = call("llama3-8b", "--tp", "4")
    assert status == 2
    assert "--gpu 8xh100: by " in err
    assert "--no-config" in err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu: l4\nengin: vllm\n", ":2: engin: expected a known key, got 'engin' (did you mean 'engine'?)"),
        ("units: 3\n", ":1: units: expected printable text, got 3"),
        ("gpu: [\n\n", ":3: did not find expected node content"),
        ("- gpu\n", ":1: expected `key: value` lines, got a list"),
    ],
)
def test_a_faulty_file_is_refused_with_its_line(text: str, says: str, configure: Configure, call: Call) -> None:
    """One line with the file, the line and the key; and --no-config goes on without it."""
    path = configure(text)
    status, out, err = call("llama3-8b", "-q")
    assert (status, out) == (2, "")
    assert err.startswith(f"kvcalc: error: {path}{says}")
    assert call("llama3-8b", "-q", "--no-config") == (0, "536870912\n", "")
