"""Files as people have them: params.json of Meta and Mistral, language parts without a type, keys of other halves.

Sizes are worked out beside each case. Sources: the published files that are named; for names in params.json
`transformers_utils/configs/mistral.py` of vLLM 0.33.0.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kvcalc.core.formula import size
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.preset.mapping import model_from_preset
from kvcalc.sources.config.native import translated
from kvcalc.sources.config.reader import preset_from_config, read_config

CONFIGS = Path(__file__).resolve().parents[3] / "shared" / "configs"
needs_files = pytest.mark.skipif(not CONFIGS.is_dir(), reason="the published configurations are not here")


def total(config: dict[str, Any], context: int) -> int:
    """Bytes of one sequence, by the formula and not by the engine."""
    model, problems = model_from_preset(preset_from_config(config, file="x"), "x")
    assert model is not None, problems
    return measure(ask(model, context=context)).bytes_per_sequence


def refusal(config: dict[str, Any]) -> KvcalcError:
    with pytest.raises(KvcalcError) as caught:
        preset_from_config(config, file="x")
    return caught.value


# params.json of Mistral 7B v0.1, Llama 3 70B, Mixtral 8x7B, and shapes of the others' kinds.
MISTRAL = {"dim": 4096, "n_layers": 32, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8,
           "norm_eps": 1e-05, "sliding_window": 4096, "vocab_size": 32000}  # fmt: skip
LLAMA = {"dim": 8192, "ffn_dim_multiplier": 1.3, "multiple_of": 4096, "n_heads": 64, "n_kv_heads": 8, "n_layers": 80,
         "norm_eps": 1e-05, "vocab_size": 128256, "rope_theta": 500000.0}  # fmt: skip
PLAIN = {key: value for key, value in MISTRAL.items() if key != "sliding_window"}


@pytest.mark.parametrize(
    ("params", "context", "expected"),
    [
        # 32 layers x 2 x 8 x 128 x 2 B = 131,072 B a token, of 4,096 at most
        (MISTRAL, 8192, 131_072 * 4096),
        (PLAIN, 8192, 131_072 * 8192),
        # a window in every second layer: 16 x 4,096 B for each of 8,192 tokens and of 4,096
        ({**MISTRAL, "sliding_window": [4096, None]}, 8192, 16 * 4096 * (8192 + 4096)),
        # 80 x 2 x 8 x 128 x 2 B, as the config.json of Llama 3 70B
        (LLAMA, 4096, 327_680 * 4096),
        # Llama 2 7B has no n_kv_heads: 32 x 2 x 32 x 128 x 2 B
        ({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-05, "vocab_size": -1}, 100,
         524_288 * 100),
        ({**PLAIN, "moe": {"num_experts_per_tok": 2, "num_experts": 8}}, 100, 131_072 * 100),
        # Mistral Large 3: latents of 512 + 64 elements in 61 layers
        ({**PLAIN, "n_layers": 61, "n_heads": 128, "n_kv_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
          "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
          "llama_4_scaling": {"original_max_position_embeddings": 8192, "beta": 0.1},
          "moe": {"num_experts": 128, "num_shared_experts": 1}}, 100, 61 * 576 * 2 * 100),
        # Pixtral: a tower of its own beside
        ({**PLAIN, "n_layers": 40, "dim": 5120, "vision_encoder": {"hidden_size": 1024, "num_hidden_layers": 24,
          "num_attention_heads": 16, "patch_size": 16, "rope_theta": 10000.0}}, 100, 40 * 4096 * 100),
        ({**PLAIN, "quantization": {"qformat_weight": "fp8_e4m3", "qscheme_act": "TENSOR"}}, 100, 131_072 * 100),
    ],
)  # fmt: skip
def test_params_json(params: dict[str, Any], context: int, expected: int) -> None:
    """The numbers of a params.json are those of the config.json of the same model."""
    assert total(translated(params, "params.json"), context) == expected


def test_params_json_states_no_limit_and_no_dtype() -> None:
    """Neither is the class's: a params.json leaves both out."""
    preset = preset_from_config(translated(PLAIN, "x"), file="x")
    assert "max_context" not in preset
    assert "states no dtype" in preset["note"]
    stored = preset_from_config(translated({**PLAIN, "quantization": {"qformat_weight": "fp8_e4m3"}}, "x"), file="x")
    assert stored["weights_dtype"] == "fp8"
    assert preset_from_config(translated({**PLAIN, "max_seq_len": 32768}, "x"), file="x")["max_context"] == 32768


def test_params_json_in_its_place(tmp_path: Path) -> None:
    """A file of that name, its folder, and its text on standard input are read alike; the folder gives the name."""
    folder = tmp_path / "Meta-Llama-3-70B"
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps(LLAMA))
    for model in (loader.load(f"{folder}/params.json"), loader.load(f"{folder}/")):
        assert model.name == "Meta-Llama-3-70B"
        assert len(model.layers) == 80
    assert len(loader.load_text(json.dumps(LLAMA).encode(), "<stdin>").layers) == 80


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"sliding_window": []}, "sliding_window"),
        ({"sliding_window": [4096, 2048]}, "sliding_window"),
        ({"sliding_window": [4096, None, None]}, "sliding_window"),  # no divisor of 32
        ({"sliding_window": "4096"}, "sliding_window"),
        ({"quantization": "fp8"}, "quantization"),
        ({"quantization": {"qformat_weight": "int3"}}, "qformat_weight"),
        ({"nope_layer_interval": 4}, "nope_layer_interval"),  # Llama 4
        ({"n_heads": 0}, "num_attention_heads"),
        ({"n_layers": 10**9}, "num_hidden_layers"),
        ({"attention_chunk_size": 8192}, "attention_chunk_size"),
    ],
)
def test_what_a_params_json_may_not_say(changes: dict[str, Any], word: str) -> None:
    """What is not understood of it is refused, as in a config.json."""
    with pytest.raises(KvcalcError, match=word):
        preset_from_config(translated({**MISTRAL, **changes}, "x"), file="x")


# deepseek-ai/DeepSeek-OCR, reduced: 12 x 2 x 10 x 128 x 2 B = 61,440 B a token.
OCR: dict[str, Any] = {
    "architectures": ["DeepseekOCRForCausalLM"], "model_type": "deepseek_vl_v2", "torch_dtype": "bfloat16",
    "language_config": {
        "architectures": ["DeepseekV2ForCausalLM"], "hidden_size": 1280, "kv_lora_rank": None, "num_hidden_layers": 12,
        "max_position_embeddings": 8192, "num_attention_heads": 10, "num_key_value_heads": 10, "q_lora_rank": None,
        "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "v_head_dim": 0, "use_mla": False, "torch_dtype": "bfloat16"},
    "vision_config": {"model_type": "vision"}, "num_hidden_layers": 12, "use_mla": False}  # fmt: skip
PART = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
        "torch_dtype": "bfloat16", "sliding_window": None}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "token"),
    [
        (OCR, 61_440),
        ({**OCR, "language_config": {k: v for k, v in OCR["language_config"].items() if k != "architectures"}}, 61_440),
        # 32 x 2 x 8 x 128 x 2 B: told by the architecture inside, or by what the model around takes
        # (`sub_configs_defaults` of transformers 5.24.0)
        ({"model_type": "internvl_chat", "llm_config": {**PART, "architectures": ["LlamaForCausalLM"]}}, 131_072),
        ({"model_type": "new_vl", "text_config": {**PART, "architectures": ["Qwen2ForCausalLM"]}}, 131_072),
        ({"model_type": "multi_modality", "language_config": PART}, 131_072),
        ({"model_type": "internvl", "text_config": PART}, 131_072),
        ({"model_type": "granite_speech", "text_config": PART}, 131_072),
        ({"model_type": "perception_lm", "text_config": PART}, 131_072),
    ],
)
def test_a_language_part_without_a_type(config: dict[str, Any], token: int) -> None:
    """It is what its architecture says, or what the model around it has for one."""
    assert total(config, 100) == 100 * token


def test_a_language_part_of_which_nothing_tells_the_type() -> None:
    """The refusal names the place where a type belongs, and the way out leads to an answer."""
    config = {"model_type": "brandnew_vl", "text_config": PART}
    error = refusal(config)
    assert "text_config.model_type" in error.message
    assert "'brandnew_vl' around it implies none" in error.message
    assert "--assume-dense" in str(error.hint)
    assert preset_from_config(config, file="x", assume_dense=True)["layers"] == "32 full"
    typed = {"model_type": "brandnew_vl", "text_config": {**PART, "model_type": "llama"}}
    assert total(typed, 100) == 100 * 131_072


@pytest.mark.parametrize(
    "key",
    ["encoder_patch_size", "gen_head_config", "tile_attention", "audio_window_size", "vq_head_dim", "global_view_pos",
     "mm_local_blocks", "speech_encoder_layers", "codec_cache", "view_attention_pattern", "projector_layers"],
)  # fmt: skip
def test_keys_of_the_other_halves_do_not_stop_the_text(key: str) -> None:
    """Around the language part, a key of the half for images or sound is no matter of its cache."""
    whole = {"model_type": "llava", "text_config": {**PART, "model_type": "llama"}, key: {"num_layers": 3}}
    assert total(whole, 100) == total({**whole, key: 7}, 100) == 100 * 131_072


def test_keys_that_are_nobody_elses_still_stop_it() -> None:
    """What may be meant for the language part is refused around it, all such keys at once, with a way out that works."""
    whole = {"model_type": "llava", "text_config": {**PART, "model_type": "llama", "kv_reuse": 2},
             "attention_blocks": 4, "share_layers": True}  # fmt: skip
    error = refusal(whole)
    for key in ("kv_reuse", "attention_blocks", "share_layers"):
        assert key in error.message + str(error.hint)
    text = {key: value for key, value in whole["text_config"].items() if key != "kv_reuse"}  # type: ignore[attr-defined]
    assert total({"model_type": "llava", "text_config": text}, 100) == 100 * 131_072


# inclusionAI/Ring-mini-linear-2.0, and the shape of the 2.5 generation, reduced.
RING: dict[str, Any] = {
    "architectures": ["BailingMoeLinearV2ForCausalLM"], "model_type": "bailing_moe_linear", "group_norm_size": 4,
    "head_dim": 128, "hidden_size": 2048, "layer_group_size": 5, "linear_silu": False, "num_attention_heads": 16,
    "max_position_embeddings": 131072, "num_hidden_layers": 20, "num_key_value_heads": 4,
    "num_nextn_predict_layers": 0, "torch_dtype": "bfloat16", "vocab_size": 157184}  # fmt: skip
LING_2_5: dict[str, Any] = {
    "architectures": ["BailingMoeV2_5ForCausalLM"], "model_type": "bailing_hybrid", "group_norm_size": 8,
    "hidden_size": 8192, "num_attention_heads": 64, "head_dim": 128, "num_hidden_layers": 16, "layer_group_size": 8,
    "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "q_lora_rank": 1536,
    "torch_dtype": "bfloat16"}  # fmt: skip


def test_ling_and_ring() -> None:
    """Lightning states of heads x 128 x 128 fp32 in all layers but the last of a group, which keeps keys or a latent."""
    assert total(RING, 1000) == 16 * 16 * 128 * 128 * 4 + 4 * 2 * 4 * 128 * 2 * 1000
    assert total(LING_2_5, 1000) == 14 * 64 * 128 * 128 * 4 + 2 * 576 * 2 * 1000
    # Ling 2.0 mini is plain: 20 x 2 x 4 x 128 x 2 B a token
    plain = {**RING, "model_type": "bailing_moe", "architectures": ["BailingMoeV2ForCausalLM"]}
    plain = {key: value for key, value in plain.items() if "group" not in key and "linear" not in key}
    assert total(plain, 1000) == 20 * 2 * 4 * 128 * 2 * 1000
    # Ling 3.0 tiny, whose published file names no type of states but convolutions: delta states in 18 of 24 layers
    third = {**LING_2_5, "architectures": ["BailingMoeV3ForCausalLM"], "short_conv_kernel_size": 4,
             "no_kda_lora": True, "gated_attention_proj_granularity_type": "head_wise"}  # fmt: skip
    third.pop("group_norm_size")
    assert preset_from_config(third, file="x")["layers"] == "2 x (7 kda, latent)"


@pytest.mark.parametrize(
    ("config", "word"),
    [
        ({**RING, "layer_group_size": None}, "layer_group_size"),
        ({**RING, "num_hidden_layers": 22}, "layer_group_size"),  # MLX-LM and vLLM differ about the last two
        ({**LING_2_5, "short_conv_kernel_size": 4}, "short_conv_kernel_size"),
        ({key: value for key, value in LING_2_5.items() if key != "architectures"}, "architectures"),
    ],
)
def test_what_is_not_told_of_a_ling(config: dict[str, Any], word: str) -> None:
    """Two kinds have one type, and engines differ about layers of no group: such a file is refused."""
    assert word in refusal(config).message


def test_windows_that_only_the_class_has() -> None:
    """EXAONE 4.0 1.2B has no windows, and a copy that leaves all such keys out would get the class's: it is said."""
    bare = {"model_type": "exaone4", "hidden_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 32,
            "num_key_value_heads": 8, "head_dim": 64, "torch_dtype": "bfloat16"}  # fmt: skip
    doubt = read_config(bare, file="x").doubt
    assert doubt is not None
    assert "4096" in doubt
    for keys in ({"sliding_window": None}, {"sliding_window": 4096}, {"layer_types": ["full_attention"] * 4},
                 {"sliding_window_pattern": "LLLG"}):  # fmt: skip
        assert read_config({**bare, **keys}, file="x").doubt is None
    assert read_config({**bare, "model_type": "llama"}, file="x").doubt is None
    model = loader.load_text(json.dumps(bare).encode(), "<stdin>")
    assert model.doubt == doubt


def _followed(config: dict[str, Any], error: KvcalcError) -> KvcalcError | None:
    """What is said when somebody does what a hint says, None where it leads to an answer."""
    hint = str(error.hint)
    if "--assume-dense" in hint:
        try:
            preset_from_config(config, file="x", assume_dense=True)
        except KvcalcError as again:
            return again
        return None
    taken = re.match(r"if (.*) do(?:es)? not change the cache, take", hint)
    if taken is None:
        return None
    keys = [each.strip("' ").split(".")[-1] for each in re.split(r", | and ", taken[1])]
    try:
        preset_from_config(_without(config, keys), file="x")
    except KvcalcError as again:
        return again
    return None


def _refused(config: dict[str, Any]) -> KvcalcError | None:
    try:
        preset_from_config(config, file="x")
    except KvcalcError as error:
        return error
    return None


def _without(data: Any, keys: list[str]) -> Any:
    if isinstance(data, dict):
        return {key: _without(value, keys) for key, value in data.items() if key not in keys}
    return data


@needs_files
def test_a_hint_leads_to_no_second_refusal() -> None:
    """Published files with an unknown type, or with keys that nobody knows: the way out is one step."""
    tried = 0
    for path in sorted(CONFIGS.glob("*.json")):
        if path.name == "INDEX.json" or path.name.endswith("hf_quant_config.json"):
            continue
        config = json.loads(path.read_text())
        for changed in (config, {**config, "model_type": "brandnew"},
                        {**config, "kv_reuse": 2, "loop_count": 3, "attn_blocks": [1]}):  # fmt: skip
            error = _refused(changed)
            if error is not None:
                tried += 1
                assert _followed(changed, error) is None, (path.name, error.message, error.hint)
    assert tried >= 400


def test_formula_is_what_is_measured() -> None:
    """The sizes above are sums over the caches of the layers."""
    model, _ = model_from_preset(preset_from_config(OCR, file="x"), "x")
    assert model is not None
    request = ask(model, context=100)
    assert sum(size(cache, 100, request.widths, None) for cache in model.caches()) == 6_144_000
