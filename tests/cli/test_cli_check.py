"""`kvcalc check LOG`: a start-up log against the prediction, number by number."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

LOG = Path(__file__).parents[1] / "logs" / "vllm-llama3.3-70b.log"
START = LOG.read_text()
Check = Callable[..., tuple[int, Any]]


def verdicts(document: Any) -> dict[str, str]:
    return {line["quantity"]: line["verdict"] for line in document["lines"]}


def test_a_log_is_checked_line_by_line(check: Check) -> None:
    """Llama 3.3 70B on 4 GPUs in fp8: 80 layers x 2 heads x 256 B = 40,960 B a token on each, in blocks of 16 tokens.

    142.94 GiB is 142.935 to 142.945 GiB, so 234,184 to 234,200 blocks, or 3,746,944 to 3,747,216 tokens.
    """
    status, document = check(START)
    assert status == 0
    assert (document["schema"], document["verdict"]) == ("kvcalc.check/1", "match")
    assert document["model"]["preset"] == "llama3.3-70b"
    assert {key: document["request"][key] for key in ("context", "tp", "k_dtype", "engine", "engine_version")} == {
        "context": 10000, "tp": 4, "k_dtype": "fp8", "engine": "vllm", "engine_version": "0.18.0"}  # fmt: skip
    tokens, concurrency = document["lines"]
    assert tokens == {
        "line": 5, "run": 0, "engine": "vllm", "quantity": "tokens", "unit": None, "printed": 3747120,
        "predicted": 3747072, "low": 3746944, "high": 3747216, "verdict": "match", "why": None,
        "difference": None, "difference_percent": None}  # fmt: skip
    assert concurrency["printed"] == 374.71
    assert concurrency["low"] <= concurrency["printed"] <= concurrency["high"]


def test_forms_of_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """One word, one value, rows, and text in a pipe without anything drawn."""
    for options, lines in (
        (["-q"], ["match"]),
        (["--get", "lines.0.printed"], ["3747120"]),
        (["-f", "csv"], [("line,run,engine,quantity,unit,printed,predicted,low,high,verdict,why,difference,"
                         "difference_percent"),
                         "5,0,vllm,tokens,,3747120,3747072,3746944,3747216,match,,,"]),
        ([], ["model\tLlama 3.3 70B", "shape\tvllm 0.18.0, 10,000 tokens, fp8, tp 4",
              "line\tquantity\tprinted\tpredicted\tmay be printed\tverdict",
              "5\ttokens that fit\t3,747,120\t3,747,072\t3,746,944-3,747,216\tmatch"]),
    ):  # fmt: skip
        assert run(["check", str(LOG), *options]) == 0
        assert capsys.readouterr().out.splitlines()[: len(lines)] == lines


def test_a_log_on_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`docker logs vllm 2>&1 | kvcalc check -`."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(START.encode())))
    assert run(["check", "-", "-q"]) == 0
    assert capsys.readouterr().out == "match\n"


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        # all 64 heads: an eighth; 8 heads on each GPU: a quarter; GB: 142.94e9 // 655,360 x 16
        (468384, "every query head cached"),
        (936768, "heads replicated on every rank"),
        (3489728, "sizes in GB of 10^9 bytes"),
    ],
)
def test_another_explanation_is_tried_and_named(check: Check, tokens: int, says: str) -> None:
    """A contradiction stays one, with the usual misunderstanding that would resolve it."""
    status, document = check(START.replace("3,747,120", f"{tokens:,}").replace("374.71x", f"{tokens / 10000:.2f}x"))
    assert status == 1
    assert document["verdict"] == "mismatch"
    assert says in "; ".join(document["runs"][0]["explanations"])


def test_rules_of_another_time_are_named(check: Check) -> None:
    """gpt-oss-20b in 40 GiB at 131,072 tokens: 1,643,116 tokens with one batch in flight, as up to 0.25; the log says
    0.33, where it is 1,551,920 with asynchronous scheduling (maintainers' specs, engines-gpu.md D.2).
    """
    log = (
        "Asynchronous scheduling is enabled.\n"
        "Initializing a V1 LLM engine (v0.33.0) with config: model='openai/gpt-oss-20b', max_seq_len=131072, "
        "max_num_batched_tokens=8192\nAvailable KV cache memory: 40.0 GiB\nGPU KV cache size: 1,643,116 tokens, Maximum "
        "concurrency for 131,072 tokens per request: 12.54x\n"
    )
    status, document = check(log)
    assert status == 1
    assert "another time, vllm 0.20.2" in "; ".join(document["runs"][0]["explanations"])
    status, document = check(log.replace("enabled", "not known"))
    assert (status, document["runs"][0]["assumed"]) == (0, "scheduling that is not asynchronous")
    status, document = check(log.replace("1,643,116", "1,551,920").replace("12.54x", "11.84x"))
    assert (status, document["verdict"]) == (0, "match")


def test_what_any_model_would_print_proves_nothing(check: Check) -> None:
    """Without the memory, 374.71 is only 3,747,120 / 10,000: no other model and no other format could contradict it."""
    cut = "\n".join(line for line in START.splitlines() if "Available" not in line)
    for options in ((), ("--model", "llama3-8b"), ("--kv-dtype", "fp32"), ("--tp", "1")):
        assert check(cut, *options)[0] == 2
    blocks = 3747120 // 16
    assert check(cut, "--kv-memory", f"{blocks * 16 * 40960}B")[1]["verdict"] == "match"
    status, document = check(cut.replace("374.71x", "374.81x"))
    assert (status, document["verdict"]) == (1, "mismatch")
    # before V1: 5,136 blocks x 16 tokens / 32,768 = 2.5078
    old = "# GPU blocks: 5136, # CPU blocks: 0\nMaximum concurrency for 32768 tokens per request: 2.51x\n"
    assert check(old, "--model", "qwen2.5-7b")[0] == 2
    assert check(old.replace("2.51x", "2.50x"), "--model", "qwen2.5-7b")[0] == 1


def test_containers_whose_lines_alternate_are_told_apart(check: Check) -> None:
    """`docker compose logs` and `kubectl logs --prefix` mix servers: 19.92 GiB are 163,168 tokens of Llama 3.1 8B."""
    other = (
        START.replace("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-8B-Instruct")
        .replace("142.94", "19.92").replace("3,747,120", "163,168").replace("374.71x", "16.32x").replace("fp8", "auto")
        .replace("_size=4", "_size=1").replace("_size': 4", "_size': 1")
    )  # fmt: skip
    for first, second in (("big-1    | ", "small-1  | "), ("[pod/big-0/vllm] ", "[pod/small-0/vllm] ")):
        both = zip(START.splitlines(), other.splitlines(), strict=True)
        status, document = check("".join(f"{first}{a}\n{second}{b}\n" for a, b in both))
        assert status == 0
        assert [run["model"]["preset"] for run in document["runs"]] == ["llama3.3-70b", "llama3.1-8b"]
        assert [line["verdict"] for line in document["lines"]] == ["match"] * 4


def test_a_worker_of_another_container_belongs_to_the_only_start(check: Check) -> None:
    """Workers on other machines have names of their own, and start nothing."""
    log = "".join(f"[pod/lead-{int('Worker' in line)}/vllm] {line}\n" for line in START.splitlines())
    status, document = check(log)
    assert (status, len(document["runs"]), document["verdict"]) == (0, 1, "match")


def test_a_start_that_failed_leaves_nothing_to_the_next(check: Check) -> None:
    """A server that dies before it counts, and is started again with another model, is that model's."""
    failed = START[: START.index("(Worker_TP0")].replace("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "gpt2")
    status, document = check(failed + START)
    assert status == 0
    assert [run["model"]["preset"] for run in document["runs"]] == ["llama3.3-70b"]


# Public logs, of which the page does not say what the cache was stored in.
FP8 = {
    "qwen3.5-122b-a10b": ("0.19.0", "21.43", "467,712", "131,072", "11.79", None),
    "gemma4-26b-a4b": ("0.19.0", "51.62", "451,040", "131,072", "33.42", "2,048 batched tokens"),
}


@pytest.mark.parametrize("model", FP8)
def test_explanations_are_tried_with_what_the_log_leaves_open(model: str, check: Check) -> None:
    """Both kept fp8, one of them with one more thing that the log does not say: then the format is still named.

    The states of Qwen 3.5 are kept where prefixes end, since prefixes are cached (`models/config.py` of vLLM 0.19).
    """
    version, memory, tokens, length, concurrency, open_ = FP8[model]
    log = (
        f"Initializing a V1 LLM engine (v{version}) with config: model='x', max_seq_len={length.replace(',', '')}, "
        f"kv_cache_dtype=auto, enable_prefix_caching=True\nAvailable KV cache memory: {memory} GiB\n"
        f"GPU KV cache size: {tokens} tokens\nMaximum concurrency for {length} tokens per request: {concurrency}x\n"
    )
    status, document = check(log, "--model", model)
    assert status == 1
    assert any("an fp8 cache" in each for each in document["runs"][0]["explanations"])
    assert (open_ or "") in "; ".join(document["runs"][0]["explanations"] + document["warnings"])
    status, document = check(log.replace("dtype=auto", "dtype=fp8"), "--model", model)
    assert (status, document["verdict"], document["runs"][0]["assumed"]) == (0, "match", open_)


def test_memory_that_was_given_is_exact(check: Check) -> None:
    """`--kv-cache-memory-bytes` is printed as 54.31 GiB and stands among the arguments: row 1 of engines-gpu.md E.3."""
    log = (
        "non-default args: {'model': 'meta-llama/Llama-3.1-8B', 'kv_cache_memory_bytes': 58314918461}\n"
        "Initializing a V1 LLM engine (v0.33.0) with config: model='meta-llama/Llama-3.1-8B', max_seq_len=131072\n"
        "Initial free memory 78.0 GiB, reserved 54.31 GiB memory for KV Cache as specified by kv_cache_memory_bytes config\n"
        "GPU KV cache size: 444,896 tokens, Maximum concurrency for 131,072 tokens per request: 3.39x\n"
    )
    tokens = check(log)[1]["lines"][0]
    assert (tokens["low"], tokens["predicted"], tokens["high"], tokens["verdict"]) == (444896, 444896, 444896, "match")
    rounded = check(log.partition("\n")[2])[1]["lines"][0]  # 54.305 to 54.315 GiB // 2,097,152 x 16
    assert (rounded["low"], rounded["high"], rounded["verdict"]) == (444864, 444944, "match")


def test_states_in_blocks_of_64(check: Check) -> None:
    """A public log of Qwen3.5 4B on an Intel GPU: states of 2,146,304 B in pages of 576 tokens x 4,096 B; 500 MiB are
    27 blocks of 8 such pages, and a sequence of 1,024 tokens takes 2 + 3 of them: int(27 / 5 x 1,024) = 5,529.
    """
    log = (
        "reserved 0.49 GiB memory for KV Cache as specified by kv_cache_memory_bytes config\n"
        "GPU KV cache size: 5,529 tokens\nMaximum concurrency for 1,024 tokens per request: 5.40x\n"
    )
    status, document = check(log, "--model", "qwen3.5-4b", "--kv-memory", "500MiB")
    assert (status, document["verdict"]) == (0, "match")
    assert "blocks of 64 tokens" in document["runs"][0]["assumed"]


def test_a_version_that_nobody_read_is_warned_of(check: Check) -> None:
    """The rules of the newest version may not hold for a later one."""
    assert any("99.0" in each for each in check(START.replace("0.18.0", "99.0"))[1]["warnings"])


def test_a_manager_without_a_cache_is_left_open(check: Check) -> None:
    """TensorRT-LLM's AutoDeploy counts blocks in a manager that holds nothing (a public log of December 2025)."""
    log = "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 0.00 GiB for max tokens in paged KV cache (3958272).\n"
    status, document = check(log, "--model", "qwen3-8b")
    assert (status, verdicts(document)) == (0, {"kv_gib": "unknown"})


def test_what_the_log_leaves_open_is_tried_and_said(check: Check) -> None:
    """Without a version the rules that fit are taken, and the answer says so: `google/gemma-4-31B-it` of E303."""
    status, document = check(
        "Initializing a V1 LLM engine with config: model='google/gemma-4-31B-it', max_seq_len=4096\n"
        "Available KV cache memory: 24.54 GiB\nGPU KV cache size: 26,800 tokens\n"
    )
    assert (status, document["verdict"]) == (0, "match")
    assert document["runs"][0]["assumed"] == "the rules of vllm 0.20.0"


@pytest.mark.parametrize(
    ("tokens", "verdict"), [(3746944, "match"), (3746928, "unknown"), (3634544, "unknown"), (3634528, "mismatch"),
                            (3747232, "mismatch")],
)  # fmt: skip
def test_a_smaller_rank_may_have_decided(check: Check, tokens: int, verdict: str) -> None:
    """Up to 3 % below the interval of 3,746,944 to 3,747,216 tokens nothing is sure: 97 % are 3,634,535.68 tokens."""
    log = "\n".join(line for line in START.replace("3,747,120", f"{tokens:,}").splitlines() if "Maximum" not in line)
    status, document = check(log)
    assert verdicts(document) == {"tokens": verdict}
    assert (status, document["verdict"]) == (1 if verdict == "mismatch" else 0, verdict)
    if verdict == "unknown":
        assert "smaller rank" in document["lines"][0]["why"]


def test_all_ranks_in_the_log_leave_no_excuse(check: Check) -> None:
    """Where each of the 4 workers says what it had, the least of them decides."""
    memory = "Available KV cache memory: 142.94 GiB"
    each = [f"(VllmWorker rank={rank} pid=9) {memory}" for rank in range(4)]
    log = START.replace(memory, "\n".join(each)).replace("3,747,120", "3,746,928").replace("374.71x", "374.69x")
    assert check(log)[0] == 1
    least = log.replace(each[2], each[2].replace("142.94", "142.93"))
    status, document = check(least)
    assert (status, verdicts(document)["tokens"]) == (0, "match")


def test_replicas_are_told_apart(check: Check) -> None:
    """Two replicas whose lines alternate have each its own memory: 10 GiB are 81,920 tokens of 128 KiB, 12 are 98,304."""
    log = "".join(
        f"(EngineCore_DP{i} pid={i}) Initializing a V1 LLM engine (v0.20.2) with config: model='meta-llama/Llama-3.1-8B', "
        "max_seq_len=8192, data_parallel_size=2, kv_cache_dtype=auto\n" for i in range(2)
    )  # fmt: skip
    log += "".join(f"(EngineCore_DP{i} pid={i}) Available KV cache memory: {10 + 2 * i}.0 GiB\n" for i in range(2))
    log += "".join(
        f"(EngineCore_DP{i} pid={i}) GPU KV cache size: {tokens:,} tokens\n" for i, tokens in enumerate((81920, 98304))
    )
    status, document = check(log)
    assert (status, [line["verdict"] for line in document["lines"]]) == (0, ["match", "match"])
    assert check(log.replace("98,304", "81,920"))[0] == 1


def test_two_starts_are_two_checks(check: Check) -> None:
    """A server that was started again with another model is checked twice, line numbers and all."""
    again = START.replace("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "meta-llama/Llama-3.1-70B-Instruct")
    status, document = check(START + again)
    assert status == 0
    assert [run["model"]["preset"] for run in document["runs"]] == ["llama3.3-70b", "llama3.1-70b"]
    assert [line["line"] for line in document["lines"]] == [5, 6, 12, 13]


def test_a_loop_of_crashes_is_told_in_brief(check: Check) -> None:
    """Every start counts, and those of a model that nobody knows are not told of a hundred times."""
    unknown = START.replace("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "who/knows")
    status, document = check(unknown * 100 + START * 2)
    assert (status, len(document["lines"])) == (0, 4)
    assert "90 more starts could not be checked" in document["warnings"]
    assert len(document["warnings"]) == 12


def test_options_say_what_the_log_does_not(check: Check) -> None:
    """A log that was cut at both ends needs the model, the GPUs and the format from options; those overrule a log."""
    cut = "\n".join(START.splitlines()[3:6])
    assert check(cut)[0] == 2
    told = ("--model", "llama3.3-70b", "--tp", "4", "--kv-dtype", "fp8")
    assert check(cut, *told)[0] == 0
    assert check(cut, *told, "--engine", "vllm@0.18.0")[0] == 0
    status, document = check(cut, *told[:4])  # the format is not said: what explains the numbers is named
    assert (status, document["verdict"], document["runs"][0]["explained_by"]) == (0, "match", ["an fp8 cache"])
    # 8 heads are one on each of 8 GPUs, and on each of 16: nothing says which it was
    status, document = check(cut, *told[:2])
    assert (status, document["verdict"]) == (0, "unknown")
    assert document["runs"][0]["explained_by"] == ["tp 8", "tp 16"]
    assert check(cut, *told[:4], "--kv-dtype", "bf16")[0] == 1
    assert check(START, "--kv-dtype", "bf16")[0] == 1
    assert check(START, "--tp", "8", "--kv-dtype", "bf16")[0] == 0  # as many bytes on each GPU


def test_the_card_decides_on_kernels(check: Check) -> None:
    """--gpu 8xb200 is tp 8 and Blackwell's kernels, whose blocks of a latent have 32 tokens; tp does not split it."""
    log = "Initializing a V1 LLM engine (v0.33.0) with config: model='deepseek-ai/DeepSeek-V3', max_seq_len=163840\n"
    log += "GPU KV cache size: 611,168 tokens\n"
    status, document = check(log, "--kv-memory", "40GiB", "--gpu", "8xb200")
    assert (status, document["request"]["tp"], document["runs"][0]["assumed"]) == (0, 8, None)
    status, document = check(log, "--kv-memory", "40GiB", "--gpu", "h100")
    assert (status, document["runs"][0]["assumed"]) == (0, "blocks of 32 tokens")


def test_flags_and_memory_of_the_asker(check: Check) -> None:
    """DeepSeek V3 in 40 GiB: blocks of 16, 32 or 64 tokens hold 611,184, 611,168 or 611,136 (engines-gpu.md D.2)."""
    log = "Initializing a V1 LLM engine (v0.33.0) with config: model='deepseek-ai/DeepSeek-V3', max_seq_len=163840\n"
    log += "GPU KV cache size: {:,} tokens, Maximum concurrency for 163,840 tokens per request: 3.73x\n"
    known = ("--kv-memory", "40GiB", "--engine", "vllm")
    for block, tokens in ((16, 611184), (32, 611168), (64, 611136)):
        assert check(log.format(tokens), *known, "--", "--block-size", str(block))[0] == 0
        assert check(log.format(tokens), *known)[1]["verdict"] == "match"  # the block is not in the log: it is tried
        assert check(log.format(tokens + 16), *known, "--", "--block-size", str(block))[0] == 1


def test_a_gguf_models_shape_is_read_in_the_log(check: Check) -> None:
    """llama.cpp lists the file's metadata, so that a model nobody knows needs no preset.

    3 layers x 2 heads x (64 + 32) x 2 B x 512 cells = 589,824 B = 0.56 MiB, two thirds of it K.
    """
    keys = {"general.architecture str": "llama", "general.name str": "Nobody knows it", "llama.block_count u32": 3,
            "llama.context_length u32": 2048, "llama.embedding_length u32": 512, "llama.attention.head_count u32": 4,
            "llama.attention.head_count_kv u32": 2, "llama.attention.key_length u32": 64,
            "llama.attention.value_length u32": 32, "tokenizer.ggml.tokens arr[str,32000]": '["<unk>", "<s>", ...'}  # fmt: skip
    log = "llama_model_loader: loaded meta data with 9 key-value pairs and 28 tensors from m.gguf (version GGUF V3)\n"
    log += "".join(
        f"llama_model_loader: - kv {i:3}: {key:>50} = {value}\n" for i, (key, value) in enumerate(keys.items())
    )
    log += "llama_kv_cache: size =    0.56 MiB (   512 cells,   3 layers,  1/1 seqs), K (f16): 0.38 MiB, V (f16): 0.19 MiB\n"
    status, document = check(log)
    assert (status, document["verdict"]) == (0, "match")
    assert document["model"]["name"] == "Nobody knows it"
    assert document["request"]["context"] == 512


def test_windows_of_llama_cpp_have_a_line_of_their_own(check: Check) -> None:
    """A context of 4,096 and the window of 1,024 with a micro-batch of 512: 1,536 cells for Gemma 3 4B's sliding layers."""
    log = (
        "llama_context: n_ctx         = 4096\nllama_context: n_ubatch      = 512\n"
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells\n"
        "llama_kv_cache:        CPU KV buffer size =    80.00 MiB\n"
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 1536 cells\n"
        "llama_kv_cache:        CPU KV buffer size =   174.00 MiB\n"
    )
    # 5 full and 29 sliding layers of 4 heads x 256: 4,096 B a token each
    status, document = check(log, "--model", "gemma3-4b")
    assert status == 0
    assert verdicts(document) == dict.fromkeys(("cells", "kv_mib", "swa_cells", "swa_kv_mib"), "match")
    assert check(log.replace("174.00", "290.00"), "--model", "gemma3-4b")[0] == 1


def test_windows_at_full_length_are_announced(check: Check) -> None:
    """`--swa-full` makes llama.cpp warn before it announces the caches: without the warning it was not given."""
    log = (
        "llama_context: n_seq_max     = 1\nllama_context: n_ctx         = 4096\n"
        "llama_context: n_batch       = 2048\nllama_context: n_ubatch      = 512\n"
        "llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells\n"
        "llama_kv_cache_iswa: creating     SWA KV cache, size = 4096 cells\n"
        "llama_kv_cache:        CPU KV buffer size =   464.00 MiB\n"
    )  # 29 sliding layers x 4,096 cells x 4,096 B
    status, document = check(log, "--model", "gemma3-4b")
    assert (status, document["runs"][0]["assumed"]) == (1, None)
    assert "--swa-full" in "; ".join(document["runs"][0]["explanations"])
    warned = "llama_kv_cache_iswa: using full-size SWA cache (ref: https://github.com/ggml-org/llama.cpp/pull/13194)\n"
    at = log.index("llama_kv_cache_iswa")
    assert check(log[:at] + warned + log[at:], "--model", "gemma3-4b")[1]["verdict"] == "match"


def test_files_from_before_latents_are_known(check: Check) -> None:
    """A public log of DeepSeek Coder V2 16B: 27 layers x 16 heads x (192 + 128) x 2 B x 2,048 cells x 8, no latent."""
    log = "llama_kv_cache: size = 4320.00 MiB ( 2048 cells, 27 layers, 8/8 seqs), K (f16): 2592.00 MiB, V (f16): 1728.00 MiB\n"
    status, document = check(log, "--model", "deepseek-v2-lite")
    assert (status, document["verdict"]) == (0, "match")
    assert "before latents" in document["runs"][0]["assumed"]


def test_ollama_is_told_from_llama_cpp(check: Check) -> None:
    """The same lines behind Ollama's own are Ollama's, with its version, for each model that it loads."""
    sizes = "llama_kv_cache: size =  512.00 MiB (  4096 cells,  32 layers,  1/1 seqs), K (f16):  256.00 MiB, V (f16): "
    loads = 'time=x msg="starting llama-server" cmd="llama-server --model b -c 4096"\n' + sizes + " 256.00 MiB\n"
    log = 'time=x msg="Listening on 127.0.0.1:11434 (version 0.33.1)"\n' + loads + loads
    status, document = check(log, "--model", "llama3.1-8b")
    assert status == 0
    assert [(run["engine"], run["version"]) for run in document["runs"]] == [("ollama", "0.33.1")] * 2
    assert check(sizes + " 256.00 MiB\n", "--model", "llama3.1-8b")[1]["lines"][0]["engine"] == "llama.cpp"


# A public log of QwQ 32B on 4 L4 in March 2025: 64 layers x 2 of 8 heads x 2 x 128 x 2 B are 65,536 B a token and GPU.
QWQ = "".join(
    f"[2025-03-08 12:29:21 TP{rank}] {line}\n"
    for line in ("Load weight begin. avail mem=21.63 GB",
                 "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, mem usage=15.54 GB.",
                 "KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB")
    for rank in range(4)
)  # fmt: skip
ARGUMENTS = (
    "server_args=ServerArgs(model_path='Qwen/QwQ-32B', mem_fraction_static=0.85, max_total_tokens=None, tp_size=4)\n"
)


def test_tokens_of_sglang_follow_from_the_memory_in_its_log(check: Check) -> None:
    """6.09 - 0.15 x 21.63 GiB are 2.8455 GiB, 46,620 tokens of 65,536 B; half a digit of both numbers is 94 tokens."""
    status, document = check(ARGUMENTS + QWQ)
    tokens = next(line for line in document["lines"] if line["quantity"] == "tokens")
    assert (status, tokens["predicted"], tokens["verdict"]) == (0, 46620, "match")
    assert (46620 - tokens["low"], tokens["high"] - 46620) == (94, 94)
    other = check(ARGUMENTS + QWQ.replace("6.09 GB", "6.29 GB"))[1]
    assert verdicts(other) == {"k_gb": "match", "v_gb": "match", "tokens": "unknown"}
    for limited in (ARGUMENTS.replace("=None", "=46611"), ""):  # somebody else decided, or the share is not known
        known = ("--model", "qwq-32b", "--tp", "4")
        assert verdicts(check(limited + QWQ, *known)[1]) == {"k_gb": "match", "v_gb": "match"}


@pytest.mark.parametrize(
    ("model", "share", "before", "after", "pool", "rest", "tokens", "middle"),
    [
        # Meta-Llama-3.1-8B on an H100 in January 2025: (63.72 - 0.12 x 78.81) x 2^30 / 131,072
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "0.88", "78.81", "63.72", "K size: 27.13 GB, V size: 27.13 GB.",
         "max_total_num_tokens=444500, max_prefill_tokens=16384, max_running_requests=2049, context_len=131072", 444500, 444520),
        # Qwen3 0.6B out of ModelScope with SGLang 0.4.6: (2.03 - 0.12 x 3.23) x 2^30 / 114,688
        ("/mnt/d/gx/Desktop/Model/Qwen3-0___6B", "0.88", "3.23", "2.03", "#tokens: 15387, K size: 0.82 GB, V size: 0.82 GB",
         "max_total_num_tokens=15387, chunked_prefill_size=2048, max_running_requests=2049, context_len=40960", 15387, 15376),
    ],
    ids=["before February 2025", "ModelScope"],
)  # fmt: skip
def test_older_logs_of_sglang(
    model: str, share: str, before: str, after: str, pool: str, rest: str, tokens: int, middle: int, check: Check
) -> None:
    """Whole public logs: K, V and the tokens, wherever they stand."""
    lines = (
        f"server_args=ServerArgs(model_path='{model}', mem_fraction_static={share}, max_total_tokens=None, tp_size=1)",
        f"Load weight begin. avail mem={before} GB",
        f"Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem={after} GB",
        f"KV Cache is allocated. {pool}", "Memory pool end. avail mem=8.34 GB", rest,
    )  # fmt: skip
    status, document = check("".join(f"[2025-01-23 19:35:20 TP0] {line}\n" for line in lines))
    assert status == 0
    assert verdicts(document) == dict.fromkeys(("k_gb", "v_gb", "tokens"), "match")
    assert [(line["printed"], line["predicted"]) for line in document["lines"] if line["quantity"] == "tokens"] == [
        (tokens, middle)
    ]


def test_states_of_sglang_are_in_the_format_of_its_arguments(check: Check) -> None:
    """Half of the 17.58 GB that 125 states take in 32 bits (a public log of Qwen 3.5 27B) are states in 16 bits."""
    log = (
        "server_args=ServerArgs(model_path='Qwen/Qwen3.5-27B', mamba_ssm_dtype=None)\n"
        "Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: 0.34GB, ssm_state size: 17.58GB\n"
    )
    assert check(log)[1]["verdict"] == "match"
    half = log.replace("17.58", "8.79")
    status, document = check(half)
    assert (status, document["runs"][0]["explanations"]) == (1, ["states in bf16"])
    assert check(half.replace("=None", "='bfloat16'"))[1]["verdict"] == "match"


def test_the_pool_of_a_draft_is_left_open(check: Check) -> None:
    """SGLang prints a second pool for a draft, whose shape the log does not have: the first one is compared."""
    line = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 20480, K size: {0} GB, V size: {0} GB\n"
    status, document = check(line.format("0.12") + line.format("0.01"), "--model", "qwen2.5-0.5b")
    assert status == 0
    assert [line["verdict"] for line in document["lines"]] == ["match", "match", "unknown", "unknown"]


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("", "expected the start-up log of an engine", "vLLM"),
        ("nothing to see\n" * 9, "expected the start-up log of an engine", "vLLM"),
        ("GPU KV cache size: 12,345 tokens\n", ":1: the log does not name the model", "--model MODEL"),
        ("args: Namespace(model='who/knows')\nGPU KV cache size: 12 tokens\n", "no preset is called 'who/knows'", "--model"),
        ("args: Namespace(model='/etc/passwd')\nGPU KV cache size: 12 tokens\n", "no preset is called '/etc/passwd'", "-"),
        ("args: Namespace(model='gpt2')\nGPU KV cache size: 12 tokens\n", "does not say how much memory", "--kv-memory"),
        ("args: Namespace(model='gpt2', tensor_parallel_size=7)\nGPU KV cache size: 12 tokens\n", ":1: --tp: 7", "divides"),
        ("llama_new_context: KV self size = 1.00 MiB\n", ":1: the log does not name the model", "--model MODEL"),
    ],
)  # fmt: skip
def test_nothing_to_compare_is_refused_in_one_line(
    text: str, says: str, hint: str, tmp_path: Path, refused: Callable[..., tuple[str, str]]
) -> None:
    """Exit status 2 with the place in the log and the way out."""
    log = tmp_path / "x.log"
    log.write_text(text)
    message, way_out = refused("check", str(log))
    assert says in message
    assert hint in way_out


def test_a_context_that_is_not_in_the_log_is_asked_for(tmp_path: Path, refused: Callable[..., tuple[str, str]]) -> None:
    """llama.cpp's sizes depend on it."""
    log = tmp_path / "x.log"
    log.write_text(
        "llama_new_context_with_model: KV self size = 256.00 MiB, K (f16): 128.00 MiB, V (f16): 128.00 MiB\n"
    )
    assert "--context" in refused("check", str(log), "--model", "llama2-7b")[1]
    assert run(["check", str(log), "--model", "llama2-7b", "--context", "512", "-q"]) == 0


def test_bad_usage(refused: Callable[..., tuple[str, str]], tmp_path: Path) -> None:
    """Files that are none, engines whose logs nobody reads, flags of an engine that is not named."""
    assert "nofile.log: No such file" in refused("check", "nofile.log")[0]
    assert "directory" in refused("check", str(tmp_path))[0]
    assert "--engine: no log of transformers" in refused("check", str(LOG), "--engine", "transformers")[0]
    assert "the start-up log of mlx" in refused("check", str(LOG), "--engine", "mlx")[0]
    assert "--engine NAME" in refused("check", str(LOG), "--", "--block-size", "16")[0]
    assert "LOG" in refused("check")[0]
    assert "the start-up log of sglang" in refused("check", str(LOG), "--engine", "sglang")[0]


HOSTILE = ["9" * 24, "0", "-1", "1e9", "NaN", "٣", "9" * 5000, "1,2,3", "\x1b[31m5", "", " "]


@pytest.mark.parametrize("number", HOSTILE, ids=repr)
@pytest.mark.parametrize("of", ["142.94", "3,747,120", "374.71", "10,000", "max_seq_len=10000", "_size=4", "0.18.0"])
def test_numbers_of_a_hostile_log_are_only_text(number: str, of: str, check: Check) -> None:
    """Whatever stands in place of a number, the answer is a verdict or a refusal in one line."""
    replaced = of if "=" not in of else of.partition("=")[0] + "="
    status, document = check(START.replace(of, (replaced if "=" in of else "") + number))
    assert status in (0, 1, 2)
    assert (document is None) == (status == 2)


def test_control_characters_do_not_reach_the_terminal(
    check: Check, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """What a log calls its model is escaped in errors and in answers."""
    evil = START.replace("RedHatAI/Llama-3.3-70B", "RedHatAI/\x9b31m\u202e\x07No-Such")
    assert check(evil)[0] == 2
    assert [c for c in capsys.readouterr().err if not c.isprintable() and c not in "\t\n"] == []
    log = tmp_path / "evil.log"
    log.write_text(evil)
    for form in (("-f", "table"), ("-f", "csv"), ("-f", "markdown"), ()):
        assert run(["check", str(log), "--model", "llama3.3-70b", *form]) == 0
        assert [c for c in capsys.readouterr().out if not c.isprintable() and c not in "\t\n"] == []
