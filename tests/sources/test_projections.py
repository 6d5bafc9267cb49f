"""Tensors and metadata of one model that contradict each other, and sound models that only look as if they did."""

import json
from pathlib import Path

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.library import loader

from .gguf_models import HEADS, KDA, MIXED, SSM, WINDOW, metadata
from .gguf_writer import Tensor, gguf_bytes, safetensors_bytes

WIDTH = 512  # 8 heads of 64; 2 KV heads have 128 rows of keys and of values


def gguf(folder, arch, keys, tensors):
    """A GGUF file of these metadata, and of f16 tensors by name and rows; two bytes an element."""
    path = folder / "m.gguf"
    held = [Tensor(name, (WIDTH, rows), 1, WIDTH * rows * 2) for name, rows in tensors]
    path.write_bytes(gguf_bytes(metadata(arch, keys), held))
    return str(path)


def blocks(count, k=128, v=128):
    """Plain attention in so many blocks."""
    return [(f"blk.{i}.attn_{part}.weight", rows) for i in range(count) for part, rows in (("k", k), ("v", v))]


MQA = {key: value for key, value in HEADS.items() if key != "attention.head_count_kv"}
GGUF_WRONG = [
    # arch, keys of the metadata, tensors, and what is said
    ("qwen3", {**HEADS, "block_count": 2, "attention.head_count_kv": 4}, blocks(2),
     "blk.0.attn_k.weight: expected 256 rows, 4 KV heads x 64 by qwen3.attention.head_count_kv and key_length, got 128, 2 x 64"),
    ("llama", {**MQA, "block_count": 2}, blocks(2),
     "blk.0.attn_k.weight: expected 512 rows, 8 KV heads x 64 by llama.attention.head_count_kv and key_length, got 128, 2 x 64"),
    ("qwen3", {**HEADS, "block_count": 2, "attention.key_length": 128, "attention.value_length": 64}, blocks(2),
     "blk.0.attn_k.weight: expected 256 rows, 2 KV heads x 128 by qwen3.attention.head_count_kv and key_length, got 128, 1 x 128"),
    ("qwen3", {**HEADS, "block_count": 2}, blocks(2, v=96),
     "blk.0.attn_v.weight: expected 128 rows, 2 KV heads x 64 by qwen3.attention.head_count_kv and key_length, got 96"),
    ("qwen3", {**HEADS, "block_count": 2, "attention.head_count_kv": [2, 1]}, blocks(2),
     "blk.1.attn_k.weight: expected 64 rows, 1 KV head x 64 by qwen3.attention.head_count_kv and key_length, got 128, 2 x 64"),
    ("deci", {**HEADS, "block_count": 2, "attention.head_count_kv": [2, 0]}, blocks(2),
     "blk.1.attn_k.weight: expected no such tensor, by deci.attention.head_count_kv 0, got 128, 2 x 64"),
    ("lfm2", {**MIXED, "block_count": 3, "shortconv.l_cache": 3}, [("blk.0.shortconv.conv.weight", 3), *blocks(3)],
     "blk.0.attn_k.weight: expected no such tensor, by lfm2.attention.head_count_kv 0, got 128"),
    ("qwen3", {**HEADS, "block_count": 4}, blocks(2),
     "qwen3.block_count: expected tensors of every layer, by qwen3.block_count 4, got none of blk.2, and 2 layers in all"),
    ("qwen3", {**HEADS, "block_count": 2}, blocks(4),
     "qwen3.block_count: expected no layer behind blk.1, by qwen3.block_count 2, got tensors of blk.2, of 4 layers"),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "keys", "tensors", "message"), GGUF_WRONG)
def test_gguf_tensors_that_contradict_the_metadata(tmp_path, arch, keys, tensors, message):
    """A file whose keys say another number of heads, another width or another depth than its tensors is refused."""
    path = gguf(tmp_path, arch, keys, tensors)
    with pytest.raises(KvcalcError) as caught:
        loader.load(path)
    said = caught.value.message.removeprefix(f"{path}: ")
    assert said.startswith(message)
    assert "convert the model again" in caught.value.hint


GGUF_SOUND = [
    # Fused projections, vocabularies without a tensor, states, drafts, shared layers, one vector as key and value.
    ("qwen3", {**HEADS, "block_count": 2}, [*blocks(2), ("output.weight", 7)]),
    ("falcon", {**HEADS, "block_count": 2}, [(f"blk.{i}.attn_qkv.weight", 768) for i in range(2)]),
    ("qwen3", {**HEADS, "block_count": 2}, [("token_embd.weight", 3)]),
    ("glm4moe", {**HEADS, "block_count": 3, "nextn_predict_layers": 1}, [*blocks(3), ("blk.2.nextn.eh_proj.weight", 9)]),
    ("glm4moe", {**HEADS, "block_count": 3, "nextn_predict_layers": 1}, blocks(2)),  # converted without its draft layer
    ("qwen3", {**HEADS, "block_count": 2}, [*blocks(2), ("blk.2.nextn.eh_proj.weight", 9), ("blk.2.attn_k.weight", 7)]),
    ("deci", {**HEADS, "block_count": 3, "attention.head_count_kv": [2, 0, 0]}, blocks(1)),
    ("jamba", {**MIXED, "block_count": 3, **{k: v for k, v in SSM.items() if k != "ssm.group_count"}},
     [("blk.0.ssm_in.weight", 9), *blocks(2)[2:], ("blk.2.ssm_in.weight", 9)]),
    ("kimi-linear", {**MIXED, **KDA, "block_count": 3, "attention.head_count_kv": [0, 1, 0],
                     "attention.kv_lora_rank": 512, "attention.key_length": 576, "attention.value_length": 512,
                     "attention.key_length_mla": 192, "attention.value_length_mla": 128},
     [(f"blk.{i}.attn_k.weight", 1024) for i in (0, 2)] + [("blk.1.attn_kv_a_mqa.weight", 576)]),
    ("gemma3n", {**HEADS, **WINDOW, "block_count": 25, "attention.shared_kv_layers": 5}, blocks(20)),
    ("gemma3n", {**HEADS, **WINDOW, "block_count": 25, "attention.shared_kv_layers": 5}, blocks(25)),
    ("gemma4", {**HEADS, **WINDOW, "block_count": 2, "attention.key_length": 128, "attention.value_length": 128,
                "attention.key_length_swa": 64, "attention.value_length_swa": 64,
                "attention.sliding_window_pattern": [True, False]},
     [("blk.0.attn_k.weight", 128), ("blk.0.attn_v.weight", 128), ("blk.1.attn_k.weight", 256)]),
    ("nanbeige", {**HEADS, "block_count": 2, "num_loops": 3}, blocks(2)),
    ("hrm_text", {**HEADS, "block_count": 8}, blocks(4)),
    ("t5", {**HEADS, "block_count": 2}, [(f"dec.blk.{i}.attn_k.weight", 9) for i in range(3)]),
]  # fmt: skip


@pytest.mark.parametrize(("arch", "keys", "tensors"), GGUF_SOUND)
def test_sound_gguf_files(tmp_path, arch, keys, tensors):
    """No file that llama.cpp loads is refused because of its tensors."""
    assert loader.load(gguf(tmp_path, arch, keys, tensors)).weights_bytes == sum(
        WIDTH * rows * 2 for _, rows in tensors
    )


LLAMA = {
    "model_type": "llama", "hidden_size": 512, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 2, "torch_dtype": "bfloat16", "intermediate_size": 1024, "vocab_size": 100,
}  # fmt: skip
BITS = {"BF16": 16, "U8": 8, "F8_E4M3": 8, "I32": 32, "I8": 8, "F32": 32}


def checkpoint(folder, config, tensors):
    """A model folder of this configuration, and of tensors by name, rows, columns and dtype."""
    header, end = {}, 0
    for name, rows, *more in tensors:
        columns, dtype = more or (512, "BF16")
        size = rows * columns * BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": [rows, columns], "data_offsets": [end, end + size]}
        end += size
    Path(folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(safetensors_bytes(header, end))
    return f"{folder}/"


def layers(count, k=128, v=128, prefix="model."):
    """Plain attention in so many layers."""
    return [
        (f"{prefix}layers.{i}.self_attn.{part}_proj.weight", rows)
        for i in range(count)
        for part, rows in (("k", k), ("v", v))
    ]


VISION = {"model_type": "llava", "text_config": {**LLAMA}, "torch_dtype": "bfloat16"}
FOLDERS_WRONG = [
    ({**LLAMA}, layers(2, 512, 512),
     "model.layers.0.self_attn.k_proj.weight: expected 128 rows, 2 KV heads x 64 by num_key_value_heads and head_dim, got 512, 8 x 64"),
    ({**LLAMA, "head_dim": 128}, layers(2),
     "model.layers.0.self_attn.k_proj.weight: expected 256 rows, 2 KV heads x 128 by num_key_value_heads and head_dim, got 128, 1 x 128"),
    (VISION, layers(2, v=64, prefix="language_model.model."),
     "language_model.model.layers.0.self_attn.v_proj.weight: expected 128 rows, 2 KV heads x 64"),
    ({**LLAMA}, [(f"model.layers.{i}.self_attn.k_proj.weight", 512, 512, "F8_E4M3") for i in range(2)],
     "model.layers.0.self_attn.k_proj.weight: expected 128 rows"),
    ({**LLAMA, "num_hidden_layers": 4}, layers(2),
     "num_hidden_layers: expected tensors of every layer, by num_hidden_layers 4, got none of layers.2, and 2 layers in all"),
    ({**LLAMA, "num_hidden_layers": 1}, layers(3, prefix=""),
     "num_hidden_layers: expected no layer behind layers.0, by num_hidden_layers 1, got tensors of layers.1, of 3 layers"),
]  # fmt: skip


@pytest.mark.parametrize(("config", "tensors", "message"), FOLDERS_WRONG)
def test_checkpoints_that_contradict_the_configuration(tmp_path, config, tensors, message):
    """A folder whose config.json is that of another model, or of which half was fetched, is refused; the way out works."""
    source = checkpoint(tmp_path, config, tensors)
    with pytest.raises(KvcalcError) as caught:
        loader.load(source)
    assert caught.value.message.removeprefix(f"{source}config.json: ").startswith(message)
    assert f"{source}config.json sizes the cache without the weights" in caught.value.hint
    assert loader.load(f"{source}config.json").weights_bytes is None


DRAFT = [("model.layers.2.eh_proj.weight", 9), ("model.layers.2.self_attn.k_proj.weight", 7)]
FOLDERS_SOUND = [
    (LLAMA, layers(2)),
    (LLAMA, layers(2, prefix="")),
    (VISION, layers(2, prefix="language_model.model.")),
    (VISION, [*layers(2, prefix="model.language_model."), ("model.visual.layers.9.self_attn.k_proj.weight", 9)]),
    (LLAMA, [(f"model.layers.{i}.self_attn.k_proj.qweight", 64, 128, "I32") for i in range(2)]),  # GPTQ, AWQ
    (LLAMA, [(f"model.layers.{i}.self_attn.k_proj.weight", 32768, 1, "U8") for i in range(2)]),  # bitsandbytes
    (LLAMA, [(f"model.layers.{i}.self_attn.qkv_proj.weight", 768) for i in range(2)]),
    (LLAMA, [*layers(2), *DRAFT]),  # a draft layer that no key counts
    (LLAMA, [("lm_head.weight", 9)]),
    (LLAMA, [*layers(2), *layers(1, prefix="language_model.")]),  # two models in one folder: which is which is not plain
    ({**LLAMA, "model_type": "gemma3n_text", "num_hidden_layers": 4, "num_kv_shared_layers": 2, "head_dim": 64,
      "layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 512}, layers(2)),
]  # fmt: skip


@pytest.mark.parametrize(("config", "tensors"), FOLDERS_SOUND)
def test_sound_checkpoints(tmp_path, config, tensors):
    """Packed, fused, shared and draft layers are no contradiction: the weights are summed as ever."""
    assert loader.load(checkpoint(tmp_path, config, tensors)).weights_bytes > 0
