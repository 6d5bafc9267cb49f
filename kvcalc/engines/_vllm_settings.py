"""vLLM's versions as rows of constants, and the settings that follow from a question."""

from typing import NamedTuple

from kvcalc import dtypes
from kvcalc.dtypes import DType
from kvcalc.engines._vllm_specs import Settings, hybrid_block, state_page, token_bytes
from kvcalc.errors import KvcalcError
from kvcalc.fitting import Share
from kvcalc.model import Attention, Indexer, Latent, Layer, Recurrent
from kvcalc.reserving import Question

__all__ = ["VERSIONS", "Version", "assumed", "drafts", "log", "settings_of"]


class Version(NamedTuple):
    """What changed between versions.

    `exact_tokens`: the logged tokens are int(concurrency x length), before that whole blocks of a group. `batches`:
    how many batches windows hold in flight, None for as many as the scheduler runs. `close`: below which ratio the
    commonest kind of layer sets the size of groups instead of the rarest. `checkpoint`: states keep a block more for a
    kernel's own checkpoints. `cached`: prefix caching is on by default where there are states. `lines`: of the log.
    """

    name: str
    utilization: Share
    exact_tokens: bool
    batches: int | None
    close: tuple[int, int] | None
    checkpoint: bool
    cached: bool
    lines: int


_90, _92 = Share(9, 10), Share(92, 100)
VERSIONS = (
    Version("0.11.0", _90, False, 1, None, False, False, 2),
    Version("0.15.1", _90, False, 1, (5, 4), False, False, 2),
    Version("0.19.1", _90, False, 1, (3, 2), False, False, 2),
    Version("0.20.0", _92, False, 1, (3, 2), False, False, 2),
    Version("0.20.2", _92, True, 1, (3, 2), False, False, 2),
    Version("0.26.0", _92, True, None, (3, 2), False, True, 2),
    Version("0.28.0", _92, True, None, (3, 2), False, True, 1),
    Version("0.29.0", _92, True, None, (3, 2), True, True, 1),
    Version("0.33.0", _92, True, None, (3, 2), True, True, 1),
)

# A card of Hopper's class is assumed where none is named: an H100 takes 8,192 tokens a batch (engine/arg_utils.py).
BATCHED_TOKENS = 8192

# Alignment and checkpoint blocks of the kernels that fill states (`_align_hybrid_block_size`): Mamba-2's mixer keeps
# one; FlashKDA wants sixteens; FlashInfer's gated delta rule, which Hopper takes, 64; Triton's has neither.
_KERNELS = {"mamba2": (1, 1), "kda": (16, 1), "deltanet": (64, 1)}
_TRITON = (1, 0)


def settings_of(question: Question, version: Version) -> Settings:
    """The settings in force: flags, else the version's and the model's defaults."""
    request, knobs = question.request, question.knobs
    caches = [cache for placed in question.placement.layers for cache in placed.caches]
    distinct = list(dict.fromkeys(caches))
    states = [c for c in distinct if isinstance(c, Recurrent)]
    attending = [c for c in caches if isinstance(c, Latent) or (isinstance(c, Attention) and c.kv_heads)]
    sparse = any(isinstance(c, Indexer) and c.store for c in distinct)
    speculative = _int(knobs.get("speculative"), 0)
    batched = _int(knobs.get("max_num_batched_tokens"), BATCHED_TOKENS)
    mode = _mode(question, version, attention=bool(attending))
    computed = knobs.get("computed")
    conv = _dtype(knobs.get("mamba_cache_dtype"), computed if isinstance(computed, DType) else request.model.dtype)
    settings = Settings(
        k=request.widths.k,
        v=request.widths.v,
        conv=conv,
        state=_state_dtype(question, conv),
        packed=str(knobs.get("packed", "")),
        block=_block(question, attending, sparse=sparse),
        in_flight=batched * _batches(question, version),
        encoder_budget=batched,
        speculative=speculative,
        dcp=request.layout.dcp,
        state_blocks=1 + speculative,
        sparse=sparse,
    )
    if not states:
        return settings
    kernels = [_kernel(state, question) for state in states]
    if mode == "align":
        checkpoint = version.checkpoint and any(keeps for _, keeps in kernels)
        settings = settings._replace(state_blocks=2 + speculative + checkpoint)
    if attending:
        token = token_bytes(attending[0], settings)
        largest = max(state_page(state, settings) for state in states)
        alignment = max(aligned for aligned, _ in kernels) if mode == "align" else 1
        block = hybrid_block(token, largest, settings, latent=isinstance(attending[0], Latent), alignment=alignment)
        settings = settings._replace(block=block)
    return settings


def _kernel(state: Recurrent, question: Question) -> tuple[int, int]:
    if state.kind == "deltanet" and question.knobs.get("gdn_backend", "flashinfer") != "flashinfer":
        return _TRITON
    if state.kind == "kda" and question.knobs.get("kda_backend", "auto") not in ("auto", "flashkda"):
        return _TRITON
    return _KERNELS.get(state.kind, _TRITON)


# Blocks of the kernels for latents (their lists of kernel block sizes).
_BACKENDS = {"FLASH_ATTN_MLA": 16, "TRITON_MLA": 16, "FLASHMLA": 64, "FLASHINFER_MLA": 32, "TOKENSPEED_MLA": 32,
             "CUTLASS_MLA": 128}  # fmt: skip


def _indexers(question: Question) -> list[Indexer]:
    return [c for placed in question.placement.layers for c in placed.caches if isinstance(c, Indexer)]


def _block(question: Question, attending: list[Attention | Latent], *, sparse: bool) -> int:
    """Tokens of a block before states have their say (`update_block_size_for_backend`, for Hopper's kernels)."""
    given = question.knobs.get("block_size")
    if isinstance(given, int):
        return given
    sparse_block = next((i.block for i in _indexers(question) if i.block), None)
    if sparse_block:  # tokens that sparse attention chooses together
        return sparse_block
    if not any(isinstance(c, Latent) for c in attending):
        return 16
    backend = str(question.knobs.get("backend", "")).upper()
    if backend in _BACKENDS:
        return _BACKENDS[backend]
    # FlashMLA (sparse, or with an 8-bit cache) takes 64; FlashAttention's MLA takes 16.
    return 64 if sparse or question.request.widths.k.block_bytes == 1 else 16


def _batches(question: Question, version: Version) -> int:
    """Batches in flight (`config/vllm.py: max_concurrent_batches`)."""
    if version.batches is not None:
        return version.batches
    pp = question.request.layout.pp
    return pp + 1 if question.knobs.get("async_scheduling", True) else pp


def _mode(question: Question, version: Version, *, attention: bool) -> str:
    """`mamba_cache_mode`: align where prefixes are cached, which models of states alone do not by default."""
    given = question.knobs.get("mamba_cache_mode")
    if given in ("align", "none"):
        return str(given)
    if given is not None:
        raise KvcalcError(f"--mamba-cache-mode: expected align or none, got '{given}'")
    cached = question.knobs.get("enable_prefix_caching")
    return "align" if cached or (cached is None and version.cached and attention) else "none"


# Types whose configuration's own state dtype vLLM follows; elsewhere `auto` is the dtype of the convolution.
_STATED = ("qwen3_5", "nemotron_h")


def _state_dtype(question: Question, conv: DType) -> DType:
    given = question.knobs.get("mamba_ssm_cache_dtype")
    model_type = question.request.model.model_type or ""
    if given not in (None, "auto"):
        return _dtype(given, conv)
    if model_type.startswith(_STATED) and question.request.model.state_dtype is not None:
        return question.request.model.state_dtype
    return dtypes.FP32 if model_type.startswith("nemotron_h") else conv


def _dtype(given: object, default: DType) -> DType:
    return default if given in (None, "auto") else dtypes.find(str(given), dtypes.COMPUTE, "--mamba-cache-dtype")


def _int(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def drafts(question: Question) -> tuple[Layer, ...]:
    """The layers that draft tokens, which vLLM lists behind the model's own. Raises KvcalcError for unknown ones."""
    method = str(question.knobs.get("method", ""))
    if not question.knobs.get("speculative") or method in ("ngram", "ngram_gpu", "suffix"):
        return ()
    if "mtp" in method or method == "":
        if question.request.model.draft:
            return question.request.model.draft
        raise KvcalcError(
            "--speculative-config: no draft layers of this model are known",
            "a preset states them as `draft`; n-gram drafts keep no cache",
        )
    raise KvcalcError(
        f"--speculative-config: the shape of a draft model ({method}) is not known",
        "add its layers to a copy of the preset as `draft`, and say method mtp",
    )


def assumed(question: Question, version: Version, settings: Settings) -> tuple[str, ...]:
    """What was assumed where nothing was said, in words."""
    facts = [f"blocks of {settings.block:,} tokens"]
    if "max_num_batched_tokens" not in question.knobs:
        facts.append(f"{BATCHED_TOKENS:,} batched tokens and the kernels of an H100 assumed")
    if settings.in_flight and version.batches is None:
        facts.append(f"{settings.in_flight:,} tokens in flight")
    return tuple(facts)


def log(version: Version, tokens: int, length: int, concurrency: float) -> tuple[str, ...]:
    """The lines that vLLM prints."""
    counted = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x"
    return (f"{counted}, {most}",) if version.lines == 1 else (counted, most)
