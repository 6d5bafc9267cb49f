"""Layers of caches become the part of a preset that describes them: heads, layers, draft and caches.

What most layers share stands at the top, what differs under `caches`, and a number that differs from layer to layer is
a list there (presets/README.md).
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kvcalc.preset import notation
from kvcalc.sources.gguf.blocks import MOST_BLOCKS, Cache, Layer, Value

__all__ = ["preset_part"]

# Which fields a kind takes from the top of a preset where it has none of its own.
_ATTENTION = ("heads", "kv_heads", "k_dim", "v_dim")
_INHERITED = {
    **dict.fromkeys(("full", "sliding", "chunked", "cross"), _ATTENTION),
    "latent": ("heads", "k_dim", "v_dim"),
    "compressed": ("heads",),
}

_Fields = dict[str, Value | list[Value]]


def preset_part(layers: Sequence[Layer], draft: Sequence[Layer]) -> dict[str, object]:
    """The keys of a preset from `heads` on, for the model's own layers and its draft layers."""
    caches = _fields(layers)
    draft = [tuple(_named(cache, caches) for cache in layer) for layer in draft]
    kinds = {cache.name: cache.kind for layer in (*layers, *draft) for cache in layer}
    top = _top(caches, kinds, Counter(cache.name for layer in layers for cache in layer))
    part = _with_head_dim(top)
    part["layers"] = _folded(layers)
    if draft:
        part["draft"] = _folded(draft)
    written = {name: _written(name, kinds[name], fields, top) for name, fields in caches.items()}
    if any(written.values()):
        part["caches"] = {name: fields for name, fields in written.items() if fields}
    return part


def _fields(layers: Iterable[Layer]) -> dict[str, _Fields]:
    """The fields of each cache by name: a value where all layers agree, else one for each of them, in order."""
    found: dict[str, list[dict[str, Value]]] = {}
    for cache in (cache for layer in layers for cache in layer if cache.kind):
        found.setdefault(cache.name, []).append(cache.fields)
    return {name: {key: _one([fields[key] for fields in each]) for key in each[0]} for name, each in found.items()}


def _one(values: list[Value]) -> Value | list[Value]:
    return values[0] if len(set(values)) == 1 else values


def _named(cache: Cache, caches: dict[str, _Fields]) -> Cache:
    """A cache of a draft layer, added to `caches`: under a name of its own where the name stands for other numbers."""
    names = (cache.name, f"draft-{cache.name}", *(f"draft-{cache.name}-{number}" for number in range(2, MOST_BLOCKS)))
    name = next(name for name in names if caches.get(name, cache.fields) == cache.fields)
    caches.setdefault(name, {**cache.fields})
    return cache._replace(name=name)


def _top(caches: dict[str, _Fields], kinds: dict[str, str], count: Counter[str]) -> dict[str, Value]:
    """What most layers that take a number from the top have in common."""
    votes: dict[str, Counter[Value]] = {key: Counter() for key in _ATTENTION}
    for name, fields in caches.items():
        for key in _INHERITED.get(kinds[name], ()):
            value = fields.get(key)
            if isinstance(value, int) and not (key == "kv_heads" and not value):  # pruned layers are the exception
                votes[key][value] += count[name]
    return {key: found.most_common(1)[0][0] for key, found in votes.items() if found}


def _written(name: str, kind: str, fields: _Fields, top: dict[str, Value]) -> dict[str, object]:
    """The entry of one cache: what its name and the top of the preset do not say already."""
    inherited = _INHERITED.get(kind, ())
    own = {key: value for key, value in fields.items() if not (key in inherited and value == top.get(key))}
    written: dict[str, object] = _with_head_dim(own) if inherited else {**own}
    return written if name == kind else {"kind": kind, **written}


def _with_head_dim(fields: Mapping[str, Value | list[Value]]) -> dict[str, object]:
    """`fields` with one head_dim in place of two equal widths."""
    if not isinstance(fields.get("k_dim"), int) or fields.get("k_dim") != fields.get("v_dim"):
        return dict(fields)
    return {"head_dim" if key == "k_dim" else key: value for key, value in fields.items() if key != "v_dim"}


def _folded(layers: Sequence[Layer]) -> str:
    return notation.fold([tuple(cache.name for cache in layer) for layer in layers])
