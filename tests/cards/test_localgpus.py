"""--gpu local: the driver's own tool is asked, here a small program in its place."""

import json
import os
import sys
from pathlib import Path

import pytest

from kvcalc.cards.names import cards_called
from kvcalc.cli.main import run
from kvcalc.errors import KvcalcError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="programs there have other names")

NVIDIA_SMI = {
    # name, MiB -> how many, which, memory
    "NVIDIA H100 80GB HBM3, 81559\n" * 8: (8, "h100-sxm", int(79.18 * 2**30), "runtime"),
    "NVIDIA H20, 97871\n": (1, "h20-96gb", 97871 * 2**20 - int(0.6 * 2**30), "driver-less-reserve"),
    # with ECC on: not the 49140 MiB of the table
    "NVIDIA RTX 6000 Ada Generation, 46068\n": (
        1, "rtx-6000-ada", 46068 * 2**20 - int(0.6 * 2**30), "driver-less-reserve"),
    "NVIDIA GB10, [N/A]\n": (1, "gb10-dgx-spark", int(121.6 * 2**30), "runtime"),
    "NVIDIA TITAN X, 12288\n": (1, "local", 12288 * 2**20 - int(0.6 * 2**30), "driver-less-reserve"),
}  # fmt: skip


def _tool(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!{sys.executable}\n{script}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("printed", NVIDIA_SMI, ids=lambda text: text.splitlines()[0])
def test_local_asks_nvidia_smi(printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cards of this machine, with the memory that its own driver prints."""
    _tool(tmp_path / "bin", "nvidia-smi", f"print({printed!r}, end='')")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    gpus, name, memory, source = NVIDIA_SMI[printed]
    found = cards_called("local")
    assert [(n, card.name, card.memory, card.memory_source) for n, card in found] == [(gpus, name, memory, source)]


def test_local_asks_rocm_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AMD's tool answers where there is no other, or that one fails: 206,141,652,992 bytes are an MI300X."""
    _tool(tmp_path / "bin", "nvidia-smi", "raise SystemExit('no driver')")
    card = {"VRAM Total Memory (B)": "206141652992", "Card Series": "AMD Instinct MI300X OAM"}
    printed = json.dumps({"card0": card, "card1": card, "system": {}})
    _tool(tmp_path / "bin", "rocm-smi", f"print({printed!r})")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert [(gpus, card.name) for gpus, card in cards_called("local")] == [(2, "mi300x")]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "--gpu: local: found neither nvidia-smi nor rocm-smi"),
        ("raise SystemExit(9)", "--gpu: local: nvidia-smi: no list of GPUs"),
        ("print('not a list')", "--gpu: local: nvidia-smi: no list of GPUs"),
        ("", "--gpu: local: nvidia-smi: no GPU"),
        ("print('NVIDIA H20, [N/A]')", "--gpu: local: 'NVIDIA H20' is not in the table, and its tool prints no memory"),
    ],
)
def test_a_machine_without_a_tool_says_so(
    script: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One clear line where the driver's tool is missing or does not answer."""
    (tmp_path / "bin").mkdir()
    if script is not None:
        _tool(tmp_path / "bin", "nvidia-smi", script)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(KvcalcError) as caught:
        cards_called("local")
    assert caught.value.message == message


def test_the_verb_lists_what_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`kvcalc gpus local` shows which cards of the table those of this machine are taken for."""
    _tool(tmp_path / "bin", "nvidia-smi", "print('NVIDIA L40S, 49140\\nNVIDIA A10G, 23028')")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert run(["gpus", "local", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["request"]["name"] == "local"
    assert [(one["name"], one["driver_mib"], one["memory_source"]) for one in document["gpus"]] == [
        ("l40s", 49140, "driver-less-reserve"),  # with ECC off, and what was read of the runtime was with ECC on
        ("a10g", 23028, "runtime"),
    ]


def test_equal_cards_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two H100 and an L4 are two rows, of which one says 2: `--gpu local` would reckon with both."""
    _tool(tmp_path / "bin", "nvidia-smi", "print('NVIDIA H100 80GB HBM3, 81559\\n' * 2 + 'NVIDIA L4, 23034')")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert run(["gpus", "local"]) == 0
    lines = [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [["gpu", "here"], ["h100-sxm", "2"], ["l4", "1"]]
    assert run(["gpus", "local", "--get", "gpus.0.here"]) == 0
    assert capsys.readouterr().out == "2\n"
