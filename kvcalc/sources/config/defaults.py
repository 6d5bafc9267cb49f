"""What a missing key means: the class values of each model type, read from the data file when a config is read."""

import json
import os
from collections.abc import Mapping
from functools import cache

__all__ = ["all_types", "class_defaults"]


@cache
def _table() -> dict[str, dict[str, object]]:
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "class_defaults.json")
    with open(path, encoding="utf-8") as file:
        table: dict[str, dict[str, object]] = json.load(file)["defaults"]
    return table


def class_defaults(model_type: str) -> Mapping[str, object]:
    """The values that the class of `model_type` has for keys that a file leaves out; empty for a type without one."""
    return _table().get(model_type, {})


def all_types() -> list[str]:
    """The model types with a class of their own."""
    return list(_table())
