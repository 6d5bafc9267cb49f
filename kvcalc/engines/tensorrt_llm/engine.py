"""TensorRT-LLM's first cache manager: bytes a token, blocks of 32 tokens, equal bytes for each window.

Source: main branch of 2026, `tensorrt_llm/_torch/pyexecutor/_util.py` (KvCacheCreator) and `resource_manager.py`
(KVCacheManager). Not pinned to a release, and not run: five posted logs agree.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.commands.flags import Flag, Flags, FlagValues, Image, word
from kvcalc.commands.start import Start, format_word, model_word, share_word, weights_word, words_of
from kvcalc.core import dtypes
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import attention_tokens, size
from kvcalc.core.model import Attention, Cache, Indexer, Latent, Model, Shared
from kvcalc.core.units import Fraction, ceil_div, parse_integer
from kvcalc.engines.base import (
    Allocation,
    Capacity,
    Charge,
    Engine,
    EngineOptions,
    Question,
    Rule,
    StageCaches,
    Step,
    stage_caches,
)
from kvcalc.engines.overrides import parse_object
from kvcalc.errors import KvcalcError

__all__ = ["ENGINE"]


class Version(NamedTuple):
    """A row of constants: tokens of a block, the share of the memory left that the cache takes, and whether it prints
    bytes and tokens in two lines, as the first releases do.
    """

    name: str
    block: int
    utilization: Fraction
    two_lines: bool = False


# 64 tokens in the logs of 2025, 32 since; the release of the change was not read. The lines of 0.8: #1400 and #224 of
# NVIDIA/TensorRT-LLM; a log of 0.11 (janhq/cortex.cpp#981) has others.
VERSIONS = (
    Version("0.8.0", 64, Fraction(9, 10), two_lines=True),
    Version("0.11.0", 64, Fraction(9, 10)),
    Version("1.2.0", 32, Fraction(9, 10)),
)

_REPLICATED = Rule(
    "heads and latents that every rank holds", "resource_manager.py: ceil(heads / tp); a latent is whole on each"
)
_WINDOW = Rule(
    "windows up to the context in whole blocks", "resource_manager.py: KVCacheManager, blocks of each window"
)
_BLOCKS = Rule("whole blocks", "resource_manager.py: tokens_per_block")


def allocate(question: Question) -> Allocation:
    """The reservation of the first manager. Its second one divides a byte quota by a rule that was not read."""
    version = question.version
    assert isinstance(version, Version)
    if question.settings.get("second_manager"):
        raise KvcalcError("--use_kv_cache_manager_v2: how its byte quotas become blocks was not read", "leave it out")
    given = question.settings.get("tokens_per_block")
    block = given if isinstance(given, int) else version.block
    parts = [each for each in stage_caches(question) if not isinstance(each.cache, Shared)]
    stages = [
        _by_window([e for e in parts if e.stage == stage], question) for stage in range(question.request.layout.pp)
    ]

    if not all(stages):
        raise KvcalcError("--pp: a stage of this model would keep no cache in tensorrt-llm", "lower it")

    def capacity(budget: int) -> Capacity:
        found = min((_counted(windows, budget, block) for windows in stages), key=lambda each: each.tokens)
        log = _two_lines(stages, found.tokens) if version.two_lines else ()
        return found._replace(log=log or _log(stages, budget, block, question.request.context))

    def holds(budget: int) -> bool:
        return all(
            _blocks(budget, width, len(windows), block)
            >= question.sequences * _needed(window, question.request.context, block)
            for windows in stages
            for window, width in windows.items()
        )

    return Allocation(
        tuple(_charge(each, question, block) for each in parts),
        values={"block_size": block, "bytes_per_block": block * max(sum(windows.values()) for windows in stages)},
        facts=(f"blocks of {block} tokens, first cache manager",),
        capacity=capacity,
        holds=holds,
    )


def _by_window(parts: list[StageCaches], question: Question) -> dict[int, int]:
    """Bytes a token of the layers of each window on one rank; 0 is the window of full attention."""
    windows: dict[int, int] = {}
    for each in parts:
        window = each.cache.span or 0 if isinstance(each.cache, Attention) and each.cache.reach == "sliding" else 0
        window = 0 if window >= question.request.context else window
        windows[window] = windows.get(window, 0) + each.copies * _token_bytes(each.cache, question)
    return windows


def _token_bytes(cache: Cache, question: Question) -> int:
    k, v = question.request.widths[:2]
    match cache:
        case Attention(reach="full" | "sliding", kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            return heads * (dtypes.row_bytes(k, k_dim) + dtypes.row_bytes(v, v_dim))
        case Latent(rank=rank, rope=rope):
            return dtypes.row_bytes(k, rank + rope)
        case Indexer():
            raise KvcalcError("--engine: tensorrt-llm's factor for index keys depends on its revision", "leave it out")
        case _:
            raise KvcalcError(f"--engine: tensorrt-llm's rule for {cache_name(cache)} was not read", "leave it out")


def _needed(window: int, tokens: int, block: int) -> int:
    return ceil_div(min(window, tokens) if window else tokens, block)


def _blocks(budget: int, width: int, windows: int, block: int) -> int:
    """Blocks of one window, which has an equal share of the bytes."""
    return budget // windows // width // block


def _counted(windows: dict[int, int], budget: int, block: int) -> Capacity:
    full = windows.get(0) or min(windows.values())
    blocks = _blocks(budget, full, len(windows), block)
    values: dict[str, int | str | bool | None] = {"num_blocks": blocks}
    if len(windows) > 1:
        smallest = min(window for window in windows if window)
        values["swa_tokens"] = _blocks(budget, windows[smallest], len(windows), block) * block
    return Capacity(blocks * block, None, values)


def _two_lines(stages: list[dict[int, int]], tokens: int) -> tuple[str, ...]:
    """The lines of 0.8: bytes on one rank of the first stage, and tokens."""
    size = tokens * sum(stages[0].values())
    return (f"Allocate {size} bytes for k/v cache. ", f"Using {tokens} tokens in paged KV cache.")


def _log(stages: list[dict[int, int]], budget: int, block: int, length: int) -> tuple[str, ...]:
    """The lines of a window each, and of the whole; GiB there is 2^30."""
    lines, tokens, taken = [], 0, 0
    for window in stages[0]:
        counts = [_blocks(budget, each[window], len(each), block) for each in stages if window in each]
        blocks, reach = min(counts), window or length
        lines.append(
            f"Max KV cache blocks per sequence: {ceil_div(min(reach, length), block)} [window size={reach}], "
            f"tokens per block={block}, primary blocks={blocks}, secondary blocks=0, max sequence length={length}"
        )
        tokens, taken = max(tokens, blocks * block), taken + blocks * block * stages[0][window]
    allocated = f"[MemUsageChange] Allocated {taken / 2**30:.2f} GiB for max tokens in paged KV cache ({tokens})."
    return (*lines, f"Number of tokens per block: {block}.", allocated)


def _charge(each: StageCaches, question: Question, block: int) -> Charge:
    request, ranks = question.request, question.request.layout.tp
    times = each.copies * question.sequences * ranks
    token = _token_bytes(each.cache, question)
    kept = attention_tokens(each.cache, request.context, None) if isinstance(each.cache, Attention) else request.context
    reserved = ceil_div(kept, block) * block
    rule = _BLOCKS if kept == request.context else _WINDOW
    local = size(each.cache, request.context, request.widths, None)
    steps = (Step(_REPLICATED, times * local), Step(rule, times * token * reserved))
    how = f"{each.copies} layers x {question.sequences:,} x {reserved:,} tokens x {token:,} B"
    return Charge(
        cache_name(each.cache), each.copies, each.exact, steps, (("kv_bytes", steps[-1].bytes),), how, each.stage, ranks
    )


# Flags that cannot change the cache.
_WORDS = """
    host port backend log_level max_beam_width max_num_tokens ep_size gpus_per_node
    num_postprocess_workers reasoning_parser tool_parser tokenizer custom_tokenizer
    metadata_server_config_file server_role served_model_name
"""

FLAGS = Flags(
    ("trtllm-serve serve", "trtllm-serve"),
    (
        Flag("model", ("--model",), word),
        Flag("context", ("--max_seq_len", "--max-seq-len"), parse_integer),
        Flag("tp", ("--tp_size", "--tp-size", "--tensor_parallel_size"), parse_integer),
        Flag("pp", ("--pp_size", "--pp-size", "--pipeline_parallel_size"), parse_integer),
        Flag("kv_dtype", ("--kv_cache_dtype", "--kv-cache-dtype"), word),
        Flag("utilization", ("--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"), Fraction.parse),
        Flag("second_manager", ("--use_kv_cache_manager_v2",)),
        Flag("max_batch_size", ("--max_batch_size", "--max-batch-size"), parse_integer),
        Flag("tokens_per_block", ("--tokens_per_block", "--tokens-per-block"), parse_integer),
        Flag("attention_dp", ("--enable_attention_dp",)),
        Flag("cache", ("--kv_cache_config",), parse_object, fields=True),
        Flag("drafts", ("--speculative_config",), parse_object, fields=True),
        Flag("sparse", ("--sparse_attention_config",), parse_object, fields=True),
    ),
    words=frozenset(f"--{name}" for name in _WORDS.split()),
    config=("--extra_llm_api_options", "--config"),  # llmapi/llm_args.py: update_llm_args_with_extra_options
    config_last=True,
    images=(Image("tensorrt-llm/release", ""),),  # nvcr.io/nvidia
    switches=frozenset({"--trust_remote_code", "--fail_fast_on_attention_window_too_large"}),
)
_OPTIONS = ("context", "tp", "pp", "kv_dtype")


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:
    """Options of ours under their names, the rest as its own settings. The model's limit is the default length."""
    values = {**read.values, **_cache_settings(read.values.get("cache"))}
    utilization, sequences = values.pop("utilization", None), values.pop("max_batch_size", None)
    for key, name in (("drafts", "speculative_config"), ("sparse", "sparse_attention_config")):
        if values.pop(key, None):
            raise KvcalcError(f"--{name}: what it adds to the cache was not read", "leave it out")
    options = {key: value for key, value in values.items() if key in _OPTIONS}
    settings = {key: value for key, value in values.items() if key not in (*_OPTIONS, "model", "cache")}
    if program and model.max_context:
        options.setdefault("context", "max")
    ranks = options.get("tp", 1)
    if settings.get("attention_dp") and isinstance(ranks, int) and ranks > 1:  # resource_manager.py: tp_size is 1
        options["tp"], options["dp"] = 1, ranks
    return EngineOptions(
        options,
        settings,
        utilization=utilization if isinstance(utilization, Fraction) else None,
        sequences=sequences if isinstance(sequences, int) else None,
    )


# kv_cache_config of llmapi/llm_args.py: our keys of its fields, and what cannot change the size of the pool's blocks.
_CACHE_FIELDS = {
    "dtype": "kv_dtype",
    "tokens_per_block": "tokens_per_block",
    "free_gpu_memory_fraction": "utilization",
    "use_kv_cache_manager_v2": "second_manager",
}
_HARMLESS = (
    "enable_block_reuse", "enable_partial_reuse", "copy_on_partial_reuse", "host_cache_size", "event_buffer_max_size",
    "attention_dp_events_gather_period_ms", "onboard_blocks", "secondary_offload_min_priority", "use_uvm",
)  # fmt: skip


def _cache_settings(given: object) -> dict[str, object]:
    """What `kv_cache_config` says of the cache. A field without a rule here is refused."""
    found: dict[str, object] = {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        what = f"kv_cache_config: {name}"
        if value is None or name in _HARMLESS:
            continue
        if name not in _CACHE_FIELDS:
            raise KvcalcError(f"{what}: its effect on the cache was not read", "leave it out")
        key = _CACHE_FIELDS[name]
        if key == "utilization":
            found[key] = Fraction.parse(str(value), what)
        elif key == "tokens_per_block":
            found[key] = parse_integer(str(value), what)
        elif key == "second_manager":
            found[key] = value is True
        else:
            found[key] = str(value)
    return found


def model_of(program: str, read: FlagValues) -> str | None:  # noqa: ARG001
    """The word behind `trtllm-serve`, or its --model."""
    model = read.values.get("model") or (read.others[0] if read.others else None)
    return model if isinstance(model, str) else None


def utilization(question: Question, vram: int) -> Fraction:  # noqa: ARG001 - one signature for all engines
    """`free_gpu_memory_fraction`, of what weights leave."""
    assert isinstance(question.version, Version)
    if question.settings.get("attention_dp"):
        raise KvcalcError(
            "--enable_attention_dp: how much of the weights each GPU holds was not read", "give --kv-memory"
        )
    return question.version.utilization


_CACHE = {"fp8": "fp8", "fp8_e4m3": "fp8", "nvfp4": "nvfp4"}  # --kv_cache_dtype, pull request 11487


def start(start: Start) -> tuple[str, ...]:
    """`trtllm-serve`, for one replica: it has no flag for more of them. Weights are as the checkpoint has them."""
    layout = start.layout
    if layout.dcp > 1:
        raise KvcalcError("--dcp: trtllm-serve has no flag that splits the context of decoding", "leave it out")
    weights_word(start, {}, "tensorrt-llm")
    return (
        *("trtllm-serve", model_word(start)),
        *words_of((flag, size) for flag, size in (("--tp_size", layout.tp), ("--pp_size", layout.pp)) if size > 1),
        *words_of(
            (
                ("--max_seq_len", start.context),
                ("--max_batch_size", start.sequences),
                ("--kv_cache_dtype", format_word(start, _CACHE, "tensorrt-llm")),
                ("--kv_cache_free_gpu_memory_fraction", share_word(start.utilization)),
            )
        ),
    )


ENGINE = Engine(
    "tensorrt-llm",
    VERSIONS,
    allocate,
    ("bf16", "fp16", "fp8", "fp8_e4m3", "nvfp4"),
    FLAGS,
    options_of,
    model_of,
    utilization=utilization,
    # Activations and what is outside torch, measured with a small cache: as other engines' logs have them.
    vendors=("NVIDIA",),
    overhead=(55 * 2**30 // 100, 42 * 2**30 // 10),
    of_free=True,
    one_format=True,
    block="tokens_per_block",
    start=start,
)
