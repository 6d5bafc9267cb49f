"""Whether the tensors of a safetensors folder are those of the layers that its config.json describes."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kvcalc.core.kinds import encodes
from kvcalc.core.model import Attention, Layer, Shared
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources import projections
from kvcalc.sources.projections import Described, Heads, PlacedTensor, Words
from kvcalc.sources.safetensors import Tensor

__all__ = ["check_tensors"]

# The layers of the language model: as transformers names them by itself, and behind the parts for images and sound.
_LAYER = re.compile(
    r"(?:|model\.|language_model\.|model\.language_model\.|language_model\.model\.)layers\.([0-9]{1,4})\.(.+)",
    re.DOTALL,
)
# Formats that keep one element of a weight as one of the tensor: of others a row may be packed (bitsandbytes: U8).
_UNPACKED = frozenset({"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8"})
_WORDS = Words(
    "self_attn.k_proj.weight", "self_attn.v_proj.weight", "layers.", "num_hidden_layers", "num_key_value_heads",
    "head_dim", "the configuration is not that of the tensors: fetch both of one model again",
)  # fmt: skip


def check_tensors(
    file: str, config: Mapping[str, object], preset: Mapping[Any, object], tensors: Sequence[Tensor]
) -> None:
    """Raise KvcalcError for tensors that contradict `config`, the configuration in `file`, which became `preset`.

    Where num_hidden_layers is not the number of layers that the preset has (Longcat: two in one), or the tensors have
    the layers of more than one model, their numbers are not those of the preset, and nothing is compared.
    """
    model, _ = model_from_preset({**preset}, file)
    if model is None or not _counts(config, len(model.layers)):
        return
    found: dict[str, list[PlacedTensor]] = {}
    for tensor in tensors:
        rows = tensor.shape[0] if len(tensor.shape) == 2 and tensor.dtype in _UNPACKED else None
        one = projections.placed(_LAYER, tensor.name, rows)
        if one is not None:
            found.setdefault(tensor.name.partition("layers.")[0], []).append(one)
    if len(found) == 1:
        layers = [_described(layer) for layer in model.layers]
        projections.check_projections(file, layers, len(model.draft), next(iter(found.values())), _WORDS)


def _counts(config: Mapping[str, object], layers: int) -> bool:
    parts = (config, *(part for part in config.values() if isinstance(part, dict)))
    return layers in [part.get("num_hidden_layers") for part in parts]


def _described(layer: Layer) -> Described:
    """Attention beside a state or an index key is as plain as attention alone."""
    attention = [cache for cache in layer if isinstance(cache, Attention)]
    heads = None
    if len(attention) == 1 and not encodes(attention[0]):
        heads = Heads(attention[0].kv_heads, attention[0].k_dim, attention[0].v_dim)
    keeps = any(
        not isinstance(cache, Shared) and not (isinstance(cache, Attention) and not cache.kv_heads) for cache in layer
    )
    return Described(heads, keeps)
