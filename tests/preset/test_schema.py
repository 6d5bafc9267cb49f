"""The JSON Schema for editors says the same as the loader. What must hold for any preset is in property/test_schema.py."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kvcalc.core import dtypes
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.preset.caches import KINDS
from kvcalc.preset.mapping import KEYS

from .schema_writer import schema, written

PRESETS = Path(__file__).parents[2] / "presets"
SCHEMA: dict[str, Any] = json.loads((PRESETS / "schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
HEAD = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\n"


def valid(text: str) -> bool:
    return bool(VALIDATOR.is_valid(yaml.safe_load(text)))


def loads(text: str) -> bool:
    try:
        return bool(loader.load_text(text.encode(), "x").layers)
    except KvcalcError:
        return False


def test_the_schema_is_one() -> None:
    """An editor can load it."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_is_what_the_writer_writes() -> None:
    """Nobody has to find out by hand which keys, kinds, dtypes and bounds the loader has gained."""
    assert (PRESETS / "schema.json").read_text(encoding="utf-8") == written(schema()) + "\n", (
        "run `python tests/preset/schema_writer.py > presets/schema.json`"
    )


def test_an_editor_explains_every_key() -> None:
    """Each key of a preset and each field of a cache has a description to show."""
    definitions = SCHEMA["$defs"]
    shown = {key: definitions[kind]["properties"][key] for kind in KINDS for key in definitions[kind]["properties"]}
    for key, value in {**shown, **SCHEMA["properties"]}.items():
        assert "description" in value or "description" in definitions[value["$ref"].split("/")[-1]], key
    assert [kind for kind in KINDS if "description" not in definitions[kind]] == []
    assert tuple(SCHEMA["properties"]) == KEYS


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_is_valid(path: Path) -> None:
    """An editor finds nothing to complain of in a shipped preset."""
    VALIDATOR.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("key", ["dtype", "weights_dtype", "kv_dtype", "state_dtype"])
def test_dtypes_in_all_their_spellings(key: str) -> None:
    """Names and other names of dtypes in any case: an editor takes exactly those that kvcalc reads."""
    words = ["float8", "fp4", "fp8_e4m4", "q4", "q4_k_m", "bf 16", "xbf16", "bf16x", "8"]
    words += ["float8_e4m3fn", "FLOAT8_E5M2", "Half", "float", "F32", "BFloat16", " bf16 "]
    for word in (*words, *dtypes.WEIGHTS, *dtypes.KV):
        for spelt in (word, word.upper(), word.title()):
            text = f"name: M\n{key}: '{spelt}'\nlayers: 2 kda\ncaches: {{kda: {{heads: 4, head_dim: 64, conv: 4}}}}\n"
            text += "dtype: fp16\n" if key != "dtype" else ""
            assert valid(text) == loads(text), text


@pytest.mark.parametrize(
    ("parameters", "sound"),
    [
        ("7", True), ("70.55B", True), ("70.55 B", True), ("124m", True), ("0.5K", True), ("'007'", True), ("'7.0'", True),
        ("' 7 B '", True), ("9999T", True), ("10000T", False), ("0.001K", True), ("0.0001K", False), ("0.00010M", True),
        ("0B", False), ("0.0B", False), ("7  B", False), ("7BB", False), ("7G", False), ("-7B", False), (".5B", False),
        ("9999999999999999", True), ("10000000000000000", False), ("7 billion", False), ("[7B]", False), ("true", False),
    ],
)  # fmt: skip
def test_counts(parameters: str, sound: bool) -> None:
    """A number of parameters: a whole one above zero and below 10^16, with K, M, B or T in any case."""
    text = HEAD + f"layers: 2 full\nparameters: {parameters}\n"
    assert (valid(text), loads(text)) == (sound, sound)


SLIDING = "layers: 2 sliding\ncaches: {sliding: {window: 8, %s}}\n"
NO_HEADS = "name: Tiny 1\ndtype: bf16\n"


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD + "layers: 2 full\nhads: 3\n",
        HEAD.replace("heads: 4", "heads: four") + "layers: 2 full\n",
        HEAD.replace("heads: 4", "heads: [4, 4]") + "layers: 2 full\n",
        HEAD.replace("bf16", "fp8") + "layers: 2 full\n",
        HEAD.replace("bf16", "") + "layers: 2 full\n",
        HEAD.replace("Tiny 1", "") + "layers: 2 full\n",
        HEAD.replace("Tiny 1", '"a\\x07b"') + "layers: 2 full\n",
        HEAD + "layers:\n",
        HEAD + 'layers: ""\n',
        HEAD + "layers: 2 full\nmax_context: 0\n",
        HEAD + "layers: 2 full\nmax_context: 1099511627777\n",
        HEAD + "layers: 2 full\nconfidence: certain\n",
        HEAD + "layers: 2 full\nid: ''\n",
        HEAD + "layers: 2 full\nid: [a/b, 3]\n",
        HEAD + "layers: 2 full\nnote: ' '\n",
        HEAD + "layers: [full, full]\n",
        HEAD + "layers: {pattern: ff}\n",
        HEAD + "layers: {pattern: ff, letters: {}}\n",
        HEAD + "layers: {pattern: ff, letters: {f: full}, more: 1}\n",
        HEAD + "layers: 2 sliding\n",
        HEAD + "layers: 2 sliding\ncaches:\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: }\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: {window: }}\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: {window: -1}}\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: {window: []}}\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: {windw: 1}}\n",
        HEAD + SLIDING % "chunk: 8",
        HEAD + SLIDING % "rank: 8",
        HEAD + SLIDING % "rope: [8, 8]",
        HEAD + SLIDING % "head_dim: 0",
        HEAD + SLIDING % "k_dim: 8, head_dim: 0",
        HEAD + SLIDING % "k_dim: 8, v_dim: 8, head_dim: 8",
        HEAD + SLIDING % "k_dim: 8, v_dim: 8, head_dim: ",
        HEAD + "layers: 2 full\ncaches: {full: {window: 8}}\n",
        HEAD + "layers: 2 full\ncaches: {full: {kind: sliding}}\n",
        HEAD + "layers: 2 full\ncaches: {full: {}, sliding: {window: 8}}\n",
        HEAD + "layers: 2 a\ncaches: {a: {window: 1}}\n",
        HEAD + "layers: 2 a\ncaches: {a: }\n",
        HEAD + "layers: 2 a\ncaches: {a: {kind: slidng, window: 1}}\n",
        HEAD + "layers: 2 a\ncaches: {a: {kind: Sliding, window: 1}}\n",
        HEAD + "layers: 2 a\ncaches: {a: {kind: kda, heads: 4, head_dim: 64, conv: 4, state: 4}}\n",
        HEAD + "layers: 2 kda\ncaches: {kda: {conv: 4}}\n",  # a state takes no heads from the top
        HEAD + "layers: 2 latent\ncaches: {latent: {rank: 64}}\n",
        HEAD + "layers: 2 latent\ncaches: {latent: {rank: 64, rope: 0, v_dim: 0}}\n",
        HEAD + "layers: 2 latent\ncaches: {latent: {rank: 64, rope: 0, kv_heads: 1}}\n",
        HEAD + "layers: full+cross\ncaches: {cross: {tokens: output}}\n",
        HEAD + "layers: 2 indexer\ncaches: {indexer: {dim: 128, store: fp4}}\n",
        HEAD + "layers: 2 indexer\ncaches: {indexer: {dim: 128, block: [1, 2]}}\n",
        HEAD + "layers: 2 compressed\ncaches: {compressed: {ratio: 4, dim: 8, overlap: 1}}\n",
        HEAD + "layers: 2 compressed\ncaches: {compressed: {ratio: 4, dim: 8, head_dim: 8}}\n",
        HEAD + "layers: 2 a b\ncaches: {a b: {kind: full}}\n",
        HEAD + "layers: 2 none\ncaches: {none: {kind: full}}\n",
        NO_HEADS + "layers: 2 full\n",
        NO_HEADS + "layers: 2 full\ncaches: {full: {heads: 4, kv_heads: 2}}\n",
        NO_HEADS + "layers: 2 full\ncaches: {full: {heads: 4, head_dim: 64}}\n",
        NO_HEADS + "layers: 2 a\ncaches: {a: {kind: latent, rank: 64, rope: 0, heads: 4, k_dim: 64}}\n",
        NO_HEADS + "layers: 2 compressed\ncaches: {compressed: {ratio: 4, dim: 64}}\n",
        "base: [llama3-70b]\n",
        "base: llama3-70b\nname:\n",
        "base: llama3-70b\ndtype:\n",
        "base: llama3-70b\nlayers: 2 sliding\ncaches: {sliding: {window: 8, chunk: 8}}\n",
        "base: llama3-70b\nlayers: 2 a\ncaches: {a: {windw: 8}}\n",
        "base:\n" + NO_HEADS,
    ],
)
def test_both_refuse(text: str) -> None:
    """What the schema underlines, the loader refuses."""
    assert (valid(text), loads(text)) == (False, False)


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "layers: 2 full\n",
        HEAD + "layers: {pattern: ff, letters: {f: full, m: mamba2}}\ncount: 2\n",
        HEAD.replace("bf16", "' Half '") + "layers: 2 full\n",
        HEAD
        + "layers: 2 full\ncaches:\nbase:\nid:\nnote:\nconfidence:\nparameters:\nkv_dtype:\nk_dim:\ncount:\ndraft:\n",
        HEAD + "layers: 2 full\nid: []\n",
        HEAD + "layers: 2 full\nnote: |\n  one\n  two\n",
        HEAD + "layers: full, full\ncaches: {full: {kv_heads: [1, 2]}}\n",
        HEAD + "layers: full+cross\ncaches: {cross: {tokens: input}}\n",
        HEAD + "layers: 2 full\ncaches: {full: }\n",
        HEAD + "layers: 2 full\ncaches: {full: {kind: sliding, window: 8}}\n",
        HEAD + "layers: 2 full\ncaches: {full: {kind: , kv_heads: , rope: }}\n",
        HEAD + "layers: 2 full\ncaches: {full: {kv_heads: 0, v_dim: 0}}\n",
        HEAD + "layers: 2 full\ndraft: sliding\ncaches: {sliding: {window: 8}}\n",
        HEAD + "layers: 2 near, 2 shared:near\ncaches: {near: {kind: sliding, window: 8}}\n",
        HEAD + SLIDING % "k_dim: 8, head_dim: 8",
        NO_HEADS + "layers: 2 a\ncaches: {a: {kind: full, heads: 4, kv_heads: 2, head_dim: 64}}\n",
        NO_HEADS + "layers: 2 kda\ncaches: {kda: {heads: 4, head_dim: 64, conv: 4}}\n",
        NO_HEADS + "layers: 2 indexer\ncaches: {indexer: {dim: 128, store: , block: 64}}\n",
        NO_HEADS + "layers: 2 a\ncaches: {a: {kind: latent, rank: 64, rope: 0, heads: 4, head_dim: 64}}\n",
        "base: llama3-70b\n",
        "base: llama3-70b\nlayers: 2 full\n",
        "base: gemma3-27b\ncaches: {sliding: {kv_heads: 1}}\n",
    ],
)
def test_both_accept(text: str) -> None:
    """What the loader reads, the schema does not underline."""
    assert (valid(text), loads(text)) == (True, True)
