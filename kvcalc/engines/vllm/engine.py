"""vLLM: one pool of blocks for all layers. What it reserves, counts and logs, by version.

Sources: `v1/core/kv_cache_utils.py` and `v1/core/kv_cache_planning.py` of 0.33.0; the history from the wheels of 0.11.0
to 0.30.0.
"""

from kvcalc.core.units import Fraction
from kvcalc.engines.allocation import Allocation, Capacity, Charges
from kvcalc.engines.base import Engine
from kvcalc.engines.host_tier import values_of
from kvcalc.engines.question import Question
from kvcalc.engines.vllm import kernels
from kvcalc.engines.vllm.batches import scheduler
from kvcalc.engines.vllm.charges import charges
from kvcalc.engines.vllm.flags import FLAGS, model_of, options_of
from kvcalc.engines.vllm.formats import PACKED
from kvcalc.engines.vllm.host import SEEN, host_tier
from kvcalc.engines.vllm.layout import Laid, laid_of, longest
from kvcalc.engines.vllm.memory import memory
from kvcalc.engines.vllm.settings import assumed
from kvcalc.engines.vllm.start import replicates, start
from kvcalc.engines.vllm.versions import VERSIONS, Version, dropped, log
from kvcalc.errors import KvcalcError

__all__ = ["ENGINE"]


def allocate(question: Question) -> Allocation:
    """vLLM's reservation. The budget comes in by the plan's `capacity` alone."""
    version = question.version
    assert isinstance(version, Version)
    laid = laid_of(question, version)
    settings = laid.settings
    tokens = question.request.context
    per_sequence, most = laid.per_sequence(tokens), longest(question)
    if most is not None and tokens > most:
        raise KvcalcError(
            f"--disable-sliding-window: vllm cuts the length to the window of {most:,} tokens", f"--context {most}"
        )

    tier = host_tier(question, laid)

    def blocks_in(budget: int) -> int:
        given = question.settings.get("num_gpu_blocks")
        return given if isinstance(given, int) else min(budget // width for width in laid.widths)

    def capacity(budget: int) -> Capacity:
        blocks = blocks_in(budget)
        length = _fitting_length(laid, blocks, tokens) if question.settings.get("auto_length") else tokens
        concurrency = blocks / laid.per_sequence(length)  # doubles in this order, as the engine has them
        if version.exact_tokens:
            counted = int(concurrency * length)
        else:
            least = min(spec.block for each in laid.groups for spec in each.specs)
            counted = blocks // len(laid.groups) * least * settings.dcp
        values = {"num_blocks": blocks, "max_model_len": length, **values_of(tier)}
        return Capacity(counted, float(f"{concurrency:.2f}"), values, log(version, counted, length, concurrency))

    def holds(budget: int) -> bool:
        # One block is the null block, which no sequence can use.
        return blocks_in(budget) - 1 >= question.sequences * per_sequence

    return Allocation(
        Charges(lambda: charges(question, laid)),
        values={
            "block_size": settings.block,
            "bytes_per_block": max(laid.widths),
            "blocks_per_sequence": per_sequence,
            "groups": len(laid.groups),
            **values_of(tier),
        },
        facts=(*assumed(question, version, settings), *([] if tier is None else [tier.said(SEEN)])),
        warnings=dropped(version, question.request.model.model_type),
        capacity=capacity,
        holds=holds,
        most_tokens=most,
        fullest=question.sequences * per_sequence * max(laid.widths),  # each block is as wide as the widest group's
    )


def _fitting_length(laid: Laid, blocks: int, most: int) -> int:
    """`--max-model-len auto`: the longest sequence up to the limit that fits beside the null block."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if laid.per_sequence(middle) <= blocks - 1 else (low, middle - 1)
    return low


def utilization(question: Question, vram: int) -> Fraction:  # noqa: ARG001 - one signature for all engines
    """`--gpu-memory-utilization`, of the driver's total."""
    assert isinstance(question.version, Version)
    return question.version.utilization


def own_pool(question: Question) -> int | None:
    """`--num-gpu-blocks-override`: that many blocks, whatever memory there is (`v1/core/kv_cache_utils.py`)."""
    given = question.settings.get("num_gpu_blocks")
    if not isinstance(given, int):
        return None
    assert isinstance(question.version, Version)
    return given * max(laid_of(question, question.version).widths)


ENGINE = Engine(
    "vllm",
    VERSIONS,
    allocate,
    ("fp16", "bf16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4"),  # CacheDType of config/cache.py, and those of its own
    FLAGS,
    options_of,
    model_of,
    utilization=utilization,
    packed=PACKED,
    newest=VERSIONS[-1].name,
    memory=memory,
    context_parallel=True,
    vendors=("NVIDIA", "AMD", "Intel"),
    one_format=True,
    block="block_size",
    start=start,
    replicates=replicates,
    limit="max_num_seqs",
    scheduler=scheduler,
    own_pool=own_pool,
    keeps_whole="--enable-expert-parallel",
    run_flags={
        name: f"--{name.replace('_', '-')}"
        for name in ("max_num_seqs", "max_num_batched_tokens", "enforce_eager", "language_model_only")
    },
    least=kernels.least,
    adapters=lambda room: (
        *("--enable-lora", "--max-loras", f"{room.number}"),
        *("--max-lora-rank", f"{room.rank}"),
    ),
    drafts=lambda name: ("--spec-method", "draft_model", "--spec-model", name, "--spec-tokens", "3"),
)
