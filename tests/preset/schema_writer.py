"""Writes presets/schema.json, by which editors complete and check presets, from the loader's own words.

    python tests/preset/schema_writer.py > presets/schema.json

It says all that JSON Schema can say without sums; what it leaves to the loader is listed in property/test_schema.py.
JSON Schema has no case-insensitive match, so that patterns spell out both cases.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from kvcalc.core import dtypes
from kvcalc.core.images import IMAGE_RULES
from kvcalc.core.model import Dimensions, VisionTower
from kvcalc.core.units import MOST_BYTES
from kvcalc.preset.caches import KINDS, RECURRENT_FIELDS
from kvcalc.preset.fields import MOST_NUMBER
from kvcalc.preset.mapping import CONFIDENCE, KEPT, KEYS

Schema = dict[str, Any]

PER_HEAD = ("full", "sliding", "chunked", "cross")
OWN_NAME = f"^(?!({'|'.join(KINDS)})$)"  # a cache that is not called by its kind
SAYS_KIND: Schema = {"$ref": "#/$defs/cache"}

# Characters that no text may have (those that do harm; Python's own list is longer), and blanks that an id has not.
CONTROL = r"\u0000-\u0008\u000e-\u001b\u007f-\u0084\u0086-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
SPACES = r"\u0009-\u000d\u001c-\u001f\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


def number(low: int = 1, most: int = MOST_NUMBER) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": most}


def each(low: int = 1) -> Schema:
    """A number for all layers that have the cache, or one for each."""
    return {"$ref": "#/$defs/each" if low else "#/$defs/eachOrZero"}


def or_null(schema: Schema) -> Schema:
    if "type" in schema:
        return schema | {"type": ["integer", "null"] if schema["type"] == "integer" else [schema["type"], "null"]}
    return {"anyOf": [*schema.get("anyOf", [schema]), {"type": "null"}]}


def told(description: str, schema: Schema, **more: Any) -> Schema:
    return {"description": description, **schema, **more}


def any_case(word: str) -> str:
    return "".join(f"[{c.upper()}{c}]" if c.isalpha() else re.escape(c) for c in word)


def dtype(among: dict[str, dtypes.DType]) -> Schema:
    """The names of dtypes to complete, and all of their spellings to accept."""
    names = [*among, *(alias for alias, name in dtypes._ALIASES.items() if name in among)]
    pattern = rf"^\s*({'|'.join(map(any_case, names))})\s*$"
    return {"anyOf": [{"enum": [*among]}, {"type": "string", "pattern": pattern}]}


def count() -> Schema:
    """`70.55B`: a whole number above zero and below 10^16, with as many decimals as its unit has zeros."""
    units = "|".join(
        rf"[0-9]{{0,{16 - zeros}}}(\.[0-9]{{1,{zeros}}}0*)?\s?{any_case(unit)}"
        for unit, zeros in (("k", 3), ("m", 6), ("b", 9), ("t", 12))
    )
    sane = r"(?=[0-9.]*[1-9])(?=[0-9]{1,24}(\.[0-9]{1,24})?\s?[A-Za-z]?\s*$)"
    pattern = rf"^\s*{sane}0*([0-9]{{0,16}}(\.0+)?|{units})\s*$"
    found = {"type": ["integer", "string", "null"], "minimum": 1, "maximum": 10**16 - 1, "pattern": pattern}
    return found | {"patternErrorMessage": "Expected a count such as 70.55B or 124M."}


def text() -> Schema:
    return {"type": "string", "pattern": r"\S", "not": {"type": "string", "pattern": f"[{CONTROL}]"}}


LAYERS: Schema = {
    "anyOf": [
        {"type": "string", "pattern": r"\S", "maxLength": 65536},
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["pattern", "letters"],
            "properties": {
                "pattern": told("One letter for each layer, as the published configuration has it.", text()),
                "letters": told(
                    "What each letter means: the caches of such a layer.",
                    {"type": "object", "minProperties": 1, "additionalProperties": {"type": "string"}},
                ),
            },
        },
    ]
}

INHERITED = {
    "heads": told("Query heads, where they are not those at the top.", or_null(each())),
    "kv_heads": told("Heads whose keys and values are cached; 0: all pruned.", or_null(each(0))),
    "head_dim": told("Elements per head, of keys and values alike.", or_null(each())),
    "k_dim": told("Elements per head of a key.", or_null(each())),
    "v_dim": told("Elements per head of a value; 0: the key serves as value.", or_null(each(0))),
}
ROPE = {"rope": told("Rotary elements of k_dim, which packed formats keep in 16 bits.", or_null(number(0)))}
TOKENS = {"anyOf": [each(), {"const": "input"}]}
LATENT_VALUE = {"v_dim": told("Elements per head of a value, before compression.", or_null(each()))}

RECURRENT_WORDS = {
    "inner": "Channels.", "state": "Elements of the state for each channel.", "conv": "Length of the kernel.",
    "heads": "Heads of the state.", "head_dim": "Elements per head.", "groups": "Groups that share B and C.",
    "k_heads": "Key heads.", "k_dim": "Elements per key head.", "v_heads": "Value heads.",
    "v_dim": "Elements per value head.", "width": "Channels.",
}  # fmt: skip

# What each kind keeps, the fields that its entry must have, and those that it may have.
ENTRIES: dict[str, tuple[str, Schema, Schema]] = {
    "full": ("Keys and values of every token.", {}, INHERITED | ROPE),
    "sliding": (
        "Keys and values of the last `window` tokens.",
        {"window": told("Tokens that a layer keeps.", each())},
        INHERITED | ROPE,
    ),
    "chunked": (
        "Keys and values of the tokens of one chunk.",
        {"chunk": told("Tokens of a chunk.", each())},
        INHERITED | ROPE,
    ),
    "cross": (
        "Keys and values of the encoder's tokens.",
        {"tokens": told("Encoder tokens, or `input` where the request sets them.", TOKENS)},
        INHERITED | ROPE,
    ),
    "latent": (
        "One latent and one rotary key a token for all heads.",
        {"rank": told("Elements of the latent.", each()), "rope": told("Elements of the rotary key.", each(0))},
        {key: INHERITED[key] for key in ("heads", "head_dim", "k_dim")} | LATENT_VALUE,
    ),
    "indexer": (
        "The key by which sparse attention chooses tokens.",
        {"dim": told("Elements of an index key.", each())},
        {
            "store": told("How a key is stored, where it is not in the KV dtype.", {"enum": ["fp8+scale", None]}),
            "block": told("Tokens that sparse attention chooses together.", or_null(number())),
        },
    ),
    "compressed": (
        "One entry for every `ratio` tokens.",
        {"ratio": told("Tokens for each entry.", each()), "dim": told("Elements of an entry.", each())},
        {
            "heads": INHERITED["heads"],
            "rope": told("Rotary elements of an entry.", or_null(number(0))),
            "overlap": told("Each entry also sees the tokens of the one before.", {"type": ["boolean", "null"]}),
            "indexer": told("Elements of the index key beside each entry.", or_null(number(0))),
        },
    ),
} | {
    kind: (f"The state of a {kind} layer.", {field: told(RECURRENT_WORDS[field], each()) for field in fields}, {})
    for kind, fields in RECURRENT_FIELDS.items()
}


def entry(kind: str) -> Schema:
    """An entry of a kind, with the fields that it can have; which it must have depends on its base, if it has one."""
    what, own, others = ENTRIES[kind]
    fields: Schema = {"kind": {"$ref": "#/$defs/kind"}} | own | others
    found = told(what, {"type": ["object", "null"], "additionalProperties": False, "properties": fields})
    if {"k_dim", "v_dim", "head_dim"} <= set(others):  # the third would say nothing
        given = {key: {"not": {"type": "null"}} for key in ("k_dim", "v_dim")}
        found["not"] = {"type": "object", "required": ["k_dim", "v_dim", "head_dim"], "properties": given}
    return found


def changed() -> Schema:
    """An entry whose kind its base may say: any field that some kind has."""
    fields: dict[str, list[Schema]] = {"kind": [{"$ref": "#/$defs/kind"}]}
    for _, own, others in ENTRIES.values():
        for key, schema in (own | others).items():
            if schema not in fields.setdefault(key, []):
                fields[key].append(schema)
    properties = {key: kinds[0] if len(kinds) == 1 else {"anyOf": kinds} for key, kinds in fields.items()}
    return {"type": ["object", "null"], "additionalProperties": False, "properties": properties}


def of_kinds(kinds: Iterable[str], rule: Schema) -> Schema:
    """`rule` for all entries of `caches` that are of these kinds, as they say or else by their names."""
    says = {"type": "object", "required": ["kind"], "properties": {"kind": {"enum": [*kinds]}}}
    by_name = {f"^({'|'.join(kinds)})$": {"if": SAYS_KIND, "else": rule}}
    # Two objects: some editors apply only the first of the patterns that a name matches.
    return {"allOf": [{"additionalProperties": {"if": says, "then": rule}}, {"patternProperties": by_name}]}


def caches(schema: Schema) -> Schema:
    return {"properties": {"caches": schema}}


def has(*keys: str, types: Sequence[str] = ("integer",)) -> Schema:
    """One of `keys` is there, and not null."""
    options = [{"required": [key], "properties": {key: {"type": [*types]}}} for key in keys]
    return options[0] if len(options) == 1 else {"anyOf": options}


def inherited(keys: Sequence[str], kinds: Sequence[str]) -> Schema:
    """One of `keys` stands at the top, or in each entry of these kinds, so that `full` needs one."""
    own = {"type": "object", **has(*keys, types=("integer", "array"))}
    then = caches(of_kinds(kinds, own)) | {"if": {"not": unnamed("full")}, "then": given("full")}
    return {"if": {"not": has(*keys)}, "then": then}


def unnamed(kind: str) -> Schema:
    """Neither `layers` nor `draft` names this kind; where they are patterns, that is not seen."""
    return {"properties": {key: {"$ref": f"#/$defs/no-{kind}"} for key in ("layers", "draft")}}


def given(kind: str) -> Schema:
    """`caches` has an entry of this name."""
    return {"required": ["caches"], **caches({"type": "object", "required": [kind]})}


def named(kind: str) -> Schema:
    """A kind that is named has its entry, unless it needs none; one that is not named has none."""
    then = caches({"properties": {kind: False}})
    return {"if": unnamed(kind), "then": then, **({"else": given(kind)} if ENTRIES[kind][1] else {})}


def whole() -> Schema:
    """What holds for a preset that does not start from another."""
    needed = [of_kinds([kind], {"type": "object", "required": [*own]}) for kind, (_, own, _) in ENTRIES.items() if own]
    own_names = {"patternProperties": {OWN_NAME: SAYS_KIND}}
    texts = {"properties": {"layers": {"type": "string"}, "draft": {"type": ["string", "null"]}}}
    return {
        "required": ["name", "dtype", "layers"],
        "allOf": [
            caches({"allOf": [own_names, *needed]}),
            inherited(["heads"], [*PER_HEAD, "latent", "compressed"]),
            inherited(["kv_heads"], PER_HEAD),
            inherited(["k_dim", "head_dim"], [*PER_HEAD, "latent"]),
            inherited(["v_dim", "head_dim"], [*PER_HEAD, "latent"]),
            {"if": texts, "then": {"allOf": [named(kind) for kind in KINDS]}},
        ],
    }


def properties() -> Schema:
    optional_text, optional_number = {"$ref": "#/$defs/optionalText"}, {"$ref": "#/$defs/optionalNumber"}
    hub_id = {"type": "string", "minLength": 1, "not": {"pattern": f"[{CONTROL}{SPACES}]"}}
    found = {
        "name": told("The name that people read.", text()),
        "id": told(
            "The hub id, or a list of hub ids that share this shape.",
            {"anyOf": [hub_id, {"type": "array", "items": hub_id}, {"type": "null"}]},
            examples=["meta-llama/Meta-Llama-3-70B"],
        ),
        "family": told("One lower-case word for `kvcalc models --family`; else the name's first.", optional_text),
        "base": told(
            "Another preset to start from: keys given here replace its keys, entries of `caches` merge by name.",
            {"type": ["string", "null"]},
        ),
        "model_type": told("The inner model type of the published configuration.", optional_text),
        "gguf": told("The GGUF architecture, where it cannot be found from model_type.", optional_text),
        "source": told("Where the facts were read.", optional_text),
        "confidence": told("How good the source is.", {"enum": [*CONFIDENCE, None]}),
        "note": told("What a careful reader should know.", optional_text),
        "dtype": told("The dtype in which the model computes, and so caches.", dtype(dtypes.COMPUTE)),
        "weights_dtype": told("The dtype of the checkpoint, where it is another.", or_null(dtype(dtypes.WEIGHTS))),
        "weights_group": told("How many int4 or int8 weights share a 16-bit scale.", optional_number),
        "weights_zeros": told("Such a group has a zero point, too.", {"type": ["boolean", "null"]}),
        "weights_block": told("Rows and columns of the blocks that share a scale.", optional_number),
        "weights_kept": told(
            "Parts that such a checkpoint keeps in 16 bits, beside tables, routers and norms.",
            {"anyOf": [{"enum": [*KEPT]}, {"type": "array", "items": {"enum": [*KEPT]}}, {"type": "null"}]},
        ),
        "kv_dtype": told("Only if the checkpoint declares a quantised KV cache.", or_null(dtype(dtypes.KV))),
        "state_dtype": told(
            "Only if the configuration states the dtype of the recurrent state.", or_null(dtype(dtypes.COMPUTE))
        ),
        "parameters": told(
            "All parameters: 70.55B, 124M, or a number.", {"$ref": "#/$defs/count"}, examples=["70.55B"]
        ),
        "active_parameters": told("Parameters used for one token.", {"$ref": "#/$defs/count"}),
        "encoder_parameters": told(
            "Parameters of towers for images or sound, which are among all of them.", {"$ref": "#/$defs/count"}
        ),
        "vision": told(
            "The tower for images, as far as vision_config states it by these names.",
            or_null(
                {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": dict.fromkeys(VisionTower._fields, optional_number),
                }
            ),
        ),
        "images": told("The rule by which an image becomes tokens.", {"enum": [*IMAGE_RULES, None]}),
        "weights_bytes": told("Measured bytes of the checkpoint's tensors.", or_null(number(1, MOST_BYTES))),
        "dimensions": told(
            "Widths of the weights, from which their bytes on each GPU follow.",
            or_null({"$ref": "#/$defs/dimensions"}),
        ),
        "dimensions_source": told(
            "Where they and encoder_parameters were read, where `source` does not state them.", optional_text
        ),
        "max_context": told("The model's limit in tokens.", optional_number),
        "context": told("The length used when none is asked for.", optional_number),
        "encoder_tokens": told("The default length on the encoder's side.", optional_number),
        "index_heads": told("Heads that score tokens for sparse attention.", optional_number),
        "index_topk": told("Tokens or entries that sparse attention chooses.", optional_number),
        "heads": told("Query heads.", optional_number),
        "kv_heads": told("Heads whose keys and values are cached.", or_null(number(0))),
        "head_dim": told("Elements per head, of keys and values alike.", optional_number),
        "k_dim": told("Elements per head of a key.", optional_number),
        "v_dim": told("Elements per head of a value; 0: the key serves as value.", or_null(number(0))),
        "layers": told(
            "The ordered list of layers: names of caches, each with how often it repeats.",
            {"$ref": "#/$defs/layers"},
            examples=["80 full", "10 x (5 sliding, full), 2 sliding"],
        ),
        "count": told("The number of layers, which must then agree with `layers`.", optional_number),
        "draft": told(
            "Draft (multi-token-prediction) layers, written like `layers`.", or_null({"$ref": "#/$defs/layers"})
        ),
        "caches": told(
            "What the names in `layers` mean, where a kind alone does not say it.",
            {
                "type": ["object", "null"],
                "propertyNames": {"pattern": r"^[^\s(),+]+$", "not": {"pattern": "^(none$|shared:)"}},
                "additionalProperties": {"type": ["object", "null"], "properties": {"kind": {"$ref": "#/$defs/kind"}}},
                "allOf": [
                    {"patternProperties": {OWN_NAME: {"if": SAYS_KIND, "else": {"$ref": "#/$defs/changed"}}}},
                    *(of_kinds([kind], {"$ref": f"#/$defs/{kind}"}) for kind in KINDS),
                ],
            },
        ),
    }
    assert tuple(found) == KEYS
    return found


def dimensions() -> Schema:
    """The widths of the weights; which of them go together is left to the loader."""
    fields = {
        "hidden": told("The width of the model.", number()),
        "vocab": told("Rows of the table of embeddings.", or_null(number())),
        "intermediate": told("Channels of a dense feed-forward layer.", or_null(number())),
        "gated": told("Its matrices are three and not two; left out, they are.", {"type": ["boolean", "null"]}),
        "tied": told("The table of embeddings is the output head too.", {"type": ["boolean", "null"]}),
        "q_lora_rank": told("The rank of queries under latent attention.", or_null(number(0))),
        "query_gate": told("Attention has a gate as wide as its queries.", {"type": ["boolean", "null"]}),
        "experts": told("Routed experts of a layer.", or_null(number(0))),
        "top_k": told("Experts that a token uses.", or_null(number())),
        "expert_intermediate": told("Channels of one routed expert.", or_null(number())),
        "expert_hidden": told("Elements that experts read, where they are fewer than hidden.", or_null(number(0))),
        "shared_intermediate": told("Channels of all shared experts together.", or_null(number(0))),
        "feed_forward": told(
            "dense, moe or none for each layer, written like `layers`, where they are not all alike.",
            {"type": ["string", "null"], "pattern": r"\S", "maxLength": 65536},
            examples=["3 dense, 58 moe"],
        ),
    }
    assert tuple(fields) == Dimensions._fields
    return {"type": "object", "additionalProperties": False, "required": ["hidden"], "properties": fields}


def schema() -> Schema:
    word = r"(^|[\s(,+])%s($|[\s),+])"
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kvcalc preset",
        "$comment": "Written by tests/preset/schema_writer.py.",
        "description": "Facts of one model, from which kvcalc computes the size of its KV cache. "
        "presets/README.md explains each key.",
        "type": "object",
        "additionalProperties": False,
        "properties": properties(),
        "if": {"not": has("base", types=("string",))},
        "then": {"$ref": "#/$defs/whole"},
        "$defs": {
            "each": {"anyOf": [number(), {"type": "array", "minItems": 1, "items": number()}]},
            "eachOrZero": {"anyOf": [number(0), {"type": "array", "minItems": 1, "items": number(0)}]},
            "optionalNumber": or_null(number()),
            "optionalText": or_null(text()),
            "count": count(),
            "layers": LAYERS,
            "dimensions": dimensions(),
            "kind": told("The kind of cache; may be left out where the name is one.", {"enum": [*KINDS, None]}),
            "cache": {"not": {"type": "null"}, **has("kind", types=("string",))},
            **{kind: entry(kind) for kind in KINDS},
            "changed": changed(),
            "whole": whole(),
            **{f"no-{kind}": {"not": {"type": "string", "pattern": word % kind}} for kind in KINDS},
        },
    }


def written(value: object, indent: int = 0, before: int = 0) -> str:
    """JSON with what fits on a line in one line."""
    line = json.dumps(value)
    if not isinstance(value, dict | list) or indent + before + len(line) <= 118:
        return line
    inside, end = "\n" + " " * (indent + 2), "\n" + " " * indent
    if isinstance(value, list):
        return "[" + inside + f",{inside}".join(written(item, indent + 2) for item in value) + end + "]"
    pairs = [(f"{json.dumps(key)}: ", item) for key, item in value.items()]
    return (
        "{" + inside + f",{inside}".join(key + written(item, indent + 2, len(key)) for key, item in pairs) + end + "}"
    )


if __name__ == "__main__":
    print(written(schema()))
