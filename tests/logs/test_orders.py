"""The lines of one start in another order than the engine's: reports print the pool first, collectors the newest line."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., tuple[int, Any]]

# noonghunna/club-3090#602 and others: a report script prints "KV pool sizing" before "Engine config". The end of the
# arguments is filled in. Qwen 3.6 27B at tp 2 in 8 bits: 289,661 tokens and 1.10x as printed.
POOL_FIRST = """\
(Worker_TP0 pid=34) INFO 07-06 12:23:48 [gpu_worker.py:508] Available KV cache memory: 5.23 GiB
(EngineCore pid=25) INFO 07-06 12:23:48 [kv_cache_utils.py:2146] GPU KV cache size: 289,661 tokens
(EngineCore pid=25) INFO 07-06 12:23:48 [kv_cache_utils.py:2147] Maximum concurrency for 262,144 tokens per request: 1.10x
(APIServer pid=1) INFO 07-06 12:22:15 [api_utils.py:273] non-default args: {'model': '/m/qwen3.6-27b-fp8', \
'dtype': 'bfloat16', 'max_model_len': 262144, 'quantization': 'fp8', 'tensor_parallel_size': 2, 'kv_cache_dtype': \
'int8_per_token_head', 'enable_prefix_caching': True, 'max_num_batched_tokens': 8192, 'max_num_seqs': 2, \
'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}
(EngineCore pid=25) INFO 07-06 12:22:50 [core.py:114] Initializing a V1 LLM engine (v0.24.0) with config: \
model='/m/qwen3.6-27b-fp8'
"""
# A public log of QwQ 32B on 4 L4 in March 2025 (see tests/cli/test_cli_check.py): two ranks of it.
SGLANG = """\
[2025-03-08 12:28:40] server_args=ServerArgs(model_path='Qwen/QwQ-32B', mem_fraction_static=0.85, tp_size=4)
[2025-03-08 12:28:55 TP0] Load weight begin. avail mem=21.63 GB
[2025-03-08 12:29:20 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB
[2025-03-08 12:29:21 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB
"""
# E323 of the collection: Llama 3.3 70B at 131,072 tokens, 327,680 B each, in f16.
LLAMA = """\
0.01.000.100 I llama_model_loader: loaded meta data with 30 key-value pairs and 724 tensors from Llama-3.3-70B.gguf
0.02.000.100 I llama_context: n_seq_max     = 1
0.02.000.200 I llama_context: n_ctx         = 131072
0.02.000.300 I llama_kv_cache:        CPU KV buffer size =  2048.00 MiB
0.02.000.400 I llama_kv_cache:      CUDA0 KV buffer size = 38912.00 MiB
0.02.000.500 I llama_kv_cache: size = 40960.00 MiB (131072 cells,  80 layers,  1/1 seqs), K (f16): 20480.00 MiB, \
V (f16): 20480.00 MiB
"""
TIMES = re.compile(r"INFO \d\d-\d\d [\d:]{8} |^\[[\d-]{10} [\d:]{8}|^\d\.\d\d\.\d{3}\.\d{3} I ", re.MULTILINE)
LOGS = {"vllm": POOL_FIRST, "sglang": SGLANG, "llama.cpp": LLAMA}


def orders(text: str) -> dict[str, str]:
    """The lines from the end, the configuration behind what was counted, and the pool in front."""
    lines = text.splitlines(keepends=True)
    half = len(lines) // 2
    return {"reversed": "".join(reversed(lines)), "halves": "".join(lines[half:] + lines[:half])}


@pytest.mark.parametrize("timed", [True, False], ids=["times", "no times"])
@pytest.mark.parametrize("order", ["as it is", "reversed", "halves"])
@pytest.mark.parametrize("engine", LOGS)
def test_any_order_is_one_start(engine: str, order: str, timed: bool, check: Check) -> None:
    """All numbers agree as they do in the engine's own order, with or without times in front of the lines."""
    text = {"as it is": LOGS[engine], **orders(LOGS[engine])}[order]
    if not timed:
        text = TIMES.sub("INFO ", text)
    status, document = check(text)
    assert (status, document["verdict"], len(document["runs"])) == (0, "match", 1)
    assert {line["verdict"] for line in document["lines"]} == {"match"}
    assert document["runs"][0]["explained_by"] == []


@pytest.mark.parametrize("timed", [True, False], ids=["times", "no times"])
def test_any_permutation_of_a_start_of_vllm(timed: bool, check: Check) -> None:
    """Five lines in 40 of their 120 orders."""
    lines = (POOL_FIRST if timed else TIMES.sub("INFO ", POOL_FIRST)).splitlines(keepends=True)
    shuffled = random.Random(5)
    for _ in range(40):
        shuffled.shuffle(lines)
        document = check("".join(lines))[1]
        assert document["verdict"] == "match"
        assert document["request"]["tp"] == 2


def test_the_asker_may_name_the_model_too(check: Check) -> None:
    """What the configuration behind the pool says of ranks, format and version holds beside `--model`."""
    status, document = check(POOL_FIRST, "--model", "qwen3.6-27b")
    assert (status, document["verdict"], document["runs"][0]["version"]) == (0, "match", "0.24.0")
    assert check(POOL_FIRST.replace("289,661", "289,999"), "--model", "qwen3.6-27b")[0] == 1


def test_several_starts_with_their_pools_in_front(check: Check) -> None:
    """Each pool is that of the configuration behind it, as the times say: 16 GiB hold 131,072 tokens of Llama 3.1 8B
    (131,072 B each), and 12 GiB 65,536 of Llama 3.2 3B at 114,688 B ... 112,347 by whole blocks of 16.
    """

    def start(hour: int, model: str, memory: str, tokens: str) -> str:
        return (
            f"INFO 07-06 {hour}:05:00 Available KV cache memory: {memory} GiB\n"
            f"INFO 07-06 {hour}:05:01 GPU KV cache size: {tokens} tokens\n"
            f"INFO 07-06 {hour}:00:00 Initializing a V1 LLM engine (v0.20.2) with config: model='{model}', "
            "max_seq_len=8192, tensor_parallel_size=1, kv_cache_dtype=auto\n"
        )

    # 12 GiB // (16 x 114,688 B) = 7,021 blocks: 112,336 tokens
    log = start(10, "meta-llama/Llama-3.1-8B", "16.0", "131,072")
    log += start(12, "meta-llama/Llama-3.2-3B", "12.0", "112,336")
    status, document = check(log)
    assert status == 0
    assert [run["model"]["preset"] for run in document["runs"]] == ["llama3.1-8b", "llama3.2-3b"]
    assert [line["verdict"] for line in document["lines"]] == ["match", "match"]


def test_logs_set_behind_each_other_stay_two(check: Check) -> None:
    """Two machines that started at the same time are not mixed, although their times overlap."""

    def start(model: str, memory: str, tokens: str) -> str:
        return (
            f"INFO 07-06 10:00:00 Initializing a V1 LLM engine (v0.20.2) with config: model='{model}', "
            "max_seq_len=8192, tensor_parallel_size=1, kv_cache_dtype=auto\n"
            f"INFO 07-06 10:05:00 Available KV cache memory: {memory} GiB\n"
            f"INFO 07-06 10:05:01 GPU KV cache size: {tokens} tokens\n"
        )

    log = start("meta-llama/Llama-3.1-8B", "16.0", "131,072") + start("meta-llama/Llama-3.2-3B", "12.0", "112,336")
    status, document = check(log)
    assert (status, [line["verdict"] for line in document["lines"]]) == (0, ["match", "match"])


def test_the_end_of_another_start_is_not_taken_for_this_one(check: Check) -> None:
    """A pool whose time is before the configuration behind it is another start's, whose beginning is cut off."""
    before = POOL_FIRST.splitlines(keepends=True)[1].replace("12:23:48", "09:00:00")
    begun = "".join(POOL_FIRST.splitlines(keepends=True)[3:])
    status, document = check(before + begun, "--model", "qwen3.6-27b", "--kv-memory", "5.23GiB")
    assert (status, document["lines"][0]["verdict"]) == (1, "mismatch")  # by the defaults: nothing says otherwise
