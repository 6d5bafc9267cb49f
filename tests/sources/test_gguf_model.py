"""The metadata of GGUF files as presets: facts, and what is refused."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.sources.gguf.families import FAMILIES, NO_CACHE
from kvcalc.sources.gguf.header import LongArray
from kvcalc.sources.gguf.model import preset_from_gguf

from ..examples import examples
from .gguf_models import (
    DSV4,
    EVERYTHING,
    HEADS,
    INDEX,
    KDA,
    MIXED,
    MLA,
    SSM,
    WINDOW,
    metadata,
    model_of,
    outcome,
    own,
    preset,
    refusal,
    refused,
)


@pytest.mark.parametrize("arch", sorted(NO_CACHE))
def test_architectures_without_a_cache(arch):
    """Encoders, diffusion models, draft models and projectors are refused with the reason."""
    message = refusal({"general.architecture": arch}, "there is nothing to size")
    assert (
        message == f"m.gguf: general.architecture: expected a language model with a cache, got {arch}, {NO_CACHE[arch]}"
    )


def test_unknown_architectures():
    """What is not known is never sized by a naive formula: it is refused, with the nearest name and a way out."""
    message = refusal(
        {"general.architecture": "qwen33", "qwen33.block_count": 3}, "it looks like qwen3; size it from the model's"
    )
    assert message == "m.gguf: general.architecture: expected an architecture that is known here, got 'qwen33'"
    assert refusal({}).endswith("known here, got nothing")
    assert refusal({"general.architecture": ["llama"]}).endswith("known here, got a list")
    assert refusal({"general.type": "adapter"}) == "m.gguf: general.type: expected model, got 'adapter'"
    assert "attention.causal: expected a decoder" in refused("qwen2", 3, HEADS, {"attention.causal": False})


@pytest.mark.parametrize("key", [
    "attention.kv_lora_rank", "attention.sliding_window", "attention.sliding_window_pattern", "attention.shared_kv_layers",
    "attention.something_new", "ssm.state_size", "kv_share_factor", "window_size", "layer_pattern", "kda.head_dim",
    "attention.indexer.key_length", "attention.compress_ratios", "num_loops", "full_attention_interval",
])  # fmt: skip
def test_keys_that_could_change_the_cache(key):
    """A key that could change the cache and is not understood refuses the file, unless its value switches it off."""
    assert refused("qwen3", 3, HEADS, {key: 7}) == (
        f"m.gguf: qwen3.{key}: expected a key whose effect on the cache is known here, got 7"
    )
    for off in (0, False, [0, False]):
        assert preset("qwen3", 3, HEADS, {key: off})["layers"] == "3 full"
    assert "got 9 texts" in refused("qwen3", 3, HEADS, {key: LongArray("texts", 9)})


@pytest.mark.parametrize("key", [
    "vocab_size", "rope.freq_base", "rope.dimension_count_swa", "attention.scale", "attention.q_lora_rank",
    "expert_shared_count", "expert_chunk_feed_forward_length", "final_logit_softcapping", "adapters.lora_rank",
    "leading_dense_block_count", "hash_layer_count", "attention.temperature_scale",
])  # fmt: skip
def test_keys_of_no_consequence(key):
    """Keys about positions, experts and scales are passed over."""
    assert preset("qwen3", 3, HEADS, {key: 7})["layers"] == "3 full"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"block_count": 0}, "block_count: expected a number from 1 to 512, got 0"),
        ({"block_count": 513}, "block_count: expected a number from 1 to 512, got 513"),
        ({"block_count": 2.0}, "block_count: expected a number from 1 to 512, got 2.0"),
        ({"block_count": True}, "block_count: expected a number from 1 to 512, got True"),
        ({"block_count": None}, "block_count: expected a number, got nothing"),
        ({"attention.head_count": "8"}, "attention.head_count: expected a number from 0 to 16,777,216, got '8'"),
        ({"attention.head_count": None}, "attention.key_length: expected a number above zero, got nothing"),
        ({"attention.head_count_kv": [2, 2]}, "attention.head_count_kv: expected 3 numbers, one for each layer, got a list"),
        ({"attention.head_count_kv": [2, 2, -1]}, "attention.head_count_kv: expected numbers from 0 to 16,777,216, got a list"),
        ({"attention.head_count_kv": [2, 2.0, 1]}, "attention.head_count_kv: expected numbers from 0 to 16,777,216, got a list"),
        ({"attention.head_count_kv": LongArray("numbers", 5000)}, "attention.head_count_kv: expected a number from 0 to 16,777,216, got 5,000 numbers"),
        ({"attention.head_count_kv": 3}, "attention.head_count_kv: expected divisors of the query heads, 8 in block 0, got 3"),
        ({"embedding_length": 7}, "attention.key_length: expected a number above zero, got nothing"),
        ({"attention.key_length": 0}, "attention.key_length: expected a number above zero, got 0"),
        ({"context_length": 0}, "context_length: expected a number from 1 to 1,099,511,627,776, got 0"),
        ({"context_length": -5}, "context_length: expected a number from 1 to 1,099,511,627,776, got -5"),
    ],
)  # fmt: skip
def test_values_that_cannot_be(keys, message):
    """A value of another type, or out of range, is refused with its key, what was expected and what stands there."""
    data = {key: value for key, value in {"block_count": 3, **HEADS, **keys}.items() if value is not None}
    assert refusal(metadata("qwen3", data)) == f"m.gguf: qwen3.{message}"


@pytest.mark.parametrize(
    ("arch", "keys", "message"),
    [
        ("gpt-oss", HEADS, "gpt-oss.attention.sliding_window: expected the window in tokens, got nothing"),
        ("mimo2", {**HEADS, **WINDOW}, "attention.sliding_window_pattern: expected a list with one entry for each layer, got nothing"),
        ("mimo2", {**HEADS, **WINDOW, "attention.sliding_window_pattern": 2}, "expected a list with one entry for each layer, got 2"),
        ("gemma3", {**HEADS, **WINDOW, "attention.sliding_window_pattern": [1]}, "expected 3 numbers, one for each layer"),
        ("nemotron_h", {**MIXED, **SSM, "feed_forward_length": 32}, "expected one number for each block, 0 for attention"),
        ("mamba2", {**SSM, "ssm.time_step_rank": 33}, "expected a divisor of ssm.inner_size, 4,096, got 33"),
        ("rwkv6", {"embedding_length": 512, "wkv.head_size": 64, "token_shift_count": 3}, "expected 1 or 2, got 3"),
        ("arwkv7", {"embedding_length": 512, "wkv.head_size": 63, "token_shift_count": 1}, "expected a divisor of the width, 512"),
        ("kimi-k3", {**MLA, **KDA, "attention.head_count": 0}, "attention.head_count: expected a number above zero, got 0"),
        ("qwen4exp", {**HEADS, **SSM, **INDEX, "ple.layers": [9]}, "expected one block below 3"),
        ("dots3note", {**MLA, **INDEX, **WINDOW}, "attention.sliding_window_pattern: expected a list"),
        ("deepseek4", {**DSV4, "attention.head_count": 0}, "attention.head_count: expected a number above zero in block 0"),
        ("mamba", SSM, "mamba.ssm.group_count: expected a key whose effect on the cache is known here, got 16"),
    ],
)  # fmt: skip
def test_what_an_architecture_cannot_do_without(arch, keys, message):
    """A key that an architecture needs, or a value that it cannot have, is named."""
    assert message in refused(arch, 3, keys)


def test_facts_of_the_file():
    """Names, limits, sums and provenance come from the file; the dtype, which GGUF does not say, is noted."""
    data = preset_from_gguf(
        metadata("qwen3", {"block_count": 1, "context_length": 40960}, HEADS) | {"general.name": " Qwen3  0.6B "},
        file="models/x.gguf", weights_bytes=378_000_000, parameters=596_049_920,
    )  # fmt: skip
    assert list(data) == ["name", "model_type", "gguf", "source", "confidence", "note", "dtype", "parameters",
                          "weights_bytes", "dimensions", "max_context", "heads", "kv_heads", "head_dim",
                          "layers"]  # fmt: skip
    assert (data["name"], data["model_type"], data["gguf"]) == ("Qwen3 0.6B", "qwen3", "qwen3")
    assert (data["source"], data["confidence"], data["dtype"]) == ("models/x.gguf", "config file read", "fp16")
    assert data["note"] == "GGUF does not say in what the model computes: fp16 is the dtype that llama.cpp caches in."
    assert (data["parameters"], data["weights_bytes"], data["max_context"]) == (596_049_920, 378_000_000, 40_960)
    assert model_of(data).weights_bytes == 378_000_000


@pytest.mark.parametrize("name", [None, "", " \n", "\x1b[2J", "x" * 121, 7])
def test_a_name_that_cannot_be_shown(name):
    """Without a printable name of one line, the file's name stands for it."""
    data = metadata("qwen3", {"block_count": 1}, HEADS) | ({} if name is None else {"general.name": name})
    assert preset_from_gguf(data, file="a/Some-Q4_K_M.gguf", weights_bytes=None)["name"] == "Some-Q4_K_M"
    assert preset_from_gguf(data, file="\x1b.gguf", weights_bytes=None)["source"] == "\\x1b.gguf"


@pytest.mark.parametrize(
    ("arch", "keys", "model_type"),
    [("llama", {}, None), ("olmo2", {}, "olmo2"), ("olmo2", WINDOW, "olmo3"), ("qwen3moe", {}, "qwen3_moe"), ("gemma", {}, "gemma")],
)  # fmt: skip
def test_model_types(arch, keys, model_type):
    """The model type is given where an architecture can be nothing else."""
    assert preset(arch, 4, HEADS, keys).get("model_type") == model_type


@pytest.mark.parametrize("arch", sorted(FAMILIES))
def test_every_architecture_gives_a_preset_that_loads(arch):
    """From a file that has every key, each architecture takes its own and refuses the others; with its own it loads."""
    model = model_of(outcome(own(arch)))
    assert model.gguf == arch
    assert re.fullmatch(
        r"([^.;]|\.(?=\w)|\. (?=[A-Zl]))+\.", model.note
    )  # sentences, with `llama.cpp` at the start of some
    assert len(model.layers) == (5 if arch == "graniteswitch" else 4)


OWN = {arch: own(arch) for arch in sorted(FAMILIES)}
NAMES = [
    *sorted(EVERYTHING), "nextn_predict_layers", "num_loops", "decoder_block_count", "token_shift_count", "full_attention_interval",
    "leading_dense_block_count", "context_length", "rope.dimension_count", "attention.shared_kv_layers",
    "attention.recurrent_layers", "ple.layers", "block_count",
]  # fmt: skip
VALUES = st.one_of(
    st.integers(0, 5), st.sampled_from([64, 128, 2**24, 2**32, -1, True, 0.5, "x", 2**63]),
    st.lists(st.integers(0, 8), min_size=4, max_size=4),
)  # fmt: skip


@settings(max_examples=examples(400))
@given(st.sampled_from(sorted(FAMILIES)), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
def test_any_values_give_a_preset_that_loads_or_one_line(arch, changes):
    """Whatever the values, either a preset comes out that loads without a problem, or one line that names a key."""
    found = outcome({**OWN[arch], **metadata(arch, changes)})
    if isinstance(found, str):
        assert found.isprintable()
    else:
        assert model_of(found).gguf == arch
