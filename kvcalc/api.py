"""The Python interface: load a model, size its cache, fit it into memory. Import these from `kvcalc` itself."""

from typing import Literal

from kvcalc import library
from kvcalc.dtypes import WEIGHTS, find
from kvcalc.errors import KvcalcError
from kvcalc.fitting import Budget, Fit, Share
from kvcalc.fitting import fit as fit_budget
from kvcalc.model import Model
from kvcalc.request import ask
from kvcalc.sizing import Size, measure
from kvcalc.units import parse_size
from kvcalc.weights import Weights

__all__ = ["fit", "load", "models", "size"]


def load(source: str) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path to one, or a hub id that a preset has.

    Raises KvcalcError, or its subclass DocumentError for a faulty file.
    """
    return library.load(source)


def models() -> list[str]:
    """The names of all presets that can be loaded."""
    return [entry.name for entry in library.entries()]


def size(
    model: Model,
    *,
    context: int | Literal["max"] | None = None,
    batch: int = 1,
    kv_dtype: str = "auto",
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    kv_heads: int | Literal["all"] | None = None,
    encoder_tokens: int | None = None,
    tp: int = 1,
    pp: int = 1,
    dp: int = 1,
    dcp: int = 1,
) -> Size:
    """The exact size of the cache of `batch` sequences of `context` tokens, in bytes.

    The defaults are those of the command line: 4,096 tokens or the model's limit if smaller, and the dtype the model
    computes in. Raises KvcalcError where the arguments contradict the model.
    """
    return measure(
        ask(
            model,
            context=context,
            batch=batch,
            kv_dtype=kv_dtype,
            k_dtype=k_dtype,
            v_dtype=v_dtype,
            kv_heads=kv_heads,
            encoder_tokens=encoder_tokens,
            tp=tp,
            pp=pp,
            dp=dp,
            dcp=dcp,
        )
    )


def fit(
    size: Size,
    *,
    vram: int | str | None = None,
    kv_memory: int | str | None = None,
    utilization: str = "1",
    weights: int | str = "auto",
    overhead: int | str = 0,
) -> Fit:
    """What fits into the memory of each GPU: either all of its `vram`, or `kv_memory` for the cache alone.

    Sizes are bytes, or text with a unit ("80GB"); `utilization` is text ("0.9"), so that it is exact; `weights` is
    "auto", "none", a dtype or a size. Raises KvcalcError.
    """
    if kv_memory is not None:
        if vram is not None:
            raise KvcalcError("kv_memory: contradicts vram, since it is the memory of the cache alone")
        return fit_budget(size, Budget(kv_memory=_bytes(kv_memory, "kv_memory")))
    return fit_budget(
        size,
        Budget(
            vram=None if vram is None else _bytes(vram, "vram"),
            utilization=Share.parse(utilization, "utilization"),
            weights=_weights(weights),
            overhead=_bytes(overhead, "overhead"),
        ),
    )


def _bytes(value: int | str, what: str) -> int:
    return value if isinstance(value, int) else parse_size(value, what, zero=True)


def _weights(value: int | str) -> Weights:
    if isinstance(value, int):
        return value
    if value == "auto":
        return "auto"
    if value == "none":
        return "none"
    return parse_size(value, "weights") if value[:1].isdigit() else find(value, WEIGHTS, "weights")
