"""The JSON of the default verb, key by key as the contract has it, and `--get`, which picks from it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kvcalc

from .conftest import Call

QUESTION = ["llama3-70b", "--batch", "8", "--vram", "80GB", "--tp", "8"]

# Contract, section 4: every documented path, with the value for QUESTION. Weights: 70.55e9 x 2 / 8 bytes a GPU; of the
# 62,362,500,000 bytes left, one sequence on one GPU takes 80 layers x 1 head x 256 x 2 x 4,096 = 167,772,160.
VALUES: dict[str, Any] = {
    "schema": "kvcalc.size/1",
    "model.id": "meta-llama/Meta-Llama-3-70B",
    "model.name": "Llama 3 70B",
    "model.layers": 80,
    "model.heads": 64,
    "model.kv_heads": 8,
    "model.head_dim": 128,
    "model.attention": "gqa",
    "model.max_context": 8192,
    "model.parameters": 70_550_000_000,
    "request.context": 4096,
    "request.batch": 8,
    "request.k_dtype": "bf16",
    "request.v_dtype": "bf16",
    "request.encoder_tokens": None,
    "request.engine": None,
    "request.engine_version": None,
    "request.tp": 8,
    "request.pp": 1,
    "request.dp": 1,
    "request.dcp": 1,
    "request.block_size": None,
    "kv.bytes_per_token": 327_680,
    "kv.fixed_bytes_per_sequence": 0,
    "kv.bytes_per_sequence": 1_342_177_280,
    "kv.bytes_total": 10_737_418_240,
    "kv.bytes_total_per_gpu": 1_342_177_280,
    "kv.layers.0.kind": "full",
    "kv.layers.0.count": 80,
    "kv.layers.0.kv_heads": 8,
    "kv.layers.0.k_dim": 128,
    "kv.layers.0.v_dim": 128,
    "kv.layers.0.window": None,
    "kv.layers.0.bytes_per_token": 327_680,
    "kv.layers.0.bytes_per_sequence": 1_342_177_280,
    "textbook.bytes_per_token": 2_621_440,
    "textbook.bytes_per_sequence": 10_737_418_240,
    "textbook.bytes_total": 85_899_345_920,
    "fit.vram_bytes_per_gpu": 80_000_000_000,
    "fit.gpus": 8,
    "fit.utilization": 1.0,
    "fit.weights_bytes_per_gpu": 17_637_500_000,
    "fit.overhead_bytes_per_gpu": 0,
    "fit.kv_budget_bytes_per_gpu": 62_362_500_000,
    "fit.max_batch": 371,
    "fit.max_context": 8192,
    "fit.capacity_tokens": 1_522_521,
    "fit.fits": True,
    "fit.binding": "kv",
    "engine": None,
    "warnings": [],
}
TEXTS = ["kvcalc_version", "model.source", "textbook.formula"]


@pytest.fixture
def document(call: Call) -> Callable[..., Any]:
    """The JSON that a command line answers with."""

    def document(*argv: str) -> Any:
        return json.loads(call(*argv, "--json").out)

    return document


def at(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document[int(part)] if part.isdigit() else document[part]
    return document


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value with its path."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield from leaves(below, f"{path}.{key}".strip("."))
    if not isinstance(value, dict | list):
        yield path, value


@pytest.mark.parametrize("path", VALUES)
def test_every_documented_key_has_its_value(document: Callable[..., Any], path: str) -> None:
    """Each key of the contract holds the hand-computed value, in the right JSON type."""
    value = at(document(*QUESTION), path)
    assert (value, type(value)) == (VALUES[path], type(VALUES[path]))


@pytest.mark.parametrize("path", TEXTS)
def test_every_documented_text_is_there(document: Callable[..., Any], path: str) -> None:
    """Version, source and formula are texts that say something."""
    value = at(document(*QUESTION), path)
    assert isinstance(value, str)
    assert len(value) > 3


@pytest.mark.parametrize("path", VALUES)
def test_get_prints_one_value_raw(call: Call, path: str) -> None:
    """`--get` prints a text or number as it is, and null, true and lists as JSON has them."""
    value = VALUES[path]
    assert call(*QUESTION, "--get", path) == (0, (value if isinstance(value, str) else json.dumps(value)) + "\n", "")


@pytest.mark.parametrize("path", TEXTS)
def test_get_prints_texts_without_quotes(call: Call, document: Callable[..., Any], path: str) -> None:
    """A text comes out as a shell wants it."""
    assert call(*QUESTION, "--get", path) == (0, at(document(*QUESTION), path) + "\n", "")


@pytest.mark.parametrize("path", ["kv.layers", "model", "fit", "request", "kv.layers.0"])
def test_get_prints_lists_and_mappings_as_json(call: Call, document: Callable[..., Any], path: str) -> None:
    """A list, or a part of the document, is printed as JSON in one line."""
    result = call(*QUESTION, "--get", path)
    assert (json.loads(result.out), result.out.count("\n")) == (at(document(*QUESTION), path), 1)


@pytest.mark.parametrize(
    "path",
    ["kv.bytes_totl", "kv.layers.1", "kv.layers.-1", "kv.layers.one", "kv.bytes_total.x", "", ".", "kv.", "kv..x", "KV",
     "kv.layers.99999999999999999999", "warnings.0", "kv.layers.²"],
)  # fmt: skip
def test_an_unknown_key_is_a_usage_error(call: Call, path: str) -> None:
    """A path that leads nowhere exits 2 with nothing on standard output."""
    result = call(*QUESTION, "--get", path)
    assert (result.status, result.out, result.err.startswith("kvcalc: error: ")) == (2, "", True)


@pytest.mark.parametrize("key", ["max_batch", "max_context", "capacity_tokens", "fits", "binding", "gpus", "nonsense"])
def test_fit_without_a_budget_is_a_usage_error(call: Call, key: str) -> None:
    """What fits cannot be asked without saying into what: exit 2, and the hint names the options."""
    result = call("llama3-70b", "--get", f"fit.{key}")
    assert (result.status, result.out, "--vram" in result.err) == (2, "", True)


def test_fit_is_null_without_a_budget(document: Callable[..., Any]) -> None:
    """Without a budget the key is there and null."""
    assert document("llama3-70b")["fit"] is None


def test_get_prints_a_line_for_each_key_and_each_entry(call: Call) -> None:
    """Several keys in the order in which they are asked for, and a * for each entry of a list."""
    assert call("llama3-8b", "--get", "kv.bytes_total", "--get", "kv.layers.0.kind").out == "536870912\nfull\n"
    assert call("gemma3-27b", "--get", "kv.layers.*.kind").out == "sliding\nfull\n"
    assert call("llama3-8b", "--get", "kv.*.kind").err.startswith("kvcalc: error: --get: 'kv.*.kind' asks for each")


def test_get_keeps_the_exit_status_of_the_answer(call: Call) -> None:
    """A value picked from an answer that says no still exits 1."""
    assert call("llama3-70b", "--vram", "80GB", "--get", "fit.max_batch") == (1, "0\n", "")


@pytest.mark.parametrize(
    ("model", "attention"),
    [("gpt2", "mha"), ("falcon-7b", "mqa"), ("llama3-70b", "gqa"), ("mistral-7b-v0.1", "gqa"), ("deepseek-v3", "mla"),
     ("jamba-1.5-mini", "hybrid"), ("mamba-2.8b", "ssm"), ("rwkv6-1.6b", "ssm"), ("whisper-tiny", "encoder-decoder"),
     ("t5-small", "encoder-decoder"), ("gemma2-9b", "gqa"), ("kimi-linear-48b", "hybrid"), ("deepseek-v3.2", "mla")],
)  # fmt: skip
def test_the_attention_word(call: Call, model: str, attention: str) -> None:
    """Each model is of one of the seven classes; windowed ones keep mha, mqa or gqa."""
    assert call(model, "--get", "model.attention").out == f"{attention}\n"


def test_a_latent_model_has_one_head_of_latent_and_rope(document: Callable[..., Any]) -> None:
    """DeepSeek V3: kv_heads 1, head_dim 512 + 64, and a latent of 61 x 576 x 2 bytes a token."""
    found = document("deepseek-v3")
    assert (found["model"]["heads"], found["model"]["kv_heads"], found["model"]["head_dim"]) == (128, 1, 576)
    assert (found["kv"]["bytes_per_token"], found["kv"]["layers"][0]["kind"]) == (70_272, "latent")
    # 61 layers x 128 heads x (192 + 128) per-head widths before compression x 2 bytes
    assert found["textbook"]["bytes_per_token"] == 4_997_120


def test_values_that_differ_by_layer_are_null(document: Callable[..., Any]) -> None:
    """OpenELM has 12 to 20 heads: null at the top, each number in its group of layers."""
    found = document("openelm-270m")
    assert (found["model"]["heads"], found["model"]["kv_heads"], found["model"]["head_dim"]) == (None, None, 64)
    assert [(group["count"], group["kv_heads"]) for group in found["kv"]["layers"]] == [(5, 3), (7, 4), (4, 5)]
    # (5 x 3 + 7 x 4 + 4 x 5) KV heads x (64 + 64) x 2 bytes
    assert found["kv"]["bytes_per_token"] == 63 * 256


def test_a_window_splits_slope_and_fixed_part(document: Callable[..., Any]) -> None:
    """Gemma 2 9B past its window: 21 full layers grow by 8,192 bytes a token, 21 windows of 4,096 stay."""
    found = document("gemma2-9b", "-c", "8k")
    assert (found["kv"]["bytes_per_token"], found["kv"]["fixed_bytes_per_sequence"]) == (172_032, 704_643_072)
    assert found["kv"]["bytes_per_sequence"] == 172_032 * 8192 + 704_643_072
    assert [(group["kind"], group["count"], group["window"]) for group in found["kv"]["layers"]] == [
        ("sliding", 21, 4096),
        ("full", 21, None),
    ]
    # windows do not shorten the textbook: 42 layers x 16 heads x (256 + 256) x 2 bytes
    assert found["textbook"]["bytes_per_token"] == 688_128


@pytest.mark.parametrize(
    ("tokens", "slope", "total"), [(4095, 131_072, 536_739_840), (4096, 0, 536_870_912), (8192, 0, 536_870_912)]
)
def test_a_full_window_stops_growing(document: Callable[..., Any], tokens: int, slope: int, total: int) -> None:
    """Mistral 7B v0.1 keeps 4,096 tokens of 131,072 bytes, and no more."""
    kv = document("mistral-7b-v0.1", "-c", str(tokens))["kv"]
    assert (kv["bytes_per_token"], kv["bytes_total"]) == (slope, total)


def test_an_index_key_keeps_its_own_format(document: Callable[..., Any]) -> None:
    """DeepSeek V3.2: 61 x (576 x 1 + 132) bytes with an fp8 cache, the 132 being as in bf16."""
    found = document("deepseek-v3.2", "--kv-dtype", "fp8")["kv"]
    assert found["bytes_per_token"] == 61 * (576 + 132)
    assert {group["kind"]: group["bytes_per_token"] for group in found["layers"]} == {
        "latent": 35_136,
        "indexer": 8_052,
    }


@pytest.mark.parametrize("model", kvcalc.models())
def test_groups_of_layers_add_up(document: Callable[..., Any], model: str) -> None:
    """The groups hold the whole cache, and slope x context + fixed part is the size once every window is full."""
    kv = document(model, "-c", str(2**24))["kv"]
    assert sum(group["bytes_per_sequence"] for group in kv["layers"]) == kv["bytes_per_sequence"]
    slopes = sum(group["bytes_per_token"] for group in kv["layers"])
    assert 0 <= slopes - kv["bytes_per_token"] < len(kv["layers"])  # each rounded up once, and the sum as well
    rest = kv["bytes_per_token"] * 2**24 + kv["fixed_bytes_per_sequence"] - kv["bytes_per_sequence"]
    assert 0 <= rest < 2**24  # the slope is rounded up to a byte


@pytest.mark.parametrize(
    "model", ["llama3-70b", "gemma2-9b", "deepseek-v3.2", "deepseek-v4-pro", "whisper-tiny", "mamba-2.8b"]
)
def test_bytes_are_whole_numbers(document: Callable[..., Any], model: str) -> None:
    """Every value under a key with `bytes` is an integer or null, also with a budget and an explanation."""
    found = list(
        leaves(document(model, "--vram", "80GB", "--utilization", "0.93", "--overhead", "1.5GiB", "--explain"))
    )
    amounts = [(path, value) for path, value in found if "bytes" in path.rsplit(".", 1)[-1]]
    assert len(amounts) > 10
    assert [(path, value) for path, value in amounts if value is not None and type(value) is not int] == []


def test_the_request_holds_every_input_in_force(document: Callable[..., Any]) -> None:
    """What was asked, defaults filled in, stands in the answer."""
    argv = [
        "-c",
        "2k",
        "-b",
        "6",
        "--k-dtype",
        "fp8",
        "--v-dtype",
        "Q8_0",
        "--tp",
        "2",
        "--pp",
        "2",
        "--dp",
        "3",
        "--dcp",
        "1",
    ]
    request = document("llama3-70b", *argv)["request"]
    assert [request[key] for key in ("context", "batch", "k_dtype", "v_dtype", "tp", "pp", "dp", "dcp")] == [
        2048, 6, "fp8", "q8_0", 2, 2, 3, 1
    ]  # fmt: skip
