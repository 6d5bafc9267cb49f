"""What a checkpoint says about quantisation: the dtype of its weights, and of its KV cache where it declares one.

A quantised checkpoint says nothing about the cache. Only a scheme for the cache does: `kv_cache_scheme` of
compressed-tensors and ModelOpt (an object, or the bare text "FP8"), or `kv_cache_quant_algo` of hf_quant_config.json.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvcalc.errors import shown
from kvcalc.sources.config.language import Part
from kvcalc.sources.config.lookup import SCHEMES, Config

__all__ = ["Stored", "block", "group", "kept", "kv_dtype", "schemes", "weights"]

# Names of algorithms, ModelOpt's and those of others, in lower case.
_ALGORITHMS = {
    "fp8": "fp8", "fbgemm_fp8": "fp8", "fp8_pb_wo": "fp8", "fp8_per_channel_per_token": "fp8", "w8a8_fp8": "fp8",
    "nvfp4": "nvfp4", "w4a16_nvfp4": "nvfp4", "nvfp4_awq": "nvfp4", "mxfp4": "mxfp4", "w4a8_mxfp4_fp8": "mxfp4",
    "int8": "int8", "w8a8": "int8", "int8_wo": "int8", "w8a8_sq_per_channel": "int8", "int4": "int4",
    "int4_awq": "int4", "w4a16": "int4", "w4a16_awq": "int4", "w4a8_awq": "int4",
}  # fmt: skip

# Methods that state how many bits.
_BITS = ("awq", "gptq", "auto-round", "compressed-tensors", "bitsandbytes", "quark", "torchao", "hqq", "aqlm")
_STORING = ("config_groups", "quant_algo", "moe_quant_algo", "quant_method", "bits")

_KV_KEYS = ("kv_cache_scheme", "kv_cache_quant_algo")
_HINT = "take the key out of a copy of the file, and say --kv-dtype"
_KV_ALGORITHMS = {"fp8": "fp8", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "nvfp4": "nvfp4", "int8": "int8"}


class Stored(NamedTuple):
    """The dtype of the weights, where one name tells it, and what is to be said about them."""

    dtype: str | None = None
    note: str | None = None


def schemes(part: Part, file: str, beside: Mapping[str, object] | None = None) -> list[Config]:
    """Every quantisation scheme of a checkpoint: in the language part (Kimi K2.5), around it, in a file beside."""
    found = []
    for depth, data in enumerate((part.data, *part.around)):
        path = part.path[: len(part.path) - depth]
        for key in SCHEMES:
            value = data.get(key)
            if value is not None and not isinstance(value, dict):
                Config(data, file, path=path).expected("a mapping", key)
            if value:
                found.append(Config(value, file, path=(*path, key)))
    inner = (beside or {}).get("quantization")
    own = inner if isinstance(inner, dict) else beside
    return [*found, Config(own, "hf_quant_config.json")] if own else found


def weights(sources: Sequence[Config]) -> Stored:
    """How a checkpoint is stored, from the first scheme that says so; no other may say something else."""
    stored = [(source, _stored(source.data)) for source in sources]
    said = next((found for _, found in stored if found != Stored()), Stored())
    for source, found in stored:
        if found.dtype is not None and said.dtype not in (None, found.dtype):
            key = next(key for key in _STORING if source.data.get(key))
            source.refuse(f"expected weights in {said.dtype}, as the scheme before says, got {found.dtype}", key)
    return said


def _stored(source: Mapping[str, object]) -> Stored:
    if not any(source.get(key) for key in _STORING):
        return Stored()
    found = sorted(set(_formats(source)))
    if len(found) == 1:
        return Stored(found[0])
    if found:
        return Stored(note=f"The weights are quantised in more than one way ({' and '.join(found)}).")
    return Stored(note="The weights are quantised in a way that no single dtype names.")


def _formats(source: Mapping[str, object]) -> Iterator[str]:
    """The formats that a quantisation scheme names."""
    groups, method = source.get("config_groups"), _text(source.get("quant_method"))
    algorithm = _text(source.get("quant_algo")) or _text(source.get("moe_quant_algo"))
    if isinstance(groups, dict) and groups:
        for group in groups.values():
            part = group.get("weights") if isinstance(group, dict) else None
            if isinstance(part, dict) and (name := _scheme(part)):
                yield name
    elif algorithm in _ALGORITHMS:
        yield _ALGORITHMS[algorithm]
    elif method in _ALGORITHMS:
        yield _ALGORITHMS[method]
    elif method in _BITS:
        yield from _bits(source)
    elif not method:  # MLX names no method: bits for all layers, and others for some of them
        for part in (source, *(value for value in source.values() if isinstance(value, dict))):
            yield from _bits(part)


def _bits(source: Mapping[str, object]) -> Iterator[str]:
    bits = 4 if source.get("load_in_4bit") else 8 if source.get("load_in_8bit") else source.get("bits")
    if bits in (4, 8):
        yield f"int{bits}"


def _text(value: object) -> str:
    return value.lower() if isinstance(value, str) else ""


def _scheme(part: Mapping[str, object]) -> str | None:
    """The format of `{num_bits: 4, type: float, group_size: 16}`. Scaled groups of 16 are NVFP4, of 32 MXFP4."""
    bits, kind, group = part.get("num_bits"), part.get("type"), part.get("group_size")
    if kind == "float":
        return (
            "fp8"
            if bits == 8
            else {16: "nvfp4", 32: "mxfp4"}.get(group)
            if bits == 4 and isinstance(group, int)
            else None
        )
    return f"int{bits}" if bits in (4, 8) and kind == "int" else None


def block(sources: Sequence[Config]) -> int | None:
    """Rows and columns of the square blocks that share a scale; None where a scheme has none.

    `weight_block_size: [128, 128]` (fp8), or `strategy: block` with `block_structure` (compressed-tensors).
    """
    for source in sources:
        groups = source.data.get("config_groups")
        parts = groups.values() if isinstance(groups, dict) else ()
        inner = [part.get("weights") for part in parts if isinstance(part, dict)]
        stated = [part.get("block_structure") for part in inner if isinstance(part, dict)]
        for sides in (source.data.get("weight_block_size"), *stated):
            if isinstance(sides, list) and len(sides) == 2 and _is_side(sides[0]) and sides[0] == sides[1]:
                return int(sides[0])
    return None


def group(sources: Sequence[Config]) -> tuple[int, bool] | None:
    """How many integers share a scale, and whether they have a zero point; None where a scheme has no groups.

    `group_size` of compressed-tensors' `weights`, symmetric or not; that of AWQ and GPTQ, which always store zero
    points (`qzeros`).
    """
    for source in sources:
        groups, method = source.data.get("config_groups"), _text(source.data.get("quant_method"))
        for part in groups.values() if isinstance(groups, dict) else ():
            inner = part.get("weights") if isinstance(part, dict) else None
            if isinstance(inner, dict) and _is_side(inner.get("group_size")):
                return int(inner["group_size"]), inner.get("symmetric") is False
        size = source.data.get("group_size") or source.data.get("q_group_size")
        if method in ("awq", "gptq") and isinstance(size, int) and _is_side(size):
            return size, True
    return None


def _is_side(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 < value < 2**16


# Lists of what a scheme leaves as it was, and how the parts of a layer are called there.
_IGNORED = ("ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers")
_PARTS = {
    "attention": re.compile(r"(?:self_)?attn(?:\*|\.\*|\W*$|\W+(?:q_a_proj|q_b_proj|q_proj|qkv_proj))"),
    "state": re.compile(r"linear_attn(?:\*|\W*$|\W+in_proj)|mixer\W+in_proj"),
    "dense": re.compile(r"mlp\W+\(?(?:gate\||gate_proj|up_proj)"),
    "shared": re.compile(r"shared_experts?(?:\*|\.\*|\W*$|\W+(?:gate_proj|up_proj))"),
}


def kept(sources: Sequence[Config], layers: int) -> list[str]:
    """Parts that a quantised checkpoint leaves in 16 bits in at least half of its layers, beside tables and norms.

    A pattern stands for all layers. Single layers, as the first ones often are, are not told apart.
    """
    listed = [str(one) for source in sources for key in _IGNORED for one in _entries(source.data.get(key))]
    found = []
    for part, pattern in _PARTS.items():
        named = [entry for entry in listed if pattern.search(entry)]
        own = {match[1] for entry in named if (match := re.search(r"layers\.(\d+)\b", entry))}
        general = any(not re.search(r"layers\.\d", entry) for entry in named)
        if general or 2 * len(own) >= layers > 0:
            found.append(part)
    return found


def _entries(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def kv_dtype(sources: Sequence[Config]) -> str | None:
    """The dtype of the cache that the checkpoint declares, or None. A null declares nothing; two must agree."""
    declared = [
        (source, key, _declared(source, key, value))
        for source in sources
        for key in _KV_KEYS
        if (value := source.get(key)[1]) is not None
    ]
    for source in sources:
        _refuse_other_schemes(source)
    for source, key, name in declared[1:]:
        if name.partition("_e4m3")[0] != declared[0][2].partition("_e4m3")[0]:  # fp8 means e4m3
            source.refuse(f"expected a cache in {declared[0][2]}, as another scheme says, got {name}", key, hint=_HINT)
    return declared[0][2] if declared else None


def _refuse_other_schemes(source: Config) -> None:
    """Refuse what sounds like a quantised cache in a way that is not read: Quark's kv_cache_group, nested schemes."""
    inner = [source.data, *(value for value in source.data.values() if isinstance(value, Mapping))]
    for key, value in ((key, value) for data in inner for key, value in data.items() if key not in _KV_KEYS):
        if value and "kv" in str(key).lower().split("_") and str(value).lower() not in ("none", "auto"):
            source.refuse(
                f"expected a scheme of the KV cache that is understood, got {shown(value)}", str(key), hint=_HINT
            )


def _declared(source: Config, key: str, value: object) -> str:
    """The format of one scheme: one of ModelOpt's names, or a mapping of compressed-tensors.

    Only scales that are fixed beforehand, for a whole tensor or a head, add nothing to the cache; vLLM accepts no
    others (validate_kv_cache_scheme in its compressed_tensors). NVFP4 keeps one for 16 elements.
    """
    name = None
    group = value.get("group_size") if isinstance(value, dict) else None
    match value:
        case str():
            name = _KV_ALGORITHMS.get(value.lower())
        case {"num_bits": 8, "type": "float"} if group is None:
            name = "fp8"
        case {"num_bits": 8, "type": "int"} if group is None:
            name = "int8"
        case {"num_bits": 4, "type": "float"} if group in (None, 16):
            name = "nvfp4"
    if name is None:
        source.refuse(f"expected an 8-bit or NVFP4 scheme of the KV cache, got {shown(value)}", key, hint=_HINT)
    if isinstance(value, dict):
        _check_scales(Config(value, source.file, path=(*source.path, key)), name)
    return name


def _check_scales(scheme: Config, name: str) -> None:
    if scheme.data.get("dynamic") not in (None, False):
        scheme.expected("false: scales computed for each token are not sized", "dynamic", hint=_HINT)
    if scheme.data.get("symmetric") not in (None, True):
        scheme.expected("true: zero points are not sized", "symmetric", hint=_HINT)
    known = ("tensor_group",) if name == "nvfp4" else ("tensor", "attn_head")
    if scheme.data.get("strategy") not in (None, *known):
        scheme.expected(f"{' or '.join(known)}: other scales are not sized", "strategy", hint=_HINT)
