"""GPUs by name: what they hold, and what engines choose by them."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.accelerators import accelerators
from kvcalc.cards import find
from kvcalc.cli.main import run

SHARED = Path(__file__).resolve().parents[2] / "shared" / "gpus" / "gpus.json"


@pytest.mark.parametrize(
    ("text", "count", "name", "memory"),
    [
        # The runtime's totals in public logs: 79.18, 23.64 and 178.35 GiB; an RTX 3090's driver prints 24,576 MiB, and
        # the runtime some 0.6 GiB less.
        ("h100", None, "h100-sxm", int(79.18 * 2**30)),
        ("8xH100", 8, "h100-sxm", int(79.18 * 2**30)),
        ("rtx4090", None, "rtx-4090", int(23.64 * 2**30)),
        ("RTX 4090", None, "rtx-4090", int(23.64 * 2**30)),
        ("2 x b200", 2, "b200-sxm", int(178.35 * 2**30)),
        ("a100-80gb", None, "a100-80gb-sxm", int(79.15 * 2**30)),
        ("rtx3090", None, "rtx-3090", 24_576 * 2**20 - int(0.6 * 2**30)),
    ],
)
def test_a_card_has_many_spellings(text: str, count: int | None, name: str, memory: int) -> None:
    """What people type leads to a card and to the memory that it reports, not to the number on the box."""
    found, card = find(text)
    assert (found, card.name, card.memory) == (count, name, memory)


# Where the collection does not say what one device has, and what it does say of it: a pair of devices, totals that were
# read elsewhere, a runtime's total among the drivers'.
CORRECTED = {"mi250x", "max-1550", "gb10-dgx-spark", "v100-16gb-sxm", "a800-80gb-sxm", "h800-80gb-sxm", "h20-141gb", "l20",
             "mi325x"}  # fmt: skip


def test_the_table_is_what_was_read_of_each_card() -> None:
    """Every card's totals, bandwidth and capability are those of the collection of public logs, or corrected."""
    if not SHARED.exists():
        pytest.skip("the collection of GPUs is not beside this checkout")
    read = {gpu["id"]: gpu for gpu in json.loads(SHARED.read_text(encoding="utf-8"))["gpus"]}
    ours = accelerators()
    assert list(ours) == list(read)
    for name in set(ours) - CORRECTED:
        gpu, card = read[name], ours[name]
        assert (card.marketing_gb, card.driver_mib, card.runtime_gib) == (
            gpu["memory_gb"], gpu["memory_mib_driver"], gpu["memory_gib_runtime"])  # fmt: skip
        assert (card.bandwidth_gb_s, card.tflops_fp8) == (gpu["bandwidth_gb_s"], gpu["tflops_fp8_dense"])
        assert (card.capability, card.bf16) == (gpu["cuda_compute_capability"], gpu["has_bf16"])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        # 0.9 of 79.18 GiB where no engine says; 70.55e9 x 2 B over eight
        (["llama3-70b", "--gpu", "8xh100"],
         {"gpus": 8, "vram_bytes_per_gpu": 85_018_877_624, "utilization": 0.9, "weights_bytes_per_gpu": 17_637_500_000}),
        (["llama3-70b", "--gpu", "h100", "--gpus", "8"], {"gpus": 8, "utilization": 0.9}),
        (["llama3-70b", "--gpu", "h100", "--tp", "2", "--pp", "2"], {"gpus": 4, "utilization": 0.9}),
        (["llama3-70b", "--gpu", "8xh100", "--engine", "vllm"], {"gpus": 8, "utilization": 0.92}),
        (["llama3-70b", "--gpu", "8xh100", "--engine", "vllm@0.19.1"], {"gpus": 8, "utilization": 0.9}),
        (["llama3-70b", "--gpu", "8xh100", "--utilization", "0.5"], {"utilization": 0.5}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_card_gives_its_memory(argv: list[str], expected: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """--gpu stands for --vram, the number of GPUs and a careful share."""
    assert run([*argv, "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)["fit"]
    assert {key: fit[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("argv", "block"),
    [
        # engines-gpu.md A.5: latents take 16 on Hopper and 64 in eight bits, 32 on Blackwell, 16 on Ada
        (["deepseek-v3"], 16),
        (["deepseek-v3", "--kv-dtype", "fp8"], 64),
        (["deepseek-v3", "--gpu", "8xh200"], 16),
        (["deepseek-v3", "--gpu", "8xh200", "--kv-dtype", "fp8"], 64),
        (["deepseek-v3", "--gpu", "8xb200"], 32),
        (["deepseek-v3", "--gpu", "8xl40s", "--kv-dtype", "fp8"], 16),
        (["deepseek-v3.2", "--gpu", "8xb200"], 64),
        # A.6: FlashInfer's gated delta rule on Hopper and on Blackwell, Triton's elsewhere
        (["qwen3-next-80b", "--gpu", "4xh100"], 320),
        (["qwen3-next-80b", "--gpu", "4xa100-80gb"], 272),
        (["llama3-8b", "--gpu", "b200"], 16),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_blocks_of_vllm_follow_the_card(argv: list[str], block: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernels that a card has decide on vLLM's block; without a card those of an H100."""
    run(
        [*argv, "--engine", "vllm", "--weights", "none", "--json"]
        if "--gpu" in argv
        else [*argv, "--engine", "vllm", "--json"]
    )
    assert json.loads(capsys.readouterr().out)["engine"]["block_size"] == block
