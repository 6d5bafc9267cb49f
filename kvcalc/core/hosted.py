"""Weights of layers that engines keep in the host's memory, which GPUs read in each step (`--cpu-offload-gb`).

Whole tensors of the layers go one after another until so many bytes of a GPU's weights are away, so the last may be in
part above the limit; tables, the output head and towers stay. vLLM 0.33, model_executor/offloader/uva.py
(`_maybe_offload_to_cpu`) and `make_layers` of models/utils.py; SGLang, srt/utils/offloader.py (`OffloaderV1`).
"""

from typing import NamedTuple

from kvcalc.core.dtypes import DType
from kvcalc.core.model import Model
from kvcalc.core.parts import Part, Role, composition
from kvcalc.core.sharding import Layout
from kvcalc.core.stored import Division, Stored
from kvcalc.core.weight_values import WeightRange
from kvcalc.core.weights import Weights, rank_weights

__all__ = ["Hosted", "divisible", "hosted"]

_STAY: tuple[Role, ...] = ("embedding", "head", "encoder", "rest")
_JOINED: tuple[Role, ...] = ("query", "key", "value")  # one tensor in both engines: qkv_proj


class Hosted(NamedTuple):
    """Of one GPU's weights, what stays on it and what the host holds."""

    stay: WeightRange
    away: WeightRange


def divisible(model: Model) -> bool:
    """It is known which part of the weights the layers are."""
    parts = composition(model)
    return parts is not None and not parts.even


def hosted(
    model: Model,
    weights: Weights,
    rank: WeightRange,
    asked: int,
    layout: Layout,
    *,
    divided: tuple[Role, ...] = (),
    loaded: DType | None = None,
) -> Hosted:
    """The weights `rank` of a GPU with `asked` bytes of them kept by the host. Raises KvcalcError as `rank_weights`."""
    roles = rank_weights(model, weights, layout, divided=divided, loaded=loaded).roles
    whole, movable = sum(roles.values()), sum(size for role, size in roles.items() if role not in _STAY)
    most = rank.likely * movable // whole if whole else 0
    likely = min(asked, most)
    high = min(asked + _largest(model, weights, layout, divided, loaded), most) if likely else 0
    stay = WeightRange(max(rank.low - high, 0), rank.likely - likely, rank.high - likely)
    return Hosted(stay, WeightRange(likely, likely, high))


def _largest(model: Model, weights: Weights, layout: Layout, divided: tuple[Role, ...], loaded: DType | None) -> int:
    """Bytes of the largest tensor of a layer on one rank, as it is stored."""
    stated = None if isinstance(weights, int | str) else weights
    stored = Stored(model, stated or loaded or model.weights_dtype or model.dtype, kept=stated is None and not loaded)
    split = Division(model, layout, divided)
    tensors: set[tuple[Part, ...]] = set()
    for layer in set(stored.parts.layers):
        tensors.add(tuple(part for part in layer if part.role in _JOINED))
        tensors.update((part,) for part in layer)
    return max((stored.layer(tensor, split).high for tensor in tensors), default=0)
