"""What a missing key means: the class values of each model type, read from the data file when a config is read."""

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

__all__ = ["all_types", "class_defaults", "nulls"]


@cache
def _table() -> dict[str, dict[str, Any]]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "class_defaults.json")
    with open(path, encoding="utf-8") as file:
        table: dict[str, dict[str, Any]] = json.load(file)
    return table


def class_defaults(model_type: str) -> Mapping[str, object]:
    """The values that the class of `model_type` has for keys that a file leaves out; empty for a type without one."""
    found: Mapping[str, object] = _table()["defaults"].get(model_type, {})
    return found


def nulls(model_type: str) -> frozenset[str]:
    """The keys that may be null although the class has a value for them: the null then says something else.

    No key-value heads are as many as query heads in every class of transformers 4, of which files are still around.
    """
    return frozenset(key for key, types in _table()["nulls"].items() if model_type in types) | {"num_key_value_heads"}


def all_types() -> list[str]:
    """The model types with a class of their own."""
    return list(_table()["defaults"])
