"""config.json to preset: layouts and numbers of published files by hand, what refuses, and every file we have."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.core.formula import recurrent_state
from kvcalc.core.model import Attention, Indexer, Latent, Model, Recurrent
from kvcalc.errors import KvcalcError
from kvcalc.preset.canonical import canonical_text
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources import jsonfile
from kvcalc.sources.config import families, naming
from kvcalc.sources.config.keys import suspicious
from kvcalc.sources.config.parameters import parameter_count
from kvcalc.sources.config.reader import preset_from_config

from .refused_files import UNREAD_FILES

CONFIGS = Path(__file__).resolve().parents[3] / "shared" / "configs"
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8192, "torch_dtype": "bfloat16",
}  # fmt: skip


class Counted(NamedTuple):
    """Elements of a cache: for every token, for every token in a window or chunk, and for one sequence."""

    per_token: int
    windowed: int = 0
    fixed: int = 0


def counted(model: Model) -> Counted:
    totals: Counter[str] = Counter()
    for cache in model.caches():
        match cache:
            case Attention(pattern="full"):
                totals["per_token"] += cache.kv_heads * (cache.k_dim + cache.v_dim)
            case Attention(pattern="sliding" | "chunked"):
                totals["windowed"] += cache.kv_heads * (cache.k_dim + cache.v_dim)
            case Latent():
                totals["per_token"] += cache.rank + cache.rope
            case Indexer():
                totals["per_token"] += cache.dim
            case Recurrent():
                state = recurrent_state(cache)
                totals["fixed"] += state[0] * state[1] + state[2]
    return Counted(totals["per_token"], totals["windowed"], totals["fixed"])


def read(config: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The preset of a configuration; it loads, and its canonical text reads back to the same model."""
    preset = preset_from_config(config, file="model/config.json", **options)
    model, problems = model_from_preset(preset, "x")
    assert problems == []
    assert model_from_preset(yaml.safe_load(canonical_text(preset)), "x") == (model, [])
    return preset


def loaded(config: dict[str, Any], **options: Any) -> Model:
    model, _ = model_from_preset(read(config, **options), "x")
    assert model is not None
    return model


class Fact(NamedTuple):
    """Excerpt of a published configuration, where it was read, and what is expected of it, worked out by hand."""

    source: str
    config: dict[str, Any]
    layers: str
    elements: Counted


FACTS = {
    "llama 3 8b": Fact("meta-llama/Meta-Llama-3-8B", LLAMA, "32 full", Counted(32 * 8 * 2 * 128)),
    "mistral: a missing window is the class's": Fact(
        "transformers 5.24.0, MistralConfig: sliding_window 4096, 8 kv heads",
        {"model_type": "mistral"}, "32 sliding", Counted(0, 32 * 8 * 2 * 128),
    ),
    "mistral: a null window is none": Fact(
        "mistralai/Mistral-7B-Instruct-v0.2",
        {"model_type": "mistral", "sliding_window": None}, "32 full", Counted(32 * 8 * 2 * 128),
    ),
    "mistral: null kv heads are all heads": Fact(
        "models-notes.md, rule 10",
        {"model_type": "mistral", "sliding_window": None, "num_key_value_heads": None},
        "32 full", Counted(32 * 32 * 2 * 128),
    ),
    "qwen 2.5: the window is switched off": Fact(
        "Qwen/Qwen2.5-7B-Instruct",
        {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
         "num_key_value_heads": 4, "sliding_window": 131072, "use_sliding_window": False, "max_window_layers": 28},
        "28 full", Counted(28 * 4 * 2 * 128),
    ),
    "qwen 2 with a window": Fact(
        "transformers 5.24.0, Qwen2Config: layers from max_window_layers on",
        {"model_type": "qwen2", "num_hidden_layers": 4, "use_sliding_window": True, "max_window_layers": 1},
        "full, 3 sliding", Counted(32 * 2 * 128, 3 * 32 * 2 * 128),
    ),
    "gemma 2: alternating without a pattern key": Fact(
        "google/gemma-2-2b-it",
        {"model_type": "gemma2", "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "sliding_window": 4096},
        "13 x (sliding, full)", Counted(13 * 4 * 2 * 256, 13 * 4 * 2 * 256),
    ),
    "gemma 3 4b: heads, head size and pattern are the class's": Fact(
        "google/gemma-3-4b-it, first revision",
        {"model_type": "gemma3", "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "sliding_window": 1024}, "vision_config": {"num_hidden_layers": 27, "num_attention_heads": 16}},
        "5 x (5 sliding, full), 4 sliding", Counted(5 * 4 * 2 * 256, 29 * 4 * 2 * 256),
    ),
    "gemma 3n e2b: the last ten layers reuse": Fact(
        "google/gemma-3n-E2B-it",
        {"model_type": "gemma3n", "text_config": {
            "model_type": "gemma3n_text", "num_hidden_layers": 30, "num_kv_shared_layers": 10}},
        "4 x (4 sliding, full), 2 x (4 shared:sliding, shared:full)", Counted(4 * 2 * 2 * 256, 16 * 2 * 2 * 256),
    ),
    "gemma 4 31b: full layers have heads of their own": Fact(
        "nvidia/Gemma-4-31B-IT-NVFP4",
        {"model_type": "gemma4_text", "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16,
         "head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 4, "attention_k_eq_v": True,
         "sliding_window": 1024, "layer_types": ([*["sliding_attention"] * 5, "full_attention"]) * 10},
        "10 x (5 sliding, full)", Counted(10 * 4 * 2 * 512, 50 * 16 * 2 * 256),
    ),
    "llama 4: an empty list means every fourth": Fact(
        "meta-llama/Llama-4-Scout-17B-16E-Instruct",
        {"model_type": "llama4", "text_config": {"model_type": "llama4_text", "no_rope_layers": []}},
        "12 x (3 chunked, full)", Counted(12 * 8 * 2 * 128, 36 * 8 * 2 * 128),
    ),
    "exaone 4: a pattern of letters": Fact(
        "LGAI-EXAONE/EXAONE-4.0-32B",
        {"model_type": "exaone4", "hidden_size": 5120, "num_hidden_layers": 64, "num_attention_heads": 40,
         "num_key_value_heads": 8, "sliding_window": 4096, "sliding_window_pattern": "LLLG"},
        "16 x (3 sliding, full)", Counted(16 * 8 * 2 * 128, 48 * 8 * 2 * 128),
    ),
    "falcon 7b: multi query": Fact(
        "transformers 5.24.0, FalconConfig", {"model_type": "falcon"}, "32 full", Counted(32 * 2 * 64),
    ),
    "falcon 40b: the new layout ignores multi query": Fact(
        "tiiuae/falcon-40b",
        {"model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
         "num_kv_heads": 8, "multi_query": True, "new_decoder_architecture": True},
        "60 full", Counted(60 * 8 * 2 * 64),
    ),
    "chatglm 3": Fact(
        "THUDM/chatglm3-6b",
        {"model_type": "chatglm", "num_layers": 28, "hidden_size": 4096, "num_attention_heads": 32, "kv_channels": 128,
         "multi_query_attention": True, "multi_query_group_num": 2, "seq_length": 8192},
        "28 full", Counted(28 * 2 * 2 * 128),
    ),
    "deepseek v3: the latent counts once": Fact(
        "deepseek-ai/DeepSeek-V3",
        {"model_type": "deepseek_v3", "num_attention_heads": 128, "num_key_value_heads": 128, "kv_lora_rank": 512,
         "qk_rope_head_dim": 64, "num_nextn_predict_layers": 1},
        "61 latent", Counted(61 * 576),
    ),
    "deepseek vl2 tiny: no rank, so ordinary attention": Fact(
        "deepseek-ai/deepseek-vl2-tiny: use_mla false",
        {"model_type": "deepseek_v2", "use_mla": False, "kv_lora_rank": None, "hidden_size": 1280,
         "num_hidden_layers": 12, "num_attention_heads": 10, "num_key_value_heads": 10},
        "12 full", Counted(12 * 10 * 2 * 128),
    ),
    "glm 5.2: some layers own an indexer": Fact(
        "zai-org/GLM-5.2, cut to six layers",
        {"model_type": "glm_moe_dsa", "num_hidden_layers": 6,
         "indexer_types": ["full", "full", "full", "shared", "shared", "shared"]},
        "3 latent+indexer, 3 latent", Counted(6 * 576 + 3 * 128),
    ),
    "deepseek v4: ratios, and one for the draft layer": Fact(
        "deepseek-ai/DeepSeek-V4-Flash, cut to four layers",
        {"model_type": "deepseek_v4", "num_hidden_layers": 4, "qk_rope_head_dim": 64,
         "compress_ratios": [0, 4, 128, 4, 0], "num_nextn_predict_layers": 1},
        "window, window+csa, window+hca, window+csa", Counted(0, 4 * 512),
    ),
    "deepseek v4: layers in words beside their ratios": Fact(
        "deepseek-ai/DeepSeek-V4-Flash, cut to three layers, with the list that DeepseekV4Config makes of its ratios",
        {"model_type": "deepseek_v4", "num_hidden_layers": 3, "qk_rope_head_dim": 64, "compress_ratios": [0, 4, 128],
         "layer_types": ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]},
        "window, window+csa, window+hca", Counted(0, 3 * 512),
    ),
    "kimi linear: layers counted from one": Fact(
        "moonshotai/Kimi-Linear-48B-A3B-Instruct",
        {"model_type": "kimi_linear", "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32,
            "kda_layers": [i for i in range(1, 28) if i not in (4, 8, 12, 16, 20, 24, 27)],
            "short_conv_kernel_size": 4}, "head_dim": 72},
        "6 x (3 kda, latent), 2 kda, latent", Counted(7 * 576, 0, 20 * (3 * 32 * 128 * 3 + 32 * 128 * 128)),
    ),
    "qwen 3.5 27b": Fact(
        "Qwen/Qwen3.5-27B",
        {"model_type": "qwen3_5", "text_config": {
            "model_type": "qwen3_5_text", "num_hidden_layers": 64, "num_attention_heads": 24, "num_key_value_heads": 4,
            "linear_num_value_heads": 48, "mamba_ssm_dtype": "float32"}},
        "16 x (3 deltanet, full)", Counted(16 * 4 * 2 * 256, 0, 48 * (10240 * 3 + 48 * 128 * 128)),
    ),
    "jamba: period and offset": Fact(
        "ai21labs/Jamba-v0.1",
        {"model_type": "jamba", "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_state": 16},
        "4 x (4 mamba1, full, 3 mamba1)", Counted(4 * 8 * 2 * 128, 0, 28 * 8192 * (3 + 16)),
    ),
    "falcon mamba: the stated width beats expand": Fact(
        "tiiuae/falcon-mamba-7b",
        {"model_type": "falcon_mamba", "num_hidden_layers": 64, "hidden_size": 4096, "intermediate_size": 8192,
         "expand": 16, "state_size": 16, "conv_kernel": 4},
        "64 mamba1", Counted(0, 0, 64 * 8192 * (3 + 16)),
    ),
    "bamba: indices": Fact(
        "ibm-ai-platform/Bamba-9B",
        {"model_type": "bamba", "attn_layer_indices": [9, 18, 27], "mamba_d_state": 128},
        "mamba2, 3 x (8 mamba2, full), 4 mamba2",
        Counted(3 * 8 * 2 * 128, 0, 29 * ((8192 + 2 * 128) * 3 + 8192 * 128)),
    ),
    "zamba2 7b: head size 2 x width / heads, 112 heads of the state": Fact(
        "Zyphra/Zamba2-7B-Instruct, cut to three layers",
        {"model_type": "zamba2", "hidden_size": 3584, "num_hidden_layers": 3, "num_attention_heads": 32,
         "mamba_headdim": 64, "mamba_ngroups": 2, "state_size": 64, "conv_dimension": 4, "expansion_factor": 2,
         "kv_channels": 112, "layers_block_type": ["mamba", "hybrid", "mamba"]},
        "mamba2, full+mamba2, mamba2", Counted(32 * 2 * 224, 0, 3 * ((7168 + 256) * 3 + 7168 * 64)),
    ),
    "nemotron-h: letters": Fact(
        "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4, cut to four layers",
        {"model_type": "nemotron_h", "hybrid_override_pattern": "ME*-", "num_hidden_layers": 4,
         "mtp_hybrid_override_pattern": "*E", "num_nextn_predict_layers": 1, "mamba_ssm_cache_dtype": "float32"},
        "mamba2, none, full, none", Counted(8 * 2 * 128, 0, (8192 + 2048) * 3 + 8192 * 128),
    ),
    "lfm2 350m": Fact(
        "LiquidAI/LFM2-350M",
        {"model_type": "lfm2", "hidden_size": 1024, "num_hidden_layers": 16, "num_attention_heads": 16,
         "full_attn_idxs": [2, 5, 8, 10, 12, 14], "conv_L_cache": 3},
        "3 x (2 shortconv, full), 3 x (shortconv, full), shortconv", Counted(6 * 8 * 2 * 64, 0, 10 * 1024 * 2),
    ),
    "minimax text 01: flags": Fact(
        "MiniMaxAI/MiniMax-Text-01, cut to eight layers",
        {"model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 8, "num_attention_heads": 64,
         "num_key_value_heads": 8, "head_dim": 128, "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1]},
        "7 lightning, full", Counted(8 * 2 * 128, 0, 7 * 64 * 128 * 128),
    ),
    "minimax m3: an index key beside": Fact(
        "MiniMaxAI/MiniMax-M3, cut to four layers",
        {"model_type": "minimax_m3", "hidden_size": 6144, "num_hidden_layers": 4, "num_attention_heads": 64,
         "num_key_value_heads": 4, "head_dim": 128, "sparse_attention_config": {
             "use_sparse_attention": True, "sparse_index_dim": 128, "sparse_block_size": 128,
             "sparse_attention_freq": [0, 0, 0, 1]}},
        "3 full, full+indexer", Counted(4 * 4 * 2 * 128 + 128),
    ),
    "mimo v2: values narrower than keys, more heads in the window": Fact(
        "XiaomiMiMo/MiMo-V2-Flash, cut to six layers",
        {"model_type": "mimo_v2_flash", "num_hidden_layers": 6, "hybrid_layer_pattern": [0, 1, 1, 1, 1, 0],
         "sliding_window": 128, "sliding_window_size": 128, "attention_chunk_size": 128, "swa_head_dim": 192,
         "swa_v_head_dim": 128, "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8},
        "full, 4 sliding, full", Counted(2 * 4 * 320, 4 * 8 * 320),
    ),
    "step 3.7: more query heads in the window": Fact(
        "stepfun-ai/Step-3.7-Flash, cut to four layers; attention_other_setting as in Step3p5Config",
        {"model_type": "step3p7", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 64, "head_dim": 128,
         "num_attention_groups": 8, "sliding_window": 512, "num_nextn_predict_layers": 1,
         "attention_other_setting": {"num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128},
         "layer_types": ["full_attention", *["sliding_attention"] * 4]},
        "full, 3 sliding", Counted(8 * 2 * 128, 3 * 8 * 2 * 128),
    ),
    "nemotron nas: blocks without attention": Fact(
        "nvidia/Llama-3_3-Nemotron-Super-49B-v1, cut to three layers",
        {"model_type": "nemotron-nas", "hidden_size": 8192, "num_hidden_layers": 3, "num_attention_heads": 64,
         "num_key_value_heads": None, "block_configs": [
             {"attention": {"n_heads_in_group": 8, "no_op": False, "replace_with_linear": False}},
             {"attention": {"n_heads_in_group": None, "no_op": True}},
             {"attention": {"n_heads_in_group": 16, "no_op": False}}]},
        "full, noop, full", Counted((8 + 4) * 2 * 128),
    ),
    "openelm: heads for each layer": Fact(
        "apple/OpenELM-270M, cut to three layers",
        {"model_type": "openelm", "num_transformer_layers": 3, "head_dim": 64, "num_query_heads": [12, 12, 16],
         "num_kv_heads": [3, 3, 4], "model_dim": 1280},
        "3 full", Counted(10 * 2 * 64),
    ),
    "hunyuan: sharing only with use_cla": Fact(
        "tencent/Tencent-Hunyuan-Large, cut to four layers",
        {"model_type": "hunyuan", "hidden_size": 6400, "num_hidden_layers": 4, "num_attention_heads": 80,
         "num_key_value_heads": 8, "use_cla": True, "cla_share_factor": 2},
        "2 x (full, shared:full)", Counted(2 * 8 * 2 * 80),
    ),
    "hunyuan: an idle factor": Fact(
        "tencent/Hunyuan-A13B-Instruct, cut to four layers",
        {"model_type": "hunyuan", "hidden_size": 4096, "num_hidden_layers": 4, "num_attention_heads": 32,
         "num_key_value_heads": 8, "attention_head_dim": 128, "use_cla": False, "cla_share_factor": 2},
        "4 full", Counted(4 * 8 * 2 * 128),
    ),
    "gpt-neo: blocks of types": Fact(
        "EleutherAI/gpt-neo-2.7B",
        {"model_type": "gpt_neo", "num_layers": 32, "num_heads": 20, "hidden_size": 2560, "window_size": 256,
         "attention_types": [[["global", "local"], 16]]},
        "16 x (full, sliding)", Counted(16 * 20 * 2 * 128, 16 * 20 * 2 * 128),
    ),
    "longcat: two latents in a block": Fact(
        "transformers 5.24.0, LongcatFlashConfig", {"model_type": "longcat_flash"}, "28 latent+latent", Counted(56 * 576),
    ),
    "recurrent gemma": Fact(
        "google/recurrentgemma-2b",
        {"model_type": "recurrent_gemma", "num_key_value_heads": 1, "head_dim": 256, "lru_width": 2560},
        "8 x (2 rglru, sliding), 2 rglru", Counted(0, 8 * 2 * 256, 18 * (2560 * 3 + 2560)),
    ),
    "whisper turbo: the decoder's layers": Fact(
        "openai/whisper-large-v3-turbo",
        {"model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 4,
         "encoder_attention_heads": 20, "decoder_attention_heads": 20, "num_hidden_layers": 32},
        "4 full+cross", Counted(4 * 20 * 2 * 64),
    ),
    "t5 3b: heads wider than the model": Fact(
        "google-t5/t5-3b",
        {"model_type": "t5", "num_layers": 24, "num_heads": 32, "d_model": 1024, "d_kv": 128},
        "24 full+cross", Counted(24 * 32 * 2 * 128),
    ),
    "llama 3.2 vision: layers that look at the image": Fact(
        "meta-llama/Llama-3.2-11B-Vision-Instruct",
        {"model_type": "mllama", "text_config": {
            "model_type": "mllama_text_model", "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]}},
        "8 x (3 full, cross, full)", Counted(32 * 8 * 2 * 128),
    ),
    "qwen 2.5 omni: two levels down": Fact(
        "Qwen/Qwen2.5-Omni-7B",
        {"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "qwen2_5_omni_thinker", "text_config": {
            "model_type": "qwen2_5_omni_text", "num_hidden_layers": 28}}, "talker_config": {"num_hidden_layers": 24}},
        "28 full", Counted(28 * 4 * 2 * 128),
    ),
    "grok-2: its type is another model's name": Fact(
        "xai-org/grok-2",
        {"model_type": "git", "architectures": ["Grok1ForCausalLM"], "hidden_size": 8192, "num_hidden_layers": 64,
         "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "sliding_window_size": -1,
         "global_attn_every_n": 1},
        "64 full", Counted(64 * 8 * 2 * 128),
    ),
    "minicpm3: no type, no value width": Fact(
        "openbmb/MiniCPM3-4B",
        {"architectures": ["MiniCPM3ForCausalLM"], "hidden_size": 2560, "num_hidden_layers": 62,
         "num_attention_heads": 40, "num_key_value_heads": 40, "kv_lora_rank": 256, "qk_nope_head_dim": 64,
         "qk_rope_head_dim": 32},
        "62 latent", Counted(62 * 288),
    ),
    "mistral large 4: the latent of an earlier layer": Fact(
        "transformers 5.24.0, MistralLarge4TextConfig, cut to three layers",
        {"model_type": "mistral_large4_text", "num_hidden_layers": 3, "kv_source_layers": [0, 0, 2],
         "indexer_types": ["full", "full", "shared"]},
        "latent+indexer, shared:latent+indexer, latent", Counted(2 * 576 + 2 * 128),
    ),
    "mistral large 4: no rotary key without rotary positions": Fact(
        "transformers 5.23.0, MistralLarge4Attention, whose cache was looked at in four layers",
        {"model_type": "mistral_large4_text", "num_hidden_layers": 4},
        "4 latent+indexer", Counted(3 * 576 + 512 + 4 * 128),
    ),
    "inkling: four convolutions in each layer": Fact(
        "transformers 5.24.0, InklingTextConfig and InklingShortConvolution, cut to two layers",
        {"model_type": "inkling_text", "num_hidden_layers": 2, "layer_types": ["hybrid_sliding", "hybrid"]},
        "sliding+sliding_conv, full+conv",
        Counted(8 * 2 * 128, 16 * 2 * 128, 3 * (2 * 16 * 128 + 2 * 8 * 128 + 4 * 6144)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("fact", FACTS.values(), ids=FACTS)
def test_facts(fact: Fact) -> None:
    """Layers and elements of excerpts of published configurations are those worked out by hand."""
    preset = read(fact.config)
    assert preset["layers"] == fact.layers, fact.source
    assert counted(loaded(fact.config)) == fact.elements, fact.source


@pytest.mark.parametrize(
    ("config", "draft"),
    [
        (FACTS["deepseek v3: the latent counts once"].config, "latent"),
        (FACTS["deepseek v4: ratios, and one for the draft layer"].config, "window"),
        (FACTS["nemotron-h: letters"].config, "full"),
        (FACTS["step 3.7: more query heads in the window"].config, "sliding"),
        ({"model_type": "glm_moe_dsa", "num_nextn_predict_layers": 1}, "latent+indexer"),
        ({"model_type": "minimax_m2", "num_mtp_modules": 3, "mtp_transformer_layers": 1, "use_mtp": True}, "3 full"),
        ({"model_type": "minimax_m2", "num_mtp_modules": 3, "mtp_transformer_layers": 1, "use_mtp": False}, None),
        ({"model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1}, "full"),
        ({"model_type": "mellum", "num_mtp_layers": 1}, "sliding"),
        ({"model_type": "inkling_text", "num_mtp_layers": 2, "mtp_local_layer_ids": [0]},
         "sliding+sliding_conv, full+conv"),
    ],
)  # fmt: skip
def test_draft(config: dict[str, Any], draft: str | None) -> None:
    """Draft layers are told apart from the model's own, with the caches that such a layer has."""
    assert read(config).get("draft") == draft


@pytest.mark.parametrize(
    ("config", "quantization", "expected"),
    [
        ({}, None, {"dtype": "bf16"}),
        ({"torch_dtype": None, "dtype": "float16"}, None, {"dtype": "fp16"}),
        ({"torch_dtype": "torch.float32"}, None, {"dtype": "fp32"}),
        ({"quantization_config": {"quant_method": "fp8"}}, None, {"dtype": "bf16", "weights_dtype": "fp8"}),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, None, {"dtype": "bf16", "weights_dtype": "int4"}),
        ({"quantization_config": {"quant_method": "mxfp4"}}, None, {"dtype": "bf16", "weights_dtype": "mxfp4"}),
        ({"quantization_config": {"config_groups": {"group_0": {"weights": {
            "num_bits": 4, "type": "float", "group_size": 16}}}, "kv_cache_scheme": {"num_bits": 8, "type": "float"}}},
         None, {"dtype": "bf16", "weights_dtype": "nvfp4", "kv_dtype": "fp8"}),
        ({"quantization_config": {"quant_algo": "FP8", "kv_cache_scheme": "FP8"}},
         None, {"dtype": "bf16", "weights_dtype": "fp8", "kv_dtype": "fp8"}),
        ({}, {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}},
         {"dtype": "bf16", "weights_dtype": "nvfp4", "kv_dtype": "fp8"}),
        ({}, {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": None}},
         {"dtype": "bf16", "weights_dtype": "nvfp4"}),
        ({"mamba_ssm_dtype": "float32"}, None, {"dtype": "bf16"}),
    ],
)  # fmt: skip
def test_dtypes(config: dict[str, Any], quantization: dict[str, Any] | None, expected: dict[str, str]) -> None:
    """The weights' dtype is told apart from the cache's, which only a scheme for the cache sets."""
    preset = read({**LLAMA, **config}, quantization=quantization)
    assert {key: value for key, value in preset.items() if key.endswith("dtype")} == expected


def test_state_dtype() -> None:
    """The dtype of recurrent states is passed on where the file states it."""
    assert read(FACTS["qwen 3.5 27b"].config)["state_dtype"] == "fp32"
    assert read(FACTS["nemotron-h: letters"].config)["state_dtype"] == "fp32"
    assert "state_dtype" not in read(FACTS["jamba: period and offset"].config)


def test_how_sparse_attention_chooses() -> None:
    """Heads and tokens of an index are passed on where the file states them; blocks are counted in tokens."""
    glm = {"model_type": "glm_moe_dsa", "num_hidden_layers": 6}
    said = {"index_n_heads": 32, "index_topk": 2048}
    assert {key: read({**glm, **said})[key] for key in ("index_heads", "index_topk")} == {
        "index_heads": 32, "index_topk": 2048,
    }  # fmt: skip
    for unsaid in ({}, {"index_n_heads": "many", "index_topk": None}, {"index_n_heads": 0, "index_topk": True}):
        assert not {"index_heads", "index_topk"} & set(read({**glm, **unsaid}))
    m3 = FACTS["minimax m3: an index key beside"].config
    sparse = {**m3["sparse_attention_config"], "sparse_num_index_heads": 4, "sparse_topk_blocks": 16}
    model = loaded({**m3, "sparse_attention_config": sparse})
    assert (model.index_heads, model.index_topk) == (4, 16 * 128)
    assert "index_topk" not in read({**LLAMA, **said})


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({"model_type": "qwen", "seq_length": 8192, "max_position_embeddings": 32768, "hidden_size": 4096,
          "num_hidden_layers": 32, "num_attention_heads": 32}, 8192),
        ({"model_type": "kimi_linear", "model_max_length": 1048576, **{
            k: v for k, v in FACTS["kimi linear: layers counted from one"].config.items() if k != "model_type"}}, 1048576),
        ({"model_type": "whisper", "max_target_positions": 448}, 448),
        ({"model_type": "gpt2", "n_positions": 1024}, 1024),
        ({"model_type": "falcon"}, None),
        ({"model_type": "t5", "n_positions": 512}, None),
        ({"model_type": "falcon_mamba"}, None),
        (FACTS["gemma 3 4b: heads, head size and pattern are the class's"].config, 131072),
    ],
)  # fmt: skip
def test_limits(config: dict[str, Any], limit: int | None) -> None:
    """The limit is read under all its names, and left out where a file of that kind states none."""
    assert read(config).get("max_context") == limit


@pytest.mark.parametrize(
    ("file", "config", "name", "hub"),
    [
        ("m/Some-Model/config.json", {}, "Some-Model", None),
        ("org__name.json", {}, "org__name", None),
        ("-", {}, "llama", None),
        ("x.json", {"_name_or_path": "openai/whisper-tiny"}, "whisper-tiny", "openai/whisper-tiny"),
        ("x.json", {"_name_or_path": "./llm"}, "x", None),
        ("a\x1b[31mb.json", {"_name_or_path": "/data/checkpoint/9"}, "a [31mb", None),
    ],
)
def test_names(file: str, config: dict[str, Any], name: str, hub: str | None) -> None:
    """The name is that of the hub where the file tells it, else the folder's or the file's, without control characters."""
    preset = preset_from_config({**LLAMA, **config}, file=file)
    assert (preset["name"], preset.get("id")) == (name, hub)
    assert str(preset["source"]).isprintable()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "brandnew"}, "model_type: expected a known model type, got 'brandnew'"),
        ({"model_type": "xlstm"}, "model_type: expected a model type whose cache can be described, got 'xlstm': its states"),
        ({"model_type": "bert"}, "got 'bert': it only encodes"),
        ({"model_type": None}, "model_type: expected the name of a model type, got nothing"),
        ({"model_type": 7}, "model_type: expected the name of a model type, got 7"),
        ({"sliding_window": 4096}, "sliding_window: expected a key whose effect on the cache is known, got 4096"),
        ({"use_cla": True}, "use_cla: expected a key whose effect on the cache is known, got True"),
        ({"sparse_config": {"kernel_size": 32}}, "sparse_config: expected a key whose effect on the cache is known"),
        ({"num_key_value_heads": 7}, "num_key_value_heads: expected a divisor of the 32 query heads, got 7"),
        ({"n_layer": 31}, "n_layer: expected 32, as num_hidden_layers says, got 31"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers: expected a whole number above zero, got '32'"),
        ({"num_hidden_layers": 10**6}, "num_hidden_layers: expected at most 1,024 layers, got 1000000"),
        ({"hidden_size": 4097}, "head_dim: expected the size of a head"),
        ({"torch_dtype": "float8"}, "torch_dtype: expected float32, float16 or bfloat16, got 'float8'"),
        ({"text_config": 3}, "text_config: expected a mapping, got 3"),
        ({"model_type": "olmo3", "layer_types": ["sliding_attention"]}, "layer_types: expected 32 entries"),
        ({"model_type": "olmo3", "layer_types": ["odd"] * 32}, "layer_types: expected one of full, sliding"),
        ({"model_type": "deepseek_v4", "compress_ratios": [0, 7] * 16}, "compress_ratios.1: expected 0, 4 or 128, got 7"),
        ({"model_type": "kimi_linear"}, "linear_attn_config: expected the lists full_attn_layers and kda_layers"),
        ({"model_type": "minimax_m2", "attn_type_list": [0] * 32}, "attn_type_list.0: expected 1, which minimax_m2"),
        ({"model_type": "hunyuan", "use_cla": True}, "cla_share_factor: expected a whole number above zero, got nothing"),
        ({"quantization_config": {"kv_cache_scheme": {"num_bits": 3}}}, "quantization_config.kv_cache_scheme: expected"),
    ],
)  # fmt: skip
def test_refused(config: dict[str, Any], message: str) -> None:
    """What is not known refuses the file in one line with its name and the key, and says a way out."""
    with pytest.raises(KvcalcError) as caught:
        preset_from_config({**LLAMA, **config}, file="m/config.json")
    assert caught.value.message.startswith("m/config.json: ")
    assert message in caught.value.message
    assert caught.value.message.isprintable()
    assert caught.value.hint


def test_assume_dense() -> None:
    """A type that is not known is read as a plain decoder on request, if nothing else is in it, and the note says so."""
    config = {**LLAMA, "model_type": "brandnew"}
    preset = read(config, assume_dense=True)
    assert preset["layers"] == "32 full"
    assert "not known" in preset["note"]
    with pytest.raises(KvcalcError, match="ssm_state_size"):
        read({**config, "ssm_state_size": 16}, assume_dense=True)
    with pytest.raises(KvcalcError, match="num_attention_heads"):
        read({key: value for key, value in config.items() if key != "num_attention_heads"}, assume_dense=True)


def test_every_class_is_read_or_refused_by_name() -> None:
    """Each model type that the table of class defaults has is in the table of families or refused with a reason."""
    table = json.loads(Path(families.__file__).with_name("class_defaults.json").read_text(encoding="utf-8"))
    assert [t for t in table["defaults"] if t not in families.FAMILIES and naming.refusal(t) is None] == []
    # Without a file the first four have no list of layers, and the others no whole number of elements per head.
    bare = {"kimi_linear", "deepseek_v4", "nemotron_h", "zamba2", "glm4_moe", "glm4v_moe_text", "qwen3_omni_moe_text"}
    for model_type in set(table["defaults"]) & set(families.FAMILIES) - bare:
        read({"model_type": model_type})


def test_overridden_keys() -> None:
    """A pattern that a list of layers repeats may stand beside it, and so may a window that is none."""
    config = {"model_type": "afmoe", "num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"],
              "global_attn_every_n_layers": 2}  # fmt: skip
    assert read(config)["layers"] == "sliding, full"
    config = {"model_type": "qwen3", "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"],
              "use_sliding_window": True, "sliding_window": 64, "max_window_layers": 1}  # fmt: skip
    assert read(config)["layers"] == "full, sliding"
    assert read({**LLAMA, "attn_config": None, "sliding_window": -1})["layers"] == "32 full"


def test_suspicious_names() -> None:
    """Keys are told by their names: those that shape a cache are suspicious, those known to be harmless are not."""
    for key in ("sliding_window", "kv_sharing", "conv_width", "latent_dim", "loop_count", "rope_dim", "use_mla"):
        assert suspicious(key), key
    for key in ("attention_dropout", "layer_norm_eps", "vision_config", "moe_layer_freq", "use_cache", "rms_norm_eps"):
        assert not suspicious(key), key


@pytest.mark.parametrize(
    ("config", "count"),
    [
        # Llama 2 7B: 6,738,415,616 weights, as its checkpoint has.
        ({**LLAMA, "num_key_value_heads": 32, "intermediate_size": 11008, "vocab_size": 32000}, 6_738_415_616),
        # Llama 3 8B: 8,030,261,248 weights, as its checkpoint has.
        ({**LLAMA, "intermediate_size": 14336, "vocab_size": 128256}, 8_030_261_248),
        ({**LLAMA, "intermediate_size": 14336}, None),
        ({**LLAMA, "intermediate_size": 14336, "vocab_size": 128256, "vision_config": {"depth": 1}}, None),
        ({"model_type": "kimi_linear"}, None),
    ],
)
def test_parameters(config: dict[str, Any], count: int | None) -> None:
    """Parameters are counted exactly from the shapes, and not at all where a shape is not known."""
    assert parameter_count(config) == count


def test_widths_that_count_both_halves() -> None:
    """Qwen 7B and Molmo 7B state twice the channels: those of Llama 7B's part, 11,008, and of Qwen2 7B's, 18,944."""
    qwen = {**LLAMA, "model_type": "qwen", "kv_channels": 128, "intermediate_size": 22_016, "vocab_size": 151_936}
    molmo = {**LLAMA, "model_type": "molmo", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
             "intermediate_size": 37_888, "vocab_size": 152_064}  # fmt: skip
    found = [preset_from_config(config, file="m/config.json", assume_dense=True) for config in (qwen, molmo)]
    assert [preset["dimensions"]["intermediate"] for preset in found] == [11_008, 18_944]


# The folder grows: the least that was there once, of files that are read, that have a second opinion, and whose
# parameters were counted.
LEAST_READ, LEAST_COMPARED, LEAST_COUNTED = 281, 120, 70


def test_every_published_file(shared_json: Callable[[str], Any]) -> None:
    """All published configurations that we have are read, and equal to the second opinion where there is one."""
    known = {entry["file"]: entry["hub_id"] for entry in shared_json("configs/INDEX.json")}
    opinions = {entry["hub_id"]: entry for entry in shared_json("models/models.json") if "derived" in entry}
    refused: dict[str, str] = {}
    read, compared, counted_up = 0, 0, 0
    for path in sorted(CONFIGS.glob("*.json")):
        if path.name == "INDEX.json" or path.name.endswith(".hf_quant_config.json"):
            continue
        try:
            model = loaded(dict(jsonfile.read_object(str(path))))
        except KvcalcError as error:
            refused[path.name] = error.message
            continue
        read += 1
        entry = opinions.get(known.get(path.name, ""))
        compared += entry is not None and agrees(model, entry)
        counted_up += close(model, entry)
    assert {name: why for name, why in refused.items() if UNREAD_FILES.get(name, "?") not in why} == {}
    assert [name for name in UNREAD_FILES if (CONFIGS / name).exists() and name not in refused] == []
    assert (read >= LEAST_READ, compared >= LEAST_COMPARED, counted_up >= LEAST_COUNTED) == (True, True, True)


def agrees(model: Model, entry: dict[str, Any]) -> bool:
    """The model has the layers and elements of models.json's own reading of the same file."""
    derived, elements = entry["derived"], counted(model)
    assert len(model.layers) == entry["num_hidden_layers"], entry["hub_id"]
    if "kv_elements_per_token_unbounded" in derived:  # DeepSeek V4 has none: its entries are compressed
        assert elements == (
            derived["kv_elements_per_token_unbounded"],
            derived.get("kv_elements_per_token_windowed", 0),
            derived.get("fixed_state_elements_per_sequence", 0),
        ), entry["hub_id"]
    return True


# The card's number is rounded or of another thing: 0.46B and 4.22B are what the shapes make.
ROUNDED = ("Qwen/Qwen1.5-0.5B-Chat", "tencent/Hunyuan-4B-Instruct")


def close(model: Model, entry: dict[str, Any] | None) -> bool:
    """The number of parameters was counted, and is within 1 % of the one that the model's card states."""
    stated = entry and entry.get("total_params_b")
    if model.parameters is None or not stated or entry["hub_id"] in ROUNDED:
        return False
    return abs(model.parameters / (stated * 1e9) - 1) < 0.01


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70) | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(["full_attention", "sliding_attention", "mamba", "conv", "M*-E", "LLLG", "auto", "float32"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3), max_leaves=8,
)  # fmt: skip
KEYS = sorted(
    {key for fact in FACTS.values() for key in fact.config}
    | {"quantization_config", "dtype", "_name_or_path", "architectures", "vision_config", "mtp_layers_block_type",
       "index_topk_pattern", "index_topk_freq", "vocab_size", "tie_word_embeddings", "swa_head_dim", "intermediate_size",
       "num_experts", "first_k_dense_replace", "head_size", "attention_hidden_size", "local_layer_ids", "mamba_d_ssm"}
)  # fmt: skip


@given(st.sampled_from(sorted(families.FAMILIES)), st.dictionaries(st.sampled_from(KEYS), ANY, max_size=4))
@settings(deadline=None, max_examples=150, derandomize=True, database=None)
def test_any_value(model_type: str, values: dict[str, Any]) -> None:
    """Whatever stands under a known key, the answer is a preset that loads or one line, never another exception."""
    assert_answer({"model_type": model_type, **values})


@given(st.sampled_from(sorted(FACTS)), st.dictionaries(st.sampled_from(KEYS), ANY, max_size=3))
@settings(deadline=None, max_examples=150, derandomize=True, database=None)
def test_spoilt_files(name: str, values: dict[str, Any]) -> None:
    """A published file with values overwritten gives a preset that loads or one line, never another exception."""
    assert_answer({**FACTS[name].config, **values})


def assert_answer(config: dict[str, Any]) -> None:
    preset, message = answer(config)
    assert message.isprintable()
    assert preset is None or model_from_preset(preset, "x")[1] == []


def answer(config: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    try:
        return preset_from_config(config, file="m/config.json"), ""
    except KvcalcError as error:
        return None, error.message
