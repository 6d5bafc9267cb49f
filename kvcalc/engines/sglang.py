"""SGLang: one pool of pages for a plain model, two for windows, one more for states.

Source: SGLang 0.5.23, `srt/model_executor/pool_configurator.py` and `srt/mem_cache/kv_cache_configurator.py`.
"""

from typing import NamedTuple

from kvcalc import dtypes
from kvcalc.engines._sglang_flags import FLAGS, asked, integer, model_of
from kvcalc.engines._sglang_memory import utilization
from kvcalc.errors import KvcalcError
from kvcalc.explain import cache_name
from kvcalc.fitting import Share
from kvcalc.formula import attention_tokens, recurrent_state, size
from kvcalc.model import Attention, Cache, Indexer, Latent, Recurrent, Shared
from kvcalc.reserving import Capacity, Charge, Engine, Held, Plan, Question, Rule, Step, held
from kvcalc.sharding import rank_tokens
from kvcalc.units import ceil_div, many

__all__ = ["ENGINE"]


class Version(NamedTuple):
    """A row of constants: the default of --mem-fraction-static is computed as 0.5.23 does."""

    name: str


VERSIONS = (Version("0.5.23"),)

_STATE_RATIO = Share(9, 10)  # --mamba-full-memory-ratio: of states to the rest

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
_REQUEST_SLOTS = 3  # states that a running request takes where prefixes are cached
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
    if question.knobs.get("dp_attention"):
        raise KvcalcError("--enable-dp-attention: how it spreads heads and sequences was not read", "leave it out")
    pool = _pool(question)
    parts = [each for each in held(question) if not isinstance(each.cache, Shared)]

    def holds(budget: int) -> bool:
        counted = pool.counted(budget)
        slots = counted.values.get("state_slots")
        enough = counted.tokens >= question.sequences * _paged(question.request.context, pool.page)
        return enough and (not isinstance(slots, int) or slots // pool.slots >= question.sequences)

    return Plan(
        tuple(_charge(each, question, pool) for each in parts),
        values={"block_size": pool.page, "bytes_per_block": pool.page * max(cell.full for cell in pool.cells)},
        facts=(f"pages of {many(pool.page, 'token')}",),
        capacity=pool.counted,
        holds=holds,
    )


class _Pool(NamedTuple):
    """How SGLang divides a budget.

    `cells` by stage; `ratio` of window tokens to full ones; `slots` of states that a running request takes. `draft` is
    the states more that it takes with drafts, `requests` the most at once, `states` a given number of slots.
    """

    cells: list[_Cell]
    page: int
    ratio: Share | None
    slots: int
    state_ratio: Share
    most_tokens: int | None
    draft: int
    requests: int | None
    states: int | None

    def counted(self, budget: int) -> Capacity:
        """Tokens and slots on the stage that has least."""
        return min((self._count(cell, budget) for cell in self.cells), key=lambda each: each.tokens)

    def _count(self, cell: _Cell, budget: int) -> Capacity:
        values: dict[str, int | str | bool | None] = {}
        if cell.state:
            values["state_slots"], budget = self._states(max(cell.state for cell in self.cells), budget)
        budget = max(budget, 0)
        share = None if self.ratio is None or not cell.window else self.ratio.part / self.ratio.of
        if share is None:
            tokens = budget // cell.full if cell.full else 0
        elif cell.full:  # doubles, as the engine has them: the ratio is one
            tokens = int(budget // (cell.full + share * cell.window))
        else:
            tokens = budget // cell.window
        tokens = min(tokens, self.most_tokens or tokens) // self.page * self.page
        if share is not None and cell.full:
            values["swa_tokens"] = int(tokens * share) // self.page * self.page
        return Capacity(tokens, None, values)

    def _states(self, each: int, budget: int) -> tuple[int, int]:
        """Slots of states, and the bytes left beside them and the one that is never used."""
        if self.states is not None:
            slots = self.states
        else:
            share = budget * self.state_ratio.part // (self.state_ratio.part + self.state_ratio.of)
            # With drafts, D states more for each running request, of which there is one for some slots.
            room = share - each * (1 + self.draft)
            slots = max(room * self.slots // (each * (self.slots + self.draft)), 0)
        drafts = 0
        if self.draft:
            assert self.requests is not None
            drafts = each * (min(self.requests, slots // self.slots) + 1) * self.draft
        return slots, budget - (slots + 1) * each - drafts


def _pool(question: Question) -> _Pool:
    knobs, parts = question.knobs, held(question)
    radix = not knobs.get("disable_radix_cache")
    requests, states = integer(knobs.get("max_running_requests")), integer(knobs.get("max_mamba_cache_size"))
    draft = integer(knobs.get("draft_tokens")) or 0 if knobs.get("algorithm") else 0
    if draft and requests is None and any(isinstance(each.cache, Recurrent) for each in parts):
        raise KvcalcError("--max-running-requests: SGLang needs it beside drafts of a model with states", "give it")
    if states is None and not radix and requests is not None:
        states = requests
    ratio, page = knobs.get("mamba_full_memory_ratio"), integer(knobs.get("page_size"))
    stages = range(question.request.layout.pp)
    return _Pool(
        [_cell([each for each in parts if each.stage == stage], question) for stage in stages],
        page or _page(question),
        _ratio(question),
        _REQUEST_SLOTS if radix else 1,
        ratio if isinstance(ratio, Share) else _STATE_RATIO,
        integer(knobs.get("max_total_tokens")),
        draft,
        requests,
        states,
    )


def _paged(tokens: int, page: int) -> int:
    return ceil_div(tokens, page) * page


def _page(question: Question) -> int:
    """Tokens of a page: 1, or what the kernel of a sparse model demands."""
    indexers = [c for placed in question.placement.layers for c in placed.caches if isinstance(c, Indexer)]
    return (indexers[0].block or 64) if indexers else 1  # DSA 64; MiniMax-M3 128


def _ratio(question: Question) -> Share | None:
    """Tokens of windows for each full one; None for a model whose windows SGLang keeps in full."""
    model_type = question.request.model.model_type or ""
    if not model_type.startswith(_WINDOWED):
        return None
    given = question.knobs.get("swa_full_tokens_ratio")
    return given if isinstance(given, Share) else _SWA_RATIO


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
    given = str(question.knobs.get("mamba_ssm_dtype", "auto"))
    if given != "auto":
        stored = dtypes.find(given, dtypes.COMPUTE, "--mamba-ssm-dtype")
    return 2 * state.conv_width * state.columns + dtypes.packed_bytes(stored, state.state)


def _charge(each: Held, question: Question, pool: _Pool) -> Charge:
    request, ranks = question.request, question.request.layout.tp
    times = each.copies * question.sequences * ranks
    tokens = rank_tokens(each.cache, request.context, request.layout.dcp)
    steps = [Step(_REPLICATED, times * size(each.cache, tokens, request.widths, request.encoder_tokens))]
    layers = f"{many(each.copies, 'layer')} x {many(question.sequences, 'sequence')}"
    if isinstance(each.cache, Recurrent):
        own = _state_bytes(each.cache, question)
        steps += [Step(_FORMAT, times * own), Step(_SLOTS, times * own * pool.slots)]
        part, how = "state_bytes", f"{layers} x {many(pool.slots, 'slot')} x {own:,} B"
    else:
        token = _token_bytes(each.cache, question)
        kept = attention_tokens(each.cache, tokens, None) if isinstance(each.cache, Attention) else tokens
        reserved = _paged(tokens, pool.page)
        if _windowed(each.cache, pool.ratio):
            assert pool.ratio is not None
            tokens, reserved = pool.ratio.floor(tokens), pool.ratio.floor(reserved) // pool.page * pool.page
        steps += [
            Step(_FORMAT, times * token * kept),
            Step(_WINDOW, times * token * tokens),
            Step(_PAGES, times * token * reserved),
        ]
        part, how = "kv_bytes", f"{layers} x {reserved:,} tokens x {token:,} B"
    parts = ((part, steps[-1].bytes),)
    return Charge(cache_name(each.cache), each.copies, each.exact, tuple(steps), parts, how, each.stage, ranks)


ENGINE = Engine(
    "sglang",
    VERSIONS,
    plan,
    ("bf16", "fp16", "fp32", "fp8", "fp8_e4m3", "fp8_e5m2"),
    FLAGS,
    asked,
    model_of,
    utilization=utilization,
    newest=VERSIONS[-1].name,
    # Before the weights a context and communication are there: 0.3 to 1.5 GiB in start-up logs.
    overhead=(3 * 2**30 // 10, 15 * 2**30 // 10),
)
