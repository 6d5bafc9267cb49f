"""A preset's mapping becomes a Model. What each key means is told to people in presets/README.md.

Every fault is collected before one DocumentError is raised, so that `models --check` can show all of them.
"""

from collections.abc import Mapping
from typing import Any, get_args

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType
from kvcalc.core.images import IMAGE_RULES
from kvcalc.core.model import Kept, Model, VisionTower
from kvcalc.core.units import MOST_BYTES, parse_count
from kvcalc.errors import KvcalcError, Problem
from kvcalc.preset import notation
from kvcalc.preset.caches import CacheTable
from kvcalc.preset.dimensions import read_dimensions
from kvcalc.preset.fields import Reader
from kvcalc.preset.notation import Names

__all__ = ["CONFIDENCE", "KEPT", "KEYS", "model_from_preset", "read_layers"]

KEYS = (
    "name", "id", "family", "base", "model_type", "gguf", "source", "confidence", "note",
    "dtype", "weights_dtype", "weights_group", "weights_zeros", "weights_block", "weights_kept",
    "kv_dtype", "state_dtype",
    "parameters", "active_parameters", "encoder_parameters", "vision", "images", "weights_bytes", "dimensions",
    "dimensions_source",
    "max_context", "context", "encoder_tokens", "index_heads", "index_topk",
    "heads", "kv_heads", "head_dim", "k_dim", "v_dim", "layers", "count", "draft", "caches",
)  # fmt: skip

CONFIDENCE = ("config file read", "config excerpt read", "third-party table", "class default", "run configuration",
              "from memory")  # fmt: skip

KEPT: tuple[str, ...] = get_args(Kept)

_LONGEST_NAME = 300  # messages and headings have it; the name of a file can have 255 characters

_TEXTS = ("family", "model_type", "gguf", "source", "note", "dimensions_source")

# Head counts and widths that every cache takes from the top of a preset unless it has its own.
_TOP_HEADS = ("heads", "kv_heads", "head_dim", "k_dim", "v_dim")


def model_from_preset(data: Mapping[Any, object], origin: str) -> tuple[Model | None, list[Problem]]:
    """The model that a preset describes, or None and what is wrong with it. `origin` is the name it was found under."""
    top = Reader(data)
    name = top.text("name", required=True)
    if name is not None and len(name) > _LONGEST_NAME:
        top.note(f"expected at most {_LONGEST_NAME} characters, got {len(name):,}", "name")
    ids = top.texts("id")
    facts = _facts(top)
    defaults = {key: top.integer(key, 0 if key in ("kv_heads", "v_dim") else 1) for key in _TOP_HEADS}
    top.get("base")  # resolved by whoever read the file
    layers, draft = read_layers(top, "layers"), read_layers(top, "draft")
    count = top.integer("count")
    if count is not None and layers and count != len(layers):
        top.note(f"expected {len(layers)}, the number of layers described, got {count}", "count")
    if data.get("layers") is None:
        top.missing("the layers of the model, such as `80 full`", "layers")
    facts["dimensions"] = read_dimensions(top, len(layers))
    built = CacheTable(top, defaults, layers, draft)
    top.close()
    if top.problems or name is None:
        return None, top.problems
    family = facts.pop("family") or name.split()[0].lower()
    model = Model(name=name, ids=ids, family=family, layers=built.layers, draft=built.draft, origin=origin, **facts)
    return model, []


def _facts(top: Reader) -> dict[str, Any]:
    """The fields of Model that are read as they stand."""
    facts: dict[str, Any] = {key: top.text(key) for key in _TEXTS}
    facts["confidence"] = top.one_of("confidence", CONFIDENCE)
    facts["dtype"] = _dtype(top, "dtype", dtypes.COMPUTE)
    if top.data.get("dtype") is None:
        top.missing(f"one of {', '.join(dtypes.COMPUTE)}", "dtype")
    facts["weights_dtype"] = _dtype(top, "weights_dtype", dtypes.WEIGHTS)
    facts["weights_dtype"] = _grouped(top, facts["weights_dtype"])
    facts["weights_block"] = top.integer("weights_block")
    if facts["weights_block"] is not None and top.data.get("weights_dtype") is None:
        top.note("expected `weights_dtype` beside it", "weights_block")
    facts["weights_kept"] = _kept(top)
    facts["kv_dtype"] = _dtype(top, "kv_dtype", dtypes.KV)
    facts["state_dtype"] = _dtype(top, "state_dtype", dtypes.COMPUTE)
    for key in ("parameters", "active_parameters", "encoder_parameters"):
        facts[key] = _count(top, key)
    facts["vision"] = _vision(top)
    facts["images"] = top.one_of("images", tuple(IMAGE_RULES))
    facts["weights_bytes"] = top.integer("weights_bytes", 1, MOST_BYTES)
    for key in ("max_context", "context", "encoder_tokens", "index_heads", "index_topk"):
        facts[key] = top.integer(key)
    return facts


def _vision(top: Reader) -> VisionTower | None:
    inner = top.inner("vision")
    if inner is None:
        return None
    found = VisionTower(*(inner.integer(key) for key in VisionTower._fields))
    inner.close()
    return found


def _dtype(top: Reader, key: str, among: dict[str, DType]) -> DType | None:
    value = top.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return dtypes.dtype_called(value, among, key)
        except KvcalcError:
            pass
    top.expected(f"one of {', '.join(among)}", key)
    return None


def _grouped(top: Reader, stored: DType | None) -> DType | None:
    """Integers with the scales of their groups."""
    group, zeros = top.integer("weights_group"), top.flag("weights_zeros")
    if group is None:
        if zeros:
            top.note("expected `weights_group` beside it", "weights_zeros")
        return stored
    if stored is None or stored.name not in ("int4", "int8"):
        top.note("expected `weights_dtype` int4 or int8 beside it", "weights_group")
        return stored
    return dtypes.grouped(stored, group, zeros=zeros)


def _kept(top: Reader) -> tuple[str, ...]:
    words = top.texts("weights_kept")
    if any(word not in KEPT for word in words):
        top.expected(f"any of {', '.join(KEPT)}", "weights_kept")
    elif words and top.data.get("weights_dtype") is None:
        top.note("expected `weights_dtype` beside it", "weights_kept")
    return words


def _count(top: Reader, key: str) -> int | None:
    value = top.get(key)
    if isinstance(value, str):
        value = parse_count(value)
    if value is None and top.data.get(key) is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**16:
        return value
    top.expected("a count such as 70.55B", key)
    return None


def read_layers(top: Reader, key: str) -> list[Names]:
    """The layers under `key`, each as the names of its caches; empty where the key is missing or faulty."""
    value = top.get(key)
    try:
        if isinstance(value, str):
            return notation.expand(value)
        if isinstance(value, dict):
            return _pattern(top, key)
    except ValueError as error:
        top.note(str(error), key)
        return []
    if value is not None:
        top.expected("layers such as `80 full`, or a pattern with letters", key)
    return []


def _pattern(top: Reader, key: str) -> list[Names]:
    inner = top.inner(key)
    assert inner is not None
    pattern, letters = inner.text("pattern", required=True), inner.get("letters")
    inner.close()
    if not isinstance(letters, dict) or not all(isinstance(x, str) for pair in letters.items() for x in pair):
        inner.expected("a mapping of letters to caches", "letters")
        return []
    return [] if pattern is None else notation.expand_pattern(pattern, letters)
