"""The way from the exact size of each cache to the blocks that vLLM allocates for it, rule by rule."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, assert_never

from kvcalc.core.explain import cache_name
from kvcalc.core.formula import attention_tokens, kept, size
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.core.sharding import rank_tokens
from kvcalc.core.units import many
from kvcalc.engines.allocation import Charge, Rule, Step
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.layout import Laid, PlacedSpec
from kvcalc.engines.vllm.specs import Settings, Spec, needed_tokens, state_page, token_bytes

__all__ = ["charges"]

_REPLICATED = Rule(
    "heads and latents that every rank holds", "max(1, heads // tp) on a rank; a latent is whole on each"
)
_DRAFT = Rule("draft layers", "v1/core/kv_cache_planning.py: drafts are layers of the list")
_FORMAT = Rule(
    "formats of the cache and of states", "v1/kv_cache_interface.py; mamba_utils.py: MambaStateDtypeCalculator"
)
_IN_FLIGHT = Rule("windows keep W - 1 and the tokens in flight", "v1/kv_cache_interface.py: SlidingWindowSpec")
_CHUNKS = Rule("chunks and the tokens in flight", "v1/kv_cache_interface.py: ChunkedLocalAttentionSpec")
_WIDENED = Rule("windows kept in full", "config/vllm.py: disable_hybrid_kv_cache_manager")
_CROSS = Rule(
    "cross-attention keeps the encoder's budget of tokens",
    "v1/kv_cache_interface.py: CrossAttentionSpec, encoder tokens",
)
_BLOCKS = Rule("whole blocks", "v1/kv_cache_interface.py: max_memory_usage_bytes")
_SNAPSHOTS = Rule("more than one block for each state", "v1/kv_cache_interface.py: MambaSpec")
_RINGS = Rule("what waits to be compressed", "models/deepseek_v4/compressor.py: CompressorStateCache")
_PADDED = Rule("pages padded to one size", "v1/core/kv_cache_planning.py: pages of all groups are equal")
_GROUPS = Rule("groups padded to the widest", "v1/core/kv_cache_planning.py: a block is as wide as the widest group")


def charges(question: Question, laid: Laid) -> Iterator[Charge]:
    """What each cache takes of the blocks, and what the padding of each group takes."""
    sequences, ranks = question.sequences, question.request.layout.tp
    for each in laid.groups:
        blocks = laid.blocks(each, question.request.context)
        alike: Counter[tuple[int, Spec, PlacedSpec]] = Counter()
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


def _charge(question: Question, settings: Settings, placed: PlacedSpec, pages: _Pages) -> Charge:
    """The way from the exact size of equal caches to their pages, rule by rule."""
    sequences, ranks, spec, copies = question.sequences, question.request.layout.tp, pages.spec, pages.copies
    own = settings.plain if placed.plain else settings
    times = copies * sequences * ranks
    alone = placed.whole if not placed.draft else None
    exact = copies * sequences * _exact(question, alone, spec, question.request.context) if alone else 0
    held = rank_tokens(placed.cache, question.request.context, settings.dcp)
    first = Step(_DRAFT if placed.draft else _REPLICATED, times * _exact(question, placed.cache, spec, held))
    steps = [Step(rule, times * amount) for rule, amount in _rules(question, placed.cache, own, pages)]
    amount = times * pages.blocks * spec.stored
    how = (
        f"{many(copies, 'layer')} x {many(sequences, 'sequence')} x {many(pages.blocks, 'block')}"
        f" of {spec.block:,} tokens x {spec.stored:,} B"
    )
    part = "state_bytes" if spec.kind == "mamba" else "kv_bytes"
    name = ", ".join(filter(None, (cache_name(placed.cache), spec.part))) + (" of the draft" if placed.draft else "")
    chain = (first, *steps, Step(_PADDED, amount))
    return Charge(name, copies, exact, chain, ((part, amount),), how, pages.stage, ranks)


def _exact(question: Question, cache: Cache, spec: Spec, tokens: int) -> int:
    """The exact size of what a spec holds of a cache: rings hold none of it, index keys stand apart from entries."""
    request = question.request
    whole = size(cache, tokens, request.widths, request.encoder_tokens)
    if not isinstance(cache, Compressed):
        return whole
    entries = size(cache._replace(indexer=0), tokens, request.widths, None)
    return {"entries": entries, "index keys": whole - entries}.get(spec.part, 0)


def _rules(question: Question, cache: Cache, settings: Settings, pages: _Pages) -> Iterator[tuple[Rule, int]]:
    """Bytes of one layer and sequence on one rank, once each rule holds."""
    request, spec = question.request, pages.spec
    held = rank_tokens(cache, request.context, settings.dcp)
    match cache:
        case Recurrent():
            page = state_page(cache, settings)
            yield _FORMAT, page
            yield _SNAPSHOTS, pages.blocks * page
        case Compressed() if spec.kind == "mla":
            yield _FORMAT, held // spec.tokens * spec.state
            yield _BLOCKS, pages.blocks * spec.page
        case Compressed():
            yield _RINGS, pages.blocks * spec.page
        case Attention() | Latent() | Indexer():
            token = token_bytes(cache, settings)
            stored = attention_tokens(cache, held, request.encoder_tokens) if isinstance(cache, Attention) else held
            yield _FORMAT, token * stored
            if (rule := _span_rule(cache, spec)) is not None:
                yield rule, token * needed_tokens(spec, request.context, settings)
            yield _BLOCKS, pages.blocks * spec.page
        case Shared():
            pass
        case _:
            assert_never(cache)


def _span_rule(cache: Cache, spec: Spec) -> Rule | None:
    """Why a layer holds other tokens than those of its cache's own span; None where it holds the context."""
    match spec.kind:
        case "sliding" | "sliding_mla":
            return _IN_FLIGHT
        case "chunked":
            return _CHUNKS
        case "cross":
            return _CROSS
        case "full" | "mla" | "mamba":
            return None if kept(cache) is None else _WIDENED
        case _:
            assert_never(spec.kind)
