"""Metadata of GGUF files by architecture, and the presets they become, for tests."""

import re

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources.gguf.model import preset_from_gguf

HEADS = {"attention.head_count": 8, "attention.head_count_kv": 2, "embedding_length": 512}
SSM = {"ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.time_step_rank": 32,
       "ssm.group_count": 16}  # fmt: skip
MLA = {"attention.head_count": 16, "attention.head_count_kv": 1, "attention.key_length": 576,
       "attention.value_length": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
       "attention.kv_lora_rank": 512}  # fmt: skip
KDA = {"ssm.conv_kernel": 4, "kda.head_dim": 128}
INDEX = {"attention.indexer.head_count": 64, "attention.indexer.key_length": 128, "attention.indexer.top_k": 2048}
WINDOW = {"attention.sliding_window": 1024}
DSV4 = {"attention.head_count": 8, "attention.head_count_kv": 1, "attention.key_length": 512, "attention.value_length": 512,
        "rope.dimension_count": 64, "attention.sliding_window": 128, "attention.q_lora_rank": 64, **INDEX}  # fmt: skip
MIXED = {**HEADS, "attention.head_count_kv": [0, 2, 0]}


def metadata(arch, *keys, **more):
    """Metadata of `arch`, its keys without their prefix."""
    found = {key: value for each in (*keys, more) for key, value in each.items()}
    return {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in found.items()}}


def preset(arch, blocks, *keys, **more):
    """The preset of a file with so many blocks, which must load."""
    data = preset_from_gguf(metadata(arch, {"block_count": blocks}, *keys, **more), file="m.gguf", weights_bytes=None)
    assert model_from_preset(data, "m.gguf")[1] == []
    return data


def refused(arch, blocks, *keys, **more):
    """The error for such a file."""
    with pytest.raises(KvcalcError) as caught:
        preset(arch, blocks, *keys, **more)
    assert caught.value.hint
    return caught.value.message


def model_of(data):
    """The model of a preset."""
    model, problems = model_from_preset(data, "m.gguf")
    assert problems == []
    return model


def refusal(data, hint=None):
    """The error for this metadata as it stands."""
    with pytest.raises(KvcalcError) as caught:
        preset_from_gguf(data, file="m.gguf", weights_bytes=None)
    if hint is not None:
        assert hint in caught.value.hint
    return caught.value.message


EVERYTHING = {
    **HEADS, **WINDOW, **SSM, **KDA, **INDEX, "attention.key_length": 576, "attention.value_length": 512,
    "attention.key_length_mla": 192, "attention.value_length_mla": 128, "attention.kv_lora_rank": 512,
    "attention.head_count_kv": [0, 2, 0, 1], "feed_forward_length": [0, 0, 7, 0], "shortconv.l_cache": 3,
    "wkv.head_size": 64, "attention.sliding_window_pattern": [0, 1, 0, 1], "attention.indexer.block_size": 128,
    "attention.indexer.kpool": 4, "attention.indexer.types": [1, 0, 1, 1], "attention.compress_ratios": [0, 4, 128, 0],
    "attention.kv_lora_rank_swa": 256, "attention.key_length_swa": 320, "attention.value_length_swa": 256,
    "attention.key_length_mla_swa": 128, "attention.value_length_mla_swa": 64, "hyper_connection.count": 2,
    "ple.ngram_size": 3, "ple.conv_kernel": 4,
}  # fmt: skip


def outcome(data):
    """The preset of this metadata without the keys that are strange to its architecture, or the line of the error."""
    while True:
        try:
            return preset_from_gguf(data, file="m.gguf", weights_bytes=None)
        except KvcalcError as error:
            strange = re.match(r"m\.gguf: (\S+): expected a key whose effect", error.message)
            if strange is None:
                return error.message
            del data[strange[1]]


def own(arch):
    """Metadata of `arch` with a value for each key that it asks for, and no other."""
    data = metadata(arch, {"block_count": 4}, EVERYTHING)
    if arch in ("deepseek4", "dots3note"):
        data[f"{arch}.attention.head_count_kv"] = 1
    assert not isinstance(outcome(data), str)
    return data
