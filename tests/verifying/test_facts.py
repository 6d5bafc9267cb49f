"""A preset's facts under the names of its published config.json, by values that were published."""

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.verifying.expressing import class_type, config_of

# Each from the config.json that the preset names as its source.
PUBLISHED: dict[str, dict[str, object]] = {
    "llama3-70b": {
        "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8,
        "sliding_window": None,
    },
    "mistral-7b-v0.1": {"sliding_window": 4096},
    "gemma3n-e4b": {"num_hidden_layers": 35, "num_kv_shared_layers": 15, "sliding_window": 512},
    "llama4-scout": {"attention_chunk_size": 8192, "no_rope_layers": [1, 1, 1, 0] * 12},
    "falcon-7b": {"multi_query": True, "new_decoder_architecture": False, "hidden_size": 4544},
    "falcon-40b": {"multi_query": False, "new_decoder_architecture": True, "num_kv_heads": 8},
    "deepseek-v3": {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128},
    "jamba-1.5-mini": {
        "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_expand": 2, "mamba_d_state": 16, "mamba_d_conv": 4,
        "hidden_size": 4096,
    },
    "bamba-9b": {"attn_layer_indices": [9, 18, 27], "mamba_n_heads": 128, "mamba_expand": 2, "mamba_d_state": 128},
    "zamba2-7b": {"hidden_size": 3584, "n_mamba_heads": 112, "mamba_ngroups": 2, "mamba_expand": 2},
    "qwen3-next-80b": {"linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_conv_kernel_dim": 4},
    "recurrentgemma-2b": {"lru_width": 2560, "conv1d_width": 4, "attention_window_size": 2048, "num_key_value_heads": 1},
    "t5-3b": {"num_heads": 32, "d_kv": 128, "num_decoder_layers": 24},
    "whisper-large-v3": {"decoder_layers": 32, "decoder_attention_heads": 20, "max_source_positions": 1500},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_keys(name: str) -> None:
    """A preset gives back the numbers of the file that it was read from."""
    facts = config_of(loader.load(name))
    assert {key: facts.get(key) for key in PUBLISHED[name]} == PUBLISHED[name]


def test_kimi_counts_from_one() -> None:
    """Kimi Linear lists every fourth of its 27 layers and the last one as full attention, counted from one."""
    inner = config_of(loader.load("kimi-linear-48b"))["linear_attn_config"]
    assert isinstance(inner, dict)
    assert inner["full_attn_layers"] == [4, 8, 12, 16, 20, 24, 27]
    assert sorted([*inner["full_attn_layers"], *inner["kda_layers"]]) == list(range(1, 28))


def test_layers_of_another_type_are_refused() -> None:
    """A model type whose caches the layers do not have is named."""
    preset = b"name: Odd 1\nmodel_type: deepseek_v3\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full\n"
    with pytest.raises(KvcalcError, match="model_type: expected one without a latent cache, as the layers are, got"):
        config_of(loader.load_text(preset, "odd.yaml"))


def test_no_model_type_is_refused() -> None:
    """Without a model type there is no class to ask."""
    with pytest.raises(KvcalcError, match=r"^model_type: expected the model type whose class builds the cache"):
        class_type(None)
