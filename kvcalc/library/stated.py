"""What a model's name says of the format of its weights: `-AWQ`, `-FP8-dynamic`, `-bnb-4bit`, `:Q4_K_M`.

Publishers of converted weights write the format behind the name of the model, in words that are few. To count 16 bits
for such a model would be three times too much.
"""

import re
from typing import NamedTuple

__all__ = ["Stated", "stated"]


class Stated(NamedTuple):
    """A name without its format, the format as `--weights` takes it, and the cache's where the name says that too.

    `format` is None where the name says only that its files are converted (-GGUF, -MLX), or where `unsized` is a format
    whose size is not known here. `own`: it is the publisher's own mix, of which the format is the nearest.
    """

    name: str
    format: str | None
    kv_dtype: str | None = None
    own: bool = False
    unsized: str | None = None


# Words at the end of a name, joined by hyphens. What they say of the weights; "" says nothing of the size by itself.
_FORMATS = {
    "awq": "awq", "gptq": "gptq", "int4": "int4", "int8": "int8", "w4a16": "int4", "w4a8": "int4", "w4a4": "int4",
    "w8a8": "int8", "w8a16": "int8", "fp8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4", "nf4": "nf4", "bf16": "bf16",
    "fp16": "fp16", "f16": "fp16", "f32": "fp32", "fp32": "fp32",
}  # fmt: skip
_SILENT = frozenset(
    """
    gguf mlx hf bnb unsloth dynamic static block blockwise pertensor pertoken perchannel quantized marlin autoround dwq
    g32 g64 g128 asym sym kv ud imatrix
    """.split()  # noqa: SIM905  # a list of words
)
# Formats of one engine, or with as many sizes as files.
_UNSIZED = frozenset(
    "exl2 exl3 aqlm hqq quip vptq spqr eetq onnx openvino ternary mxfp8 mxfp6".split()  # noqa: SIM905  # likewise
)
_BITS = re.compile(r"([2-8])bits?")
_FILE = re.compile(r"(?:ud[-_])?((?:i?q|tq)[1-8]_(?:k(?:_(?:xxs|xs|s|m|l|xl))?|[0-3]|nl|xxs|xs|s|m))", re.ASCII)
_SPLIT = re.compile(r"(?:-\d{5}-of-\d{5})?\.gguf$", re.IGNORECASE)
# Mixes of publishers, by the file of llama-quantize that is nearest: bartowski's _L, Unsloth's _XL.
_NEAREST = {"q2_k_l": "q2_k", "q2_k_xl": "q2_k", "q3_k_xl": "q3_k_l", "q4_k_l": "q4_k_m", "q4_k_xl": "q4_k_m",
            "q5_k_l": "q5_k_m", "q5_k_xl": "q5_k_m", "q6_k_l": "q6_k", "q6_k_xl": "q6_k"}  # fmt: skip
_LONGEST = 300


def stated(name: str) -> Stated | None:
    """The format that `name` states, a hub id, a file's name or NAME:TAG; None where it states none."""
    if len(name) > _LONGEST:
        return None
    body, colon, tag = _SPLIT.sub("", name).partition(":")
    if colon and (found := _of_file(tag)) is not None:
        inner = stated(body)
        base = body if inner is None else inner.name
        return found._replace(name=f"{base}:{found.name}" if found.name else base)
    found = _of_file(body)
    return found if found is not None else _of_words(body)


def _of_file(text: str) -> Stated | None:
    """A name that ends in the type of a GGUF file, or is one: Qwen3-8B-Q4_K_M, 8b-instruct-q4_K_M, Q4_K_M."""
    match = re.search(rf"(?:^|[-_.])({_FILE.pattern})$", text, re.IGNORECASE | re.ASCII)
    if match is None:
        return None
    word = match[2].lower()
    nearest = _NEAREST.get(word, word)
    own = nearest != word or match[1].lower().startswith("ud")
    return Stated(text[: match.start()], nearest, own=own)


def _of_words(name: str) -> Stated | None:
    words = name.split("-")
    end = len(words)
    while end > 1 and all(_known(part) for part in words[end - 1].lower().split(".")):
        end -= 1
    found = [part for word in words[end:] for part in word.lower().split(".")]
    if not found:
        return None
    unsized = next((part for part in found if part in _UNSIZED), None)
    said = None if unsized else _format(name, found)
    return Stated("-".join(words[:end]), said, "fp8" if {"fp8", "kv"} <= {*found} else None, unsized=unsized)


def _known(part: str) -> bool:
    return part in _FORMATS or part in _SILENT or part in _UNSIZED or _BITS.fullmatch(part) is not None or part == "fp4"


def _format(name: str, found: list[str]) -> str | None:
    """The format that words mean together: bits alone are MLX's where it says so, else whole numbers."""
    bits = next((int(match[1]) for part in found if (match := _BITS.fullmatch(part))), None)
    if "fp4" in found:  # the older name of NVIDIA's own
        return "nvfp4" if name.lower().startswith("nvidia/") else "fp4"
    plain = next((_FORMATS[part] for part in found if part in _FORMATS), None)
    if plain is not None:
        return "int8" if plain == "gptq" and ("int8" in found or bits == 8) else plain
    if bits is None:
        return None
    if "bnb" in found:
        return "nf4" if bits == 4 else "int8"
    if "mlx" in found or name.lower().startswith("mlx-community/"):
        return f"mlx_{bits}bit"
    return f"int{bits}" if bits in (4, 8) else f"mlx_{bits}bit"
