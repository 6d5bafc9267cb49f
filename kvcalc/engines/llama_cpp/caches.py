"""The tensors of each cache in llama.cpp, and the rules that lead to them from what the model needs.

From the constructors in src/llama-kv-cache*.cpp and src/llama-memory-recurrent.cpp, llama.cpp 0c1e57098.
"""

from functools import cache as remembered
from typing import NamedTuple

from kvcalc.core.dtypes import row_bytes
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import kept, recurrent_state
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Recurrent, Shared
from kvcalc.core.units import ceil_div, many
from kvcalc.engines.allocation import Charge, Rule, Step
from kvcalc.engines.llama_cpp.archs import EXPANDED, FIXED_WINDOW
from kvcalc.engines.llama_cpp.context import Context, pad
from kvcalc.engines.question import no_rule
from kvcalc.engines.stages import StageCaches
from kvcalc.errors import KvcalcError

__all__ = ["DRAFT_CONTEXT", "DRAFT_LAYERS", "Kept", "compressed_cells", "keep"]

_AT = "llama.cpp 0c1e57098, src"
_KV, _ISWA = f"{_AT}/llama-kv-cache.cpp: llama_kv_cache", f"{_AT}/llama-kv-cache-iswa.cpp: llama_kv_cache_iswa"
_CONTEXT, _MEMORY = f"{_AT}/llama-context.cpp: llama_context", f"{_AT}/llama-model.cpp: create_memory"
_STATE = f"{_AT}/llama-memory-recurrent.cpp: llama_memory_recurrent"
_DSV4 = f"{_AT}/llama-kv-cache-dsv4.cpp: llama_kv_cache_dsv4"

DRAFT_LAYERS = Rule("draft layers cached as well", f"{_MEMORY}, no filter for this architecture")
DRAFT_CONTEXT = Rule(
    "a context for the draft layers",
    "llama.cpp 0c1e57098, common/speculative.cpp: common_speculative_init_result",
)

_F16 = Rule("f16 cache by default", f"{_CONTEXT}, type_k and type_v")
_WINDOW_IGNORED = Rule("window ignored", f"{_MEMORY}, no swa_type for this architecture")
_FULL_WINDOW = Rule("windows at full length (--swa-full)", f"{_ISWA}, swa_full")
_MICRO_BATCH = Rule("window plus micro-batch", f"{_ISWA}, n_swa + n_ubatch")
_BATCH = Rule("window plus batch", "llama.cpp before pull request 13833: n_swa + n_batch")
_V_WIDEST = Rule("V of the widest layer", f"{_KV}, n_embd_v_gqa_max where V is transposed")
_LATENT_V = Rule("a V beside the latent", "llama.cpp before pull request 19067: llama_kv_cache")
_EXPANDED = Rule("expanded latents", f"{_AT}/models: minicpm3.cpp, plm.cpp; deepseek2.cpp before pull request 12801")
_INDEX_TYPE = Rule("index keys in the K type", f"{_AT}/llama-kv-cache-dsa.cpp: llama_kv_cache_dsa, hparams_lid")
_INDEX_V = Rule("an unused V beside the index key", f"{_AT}/llama-kv-cache-msa.cpp: llama_kv_cache_msa, hparams_idx")
_NO_INDEX = Rule("no index keys", "llama.cpp before pull request 25407: create_memory")
_NO_CROSS = Rule("no cross-attention cache", f"{_AT}/models/t5.cpp, K and V of the encoder are computed anew")
_WHOLE = Rule(
    "the whole context for each sequence",
    f"{_DSV4}, unified_raw; hybrids: llama.cpp before pull request 16812, create_memory",
)
_ENTRIES = Rule("entries padded to 256", f"{_DSV4}, dsv4_comp_size")
_STATES = Rule("f32 compressor states", f"{_DSV4}, llama_dsv4_comp_state")
_F32_STATE = Rule("f32 state", f"{_STATE}, type_r and type_s")
_DRAFT_STATES = Rule("state rows for drafts", f"{_STATE}, mem_size * (1 + n_rs_seq)")

_F32 = 4  # bytes


@remembered
def _padded(to: int) -> Rule:
    if to == 1:
        return Rule("cells of the whole context", f"{_CONTEXT}, n_ctx")
    return Rule(f"cells padded to {to}", f"{_CONTEXT}, GGML_PAD of n_ctx and n_ctx_seq; of windows: size_swa")


@remembered
def _fixed(window: int, stated: int) -> Rule:
    return Rule(f"window of {window:,} instead of {stated:,}", f"{_AT}/models: llama4.cpp, smallthinker.cpp, n_swa")


class Kept(NamedTuple):
    """A charge, and in which parts of llama.cpp's memory it is reported: K and V there, or R, S and P."""

    charge: Charge
    pools: tuple[tuple[str, tuple[int, ...]], ...] = ()


class _Stages:
    """The rules that change the bytes, one after the other."""

    def __init__(self, exact: int) -> None:
        self.bytes = exact
        self.steps: list[Step] = []

    def then(self, rule: Rule, size: int) -> None:
        if size != self.bytes:
            self.steps.append(Step(rule, size))
            self.bytes = size


def keep(each: StageCaches, context: Context, first: Rule = _F16) -> Kept:
    """What is allocated for equal caches. `first` is why they are kept, or kept in f16."""
    match each.cache:
        case Attention(pattern="cross"):
            return _nothing(each, "computed anew from the encoder's output", _NO_CROSS)
        case Attention(pattern="full" | "sliding" | "chunked"):
            return _attention(each, each.cache, context, first)
        case Latent():
            return _latent(each, each.cache, context, first)
        case Indexer():
            return _index(each, each.cache, context, first)
        case Compressed():
            return _compressed(each, each.cache, context)
        case Recurrent():
            return _recurrent(each, each.cache, context)
        case Shared():
            return _nothing(each, "0 B")
        case _:
            raise no_rule("llama.cpp", each.cache)


def _charge(each: StageCaches, stages: _Stages, parts: dict[str, int], how: str) -> Charge:
    named = tuple((name, size) for name, size in parts.items() if size)
    return Charge(cache_name(each.cache), each.copies, each.exact, tuple(stages.steps), named, how, each.stage)


def _nothing(each: StageCaches, how: str, rule: Rule | None = None) -> Kept:
    stages = _Stages(each.exact)
    if rule is not None:
        stages.then(rule, 0)
    return Kept(_charge(each, stages, {}, how))


def _attention(each: StageCaches, cache: Attention, context: Context, first: Rule) -> Kept:
    k = each.copies * row_bytes(context.k, cache.kv_heads * cache.k_dim)
    v = wide = each.copies * row_bytes(context.v, cache.kv_heads * cache.v_dim)
    if context.widest is not None and cache.v_dim:
        wide = each.copies * row_bytes(context.v, context.widest)
    stages, needed, cells = _Stages(each.exact), context.tokens * context.sequences, context.cells
    pool, span = "base", kept(cache)
    if span is None:
        stages.then(first, (k + v) * needed)
    else:
        stages.then(first, (k + v) * context.sequences * min(context.tokens, span))
        if context.span is None:
            stages.then(_WINDOW_IGNORED, (k + v) * needed)
        else:
            pool = "swa"
            each_needs, cells = context.window
            needed = each_needs * context.streams
            _window(stages, span, context, k + v, needed)
    if context.whole and span is None:
        needed = context.n_ctx * context.streams
        stages.then(_WHOLE, (k + v) * needed)
    stages.then(_V_WIDEST, (k + wide) * needed)
    k, v = (row * cells * context.streams for row in (k, wide))
    stages.then(_padded(context.padding), k + v)
    return Kept(
        _charge(each, stages, {"k_bytes": k, "v_bytes": v}, _how(each, cells, context, k + v)), ((pool, (k, v)),)
    )


def _window(stages: _Stages, stated: int, context: Context, row: int, needed: int) -> None:
    """The rules of a cache for sliding layers: another window than the model's, and room for a batch."""
    assert context.span is not None
    if context.swa_full:
        stages.then(_FULL_WINDOW, row * needed)
        return
    if context.arch in FIXED_WINDOW:
        tokens = min(context.tokens, context.span) * context.sequences
        stages.then(_fixed(context.span, stated), row * tokens)
    stages.then(_BATCH if context.version.window == "batch" else _MICRO_BATCH, row * needed)


def _how(each: StageCaches, cells: int, context: Context, size: int) -> str:
    """The sum in numbers: layers x streams x cells x bytes."""
    row = size // (each.copies * cells * context.streams)
    streams = f"{context.streams} streams x " if context.streams > 1 else ""
    return f"{many(each.copies, 'layer')} x {streams}{cells:,} cells x {row:,} B"


def _latent(each: StageCaches, cache: Latent, context: Context, first: Rule) -> Kept:
    """One vector as K, of which V is a view; or, in files and builds that know no latents, every head."""
    needed = context.tokens * context.sequences
    k, v = each.copies * row_bytes(context.k, cache.rank + cache.rope), 0
    stages = _Stages(each.exact)
    stages.then(first, k * needed)
    if context.arch in EXPANDED or context.version.latent == "heads":
        k = each.copies * row_bytes(context.k, cache.heads * cache.k_dim)
        v = each.copies * row_bytes(context.v, cache.heads * cache.v_dim)
        stages.then(_EXPANDED, (k + v) * needed)
    elif context.version.latent == "key and value":
        v = each.copies * row_bytes(context.v, cache.rank)
        stages.then(_LATENT_V, (k + v) * needed)
    return _all_cells(each, stages, context, k, v)


def _all_cells(each: StageCaches, stages: _Stages, context: Context, k: int, v: int) -> Kept:
    """A cache of all cells, of whose rows the stages hold those that are needed."""
    if context.whole:
        stages.then(_WHOLE, (k + v) * context.n_ctx * context.streams)
    k, v = (row * context.cells * context.streams for row in (k, v))
    stages.then(_padded(context.padding), k + v)
    how = _how(each, context.cells, context, k + v)
    return Kept(_charge(each, stages, {"k_bytes": k, "v_bytes": v}, how), (("base", (k, v)),))


def _index(each: StageCaches, cache: Indexer, context: Context, first: Rule) -> Kept:
    """One key for all heads, in the type of K. Beside plain attention llama.cpp allocates a V that nothing uses."""
    if context.arch == "glm-dsa" and not context.version.indexed:
        return _nothing(each, "the indexer is not used", _NO_INDEX)
    if first is DRAFT_CONTEXT:
        return _nothing(each, "the draft head runs without its indexer")
    needed = context.tokens * context.sequences
    k, v = each.copies * row_bytes(context.k, cache.dim), 0
    stages = _Stages(each.exact)
    stages.then(_INDEX_TYPE if cache.store and first is _F16 else first, k * needed)
    if context.index_v:
        v = each.copies * row_bytes(context.v, context.index_v)
        stages.then(_INDEX_V, (k + v) * needed)
    found = _all_cells(each, stages, context, k, v)
    k, v = found.pools[0][1]
    parts = (("index_k_bytes", k), *((("index_v_bytes", v),) if v else ()))
    return Kept(found.charge._replace(parts=parts), (("index", (k, v)),))


def _compressed(each: StageCaches, cache: Compressed, context: Context) -> Kept:
    """DeepSeek V4: entries and their index keys, K alone, and the states of what is not yet compressed."""
    if cache.ratio not in (4, 128) or context.arch != "deepseek4":
        raise KvcalcError(f"llama.cpp: no rule for entries of {cache.ratio:,} tokens", "there is none in llama.cpp")
    row, key = row_bytes(context.k, cache.dim), row_bytes(context.k, cache.indexer)
    stages, both = _Stages(each.exact), each.copies * (row + key)
    stages.then(_F16, both * (context.tokens // cache.ratio) * context.sequences)
    if context.whole:
        stages.then(_WHOLE, both * (context.n_ctx // cache.ratio) * context.streams)
    cells = compressed_cells(context, cache.ratio)[1]
    stages.then(_ENTRIES, both * cells * context.streams)
    # Two tensors of keys and scores: 8 rows of twice the width where entries overlap, else a row for each token.
    rows = 2 * 2 * 8 if cache.ratio == 4 else 2 * cache.ratio
    rows *= each.copies * context.streams * context.states * _F32
    states = rows * (cache.dim + (cache.indexer if cache.ratio == 4 else 0))
    stages.then(_STATES, stages.bytes + states)
    k, index = (each.copies * size * cells * context.streams for size in (row, key))
    name = "csa" if cache.ratio == 4 else "hca"
    pools = [(name, (k, 0)), (f"{name} state", (rows * cache.dim, 0))]
    if index:
        pools += [("lid", (index, 0)), ("lid state", (rows * cache.indexer, 0))]
    parts = {"k_bytes": k, "index_k_bytes": index, "compressor_bytes": states}
    how = f"{_how(each, cells, context, k + index)} + {states:,} B of states"
    return Kept(_charge(each, stages, parts, how), tuple(pools))


def compressed_cells(context: Context, ratio: int) -> tuple[int, int]:
    """Entries for all cells of a stream, at least one, and the cells that they get."""
    entries = max(1, ceil_div(context.cells, ratio))
    return entries, pad(entries, 256)


def _recurrent(each: StageCaches, cache: Recurrent, context: Context) -> Kept:
    """R, the convolution's columns, and S, the state; both f32, and once more for each token that may be drafted."""
    state = recurrent_state(cache)
    r, s = (_F32 * each.copies * size for size in (state.conv_width * state.columns, state.state))
    stages = _Stages(each.exact)
    stages.then(_F32_STATE, (r + s) * context.sequences)
    rows = context.sequences * context.states
    stages.then(_DRAFT_STATES, (r + s) * rows)
    how = f"{many(each.copies, 'layer')} x {many(rows, 'row')} x {(r + s) // (each.copies * _F32):,} x {_F32} B"
    if context.arch == "qwen4exp" and cache.kind == "shortconv":  # n-grams of one layer, beside the state of another
        return Kept(_charge(each, stages, {"p_bytes": r * rows}, how), (("recurrent", (0, 0, r * rows)),))
    parts = {"r_bytes": r * rows, "s_bytes": s * rows}
    return Kept(_charge(each, stages, parts, how), (("recurrent", (r * rows, s * rows, 0)),))
