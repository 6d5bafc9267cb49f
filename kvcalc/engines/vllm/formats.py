"""Bytes of a token in vLLM's formats of the cache: elements, and the scales that a format keeps beside them.

Sources: vLLM 0.33.0, `customize_spec` of the backends in `v1/attention/backends`, and
`model_executor/layers/quantization/turboquant/config.py`.
"""

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError

__all__ = ["PACKED", "boundary_layers", "head_bytes", "latent_bytes"]

# Formats of vLLM's own, and the plain one whose elements they have: what the exact size counts.
PACKED = {
    "fp8_inc": "fp8",
    "fp8_ds_mla": "fp8",
    "nvfp4_ds_mla": "nvfp4",
    "int8_per_token_head": "int8",
    "fp8_per_token_head": "fp8",
    "int4_per_token_head": "int4",
    "nvfp4_4over6": "nvfp4",
    "turboquant_k8v4": "int4",
    "turboquant_4bit_nc": "int4",
    "turboquant_k3v4_nc": "int4",
    "turboquant_3bit_nc": "int4",
    "ultraquant_4bit": "int4",
}

_TURBOQUANT = {  # bits of a key's and of a value's element
    "turboquant_k8v4": (8, 4), "turboquant_4bit_nc": (4, 4), "turboquant_k3v4_nc": (3, 4), "turboquant_3bit_nc": (3, 3),
}  # fmt: skip
_BOUNDARY = 2  # layers at each end that turboquant and ultraquant leave in the model's dtype


def head_bytes(packed: str, k: DType, v: DType, dims: tuple[int, int]) -> int:
    """Bytes of one head's key and value, of `dims` elements."""
    k_dim, v_dim = dims
    match packed:
        case "" | "fp8_inc" | "nvfp4_4over6":
            return dtypes.row_bytes(k, k_dim) + dtypes.row_bytes(v, v_dim)
        case "int8_per_token_head" | "fp8_per_token_head":  # two fp32 scales for each token and head
            return k_dim + v_dim + 8
        case "int4_per_token_head":
            return (k_dim + v_dim) // 2 + 8
        case "ultraquant_4bit":  # 4 bits, and a byte of scale for each 32
            return k_dim // 2 + k_dim // 32 + v_dim // 2 + v_dim // 32
        case _ if packed in _TURBOQUANT:
            # A norm (fp16) beside keys of fewer than 8 bits, scale and zero (fp16) beside values; an even number.
            k_bits, v_bits = _TURBOQUANT[packed]
            slot = ceil_div(k_dim * k_bits, 8) + (0 if k_bits == 8 else 2) + ceil_div(k_dim * v_bits, 8) + 4
            return slot + slot % 2
        case _:
            raise KvcalcError(f"--kv-dtype: no size of {packed} is known for this model", "fp8 or bf16")


def latent_bytes(packed: str, k: DType, dims: tuple[int, int], *, sparse: bool) -> int:
    """Bytes of a latent's `dims`, rank and rotary elements. On models with an indexer any fp8 is fp8_ds_mla."""
    rank, rope = dims
    if packed == "fp8_ds_mla" or (sparse and packed in ("", "fp8_inc") and k.name.startswith("fp8")):
        return rank + rank // 128 * 4 + 2 * rope  # 512 fp8, 4 fp32 scales and 64 bf16 rotary elements
    if packed == "nvfp4_ds_mla" and sparse and dims == (512, 64):
        return 352
    if packed not in ("", "fp8_inc") or k.name == "nvfp4":
        raise KvcalcError(f"--kv-dtype: vllm has no {packed or k.name} cache for this model's latents", "fp8 or bf16")
    return dtypes.row_bytes(k, rank + rope)


def boundary_layers(packed: str, layers: int, *, states: bool) -> frozenset[str]:
    """Layers that a format leaves in the model's dtype by itself: none of a model with states."""
    if states or not packed.startswith(("turboquant_", "ultraquant_")):
        return frozenset()
    n = min(_BOUNDARY, layers // 2)
    return frozenset(str(i) for i in (*range(n), *range(layers - n, layers)))
