"""Every shipped preset: it loads, it is written the one way, and it says where its facts were read."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from kvcalc.cli.group import VERBS
from kvcalc.core import request
from kvcalc.core.formula import recurrent_state
from kvcalc.core.kinds import attention_class, kind
from kvcalc.core.model import Attention, Indexer, Kind, Latent, Model, Recurrent
from kvcalc.core.sizing import measure
from kvcalc.library import loader
from kvcalc.preset.canonical import canonical_text

FOLDER = Path(__file__).resolve().parents[2] / "presets"
FILES = {path.stem: path for path in sorted(FOLDER.glob("*.yaml"))}
EVERY = pytest.mark.parametrize("name", FILES)


def test_there_are_enough() -> None:
    """At least 150 models ship, and beside them lie a README, the schema for editors and the accelerators."""
    assert len(FILES) >= 150
    others = {path.name for path in FOLDER.iterdir()} - {path.name for path in FILES.values()}
    assert others == {"README.md", "schema.json", "gpus.json", "machines.json"}


@EVERY
def test_loads(name: str) -> None:
    """A shipped preset has no fault, a repeated or unknown key included, and can be sized with every default."""
    assert loader.problems_of(str(FILES[name])) == []
    assert measure(request.ask(loader.load(name))).bytes_total > 0


@EVERY
def test_canonical(name: str) -> None:
    """A shipped preset is written in the canonical form, full-line comments aside."""
    text = FILES[name].read_text(encoding="utf-8")
    written = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    assert written == canonical_text(yaml.safe_load(text))


@EVERY
def test_name_rule(name: str) -> None:
    """A preset's name is lower case and has a digit or a hyphen."""
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", name)
    assert re.search(r"[0-9-]", name)
    assert loader.name_fault(name) is None


@EVERY
def test_provenance(name: str) -> None:
    """A preset says where its facts were read, how good that is, the model type and the number of parameters."""
    model = loader.load(name)
    assert [key for key in ("source", "confidence", "model_type", "parameters") if not getattr(model, key)] == []


@EVERY
def test_widths_are_read_somewhere(name: str) -> None:
    """Widths of weights come from the configuration that `source` names, or `dimensions_source` says from where."""
    model = loader.load(name)
    if model.dimensions is None:
        assert (model.dimensions_source, model.encoder_parameters) == (None, None)
        return
    read = model.confidence in ("config file read", "config excerpt read")
    said = model.dimensions_source or (model.source if read else "") or ""
    assert 0 < len(said) < 160
    assert "from memory" not in said
    assert not said.startswith(("/", "~"))


@EVERY
def test_holds_only_facts(name: str) -> None:
    """A shipped preset leaves out the default length and stands on its own."""
    assert {"context", "base"} & set(yaml.safe_load(FILES[name].read_text(encoding="utf-8"))) == set()


@EVERY
def test_hub_ids_find_it(name: str) -> None:
    """Each hub id of a preset leads to it."""
    assert {loader.load(one).origin for one in loader.load(name).ids} <= {name}


def test_hub_ids_are_unique() -> None:
    """No two presets claim the same hub id."""
    ids = Counter(one.lower() for name in FILES for one in loader.load(name).ids)
    assert [one for one, count in ids.items() if count > 1] == []
    assert [one for one in ids if not re.fullmatch(r"[\w.-]+/[\w.-]+", one)] == []


def test_names_are_unique() -> None:
    """No two presets share a name once case and separators are dropped."""
    squashed = Counter(loader.squash(name) for name in FILES)
    assert [name for name, count in squashed.items() if count > 1] == []


def test_no_name_is_a_verb() -> None:
    """Every verb is one word of letters, which no preset's name can be."""
    assert [verb for verb in VERBS if not re.fullmatch("[a-z]+", verb)] == []
    assert set(FILES) & set(VERBS) == set()
    assert [verb for verb in VERBS if loader.name_fault(verb) is None] == []


def test_every_kind_occurs() -> None:
    """Each kind of cache and each class of attention has a shipped example."""
    models = [loader.load(name) for name in FILES]
    assert {kind(cache) for model in models for cache in model.caches()} == set(get_args(Kind))
    classes = {"mha", "mqa", "gqa", "mla", "hybrid", "ssm", "encoder-decoder"}
    assert {attention_class(model) for model in models} == classes


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama2-7b", "mha"), ("llama3-70b", "gqa"), ("falcon-7b", "mqa"), ("deepseek-v3", "mla"),
        ("deepseek-v3.2", "mla"), ("gemma3-27b", "gqa"), ("mistral-7b-v0.1", "gqa"), ("jamba-1.5-mini", "hybrid"),
        ("kimi-linear-48b", "hybrid"), ("codestral-mamba-7b", "ssm"), ("t5-small", "encoder-decoder"),
        ("whisper-large-v3", "encoder-decoder"), ("llama3.2-11b-vision", "gqa"), ("nemotron-super-49b", "gqa"),
    ],
)  # fmt: skip
def test_attention_class(name: str, expected: str) -> None:
    """Windows do not change the class; attention and recurrence together are hybrid; cross-only layers are no decoder."""
    assert attention_class(loader.load(name)) == expected


def elements(model: Model) -> dict[str, int]:
    """The facts of a model as the maintainers' table has them: elements by their fate, whatever the dtype."""
    found = {"layers": len(model.layers), "unbounded": 0, "windowed": 0, "state": 0}
    for cache in model.caches():
        match cache:
            case Attention(pattern="full" | "sliding" | "chunked" as pattern):
                fate = "unbounded" if pattern == "full" else "windowed"
                found[fate] += cache.kv_heads * (cache.k_dim + cache.v_dim)
            case Latent():
                found["unbounded"] += cache.rank + cache.rope
            case Indexer():
                found["unbounded"] += cache.dim
            case Recurrent():
                state = recurrent_state(cache)
                found["state"] += state.conv_width * state.columns + state.state
    return found


def rows_of(model: Model, table: list[Any]) -> list[Any]:
    """The rows of the maintainers' table that have a hub id of the model and figures to compare."""
    ids = {one.lower() for one in model.ids}
    return [
        row
        for row in table
        if str(row["hub_id"]).lower() in ids and "kv_elements_per_token_unbounded" in row["derived"]
    ]


def test_the_table_of_models_knows_most(shared_json: Callable[[str], Any]) -> None:
    """Many presets are found in the maintainers' table, so that the next test compares something."""
    table = shared_json("models/models.json")
    found = [name for name in FILES if rows_of(loader.load(name), table)]
    assert len(found) >= 225


@EVERY
def test_agrees_with_the_table_of_models(name: str, shared_json: Callable[[str], Any]) -> None:
    """Layers, elements a token and state agree with the maintainers' table wherever a hub id matches."""
    model = loader.load(name)
    for row in rows_of(model, shared_json("models/models.json")):
        derived = row["derived"]
        expected = {
            "layers": row["num_hidden_layers"],
            "unbounded": derived["kv_elements_per_token_unbounded"],
            "windowed": derived.get("kv_elements_per_token_windowed", 0),
            "state": derived.get("fixed_state_elements_per_sequence", 0),
        }
        assert (row["hub_id"], elements(model)) == (row["hub_id"], expected)
