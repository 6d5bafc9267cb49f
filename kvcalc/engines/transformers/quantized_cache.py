"""QuantizedCache: groups of a few bits with scale and shift, and the newest tokens as they are."""

from typing import NamedTuple

from kvcalc.core.dtypes import DType, packed_bytes
from kvcalc.core.explain import cache_name
from kvcalc.core.formula import kept
from kvcalc.core.model import Attention, Latent, Model
from kvcalc.core.request import Request
from kvcalc.core.units import ceil_div
from kvcalc.engines.transformers.flags import GROUPED, Settings
from kvcalc.engines.transformers.versions import Version
from kvcalc.errors import KvcalcError

__all__ = ["Quantised", "chunks_waiting", "quantised_bytes", "quantised_of"]

# Formats that only a QuantizedCache has: its backend and bits.
_BACKENDS = {"fp8": ("fp8", 8), "fp8_e4m3": ("fp8", 8), "int8": ("hqq", 8), "int4": ("quanto", 4)}
_BITS = {
    "fp8": (8,),
    "quanto": (2, 4),
    "hqq": (1, 2, 3, 4, 8),
}  # cache_utils.py: QuantoQuantizedLayer, HQQQuantizedLayer


class Quantised(NamedTuple):
    """Groups of `group` elements along an axis of keys and of values.

    `rest` tokens are in none of them yet, and would be once there are `residual`.
    """

    backend: str
    bits: int
    axes: tuple[int, int]
    group: int
    residual: int
    rest: int

    def after(self, tokens: int, chunk: int) -> "Quantised":
        """The same once so many tokens of the prompt have come in chunks."""
        return self if self.backend == "fp8" else self._replace(rest=_rest(tokens, chunk, 0, self.residual))


def quantised_of(request: Request, settings: Settings, version: Version, decoded: int) -> Quantised | None:
    """The QuantizedCache that was asked for, by its own name or by a KV dtype; quanto with 4 bits is the default."""
    k, v = (None if auto else own.name for own, auto in zip(request.widths[:2], request.auto, strict=True))
    named = _BACKENDS.get(k or "")
    if named is None and settings.cache_implementation != "quantized":
        unheeded = [key for key in ("backend", *GROUPED) if getattr(settings, key) is not None]
        if unheeded:
            raise KvcalcError(f"{unheeded[0]}: changes nothing alone", "add cache_implementation=quantized")
        return None
    if k != v:
        raise KvcalcError("--k-dtype: keys and values have one format in a QuantizedCache", "use --kv-dtype")
    backend, bits = named or ("quanto", 8 if settings.backend == "fp8" else 4)
    backend, bits = settings.backend or backend, settings.nbits or bits
    if named is not None and (bits != named[1] or (backend == "fp8") != (named[0] == "fp8")):
        raise KvcalcError(f"--kv-dtype: {k} contradicts {backend} with {bits} bits", "leave one of them out")
    _check(request.model, version, settings, backend, bits)
    limit = 128 if settings.residual_length is None else settings.residual_length
    limit = limit if version.whole_chunks else max(limit, 2)  # before 5.20 the first token always waits
    rest = 0 if backend == "fp8" else _rest(request.context - decoded, settings.prefill_chunk_size, decoded, limit)
    axes = settings.axis_key or 0, settings.axis_value or 0
    return Quantised(backend, bits, axes, settings.q_group_size or 64, limit, rest)


def _check(model: Model, version: Version, settings: Settings, backend: str, bits: int) -> None:
    if settings.cache_implementation not in {None, "quantized"} or settings.no_config:
        raise KvcalcError("--kv-dtype: this format is that of a QuantizedCache", "leave cache_implementation out")
    for cache in model.distinct_caches:
        if not isinstance(cache, Latent | Attention) or kept(cache) is not None:
            held = f"the {cache_name(cache)} of {model.name}"
            raise KvcalcError(f"cache_implementation: a QuantizedCache cannot hold {held}", "a KV dtype of 16 bits")
    if backend == "fp8" and not version.fp8:
        raise KvcalcError(f"backend: transformers {version.name} has no fp8 cache", "--engine transformers@5.21 has")
    if bits not in _BITS[backend]:
        raise KvcalcError(f"nbits: {backend} has no {bits} bits", f"one of {', '.join(map(str, _BITS[backend]))}")
    if bits == 3 and 1 in {settings.axis_key, settings.axis_value}:  # hqq 0.2.8 cuts what it unpacks to nothing
        raise KvcalcError("nbits: hqq fails with 3 bits along axis 1", "axis_key=0 axis_value=0, or other nbits")
    if settings.prefill_chunk_size and not version.whole_chunks and backend != "fp8":
        raise KvcalcError(
            f"prefill_chunk_size: what a quantised cache keeps of chunks in transformers {version.name} is not known",
            "leave it out",
        )


def _rest(prompt: int, chunk: int | None, decoded: int, limit: int) -> int:
    """Tokens that wait to be quantised: all are, as soon as a forward would bring the waiting ones to `limit`.

    The first forward is quantised at once, and later ones wait (cache_utils.py: QuantizedLayer.update).
    """
    rest = 0
    if chunk and chunk < prompt:
        whole, last = divmod(prompt - chunk, chunk)
        rest = whole % ceil_div(limit, chunk) * chunk if limit > chunk else 0
        rest = rest + last if rest + last < limit else 0
    if rest + decoded < limit:
        return rest + decoded
    return (decoded - (limit - rest)) % limit if limit else 0


def chunks_waiting(how: Quantised, chunk: int) -> int:
    """Chunks after which as many tokens wait again, see `_rest`."""
    return max(ceil_div(how.residual, chunk), 1)


def quantised_bytes(how: Quantised, dtype: DType, axis: int, width: int, tokens: int, sequences: int) -> int:
    """Bytes of one layer's keys or values: packed groups, their scales and shifts, and the tokens that wait."""
    if how.backend == "fp8":
        return sequences * width * tokens + 4  # one fp32 scale
    if width % how.group:
        raise KvcalcError(
            f"q_group_size: {how.group} does not divide the {width:,} elements of one token",
            "a q_group_size that does, or backend=fp8",
        )
    elements = sequences * width * (tokens - how.rest)
    groups = elements // how.group
    # optimum-quanto 0.2.7, tensor/packed.py: rows of a group. hqq 0.2.8, core/quantize.py and bitpack.py: rows along
    # the axis, and ten values of three bits in 32.
    rows = groups if how.backend == "quanto" or axis == 1 else how.group
    each, size = (10, 4) if how.bits == 3 else (8 // how.bits, 1)
    packed = ceil_div(rows, each) * (elements // rows) * size if elements else 0
    waiting = sequences * width * how.rest
    return packed + 2 * packed_bytes(dtype, groups) + packed_bytes(dtype, waiting)
