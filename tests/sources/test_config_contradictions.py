"""config.json: what contradicts itself, or leaves out what decides, is refused by its key; class defaults are named.

Rules are those of the configuration classes of transformers 5.24.0 where no other source is named beside a row.
"""

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.preset.notation import expand
from kvcalc.sources import jsonfile
from kvcalc.sources.config.keys import suspicious
from kvcalc.sources.config.language import language_part
from kvcalc.sources.config.reader import preset_from_config

from .refused_files import UNREAD_FILES

CONFIGS = Path(__file__).resolve().parents[3] / "shared" / "configs"
needs_files = pytest.mark.skipif(
    not CONFIGS.is_dir(), reason="../shared/configs is not here: no part of the repository"
)

FULL, SLIDING = "full_attention", "sliding_attention"
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip
VISION: dict[str, Any] = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"num_hidden_layers": 24}}
# ibm-ai-platform/Bamba-9B: 128 heads of 64 are 2 x 4096.
BAMBA: dict[str, Any] = {
    "model_type": "bamba", "hidden_size": 4096, "num_hidden_layers": 32, "mamba_n_heads": 128, "mamba_d_head": 64,
    "mamba_expand": 2, "mamba_d_state": 128, "attn_layer_indices": [9, 18, 27],
}  # fmt: skip
QWEN_NEXT: dict[str, Any] = {
    "model_type": "qwen3_next", "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_num_value_heads": 32,
    "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
}  # fmt: skip
GEMMA3: dict[str, Any] = {"model_type": "gemma3_text", "num_hidden_layers": 6, "sliding_window": 1024}
SIX = [*[SLIDING] * 5, FULL]
GEMMA4: dict[str, Any] = {
    "model_type": "gemma4_text", "num_hidden_layers": 4, "num_key_value_heads": 4, "head_dim": 256,
    "attention_k_eq_v": True, "layer_types": [SLIDING, FULL] * 2,
}  # fmt: skip
GLM: dict[str, Any] = {"model_type": "glm_moe_dsa", "num_hidden_layers": 6}
CHATGLM: dict[str, Any] = {  # THUDM/chatglm3-6b
    "model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
}  # fmt: skip
KIMI: dict[str, Any] = {
    "model_type": "kimi_linear", "num_hidden_layers": 2, "linear_attn_config": {
        "kda_layers": [1], "full_attn_layers": [2], "num_heads": 32, "head_dim": 128, "short_conv_kernel_size": 4},
}  # fmt: skip
FOREIGN: dict[str, Any] = {
    "num_query_groups": 8, "n_query_groups": 8, "num_key_value_groups": 4, "d_k": 64, "group_size": 4,
    "mixer_types": ["mamba"], "pruned_heads": {"0": [1, 2]},
}  # fmt: skip
FP8 = {"num_bits": 8, "type": "float"}


def read(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    return preset_from_config(config, file="m/config.json", **options)


def refusal(config: dict[str, Any], **options: Any) -> str:
    """The line that a configuration is refused with, which comes with a way out."""
    with pytest.raises(KvcalcError) as caught:
        read(config, **options)
    assert caught.value.message.isprintable()
    assert caught.value.hint
    return caught.value.message.removeprefix("m/config.json: ")


def scheme(value: object) -> dict[str, Any]:
    return {**LLAMA, "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": value}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    # The format of the cache.
    "two schemes of the cache": (
        {**VISION, "quantization_config": {"kv_cache_scheme": "FP8"},
         "text_config": {**LLAMA, "quantization_config": {"kv_cache_scheme": {"num_bits": 8, "type": "int"}}}},
        "quantization_config.kv_cache_scheme: expected a cache in int8",
    ),
    "scales of channels": (scheme({**FP8, "strategy": "channel"}), "quantization_config.kv_cache_scheme.strategy"),
    "scales of groups": (scheme({**FP8, "strategy": "group", "group_size": 128}), "kv_cache_scheme: expected an 8-bit"),
    "scales of tokens": (scheme({**FP8, "dynamic": True}), "quantization_config.kv_cache_scheme.dynamic"),
    "zero points": (scheme({"num_bits": 8, "type": "int", "symmetric": False}), "kv_cache_scheme.symmetric"),
    "no scheme at all": ({**LLAMA, "quantization_config": "fp8"}, "quantization_config: expected a mapping"),
    "the older place": ({**LLAMA, "compression_config": {"kv_cache_scheme": {"num_bits": 5}}}, "compression_config.kv"),
    "a cache dtype around": ({**VISION, "kv_cache_dtype": "fp8"}, "kv_cache_dtype"),
    # Widths of recurrent states.
    **{f"null {key}": ({**QWEN_NEXT, key: None}, f"{key}: expected a value, since qwen3_next takes no null")
       for key in QWEN_NEXT if key != "model_type"},
    "bamba's heads": ({**BAMBA, "mamba_n_heads": 64}, "mamba_d_head: expected 128, since mamba_n_heads is 64"),
    "bamba's width": ({**BAMBA, "mamba_expand": 3}, "mamba_d_head: expected 96, since mamba_n_heads is 128 and mamba_expand x width 12288"),
    "falcon-h1": (
        {"model_type": "falcon_h1", "mamba_d_ssm": 3072, "mamba_n_heads": 24, "mamba_d_head": 64}, "mamba_d_head"),
    "granite": (
        {"model_type": "granitemoehybrid", "hidden_size": 768, "mamba_n_heads": 48, "mamba_d_head": 64}, "mamba_d_head"),
    "mamba 2": ({"model_type": "mamba2", "num_heads": 64}, "head_dim: expected 128, since num_heads"),
    "zamba 2": (
        {"model_type": "zamba2", "hybrid_layer_ids": [6], "n_mamba_heads": 80, "mamba_headdim": 32}, "mamba_headdim"),
    "falcon mamba without its width": (
        {"model_type": "falcon_mamba", "expand": 16, "hidden_size": 4096, "intermediate_size": None}, "intermediate_size"),
    # Layouts.
    "lightning without flags": ({"model_type": "minimax_text_01", "num_hidden_layers": 8}, "attn_type_list"),
    "lightning with none": ({"model_type": "minimax_m1", "attn_type_list": []}, "attn_type_list"),
    "a list too long": ({"model_type": "olmo3", "num_hidden_layers": 2, "layer_types": [SLIDING, FULL] * 2}, "layer_types"),
    "an empty list": ({"model_type": "olmo3", "num_hidden_layers": 2, "layer_types": []}, "layer_types"),
    "sliding layers without a window": (
        {"model_type": "olmo3", "num_hidden_layers": 2, "layer_types": [SLIDING, FULL], "sliding_window": None},
        "sliding_window"),
    "two lists": (
        {"model_type": "lfm2", "num_hidden_layers": 2, "layer_types": ["conv", FULL], "full_attn_idxs": [0]},
        "full_attn_idxs: expected the same layers as layer_types"),
    "letters and a list": (
        {"model_type": "nemotron_h", "hybrid_override_pattern": "M*", "layers_block_type": ["mamba", "mlp"]},
        "hybrid_override_pattern"),
    "two lists of one meaning": (
        {"model_type": "granitemoehybrid", "num_hidden_layers": 2, "layer_types": ["mamba", "attention"],
         "layers_block_type": ["mamba", "mamba"]}, "layers_block_type"),
    "an index twice": ({**BAMBA, "attn_layer_indices": [9, 9]}, "attn_layer_indices.1: expected each layer once"),
    "an index past the end": ({**BAMBA, "attn_layer_indices": [9, 32]}, "attn_layer_indices.1"),
    "gpt-neo, half of the layers": (
        {"model_type": "gpt_neo", "attention_types": [[["global", "local"], 6]]}, "attention_types: expected 24"),
    "gpt-neo, twice the layers": ({"model_type": "gpt_neo", "num_layers": 12}, "attention_types: expected 12"),
    "gpt-neo, written out otherwise": (
        {"model_type": "gpt_neo", "attention_layers": ["global"] * 24}, "attention_layers"),
    "a sliding layer of llama": ({**LLAMA, "layer_types": [*[FULL] * 31, SLIDING]}, "layer_types: expected one of full"),
    "image layers, none": ({"model_type": "mllama_text_model", "cross_attention_layers": []}, "cross_attention_layers"),
    # Patterns beside a list: which of the two was edited, nobody can tell.
    "gemma 3's pattern": (
        {**GEMMA3, "sliding_window_pattern": 6, "layer_types": [FULL] * 6},
        "sliding_window_pattern: expected the same layers as layer_types"),
    "gemma 3's pattern, as saved": ({**GEMMA3, "_sliding_window_pattern": 3, "layer_types": SIX}, "_sliding_window_pattern"),
    **{f"qwen 3.5's interval of {period}": (
        {"model_type": "qwen3_5_text", "num_hidden_layers": 4, "full_attention_interval": period,
         "layer_types": [*["linear_attention"] * 3, FULL]}, "full_attention_interval: expected the same layers")
       for period in (1, 2)},
    "afmoe's period": (
        {"model_type": "afmoe", "num_hidden_layers": 2, "layer_types": [SLIDING, FULL], "global_attn_every_n_layers": 7},
        "global_attn_every_n_layers: expected the same layers as layer_types"),
    "qwen's first sliding layer": (
        {"model_type": "qwen3", "num_hidden_layers": 2, "layer_types": [SLIDING, FULL], "use_sliding_window": True,
         "max_window_layers": 1}, "max_window_layers: expected the same layers as layer_types"),
    "sliding layers, switched off": (
        {"model_type": "qwen2", "num_hidden_layers": 2, "layer_types": [FULL, SLIDING], "sliding_window": 4096,
         "use_sliding_window": False}, "use_sliding_window: expected true, since layer_types has sliding layers"),
    "indexers and their frequency": (
        {**GLM, "indexer_types": ["full"] * 6, "index_topk_freq": 4, "index_skip_topk_offset": 3},
        "index_topk_freq: expected the same layers as indexer_types"),
    "a first layer that shares": ({**GLM, "indexer_types": ["shared", *["full"] * 5]}, "indexer_types.0: expected full"),
    "a first layer that shares, as letters": ({**GLM, "index_topk_pattern": "SFFFFF"}, "index_topk_pattern.0: expected"),
    "granite's attention layers": (
        {"model_type": "granitemoehybrid", "num_attention_heads": 12}, "layer_types: expected which layers have the attention"),
    **{f"bamba's attention layers, {said}": (
        {**BAMBA, "num_key_value_heads": 8, "attn_layer_indices": said}, "attn_layer_indices: expected which layers")
       for said in ([], None)},
    # Groups under the names of other formats, alone and beside the key that counts.
    **{f"{key} beside": ({**LLAMA, key: value}, f"{key}: expected a key whose effect") for key, value in FOREIGN.items()},
    **{f"{key} alone": (
        {**{k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}, key: value}, f"{key}: expected a key whose effect")
       for key, value in FOREIGN.items()},
    "chatglm's null groups": ({**CHATGLM, "multi_query_attention": True, "multi_query_group_num": None}, "multi_query_group_num"),
    "chatglm's null kind": ({**CHATGLM, "multi_query_attention": None}, "multi_query_attention: expected true or false"),
    # Architectures of another type: transformers goes by the type, vLLM by these.
    "llama by type": ({**LLAMA, "architectures": ["DeepseekV3ForCausalLM"]}, "architectures: expected an architecture of 'llama'"),
    "no indexers by type": (
        {"model_type": "deepseek_v3", "architectures": ["DeepseekV32ForCausalLM"]}, "architectures: expected an architecture"),
    "inside": (
        {**VISION, "text_config": {**LLAMA, "architectures": ["Gemma2ForCausalLM"]}}, "text_config.architectures: expected"),
    # No language part.
    **{f"a part of {shown!r}": ({**LLAMA, "text_config": shown}, "text_config: expected a mapping")
       for shown in (False, 0, "", [], [LLAMA])},
    "an empty part": ({"model_type": "gemma3", "text_config": {}}, "num_hidden_layers: expected the number of layers of the"),
    "no part": ({"model_type": "llava"}, "num_hidden_layers: expected the number of layers of the language part, here or in"),
    "a part of something else": (
        {**LLAMA, "text_config": {"a": 1}}, "text_config.num_hidden_layers: expected the number of layers"),
    # Keys that transformers 5.23 saves, with other values than it would have.
    "longcat's attentions": (
        {"model_type": "longcat_flash", "num_layers": 2, "num_hidden_layers": 2}, "num_hidden_layers: expected 4, two in each"),
    "longcat's attentions alone": ({"model_type": "longcat_flash", "num_hidden_layers": 4}, "num_hidden_layers: expected num_layers"),
    "deepseek v4's rates": (
        {"model_type": "deepseek_v4", "num_hidden_layers": 1, "layer_types": ["compressed_sparse_attention"],
         "compress_rates": {"compressed_sparse_attention": 8}}, "compress_rates.compressed_sparse_attention: expected 4"),
    "deepseek v4's words and ratios": (
        {"model_type": "deepseek_v4", "num_hidden_layers": 1, "layer_types": ["compressed_sparse_attention"],
         "compress_ratios": [128]}, "compress_ratios: expected the same layers as layer_types"),
    "gemma 4's layers, one of them": (
        {**GEMMA4, "per_layer_config": {"01": {"head_dim": 512}}}, "per_layer_config: expected head_dim and num_key_value"),
    "gemma 4's layers, different": (
        {**GEMMA4, "per_layer_config": {"01": {"head_dim": 512}, "03": {"head_dim": 256}}}, "per_layer_config: expected"),
    "gemma 4's layers, something else": (
        {**GEMMA4, "per_layer_config": {str(i): {"sliding_window": 8} for i in (1, 3)}}, "per_layer_config: expected"),
    "gemma 4's layers and the published key": (
        {**GEMMA4, "per_layer_config": {str(i): {"head_dim": 128} for i in (1, 3)}, "global_head_dim": 512},
        "global_head_dim: expected 128"),
    "per_layer_config of llama": ({**LLAMA, "per_layer_config": {"0": {"head_dim": 64}}}, "per_layer_config"),
    "kimi's heads twice": ({**KIMI, "linear_num_heads": 16}, "linear_num_heads: expected 32, as linear_attn_config says"),
    "kimi's layers twice": (
        {**KIMI, "layer_types": [FULL, FULL]}, "linear_attn_config: expected the same layers as layer_types"),
    "dbrx's heads twice": (
        {"model_type": "dbrx", "attn_config": {"kv_n_heads": 8}, "num_key_value_heads": 4}, "num_key_value_heads: expected 8"),
    "bigcode's heads twice": (
        {"model_type": "gpt_bigcode", "multi_query": True, "num_key_value_heads": 12}, "num_key_value_heads: expected 1"),
    "mimo's windows": (
        {"model_type": "mimo_v2_flash", "sliding_window_size": 128, "sliding_window": 64}, "sliding_window: expected 128"),
    # The language part and what stands around it.
    "layers around": ({**VISION, "num_hidden_layers": 40}, "num_hidden_layers: expected 32, as the language part inside says"),
    "heads around": ({**VISION, "n_head_kv": 4}, "n_head_kv: expected 8, as the language part"),
    "head size around": ({**VISION, "head_dim": 64}, "head_dim: expected 128, as the language part"),
    "width around, alone": (
        {"model_type": "llava", "hidden_size": 2048, "text_config": {"model_type": "llama"}},
        "hidden_size: expected 4096, as the language part inside leaves to the default of llama"),
    "a window around": ({**VISION, "sliding_window": 1024}, "sliding_window"),
    "two language parts": ({**VISION, "llm_config": {**LLAMA, "num_hidden_layers": 40}}, "llm_config: expected one"),
    "a decoder beside": (
        {**VISION, "decoder_config": {**LLAMA, "num_hidden_layers": 2}}, "decoder_config: expected one"),
    "another model inside": ({**LLAMA, "language_model": LLAMA}, "language_model.num_hidden_layers"),
    # Kinds of model.
    "cross attention": ({"model_type": "gpt2", "add_cross_attention": True}, "add_cross_attention"),
    "two halves": ({**LLAMA, "is_encoder_decoder": True}, "is_encoder_decoder"),
    "one half": ({"model_type": "bart", "is_encoder_decoder": False}, "is_encoder_decoder"),
    "T5's encoder": ({"model_type": "t5", "architectures": ["T5EncoderModel"]}, "architectures: expected a model with a"),
    "bert by its architecture": ({"architectures": ["BertModel"]}, "architectures: expected a model with a decoder"),
    "both directions": ({**LLAMA, "is_causal": False}, "is_causal"),
    "embedding gemma": ({"model_type": "gemma3_text", "use_bidirectional_attention": True}, "use_bidirectional"),
    "latents switched off": ({"model_type": "glm_moe_dsa", "use_mla": False}, "use_mla: expected true"),
    "latents switched off, with a rank": ({"model_type": "deepseek_v2", "use_mla": False}, "use_mla: expected true"),
    "no rank, but its widths": (
        {"model_type": "deepseek_v2", "kv_lora_rank": None, "qk_rope_head_dim": 64}, "qk_rope_head_dim"),
    "kimi without a rank": (
        {**LLAMA, "model_type": "kimi_k2", "qk_nope_head_dim": 128, "qk_rope_head_dim": 64}, "kv_lora_rank"),
    # Numbers that the class of the type would not read, or not so.
    "gpt-2's name of layers": ({"model_type": "llama", "n_layer": 16}, "n_layer: expected num_hidden_layers instead"),
    "falcon's name of heads": ({**LLAMA, "num_key_value_heads": None, "num_kv_heads": 4}, "num_kv_heads"),
    "t5's encoder alone": ({"model_type": "t5", "num_hidden_layers": 24}, "num_hidden_layers: expected 6, as num_layers"),
    "another name of the window": ({"model_type": "mistral", "window_size": 64}, "window_size: expected sliding_window"),
    "another name of the state": ({**BAMBA, "state_size": 16}, "state_size: expected 128, as mamba_d_state says"),
    "a null head size": ({"model_type": "gemma2", "head_dim": None}, "head_dim: expected a value, since gemma2"),
    "cohere's own head size": (
        {"model_type": "cohere2", "hidden_size": 8192, "num_attention_heads": 64, "head_dim": 64}, "head_dim: expected 128"),
    "a switch that mistral has not": ({"model_type": "mistral", "use_sliding_window": False}, "use_sliding_window"),
    "mpt's kind": ({"model_type": "mpt", "attn_config": {"attn_type": "odd"}}, "attn_config.attn_type"),
    "mpt's groups": (  # llm-foundry, attention.py: this kind needs the number
        {"model_type": "mpt", "attn_config": {"attn_type": "grouped_query_attention"}}, "attn_config.kv_n_heads"),
    "mpt's groups denied": (
        {"model_type": "mpt", "attn_config": {"attn_type": "multihead_attention", "kv_n_heads": 4}},
        "attn_config.kv_n_heads: expected 16"),
}  # fmt: skip


@pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(config: dict[str, Any], message: str) -> None:
    """A file that says two things, or nothing, about its cache is one line with the key and a way out."""
    assert message in refusal(config)


SIZED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a null scheme inside declares nothing": (
        {**VISION, "quantization_config": {"quant_algo": "FP8", "kv_cache_scheme": FP8},
         "text_config": {**LLAMA, "quantization_config": {"quant_method": "fp8", "kv_cache_scheme": None}}},
        {"kv_dtype": "fp8", "weights_dtype": "fp8"},
    ),
    "two schemes that agree: fp8 means e4m3": (
        {**VISION, "quantization_config": {"kv_cache_scheme": "FP8"},
         "text_config": {**LLAMA, "quantization_config": {"kv_cache_scheme": "fp8_e4m3"}}}, {"kv_dtype": "fp8_e4m3"},
    ),
    "a scale for each head": (scheme({**FP8, "strategy": "attn_head", "dynamic": False}), {"kv_dtype": "fp8"}),
    "nvfp4": (scheme({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}), {"kv_dtype": "nvfp4"}),
    "mlx says it twice": (
        {**LLAMA, **{key: {"group_size": 64, "bits": 4} for key in ("quantization", "quantization_config")}},
        {"weights_dtype": "int4", "kv_dtype": None}),
    "full layers listed": ({**LLAMA, "layer_types": [FULL] * 32}, {"layers": "32 full"}),
    "repeated around": ({**VISION, **LLAMA, "model_type": "llava"}, {"layers": "32 full", "kv_heads": 8}),
    # google/paligemma2: PaliGemmaConfig writes a hidden_size of 2048 around a language part of 2304.
    "paligemma 2": (
        {"model_type": "paligemma", "hidden_size": 2048,
         "text_config": {"model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 26}},
        {"layers": "13 x (sliding, full)", "head_dim": 256},
    ),
    "dbrx: one head where none is stated": ({"model_type": "dbrx", "attn_config": {"clip_qkv": 8}}, {"kv_heads": 1}),
    "dbrx": ({"model_type": "dbrx", "attn_config": {"kv_n_heads": 8}}, {"kv_heads": 8}),
    "mpt: all heads": ({"model_type": "mpt", "n_heads": 32, "attn_config": {"alibi": True}}, {"kv_heads": 32}),
    "mpt: groups": (
        {"model_type": "mpt", "attn_config": {"attn_type": "grouped_query_attention", "kv_n_heads": 4}}, {"kv_heads": 4}),
    # Nano 9B v2 states expand 2 over a width of 4480; its state has 128 x 80. The class never looks at expand.
    "nemotron-h": (
        {"model_type": "nemotron_h", "hidden_size": 4480, "hybrid_override_pattern": "M*", "expand": 2,
         "mamba_num_heads": 128, "mamba_head_dim": 80},
        {"caches": {"mamba2": {"heads": 128, "head_dim": 80, "groups": 8, "state": 128, "conv": 4}}},
    ),
    # tiiuae/Falcon-H1-1.5B: mamba_d_ssm 3072 beside expand 2 x 2048.
    "falcon-h1": (
        {"model_type": "falcon_h1", "hidden_size": 2048, "mamba_d_ssm": 3072, "mamba_n_heads": 48, "mamba_d_head": 64,
         "mamba_expand": 2},
        {"caches": {"mamba2": {"heads": 48, "head_dim": 64, "groups": 1, "state": 256, "conv": 4}}},
    ),
    # MiMoV2FlashAttention: twice as many heads in the window as in full layers. Its sliding_window of 129 is the published
    # sliding_window_size of 128 and the query.
    "mimo without heads of its window": (
        {"model_type": "mimo_v2_flash", "num_key_value_heads": 4}, {"caches": {"sliding": {"kv_heads": 8, "window": 128}}}),
    # Gemma4TextConfig forces the last layer to full attention, listed or not: of 35 layers it is no sixth one.
    "gemma 4's last layer": (
        {"model_type": "gemma4_text", "num_hidden_layers": 8, "layer_types": [*[SLIDING] * 5, FULL, SLIDING, SLIDING]},
        {"layers": "5 sliding, full, sliding, full"}),
    # What transformers 5.23.0 saves (`to_json_string`), cut to a few layers.
    "longcat, saved": (
        {"model_type": "longcat_flash", "num_layers": 2, "num_hidden_layers": 4}, {"layers": "2 latent+latent"}),
    "deepseek v4, saved": (
        {"model_type": "deepseek_v4", "num_hidden_layers": 3, "qk_rope_head_dim": 64,
         "layer_types": ["heavily_compressed_attention", "compressed_sparse_attention", SLIDING],
         "compress_rates": {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}},
        {"layers": "window+hca, window+csa, window"}),
    "gemma 4, saved": (
        {**GEMMA4, "per_layer_config": {f"{i:02}": {"head_dim": 512, "num_key_value_heads": 2} for i in (1, 3)}},
        {"kv_heads": 4, "head_dim": 256, "caches": {"sliding": {"window": 512}, "full": {"kv_heads": 2, "head_dim": 512}}}),
    "gemma 4, saved, the last two layers reuse": (
        {**GEMMA4, "num_kv_shared_layers": 2, "per_layer_config": {"1": {"head_dim": 512}, "3": {"head_dim": 512}}},
        {"layers": "sliding, full, shared:sliding, shared:full",
         "caches": {"sliding": {"window": 512}, "full": {"head_dim": 512}}}),
    "kimi linear, saved": (
        {**KIMI, "layer_types": ["linear_attention", FULL], "linear_head_dim": 128, "linear_num_heads": 32,
         "linear_conv_kernel_dim": 4}, {"layers": "kda, latent"}),
    "kimi linear, saved without its mapping": (
        {"model_type": "kimi_linear", "num_hidden_layers": 2, "layer_types": ["linear_attention", FULL],
         "linear_head_dim": 64, "linear_num_heads": 16, "linear_conv_kernel_dim": 4},
        {"caches": {"kda": {"heads": 16, "head_dim": 64, "conv": 4}, "latent": {"rank": 512, "rope": 64}}}),
    # BailingHybridConfig makes head_dim the rope part of the latents, and linear_head_dim of what it was.
    "ling hybrid, saved": (
        {"model_type": "bailing_hybrid", "num_hidden_layers": 6, "head_dim": 64, "linear_head_dim": 128,
         "linear_num_heads": 32, "linear_conv_kernel_dim": 4},
        {"caches": {"kda": {"heads": 32, "head_dim": 128, "conv": 4}, "latent": {"rank": 512, "rope": 64}}}),
    # MistralLarge4Attention: no rotary part where no_rope_layers is 0, by default in every fourth layer.
    "mistral large 4": (
        {"model_type": "mistral_large4_text", "num_hidden_layers": 4, "index_topk_freq": 1},
        {"caches": {"latent": {"rank": 512, "rope": [64, 64, 64, 0]}, "indexer": {"dim": 128, "store": "fp8+scale"}}}),
    "mistral large 4, all of them rotary": (
        {"model_type": "mistral_large4_text", "num_hidden_layers": 2, "index_topk_freq": 1, "no_rope_layers": [1, 1]},
        {"caches": {"latent": {"rank": 512, "rope": 64}, "indexer": {"dim": 128, "store": "fp8+scale"}}}),
    "t5, saved": ({"model_type": "t5", "scale_decoder_outputs": True}, {"layers": "6 full+cross"}),
    "dbrx, saved": ({"model_type": "dbrx", "attn_config": {"kv_n_heads": 8}, "num_key_value_heads": 8}, {"kv_heads": 8}),
    "bigcode, saved": ({"model_type": "gpt_bigcode", "multi_query": True, "num_key_value_heads": 1}, {"kv_heads": 1}),
    "mimo, published and saved": (
        {"model_type": "mimo_v2_flash", "sliding_window_size": 128, "sliding_window": 129, "swa_num_key_value_heads": 8},
        {"caches": {"sliding": {"kv_heads": 8, "window": 128}}}),
    "gemma 3's pattern repeats its list": ({**GEMMA3, "sliding_window_pattern": 6, "layer_types": SIX}, {"layers": "5 sliding, full"}),
    "glm 5.2's frequency repeats its list": (
        {**GLM, "indexer_types": [*["full"] * 3, *["shared"] * 3], "index_topk_freq": 4, "index_skip_topk_offset": 3},
        {"layers": "3 latent+indexer, 3 latent"}),
    # Published files with the architecture of a type that is read alike (moonshotai/Kimi-K2-Instruct), or of a plain one.
    "kimi k2": ({"model_type": "kimi_k2", "num_hidden_layers": 2, "num_attention_heads": 64, "hidden_size": 7168,
                 "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
                 "architectures": ["DeepseekV3ForCausalLM"]}, {"layers": "2 latent"}),
    "a mistral without a window": (
        {"model_type": "mistral", "sliding_window": None, "architectures": ["LlamaForCausalLM"]}, {"layers": "32 full"}),
    "pruned heads, none": ({**LLAMA, "pruned_heads": {}}, {"layers": "32 full"}),
    "t5 under the usual names": (  # attribute_map of T5Config
        {"model_type": "t5", "num_layers": 3, "num_attention_heads": 4}, {"layers": "3 full+cross", "heads": 4}),
}  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), SIZED.values(), ids=SIZED)
def test_sized(config: dict[str, Any], expected: dict[str, Any]) -> None:
    """What is unusual and clear is read, with the numbers that the class of the type would use."""
    preset = read(config)
    assert {key: preset.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "whisper"},
         "decoder_layers 4, decoder_attention_heads 6, d_model 384, max_source_positions 1500."),
        ({"model_type": "qwen3_moe"},
         "num_hidden_layers 24, num_attention_heads 32, num_key_value_heads 4, hidden_size 2048."),
        ({"model_type": "dbrx"}, "attn_config.kv_n_heads 1."),
        ({"model_type": "mpt"}, "attn_config.attn_type multihead_attention."),
        ({"model_type": "mimo_v2_flash"}, "swa_num_key_value_heads 8"),
        ({"model_type": "minimax_m3_vl_text"}, "num_key_value_heads 4, head_dim 128."),
        ({key: value for key, value in QWEN_NEXT.items() if key != "linear_num_value_heads"}, "linear_num_value_heads 32."),
        ({"model_type": "falcon"}, "The file states no limit; the 2,048 tokens of the class falcon"),
        ({"model_type": "bamba"}, "The file states no limit; the 262,144 tokens of the class bamba"),
        ({"model_type": "falcon_h1"}, "The file states no limit; the 8,192 tokens of the class falcon_h1"),
        ({**CHATGLM, "multi_query_attention": True}, "Defaults of chatglm, which the file leaves out: multi_query_group_num 1."),
        ({**CHATGLM, "multi_query_group_num": 2}, "multi_query_attention false."),
        ({"model_type": "phi3", "num_key_value_heads": 32}, "sliding_window none"),
        # Layouts that only the class knows.
        ({"model_type": "gemma2", "num_hidden_layers": 4},
         "Layers by the rule of gemma2, since the file lists none: 2 x (sliding, full)."),
        (GEMMA3, "Layers by the rule of gemma3_text, since the file lists none: 5 sliding, full."),
        (GLM, "Layers by the rule of glm_moe_dsa, since the file lists none: 6 latent+indexer."),
        ({**GLM, "index_topk_freq": 4}, "index_skip_topk_offset 2,"),
        ({"model_type": "laguna", "num_hidden_layers": 4}, "Layers by the rule of laguna, since the file lists none: 4 full."),
        ({"model_type": "lfm2", "num_hidden_layers": 3}, "Layers by the rule of lfm2, since the file lists none: 3 full."),
        ({"model_type": "bamba", "num_hidden_layers": 3}, "Layers by the rule of bamba, since the file lists none: 3 mamba2."),
        ({"model_type": "gemma4_text", "num_hidden_layers": 6}, "Layers by the rule of gemma4_text"),
        ({"model_type": "qwen3_5_text", "num_hidden_layers": 4}, "Layers by the rule of qwen3_5_text"),
        ({"model_type": "mllama_text_model"}, "Layers by the rule of mllama_text_model"),
        # Numbers that follow from others.
        ({"model_type": "falcon_mamba", "hidden_size": 4096, "expand": 16}, "intermediate_size 65536 = expand x width."),
        ({"model_type": "qwen3_moe", "hidden_size": 4096, "num_attention_heads": 64}, "head_dim 64 = hidden_size / heads."),
        ({**LLAMA, "model_type": "falcon_h1", "mamba_d_ssm": 8192}, "head_dim 128 = hidden_size / heads."),
        ({key: value for key, value in {**LLAMA, "model_type": "minicpm"}.items() if key != "num_key_value_heads"},
         "Derived, since the file does not state it: num_key_value_heads 32 = all query heads."),
        # Two dtypes: the classes build the language part in its own.
        ({**VISION, "torch_dtype": "float32"}, "The file states two dtypes: bf16 of the language part counts, not fp32 around it."),
        ({"model_type": "rwkv6", "num_hidden_layers": 2, "hidden_size": 128}, "head_size 64."),
    ],
)  # fmt: skip
def test_class_defaults_are_named(config: dict[str, Any], said: str) -> None:
    """Who gives a file without its numbers is told whose numbers the answer rests on."""
    assert said in read(config)["note"]


def test_no_default_is_named_that_does_not_count() -> None:
    """A file that states all of it has no note, and a window that no layer has is not named."""
    assert "note" not in read(LLAMA)
    assert "note" not in read({**LLAMA, "model_type": "gemma2", "head_dim": 128, "sliding_window": None})
    assert "note" not in read(
        {**LLAMA, "model_type": "olmo3", "sliding_window": 64, "layer_types": [SLIDING, FULL] * 16}
    )
    full = {"model_type": "gemma2", "num_hidden_layers": 1, "layer_types": [FULL]}
    assert "sliding_window" not in read(full)["note"]


def test_quantisation_in_place_of_the_configuration() -> None:
    """hf_quant_config.json itself is refused with the file that was meant."""
    own = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    with pytest.raises(KvcalcError, match="got the quantisation of one") as caught:
        preset_from_config(own, file="m/hf_quant_config.json", quantization=own)
    assert "config.json beside it" in str(caught.value.hint)


@pytest.mark.parametrize("key", ["num_passes", "iterations", "n_repeat", "v_from_k", "nsa", "num_loops", "recurrent_steps",
                                 "share_every", "kv_reuse", "mla_rank", "sink_tokens"])  # fmt: skip
def test_assume_dense_takes_no_word_for_it(key: str) -> None:
    """A type that is not known is not read as a plain decoder where a key says that layers repeat, share or skip."""
    assert suspicious(key)
    assert key in refusal({**LLAMA, "model_type": "brandnew", key: 2}, assume_dense=True)


def whole() -> Iterator[tuple[str, dict[str, Any]]]:
    """The published configurations, each with its name."""
    for path in sorted(CONFIGS.glob("*.json")):
        if path.name != "INDEX.json" and not path.name.startswith("reduced__") and "hf_quant" not in path.name:
            yield path.name, dict(jsonfile.read_object(str(path)))


def spoilt(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with changes in the language part."""
    again = copy.deepcopy(config)
    inner = again
    for key in language_part(config, "x").path:
        inner = inner[key]
    inner.update(changes)
    return again


def told(name: str, config: dict[str, Any]) -> str:
    """The refusal of a spoilt file, or a failure that says which file was read all the same."""
    try:
        preset = preset_from_config(config, file="x")
    except KvcalcError as error:
        return error.message
    raise AssertionError(name, preset["layers"])


@needs_files
def test_real_files_around() -> None:
    """Around the language part of a real file another number of layers is refused, and the same one is not."""
    nested = 0
    for name, config in whole():
        if not language_part(config, name).path or name in UNREAD_FILES:
            continue
        nested += 1
        preset = preset_from_config(config, file="x")
        count = len(expand(str(preset["layers"])))
        assert "num_hidden_layers" in told(name, {**config, "num_hidden_layers": count + 1})
        assert preset_from_config({**config, "num_hidden_layers": count}, file="x") == preset, name
    assert nested >= 33


@needs_files
@pytest.mark.parametrize("key", ["layer_types", "compress_ratios", "attn_type_list", "full_attn_idxs", "indexer_types"])
def test_real_files_with_spoilt_lists(key: str) -> None:
    """A list of layers that is doubled, cut, emptied or no list is refused in every real file that has one."""
    found = 0
    for name, config in whole():
        listed = language_part(config, name).data.get(key)
        if not listed:
            continue
        found += 1
        for other in (listed * 2, [] if key == "full_attn_idxs" else listed[:-2], [], "full_attention", {}):
            told(name, spoilt(config, **{key: other}))
    assert found >= 1


@needs_files
def test_real_files_with_nulls() -> None:
    """Numbers of states and latents are never derived from others: null is refused in every real file that has one."""
    words, found = (
        ("linear_", "mamba_n", "mamba_d_h", "mamba_h", "ssm_", "kv_lora", "qk_rope", "conv_", "state_size"),
        set(),
    )
    for name, config in whole():
        for key, value in language_part(config, name).data.items():
            if key.startswith(words) and isinstance(value, int) and value and not isinstance(value, bool):
                if key in ("conv_dim", "conv_dim_out") or not suspicious(key):  # copies of the width
                    continue
                found.add(key)
                told(f"{name} {key}", spoilt(config, **{key: None}))
    assert {"linear_num_value_heads", "mamba_num_heads", "mamba_n_heads", "kv_lora_rank", "conv_L_cache"} <= found


@needs_files
def test_real_files_with_their_quantisation(shared_json: Callable[[str], Any]) -> None:
    """hf_quant_config.json beside a real configuration agrees with it, and declares what its own text says."""
    pairs, declared = 0, {"FP8": "fp8", None: None}
    for path in sorted(CONFIGS.glob("*.hf_quant_config.json")):
        quantisation = shared_json(f"configs/{path.name}")
        beside = path.with_name(path.name.replace(".hf_quant_config", ""))
        config = dict(jsonfile.read_object(str(beside))) if beside.exists() else LLAMA
        pairs += beside.exists()
        preset = preset_from_config(config, file="x", quantization=quantisation)
        stated = json.loads(path.read_text(encoding="utf-8"))["quantization"]["kv_cache_quant_algo"]
        assert preset.get("kv_dtype") == declared[stated], path.name
    assert pairs >= 8
