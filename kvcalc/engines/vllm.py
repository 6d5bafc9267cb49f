"""vLLM: one pool of blocks for all layers. What it reserves, counts and logs, by version.

Sources: `v1/core/kv_cache_utils.py` and `v1/core/kv_cache_planning.py` of 0.33.0; the history from the wheels of 0.11.0
to 0.30.0.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kvcalc.engines import _vllm_flags as flags
from kvcalc.engines._vllm_groups import Entry, Group, group, widest
from kvcalc.engines._vllm_settings import VERSIONS, Version, assumed, drafts, log, settings_of
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
from kvcalc.sharding import rank_tokens, shard
from kvcalc.units import many

__all__ = ["ENGINE"]

_REPLICATED = Rule(
    "heads and latents that every rank holds", "max(1, heads // tp) on a rank; a latent is whole on each"
)
_DRAFT = Rule("draft layers", "v1/core/kv_cache_planning.py: drafts are layers of the list")
_FORMAT = Rule(
    "formats of the cache and of states", "v1/kv_cache_interface.py; mamba_utils.py: MambaStateDtypeCalculator"
)
_IN_FLIGHT = Rule("windows keep W - 1 and the tokens in flight", "v1/kv_cache_interface.py: SlidingWindowSpec")
_BLOCKS = Rule("whole blocks", "v1/kv_cache_interface.py: max_memory_usage_bytes")
_SNAPSHOTS = Rule("more than one block for each state", "v1/kv_cache_interface.py: MambaSpec")
_PADDED = Rule("pages padded to one size", "v1/core/kv_cache_planning.py: pages of all groups are equal")
_GROUPS = Rule("groups padded to the widest", "v1/core/kv_cache_planning.py: a block is as wide as the widest group")


class _Placed(NamedTuple):
    """A cache in vLLM's list of layers: a rank's part, the whole, and whether it belongs to a draft."""

    cache: Cache
    whole: Cache
    draft: bool


class _Laid(NamedTuple):
    """A model laid into vLLM's pool: its caches in order, their groups, and bytes of a block by stage."""

    caches: list[_Placed]
    groups: list[Group]
    widths: list[int]
    settings: Settings

    def blocks(self, each: Group, tokens: int) -> int:
        """Blocks of one sequence in one group."""
        return max(blocks_per_sequence(spec, tokens, self.settings) for spec in each.specs)

    def per_sequence(self, tokens: int) -> int:
        return sum(self.blocks(each, tokens) for each in self.groups)


def plan(question: Question) -> Plan:
    """vLLM's reservation. The budget comes in by the plan's `capacity` alone."""
    version = question.version
    assert isinstance(version, Version)
    settings = settings_of(question, version)
    laid = _lay(question, settings, version)
    tokens = question.request.context
    per_sequence = laid.per_sequence(tokens)

    def blocks_in(budget: int) -> int:
        given = question.knobs.get("num_gpu_blocks")
        return given if isinstance(given, int) else min(budget // width for width in laid.widths)

    def capacity(budget: int) -> Capacity:
        blocks = blocks_in(budget)
        length = _fitting_length(laid, blocks, tokens) if question.knobs.get("auto_length") else tokens
        concurrency = blocks / laid.per_sequence(length)  # doubles in this order, as the engine has them
        if version.exact_tokens:
            counted = int(concurrency * length)
        else:
            least = min(spec.block for each in laid.groups for spec in each.specs)
            counted = blocks // len(laid.groups) * least * settings.dcp
        values = {"num_blocks": blocks, "max_model_len": length}
        return Capacity(counted, float(f"{concurrency:.2f}"), values, log(version, counted, length, concurrency))

    def holds(budget: int) -> bool:
        # One block is the null block, which no sequence can use.
        return blocks_in(budget) - 1 >= question.sequences * per_sequence

    return Plan(
        tuple(_charges(question, laid)),
        values={
            "block_size": settings.block,
            "bytes_per_block": max(laid.widths),
            "blocks_per_sequence": per_sequence,
            "groups": len(laid.groups),
        },
        facts=assumed(question, version, settings),
        capacity=capacity,
        holds=holds,
    )


def _fitting_length(laid: _Laid, blocks: int, most: int) -> int:
    """`--max-model-len auto`: the longest sequence up to the limit that fits beside the null block."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if laid.per_sequence(middle) <= blocks - 1 else (low, middle - 1)
    return low


def _lay(question: Question, settings: Settings, version: Version) -> _Laid:
    """The specs of all layers in order, drafts behind them on the last stage, and their groups."""
    layers, model, layout = question.placement.layers, question.request.model, question.request.layout
    widen = _without_windows(question)
    specs: dict[Cache, Spec | None] = {}
    entries: list[Entry] = []
    caches: list[_Placed] = []
    listed = [(placed.stage, placed.caches, whole, False) for placed, whole in zip(layers, model.layers, strict=True)]
    listed += [
        (layout.pp - 1, tuple(shard(cache, layout) for cache in layer), layer, True) for layer in drafts(question)
    ]
    for stage, parts, wholes, draft in listed:
        for cache, whole in zip(parts, wholes, strict=True):
            wide = widen(cache)
            if wide not in specs:
                specs[wide] = spec_of(wide, settings)
            spec = specs[wide]
            if spec is not None:
                entries.append(Entry(len(entries), stage, spec))
                caches.append(_Placed(cache, whole, draft))
    if not entries:
        raise KvcalcError("--engine: vllm keeps no cache for this model", "leave it out")
    groups = group(entries, version.close)
    return _Laid(caches, groups, [widest(groups, stage) for stage in range(layout.pp)], settings)


def _without_windows(question: Question) -> Callable[[Cache], Cache]:
    """Windows widened to the whole context where vLLM's manager of several kinds is off (`config/vllm.py`).

    By a flag, and by default for Llama 4, whose chunks it does not manage; a model without full layers keeps its own.
    """
    knobs, distinct = question.knobs, question.request.model.distinct_caches
    managed = knobs.get("hybrid", not (question.request.model.model_type or "").startswith("llama4"))
    full = any(isinstance(cache, Attention) and cache.reach == "full" for cache in distinct)
    if knobs.get("windows", True) and (managed or not full):
        return lambda cache: cache

    def widen(cache: Cache) -> Cache:
        if isinstance(cache, Attention) and cache.reach in ("sliding", "chunked"):
            return cache._replace(reach="full", span=None)
        return cache

    return widen


def _charges(question: Question, laid: _Laid) -> Iterator[Charge]:
    """What each cache takes of the blocks, and what the padding of each group takes."""
    sequences, ranks = question.sequences, question.request.layout.tp
    for each in laid.groups:
        blocks = laid.blocks(each, question.request.context)
        alike: Counter[tuple[int, Spec, _Placed]] = Counter()
        for entry in each.entries:
            alike[entry.stage, entry.spec, laid.caches[entry.position]] += 1
        for (stage, spec, placed), copies in alike.items():
            yield _charge(question, laid.settings, placed, _Pages(spec, blocks, copies, stage))
        for stage, width in enumerate(laid.widths):
            waste = width - each.pages(stage)
            if waste:
                amount = sequences * blocks * waste * ranks
                how = f"{sequences:,} x {blocks:,} blocks x {waste:,} B"
                steps = (Step(_GROUPS, amount),)
                yield Charge("padding of a group", 0, 0, steps, (("padding_bytes", amount),), how, stage, ranks)


class _Pages(NamedTuple):
    """Pages of equal caches: `blocks` of each sequence in each of `copies` layers of a stage."""

    spec: Spec
    blocks: int
    copies: int
    stage: int


def _charge(question: Question, settings: Settings, placed: _Placed, pages: _Pages) -> Charge:
    """The way from the exact size of equal caches to their pages, rule by rule."""
    request, sequences, ranks = question.request, question.sequences, question.request.layout.tp
    cache, spec, copies = placed.cache, pages.spec, pages.copies
    times = copies * sequences * ranks

    def exact(part: Cache, tokens: int) -> int:
        return size(part, tokens, request.widths, request.encoder_tokens)

    held = rank_tokens(cache, request.context, settings.dcp)
    steps = [Step(_DRAFT if placed.draft else _REPLICATED, times * exact(cache, held))]
    match cache:
        case Recurrent():
            page = state_page(cache, settings)
            steps += [Step(_FORMAT, times * page), Step(_SNAPSHOTS, times * pages.blocks * page)]
        case Attention() | Latent() | Indexer():
            token = token_bytes(cache, settings)
            kept = attention_tokens(cache, held, request.encoder_tokens) if isinstance(cache, Attention) else held
            steps += [
                Step(_FORMAT, times * token * kept),
                Step(_IN_FLIGHT, times * token * needed_tokens(spec, request.context, settings)),
                Step(_BLOCKS, times * pages.blocks * spec.page),
            ]
    amount = times * pages.blocks * spec.stored
    steps.append(Step(_PADDED, amount))
    how = (
        f"{many(copies, 'layer')} x {many(sequences, 'sequence')} x {many(pages.blocks, 'block')}"
        f" of {spec.block:,} tokens x {spec.stored:,} B"
    )
    part = "state_bytes" if spec.kind == "mamba" else "kv_bytes"
    whole = 0 if placed.draft else copies * sequences * exact(placed.whole, request.context)
    name = cache_name(cache) + (" of the draft" if placed.draft else "")
    return Charge(name, copies, whole, tuple(steps), ((part, amount),), how, pages.stage, ranks)


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
    packed=flags.PACKED,
    overhead=(_LEAST_OVERHEAD, _MOST_OVERHEAD),
)
