"""The JSON Schema of each verb's document: answers of many kinds validate, and nothing that is mistyped or missing does."""

import copy
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import kvcalc
from kvcalc.cli.main import run
from kvcalc.views import compare, sweep
from kvcalc.views.document import flat

LOGS = sorted((Path(__file__).parents[1] / "logs").glob("*.log"))
VERBS = ("size", "plan", "sweep", "compare", "tradeoff", "check", "models", "gpus", "verify")

Ask = Callable[..., Any]

# A model for each kind of cache, and what of the memory is asked.
MODELS = (
    "llama3-70b", "gpt2", "gemma2-9b", "openelm-270m", "deepseek-v3", "deepseek-v3.2", "deepseek-v4-pro",
    "jamba-1.5-mini", "mamba-2.8b", "rwkv6-1.6b", "whisper-tiny", "t5-small",
)  # fmt: skip
MEMORY = ("", "--vram 80GB --weights int4 -b 8", "--gpu h100 --explain", "--kv-memory 10GiB --kv-dtype fp8 -c 64k")

# An engine where it has a rule for the model.
ENGINES = (
    "llama3-70b --engine vllm", "llama3-70b --engine vllm --gpu 4xh100 -b 16", "gemma2-9b --engine vllm@0.10 --gpu h100",
    "jamba-1.5-mini --engine vllm --gpu 4xh100", "deepseek-v3.2 --engine vllm --gpu 8xh200",
    "llama3-70b --engine sglang --gpu 4xh100", "jamba-1.5-mini --engine sglang --gpu 4xh100",
    "gpt-oss-20b --engine sglang --gpu h100", "llama3-8b --engine tensorrt-llm --gpu h100",
    "llama3-8b --engine llama.cpp --explain", "mamba-2.8b --engine llama.cpp", "rwkv6-1.6b --engine llama.cpp",
    "gemma2-9b --engine ollama --gpu rtx4090", "gemma2-9b --engine transformers", "whisper-tiny --engine transformers",
    "deepseek-v4-pro --engine transformers", "llama3-8b --engine mlx --vram 24GB", "deepseek-v3.2 --engine mlx",
    "--gpu h100 -- vllm serve meta-llama/Meta-Llama-3-8B --kv-cache-dtype fp8",
)  # fmt: skip

OTHERS = (
    "plan llama3-70b", "plan llama3-70b --users 16 -c 8k --kv-dtype auto,fp8", "plan llama3-70b --vram 80GB",
    "plan llama3-8b --input 1000/4000 --output 300 --rate 2", "plan llama3-8b --engine vllm --gpu l4,h100",
    "plan llama3-8b --input 1000 --output 300 --users 8 --shared-prefix 200 --gpu 2xl4 --overhead 1GB",
    "plan deepseek-v3 --max-gpus 1", "plan llama3-8b --gpu l4 --rate 900 --input 2000 --output 900 --max-gpus 2",
    "plan whisper-tiny", "plan mamba-2.8b --users 4 --utilization 0.8",
    "sweep llama3-8b", "sweep mamba-2.8b -c 1k,8k -b 1,4 --vram 80GB",
    "sweep llama3-8b --engine vllm,sglang --tp 1,2,3 --gpu h100,l4",  # 3 divides no heads: refused cells
    "sweep llama3-70b --weights int4,fp8 --gpu l4 --kv-dtype auto,fp8 -b 1..4:x2",
    "compare llama3-70b mamba-2.8b deepseek-v3 -c 128k", "compare llama3-8b --kv-dtype auto,fp8 --vram 24GB",
    "compare deepseek-v4-pro llama3-8b --engine sglang",  # which has no rule for the first
    "tradeoff llama3-8b", "tradeoff llama3-70b --gpu h100 --tp 4", "tradeoff mamba-2.8b --gpu h100",
    "tradeoff whisper-tiny --gpu h100", "tradeoff deepseek-v3.2 --gpu h200 --tp 8 --input 8k --output 100",
    "models", "models --family llama", "models llama3-70b", "models whisper-tiny", "models rwkv6-1.6b",
    "gpus", "gpus --vendor amd --sort memory", "gpus h100", "gpus m3-max-40", "gpus p5.48xlarge",
)  # fmt: skip

# Section 4 of the contract, and those parts of section 5 that there are.
PROMISED = {
    "size": """
        schema kvcalc_version warnings model.id model.name model.source model.layers model.heads model.kv_heads
        model.head_dim model.attention model.max_context model.parameters request.context request.batch request.k_dtype
        request.v_dtype request.encoder_tokens request.engine request.engine_version request.tp request.pp request.dp
        request.dcp request.block_size kv.bytes_per_token kv.fixed_bytes_per_sequence kv.bytes_per_sequence
        kv.bytes_total kv.bytes_total_per_gpu kv.layers.kind kv.layers.count kv.layers.kv_heads kv.layers.k_dim
        kv.layers.v_dim kv.layers.window kv.layers.bytes_per_token kv.layers.bytes_per_sequence textbook.bytes_per_token
        textbook.bytes_per_sequence textbook.bytes_total textbook.formula fit.vram_bytes_per_gpu fit.gpus fit.utilization
        fit.weights_bytes_per_gpu fit.overhead_bytes_per_gpu fit.kv_budget_bytes_per_gpu fit.max_batch fit.max_context
        fit.capacity_tokens fit.fits fit.binding engine.name engine.version engine.reserved_bytes_total
        engine.reserved_bytes_per_gpu engine.held_bytes_total engine.block_size engine.bytes_per_block
        engine.blocks_per_sequence engine.num_blocks engine.capacity_tokens engine.capacity_tokens_low
        engine.capacity_tokens_high engine.max_concurrency engine.swa_tokens engine.state_slots engine.cells
        engine.streams engine.k_bytes engine.v_bytes engine.state_bytes""",
    "plan": """
        schema kvcalc_version warnings model.id request.context best.gpu options.gpu options.gpus options.tp options.pp
        options.dp options.dcp options.kv_dtype options.weights_dtype options.max_batch options.max_context
        options.capacity_tokens options.kv_budget_bytes_per_gpu options.headroom options.binding options.engine_flags
        options.price_per_hour""",
    "sweep": "schema kvcalc_version warnings model.id request.context rows.context rows.bytes_total rows.fits",
    "compare": "schema kvcalc_version warnings model.id request.pp rows.model rows.bytes_total rows.fits",
    "tradeoff": "schema kvcalc_version warnings model.id request.context flops.token.ratio",
    "check": """
        schema kvcalc_version warnings model.id request.context lines.line lines.engine lines.quantity lines.printed
        lines.predicted lines.low lines.high lines.verdict verdict""",
    "models": "schema kvcalc_version warnings model.id request.name models.name",
    "gpus": "schema kvcalc_version warnings model request.name gpus.name gpu.name",
    "verify": "schema kvcalc_version warnings model.id request.context verdict rows.real_bytes",
}

# What a key may be that need not be there, by the last two parts of its path without indices.
OPTIONAL = {
    "devices", "explain", "savings", *(f"layers.{key}" for key in (
        "encoder_tokens", "rank", "rope", "store", "ratio", "indexer_dim", "recurrent_kind", "conv_elements",
        "conv_dtype", "state_elements", "state_dtype", "shares",
    )), *(f"engine.{key}" for key in (
        "block_size", "bytes_per_block", "blocks_per_sequence", "num_blocks", "capacity_tokens", "capacity_tokens_low",
        "capacity_tokens_high", "max_concurrency", "swa_tokens", "state_slots", "cells", "streams", "k_bytes", "v_bytes",
        "state_bytes", "held_bytes_total",
    )),
}  # fmt: skip
BY_ENGINE = ("engine_flags", "engine_lacks", "servers")  # whose keys are names of engines
OPEN = ("engine", "engine.layers", *BY_ENGINE)

# One answer of each verb, with as much in it as there can be.
RICH = (
    "jamba-1.5-mini --engine vllm --gpu 4xh100 --explain", "plan llama3-8b --input 1000/4000 --output 300 --rate 2",
    "sweep llama3-8b --vram 80GB", "compare llama3-8b gpt2", "tradeoff llama3-8b --gpu h100", f"check {LOGS[0]}",
    "models", "models llama3-70b", "gpus", "gpus h100", "gpus p5.48xlarge",
)  # fmt: skip


@cache
def validator(verb: str) -> Any:
    return jsonschema.Draft202012Validator(kvcalc.schema(verb))


def verb_of(document: Any) -> str:
    return str(document["schema"]).removeprefix("kvcalc.").removesuffix("/1")


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The document that a command line answers with."""

    def ask(line: str) -> Any:
        words = line.split()
        dashes = words.index("--") if "--" in words else len(words)
        assert run([*words[:dashes], "--json", *words[dashes:]]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    return ask


@pytest.mark.parametrize("verb", VERBS)
def test_the_schemas_are_sound(verb: str) -> None:
    """Each is a schema of draft 2020-12."""
    jsonschema.Draft202012Validator.check_schema(kvcalc.schema(verb))


def test_a_verb_without_documents_is_refused() -> None:
    """`preset` writes YAML: the error names the verbs that have a schema."""
    with pytest.raises(kvcalc.KvcalcError, match=r"verb: expected one of size, plan, .*verify, got 'preset'"):
        kvcalc.schema("preset")


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("model", MODELS)
def test_sizes_validate(ask: Ask, model: str, memory: str) -> None:
    """Every kind of model, with and without a budget and an explanation."""
    validator("size").validate(ask(f"{model} {memory}"))


@pytest.mark.parametrize("line", [*ENGINES, *OTHERS, *(f"check {log}" for log in LOGS)])
def test_answers_validate(ask: Ask, line: str) -> None:
    """Every verb, in each form of its answers, by the schema that the document names."""
    document = ask(line)
    validator(verb_of(document)).validate(document)


def short(value: Any) -> Any:
    """A document with one item of each list, the last: that says as much of keys."""
    if isinstance(value, dict):
        return {key: short(below) for key, below in value.items()}
    return [short(below) for below in value[-1:]] if isinstance(value, list) else value


def objects(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every mapping in a document with its path, which leaves indices out."""
    if isinstance(value, dict):
        yield path, value
        for key, below in value.items():
            yield from objects(below, (*path, key))
    elif isinstance(value, list):
        for below in value:
            yield from objects(below, path)


@pytest.mark.parametrize("line", RICH)
def test_an_unknown_key_does_not_validate(ask: Ask, line: str) -> None:
    """One key more in any part of a document, but for those that an engine adds to."""
    document = short(ask(line))
    schema = validator(verb_of(document))
    schema.validate(document)
    accepted = set()
    for path, found in objects(document):
        found["mistyped"] = 1
        if schema.is_valid(document):
            accepted.add(".".join(path))
        del found["mistyped"]
    assert {path.removeprefix("best.").removeprefix("options.") for path in accepted} <= set(OPEN)


@pytest.mark.parametrize("line", RICH)
def test_a_missing_key_does_not_validate(ask: Ask, line: str) -> None:
    """Any key of a document, unless only some answers have it."""
    document = short(ask(line))
    schema, missed = validator(verb_of(document)), set()
    for path, found in objects(document):
        for key in [*found]:
            before = copy.copy(found)
            del found[key]
            if schema.is_valid(document) and path[-1:] not in [(each,) for each in BY_ENGINE]:
                missed.add(".".join((*path, key)[-2:]))
            found.clear()
            found.update(before)
    own = {"groups", "kv_bytes", "max_model_len"}  # of vLLM alone
    assert {key for key in missed if key.split(".")[-1] not in own} <= OPTIONAL


def test_what_an_engine_adds_is_flat_and_bytes_are_whole(ask: Ask) -> None:
    """The open parts take numbers and texts, but no parts of their own, and no half bytes."""
    document, schema = ask("llama3-8b --engine vllm"), validator("size")
    for key, value, sound in (("own", 1, True), ("own", "x", True), ("own", {}, False), ("own_bytes", 0.5, False)):
        engine = {**document["engine"], key: value}
        assert schema.is_valid({**document, "engine": engine}) is sound
    layers = [{**document["engine"]["layers"][0], "own": "x"}]
    assert not schema.is_valid({**document, "engine": {**document["engine"], "layers": layers}})


def keys(verb: str) -> dict[str, list[Any]]:
    """Every key that a schema has, as a dotted path without indices, with its schemas."""
    whole = kvcalc.schema(verb)
    found: dict[str, list[Any]] = {}

    def walk(schema: Any, path: str) -> None:
        for each in schema.get("anyOf", ()):
            walk(each, path)
        if "$ref" in schema:
            walk(whole["$defs"][schema["$ref"].rsplit("/", 1)[-1]], path)
        if "items" in schema:
            walk(schema["items"], path)
        for key, below in schema.get("properties", {}).items():
            found.setdefault(f"{path}.{key}".strip("."), []).append(below)
            walk(below, f"{path}.{key}")

    walk(whole, "")
    return found


@pytest.mark.parametrize("verb", PROMISED)
def test_promised_keys_are_there(verb: str) -> None:
    """Every key that users were promised."""
    assert sorted(set(PROMISED[verb].split()) - set(keys(verb))) == []


@pytest.mark.parametrize("verb", VERBS)
def test_bytes_are_integers(verb: str) -> None:
    """Under every key that contains `bytes`, but for rates, there is an integer or nothing."""
    bytes_keys = {path: below for path, below in keys(verb).items() if "bytes" in path.rsplit(".", 1)[-1]}
    kinds = {
        path: each.get("type")
        for path, below in bytes_keys.items()
        for each in below
        if not path.endswith("_per_second")
    }
    allowed = ("integer", ["integer", "null"])
    assert {path: kind for path, kind in kinds.items() if kind not in allowed} == {}
    assert kinds or verb == "check"


def test_columns_are_the_keys_of_rows() -> None:
    """The columns of `sweep` and `compare` are typed apart from their rows, so that these may be written one by one."""
    for verb, columns in (("sweep", sweep.KEYS), ("compare", compare.KEYS)):
        rows = kvcalc.schema(verb)["$defs"][f"{verb.title()}Row"]
        assert (tuple(rows["properties"]), tuple(rows["required"])) == (columns, columns)


@pytest.mark.parametrize(
    ("verb", "part"),
    [("size", "textbook"), ("size", "fit"), ("size", "engine"), *(("tradeoff", part) for part in ("memory", "seconds", "prefix"))],
)  # fmt: skip
def test_columns_of_what_is_null_are_keys(verb: str, part: str) -> None:
    """CSV has the columns of a part also where it is null."""
    columns = {path for path, _ in flat({part: None})}
    assert len(columns) > 3
    assert sorted(columns - set(keys(verb))) == []
