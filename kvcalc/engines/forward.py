"""The activations of a forward pass, by the widest layer of a model: for engines whose own run was not read."""

from kvcalc.core.model import Model
from kvcalc.core.overheads import Estimate
from kvcalc.core.units import ceil_div

__all__ = ["GIB", "gib", "widest_layer"]

GIB = 2**30


def gib(low: float, likely: float, high: float) -> Estimate:
    """A size that was seen, in GiB."""
    return Estimate(*(round(part * GIB) for part in (low, likely, high)))


def widest_layer(model: Model, tokens: int, tp: int) -> int | None:
    """Bytes while so many tokens pass: the residual stream twice, and the gate, up and product of a layer, or of all
    the experts that tokens use. None where the widths are not known.
    """
    dims = model.dimensions
    if dims is None:
        return None
    inner = (dims.top_k or 1) * dims.expert_intermediate if dims.experts and dims.expert_intermediate else 0
    inner = max(inner, dims.intermediate or 0) or 4 * dims.hidden
    rows = dims.hidden * (dims.top_k or 1) if dims.experts else 0
    return tokens * (2 * dims.hidden + 3 * ceil_div(inner, tp) + rows) * model.dtype.block_bytes
