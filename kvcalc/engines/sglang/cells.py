"""What SGLang 0.5.23 stores: bytes of a token in a layer, of a state, tokens of a page, and which windows it honours.

Sources: `srt/model_executor/pool_configurator.py`, `srt/mem_cache/kv_cache_configurator.py`, `srt/configs` and
`srt/arg_groups/overrides.py`. Without a card, kernels of Hopper are assumed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.formula import kept, recurrent_state
from kvcalc.core.model import Attention, Cache, Indexer, Latent, Recurrent, Shared
from kvcalc.core.units import Fraction
from kvcalc.engines.question import Question, no_rule
from kvcalc.engines.sglang.flags import integer
from kvcalc.engines.stages import StageCaches, stage_caches
from kvcalc.errors import KvcalcError

__all__ = [
    "Cell",
    "cell_of",
    "draft_layers",
    "formats",
    "page_of",
    "placed",
    "ratio_of",
    "slots_of",
    "state_bytes",
    "token_bytes",
    "windowed",
]

_BLACKWELL = 10

# configs/model_config.py, is_hybrid_swa_model: only these have a pool for windows; all others, Gemma 2 and 3 among
# them, keep windows as long as the context.
_WINDOWED = (
    "llama4", "gpt_oss", "gemma4", "mimo_v2", "step3p5", "step3p7", "granite_swa", "granitemoe_swa", "laguna", "mellum",
    "inkling", "muse_glimmer",
)  # fmt: skip
_SWA_RATIO = Fraction(8, 10)  # --swa-full-tokens-ratio
_FEW_WINDOWS = {"inkling": Fraction(1, 10)}  # model_overrides/inkling.py

# arg_groups/overrides.py, _MAMBA_EXTRA_BUFFER_ARCHS: with prefixes cached and overlapped scheduling these track states
# in two more slots of each running request.
_EXTRA_BUFFER = (
    "kimi_linear", "qwen3_5", "qwen3_next", "qwen4_exp", "bailing", "falcon_h1", "granitemoehybrid", "glm5_next",
    "nemotron_h", "inkling",
)  # fmt: skip
_SLOTS = 3  # of a running request where prefixes are cached

# Pages that kernels demand (arg_groups/overrides.py: _attention_backend_page_size).
_PAGES = {"flashmla": 64, "trtllm_mla": 64, "cutedsl_mla": 64, "trtllm_mha": 64, "hpc_ops": 64, "cutlass_mla": 128}


class Cell(NamedTuple):
    """Bytes of a token on one rank of one stage, in full layers and in windows, and of one slot of states.

    `convolution` is the part of a slot that is no recurrent state; `k` and `window_k` are keys alone,
    0 where they are not apart. `draft` is the part of `full` that is a draft's.
    """

    full: int
    window: int
    state: int
    convolution: int
    k: int
    window_k: int
    draft: int = 0


def placed(question: Question) -> list[StageCaches]:
    """The caches as the pools count them: every attention layer has its place, also where it shares another's keys and
    values or was pruned away (`layer_setup.py`: end_layer - start_layer; `model_config.py`: get_hybrid_layer_ids).
    """
    parts = stage_caches(question)
    own = next((each.cache for each in parts if isinstance(each.cache, Attention) and each.cache.kv_heads), None)
    made = []
    for each in parts:
        cache = each.cache.of if isinstance(each.cache, Shared) else each.cache
        if isinstance(cache, Attention) and not cache.kv_heads and own:
            cache = cache._replace(kv_heads=own.kv_heads, k_dim=own.k_dim, v_dim=own.v_dim)
        if isinstance(each.cache, Shared) and not isinstance(cache, Attention):
            continue
        made.append(each._replace(cache=cache))
    return made


def cell_of(parts: list[StageCaches], question: Question) -> Cell:
    """The cell of one stage, the draft's layers with it."""
    ratio = ratio_of(question)
    full = window = state = convolution = k = window_k = keys = layers = first = 0
    for each in parts:
        match each.cache:
            case Recurrent():
                both, short = state_bytes(each.cache, question)
                state, convolution = state + each.copies * both, convolution + each.copies * short
            case _ if windowed(each.cache, ratio):
                window += each.copies * token_bytes(each.cache, question)
                window_k += each.copies * _key_bytes(each.cache, question)
            case Indexer():
                keys += each.copies * token_bytes(each.cache, question)
            case Attention() | Latent():
                own = token_bytes(each.cache, question)
                full, layers, first = full + each.copies * own, layers + each.copies, first or own
                k += each.copies * _key_bytes(each.cache, question)
            case _:
                raise no_rule("sglang", each.cache)
    drafts, own_layers = draft_layers(question), full + keys
    if drafts and layers:  # as if the draft's layers were the model's own
        indexer = any(isinstance(each.cache, Indexer) for each in parts)
        of_keys = max((token_bytes(e.cache, question) for e in parts if isinstance(e.cache, Indexer)), default=0)
        full += first * drafts if window else int(full * drafts / layers)
        keys += of_keys * drafts if indexer else 0
    return Cell(full + keys, window, state, convolution, k, window_k, full + keys - own_layers)


def _key_bytes(cache: Cache, question: Question) -> int:
    """Bytes of the keys of a token where keys and values are apart."""
    return cache.kv_heads * dtypes.row_bytes(formats(question)[0], cache.k_dim) if isinstance(cache, Attention) else 0


def draft_layers(question: Question) -> int:
    """Layers of a draft whose cache is counted like the model's. Raises KvcalcError for drafts of other kinds."""
    algorithm = str(question.settings.get("algorithm", "")).upper()
    if algorithm in ("", "NGRAM"):
        return 0
    if algorithm not in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE"):
        raise KvcalcError(f"--speculative-algorithm: a draft by {algorithm} has no rule here", "leave it out")
    draft = question.request.model.draft
    if not draft or (question.settings.get("draft_model") and not question.settings.get("drafted")):
        raise KvcalcError(
            "--speculative-algorithm: the layers of the draft are not known", "a preset states a model's own as `draft`"
        )
    return len(draft)


def ratio_of(question: Question) -> Fraction | None:
    """Tokens of windows for each full one; None for a model whose windows SGLang keeps in full."""
    model_type = question.request.model.model_type or ""
    caches = question.request.model.distinct_caches
    if question.settings.get("whole_windows") or not model_type.startswith(_WINDOWED) or not any(map(kept, caches)):
        return None
    given = question.settings.get("swa_full_tokens_ratio")
    return given if isinstance(given, Fraction) else _FEW_WINDOWS.get(model_type.partition("_")[0], _SWA_RATIO)


def windowed(cache: Cache, ratio: Fraction | None) -> bool:
    """Whether a cache stands in the pool of windows."""
    return ratio is not None and bool(kept(cache))


def slots_of(question: Question) -> int:
    """Slots of states that a running request takes (`_calculate_mamba_ratio`)."""
    settings = question.settings
    if settings.get("disable_radix_cache"):
        return 1
    strategy = str(settings.get("mamba_strategy", "auto"))
    overlap, page = not settings.get("disable_overlap"), page_of(question)
    able = (question.request.model.model_type or "").startswith(_EXTRA_BUFFER)
    if strategy == "auto":
        strategy = "extra_buffer" if able and (overlap or page > 1) else "no_buffer"
    match strategy:
        case "no_buffer":
            return _SLOTS
        case "extra_buffer":
            return _SLOTS + (2 if overlap else 1)
        case "extra_buffer_lazy":
            return _SLOTS + 1
        case _:
            raise KvcalcError(f"--mamba-radix-cache-strategy: no rule for {strategy}", "auto or no_buffer")


def page_of(question: Question) -> int:
    """Tokens of a page: 1, or what the kernel demands. Sparse models: DSA 64, MiniMax-M3 128."""
    given, model = integer(question.settings.get("page_size")), question.request.model
    indexers = [cache for cache in model.distinct_caches if isinstance(cache, Indexer)]
    if indexers:
        return indexers[0].block or 64
    backend = str(question.settings.get("backend", ""))
    if backend in _PAGES:
        able = {"trtllm_mla": (32, 64), "cutedsl_mla": (32, 64), "trtllm_mha": (16, 32, 64, 128)}.get(backend, ())
        return given if given in able else _PAGES[backend]
    if given or backend or question.card is None or question.card.generation != _BLACKWELL:
        return given or 1
    latent = any(isinstance(cache, Latent) for cache in model.distinct_caches)
    return 1 if latent else _PAGES["trtllm_mha"]  # FlashInfer for latents


def formats(question: Question) -> tuple[DType, DType]:
    """Formats of keys and values: DSA models take fp8 by themselves on Blackwell (`_dsa_kv_cache_dtype_default`)."""
    k, v = question.request.widths[:2]
    blackwell = question.card is not None and (question.card.generation or 0) >= _BLACKWELL
    if all(question.request.auto) and blackwell and _sparse(question.request.model.distinct_caches):
        return dtypes.KV["fp8_e4m3"], dtypes.KV["fp8_e4m3"]
    return k, v


def _sparse(caches: Iterable[Cache]) -> bool:
    return any(isinstance(cache, Indexer) and cache.store for cache in caches)


def token_bytes(cache: Cache, question: Question) -> int:
    """Bytes of a token of one layer on one rank."""
    k, v = formats(question)
    match cache:
        case Attention(pattern="full" | "sliding" | "chunked", kv_heads=heads, k_dim=k_dim, v_dim=v_dim):
            return heads * (dtypes.row_bytes(k, k_dim) + dtypes.row_bytes(v, v_dim))
        case Latent(rank=rank, rope=rope):
            if _sparse(question.request.model.distinct_caches) and k.name in ("fp8", "fp8_e4m3") and _scaled(question):
                return rank + rank // 128 * 4 + 2 * rope  # FlashMLA's layout: 512 fp8, 4 fp32 scales, 64 bf16
            return dtypes.row_bytes(k, rank + rope)
        case Indexer(dim=dim, store=store):
            return dim + 4 if store else dtypes.row_bytes(question.request.model.dtype, dim)
        case _:
            raise no_rule("sglang", cache)


def _scaled(question: Question) -> bool:
    """Whether fp8 latents have scales beside them (`calculate_mla_kv_cache_dim`): not in TensorRT-LLM's kernels, which
    Blackwell takes, nor in TileLang's.
    """
    default = "trtllm" if question.card is not None and (question.card.generation or 0) >= _BLACKWELL else "flashmla_kv"
    kernels = [str(question.settings.get(name, default)) for name in ("dsa_prefill_backend", "dsa_decode_backend")]
    return "trtllm" not in kernels and set(kernels) != {"tilelang"}


def state_bytes(cache: Recurrent, question: Question) -> tuple[int, int]:
    """Bytes of one slot of one layer, and those of the convolution in it, which is in bf16.

    The state is in what the configuration states, or fp32 (`configs/mamba_utils.py`).
    """
    if cache.kind in ("rglru", "rwkv", "rwkv4"):
        raise no_rule("sglang", cache)
    state = recurrent_state(cache)
    stored = question.request.model.state_dtype or dtypes.FP32
    given = str(question.settings.get("mamba_ssm_dtype", "auto"))
    if given != "auto":
        stored = dtypes.dtype_called(given, dtypes.COMPUTE, "--mamba-ssm-dtype")
    convolution = 2 * state.conv_width * state.columns
    return convolution + dtypes.packed_bytes(stored, state.state), convolution
