"""What follows from the kernels that vLLM chooses for a card: tokens of a block, and alignment.

Sources: vLLM 0.33.0, `platforms/cuda.py` (priorities of backends), and each backend's list of kernel block sizes.
Without a card, an H100 is assumed.
"""

from kvcalc.core.card import Card
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Recurrent
from kvcalc.engines.base import Question, no_rule
from kvcalc.errors import KvcalcError

__all__ = ["LEAST_BLOCK", "first_block", "state_kernel"]

_HOPPER, _BLACKWELL, _SMALL_BLACKWELL = 9, 10, 12

# Blocks of the kernels for latents (their lists of kernel block sizes).
_BACKENDS = {"FLASH_ATTN_MLA": 16, "TRITON_MLA": 16, "FLASHMLA": 64, "FLASHINFER_MLA": 32, "TOKENSPEED_MLA": 32,
             "CUTLASS_MLA": 128}  # fmt: skip

_SPARSE = 64  # FlashMLA's and FlashInfer's sparse kernels
_COMPRESSED = 256  # DeepSeek V4
LEAST_BLOCK = 16  # of every kernel for keys and values


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


def state_kernel(state: Recurrent, question: Question) -> tuple[int, bool]:
    """Tokens that the kernel which fills states aligns blocks to, and whether it keeps checkpoints of its own.

    Mamba-2's mixer keeps one. FlashInfer's gated delta rule keeps one each 64 tokens: on Hopper, and on Blackwell for
    keys of 128. FlashKDA keeps one where the gate is bounded, as Kimi K3's is and Kimi Linear's is not. Triton's
    kernels keep none.
    """
    generation, settings = _generation(question.card), question.settings
    match state.kind:
        case "mamba2":
            return 1, True
        case "deltanet":
            model_type = question.request.model.model_type or ""
            able = generation == _HOPPER or (generation in (_BLACKWELL, _SMALL_BLACKWELL) and state.k_dim == 128)
            able = able and not model_type.startswith("olmo")
            return (64, True) if able and settings.get("gdn_backend", "auto") in ("auto", "flashinfer") else (1, False)
        case "kda":
            able = generation in (_HOPPER, _BLACKWELL, _SMALL_BLACKWELL) and state.head_dim == 128
            able = able and question.request.model.gguf == "kimi-k3"
            return 1, able and settings.get("kda_backend", "auto") in ("auto", "flashkda")
        case "mamba1" | "shortconv" | "lightning":
            return 1, False
        case _:
            raise no_rule("vllm", state)
