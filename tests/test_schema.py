"""The JSON Schema for editors says the same as the loader: the same keys, kinds and words, and the same presets."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from kvcalc import dtypes, library
from kvcalc.caches import KINDS, RECURRENT_FIELDS
from kvcalc.errors import KvcalcError
from kvcalc.preset import CONFIDENCE, KEYS

PRESETS = Path(__file__).parent.parent / "presets"
SCHEMA: dict[str, Any] = json.loads((PRESETS / "schema.json").read_text(encoding="utf-8"))
HEAD = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\n"


def test_the_schema_is_one() -> None:
    """An editor can load it."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_keys_and_words_are_the_loaders() -> None:
    """Every key and every closed set of words is the loader's own."""
    cache = SCHEMA["$defs"]["cache"]["properties"]
    assert tuple(SCHEMA["properties"]) == KEYS
    assert tuple(cache["kind"]["enum"]) == KINDS
    assert tuple(SCHEMA["properties"]["confidence"]["enum"]) == CONFIDENCE
    assert tuple(SCHEMA["$defs"]["compute"]["enum"]) == tuple(dtypes.COMPUTE)
    assert {field for fields in RECURRENT_FIELDS.values() for field in fields} <= set(cache)


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_is_valid(path: Path) -> None:
    """An editor finds nothing to complain of in a shipped preset."""
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD + "layers: 2 full\nhads: 3\n",
        HEAD.replace("heads: 4", "heads: four") + "layers: 2 full\n",
        HEAD.replace("bf16", "fp8") + "layers: 2 full\n",
        HEAD + "layers: 2 full\nmax_context: 0\n",
        HEAD + "layers: 2 full\nparameters: 7 billion\n",
        HEAD + "layers: 2 full\nconfidence: certain\n",
        HEAD + "layers: [full, full]\n",
        HEAD + "layers: {pattern: ff}\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: {window: -1}}\n",
        HEAD + "layers: 2 sliding\ncaches: {sliding: {windw: 1}}\n",
        HEAD + "layers: 2 a\ncaches: {a: {kind: slidng, window: 1}}\n",
        HEAD + "layers: full+cross\ncaches: {cross: {tokens: output}}\n",
        HEAD + "layers: 2 indexer\ncaches: {indexer: {dim: 128, store: fp4}}\n",
    ],
)
def test_both_refuse(text: str) -> None:
    """What the schema underlines, the loader refuses."""
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), SCHEMA)
    with pytest.raises(KvcalcError):
        library.load_text(text.encode(), "x")


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "layers: 2 full\n",
        HEAD + "layers: {pattern: ff, letters: {f: full}}\ncount: 2\n",
        HEAD + "layers: 2 full\nparameters: 70.55B\nactive_parameters: 124\n",
        HEAD + "layers: full, full\ncaches: {full: {kv_heads: [1, 2]}}\n",
        HEAD + "layers: full+cross\ncaches: {cross: {tokens: input}}\n",
        HEAD + "layers: 2 full\ncaches: {full: }\n",
        "base: llama3-70b\nlayers: 2 full\n",
    ],
)
def test_both_accept(text: str) -> None:
    """What the loader reads, the schema does not underline."""
    jsonschema.validate(yaml.safe_load(text), SCHEMA)
    assert library.load_text(text.encode(), "x").layers
