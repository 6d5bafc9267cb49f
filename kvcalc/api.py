"""The Python interface: load a model, size its cache, fit it into memory. Import these from `kvcalc` itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from kvcalc.core.fitting import Budget, Fit
from kvcalc.core.fitting import fit as fit_budget
from kvcalc.core.model import Model
from kvcalc.core.overheads import as_stated
from kvcalc.core.request import ask
from kvcalc.core.sizing import Size, measure
from kvcalc.core.units import Fraction, parse_size
from kvcalc.core.weights import parse as parse_weights
from kvcalc.errors import KvcalcError, shown
from kvcalc.library import loader

__all__ = ["fit", "load", "models", "size"]


def load(source: str) -> Model:
    """The model that `source` names: a preset's name in any spelling, a path, or a model of the hub.

    Raises KvcalcError, or its subclass DocumentError for a faulty file.
    """
    if not isinstance(source, str):
        raise KvcalcError(f"source: expected the name of a model, got {shown(source)}")
    return loader.load(source)


def models() -> list[str]:
    """The names of all presets that can be loaded."""
    return [entry.name for entry in loader.entries()]


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
    if not isinstance(model, Model):
        raise KvcalcError(f"model: expected what load() returns, got {shown(model)}")
    with _in_python():
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
    with _in_python():
        return fit_budget(
            size,
            Budget(
                vram=None if vram is None else _bytes(vram, "vram"),
                utilization=Fraction.parse(str(utilization), "utilization"),
                weights=parse_weights(weights, "weights") if isinstance(weights, str) else _bytes(weights, "weights"),
                overheads=(as_stated("overhead", _bytes(overhead, "overhead")),),
            ),
        )


@contextmanager
def _in_python() -> Iterator[None]:
    """Errors that name an option of the command line name the argument instead."""
    try:
        yield
    except KvcalcError as error:
        option, colon, rest = error.message.partition(":")
        if not option.startswith("--"):
            raise
        raise KvcalcError(option[2:].replace("-", "_") + colon + rest, error.hint) from None


def _bytes(value: int | str, what: str) -> int:
    if isinstance(value, str):
        return parse_size(value, what, zero=True)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise KvcalcError(f"{what}: expected bytes as an int, or text with a unit, got {shown(value)}")
    return value
