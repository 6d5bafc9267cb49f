"""vLLM's settings as they follow from a question: blocks, dtypes of states, batches in flight, drafts."""

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Layer, Recurrent
from kvcalc.core.units import ceil_div
from kvcalc.engines.question import Question
from kvcalc.engines.vllm import formats
from kvcalc.engines.vllm.batches import batched_tokens
from kvcalc.engines.vllm.kernels import BY_CUDA, LEAST_BLOCK, first_block, sparse_format, state_kernel
from kvcalc.engines.vllm.specs import Settings, hybrid_block, state_page, token_bytes
from kvcalc.engines.vllm.versions import Version
from kvcalc.errors import KvcalcError

__all__ = ["assumed", "drafts", "settings_of"]


def settings_of(question: Question, version: Version) -> Settings:
    """The settings in force: flags, else the version's and the model's defaults."""
    _check_flags(question, version)
    request, given = question.request, question.settings
    caches = [cache for placed in question.placement.layers for cache in placed.caches]
    distinct = list(dict.fromkeys(caches))
    states = [c for c in distinct if isinstance(c, Recurrent)]
    attending = [c for c in caches if isinstance(c, Latent) or (isinstance(c, Attention) and c.kv_heads)]
    speculative, batched = _int(given.get("speculative"), 0), batched_tokens(question)
    computed = given.get("computed")
    computed = computed if isinstance(computed, DType) else request.model.dtype
    conv = _dtype(given.get("mamba_cache_dtype"), computed)
    packed, sparse = str(given.get("packed", "")), any(isinstance(c, Indexer) and c.store for c in distinct)
    kernel = sparse_format(question, version) if sparse else ""
    if kernel == "always" and not packed and (all(request.auto) or request.widths.k.name.startswith("fp8")):
        packed = "fp8_ds_mla"
    settings = Settings(
        k=request.widths.k,
        v=request.widths.v,
        computed=computed,
        conv=conv,
        state=_state_dtype(question, conv),
        packed=packed,
        block=first_block(question, attending),
        in_flight=batched * _batches(question, version),
        encoder_budget=batched,
        speculative=speculative,
        retained=speculative - 1 if not given.get("drafted") and min(len(drafts(question)), speculative) > 1 else 0,
        dcp=request.layout.dcp,
        state_blocks=1 + speculative,
        sparse=sparse and kernel != "plain",
        compressed=_compressed(question, version),
        skipped=_skipped(question, packed, states=bool(states)),
    )
    if states:
        settings = _with_states(question, settings, version, states, attending)
    return _with_skipped(settings, attending) if settings.skipped else settings


def _check_flags(question: Question, version: Version) -> None:
    """Refuse what changes the cache by a rule that is not here."""
    if _int(question.settings.get("prefill_context"), 1) > 1 and version.prefill:
        raise KvcalcError(
            f"--prefill-context-parallel-size: vllm {version.name} divides the context by it too: no rule here",
            "0.26 or newer does not",
        )
    if question.settings.get("replay") and any(
        isinstance(c, Recurrent) for c in question.request.model.distinct_caches
    ):
        raise KvcalcError("--use-replayssm: the rings that it adds to states have no rule here", "leave it out")


def _compressed(question: Question, version: Version) -> bool:
    """DeepSeek V4, whose cache is fp8_ds_mla whatever fp8 is asked for (`_resolve_dsv4_kv_cache_dtype`)."""
    request = question.request
    if not any(isinstance(cache, Compressed) for cache in request.model.distinct_caches):
        return False
    if not version.packed:
        raise KvcalcError(f"--engine: packed pages as vllm {version.name} counted them are not known", "0.27 or newer")
    if not all(request.auto) and not request.widths.k.name.startswith("fp8"):
        raise KvcalcError(f"--kv-dtype: vllm keeps this model's cache as fp8_ds_mla, not {request.widths.k.name}")
    return True


def _with_states(
    question: Question,
    settings: Settings,
    version: Version,
    states: list[Recurrent],
    attending: list[Attention | Latent],
) -> Settings:
    """Blocks of states, and a block of attention layers whose page holds one."""
    align = _mode(question, version, states, attention=bool(attending)) == "align"
    kernels = {state.kind: state_kernel(state, question, version) for state in states}
    alignment = 1
    if align:
        kept = frozenset(kind for kind, (_, keeps) in kernels.items() if keeps)
        if len(kernels) > 1:  # the gated delta rule keeps checkpoints only where all layers align to them
            kept -= {"deltanet"}
        alignment = max(kernels[kind][0] for kind in kept) if kept else 1
        settings = settings._replace(state_blocks=2 + settings.speculative, checkpoints=kept)
    if not attending:
        return settings
    token = token_bytes(attending[0], settings)
    if settings.skipped:  # a page that both formats fill (`_align_hybrid_block_size`)
        raise KvcalcError("--kv-cache-dtype-skip-layers: its rule for models with states is not known", "leave it out")
    largest = max(state_page(state, settings) for state in states)
    latent = isinstance(attending[0], Latent)
    return settings._replace(block=hybrid_block(token, largest, settings, latent=latent, alignment=alignment))


def _skipped(question: Question, packed: str, *, states: bool) -> frozenset[str]:
    """Layers that keep the model's dtype: those of the flag, and those that a format leaves by itself."""
    given = question.settings.get("skip_layers", ())
    assert isinstance(given, tuple)
    layers = len(question.placement.layers)
    return frozenset(given) | formats.boundary_layers(packed, layers, states=states)


def _with_skipped(settings: Settings, attending: list[Attention | Latent]) -> Settings:
    """A block whose page holds a left-out layer's least block (`_align_heterogeneous_kv_block_size`)."""
    if not attending:
        return settings
    first = attending[0]
    own, plain = token_bytes(first, settings), token_bytes(first, settings.plain)
    if own == plain:
        return settings
    if isinstance(first, Latent):
        raise KvcalcError("--kv-cache-dtype-skip-layers: its rule for latents is not known", "leave it out")
    step = max(settings.block, LEAST_BLOCK)
    block = max(settings.block, step * ceil_div(plain * LEAST_BLOCK, step * own))
    return settings._replace(block=block, shared_page=block * own)


def _batches(question: Question, version: Version) -> int:
    """Batches in flight (`config/vllm.py: max_concurrent_batches`)."""
    if version.batches is not None:
        return version.batches
    pp = question.request.layout.pp
    return pp + 1 if question.settings.get("async_scheduling", True) else pp


# States that no version keeps for every block: their models do not declare `supports_mamba_prefix_caching`, so that
# vLLM sets align whatever is asked for (`models/config.py`, which warns of it). Those of Mamba and LFM2 declare it.
_ALIGNED_ONLY = ("deltanet", "kda")


def _mode(question: Question, version: Version, states: list[Recurrent], *, attention: bool) -> str:
    """`mamba_cache_mode`: align where prefixes are cached, else none, whatever the flag says (`MambaModelConfig`).

    Models of states alone do not cache prefixes by default.
    """
    given, cached = question.settings.get("mamba_cache_mode"), question.settings.get("enable_prefix_caching")
    if given not in (None, "align", "none", "all"):
        raise KvcalcError(f"--mamba-cache-mode: expected align or none, got '{given}'")
    on = bool(cached) if cached is not None else version.cached and attention
    if on and version.every and all(state.kind in _ALIGNED_ONLY for state in states):
        return "align"
    if on and version.every and given != "align" and (given == "all" or not version.cached):
        raise KvcalcError(
            f"--mamba-cache-mode: states kept for every block, which vllm {version.name} can, have no rule here",
            "--mamba-cache-mode align",
        )
    if given == "all" and not version.every:
        raise KvcalcError("--mamba-cache-mode: expected align or none, got 'all'")
    return "align" if on else "none"


# Types whose configuration's own state dtype vLLM follows; elsewhere `auto` is the dtype of the convolution.
_STATED = ("qwen3_5", "nemotron_h")


def _state_dtype(question: Question, conv: DType) -> DType:
    model, given = question.request.model, question.settings.get("mamba_ssm_cache_dtype")
    model_type = model.model_type or ""
    if given not in (None, "auto"):
        return _dtype(given, conv)
    if any(isinstance(cache, Recurrent) and cache.kind == "kda" for cache in model.distinct_caches):
        return dtypes.FP32
    if model_type.startswith(_STATED) and model.state_dtype is not None:
        return model.state_dtype
    return dtypes.FP32 if model_type.startswith("nemotron_h") else conv


def _dtype(given: object, default: DType) -> DType:
    return (
        default if given in (None, "auto") else dtypes.dtype_called(str(given), dtypes.COMPUTE, "--mamba-cache-dtype")
    )


def _int(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def drafts(question: Question) -> tuple[Layer, ...]:
    """The layers that draft tokens, which vLLM lists behind the model's own. Raises KvcalcError for unknown ones."""
    method = str(question.settings.get("method", ""))
    if not question.settings.get("speculative") or method in ("ngram", "ngram_gpu", "suffix"):
        return ()
    if question.request.layout.dcp > 1:
        raise KvcalcError("--dcp: whether drafts are spread too depends on their kind", "leave drafts or --dcp out")
    if method in ("medusa", "mlp_speculator"):  # heads without attention
        return ()
    if "mtp" in method or method == "" or question.settings.get("drafted"):
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
    batched = batched_tokens(question)
    if question.card is None:
        facts.append(f"kernels of an H100 assumed, and {batched:,} batched tokens: --gpu names another card")
    elif question.card.capability is None:
        facts.append(f"blocks as on cards of NVIDIA assumed, since kernels for {question.card.label} are not known")
    else:
        facts.append(f"kernels of {question.card.label}, {batched:,} batched tokens")
        if question.card.generation in BY_CUDA and "deltanet" in settings.checkpoints:
            facts.append(
                "CUDA 13, as vLLM's wheels have, whose gated delta kernel keeps checkpoints: Triton's does not"
            )
    if settings.in_flight and version.batches is None:
        facts.append(f"{settings.in_flight:,} tokens in flight")
    return tuple(facts)
