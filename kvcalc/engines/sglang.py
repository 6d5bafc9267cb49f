"""SGLang: one pool of pages for a plain model, two for windows, one more for states.

Source: SGLang 0.5.23, `srt/model_executor/pool_configurator.py` and `srt/mem_cache/kv_cache_configurator.py`.
"""

from typing import NamedTuple

from kvcalc import dtypes
from kvcalc.engines._sglang_flags import FLAGS, asked, model_of
from kvcalc.errors import KvcalcError
from kvcalc.explain import cache_name
from kvcalc.fitting import Share
from kvcalc.formula import attention_tokens, recurrent_state, size
from kvcalc.model import Attention, Cache, Indexer, Latent, Recurrent, Shared
from kvcalc.reserving import Capacity, Charge, Engine, Held, Plan, Question, Rule, Step, held
from kvcalc.sharding import rank_tokens
from kvcalc.units import ceil_div

__all__ = ["ENGINE"]


class Version(NamedTuple):
    """A row of constants: `state_ratio` of states to the rest of the memory, `slots` of states per running request with
    prefixes cached (and buffered for the overlapping schedule).
    """

    name: str
    state_ratio: Share
    slots: int


VERSIONS = (Version("0.5.23", Share(9, 10), 5),)

# configs/model_config.py: only these architectures have a pool for windows; all others, Gemma 2 and 3 among them, keep
# windows as long as the context.
_WINDOWED = (
    "llama4",
    "gpt_oss",
    "gemma4",
    "mimo_v2",
    "step3p5",
    "step3p7",
    "granite_swa",
    "laguna",
    "mellum",
    "inkling",
)
_SWA_RATIO = Share(8, 10)  # --swa-full-tokens-ratio

_REPLICATED = Rule(
    "heads and latents that every rank holds", "max(1, heads // tp) on a rank; a latent is whole on each"
)
_FORMAT = Rule(
    "formats of the cache and of states", "pool_configurator.py; states: bf16 convolution, fp32 recurrent state"
)
_WINDOW = Rule("windows as a share of the full tokens, or in full", "pool_configurator.py: HybridSWAPoolConfigurator")
_PAGES = Rule("whole pages", "pool_configurator.py: tokens are cut to pages")
_SLOTS = Rule("slots of states for prefixes", "kv_cache_configurator.py: _handle_max_mamba_cache")


class _Cell(NamedTuple):
    """Bytes of a token on one rank of one stage, in layers of full reach and in windows, and of one slot of states."""

    full: int
    window: int
    state: int


def plan(question: Question) -> Plan:
    """SGLang's reservation: pages for each sequence, windows at their ratio, states by slots."""
    version = question.version
    assert isinstance(version, Version)
    page, ratio = _page(question), _ratio(question)
    parts = held(question)
    cells = [
        _cell([each for each in parts if each.stage == stage], question) for stage in range(question.request.layout.pp)
    ]
    slots = _slots(question, version)

    def capacity(budget: int) -> Capacity:
        counted = [_counted(cell, budget, page, ratio, version) for cell in cells]
        return min(counted, key=lambda each: each.tokens)

    def holds(budget: int) -> bool:
        counted = capacity(budget)
        enough = counted.tokens >= question.sequences * _paged(question.request.context, page)
        most = counted.values.get("state_slots")
        return enough and (not isinstance(most, int) or most // slots >= question.sequences)

    return Plan(
        tuple(_charge(each, question, page, ratio, slots) for each in parts if not isinstance(each.cache, Shared)),
        values={"block_size": page, "bytes_per_block": page * max(cell.full for cell in cells)},
        facts=(f"pages of {page:,} tokens",),
        capacity=capacity,
        holds=holds,
    )


def _paged(tokens: int, page: int) -> int:
    return ceil_div(tokens, page) * page


def _page(question: Question) -> int:
    """Tokens of a page: 1, or what the kernel of a sparse model demands."""
    given = question.knobs.get("page_size")
    if isinstance(given, int):
        return given
    indexers = [c for placed in question.placement.layers for c in placed.caches if isinstance(c, Indexer)]
    if not indexers:
        return 1
    return indexers[0].block or 64  # DSA 64; MiniMax-M3 128


def _ratio(question: Question) -> Share | None:
    """Tokens of windows for each full one; None for a model whose windows SGLang keeps in full."""
    model_type = question.request.model.model_type or ""
    if not model_type.startswith(_WINDOWED):
        return None
    given = question.knobs.get("swa_full_tokens_ratio")
    return given if isinstance(given, Share) else _SWA_RATIO


def _slots(question: Question, version: Version) -> int:
    """Slots of states that a running request takes."""
    if question.knobs.get("disable_radix_cache"):
        return 1
    return version.slots if question.knobs.get("extra_buffer") else 3


def _windowed(cache: Cache, ratio: Share | None) -> bool:
    return ratio is not None and isinstance(cache, Attention) and cache.reach in ("sliding", "chunked")


def _cell(parts: list[Held], question: Question) -> _Cell:
    ratio = _ratio(question)
    full = window = state = 0
    for each in parts:
        match each.cache:
            case Recurrent():
                state += each.copies * _state_bytes(each.cache, question)
            case Shared():
                pass
            case _ if _windowed(each.cache, ratio):
                window += each.copies * _token_bytes(each.cache, question)
            case _:
                full += each.copies * _token_bytes(each.cache, question)
    return _Cell(full, window, state)


def _token_bytes(cache: Cache, question: Question) -> int:
    """Bytes of a token of one layer on one rank (`pool_configurator.py`)."""
    k, v = question.request.widths[:2]
    match cache:
        case Attention(reach="cross"):
            raise KvcalcError("--engine: sglang's rule for a cross-attention cache was not read", "leave it out")
        case Attention(kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            return heads * (dtypes.row_bytes(k, k_dim) + dtypes.row_bytes(v, v_dim))
        case Latent(rank=rank, rope=rope):
            sparse = any(
                isinstance(c, Indexer) and c.store for placed in question.placement.layers for c in placed.caches
            )
            if sparse and k.block_bytes == 1:  # FlashMLA's layout: 512 fp8, 4 fp32 scales, 64 bf16
                return rank + rank // 128 * 4 + 2 * rope
            return dtypes.row_bytes(k, rank + rope)
        case Indexer(dim=dim, store=store):
            return dim + 4 if store else dtypes.row_bytes(question.request.model.dtype, dim)
        case _:
            raise KvcalcError("--engine: sglang's own pools for compressed caches were not read", "leave it out")


def _state_bytes(cache: Recurrent, question: Question) -> int:
    """Bytes of one slot of one layer: the convolution in bf16, the state in what the configuration states or fp32."""
    if cache.kind in ("rglru", "rwkv", "rwkv4"):
        raise KvcalcError(f"--engine: sglang's rule for a {cache.kind} state was not read", "leave it out")
    state = recurrent_state(cache)
    stored = question.request.model.state_dtype or dtypes.FP32
    return 2 * state.conv_width * state.columns + dtypes.packed_bytes(stored, state.state)


def _counted(cell: _Cell, budget: int, page: int, ratio: Share | None, version: Version) -> Capacity:
    """Tokens and slots that a budget of one GPU gives."""
    values: dict[str, int | str | bool | None] = {}
    if cell.state:
        # Of 1.9 parts of the memory 0.9 go to states; one slot more than is counted is allocated.
        share = budget * version.state_ratio.part // (version.state_ratio.part + version.state_ratio.of)
        kept = max((share - cell.state) // cell.state, 0)
        values["state_slots"] = kept
        budget -= (kept + 1) * cell.state
    if ratio is None or not cell.window:
        tokens = max(budget, 0) // cell.full if cell.full else 0
    elif cell.full:  # doubles, as the engine has them: the ratio is one
        tokens = int(max(budget, 0) // (cell.full + ratio.part / ratio.of * cell.window))
    else:
        tokens = max(budget, 0) // cell.window
    tokens = tokens // page * page
    if ratio is not None and cell.window and cell.full:
        values["swa_tokens"] = int(tokens * (ratio.part / ratio.of)) // page * page
    return Capacity(tokens, None, values)


def _charge(each: Held, question: Question, page: int, ratio: Share | None, slots: int) -> Charge:
    request, ranks = question.request, question.request.layout.tp
    times = each.copies * question.sequences * ranks
    tokens = rank_tokens(each.cache, request.context, request.layout.dcp)
    local = size(each.cache, tokens, request.widths, request.encoder_tokens)
    steps = [Step(_REPLICATED, times * local)]
    if isinstance(each.cache, Recurrent):
        own = _state_bytes(each.cache, question)
        steps += [Step(_FORMAT, times * own), Step(_SLOTS, times * own * slots)]
        part, how = "state_bytes", f"{each.copies} layers x {question.sequences:,} x {slots} slots x {own:,} B"
    else:
        token = _token_bytes(each.cache, question)
        kept = attention_tokens(each.cache, tokens, None) if isinstance(each.cache, Attention) else tokens
        full = _paged(tokens, page)
        reserved = full
        if _windowed(each.cache, ratio):
            assert ratio is not None
            tokens, reserved = ratio.floor(tokens), ratio.floor(full) // page * page
        steps += [
            Step(_FORMAT, times * token * kept),
            Step(_WINDOW, times * token * tokens),
            Step(_PAGES, times * token * reserved),
        ]
        part, how = "kv_bytes", f"{each.copies} layers x {question.sequences:,} x {reserved:,} tokens x {token:,} B"
    return Charge(
        cache_name(each.cache),
        each.copies,
        each.exact,
        tuple(steps),
        ((part, steps[-1].bytes),),
        how,
        each.stage,
        ranks,
    )


ENGINE = Engine(
    "sglang",
    VERSIONS,
    plan,
    ("bf16", "fp16", "fp32", "fp8", "fp8_e4m3", "fp8_e5m2"),
    FLAGS,
    asked,
    model_of,
)
