"""How many bytes an element takes: plain widths, and formats that store blocks of elements with their scales."""

from typing import NamedTuple

from kvcalc.core.units import ceil_div
from kvcalc.errors import KvcalcError, nearest, shown

__all__ = ["COMPUTE", "FP32", "GGUF", "KV", "WEIGHTS", "DType", "dtype_called", "grouped", "packed_bytes", "row_bytes"]


class DType(NamedTuple):
    """A format of elements in memory.

    Attributes:
        name: Our name of it, as `--kv-dtype` and `--weights` take it.
        block: Elements that are stored together; 1 for plain widths.
        block_bytes: Bytes of one block, its scales included.
    """

    name: str
    block: int
    block_bytes: int

    @property
    def bits(self) -> str:
        """Bits per element, for people: `16`, `4.5`."""
        return f"{8 * self.block_bytes / self.block:g}"


FP32 = DType("fp32", 1, 4)

COMPUTE = {d.name: d for d in (FP32, DType("fp16", 1, 2), DType("bf16", 1, 2))}

# Eight-bit floats of the common engines carry one scale per tensor, which lives with the weights: nothing in the cache
# (vLLM 0.33, SGLang 0.5.23, TensorRT-LLM alike). NVFP4: 16 elements of 4 bits and one 8-bit scale, 4.5 bits.
_COMMON = (DType("fp8", 1, 1), DType("int8", 1, 1), DType("int4", 2, 1), DType("nvfp4", 16, 9))
_FP8 = (DType("fp8_e4m3", 1, 1), DType("fp8_e5m2", 1, 1))

# llama.cpp's cache types: blocks of 32 with an fp16 scale (and minimum), ggml-common.h.
_GGML_CACHE = (
    DType("q8_0", 32, 34),
    DType("q4_0", 32, 18),
    DType("q4_1", 32, 20),
    DType("q5_0", 32, 22),
    DType("q5_1", 32, 24),
    DType("iq4_nl", 32, 18),
)
# llama.cpp's weight types: super-blocks of 256, sizes of the structs in ggml-common.h.
_GGML_WEIGHTS = tuple(
    DType(name, 256, size)
    for name, size in (
        ("q2_k", 84), ("q3_k", 110), ("q4_k", 144), ("q5_k", 176), ("q6_k", 210), ("q8_k", 292),
        ("iq1_s", 50), ("iq1_m", 56), ("iq2_xxs", 66), ("iq2_xs", 74), ("iq2_s", 82), ("iq3_xxs", 98), ("iq3_s", 110),
        ("iq4_xs", 136), ("tq1_0", 54), ("tq2_0", 66),
    )
)  # fmt: skip

GGUF = frozenset(d.name for d in (*_GGML_CACHE, *_GGML_WEIGHTS))  # blocks that llama.cpp's own kernels unpack

KV = COMPUTE | {d.name: d for d in (*_COMMON, *_FP8, *_GGML_CACHE)}

# MXFP4: 32 elements of 4 bits and one 8-bit scale, 4.25 bits (OCP Microscaling Formats specification 1.0).
WEIGHTS = COMPUTE | {d.name: d for d in (*_COMMON, DType("mxfp4", 32, 17), *_GGML_CACHE, *_GGML_WEIGHTS)}

_ALIASES = {
    "f32": "fp32", "float32": "fp32", "float": "fp32",
    "f16": "fp16", "float16": "fp16", "half": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8_e4m3", "float8_e5m2": "fp8_e5m2",
}  # fmt: skip

# Formats that one engine owns: their size depends on the head size or on packing that only that engine does.
_ENGINE_ONLY = ("fp8_ds_mla", "nvfp4_ds_mla", "int8_per_token_head", "int4_per_token_head", "fp8_per_token_head",
                "fp8_inc", "mxfp8", "turboquant_", "ultraquant_", "octave_")  # fmt: skip


def grouped(dtype: DType, group: int, *, zeros: bool = False) -> DType:
    """Integers of 4 or 8 bits whose groups of `group` share a 16-bit scale, and with `zeros` a zero point as wide as
    they are (AutoAWQ, GPTQModel; compressed-tensors' symmetric groups have none).
    """
    pair = dtype.block * group  # as many elements as fill whole bytes
    return DType(dtype.name, pair, group * dtype.block_bytes + 2 * dtype.block + (dtype.block_bytes if zeros else 0))


def dtype_called(name: str, among: dict[str, DType], what: str, also: tuple[str, ...] = ()) -> DType:
    """The format called `name`, in any case and by its usual other names.

    `what` names the option in errors, and `also` are words to name there. Raises KvcalcError for a name that is not
    `among` the formats.
    """
    key = name.strip().lower()
    key = _ALIASES.get(key, key)
    if key in among:
        return among[key]
    if key.startswith(_ENGINE_ONLY):
        raise KvcalcError(
            f"{what}: {shown(name)} is a format of one engine, and has no size without that engine",
            f"one of {', '.join(among)}",
        )
    if among is WEIGHTS and key.startswith(("q", "iq")) and key.endswith(("_s", "_m", "_l", "_xl")):
        raise KvcalcError(
            f"{what}: {shown(name)} mixes several types, in shares that depend on the file",
            "give the size of the file instead, such as --weights 42.5GB",
        )
    known = dict.fromkeys((*among, *also))
    close = nearest(key, known)
    hint = f"did you mean {' or '.join(close)}?" if close else f"one of {', '.join(known)}"
    raise KvcalcError(f"{what}: expected a dtype, got {shown(name)}", hint)


def row_bytes(dtype: DType, elements: int) -> int:
    """Bytes of one row of a cache, such as all the keys of one token in one layer. Rows hold whole blocks.

    Raises KvcalcError where the row does not fill its blocks: no engine stores such a cache.
    """
    blocks, rest = divmod(elements, dtype.block)
    if rest:
        raise KvcalcError(
            f"{dtype.name} stores blocks of {dtype.block} elements, and a row of {elements:,} does not fill them",
            "choose a KV dtype without blocks, such as fp8 or int8",
        )
    return blocks * dtype.block_bytes


def packed_bytes(dtype: DType, elements: int) -> int:
    """Bytes of many elements stored together, the last block rounded up."""
    return ceil_div(elements, dtype.block) * dtype.block_bytes
