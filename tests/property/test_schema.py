"""The JSON Schema and the loader agree on any preset, but for what JSON Schema cannot say, which is listed here."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from kvcalc.errors import DocumentError, Problem
from kvcalc.library import loader

from ..examples import examples

ROOT = Path(__file__).resolve().parents[2]
SCHEMA: Any = json.loads((ROOT / "presets" / "schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

HEAD = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\n"

# What the loader refuses and the schema cannot see: why, the refusal, and an example.
UNSAID = [
    ("layers is a language", r"^(layers|draft): (?!expected (the )?layers)", "layers: 2 x full"),
    ("a name means what stands elsewhere", r"neither does$", "layers: 2 full\ncaches: {a: {kind: kda, heads: 1, head_dim: 1, conv: 1}}"),
    ("a list is as long as the layers that have it", r"entries, one for each layer", "layers: 2 full\ncaches: {full: {kv_heads: [1, 2, 4]}}"),
    ("a number divides another", r"expected a divisor", "layers: 2 full\ncaches: {full: {kv_heads: 3}}"),
    ("a number bounds another", r"expected at most k_dim", "layers: 2 full\ncaches: {full: {rope: 65}}"),
    ("a number is that of the layers", r"the number of layers described", "layers: 2 full\ncount: 3"),
    ("a value that only some kinds have", r"v_dim: expected a number above zero for latent", "v_dim: 0\nlayers: 2 latent\ncaches: {latent: {rank: 1, rope: 0}}"),
    ("4.0 is 4 in JSON", r"got \d+\.0$", "layers: 2 full\nmax_context: 4.0"),
    ("which characters can be printed", r"expected (printable )?text", 'layers: 2 full\nnote: "\\u0378"'),
    ("which presets there are", r"expected another preset", "base: no-such-preset-1"),
]  # fmt: skip
# What a base has, and which letters of a pattern are used, it cannot see either, so that it demands less there.
IN_A_BASE, IN_A_PATTERN = r"got nothing$|expected a known key", r"got nothing$"


def text_of(data: object) -> str:
    return str(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))


def problems(text: str) -> tuple[Problem, ...]:
    """What the loader has to say of a preset."""
    try:
        loader.load_text(text.encode(), "x")
    except DocumentError as error:
        return error.problems
    return ()


def unsaid(problem: Problem, data: dict[str, Any]) -> bool:
    line = str(problem._replace(file=None, line=None))
    reasons = [told for _, told, _ in UNSAID]
    reasons += [IN_A_BASE] if isinstance(data.get("base"), str) else []
    reasons += [IN_A_PATTERN] if any(isinstance(data.get(key), dict) for key in ("layers", "draft")) else []
    return any(re.search(told, line) for told in reasons)


@pytest.mark.parametrize(("told", "example"), [row[1:] for row in UNSAID], ids=[row[0] for row in UNSAID])
def test_what_the_schema_cannot_say_the_loader_does(told: str, example: str) -> None:
    """An editor lets these pass, and kvcalc refuses them, each with a reason of the list."""
    text = (HEAD if "base" not in example else "") + example
    assert VALIDATOR.is_valid(yaml.safe_load(text))
    assert [bool(re.search(told, str(problem._replace(file=None, line=None)))) for problem in problems(text)] == [True]


# By kind, as presets/README.md has them: what an entry must have, and what it may have.
FIELDS = {
    "full": ("", "heads kv_heads k_dim v_dim head_dim rope"),
    "sliding": ("window", "heads kv_heads k_dim v_dim head_dim rope"),
    "chunked": ("chunk", "heads kv_heads k_dim v_dim head_dim rope"),
    "cross": ("tokens", "heads kv_heads k_dim v_dim head_dim rope"),
    "latent": ("rank rope", "heads k_dim v_dim head_dim"),
    "indexer": ("dim", "store block"),
    "compressed": ("ratio dim", "heads rope overlap indexer"),
    "mamba1": ("inner state conv", ""),
    "mamba2": ("heads head_dim groups state conv", ""),
    "deltanet": ("k_heads k_dim v_heads v_dim conv", ""),
    "kda": ("heads head_dim conv", ""),
    "shortconv": ("width conv", ""),
    "lightning": ("heads head_dim", ""),
    "rglru": ("width conv", ""),
    "rwkv": ("width head_dim", ""),
    "rwkv4": ("width", ""),
}
SPELT: dict[str, list[object]] = {
    "store": ["fp8+scale"], "overlap": [True, False], "tokens": [7, "input"], "heads": [4, 8, [4, 8]],
    "kv_heads": [1, 2, 0, [1, 2]], "rope": [4, 0], "indexer": [64, 0], "block": [64],
}  # fmt: skip
TOP: dict[str, list[object]] = {
    "id": ["a/b", ["a/b", "c"], []], "family": ["tiny"], "model_type": ["llama"], "note": ["one\nof two lines"],
    "confidence": ["class default"], "dtype": ["bf16", "BF16", " Half ", "bfloat16"], "count": [2],
    "weights_dtype": ["fp8", "Q4_K", "IQ2_XXS", "mxfp4"], "kv_dtype": ["FP8_E4M3", "q8_0", "float8_e5m2", "int8"],
    "state_dtype": ["Float32", "fp16"], "weights_bytes": [1, 2**63 - 1], "max_context": [8192], "context": [10],
    "parameters": ["70.55 B", "70.55B", "124m", "0.5K", 7, "00012.500T", " 3 "], "active_parameters": ["1.5B"],
    "encoder_tokens": [1500], "base": ["llama3-70b"],
}  # fmt: skip
WRONG: list[object] = [
    None, True, 0, -1, 3, 2**40 + 1, 2**63, 10**16, 1.5, 4.0, "", " ", "x", "input", "full", "1 full", "7 sliding, full",
    "none", "fp7", "fp8_e4m3", "q9_k", "float16", "70.55 billion", "0B", "0.1", "1.2345K", "10001T", "7  B", "1.", "a\x07b",
    [], [1], [0, 1], ["x"], [None], {}, {"kind": "full"}, {"kind": None}, {"full": None}, {"pattern": "M", "letters": {"M": "full"}},
]  # fmt: skip
KEYS = [*SCHEMA["properties"], "kind", *{f for own, more in FIELDS.values() for f in f"{own} {more}".split()}, "hads"]


@st.composite
def entries(draw: DrawFn, kind: str) -> dict[str, object]:
    own, more = (fields.split() for fields in FIELDS[kind])
    fields = [*own, *draw(st.lists(st.sampled_from(more), unique=True, max_size=3) if more else st.just([]))]
    return {field: draw(st.sampled_from(SPELT.get(field, [4, 64, 64, [4, 64]]))) for field in fields}


@st.composite
def presets(draw: DrawFn) -> dict[str, Any]:
    """A preset that is mostly sound: one to three caches, called by their kinds or otherwise, and some other keys."""
    data: dict[str, Any] = {"name": "Tiny 1", "dtype": "bf16", "layers": ""}
    data |= {key: 4 for key in ("heads", "kv_heads", "head_dim", "k_dim", "v_dim") if draw(st.integers(0, 3))}
    for key in draw(st.lists(st.sampled_from([*TOP]), unique=True, max_size=4)):
        data[key] = draw(st.sampled_from(TOP[key]))
    caches: dict[str, Any] = {}
    named = []
    for kind in draw(st.lists(st.sampled_from([*FIELDS]), unique=True, min_size=1, max_size=3)):
        name = draw(st.sampled_from([kind, kind, f"{kind}-2"]))
        named.append(name)
        if name != kind or kind != "full" or draw(st.booleans()):
            caches[name] = ({} if name == kind else {"kind": kind}) | draw(entries(kind))
    data["layers"] = draw(st.sampled_from(["2 x ({})", "{0}, {0}, none", "1 x ( {0} ) ,{0}"])).format(
        draw(st.sampled_from([", ", "+"])).join(named)
    )
    if draw(st.integers(0, 5)) == 0:
        data["draft"] = named[0]
    if draw(st.integers(0, 5)) == 0:
        data["layers"] = {"pattern": "MM", "letters": {"M": "+".join(named)}}
    return data | ({"caches": caches} if caches or draw(st.booleans()) else {})


def mappings(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from mappings(inner)


@st.composite
def spoilt(draw: DrawFn) -> dict[str, Any]:
    """A preset with up to two slips: a key that is missing, moved, new or wrong."""
    data: dict[str, Any] = json.loads(json.dumps(draw(presets())))
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.sampled_from([*mappings(data)]))
        key = draw(st.sampled_from([*place] or [None]) | st.sampled_from(KEYS))
        if key in place and draw(st.booleans()):
            value = place.pop(key)
            if draw(st.booleans()):
                place[draw(st.sampled_from(KEYS))] = value
        elif key is not None:
            place[key] = copy.deepcopy(draw(st.sampled_from(WRONG)))
    return data


@settings(max_examples=examples(500))
@given(spoilt())
def test_schema_and_loader_agree(data: dict[str, Any]) -> None:
    """What the schema refuses, the loader refuses; what it accepts, the loader refuses for a reason of the list alone."""
    found = problems(text_of(data))
    if VALIDATOR.is_valid(data):
        assert [str(problem) for problem in found if not unsaid(problem, data)] == []
    else:
        assert found
