"""Logs of starts that failed for want of memory: what was asked, what there was, what would start.

Messages as engines print them, with the pages they are from; sizes by hand.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

Check = Callable[..., tuple[int, Any]]
GIB = 2**30

# vllm-project/vllm#2418, QwenLM/Qwen3#295
TOO_LONG = (
    "ValueError: The model's max seq len ({}) is larger than the maximum number of tokens that can be stored in KV cache "
    "({}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
)


def test_a_request_longer_than_the_cache_of_vllm(check: Check) -> None:
    """3,664 tokens are 229 blocks of 16. A token of Llama 2 13B is 40 layers x 2 x 40 heads x 128 x 2 B = 819,200 B, so
    that 2.80 GiB were there and 3.13 asked for.
    """
    status, document = check(TOO_LONG.format(4096, 3664), "--model", "llama2-13b")
    assert (status, document["verdict"]) == (0, "unknown")
    line, failed = document["lines"][0], document["failed"]
    assert (line["quantity"], line["printed"], line["verdict"]) == ("stored", 3664, "unknown")
    assert (failed["asked_context"], failed["needed_bytes"], failed["available_bytes"]) == (
        4096, 4096 * 819200, 3664 * 819200)  # fmt: skip
    assert (failed["max_context"], failed["max_batch"], failed["change"][0]) == (3664, 0, "--max-model-len 3664")
    memory = f"{3664 * 819200}B"  # with the memory said, the number is one to compare
    assert check(TOO_LONG.format(4096, 3664), "--model", "llama2-13b", "--kv-memory", memory)[1]["verdict"] == "match"
    assert check(TOO_LONG.format(4096, 3680), "--model", "llama2-13b", "--kv-memory", memory)[0] == 1


def test_blocks_and_the_tokens_in_them_are_both_read(check: Check) -> None:
    """vllm-project/vllm#10517: 2.89 GiB of Llama 3.1 8B are 1,478 blocks of 2 MiB, 23,648 tokens, and 29,000 were asked."""
    log = (
        "INFO 12-02 10:00:00 llm_engine.py:249] Initializing an LLM engine (v0.6.4) with config: "
        "model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, max_seq_len=29000, tensor_parallel_size=1, "
        "kv_cache_dtype=auto\n"
        "INFO 12-02 10:01:00 worker.py:232] Memory profiling results: total_gpu_memory=23.58GiB "
        "initial_memory_usage=15.34GiB peak_torch_memory=17.98GiB memory_usage_post_profile=15.35GiB "
        "non_torch_memory=0.35GiB kv_cache_size=2.89GiB gpu_memory_utilization=0.90\n"
        "INFO 12-02 10:01:01 gpu_executor.py:113] # GPU blocks: 1478, # CPU blocks: 2048\n"
        "INFO 12-02 10:01:01 gpu_executor.py:117] Maximum concurrency for 29000 tokens per request: 0.82x\n"
    )
    status, document = check(log + TOO_LONG.format(29000, 23648))
    assert (status, document["verdict"]) == (0, "match")
    assert [line["quantity"] for line in document["lines"]] == ["num_blocks", "cpu_blocks", "concurrency", "stored"]
    assert {line["verdict"] for line in document["lines"]} == {"match"}
    assert document["failed"]["available_bytes"] == 1478 * 2 * 2**20
    assert check(log + TOO_LONG.format(29000, 23664))[0] == 1  # 1,479 blocks
    assert check(log.replace("1478", "1502"))[0] == 1  # 2.933 GiB


def test_a_start_of_vllm_without_memory_for_the_cache(check: Check) -> None:
    """Weights and overheads take 0.3 GiB more than allowed, and one request of 8,192 tokens of Llama 3.1 8B 1 GiB: of
    23.58 GiB these 1.3 are 5.52 %, to be added to 90.
    """
    nothing = (
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when init\n"
    )
    available = "(Worker pid=1) INFO 07-06 10:00:00 [gpu_worker.py:300] Available KV cache memory: -0.3 GiB\n"
    status, document = check(available + nothing)  # without a model too
    assert (status, document["verdict"], document["model"], document["lines"]) == (0, "unknown", None, [])
    assert "0.30 GiB more than --gpu-memory-utilization allows" in document["failed"]["what"]
    profiled = available.replace(
        "Available KV cache memory: -0.3 GiB",
        "Memory profiling results: total_gpu_memory=23.58GiB kv_cache_size=-0.30GiB gpu_memory_utilization=0.90",
    )
    failed = check(profiled + nothing, "--model", "llama3.1-8b", "--context", "8192")[1]["failed"]
    assert (failed["needed_bytes"], failed["available_bytes"]) == (GIB, -3 * GIB // 10)
    assert failed["change"][0] == "--gpu-memory-utilization 0.9552"
    assert failed["max_batch"] == 0


def test_other_processes_hold_the_memory(check: Check) -> None:
    """Of a public test of such messages: 84.11 of 287.98 GiB are 0.29 of it."""
    log = (
        "ValueError: Free memory on device cuda:0 (84.11/287.98 GiB) on startup is less than desired GPU memory "
        "utilization (0.95, 273.59 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.\n"
    )
    failed = check(log)[1]["failed"]
    assert failed["change"][0] == "--gpu-memory-utilization 0.29"
    assert failed["available_bytes"] == 8411 * GIB // 100


def test_a_sampler_without_memory(check: Check) -> None:
    """`gpu_model_runner.py` says so behind the pool, whose numbers are compared: 16 GiB // 2 MiB x 16 tokens."""
    log = (
        "Initializing a V1 LLM engine (v0.20.2) with config: model='meta-llama/Llama-3.1-8B', max_seq_len=8192, "
        "tensor_parallel_size=1, kv_cache_dtype=auto\nAvailable KV cache memory: 16.0 GiB\n"
        "GPU KV cache size: 131,072 tokens\n"
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering "
        "`max_num_seqs` or `gpu_memory_utilization` when initializing the engine.\n"
    )
    document = check(log)[1]
    assert (document["verdict"], document["failed"]["change"][0]) == ("match", "--max-num-seqs N")
    assert "1,024 sequences" in document["failed"]["what"]


def test_a_start_of_sglang_without_memory(check: Check) -> None:
    """sgl-project/sglang#4330 prints 28.60 GB free behind weights of 15.02: with less than 15.02 / 43.62 = 34.4 % for
    both there is nothing for the cache. A request of 8,192 tokens of Llama 3.1 8B is 1 GiB: (15.02 + 1) / 43.62 = 36.7 %.
    """
    log = (
        "[2025-03-12 10:00:00 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=28.60 GB, mem "
        "usage=15.02 GB.\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    status, document = check(log)
    assert (status, document["verdict"], document["failed"]["engine"]) == (0, "unknown", "sglang")
    assert document["failed"]["change"][0] == "--mem-fraction-static 0.345"
    failed = check(log, "--model", "llama3.1-8b", "--context", "8192")[1]["failed"]
    assert (failed["needed_bytes"], failed["change"][0]) == (GIB, "--mem-fraction-static 0.368")
    # the share that was given: 28.60 - 0.7 x 43.62 = -1.934
    given = log.replace("static.\n", "static. Current value: mem_fraction_static=0.3\n")
    assert "1.93 GiB more than --mem-fraction-static allows" in check(given)[1]["failed"]["what"]


def test_tokens_below_zero_of_sglang(check: Check) -> None:
    """sgl-project/sglang#7691: 561,981 tokens too few, of 61 layers x 576 x 2 B = 70,272 B each in DeepSeek V3."""
    log = (
        "[2025-07-02 07:41:58 DP0 TP0] Load weight end. type=DeepseekV3ForCausalLM, dtype=torch.bfloat16, avail "
        "mem=21.73 GB, mem usage=166.59 GB.\n"
        "[2025-07-02 07:41:59 DP0 TP0] max_total_tokens=131072 is larger than the profiled value -561981. Use the "
        "profiled value instead.\nRuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n"
    )
    failed = check(log, "--model", "deepseek-v3")[1]["failed"]
    assert failed["available_bytes"] == -561981 * 70272


@pytest.mark.parametrize(
    ("message", "tokens", "asked", "longest"),
    [
        # NVIDIA/TensorRT-LLM#494, whose message has no numbers; then that of 0.10 (kvCacheManager.cpp)
        (("maxTokensInPagedKvCache must be large enough to process at least 1 sequence to completion (i.e. must be larger "
         "than beam_width * tokensPerBlock * maxBlocksPerSeq)"), 693, 4096, 693),
        (("maxTokensInPagedKvCache (640) must be large enough to process at least 1 sequence to completion (i.e. must be "
         "larger than beam_width (1) * tokensPerBlock (64) * maxBlocksPerSeq (16))"), 640, 1024, 640),
    ],
)  # fmt: skip
def test_a_request_longer_than_the_cache_of_tensorrt_llm(
    message: str, tokens: int, asked: int, longest: int, check: Check
) -> None:
    """A token of Llama 2 7B is 524,288 B."""
    log = f"[TensorRT-LLM][INFO] Using {tokens} tokens in paged KV cache.\n[TensorRT-LLM][ERROR] {message}\n"
    status, document = check(log, "--model", "llama2-7b")
    failed = document["failed"]
    assert (status, document["verdict"]) == (0, "unknown")
    assert (failed["asked_context"], failed["max_context"]) == (asked, longest)
    assert failed["available_bytes"] == tokens * 524288
    assert failed["change"][0] == f"--max_seq_len {longest}"


def test_buffers_of_tensorrt_llm(check: Check) -> None:
    """NVIDIA/TensorRT-LLM#401: an allocation outside the cache."""
    log = (
        "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, mCudaStream->get()): out of memory "
        "(/code/tensorrt_llm/cpp/tensorrt_llm/runtime/tllmBuffers.h:112)\n"
    )
    failed = check(log)[1]["failed"]
    assert (failed["engine"], failed["change"][0]) == ("tensorrt-llm", "--max_batch_size N")


# What of an RTX 3090 is free, as llama.cpp prints it, and weights of a Q4_K_M file.
LLAMA = (
    "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA GeForce RTX 3090) - 23306 MiB free\n"
    "load_tensors:        CUDA0 model buffer size =  4403.49 MiB\n"
    "llama_context: n_seq_max     = 1\nllama_context: n_ctx         = 163840\n"
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 20480.00 MiB on device 0: cudaMalloc failed: out of memory\n"
    "alloc_tensor_range: failed to allocate CUDA0 buffer of size 21474836480\n"
    "llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache\n"
)


def test_a_cache_of_llama_cpp_that_does_not_fit(check: Check) -> None:
    """163,840 cells x 131,072 B are 21,474,836,480 B exactly. (23,306 - 4,403.49) MiB x 8 cells are 151,220, in whole
    256s 151,040.
    """
    status, document = check(LLAMA, "--model", "llama3.1-8b")
    failed = document["failed"]
    assert (status, document["verdict"], document["lines"][0]["quantity"]) == (0, "match", "bytes")
    assert (failed["asked_context"], failed["needed_bytes"]) == (163840, 163840 * 131072)
    assert (failed["max_context"], failed["max_batch"], failed["change"][0]) == (151040, 0, "-c 151040")
    status, document = check(LLAMA.replace("21474836480", "22548578304"), "--model", "llama3.1-8b")
    assert (status, document["verdict"]) == (1, "mismatch")
    # Qwen 2.5 7B in 8.5 bits an element: 163,840 x 28 layers x 4 heads x 2 x 136 B; no line says the format
    document = check(LLAMA.replace("21474836480", "4991221760"), "--model", "qwen2.5-7b")[1]
    assert (document["verdict"], document["runs"][0]["explained_by"]) == ("match", ["a q8_0 cache"])


def test_a_buffer_of_a_cpu_is_longer_by_its_alignment(check: Check) -> None:
    """ggml-org/llama.cpp#8101: 1,048,576 x 131,072 B and 32."""
    log = (
        "llama_new_context_with_model: n_ctx      = 1048576\nllama_new_context_with_model: n_batch    = 2048\n"
        "llama_new_context_with_model: n_ubatch   = 512\nllama_new_context_with_model: flash_attn = 0\n"
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 137438953504\n"
        "llama_kv_cache_init: failed to allocate buffer for kv cache\n"
        "llama_new_context_with_model: llama_kv_cache_init() failed for self-attention cache\n"
    )
    document = check(log, "--model", "llama3-8b")[1]
    assert (document["verdict"], document["failed"]["asked_context"]) == ("match", 1048576)


def test_a_buffer_in_mebibytes_alone(check: Check) -> None:
    """Builds of early 2025 print no bytes (abetlen/llama-cpp-python#1944): 20,480 MiB, or a tenth more."""
    log = "".join(line for line in LLAMA.splitlines(keepends=True) if "alloc_tensor_range" not in line)
    document = check(log, "--model", "llama3.1-8b")[1]
    assert (document["verdict"], document["lines"][0]["printed"]) == ("match", 20480.0)
    assert check(log.replace("20480.00", "22528.00"), "--model", "llama3.1-8b")[0] == 1


def test_one_device_of_several(check: Check) -> None:
    """Half of the layers on the first device: its part neither confirms nor contradicts."""
    log = LLAMA.replace("20480.00", "10240.00").replace("21474836480", "10737418240")
    status, document = check(log, "--model", "llama3.1-8b")
    assert (status, [line["verdict"] for line in document["lines"]]) == (0, ["unknown"])
    assert "one of several devices" in document["lines"][0]["why"]


def test_what_llama_cpp_mends_itself_is_no_failure(check: Check) -> None:
    """ggml-org/llama.cpp#26297: compute buffers are tried again without pipeline parallelism."""
    log = (
        "llama_context: n_ctx         = 4096\n"
        "ggml_gallocr_reserve_n_impl: failed to allocate CUDA1 buffer of size 54262464512\n"
        "graph_reserve: failed to allocate compute buffers\n"
    )
    assert "for computing" in check(log, "--model", "llama3.1-8b")[1]["failed"]["what"]
    again = "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism\n"
    assert check(log + again, "--model", "llama3.1-8b") == (2, None)


def test_ollama_refuses_a_model(check: Check) -> None:
    """31 GiB wanted and 14.2 there: the cache of Llama 3.1 8B at 131,072 tokens is 16 GiB of it, and has to lose 16.8."""
    log = 'time=x level=WARN msg="model requires more system memory ({} GiB) than is available (14.2 GiB)"\n'
    failed = check(log.format("31.0"))[1]["failed"]
    assert (failed["engine"], failed["needed_bytes"], failed["max_context"]) == ("ollama", 31 * GIB, None)
    known = ("--model", "llama3.1-8b", "--context", "131072")
    # 6.2 GiB more than there is: 9.8 of the 16 are left, 80,281 tokens, in whole 1,024s 79,872
    failed = check(log.format("20.4"), *known)[1]["failed"]
    assert (failed["max_context"], failed["change"][0]) == (79872, "num_ctx 79872")


@pytest.mark.parametrize(
    ("line", "needed", "available"),
    [
        ("[METAL] Command buffer execution failed: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOf", None, None),
        (("ValueError: [metal::malloc] Attempting to allocate 134767706112 bytes which is greater than the maximum allowed "
         "buffer size of 86586540032 bytes."), 134767706112, 86586540032),
    ],
)  # fmt: skip
def test_mlx_without_memory(line: str, needed: int | None, available: int | None, check: Check) -> None:
    """ml-explore/mlx#479, and a public report of mlx-vlm."""
    status, document = check(f"libc++abi: terminating due to uncaught exception: {line}\n")
    failed = document["failed"]
    assert (status, failed["engine"], failed["needed_bytes"], failed["available_bytes"]) == (
        0,
        "mlx",
        needed,
        available,
    )
    assert "--max-kv-size N" in failed["change"]


def test_words_for_people(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The verdict says that the start failed and why, and notes what would start."""
    log = tmp_path / "x.log"
    log.write_text(TOO_LONG.format(4096, 3664))
    assert run(["check", str(log), "--model", "llama2-13b"]) == 0
    out = capsys.readouterr().out
    assert "the start failed at line 1: no room for 4,096 tokens" in out
    assert "3.125 GiB asked for, 2.795 GiB there" in out
    assert "would start: 3,664 tokens" in out
    assert "to change: --max-model-len 3664; " in out
    assert run(["check", str(log), "-q"]) == 0  # no model is named: what the message says is told
    assert capsys.readouterr().out == "unknown\n"


def test_a_loop_of_failures_is_told_in_brief(check: Check) -> None:
    """A server that fails and is started again a hundred times has a hundred starts, and few warnings."""
    begun = "Initializing a V1 LLM engine (v0.20.2) with config: model='who/knows', max_seq_len=4096\n"
    document = check((begun + TOO_LONG.format(4096, 3664)) * 100)[1]
    assert len(document["runs"]) == 100
    assert len(document["warnings"]) <= 12
