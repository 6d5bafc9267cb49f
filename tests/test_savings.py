"""What would give memory back: each change is what the same question says with it."""

import json
from typing import Any

import pytest

from kvcalc.cli.main import run


def document(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    run(["--json", *argv])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("llama3.3-70b", ["--gpu", "4xh100", "--engine", "vllm@0.16"]),
        ("gemma3-4b", ["--gpu", "l4", "--engine", "vllm"]),
        ("qwen3-8b", ["--gpu", "h100", "--engine", "sglang"]),
        ("llama3.1-8b", ["--gpu", "h200"]),
    ],
)
def test_a_change_gives_what_it_promises(capsys: pytest.CaptureFixture[str], model: str, options: list[str]) -> None:
    """Asked with the option, the budget is the one that was told, and larger by what was told."""
    asked = [model, *options, "-c", "4096", "-b", "1"]
    before = document(capsys, *asked, "--explain")
    assert before["savings"]
    for each in before["savings"]:
        words = each["change"].split(",")[0].split()
        fit = document(capsys, *asked, *words)["fit"]
        assert fit["kv_budget_bytes_per_gpu"] == each["kv_budget_bytes_per_gpu"]
        assert fit["kv_budget_bytes_per_gpu"] - before["fit"]["kv_budget_bytes_per_gpu"] == each["bytes"]


def test_256_sequences_instead_of_1024(capsys: pytest.CaptureFixture[str]) -> None:
    """3.5 GiB on each GPU for a Llama 3 vocabulary up to 0.16: 768 x 128,256 logits x 38.3 B (vLLM's sorting sampler)."""
    asked = document(capsys, "llama3.3-70b", "--gpu", "4xh100", "--engine", "vllm@0.16", "-c", "8k", "--explain")
    gained = {each["change"]: each["bytes"] for each in asked["savings"]}
    assert gained["--max-num-seqs 256"] == pytest.approx(768 * 128_256 * 38.3, rel=0.001)


def test_what_is_stated_is_not_proposed(capsys: pytest.CaptureFixture[str]) -> None:
    """The engine's own flags say it already, or bare memory has nothing beside the weights."""
    stated = document(
        capsys, "llama3.1-8b", "--engine", "vllm", "--gpu", "h100", "--explain", "--", "--max-num-seqs", "64"
    )
    assert not any("--max-num-seqs" in each["change"] for each in stated["savings"])
    assert document(capsys, "llama3.1-8b", "--vram", "24GB", "--explain")["savings"] == []
