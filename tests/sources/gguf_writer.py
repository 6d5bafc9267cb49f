"""GGUF and safetensors files as bytes, for tests: what the formats say, written with struct."""

import json
import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_NUMBERS = {"B": 0, "b": 1, "H": 2, "h": 3, "I": 4, "i": 5, "f": 6, "?": 7, "Q": 10, "q": 11, "d": 12}


class As(NamedTuple):
    """A number, or a list of numbers, stored as the struct type `code`."""

    code: str
    value: object


class Tensor(NamedTuple):
    """A tensor info. Without an offset it lies behind the tensor before."""

    name: str
    shape: Sequence[int]
    type: int
    bytes: int
    offset: int | None = None


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value: object) -> bytes:
    """A value with its type in front. Ints are u32, floats f32; a list takes the type of its first entry."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, list) and value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        value = As(_code(value[0]) if value else "I", value)
    elif not isinstance(value, As):
        value = As(_code(value), value)
    if isinstance(value.value, list):
        head = struct.pack("<IIQ", 9, _NUMBERS[value.code], len(value.value))
        return head + struct.pack(f"<{len(value.value)}{value.code}", *value.value)
    return struct.pack(f"<I{value.code}", _NUMBERS[value.code], value.value)


def _code(value: object) -> str:
    return "?" if isinstance(value, bool) else "f" if isinstance(value, float) else "I"


def gguf_bytes(
    metadata: Mapping[str, object], tensors: Sequence[Tensor] = (), *, version: int = 3, alignment: int = 32
) -> bytes:
    """A whole file, with zeros for the data of the tensors."""
    parts = [b"GGUF", struct.pack("<IQQ", version, len(tensors), len(metadata))]
    parts += [text(key) + value_bytes(value) for key, value in metadata.items()]
    end = 0
    for name, shape, kind, size, offset in tensors:
        begin = end if offset is None else offset
        parts.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, begin))
        end = -(-(begin + size) // alignment) * alignment
    head = b"".join(parts)
    return head + bytes(-len(head) % alignment + end) if tensors else head


def safetensors_bytes(header: Mapping[str, object] | bytes, data: int = 0) -> bytes:
    """A file with this header and `data` bytes of data."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + bytes(data)
