"""TensorRT-LLM's first cache manager: bytes a token, blocks of 32 tokens, equal bytes for each window.

Source: main branch of 2026, `tensorrt_llm/_torch/pyexecutor/_util.py` (KvCacheCreator) and `resource_manager.py`
(KVCacheManager). Not pinned to a release, and not run: five posted logs agree.
"""

from kvcalc.core import dtypes
from kvcalc.core.card import Capability
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import attention_tokens, kept, size
from kvcalc.core.model import Attention, Cache, Indexer, Latent, Shared
from kvcalc.core.units import Fraction, ceil_div
from kvcalc.engines.allocation import Allocation, Capacity, Charge, Rule, Step
from kvcalc.engines.base import Engine, Stored
from kvcalc.engines.question import Question, no_rule
from kvcalc.engines.stages import StageCaches, stage_caches
from kvcalc.engines.tensorrt_llm.flags import FLAGS, model_of, options_of
from kvcalc.engines.tensorrt_llm.memory import memory, scheduler
from kvcalc.engines.tensorrt_llm.start import start
from kvcalc.engines.tensorrt_llm.versions import VERSIONS, Version
from kvcalc.errors import KvcalcError

__all__ = ["ENGINE", "token_bytes"]


_REPLICATED = Rule(
    "heads and latents that every rank holds", "resource_manager.py: ceil(heads / tp); a latent is whole on each"
)
_WINDOW = Rule(
    "windows up to the context in whole blocks", "resource_manager.py: KVCacheManager, blocks of each window"
)
_BLOCKS = Rule("whole blocks", "resource_manager.py: tokens_per_block")


def allocate(question: Question) -> Allocation:
    """The reservation of the first manager. Its second one divides a byte quota by a rule that is not known."""
    version = question.version
    assert isinstance(version, Version)
    if question.settings.get("second_manager"):
        raise KvcalcError("--use_kv_cache_manager_v2: how its byte quotas become blocks is not known", "leave it out")
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
        window = kept(each.cache) or 0
        window = 0 if window >= question.request.context else window
        windows[window] = windows.get(window, 0) + each.copies * token_bytes(each.cache, question)
    return windows


def token_bytes(cache: Cache, question: Question) -> int:
    k, v = question.request.widths[:2]
    match cache:
        case Attention(pattern="full" | "sliding", kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            return heads * (dtypes.row_bytes(k, k_dim) + dtypes.row_bytes(v, v_dim))
        case Latent(rank=rank, rope=rope):
            return dtypes.row_bytes(k, rank + rope)
        case Indexer():
            raise KvcalcError("--engine: tensorrt-llm's factor for index keys depends on its revision", "leave it out")
        case _:
            raise no_rule("tensorrt-llm", cache)


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
        blocks, span = min(counts), window or length
        lines.append(
            f"Max KV cache blocks per sequence: {ceil_div(min(span, length), block)} [window size={span}], "
            f"tokens per block={block}, primary blocks={blocks}, secondary blocks=0, max sequence length={length}"
        )
        tokens, taken = max(tokens, blocks * block), taken + blocks * block * stages[0][window]
    allocated = f"[MemUsageChange] Allocated {taken / 2**30:.2f} GiB for max tokens in paged KV cache ({tokens})."
    return (*lines, f"Number of tokens per block: {block}.", allocated)


def _charge(each: StageCaches, question: Question, block: int) -> Charge:
    request, ranks = question.request, question.request.layout.tp
    times = each.copies * question.sequences * ranks
    token = token_bytes(each.cache, question)
    held = attention_tokens(each.cache, request.context, None) if isinstance(each.cache, Attention) else request.context
    reserved = ceil_div(held, block) * block
    rule = _BLOCKS if held == request.context else _WINDOW
    local = size(each.cache, request.context, request.widths, None)
    steps = (Step(_REPLICATED, times * local), Step(rule, times * token * reserved))
    how = f"{each.copies} layers x {question.sequences:,} x {reserved:,} tokens x {token:,} B"
    return Charge(
        cache_name(each.cache), each.copies, each.exact, steps, (("kv_bytes", steps[-1].bytes),), how, each.stage, ranks
    )


def utilization(question: Question, vram: int) -> Fraction:  # noqa: ARG001 - one signature for all engines
    """`free_gpu_memory_fraction`, of what weights leave."""
    assert isinstance(question.version, Version)
    layout = question.request.layout
    if question.settings.get("attention_dp") and layout.dp > layout.sharing == 1:
        raise KvcalcError(
            "--enable_attention_dp: how much of the weights each GPU holds is not known", "give --kv-memory"
        )
    return question.version.utilization


_FP8_UNITS, _FP4_UNITS = (8, 9), (10, 0)


def least(version: object, what: Stored, name: str) -> Capability | None:  # noqa: ARG001 - one signature for all engines
    """The least capability for a format. Ampere has bf16, INT8 and INT4 and no FP8, in weights or cache: reference/
    support-matrix of 0.18.2 and 0.19.0; FP4 is Blackwell's (features/quantization of 1.0.0).
    """
    return _FP8_UNITS if name.startswith("fp8") else _FP4_UNITS if name == "nvfp4" else None


ENGINE = Engine(
    "tensorrt-llm",
    VERSIONS,
    allocate,
    ("bf16", "fp16", "fp8", "fp8_e4m3", "nvfp4"),
    FLAGS,
    options_of,
    model_of,
    utilization=utilization,
    vendors=("NVIDIA",),
    memory=memory,
    of_free=True,
    limit="max_batch_size",
    scheduler=scheduler,
    one_format=True,
    block="tokens_per_block",
    start=start,
    least=least,
    run_flags={"max_num_seqs": "--max_batch_size", "max_num_batched_tokens": "--max_num_tokens"},
)
