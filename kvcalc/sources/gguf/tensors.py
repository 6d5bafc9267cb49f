"""Whether the tensors of a GGUF file are those of the blocks that its metadata describes.

Names: gguf-py/gguf/constants.py; shapes: create_tensor_qkv in src/llama-model.cpp (llama.cpp 0c1e57098), which refuses
to load a file whose tensors have others.
"""

import re
from collections.abc import Sequence

from kvcalc.preset.notation import SHARED
from kvcalc.sources import projections
from kvcalc.sources.gguf.blocks import Layer
from kvcalc.sources.gguf.header import Tensor
from kvcalc.sources.gguf.keys import BY_HAND
from kvcalc.sources.projections import Described, Heads, Words

__all__ = ["check_tensors"]

_BLOCK = re.compile(r"blk\.([0-9]{1,4})\.(.+)", re.DOTALL)
_PLAIN = ("full", "sliding", "chunked")
_WITHOUT_KEYS = (
    "mamba1",
    "mamba2",
    "shortconv",
)  # states whose blocks have no projection of keys; others call theirs so

# HRM-Text runs few blocks many times, and block_count counts the runs (hrm-text.cpp).
_REUSED = frozenset({"hrm_text"})


def check_tensors(
    file: str, arch: str, layers: Sequence[Layer], drafts: int, tensors: Sequence[Tensor], *, whole: bool
) -> None:
    """Raise KvcalcError for tensors that contradict the metadata; not `whole`: the tensors of a part may be missing."""
    way_out = f"the metadata is not that of the tensors: convert the model again, or {BY_HAND}"
    words = Words(
        "attn_k.weight", "attn_v.weight", "blk.", f"{arch}.block_count", f"{arch}.attention.head_count_kv",
        "key_length", way_out,
    )  # fmt: skip
    if not any(tensor.name.startswith(words.layer) for tensor in tensors):
        return
    described = [_described(layer, whole=whole and arch not in _REUSED) for layer in layers]
    rows = ((tensor, tensor.shape[1] if len(tensor.shape) == 2 else None) for tensor in tensors)
    found = (projections.placed(_BLOCK, tensor.name, count) for tensor, count in rows)
    projections.check_projections(file, described, drafts, [tensor for tensor in found if tensor], words)


def _described(layer: Layer, *, whole: bool) -> Described:
    """Attention beside a state or an index key is as plain as attention alone."""
    kinds = [cache.kind for cache in layer]
    attention = [cache.fields for cache in layer if cache.kind in _PLAIN]
    heads = None
    if len(attention) == 1 and all(type(attention[0][key]) is int for key in ("kv_heads", "k_dim", "v_dim")):
        heads = Heads(*(int(attention[0][key]) for key in ("kv_heads", "k_dim", "v_dim")))
    elif len(kinds) == 1 and kinds[0] in _WITHOUT_KEYS:
        heads = Heads(0, 1, 1)
    noop = heads is not None and not heads.number and bool(attention)
    keeps = bool(layer) and not noop and not layer[0].name.startswith(SHARED)
    return Described(heads, keeps and whole)
