"""Terms of the memory that public logs print, beside the estimate of each. They never decide about the log."""

from collections.abc import Callable
from typing import Any

import pytest

# Llama-3.1-8B-Instruct on one A100 80GB, vllm/vllm-openai:v0.31.0, from a public course repository (October 2026).
A100 = """\
INFO 10-06 16:59:40 [api_server.py:1] vLLM API server version 0.31.0
INFO 10-06 16:59:40 [utils.py:1] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct'}
(EngineCore pid=326) INFO 10-06 17:00:11 [model_runner.py:407] Model loading took 15.0 GiB memory and 5.42 seconds
(EngineCore pid=326) INFO 10-06 17:00:33 [gpu_worker.py:692] Available KV cache memory: 56.21 GiB
(EngineCore pid=326) INFO 10-06 17:00:33 [kv_cache_utils.py:2464] GPU KV cache size: 460,496 tokens, Maximum \
concurrency for 131,072 tokens per request: 3.51x
(EngineCore pid=326) INFO 10-06 17:00:41 [gpu_worker.py:955] Free memory on device (78.84/79.25 GiB) on startup. \
Desired GPU memory utilization is (0.92, 72.91 GiB). Actual usage is 15.26 GiB for consumed memory (weights + \
non-torch), 1.44 GiB for peak activation, and 0.23 GiB for CUDAGraph memory.
"""
# llava-v1.6-mistral-7b on an H100, vLLM 0.10.2, from a public gist; the language part is a Mistral 7B.
H100 = """\
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:05 [core.py:76] Initializing a V1 LLM engine (v0.10.2) with config: \
model='mistralai/Mistral-7B-Instruct-v0.2', dtype=torch.float16, max_seq_len=4096, tensor_parallel_size=1, \
enforce_eager=False, kv_cache_dtype=auto
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:21 [gpu_model_runner.py:2392] Model loading took 14.0786 GiB and 10.2 seconds
(EngineCore_DP0 pid=3021) WARNING using default config for device_name=NVIDIA_H100_80GB_HBM3
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:33 [gpu_worker.py:298] Available KV cache memory: 55.15 GiB
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:34 [kv_cache_utils.py:864] GPU KV cache size: 451,744 tokens
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:39 [gpu_model_runner.py:3118] Graph capturing finished in 5 secs, took \
0.67 GiB
(EngineCore_DP0 pid=3021) INFO 09-23 18:12:39 [gpu_worker.py:391] Free memory on device (78.66/79.19 GiB) on startup. \
Desired GPU memory utilization is (0.9, 71.27 GiB). Actual usage is 14.08 GiB for weight, 1.97 GiB for peak activation, \
0.07 GiB for non-torch memory, and 0.67 GiB for CUDAGraph memory.
"""


def estimates(document: Any) -> dict[str, Any]:
    return {line["quantity"]: line for line in document["lines"] if line["verdict"] == "estimate"}


def test_each_printed_term_has_an_estimate(check: Callable[..., tuple[int, Any]]) -> None:
    """Of an A100's start-up: printed as it stands there, and the difference from what is predicted."""
    status, document = check(A100, "--gpu", "a100-80gb")
    found = estimates(document)
    printed = {name: line["printed"] for name, line in found.items()}
    assert printed == {"weights": 15.0, "cache": 56.21, "total": 79.25, "consumed": 15.26, "peak_and_graphs": 1.44}
    assert (status, document["verdict"]) == (0, "match")
    for line in found.values():
        assert line["difference"] == pytest.approx(line["predicted"] - line["printed"], abs=0.011)
        assert line["difference_percent"] == pytest.approx(100 * line["difference"] / line["printed"], abs=0.7)
    assert abs(found["cache"]["difference_percent"]) < 1.5
    assert found["cache"]["low"] <= 56.21 <= found["cache"]["high"]


def test_the_card_may_be_in_the_log(check: Callable[..., tuple[int, Any]]) -> None:
    """Kernels' configurations are named by it: NVIDIA_H100_80GB_HBM3."""
    found = estimates(check(H100)[1])
    assert abs(found["weights"]["difference_percent"]) < 5  # an encoder beside the 7.24B parameters
    assert abs(found["total"]["difference_percent"]) < 0.2
    assert {"activations", "non_torch"} <= found.keys()
    assert not estimates(check(H100.replace("device_name", "device"))[1])


def test_no_estimate_makes_a_mismatch(check: Callable[..., tuple[int, Any]]) -> None:
    """Weights of 40 GiB where 15 are due: told, and the log's own numbers still agree."""
    status, document = check(A100.replace("took 15.0 GiB", "took 40.0 GiB"), "--gpu", "a100-80gb")
    assert (status, document["verdict"]) == (0, "match")
    assert estimates(document)["weights"]["difference_percent"] == pytest.approx(-62.6, abs=0.2)


def test_the_report_says_which_term_is_off_most(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In words, behind the verdict."""
    from kvcalc.cli.main import run

    log = tmp_path / "server.log"
    log.write_text(A100.replace("took 15.0 GiB", "took 40.0 GiB"))
    assert run(["check", str(log), "--gpu", "a100-80gb"]) == 0
    out = capsys.readouterr().out
    assert "estimate: -25.04 GiB, -62.6 %" in out
    assert "of the estimated terms weights is off most: 25.04 GiB below what is printed" in out
