"""How many cells a llama.cpp context has: the settings of llama_context, after all its rounding.

From llama_context and llama_init_from_model in src/llama-context.cpp and llama_kv_cache_iswa in
src/llama-kv-cache-iswa.cpp, llama.cpp 0c1e57098; older builds: `versions`.
"""

from typing import NamedTuple

from kvcalc.core.dtypes import KV, DType
from kvcalc.core.formula import kept
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Model, Recurrent, Shared
from kvcalc.core.units import ceil_div
from kvcalc.engines.llama_cpp.archs import APART, FIXED_WINDOW, INDEX_V, NO_FLASH, arch_of, slides
from kvcalc.engines.llama_cpp.versions import Version
from kvcalc.engines.question import Question, no_rule
from kvcalc.errors import KvcalcError

__all__ = ["F16", "MOST_SEQUENCES", "Context", "context_of", "pad"]

F16 = KV["fp16"]
MOST_SEQUENCES = 256  # LLAMA_MAX_SEQ, src/llama-cparams.h
_LARGEST_BATCH, _MICRO_BATCH = 2048, 512


class Context(NamedTuple):
    """MemorySplit for `sequences` of `tokens` each: `cells` in each of `streams`.

    `n_ctx` is what all sequences ask for together, before it is rounded; each stream has it all where they are `whole`.
    `span`: the window of the sliding cache, None where there is none. `widest`: elements of V that each layer gets
    without flash attention, None where each gets its own. `index_v`: elements of a V beside an index key. `states` for
    each sequence.
    """

    arch: str
    version: Version
    sequences: int
    tokens: int
    n_ctx: int
    cells: int
    streams: int
    unified: bool
    whole: bool
    n_batch: int
    n_ubatch: int
    flash: str
    swa_full: bool
    k: DType
    v: DType
    span: int | None
    widest: int | None
    index_v: int
    states: int

    @property
    def padding(self) -> int:
        """Cells come in multiples of this."""
        return self.version.padding[self.flash == "off"]

    @property
    def window(self) -> tuple[int, int]:
        """What a sliding layer needs in each stream and what it gets: the window and one batch, or micro-batch."""
        share = self.n_ctx if self.whole else self.n_ctx // self.streams
        if self.swa_full or self.span is None:
            return share, self.cells
        beside = self.n_batch if self.version.window == "batch" else self.n_ubatch
        wanted = self.span * (self.sequences // self.streams) + beside
        if self.version.padded_window:
            cells = min(self.cells, pad(wanted, self.padding))
        else:
            cells = pad(min(self.cells, wanted), self.padding)
        return min(share, wanted), cells


def context_of(question: Question) -> Context:
    """The context that a question and its settings lead to. Raises KvcalcError for what llama.cpp refuses."""
    request, settings, version = question.request, question.settings, question.version
    assert isinstance(version, Version)
    arch = arch_of(request.facts)
    if question.sequences > MOST_SEQUENCES:
        text = f"--batch: llama.cpp has at most {MOST_SEQUENCES} sequences, got {question.sequences:,}"
        raise KvcalcError(text, "use --dp for more servers")
    n_ctx = _n_ctx(question)
    n_batch = max(min(n_ctx, _number(settings.get("n_batch"), _LARGEST_BATCH)), version.least_batch)
    k, v = (F16 if auto else dtype for auto, dtype in zip(request.auto, request.widths[:2], strict=True))
    flash = _flash(question, arch, v)
    if flash != "off":
        _check_blocks(request.model, k, v)
    unified = not version.streams or bool(settings.get("kv_unified"))
    apart = not unified or arch in APART
    whole = apart and (unified or (version.whole_hybrid and _has_state(request.model)))
    return Context(
        arch,
        version,
        question.sequences,
        request.context,
        n_ctx,
        _cells(question, n_ctx, version.padding[flash == "off"], whole=unified or whole),
        question.sequences if apart else 1,
        unified,
        whole,
        n_batch,
        min(n_batch, _number(settings.get("n_ubatch"), _MICRO_BATCH) or n_batch),
        flash,
        bool(settings.get("swa_full")),
        k,
        v,
        _span(request.model, arch) if version.window and slides(arch, request.model) else None,
        _widest(request.model) if flash == "off" and version.widest else None,
        _head_v(request.model) if arch in INDEX_V else 0,
        1 + (_number(settings.get("n_rs_seq"), 0) if arch in version.rollback else 0),
    )


def pad(number: int, to: int) -> int:
    """GGML_PAD."""
    return ceil_div(number, to) * to


def _number(setting: object, default: int) -> int:
    return setting if isinstance(setting, int) else default


def _n_ctx(question: Question) -> int:
    """What -c said, for the question that it was said for; else the tokens of all sequences."""
    tokens, sequences = question.request.context, question.sequences
    literal, most = question.settings.get("n_ctx"), question.settings.get("n_seq_max")
    if most is not None and question.request.layout.dp > 1:
        raise KvcalcError(
            "--dp: the flags behind -- describe one server, and not how requests are spread over several",
            "give --context and --batch in place of -c and -np",
        )
    if isinstance(literal, int) and (sequences, tokens) == (most, literal // sequences):
        return literal
    return tokens * sequences


def _has_state(model: Model) -> bool:
    return any(isinstance(cache, Recurrent) for cache in model.distinct_caches)


def _cells(question: Question, n_ctx: int, padding: int, *, whole: bool) -> int:
    """The cells of one stream: the whole context, or the share of one sequence."""
    version, sequences = question.version, question.sequences
    assert isinstance(version, Version)
    if whole:
        return pad(n_ctx, padding)
    if version.padded_window:  # until October 2025 the share was rounded up
        return pad(ceil_div(n_ctx, sequences), padding)
    cells = pad(pad(n_ctx, padding) // sequences, padding)
    if not cells:
        raise KvcalcError(f"-c: expected a token for each of {sequences:,} sequences, got {n_ctx:,}")
    return cells


def _flash(question: Question, arch: str, v: DType) -> str:
    """Whether flash attention is on, off, or on if it can be. A quantised V needs it, and switches it on."""
    version = question.version
    assert isinstance(version, Version)
    flash = question.settings.get("flash_attn") or version.flash
    if arch in NO_FLASH or (flash == "auto" and version.flash == "off"):
        flash = "off"
    if v.block == 1:
        return str(flash)
    if flash == "off":
        way_out = "there is none in this architecture" if arch in NO_FLASH else "-fa on, or a V without blocks"
        raise KvcalcError(f"-ctv: a {v.name} cache of V needs flash attention, which is off", way_out)
    return "on"


def _check_blocks(model: Model, k: DType, v: DType) -> None:
    """With flash attention a block must not extend from one head into the next."""
    if k.block == v.block == 1:
        return
    for cache in model.distinct_caches:
        match cache:
            case Attention(k_dim=k_dim, v_dim=v_dim):
                pass
            case Latent(rank=v_dim):
                k_dim = cache.rank + cache.rope
            case Indexer() | Compressed() | Recurrent() | Shared():
                continue
            case _:
                raise no_rule("llama.cpp", cache)
        for flag, dtype, width in (("-ctk", k, k_dim), ("-ctv", v, v_dim)):
            if width % dtype.block:
                raise KvcalcError(
                    f"{flag}: {dtype.name} has blocks of {dtype.block} elements, which heads of {width} do not fill",
                    "choose f16 or bf16",
                )


def _span(model: Model, arch: str) -> int | None:
    """The window of the sliding layers: llama.cpp has one for all."""
    spans = {FIXED_WINDOW.get(arch, span) for span in map(kept, model.distinct_caches) if span}
    if len(spans) > 1:
        listed = ", ".join(f"{span:,}" for span in spans if span)
        raise KvcalcError(f"llama.cpp: {model.name} has windows of {listed} tokens, and a GGUF file only one")
    return spans.pop() if spans else None


def _head_v(model: Model) -> int:
    """Elements of V of one head."""
    return max((cache.v_dim for cache in model.distinct_caches if isinstance(cache, Attention)), default=0)


def _widest(model: Model) -> int | None:
    """Elements of V in the layer that has most (n_embd_v_gqa_max), layers without a cache of their own included."""
    caches = [cache.of if isinstance(cache, Shared) else cache for cache in model.distinct_caches]
    caches += [cache for layer in model.draft for cache in layer if not isinstance(cache, Shared)]
    return max((cache.kv_heads * cache.v_dim for cache in caches if isinstance(cache, Attention)), default=None)
