"""How the words behind vLLM's flags are read."""

import re
from collections.abc import Mapping

from kvcalc.core.units import parse_integer, parse_size
from kvcalc.engines.overrides import known, parse_object
from kvcalc.engines.vllm.formats import PACKED
from kvcalc.errors import KvcalcError, shown

__all__ = [
    "AUTO",
    "attention_config",
    "cache_dtype",
    "cache_layout",
    "compilation_config",
    "counted",
    "gibibytes",
    "latents",
    "layer_names",
    "length",
    "limits",
    "lora_rank",
    "offloading_backend",
    "partition",
    "size",
    "speculative_config",
    "transfer_config",
]


AUTO = -1


_SUFFIXES = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


_SIZE = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?([kKmMgGtT]?)")


def size(text: str, what: str) -> int:
    """A number as `human_readable_int` reads it: `4k` is 4,000 and `4K` 4,096; decimals go with the small letters."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or (match[2] and not match[3].islower()):
        raise KvcalcError(f"{what}: expected a number such as 4096, 4k (4,000) or 4K (4,096), got {shown(text)}")
    decimals = match[2] or ""
    number: int = int(match[1] + decimals) * _SUFFIXES.get(match[3], 1) // 10 ** len(decimals)
    return number


def length(text: str, what: str) -> int:
    """`--max-model-len`: a size, or the longest that fits."""
    return AUTO if text.strip().lower() in ("auto", "-1") else size(text, what)


_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # MaxLoRARanks of config/lora.py, 0.27.1


def lora_rank(text: str, what: str) -> int:
    """`--max-lora-rank`: one of those that the engine has room for."""
    rank = parse_integer(text, what)
    if rank not in _RANKS:
        more = next((each for each in _RANKS if each > rank), _RANKS[-1])
        raise KvcalcError(
            f"{what}: expected one of {', '.join(map(str, _RANKS))}, got {rank}", f"{more}, as vLLM has it"
        )
    return rank


_SPECULATIVE = {"method": "method", "num_speculative_tokens": "speculative", "model": "draft_model",
                "draft_tensor_parallel_size": "draft_tp"}  # fmt: skip


def speculative_config(text: str, what: str) -> dict[str, object]:
    """What `--speculative-config` says of the cache: the method, the number of tokens and the draft model."""
    found = parse_object(text, what)
    values = {key: found[name] for name, key in _SPECULATIVE.items() if found.get(name) is not None}
    for name, kind in (
        ("num_speculative_tokens", int),
        ("draft_tensor_parallel_size", int),
        ("method", str),
        ("model", str),
    ):
        value = found.get(name)
        if value is not None and (not isinstance(value, kind) or isinstance(value, bool) or value in (0, "")):
            raise KvcalcError(f"{what}: {name}: expected a {'number' if kind is int else 'name'}, got {shown(value)}")
    return values


# CacheDType of config/cache.py, and our names of the plain ones.
_PLAIN = ("auto", "float16", "bfloat16", "fp16", "bf16", "fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4")


def cache_dtype(text: str, what: str) -> str:
    name = text.strip().lower()
    if name not in _PLAIN and name not in PACKED and known(name) not in _PLAIN:
        raise KvcalcError(
            f"{what}: expected a format of vllm's that is known, got {shown(text)}",
            f"one of {', '.join((*_PLAIN, *PACKED))}",
        )
    return name


def attention_config(text: str, what: str) -> Mapping[str, object]:
    """`--attention-config`. HiSparse keeps a part of the cache on the host; index keys are fp8 by default."""
    found = parse_object(text, what)
    if found.get("hisparse_config") is not None:
        raise KvcalcError(f"{what}: hisparse_config: its pools in the host's memory have no rule here", "leave it out")
    if found.get("indexer_kv_dtype", "auto") not in ("auto", "fp8"):
        raise KvcalcError(f"{what}: indexer_kv_dtype: its index keys have no rule here", "leave it out")
    return found


def cache_layout(text: str, what: str) -> str:
    """Layouts with the block outermost pack pages of several sizes (`v1/core/kv_cache_planning.py`)."""
    if text.upper().startswith("B"):
        raise KvcalcError(f"{what}: a layout with the block outermost groups layers by another rule", "leave it out")
    return text


def latents(text: str, what: str) -> bool:
    """Without kernels for latents every head is cached, which no preset of such a model describes."""
    if text.strip() not in ("", "0"):
        raise KvcalcError(f"{what}: the heads of a latent model in full have no rule here", "leave it out")
    return False


def transfer_config(text: str, what: str) -> bool:
    """Whether the connectors of `--kv-transfer-config` keep the hybrid manager on (`SupportsHMA`)."""
    found = parse_object(text, what)
    extra = found.get("kv_connector_extra_config")
    inner = extra.get("connectors") if isinstance(extra, dict) else None
    names = [found.get("kv_connector")]
    if names == ["MultiConnector"] and isinstance(inner, list):
        names = [each.get("kv_connector") if isinstance(each, dict) else None for each in inner]
    return all(name in _HYBRID_CONNECTORS for name in names)


# Classes with SupportsHMA in distributed/kv_transfer/kv_connector/v1 of 0.33.0.
_HYBRID_CONNECTORS = (
    "ExampleHiddenStatesConnector", "MooncakeConnector", "MooncakeStoreConnector", "MoRIIOConnector",
    "SimpleCPUOffloadConnector", "HiSparseConnector", "OffloadingConnector", "DecodeBenchConnector", "NixlConnector",
    "NixlPullConnector", "NixlPushConnector",
)  # fmt: skip


def compilation_config(text: str, what: str) -> bool:
    """Whether graphs are captured, as `--compilation-config` has it: `level` or `mode` 0 compiles nothing."""
    found = parse_object(text, what)
    modes = (str(found.get(name, "")).upper() for name in ("cudagraph_mode", "level", "mode"))
    return not any(mode in ("NONE", "0") for mode in modes)


def limits(text: str, what: str) -> bool:
    """Whether a prompt may hold images or sound: none where all limits are 0 (`--limit-mm-per-prompt`)."""
    old = dict(part.split("=", 1) for part in text.split(",") if "=" in part and not text.lstrip().startswith("{"))
    found = {name: int(count) if count.strip().isdigit() else 1 for name, count in old.items()}
    limits = (found or parse_object(text, what)).values()
    return any((each.get("count", 1) if isinstance(each, dict) else each) != 0 for each in limits) or not limits


def counted(text: str, what: str) -> bool:  # noqa: ARG001 - the signature of every parser of flags
    """A variable that is 0 or 1."""
    return text.strip() not in ("", "0")


def layer_names(text: str, what: str) -> tuple[str, ...]:
    """Numbers of layers, or `sliding_window`."""
    layers = tuple(text.split())
    for layer in layers:
        if layer != "sliding_window" and not re.fullmatch("[0-9]{1,4}", layer):
            raise KvcalcError(f"{what}: expected numbers of layers or sliding_window, got {shown(layer)}")
    return layers


def gibibytes(text: str, what: str) -> int:
    """Bytes of a number of GiB, which may have decimals: what `--swap-space` gave each GPU until V1."""
    return parse_size(f"{text.strip()}GiB", what, zero=True)


def offloading_backend(text: str, what: str) -> str:
    """KVOffloadingBackend of config/cache.py."""
    name = text.strip().lower()
    if name not in ("native", "lmcache"):
        raise KvcalcError(f"{what}: expected native or lmcache, got {shown(text)}")
    return name


def partition(text: str, what: str) -> tuple[int, ...]:
    """Layers of each pipeline stage, with commas between."""
    return tuple(parse_integer(number, what) for number in text.split(","))
