"""What a log does not state is open: it is tried, named where one value explains the numbers, and unknown where several do."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

Check = Callable[..., tuple[int, Any]]

# A public log of Gemma 4 E2B, cut by a filter: 4,096 cells are 4 slots x a window of 512 and a micro-batch of 2,048.
WINDOWS = """\
0.08.770.185 I llama_context: n_ctx         = 8192
0.08.770.186 I llama_context: n_ctx_seq     = 8192
0.08.770.191 I llama_context: kv_unified    = true
0.08.773.947 I llama_kv_cache_iswa: creating non-SWA KV cache, size = 8192 cells
0.08.775.296 I llama_kv_cache:    Vulkan1 KV buffer size =    48.00 MiB
0.08.817.753 I llama_kv_cache_iswa: creating     SWA KV cache, size = 4096 cells
0.08.819.204 I llama_kv_cache:    Vulkan1 KV buffer size =    48.00 MiB
0.10.687.474 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'true'
"""


def explained(document: Any) -> list[str]:
    found: list[str] = document["runs"][0]["explained_by"]
    return found


def test_a_micro_batch_that_is_not_stated(check: Check) -> None:
    """One value explains the cells; a stated one that does not is a contradiction."""
    status, document = check(WINDOWS, "--model", "gemma4-e2b")
    assert (status, document["verdict"], explained(document)) == (0, "match", ["-ub 2048"])
    ubatch = "0.08.770.187 I llama_context: n_ubatch      = {}\n0.08.770.187 I llama_context: n_batch       = 2048\n"
    stated = check(ubatch.format(2048) + WINDOWS, "--model", "gemma4-e2b")[1]
    assert (stated["verdict"], explained(stated)) == ("match", [])
    assert check(ubatch.format(512) + WINDOWS, "--model", "gemma4-e2b")[0] == 1
    known = check(WINDOWS, "--model", "gemma4-e2b", "--engine", "llama.cpp", "--", "-ub", "2048", "-np", "4", "-kvu")[1]
    assert (known["verdict"], explained(known)) == ("match", [])


def test_slots_that_are_not_stated(check: Check) -> None:
    """Without the slots 4 x 512 + 2,048 and 6 x 512 + 1,024 are both 4,096 cells: nothing is sure."""
    status, document = check("".join(WINDOWS.splitlines(keepends=True)[:-1]), "--model", "gemma4-e2b")
    assert (status, document["verdict"]) == (0, "unknown")
    assert {"-ub 2048, -np 4 -kvu", "-ub 1024, -np 6 -kvu"} <= set(explained(document))
    assert [line["verdict"] for line in document["lines"]] == ["match", "match", "unknown", "unknown"]


def test_slots_that_the_server_states_late(check: Check) -> None:
    """`n_slots` with its length is a context too: 4 slots of 8,192 cells each are 32,768 in all."""
    line = "llama_kv_cache: size = 4096.00 MiB (  8192 cells,  32 layers,  4/4 seqs), K (f16): 2048.00 MiB, V (f16): 2048.00 MiB\n"
    slots = "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 8192, kv_unified = 'false'\n"
    status, document = check(line + slots, "--model", "llama3-8b")
    assert (status, document["verdict"]) == (0, "match")
    assert (document["request"]["batch"], document["request"]["context"]) == (4, 8192)


def test_a_right_engine_by_the_right_cause(check: Check) -> None:
    """With the sequences stated, and cells that builds of May 2025 could not share, it is the micro-batch and no build."""
    stated = WINDOWS.replace("n_ctx_seq     = 8192", "n_seq_max     = 4")
    assert explained(check(stated, "--model", "gemma4-e2b")[1]) == ["-ub 2048"]


CUT = (
    "(APIServer pid=1) INFO 07-06 12:22:15 [api_utils.py:273] non-default args: {{'model': '{}', 'dtype': 'bfloat16', "
    "'max_model_len': 8192, 'quantiz\n"
    "(Worker_TP0 pid=34) INFO 07-06 12:23:48 [gpu_worker.py:508] Available KV cache memory: 16.0 GiB\n"
    "(Worker_TP1 pid=35) INFO 07-06 12:23:48 [gpu_worker.py:508] Available KV cache memory: 16.0 GiB\n"
    "(EngineCore pid=25) INFO 07-06 12:23:48 [kv_cache_utils.py:2146] GPU KV cache size: {} tokens\n"
)


def test_ranks_are_counted_where_the_arguments_are_cut(check: Check) -> None:
    """`Worker_TP1` is one of two, or more: 16 GiB hold 262,144 tokens of Llama 3.1 8B at 65,536 B on each of 2 GPUs."""
    status, document = check(CUT.format("meta-llama/Llama-3.1-8B", "262,144"))
    assert (status, document["verdict"], document["request"]["tp"]) == (0, "match", 2)
    # a line of a worker that says nothing else
    worker = "(VllmWorker TP3 pid=37) INFO 07-06 12:22:59 [gpu_model_runner.py:2007] Starting to load model /m/x...\n"
    four = CUT.replace("quantiz\n", "quantiz\n" + worker).format("meta-llama/Llama-3.1-8B", "524,288")
    status, document = check(four)
    assert (status, document["verdict"], document["request"]["tp"]) == (0, "match", 4)


def test_formats_that_are_cut_off(check: Check) -> None:
    """Twice as many tokens are an fp8 cache, which is named; an odd number of them is explained by nothing."""
    document = check(CUT.format("meta-llama/Llama-3.1-8B", "524,288"))[1]
    assert (document["verdict"], explained(document)) == ("match", ["an fp8 cache"])
    assert check(CUT.format("meta-llama/Llama-3.1-8B", "600,000"))[0] == 1


def test_what_is_stated_is_not_tried(check: Check) -> None:
    """A log that says tp 2, or a 16-bit cache, is contradicted by numbers of tp 4 or of fp8, and no answer names these."""
    whole = CUT.replace("'quantiz", "'tensor_parallel_size': 2, 'kv_cache_dtype': 'bfloat16'}}")
    status, document = check(whole.format("meta-llama/Llama-3.1-8B", "524,288"))
    assert (status, document["verdict"], explained(document)) == (1, "mismatch", [])
    said = str(document["runs"][0]["explanations"])
    assert "tp 4" not in said
    assert "fp8" not in said
    defaults = CUT.replace(", 'quantiz", "}}").replace("Worker_TP0 pid=34", "Worker pid=34")
    defaults = defaults.replace(
        "Worker_TP1 pid=35", "Worker pid=34"
    )  # arguments that are whole name what is no default
    assert check(defaults.format("meta-llama/Llama-3.1-8B", "262,144"))[0] == 1
    assert check(defaults.format("meta-llama/Llama-3.1-8B", "131,072"))[1]["verdict"] == "match"


def test_drafts_that_are_cut_off(check: Check) -> None:
    """noonghunna/club-3090#602 without the end of its arguments: three drafted tokens explain 289,661."""
    from .test_orders import POOL_FIRST

    cut = POOL_FIRST.replace(
        ", 'max_num_seqs': 2, 'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 3}}", ""
    )
    document = check(cut)[1]
    assert (document["verdict"], explained(document)) == ("match", ["3 drafted tokens"])


# NVIDIA's logs: a checkpoint that declares its cache, and ranks by processes. 8,219 blocks of 32 in 16.05 GiB are 65,536
# B a token: Llama 3.1 8B in 8 bits on one GPU, or in 16 on two.
TENSORRT = (
    "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 31.84 GiB, available: 17.83 GiB\n"
    "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 8219\n"
    "[TensorRT-LLM][INFO] Number of tokens per block: 32.\n"
    "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008)\n"
)
QUANTISED = "[TRT-LLM] [I] Setting kv_cache_quant_algo=FP8 form HF quant config.\n"
RANKS = "[TensorRT-LLM][INFO] MPI size: {0}, MPI local size: {0}, rank: 0\n"


@pytest.mark.parametrize(("front", "tp"), [(RANKS.format(1) + QUANTISED, 1), (RANKS.format(2), 2)])
def test_checkpoints_and_processes_of_tensorrt_llm(front: str, tp: int, check: Check) -> None:
    """The declared format and the number of processes hold as flags would."""
    status, document = check(front + TENSORRT, "--model", "llama3.1-8b")
    assert (status, document["verdict"], explained(document)) == (0, "match", [])
    assert {line["verdict"] for line in document["lines"]} == {"match"}
    assert (document["request"]["tp"], document["request"]["k_dtype"]) == (tp, "fp8" if tp == 1 else "bf16")
    both = RANKS.format(2) + QUANTISED + TENSORRT
    assert check(both, "--model", "llama3.1-8b")[0] == 1


def test_tensorrt_llm_says_neither(check: Check) -> None:
    """Then an fp8 cache and two ranks explain it equally well."""
    document = check(TENSORRT, "--model", "llama3.1-8b")[1]
    assert (document["verdict"], explained(document)) == ("unknown", ["tp 2", "an fp8 cache"])


def test_flags_behind_dashes_count(check: Check) -> None:
    """vllm-project/vllm#2136: 8 GiB of host memory are 1,310 blocks of 13B at tp 2, 6,553,600 B each."""
    log = "INFO 12-16 10:00:00 llm_engine.py:222] # GPU blocks: 1464, # CPU blocks: {}\n"
    flags = ("--tensor-parallel-size=2", "--swap-space=8")
    for words in (
        ("--engine", "vllm@0.11.0", "--", *flags),
        ("--", "vllm", "serve", "meta-llama/Llama-2-13b-hf", *flags),
    ):
        asked = ("--model", "llama2-13b", *words)
        lines = check(log.format(1310), *asked)[1]["lines"]
        assert [(line["quantity"], line["verdict"]) for line in lines] == [
            ("num_blocks", "unknown"),
            ("cpu_blocks", "match"),
        ]
        assert check(log.format(655), *asked)[0] == 1


def test_a_command_names_engine_and_model(check: Check) -> None:
    """16 GiB of Llama 3.1 8B, as the command of the start has it; a log's own name for the model goes before it."""
    log = "GPU KV cache size: 131,072 tokens\n"
    command = ("--kv-memory", "16GiB", "--", "vllm", "serve", "meta-llama/Llama-3.1-8B", "--max-model-len", "32768")
    status, document = check(log, *command)
    assert (status, document["verdict"], document["request"]["context"]) == (0, "match", 32768)
    assert check(log, *command, "--tensor-parallel-size", "2")[0] == 1
    assert check(log, "--kv-memory", "16GiB", "--", "llama-server", "-m", "x.gguf") == (2, None)


def test_rules_that_leave_nothing_to_compare_are_tried(check: Check) -> None:
    """vllm-project/vllm#16118: Llama 4 Scout at tp 8 needs 24.00 GiB where chunks are kept in full, as in 0.11."""
    log = (
        "ValueError: To serve at least one request with the models's max seq len (1048576), (24.00 GiB KV cache is needed, "
        "which is larger than the available KV cache memory (9.97 GiB). Try increasing `gpu_memory_utilization`\n"
    )
    document = check(log, "--model", "llama4-scout", "--tp", "8")[1]
    assert (document["verdict"], explained(document)) == ("match", ["the rules of vllm 0.14.0"])  # the last before 0.15


@pytest.mark.parametrize("lines", list(itertools.permutations(range(3)))[:3])
def test_lines_of_older_engines(lines: tuple[int, ...], check: Check) -> None:
    """ggml-org/llama.cpp#11337 and #11397 (January 2025), NVIDIA/TensorRT-LLM#1400 (0.8) and janhq/cortex.cpp#981."""
    log = [
        "llama_kv_cache_init: kv_size = 32768, offload = 1, type_k = 'q8_0', type_v = 'q8_0', n_layer = 64, can_shift = 1\n",
        "llama_kv_cache_init:      ROCm0 KV buffer size =  4352.00 MiB\n",
        ("llama_new_context_with_model: KV self size  = 4352.00 MiB, K (q8_0): 2176.00 MiB, V (q8_0): 2176.00 MiB\n"),
    ]  # 64 layers x 8 heads x 128 x 2 x 34 / 32 B x 32,768
    document = check("".join(log[i] for i in lines), "--model", "qwen2.5-32b")[1]
    assert (document["verdict"], document["request"]["context"]) == ("match", 32768)


def test_lines_of_the_first_tensorrt_llm(check: Check) -> None:
    """132,608 x 524,288 B of Llama 2 7B; 128 tokens of Mistral 7B at 131,072 B."""
    log = "[TensorRT-LLM][INFO] Allocate 69524783104 bytes for k/v cache. \n[TensorRT-LLM][INFO] Using 132608 tokens in paged KV cache.\n"
    assert check(log, "--model", "llama2-7b")[1]["verdict"] == "match"
    assert check(log.replace("132608", "132672"), "--model", "llama2-7b")[0] == 1
    later = "[TensorRT-LLM][INFO] Max tokens in paged KV cache: 128. Allocating 16777216 bytes.\n"
    assert check(later, "--model", "mistral-7b-v0.3")[1]["verdict"] == "match"
