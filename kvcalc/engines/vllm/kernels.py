"""What follows from the kernels that vLLM chooses for a card: tokens of a block, and alignment.

Sources: vLLM 0.33.0, `platforms/cuda.py` (priorities of backends), and each backend's list of kernel block sizes; the
wheels of older versions where a row of versions.py says so. Without a card, an H100 is assumed. Turing, Ampere and Ada
have no kernel of their own for latents, sparse latents or states: what they take is Triton's, which has blocks of 16
tokens and keeps no checkpoints. So do other makers' cards as far as nothing else is known, which `assumed` says.
"""

from kvcalc.commands import versions
from kvcalc.core.card import Capability, Card
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Recurrent
from kvcalc.engines.base import Stored
from kvcalc.engines.question import Question, no_rule
from kvcalc.engines.vllm.versions import Version
from kvcalc.errors import KvcalcError

__all__ = ["BY_CUDA", "LEAST_BLOCK", "first_block", "least", "sparse_format", "state_kernel"]

_HOPPER, _BLACKWELL, _SMALL_BLACKWELL = 9, 10, 12
BY_CUDA = (_BLACKWELL, _SMALL_BLACKWELL)  # generations on which the gated delta rule's kernel depends on CUDA's version

# Blocks of the kernels for latents (their lists of kernel block sizes).
_BACKENDS = {"FLASH_ATTN_MLA": 16, "TRITON_MLA": 16, "FLASHMLA": 64, "FLASHINFER_MLA": 32, "TOKENSPEED_MLA": 32,
             "CUTLASS_MLA": 128}  # fmt: skip

_SPARSE = 64  # FlashMLA's and FlashInfer's sparse kernels
_COMPRESSED = 256  # DeepSeek V4
LEAST_BLOCK = 16  # of every kernel for keys and values


_BF16, _BLACKWELL_FP4, _FLASHINFER = (8, 0), (10, 0), (7, 5)
# Marlin reads fp8 and NVFP4 weights into 16-bit products: from Ampere on (pull request 5975 in 0.5.1), and from Turing
# on since pull request 29901 of December 2025 (is_fp8_marlin_supported in marlin_utils_fp8.py, and the page on FP8 in
# the documentation of 0.32.0).
_MARLIN = {(0,): (8, 0), (0, 15): (7, 5)}


def least(version: versions.Version, what: Stored, name: str) -> Capability | None:
    """The least capability for a format. Units for it (fp8: 8.9, FP4: 10.0) are needed to multiply, not to keep it.

    A cache in fp8 is converted as it is read and written (issues 3965 and 4827; pull request 24577 for e4m3 on an
    A100), by FlashInfer's kernels from Turing on; Triton's lack e4m3 before 8.9 (pull request 50882).
    """
    if name == "bf16":  # weights in it are converted to fp16
        return _BF16 if what == "cache" else None
    if what == "weights" and name.startswith(("fp8", "nvfp4")):
        return next(
            least for since, least in reversed(_MARLIN.items()) if versions.parse(version.name, "--engine") >= since
        )
    return _FLASHINFER if name.startswith("fp8") else _BLACKWELL_FP4 if name == "nvfp4" else None


def _generation(card: Card | None) -> int:
    return _HOPPER if card is None else card.generation or 0


def first_block(question: Question, attending: list[Attention | Latent]) -> int:
    """Tokens of a block before states have their say (`update_block_size_for_backend`)."""
    given = question.settings.get("block_size")
    if isinstance(given, int):
        if given % LEAST_BLOCK:  # every kernel's list: a multiple of 16, or 32, 64, 128
            raise KvcalcError(f"--block-size: vllm's kernels take multiples of {LEAST_BLOCK}, not {given}")
        return given
    caches = question.request.model.distinct_caches
    if any(isinstance(cache, Compressed) for cache in caches):
        return _COMPRESSED
    indexers = [cache for cache in caches if isinstance(cache, Indexer)]
    if indexers:  # tokens that sparse attention chooses together
        return indexers[0].block or _SPARSE
    if question.settings.get("packed") == "ultraquant_4bit":
        return 64
    if not any(isinstance(c, Latent) for c in attending):
        return LEAST_BLOCK
    return _BACKENDS.get(str(question.settings.get("backend", "")).upper()) or _latent_block(question)


def _latent_block(question: Question) -> int:
    """The first kernel of the card's list that takes the cache's format.

    Hopper: FlashAttention's takes no 8-bit cache, FlashMLA does. Blackwell: FlashInfer's. Elsewhere Triton's.
    """
    generation, eight_bits = _generation(question.card), question.request.widths.k.block_bytes == 1
    if generation == _BLACKWELL:
        return _BACKENDS["FLASHINFER_MLA"]
    return _BACKENDS["FLASHMLA" if generation == _HOPPER and eight_bits else "TRITON_MLA"]


# The sparse kernels that keep latents in plain fp8, and those that always pack them (`fp8_ds_mla`, 656 B a token).
_PLAIN_SPARSE, _PACKED_SPARSE = ("FLASHINFER_MLA_SPARSE",), ("FLASHINFER_MLA_SPARSE_SM120",)


def sparse_format(question: Question, version: Version) -> str:
    """How the sparse kernel keeps latents: "packed" where the cache is fp8, "plain", or "always" packed.

    `_get_backend_priorities`: FlashMLA's on Hopper; on data centres' Blackwell FlashInfer's for an 8-bit cache, which
    takes heads of 128 to 192 elements beside the rotary ones (`flashinfer_mla_sparse.py: supports_combination`); on
    other Blackwell FlashInfer's own, whose `auto` is packed too (`_canonicalize_sparse_mla_kv_cache_dtype`).
    """
    named, generation = str(question.settings.get("backend", "")).upper(), _generation(question.card)
    if named in _PLAIN_SPARSE:
        return "plain"
    if named in _PACKED_SPARSE:
        return "always"
    if named or generation not in version.blackwell:
        return "packed"
    if generation == _SMALL_BLACKWELL:
        return "always"
    latents = [cache for cache in question.request.model.distinct_caches if isinstance(cache, Latent)]
    return "plain" if all(128 <= each.k_dim - each.rope <= 192 for each in latents) else "packed"


def state_kernel(state: Recurrent, question: Question, version: Version) -> tuple[int, bool]:
    """Tokens that the kernel which fills states aligns blocks to, and whether it keeps checkpoints of its own.

    Mamba-2's mixer keeps one. FlashInfer's gated delta rule keeps one each 64 tokens: on Hopper, and on Blackwell for
    keys of 128 (with CUDA 13, for which vLLM's wheels are built since 0.22). FlashKDA keeps one where the gate is
    bounded, as Kimi K3's is and Kimi Linear's is not. Triton's kernels keep none, nor do those of other makers' cards.
    """
    generation, settings, keeps = _generation(question.card), question.settings, state.kind in version.checkpoints
    match state.kind:
        case "mamba2":
            return 1, keeps
        case "deltanet":
            model_type = question.request.model.model_type or ""
            able = generation == _HOPPER or (generation in BY_CUDA and state.k_dim == 128)
            able = able and keeps and not model_type.startswith("olmo")
            return (64, True) if able and settings.get("gdn_backend", "auto") in ("auto", "flashinfer") else (1, False)
        case "kda":
            able = generation in (_HOPPER, _BLACKWELL, _SMALL_BLACKWELL) and state.head_dim == 128
            able = able and keeps and question.request.model.gguf == "kimi-k3"
            return 1, able and settings.get("kda_backend", "auto") in ("auto", "flashkda")
        case "mamba1" | "shortconv" | "lightning":
            return 1, False
        case _:
            raise no_rule("vllm", state)
