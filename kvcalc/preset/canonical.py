"""The one way in which a preset is written: keys in order, layers folded, one cache a line."""

from collections.abc import Mapping

import yaml

from kvcalc.preset import notation
from kvcalc.preset.mapping import KEYS

__all__ = ["canonical_text"]


def canonical_text(data: Mapping[object, object]) -> str:
    """The canonical YAML text of a preset's mapping, which must have loaded without a problem."""
    ordered = {key: data[key] for key in KEYS if key in data}
    for key in ("layers", "draft"):
        value = ordered.get(key)
        if isinstance(value, str):
            ordered[key] = notation.fold(notation.expand(value))
    # "None" writes the innermost mappings and lists in one line; without any, the preset itself would be the innermost.
    nested = any(isinstance(value, dict | list) for value in ordered.values())
    style = None if nested else False
    return str(yaml.safe_dump(ordered, sort_keys=False, default_flow_style=style, allow_unicode=True, width=110))
