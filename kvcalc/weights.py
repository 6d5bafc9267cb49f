"""What the weights take, as far as fitting a cache beside them needs it."""

from typing import Literal

from kvcalc import dtypes
from kvcalc.dtypes import DType
from kvcalc.errors import KvcalcError
from kvcalc.model import Model

__all__ = ["Weights", "weights_bytes"]

# What the user says of the weights: the preset's word, none to count, a size of the whole model, or a format.
Weights = Literal["auto", "none"] | int | DType


def weights_bytes(model: Model, weights: Weights) -> int:
    """Bytes of the whole model: measured where the preset knows, else parameters x the checkpoint's storage dtype."""
    if weights == "none":
        return 0
    if isinstance(weights, int):
        return weights
    if weights == "auto":
        if model.weights_bytes is not None:
            return model.weights_bytes
        weights = model.weights_dtype or model.dtype
    if model.parameters is None:
        raise KvcalcError(
            f"--weights: the number of parameters of {model.name} is not known",
            "give the size of its weights, such as --weights 141GB, or --weights none",
        )
    assert isinstance(weights, DType)
    return dtypes.packed_bytes(weights, model.parameters)
