"""How the words behind llama.cpp's flags are read."""

import re

from kvcalc.core.units import parse_integer
from kvcalc.engines.llama_cpp.context import MOST_SEQUENCES
from kvcalc.errors import KvcalcError, shown

__all__ = [
    "ALL_LAYERS",
    "cache_type",
    "flash_attention",
    "from_zero",
    "gpu_layers",
    "mebibytes",
    "slots",
    "switched_on",
    "tensor_buffers",
    "word_set",
]

ALL_LAYERS = 10**6  # more than any model has


_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")  # kv_cache_types


_FLASH = {
    **dict.fromkeys(("on", "enabled", "true", "1"), "on"),
    **dict.fromkeys(("off", "disabled", "false", "0"), "off"),
    **dict.fromkeys(("auto", "-1"), "auto"),
}


def from_zero(text: str, what: str) -> int:
    return 0 if re.fullmatch(r"0{1,24}", text.strip()) else parse_integer(text, what)


def slots(text: str, what: str) -> int:
    """A number of sequences; all numbers below zero stand for the default."""
    return -1 if re.fullmatch(r"-[0-9]{1,9}", text.strip()) else parse_integer(text, what, MOST_SEQUENCES)


def cache_type(text: str, what: str) -> str:
    if text not in _TYPES:
        raise KvcalcError(f"{what}: expected one of {', '.join(_TYPES)}, got {shown(text)}")
    return text


def flash_attention(text: str, what: str) -> str:
    if text.lower() not in _FLASH:
        raise KvcalcError(f"{what}: expected on, off or auto, got {shown(text)}")
    return _FLASH[text.lower()]


def switched_on(text: str, what: str) -> bool:
    if flash_attention(text, what) == "auto":
        raise KvcalcError(f"{what}: expected on or off, got {shown(text)}")
    return flash_attention(text, what) == "on"


def gpu_layers(text: str, what: str) -> int:
    """A number of layers, `all`, or `auto` and -1 for what fits."""
    word = text.strip().lower()
    return ALL_LAYERS if word in ("auto", "all", "-1", "-2") else from_zero(text, what)


def tensor_buffers(text: str, what: str) -> tuple[tuple[str, bool], ...]:
    """Patterns of tensors' names, and whether their buffer is the host's. Patterns are matched by Python's rules."""
    found = []
    for part in text.split(","):
        pattern, _, buffer = part.rpartition("=")
        if not pattern or len(pattern) > _LONGEST_PATTERN or _slow(pattern):
            raise KvcalcError(f"{what}: expected a short PATTERN=BUFFER, got {shown(part)}", "such as exps=CPU")
        try:
            re.compile(pattern)
        except re.error as error:
            raise KvcalcError(f"{what}: {shown(pattern)} is no pattern: {error}") from None
        found.append((pattern, buffer.upper().startswith("CPU")))
    return tuple(found)


_LONGEST_PATTERN = 400


_MOST_REPEATS = 3


_REPEATED = re.compile(r"[*+}]\)*[*+{]|\)[*+{]")


def _slow(pattern: str) -> bool:
    """A pattern comes from a command line: repeats of repeats can take for ever, and so can many in a row."""
    return bool(_REPEATED.search(pattern)) or sum(map(pattern.count, "*+{")) > _MOST_REPEATS


def mebibytes(text: str, what: str) -> int:
    """The first of the numbers, in MiB, as bytes."""
    return from_zero(text.partition(",")[0], what) << 20


def word_set(text: str, what: str) -> frozenset[str]:  # noqa: ARG001 - the signature of every parser of flags
    return frozenset(text.split(","))
