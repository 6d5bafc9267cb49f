"""What engines printed when they started, on public pages: one row for each, and the lines in the engine's own form.

The ids are those of a collection of public logs and tables. Rows give the numbers as printed; the words around them are
those of the engine's code in that version.
"""

from typing import NamedTuple

__all__ = ["CASES", "FURTHER", "MODELS", "Case"]


class Case(NamedTuple):
    """A log, what has to be said beside it (options of `check`), and what comes out.

    `compared` counts the numbers that are compared and agree, `open` those that nothing in the log decides; `smaller`: a
    rank that the log does not show had less memory.
    """

    id: str
    log: tuple[str, ...]
    options: str
    compared: int
    open: int = 0
    smaller: bool = False


# Models of cases that no preset has, by their published shape.
MODELS = {
    # printed in the log: 40 layers, one head of 128
    "starcoder": (
        "name: StarCoder 15B\nmodel_type: gpt_bigcode\ndtype: bf16\nheads: 48\nkv_heads: 1\nhead_dim: 128\n"
        "layers: 40 full\n"
    ),
    # stated beside the log: 4 full layers of 8 heads x 128, 16 KDA layers of 16 heads x 128 x 256 in fp32
    "kda": (
        "name: KDA 18.5B\ndtype: bf16\nheads: 16\nkv_heads: 8\nhead_dim: 128\nlayers: 4 full\nmax_context: 131072\n"
    ),
    # LightOnOCR-2-1B has the language part of Qwen3 0.6B: 28 layers, 8 heads of 128
    "lightonocr": (
        "name: LightOnOCR 2 1B\nmodel_type: qwen3\ndtype: bf16\nheads: 16\nkv_heads: 8\nhead_dim: 128\nlayers: 28 full\n"
    ),
}


def _engine(model: str, length: int, tp: int, kv: str, version: str | None, prefixes: str) -> str:
    """The configuration that vLLM prints, as far as it matters."""
    named = f" (v{version})" if version else ""
    return (
        f"(EngineCore_DP0 pid=271) INFO 05-21 21:03:20 [core.py:109] Initializing a V1 LLM engine{named} with config: "
        f"model='{model}', speculative_config=None, tokenizer='{model}', dtype=torch.bfloat16, max_seq_len={length}, "
        f"tensor_parallel_size={tp}, pipeline_parallel_size=1, data_parallel_size=1, kv_cache_dtype={kv}, "
        f"device_config=cuda, seed=0, enable_prefix_caching={prefixes}, pooler_config=None"
    )


def vllm(
    model: str,
    available: str,
    tokens: int | None,
    concurrency: str | None,
    length: int,
    *,
    version: str | None = None,
    tp: int = 1,
    kv: str = "auto",
    prefixes: str = "False",
) -> tuple[str, ...]:
    """vLLM V1. One line for both numbers from 0.28 on, two before."""
    lines = [
        _engine(model, length, tp, kv, version, prefixes),
        f"(Worker_TP0 pid=301) INFO 05-21 21:10:12 [gpu_worker.py:440] Available KV cache memory: {available} GiB",
    ]
    numbers = [] if tokens is None else [f"GPU KV cache size: {tokens:,} tokens"]
    if concurrency is not None:
        numbers.append(f"Maximum concurrency for {length:,} tokens per request: {concurrency}x")
    if version is not None and tuple(map(int, version.split(".")[:2])) >= (0, 28):
        numbers = [", ".join(numbers)]
    where = "(EngineCore_DP0 pid=271) INFO 05-21 21:10:12 [kv_cache_utils.py:1708] "
    return (*lines, *(where + number for number in numbers))


def too_long(model: str, needed: str, available: str, length: int, tp: int, longest: int | None) -> tuple[str, ...]:
    """vLLM V1 when one request does not fit."""
    estimate = (
        "" if longest is None else f"Based on the available memory, the estimated maximum model length is {longest}. "
    )
    refused = (
        f"ERROR 04-21 00:35:03 [core.py:390] ValueError: To serve at least one request with the models's max seq len "
        f"({length}), ({needed} GiB KV cache is needed, which is larger than the available KV cache memory "
        f"({available} GiB). {estimate}Try increasing `gpu_memory_utilization` or decreasing `max_model_len`."
    )
    return (_engine(model, length, tp, "auto", None, "None"), refused)


def hybrid(block: int, padding: str) -> tuple[str, ...]:
    """vLLM where attention shares its pages with states."""
    where, pages = "INFO 11-02 12:11:24 [config.py:376]", "mamba page size"
    return (
        f"{where} Setting attention block size to {block} tokens to ensure that attention page size is >= {pages}.",
        f"{where} Padding {pages} by {padding}% to ensure that {pages} and attention page size are exactly equal.",
    )


def sglang(model: str, *pools: str, tp: int = 1) -> tuple[str, ...]:
    started = (
        f"[2026-03-21 03:31:50] server_args=ServerArgs(model_path='{model}', tokenizer_path='{model}', "
        f"context_length=None, kv_cache_dtype='auto', tp_size={tp}, pp_size=1, dp_size=1, "
        "enable_dp_attention=False, max_mamba_cache_size=None)"
    )
    return (started, *(f"[2026-03-21 03:32:16 TP0] {pool}" for pool in pools))


def pool(tokens: int, k: str, v: str | None = None, dtype: str = "bfloat16") -> str:
    sizes = f"KV size: {k} GB" if v is None else f"K size: {k} GB, V size: {v} GB"
    return f"KV Cache is allocated. dtype: torch.{dtype}, #tokens: {tokens}, {sizes}"


def tensorrt(*lines: str, version: str = "1.1.0") -> tuple[str, ...]:
    return (f"[TensorRT-LLM] TensorRT-LLM version: {version}", *(f"[TensorRT-LLM][INFO] {line}" for line in lines))


def allocated(gib: str, tokens: int) -> str:
    return f"[MemUsageChange] Allocated {gib} GiB for max tokens in paged KV cache ({tokens})."


def own_ollama(tokens: int, flash: str) -> str:
    """Ollama's request to the engine that it had inside before 0.30."""
    return (
        'level=INFO source=runner.go:1284 msg=load request="{Operation:commit LoraPath:[] Parallel:1 BatchSize:512 '
        f"FlashAttention:{flash} KvSize:{tokens} KvCacheType: NumThreads:4 GPULayers:[] MultiUserCache:false "
        'ProjectorPath: MainGPU:0 UseMmap:false}"'
    )


def old_llama(n_ctx: int, kv: str, k: str, kind: str = "f16") -> tuple[str, ...]:
    """llama.cpp until May 2025."""
    return (
        f"llama_new_context_with_model: n_ctx      = {n_ctx}",
        f"llama_new_context_with_model: KV self size  = {kv:>7} MiB, K ({kind}): {k:>7} MiB, V ({kind}): {k:>7} MiB",
    )


def llama(kv: str, k: str, cells: int, layers: int, seqs: str = "1/1", kind: str = "f16") -> str:
    """llama.cpp since the end of 2025."""
    return (
        f"llama_kv_cache: size = {kv:>7} MiB ({cells:6} cells, {layers:3} layers, {seqs:>4} seqs), "
        f"K ({kind}): {k:>7} MiB, V ({kind}): {k:>7} MiB"
    )


def states(rs: str, cells: int, layers: int, parts: tuple[str, str] | None = None, drafted: int | None = None) -> str:
    rows = "" if drafted is None else f" {drafted:2} rs_seq"
    sizes = "" if parts is None else f", R (f32): {parts[0]:>7} MiB, S (f32): {parts[1]:>7} MiB"
    return (
        f"llama_memory_recurrent: size = {rs:>7} MiB ({cells:6} cells, {layers:3} layers, {cells:2} seqs{rows}){sizes}"
    )


_70B, _R1, _QWEN_VL = (
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic",
    "deepseek-ai/DeepSeek-R1-0528",
    "Qwen/Qwen3-VL-30B-A3B-Instruct",
)
_NANO, _LLAMA = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "meta-llama/Llama-3.3-70B-Instruct"

CASES = [
    Case("E102", vllm("Llama-3.3-70B-FP8", "5.11", 33504, "1.05", 32000, kv="fp8"), "", 2),
    Case("E103", too_long("meta-llama/Llama-3.1-8B", "16.0", "3.97", 131072, 1, None), "", 1),
    Case("E107", too_long("meta-llama/Llama-4-Scout-17B-16E-Instruct", "240.00", "88.38", 10485760, 8, 3861424), "", 2),
    Case("E117", vllm("MiniMaxAI/MiniMax-M2.5", "96.57", 3266480, "16.61", 196608, version="0.18.0", tp=8), "", 2),
    Case("E124", vllm(_QWEN_VL, "102.51", 1119696, "111.97", 10000, version="0.18.0+rhaiv.7"), "", 2),
    Case("E125", vllm(_QWEN_VL, "64.23", 701600, "85.64", 8192, version="0.13.0"), "", 2),
    Case("E131", vllm(_70B, "102.19", 334864, "40.88", 8192, version="0.11.2+rhai1"), "", 2),
    Case("E132", vllm(_70B, "102.19", 334864, "33.49", 10000, version="0.11.2+rhai1"), "", 2),
    Case("E133", vllm(_70B, "102.19", 669744, "81.76", 8192, version="0.13.0+rhai5", kv="fp8"), "", 2),
    Case("E136", vllm(_70B, "106.17", 1391552, "169.87", 8192, version="0.11.2rc1+rhai0.cuda", tp=4), "", 2),
    Case("E138", vllm(_70B, "142.94", 3747120, "374.71", 10000, version="0.18.0", tp=4, kv="fp8"), "", 2),
    Case("E142", vllm(_70B, "106.17", 2783104, "1233.65", 2248, version="0.13.0+rhai5", tp=4, kv="fp8"), "", 2),
    Case("E146", vllm("RedHatAI/Llama-4-Maverick-17B-128E-Instruct-FP8", "115.18", 10027504, "1224.06", 8192,
                      version="0.11.2+rhai1", tp=8, kv="fp8"), "", 1, 1, smaller=True),
    Case("E149", vllm("RedHatAI/Ministral-3-14B-Instruct-2512", "108.8", 713040, "71.30", 10000, version="0.13.0+rhai5"),
         "", 2),
    Case("E150", vllm("RedHatAI/Ministral-3-14B-Instruct-2512", "111.09", 728048, "2.78", 262144, version="0.20.0"),
         "", 2),
    Case("E156", vllm("RedHatAI/Qwen3-235B-A22B-FP8-dynamic", "113.35", 2528512, "308.66", 8192, version="0.11.2+rhai1",
                      tp=4), "", 1, 1, smaller=True),
    Case("E164", vllm("RedHatAI/Qwen3.5-397B-A17B-FP8-dynamic", "26.76", 466752, "161.00", 8192, version="0.18.0", tp=4),
         "", 2),
    Case("E166", vllm(_R1, "79.81", 1219424, "148.86", 8192, version="0.18.0", tp=8), "", 2),
    Case("E167", vllm(_R1, "79.82", 1219648, "148.88", 8192, version="0.18.0+rhaiv.7", tp=8), "", 2),
    Case("E171", vllm(_R1, "87.09", 1324304, "161.66", 8192, version="0.11.2+rhai1", tp=8), "", 1, 1, smaller=True),
    Case("E172", vllm(_R1, "87.09", 1324304, "132.43", 10000, version="0.11.2+rhai1", tp=8), "", 1, 1, smaller=True),
    Case("E173", vllm(_R1, "88.0", 1338112, "163.34", 8192, version="0.18.0+rhaiv.0", tp=8), "", 1, 1, smaller=True),
    Case("E180", vllm("deepseek-ai/DeepSeek-V3.2", "41.76", 572480, "56.97", 10000, version="0.19.0", tp=8), "", 2),
    Case("E189", vllm(_LLAMA, "127.02", 1664848, "203.23", 8192, version="0.18.0", tp=4), "", 2),
    Case("E195", vllm(_LLAMA, "90.66", 1188336, "9.07", 131072, version="0.20.0", tp=4), "", 2),
    Case("E197", vllm(_LLAMA, "140.86", 1846048, "225.35", 8192, version="0.13.1.dev8+g2841a84ac", tp=4), "", 1, 1,
         smaller=True),
    Case("E202", vllm("mistralai/Ministral-3-14B-Reasoning-2512", "115.78", 3035088, "370.49", 8192, version="0.13.0",
                      tp=4), "", 2),
    Case("E206", vllm("nvidia/DeepSeek-V3.2-NVFP4", "110.95", 2758336, "274.52", 10000, version="0.18.0", tp=8,
                      kv="fp8_e4m3"), "", 2),
    Case("E209", vllm("nvidia/Llama-3.3-70B-Instruct-FP8", "107.56", 2819616, "281.96", 10000, version="0.18.0+rhaiv.0",
                      tp=4, kv="fp8"), "", 2),
    Case("E210", vllm(_NANO, "93.13", 6506208, "1299.00", 8192, version="0.13.0", kv="fp8"), "", 2),
    Case("E212", vllm(_NANO, "94.45", 6602256, "117.99", 262144, version="0.20.0", kv="fp8"), "", 2),
    Case("E216", vllm("sarvamai/sarvam-105b", "24.25", 706240, "86.21", 8192, version="0.18.0", tp=2), "", 2),
    Case("E217", vllm("sarvamai/sarvam-105b", "24.25", 706256, "70.63", 10000, version="0.18.0", tp=2), "", 2),
    Case("E241", vllm("Qwen/Qwen3.6-27B", "55.08", 225008, "6.73", 131072, version="0.19.1", prefixes="None"), "", 2),
    Case("E303", vllm("google/gemma-4-31B-it", "24.54", 26800, None, 4096), "", 1),
    Case("E340", vllm("lightonai/LightOnOCR-2-1B", "77.94", None, "44.53", 16384, version="0.15.1"),
         "--model lightonocr", 1),
    Case("E361", vllm("Qwen/Qwen2.5-0.5B", "9.25", 808192, None, 2048), "", 1),
    # vLLM for MetaX, which says vllm: 24,115 blocks of 196,608 B
    Case("E376", vllm("LiquidAI/LFM2-1.2B", "4.42", 128608, "365.38", 1024), "", 2),
    Case("E377", vllm("LiquidAI/LFM2-1.2B", "4.42", 128608, "185.50", 2048), "", 2),
    Case("E378", vllm("LiquidAI/LFM2-1.2B", "4.42", 128608, "93.47", 4096), "", 2),
    Case("E414", ("INFO 10-04 21:59:38 gpu_executor.py:122] # GPU blocks: 5136, # CPU blocks: 4681",),
         "--model qwen2.5-7b", 1, 1),
    Case("E415", ("INFO 01-02 08:16:09 gpu_executor.py:76] # GPU blocks: 11836, # CPU blocks: 4681",
                  "INFO 01-02 08:16:09 gpu_executor.py:80] Maximum concurrency for 200 tokens per request: 946.88x"),
         "--model qwen2-7b", 2, 1),
    Case("E455", vllm("Qwen/Qwen2.5-1.5B-Instruct", "15.85", 593424, "72.44", 8192, version="0.28.0"), "", 2),
    Case("E473", hybrid(400, "1.39"), "--model granite4-h-350m --engine vllm@0.11.1rc2", 2),
    Case("E476", vllm("MiniMax-M3-MXFP4", "16.81", 237312, "28.97", 8192, version="0.23.1rc1.dev550", tp=2), "", 2),

    Case("E004", sglang("Qwen/Qwen3-235B-A22B-FP8", pool(367404, "8.23", "8.23"), tp=4), "", 2),
    Case("E330", sglang("Qwen/Qwen3-30B-A3B-Instruct-2507", pool(1669816, "76.44", "76.44")), "", 2),
    Case("E263", sglang("internal", pool(786432, "6.00", "6.00")), "--model kda", 2),
    Case("E364", sglang("google/gemma-4-26B-A4B", "Use sliding window memory pool. full_layer_tokens=-40934, "
                        "swa_layer_tokens=-32747"), "", 1),
    Case("E417", sglang("deepseek-ai/DeepSeek-V3", pool(524288, "17.16", dtype="float8_e4m3fn")), "", 1),
    # the library has 3.6 of this shape; 3.8 was not published with a file
    Case("E422", sglang("Qwen/Qwen3.8-27B-FP8", "Mamba Cache is allocated. max_mamba_cache_size: 124, conv_state size: "
                        "0.34GB, ssm_state size: 17.58GB ", pool(330323, "10.08", "10.08")), "--model qwen3.6-27b", 5),
    Case("E437", sglang("google/diffusiongemma-26B-A4B-it", "Use sliding window memory pool. full_layer_tokens=70656, "
                        "swa_layer_tokens=56320", pool(56320, "5.40", "5.40"), pool(70656, "0.68", "0.68")),
         "--model gemma4-26b-a4b", 5),
    Case("E439", sglang("qwen/qwen2.5-0.5b-instruct", pool(20480, "0.12", "0.12")), "", 2),

    Case("E110", tensorrt("Number of tokens per block: 64.", allocated("0.54", 16576)),
         "--model deepseek-v3 --kv-dtype fp8", 1),
    # a quarter of what is free, which the log does not say
    Case("E431", tensorrt("Memory usage when calculating max tokens in paged kv cache: total: 21.95 GiB, available: 8.73 "
                          "GiB", allocated("2.18", 190656)), "--model qwen2.5-0.5b", 1, 1),
    Case("E444", tensorrt("Allocate 7952400384 bytes for k/v cache. ",
                          "Using 60672 total tokens in paged KV cache, and 20 blocks per sequence", version="0.8.0"),
         "--model llama3-8b", 1),

    Case("E221", old_llama(512, "780.00", "390.00"), "--model llama-30b", 3),
    Case("E218", old_llama(512, "256.00", "128.00"), "--model llama2-7b", 3),
    Case("E220", old_llama(512, "160.00", "80.00"), "--model llama2-70b", 3),
    Case("E305", old_llama(2048, "1024.00", "512.00"), "--model llama2-7b", 3),
    Case("E502", old_llama(2048, "40.00", "20.00"), "--model starcoder", 3),
    Case("E495", old_llama(2048, "768.00", "384.00"), "--model phi3-mini-4k", 3),
    Case("E318", old_llama(256000, "48000.00", "24000.00"), "--model llama4-scout", 3),
    Case("E505", (llama("3072.00", "1536.00", 131072, 12), llama("18.00", "9.00", 768, 12)), "--model gpt-oss-20b", 10),
    Case("E066", ("llama_context: n_ctx         = 8192", "llama_context: n_ubatch      = 128",
                  llama("102.00", "51.00", 8192, 12, kind="q8_0"), llama("3.19", "1.59", 256, 12, kind="q8_0")),
         "--model gpt-oss-20b", 10),
    Case("E065", ("build: 8467 (0c1e57098) with GNU 13.3.0 for Linux x86_64",
                  states("50.25", 1, 32, ("2.25", "48.00"))), "--model qwen3.5-4b", 5),
    Case("E055", ("build: 9496 (0c1e57098) with GNU 13.3.0 for Linux x86_64",
                  llama("3072.00", "1536.00", 131072, 12, "4/1"), states("301.50", 4, 48)), "--model qwen3-next-80b", 8),
    Case("E060", (states("251.25", 4, 40, ("11.25", "240.00"), 0),), "--model qwen3.5-35b-a3b", 5),
    Case("E061", ("llama_context: n_ctx         = 65536", states("125.62", 2, 40)), "--model qwen3.6-35b-a3b", 3),
    Case("E064", (llama("512.00", "256.00", 8192, 16), states("149.62", 1, 64)), "--model qwen3.6-27b", 8),
    Case("E085", (llama("144.00", "72.00", 8192, 16, kind="q4_0"),), "--model qwen3.5-27b", 5),
    Case("E316", (llama("11231.69", "5615.84", 87296, 62, kind="q8_0"),), "--model minimax-m2", 5),

    Case("E082", (llama("3528.00", "1764.00", 200704, 16, kind="q4_0"), states("748.12", 1, 64, ("28.12", "720.00"), 4)),
         "--model qwen3.6-27b", 10),
    Case("E322", (llama("512.00", "256.00", 4096, 32),), "--model mistral-7b-v0.3", 5),
    Case("E323", ("llama_kv_cache:        CPU KV buffer size =  2048.00 MiB",
                  "llama_kv_cache:      CUDA0 KV buffer size = 38912.00 MiB",
                  llama("40960.00", "20480.00", 131072, 80)), "--model llama3.3-70b", 5),
]  # fmt: skip

# Lines of logs on other pages, found by their words.
FURTHER = [
    # 18 full layers of 8,192 tokens and 18 of 4,096 and a batch of 512, 2,048 B each
    Case("Ollama 0.11.10 with an engine of its own", (
        'level=INFO source=routes.go:1384 msg="Listening on [::]:11434 (version 0.11.10-0-g5994e8e)"',
        own_ollama(8192, "true"), 'level=INFO source=backend.go:321 msg="kv cache" device=ROCm0 size="450.0 MiB"'),
        "--model gpt-oss-120b", 1),
    Case("Ollama 0.16.1 on a Raspberry Pi", (
        'level=INFO source=routes.go:1689 msg="Listening on 127.0.0.1:11434 (version 0.16.1)"',
        own_ollama(4096, "Enabled"), 'level=INFO source=device.go:256 msg="kv cache" device=CPU size="384.0 MiB"'),
        "--model qwen3-30b-a3b", 1),
    # together 3.0 GiB: 48 layers of 32,768 tokens, 2,048 B each
    Case("Ollama on an A10 and its host", (
        'level=DEBUG source=device.go:217 msg="kv cache" device=CUDA0 size="1.9 GiB"',
        'level=DEBUG source=device.go:222 msg="kv cache" device=CPU size="1.1 GiB"'),
        "--model qwen3-30b-a3b --context 32k", 2),
    Case("vLLM 0.29.0 on a CPU", (
        ("INFO ... Mamba cache mode is set to 'align' for Qwen3_5ForConditionalGeneration by default when prefix caching is "
        "enabled"),
        "INFO ... [qwen_gdn_linear_attn.py:155] Using CPU GDN prefill kernel (head_k_dim=128).",
        *hybrid(640, "20.75"),
        "INFO ... Explicitly set (1.0/7.81) GiB for KV cache on node 0.",
        "INFO ... GPU KV cache size: 27,852 tokens, Maximum concurrency for 2,048 tokens per request: 13.60x"),
        "--model qwen3.5-0.8b", 4),
    Case("vLLM 0.7.3 on an A100", (
        ("INFO 03-11 10:36:54 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: model='Qwen/Qwen2.5-0.5B', "
        "dtype=torch.bfloat16, max_seq_len=32768, tensor_parallel_size=1, pipeline_parallel_size=1, kv_cache_dtype=auto"),
        ("INFO 03-11 10:37:11 worker.py:267] model weights take 0.94GiB; non_torch_memory takes 0.09GiB; PyTorch activation "
        "peak memory takes 1.44GiB; the rest of the memory reserved for KV Cache is 34.81GiB."),
        "INFO 03-11 10:37:11 executor_base.py:111] # cuda blocks: 190100, # CPU blocks: 21845",
        "INFO 03-11 10:37:11 executor_base.py:116] Maximum concurrency for 32768 tokens per request: 92.82x"), "", 3),
    Case("TensorRT-LLM on an RTX 5090", (
        ("[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 31.84 GiB, available: "
        "17.83 GiB"),
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 8219",
        "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008)"),
        "--model llama3.1-8b --kv-dtype fp8", 3),
    # windows are kept in full, and the last block is rounded up
    Case("TensorRT-LLM 1.1.0rc3 on a Spark", (
        ("[12/20/2025-04:21:51] [TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, "
        "available KV cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.8999999761581421, kv size is "
        "73728. device total memory 119.70 GiB"),
        "[12/20/2025-04:21:51] [TRT-LLM] [I] Estimated max memory in KV cache : 5.95 GiB",
        "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720)."),
        "--model gpt-oss-120b", 3),
]  # fmt: skip
