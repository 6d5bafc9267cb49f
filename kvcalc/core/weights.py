"""What the weights take, as far as fitting a cache beside them needs it."""

from typing import Literal, NamedTuple

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.model import Model
from kvcalc.core.units import format_count, parse_size
from kvcalc.errors import KvcalcError

__all__ = ["WeightBytes", "Weights", "loaded_as_fp8", "parse", "weigh"]

# What the user says of the weights: the preset's word, none to count, a size of the whole model, or a format.
Weights = Literal["auto", "none"] | int | DType


class WeightBytes(NamedTuple):
    """The weights of a whole model.

    Attributes:
        bytes: What all GPUs of a replica hold together.
        source: How they are known, in words.
        rough: Parts stored in another format are not counted.
    """

    bytes: int
    source: str
    rough: bool = False


def parse(text: str, what: str) -> Weights:
    """`auto`, `none`, a size with its unit or the name of a format. `what` names the option in errors. Raises
    KvcalcError.
    """
    match text.strip().lower():
        case "auto":
            return "auto"
        case "none":
            return "none"
        case word if word[:1].isdigit():
            return parse_size(text, what, zero=True)
        case _:
            return dtypes.dtype_called(text, dtypes.WEIGHTS, what)


def weigh(model: Model, weights: Weights, loaded: DType | None = None) -> WeightBytes:
    """The weights of the whole model: measured where the preset knows, else parameters x the storage dtype.

    `loaded`: what the published weights are packed into as they are loaded. Raises KvcalcError where the number of
    parameters is not known.
    """
    if weights == "none":
        return WeightBytes(0, "--weights none: not counted")
    if isinstance(weights, int):
        return WeightBytes(weights, "as given")
    rough = False
    if weights == "auto":
        if model.weights_bytes is not None and loaded is None:
            return WeightBytes(model.weights_bytes, "measured from the checkpoint's tensors")
        weights = loaded or model.weights_dtype or model.dtype
        rough = weights != model.dtype and not (loaded and loaded.name in dtypes.COMPUTE)
    if model.parameters is None:
        reason, fetch = (f": {model.unweighed}", "fetch what is missing, or ") if model.unweighed else ("", "")
        raise KvcalcError(
            f"--weights: the number of parameters of {model.name} is not known{reason}",
            f"{fetch}give the size of its weights, such as --weights 141GB, or --weights none",
        )
    assert isinstance(weights, DType)
    source = f"{format_count(model.parameters)} parameters x {weights.bits} bits ({weights.name})"
    return WeightBytes(dtypes.packed_bytes(weights, model.parameters), source, rough)


def loaded_as_fp8(model: Model) -> DType | None:
    """What --quantization fp8 makes of a checkpoint's weights; nothing where it is packed already."""
    return dtypes.WEIGHTS["fp8"] if (model.weights_dtype or model.dtype).name in dtypes.COMPUTE else None
