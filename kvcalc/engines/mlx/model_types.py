"""The model types of MLX-LM whose caches are known, and where one differs from what its caches suggest.

Each was run in mlx-lm 0.32.2 with a small configuration, and the shapes and types of its arrays compared.
"""

from typing import Literal, NamedTuple

from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError, shown

__all__ = ["EXACT", "Family", "family_of"]

EXACT = "without --engine: the exact size"  # the way out of what is not known


class Family(NamedTuple):
    """How a model file of mlx_lm/models makes its caches.

    `own`: it has a make_cache; else make_prompt_cache gives every layer a KVCache, whatever its window, or with
    --max-kv-size a RotatingKVCache. None where the same type is both: alone with one, inside another type without.
    `windows`: those that rotate; of `listed` ones, none unless layer_types name full layers too, since the published
    configurations with a window in every layer have no layer_types (mistral, which MLX-LM reads as llama).
    `packed`: a layer's caches stand in one CacheList, which --kv-bits passes over.
    `quantises`: its attention takes quantised keys and values.
    `expanded`: keys and values of every head are cached, not the latent.
    `index_values`: beside each index key stands a value of zeros.
    `every_indexed`: each layer has an index cache of its own. `copies`: layers that reuse keys and values store them.
    """

    own: bool | None
    windows: Literal["all", "listed", "none"] = "all"
    packed: bool = False
    quantises: bool = True
    expanded: bool = False
    index_values: bool = False
    copies: bool = False


_PLAIN = Family(own=False, windows="none")
_OWN = Family(own=True)
_PACKED = Family(own=True, packed=True)
_LISTED = Family(own=True, windows="listed")
_INDEXED = Family(own=True, packed=True, index_values=True)

_WITHOUT = """
    apertus bailing_moe cohere dbrx deepseek deepseek_v3 kimi_k2 dots1 ernie4_5 ernie4_5_moe exaone gemma glm glm4
    glm4_moe glm4_moe_lite gpt2 gpt_bigcode gpt_neox gptj granite granitemoe helium hunyuan_v1_dense internlm2 internlm3
    mimo minicpm minimax_m2 mistral4 mixtral nanochat nemotron olmo2 olmoe openelm phi3 phimoe qwen qwen2
    qwen2_moe qwen2_5_vl_text qwen2_vl_text qwen3 qwen3_moe qwen3_vl_text qwen3_vl_moe_text seed_oss smollm3
    solar_open starcoder2
"""
_WITH = """
    afmoe cohere2 exaone4 exaone_moe falcon_mamba gemma3_text gemma3n_text gemma4_text gpt_oss granitemoehybrid
    jamba kimi_linear laguna lfm2 lfm2_moe llama4_text mamba mamba2 mellum mimo_v2_flash muse_glimmer_text
    nemotron-nas nemotron_h olmo3 olmo_hybrid qwen3_next qwen3_5_text qwen3_5_moe_text recurrent_gemma step3p5
"""

_TYPES: dict[str, Family] = {
    **dict.fromkeys(_WITHOUT.split(), _PLAIN),
    **dict.fromkeys(_WITH.split(), _OWN),
    **dict.fromkeys(("gemma2", "phi", "stablelm"), _PLAIN._replace(quantises=False)),
    **dict.fromkeys(("deepseek_v2", "minicpm3"), _PLAIN._replace(expanded=True)),
    "hunyuan": _PLAIN._replace(copies=True),
    **dict.fromkeys(("llama", "mistral"), _LISTED),
    "ministral3": _LISTED._replace(own=None),  # alone models/ministral3.py, inside mistral3 without its make_cache
    **dict.fromkeys(("falcon_h1", "longcat_flash", "minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text"), _PACKED),
    **dict.fromkeys(("deepseek_v32", "glm_moe_dsa"), _INDEXED),
}


def family_of(model: Model) -> Family:
    """The row of a model's type. Raises KvcalcError where there is none."""
    if model.model_type is None:
        raise KvcalcError(
            f"model_type: MLX-LM chooses its caches by it, and {model.name} states none",
            f"add it to the preset; {EXACT}",
        )
    family = _TYPES.get(model.model_type)
    if family is None:
        raise KvcalcError(
            f"model_type: {shown(model.model_type)} is none of those whose caches in MLX-LM 0.32.2 are known",
            EXACT,
        )
    return family
