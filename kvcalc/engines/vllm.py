"""vLLM: one pool of blocks for all layers. What it reserves, counts and logs, by version.

Sources: `v1/core/kv_cache_utils.py` and `v1/core/kv_cache_planning.py` of 0.33.0; the history from the wheels of 0.11.0
to 0.30.0.
"""

from collections import Counter
from typing import NamedTuple

from kvcalc.engines import _vllm_flags as flags
from kvcalc.engines._vllm_groups import Entry, Group, group, widest
from kvcalc.engines._vllm_settings import VERSIONS, Version, settings_of
from kvcalc.engines._vllm_specs import (
    Settings,
    Spec,
    blocks_per_sequence,
    needed_tokens,
    spec_of,
    state_page,
    token_bytes,
)
from kvcalc.errors import KvcalcError
from kvcalc.explain import cache_name
from kvcalc.fitting import Share
from kvcalc.formula import attention_tokens, size
from kvcalc.model import Attention, Cache, Indexer, Latent, Recurrent
from kvcalc.reserving import Capacity, Charge, Engine, Plan, Question, Rule, Step
from kvcalc.sharding import rank_tokens

__all__ = ["ENGINE"]

_REPLICATED = Rule(
    "heads and latents that every rank holds", "max(1, heads // tp) on a rank; a latent is whole on each"
)
_FORMAT = Rule(
    "formats of the cache and of states", "v1/kv_cache_interface.py; mamba_utils.py: MambaStateDtypeCalculator"
)
_IN_FLIGHT = Rule("windows keep W - 1 and the tokens in flight", "v1/kv_cache_interface.py: SlidingWindowSpec")
_BLOCKS = Rule("whole blocks", "v1/kv_cache_interface.py: max_memory_usage_bytes")
_SNAPSHOTS = Rule("more than one block for each state", "v1/kv_cache_interface.py: MambaSpec")
_PADDED = Rule("pages padded to one size", "v1/core/kv_cache_planning.py: pages of all groups are equal")
_GROUPS = Rule("groups padded to the widest", "v1/core/kv_cache_planning.py: a block is as wide as the widest group")


class _Laid(NamedTuple):
    """A model laid into vLLM's pool. `groups` in order, the blocks of a sequence in each, bytes of a block by stage."""

    entries: list[Entry]
    caches: list[tuple[Cache, Cache]]  # of each entry: a rank's part, and the whole
    groups: list[Group]
    blocks: list[int]
    widths: list[int]


def plan(question: Question) -> Plan:
    """vLLM's reservation. The budget comes in by the plan's `capacity` alone."""
    version = question.version
    assert isinstance(version, Version)
    settings = settings_of(question, version)
    laid = _lay(question, settings, version)
    per_sequence = sum(laid.blocks)
    tokens = question.request.context

    def capacity(budget: int) -> Capacity:
        blocks = min(budget // width for width in laid.widths)
        concurrency = blocks / per_sequence  # doubles in this order, as the engine has them
        if version.exact_tokens:
            counted = int(concurrency * tokens)
        else:
            least = min(entry.spec.block for each in laid.groups for entry in each.entries)
            counted = blocks // len(laid.groups) * least * settings.dcp
        return Capacity(
            counted,
            float(f"{concurrency:.2f}"),
            {"num_blocks": blocks},
            flags.log(version, counted, tokens, concurrency),
        )

    def holds(budget: int) -> bool:
        # One block is the null block, which no sequence can use.
        return min(budget // width for width in laid.widths) - 1 >= question.sequences * per_sequence

    return Plan(
        tuple(_charges(question, settings, laid)),
        values={
            "block_size": settings.block,
            "bytes_per_block": max(laid.widths),
            "blocks_per_sequence": per_sequence,
            "groups": len(laid.groups),
        },
        facts=flags.facts(question, settings),
        capacity=capacity,
        holds=holds,
    )


def _lay(question: Question, settings: Settings, version: Version) -> _Laid:
    """The specs of all layers in order, their groups, and what a sequence takes of each."""
    layers, model = question.placement.layers, question.request.model
    local = flags.without_windows(question, [placed.caches for placed in layers])
    specs: dict[int, Spec | None] = {}
    entries: list[Entry] = []
    caches: list[tuple[Cache, Cache]] = []
    for placed, parts, wholes in zip(layers, local, model.layers, strict=True):
        for cache, whole in zip(parts, wholes, strict=True):
            if id(cache) not in specs:
                specs[id(cache)] = spec_of(cache, settings)
            spec = specs[id(cache)]
            if spec is not None:
                entries.append(Entry(len(entries), placed.stage, spec))
                caches.append((cache, whole))
    if not entries:
        raise KvcalcError("--engine: vllm keeps no cache for this model", "leave it out")
    groups = group(entries, version.close)
    tokens = question.request.context
    blocks = [max(blocks_per_sequence(e.spec, tokens, settings) for e in each.entries) for each in groups]
    stages = range(question.request.layout.pp)
    return _Laid(entries, caches, groups, blocks, [widest(groups, stage) for stage in stages])


def _charges(question: Question, settings: Settings, laid: _Laid) -> list[Charge]:
    """What each cache takes of the blocks, and what the padding of each group takes."""
    sequences, ranks = question.sequences, question.request.layout.tp
    found = []
    for each, blocks in zip(laid.groups, laid.blocks, strict=True):
        alike: Counter[tuple[int, Spec, Cache, Cache]] = Counter()
        for entry in each.entries:
            alike[entry.stage, entry.spec, *laid.caches[entry.position]] += 1
        for (stage, spec, cache, whole), copies in alike.items():
            found.append(_charge(question, settings, cache, whole, spec, blocks, copies, stage))
        for stage, width in enumerate(laid.widths):
            waste = width - each.pages(stage)
            if waste:
                amount = sequences * blocks * waste * ranks
                how = f"{sequences:,} x {blocks:,} blocks x {waste:,} B"
                found.append(
                    Charge(
                        "padding of a group",
                        0,
                        0,
                        (Step(_GROUPS, amount),),
                        (("padding_bytes", amount),),
                        how,
                        stage,
                        ranks,
                    )
                )
    return found


def _charge(
    question: Question, settings: Settings, cache: Cache, whole: Cache, spec: Spec, blocks: int, copies: int, stage: int
) -> Charge:
    """The way from the exact size of equal caches to their pages, rule by rule."""
    request, sequences, ranks = question.request, question.sequences, question.request.layout.tp
    times = copies * sequences * ranks

    def exact(part: Cache, tokens: int) -> int:
        return size(part, tokens, request.widths, request.encoder_tokens)

    held = rank_tokens(cache, request.context, settings.dcp)
    steps = [Step(_REPLICATED, times * exact(cache, held))]
    match cache:
        case Recurrent():
            page = state_page(cache, settings)
            steps += [Step(_FORMAT, times * page), Step(_SNAPSHOTS, times * blocks * page)]
        case Attention() | Latent() | Indexer():
            token = token_bytes(cache, settings)
            kept = attention_tokens(cache, held, request.encoder_tokens) if isinstance(cache, Attention) else held
            needed = needed_tokens(spec, request.context, settings)
            steps += [
                Step(_FORMAT, times * token * kept),
                Step(_IN_FLIGHT, times * token * needed),
                Step(_BLOCKS, times * blocks * spec.page),
            ]
    amount = times * blocks * spec.stored
    steps.append(Step(_PADDED, amount))
    how = f"{copies} layers x {sequences:,} x {blocks:,} blocks of {spec.block:,} tokens x {spec.stored:,} B"
    part = "state_bytes" if spec.kind == "mamba" else "kv_bytes"
    whole_exact = copies * sequences * exact(whole, request.context)
    return Charge(cache_name(cache), copies, whole_exact, tuple(steps), ((part, amount),), how, stage, ranks)


def utilization(question: Question, vram: int) -> Share:  # noqa: ARG001 - one signature for all engines
    """`--gpu-memory-utilization`, of the driver's total."""
    assert isinstance(question.version, Version)
    return question.version.utilization


# Start-up summaries of 2026: activations 0.2 to 2 GiB for up to 8,192 batched tokens, graphs 0.05 to 0.7, context and
# communication 0.3 to 1.5. Very large mixtures of experts with more batched tokens take more.
_LEAST_OVERHEAD, _MOST_OVERHEAD = 55 * 2**30 // 100, 42 * 2**30 // 10

ENGINE = Engine(
    "vllm",
    VERSIONS,
    plan,
    ("fp16", "bf16", "fp32", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", "int8", "int4"),
    flags.FLAGS,
    flags.asked,
    flags.model_of,
    utilization=utilization,
    overhead=(_LEAST_OVERHEAD, _MOST_OVERHEAD),
)
