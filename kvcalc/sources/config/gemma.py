"""Gemma 3n and 4: layers that reuse the cache of an earlier one, and full layers with heads of their own."""

import re
from collections.abc import Sequence

from kvcalc.errors import shown
from kvcalc.preset.notation import SHARED, Names
from kvcalc.sources.config import numbers as n
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.numbers import Fields

__all__ = ["full_heads", "sharing"]

_PER_LAYER = "per_layer_config"


def full_heads(config: Config, where: Sequence[int]) -> Fields:
    """Gemma 4: full layers have heads of their own size, and their own number of them only where K and V are one.

    `attention_k_eq_v` shares the projection alone: keys are rotated and values are not, and both are kept.
    """
    config.ignore("attention_k_eq_v")
    if config.get(_PER_LAYER)[1]:
        return _saved_heads(config, where)
    count = config.integer("num_global_key_value_heads")
    one = config.flag("attention_k_eq_v", default=True)  # GemmaUnified models without the key are not gated by it
    fields: Fields = (
        {"kv_heads": n.grouped(config, n.query_heads(config), "num_global_key_value_heads")} if one and count else {}
    )
    return {**fields, "head_dim": config.integer("global_head_dim") or config.assume("global_head_dim", 512)}


def _saved_heads(config: Config, where: Sequence[int]) -> Fields:
    """The heads of the full layers as transformers saves them: `per_layer_config`, {"05": {"head_dim": 512}, ...}.

    It beats the keys that the published files have for them (Gemma4TextConfig), which must not say otherwise.
    """
    value = config.data[_PER_LAYER]
    if not isinstance(value, dict):
        config.expected("a mapping", _PER_LAYER)
    entries = {int(at): entry for at, entry in value.items() if re.fullmatch("[0-9]{1,4}", at)}
    own = config.layers() - (config.integer("num_kv_shared_layers", low=0) or 0)
    first = next(iter(entries.values()), None)
    if (
        len(entries) != len(value)
        or not set(where) <= set(entries) <= {*where, *range(own, config.layers())}
        or not isinstance(first, dict)
        or any(entry != first for entry in entries.values())
        or not set(first) <= {"head_dim", "num_key_value_heads"}
    ):
        config.refuse("expected head_dim and num_key_value_heads, the same for each full layer", _PER_LAYER)
    layer = Config(first, config.file, path=(*config.path, _PER_LAYER, next(iter(value))))
    fields: Fields = {"head_dim": layer.integer("head_dim") or config.number("head_dim")}
    if (cached := layer.integer("num_key_value_heads")) is not None:
        fields = {"kv_heads": n.grouped(layer, n.query_heads(config), "num_key_value_heads"), **fields}
    for name, own_name, stated in (
        ("head_dim", "global_head_dim", fields["head_dim"]),
        ("num_key_value_heads", "num_global_key_value_heads", cached),
    ):
        if config.integer(own_name) not in (None, stated):
            config.expected(f"{shown(stated)}, the {name} in {_PER_LAYER}", own_name)
    return fields


def sharing(config: Config, layers: list[Names]) -> list[Names]:
    """Gemma 3n and 4: the last `num_kv_shared_layers` reuse the last earlier cache of their own kind."""
    shared = config.integer("num_kv_shared_layers", low=0) or 0
    own, rest = layers[: max(len(layers) - shared, 0)], layers[max(len(layers) - shared, 0) :]
    if not set(rest) <= set(own):
        config.expected("fewer layers: none is left that keeps what these reuse", "num_kv_shared_layers")
    return own + [tuple(SHARED + name for name in names) for names in rest]
