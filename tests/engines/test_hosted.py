"""Weights that the host keeps (`--cpu-offload-gb`), against arithmetic by hand and public start-ups."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.cli.main import run

Asked = Callable[..., Any]
GIB = 2**30
# Llama 3.1 8B: the gate and up projections are one tensor of 2 x 14,336 x 4,096 in 16 bits. Two tables of 128,256 x 4,096
# stay. The preset's 8.03B parameters have three digits.
GATE_AND_UP, TABLES, ALL = 2 * 14_336 * 4_096 * 2, 2 * 128_256 * 4_096 * 2, 16_060_000_000


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """The document of a question to an engine, with its own flags."""

    def asked(model: str, gpu: str, engine: str, *flags: str, verb: str = "size") -> Any:
        assert run([verb, model, "--gpu", gpu, "--engine", engine, "--json", "--", *flags]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    return asked


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_so_much_of_the_weights_is_the_hosts(asked: Asked, engine: str) -> None:
    """The cache gets what goes, and whole tensors may take up to one more than was asked."""
    bare, found = (asked("llama3.1-8b", "h100", engine, *flags)["fit"] for flags in ((), ("--cpu-offload-gb", "4")))
    assert found["weights_bytes_per_gpu"] == ALL - 4 * GIB
    assert found["weights_on_host_bytes_per_gpu"] == 4 * GIB
    assert bare["weights_on_host_bytes_per_gpu"] is None
    assert found["kv_budget_bytes_per_gpu"] - bare["kv_budget_bytes_per_gpu"] == 4 * GIB
    more = found["kv_budget_bytes_per_gpu_high"] - bare["kv_budget_bytes_per_gpu_high"]
    assert more == 4 * GIB + GATE_AND_UP
    assert found["kv_budget_bytes_per_gpu_low"] - bare["kv_budget_bytes_per_gpu_low"] == 4 * GIB


def test_tables_stay(asked: Asked) -> None:
    found = asked("llama3.1-8b", "h100", "vllm", "--cpu-offload-gb", "100")["fit"]
    assert found["weights_bytes_per_gpu"] == pytest.approx(TABLES, rel=0.001)
    assert found["weights_bytes_per_gpu"] + found["weights_on_host_bytes_per_gpu"] == ALL


def test_each_gpu_of_several_leaves_as_much(asked: Asked) -> None:
    """`The space in GiB to offload to CPU, per GPU` (vllm config/offload.py); a rank's tensor is half as large."""
    bare, found = (asked("llama3.1-8b", "2xh100", "vllm", *flags)["fit"] for flags in ((), ("--cpu-offload-gb", "1.5")))
    assert bare["weights_bytes_per_gpu"] - found["weights_bytes_per_gpu"] == 3 * GIB // 2
    more = found["kv_budget_bytes_per_gpu_high"] - bare["kv_budget_bytes_per_gpu_high"]
    assert more == 3 * GIB // 2 + GATE_AND_UP // 2


def test_a_model_that_is_larger_than_the_card(asked: Asked) -> None:
    """vLLM's words of the flag: with 10 of a 24 GB card, a 13B model of 26 GB can be loaded."""
    flags = ("--max-model-len", "4096", "--max-num-seqs", "16")
    bare, found = (asked("llama2-13b", "rtx4090", "vllm", *flags, *more) for more in ((), ("--cpu-offload-gb", "10")))
    assert bare["fit"]["kv_budget_bytes_per_gpu"] < 0 < found["fit"]["kv_budget_bytes_per_gpu"]
    assert found["fit"]["gpus_for_weights"] == 1
    (told,) = (line for line in found["warnings"] if "from the host" in line)
    assert "pinned memory" in told


def test_experts_of_a_layer_are_one_tensor(asked: Asked) -> None:
    """Qwen3-30B-A3B: 128 experts, gate and up of 2,048 to 768 in 16 bits: 768 MiB."""
    bare, found = (asked("qwen3-30b-a3b", "h100", "vllm", *flags)["fit"] for flags in ((), ("--cpu-offload-gb", "20")))
    more = found["kv_budget_bytes_per_gpu_high"] - bare["kv_budget_bytes_per_gpu_high"]
    assert more == 20 * GIB + 128 * 2 * 2_048 * 768 * 2


def test_a_grid_counts_the_same(asked: Asked) -> None:
    flags = ("--cpu-offload-gb", "4")
    fit = asked("llama3.1-8b", "h100", "vllm", *flags)["fit"]
    (row,) = asked("llama3.1-8b", "h100", "vllm", *flags, verb="sweep")["rows"]
    assert row["kv_budget_bytes_per_gpu"] == fit["kv_budget_bytes_per_gpu"]
    assert row["max_batch"] == fit["max_batch"]


@pytest.mark.parametrize(
    "flags",
    [
        ("--offload-group-size", "8"),
        ("--cpu-offload-gb", "4", "--cpu-offload-params", "experts"),
        ("--cpu-offload-gb", "4", "--offload-backend", "prefetch"),
    ],
)
def test_another_choice_is_named_as_uncounted(asked: Asked, flags: tuple[str, ...]) -> None:
    found = asked("llama3.1-8b", "h100", "vllm", *flags)
    assert found["fit"]["weights_bytes_per_gpu"] == ALL
    assert any("chooses which weights the host keeps" in line for line in found["warnings"])


def test_none_on_the_host_is_none(asked: Asked) -> None:
    assert asked("llama3.1-8b", "h100", "sglang", "--cpu-offload-gb", "0")["fit"]["weights_bytes_per_gpu"] == ALL


@pytest.mark.parametrize(
    ("model", "engine", "word", "said"),
    [
        # Start-ups of 0.11.0 with Qwen3-Next (vllm #26206) and of 0.16.0 (#36279) ended so.
        ("qwen3-next-80b", "vllm@0.11.0", "30", "--cpu-offload-gb: vllm 0.11.0 refuses it where caches are of sev"),
        ("gemma3-27b", "vllm@0.16.0", "4", "--cpu-offload-gb: vllm 0.16.0 refuses it where caches are of several"),
        ("llama3.1-8b", "vllm", "much", "--cpu-offload-gb: "),
        ("llama3.1-8b", "vllm", "-1", "--cpu-offload-gb: "),
        ("llama3.1-8b", "sglang", "1.5", "--cpu-offload-gb: expected a whole number"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], model: str, engine: str, word: str, said: str) -> None:
    assert run([model, "--gpu", "h100", "--engine", engine, "--", "--cpu-offload-gb", word]) == 2
    told = capsys.readouterr().err.splitlines()
    assert said in told[0]
    assert len(told) <= 2
