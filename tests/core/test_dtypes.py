"""Formats and their bytes."""

import pytest

from kvcalc.core import dtypes
from kvcalc.core.dtypes import KV, WEIGHTS, DType
from kvcalc.errors import KvcalcError


@pytest.mark.parametrize(
    ("name", "block", "block_bytes", "bits"),
    [
        ("fp32", 1, 4, "32"),
        ("fp16", 1, 2, "16"),
        ("bf16", 1, 2, "16"),
        ("fp8", 1, 1, "8"),
        ("fp8_e4m3", 1, 1, "8"),
        ("fp8_e5m2", 1, 1, "8"),
        ("int8", 1, 1, "8"),
        ("int4", 2, 1, "4"),
        ("nvfp4", 16, 8 + 1, "4.5"),  # 16 x 4 bits and one 8-bit scale
        # llama.cpp: 32 elements, an fp16 scale; _1 has an fp16 minimum too, q5 a fifth bit for each element
        ("q8_0", 32, 32 + 2, "8.5"),
        ("q4_0", 32, 16 + 2, "4.5"),
        ("q4_1", 32, 16 + 2 + 2, "5"),
        ("q5_0", 32, 16 + 4 + 2, "5.5"),
        ("q5_1", 32, 16 + 4 + 2 + 2, "6"),
        ("iq4_nl", 32, 16 + 2, "4.5"),
    ],
)
def test_cache_formats(name: str, block: int, block_bytes: int, bits: str) -> None:
    """Each format of a cache has its block, its bytes with scales, and so its bits an element."""
    dtype = KV[name]
    assert (dtype.block, dtype.block_bytes, dtype.bits) == (block, block_bytes, bits)


@pytest.mark.parametrize(
    ("name", "block", "block_bytes"),
    [
        ("mxfp4", 32, 16 + 1),  # OCP Microscaling: 32 x 4 bits and one 8-bit scale
        # llama.cpp's super-blocks of 256: quants, high bits, scales, fp16 super-scales (structs of ggml-common.h)
        ("q2_k", 256, 64 + 16 + 2 + 2),
        ("q3_k", 256, 64 + 32 + 12 + 2),
        ("q4_k", 256, 128 + 12 + 2 + 2),
        ("q5_k", 256, 128 + 32 + 12 + 2 + 2),
        ("q6_k", 256, 128 + 64 + 16 + 2),
        ("q8_k", 256, 256 + 32 + 4),
        ("iq1_s", 256, 32 + 16 + 2),
        ("iq1_m", 256, 32 + 16 + 8),
        ("iq2_xxs", 256, 64 + 2),
        ("iq2_xs", 256, 64 + 8 + 2),
        ("iq2_s", 256, 64 + 8 + 8 + 2),
        ("iq3_xxs", 256, 96 + 2),
        ("iq3_s", 256, 64 + 8 + 32 + 4 + 2),
        ("iq4_xs", 256, 128 + 2 + 4 + 2),
        ("tq1_0", 256, 48 + 4 + 2),
        ("tq2_0", 256, 64 + 2),
    ],
)
def test_weight_formats(name: str, block: int, block_bytes: int) -> None:
    """Each format of weights alone has its block and bytes, and is no format of a cache."""
    assert (WEIGHTS[name].block, WEIGHTS[name].block_bytes, name in KV) == (block, block_bytes, False)


@pytest.mark.parametrize(
    ("text", "name"),
    [("bf16", "bf16"), (" BF16 ", "bf16"), ("bfloat16", "bf16"), ("f16", "fp16"), ("half", "fp16"), ("F32", "fp32"),
     ("float32", "fp32"), ("float", "fp32"), ("float16", "fp16"), ("Q8_0", "q8_0"), ("float8_e4m3fn", "fp8_e4m3"),
     ("float8_e5m2", "fp8_e5m2")],
)  # fmt: skip
def test_find(text: str, name: str) -> None:
    """A format is found in any case and under its usual other names."""
    assert dtypes.dtype_called(text, KV, "--kv-dtype").name == name


@pytest.mark.parametrize(
    "text", ["fp8_ds_mla", "int8_per_token_head", "int4_per_token_head", "turboquant_k8v4", "TurboQuant_4bit_nc"]
)
def test_formats_of_one_engine_are_refused(text: str) -> None:
    """A format whose size an engine decides has none without that engine."""
    with pytest.raises(KvcalcError, match=r"is a format of one engine, and has no size without that engine$"):
        dtypes.dtype_called(text, KV, "--kv-dtype")


@pytest.mark.parametrize("text", ["Q4_K_M", "q5_k_s", "q3_k_l", "iq3_m", "q4_k_xl"])
def test_mixes_of_weight_formats_are_refused(text: str) -> None:
    """A mix has no bits of its own: the file's size is asked for."""
    with pytest.raises(KvcalcError, match=rf"^--weights: '{text}' mixes several types") as caught:
        dtypes.dtype_called(text, WEIGHTS, "--weights")
    assert caught.value.hint == "give the size of the file instead, such as --weights 42.5GB"


@pytest.mark.parametrize("name", ["iq1_s", "iq1_m", "iq2_s", "iq3_s", "tq1_0"])
def test_types_that_look_like_mixes_are_found(name: str) -> None:
    """Types whose names end as those of mixes do are types."""
    assert dtypes.dtype_called(name, WEIGHTS, "--weights") == WEIGHTS[name]


def test_misspelt_formats_get_the_nearest_name() -> None:
    """A misspelt format is refused with the names closest to it."""
    with pytest.raises(KvcalcError) as caught:
        dtypes.dtype_called("bf61", KV, "--kv-dtype")
    assert str(caught.value) == "--kv-dtype: expected a dtype, got 'bf61'"
    assert caught.value.hint is not None
    assert "did you mean bf16" in caught.value.hint


def test_unlike_formats_get_the_whole_list() -> None:
    """Where nothing is close, every format is named."""
    with pytest.raises(KvcalcError) as caught:
        dtypes.dtype_called("zzz", dtypes.COMPUTE, "dtype")
    assert caught.value.hint == "one of fp32, fp16, bf16"


@pytest.mark.parametrize(
    ("name", "elements", "size"),
    [("bf16", 1_024, 2_048), ("fp8", 576, 576), ("int4", 128, 64), ("nvfp4", 128, 72), ("q8_0", 1_024, 1_088),
     ("q4_0", 576, 324), ("bf16", 0, 0), ("q8_0", 0, 0)],
)  # fmt: skip
def test_row_bytes(name: str, elements: int, size: int) -> None:
    """A row holds whole blocks: 1,024 elements of q8_0 are 32 blocks of 34 B."""
    assert dtypes.row_bytes(KV[name], elements) == size


def test_rows_that_do_not_fill_their_blocks_are_refused() -> None:
    """No engine stores a row of half a block."""
    with pytest.raises(KvcalcError) as caught:
        dtypes.row_bytes(KV["q8_0"], 80)
    assert str(caught.value) == "q8_0 stores blocks of 32 elements, and a row of 80 does not fill them"


@pytest.mark.parametrize(
    ("dtype", "elements", "size"),
    [(KV["int4"], 3, 2), (WEIGHTS["q4_k"], 257, 288), (WEIGHTS["mxfp4"], 32, 17), (KV["bf16"], 7, 14)],
)
def test_packed_bytes(dtype: DType, elements: int, size: int) -> None:
    """Elements stored together round the last block up."""
    assert dtypes.packed_bytes(dtype, elements) == size
