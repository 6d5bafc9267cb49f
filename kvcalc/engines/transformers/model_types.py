"""Model types that transformers has, from which version on, and what is their own in how they fill its caches.

Everything else follows from the kinds of caches alone. Each type that is named here was run on torch's meta device with
its class's defaults (transformers 5.23.0), and those of 4.57 to 5.14 with other rules as small models on a CPU.
"""

from functools import cache
from typing import NamedTuple

from kvcalc.core.model import Model
from kvcalc.engines.transformers.versions import VERSIONS
from kvcalc.errors import KvcalcError, shown

__all__ = ["Habits", "habits_of"]


class Habits(NamedTuple):
    """What a model's code does by itself.

    `query_heads`: K and V are repeated for each query head before they are cached. `windows` False: the cache is not
    told of them. `own`: no cache of the library's,
    so that cache_implementation changes nothing. `static` False: StaticCache cannot hold a layer of it. `shares` False:
    layers that reuse a cache have one too. `note` is what to know of an answer.
    """

    query_heads: bool = False
    windows: bool = True
    own: bool = False
    static: bool = True
    shares: bool = True
    note: str = ""


# By the row of the versions (see `versions.VERSIONS`) that first has them.
_TYPES = {
    "4.57.0": """
        apertus arcee aria_text bamba bart bigbird_pegasus biogpt bitnet blenderbot blenderbot-small bloom
        chameleon codegen cohere cohere2 ctrl dbrx deepseek_v2 deepseek_v3 diffllama doge dots1 emu3_text_model
        ernie4_5 ernie4_5_moe exaone4 falcon falcon_h1 falcon_mamba flex_olmo gemma gemma2 gemma3_text
        gemma3n_text git glm glm4 glm4_moe glm4v_moe_text glm4v_text gpt2 gpt_bigcode gpt_neo gpt_neox
        gpt_neox_japanese gpt_oss gptj granite granitemoe granitemoehybrid granitemoeshared helium
        hunyuan_v1_dense hunyuan_v1_moe jamba led lfm2 llama llama4_text longcat_flash longt5 m2m_100 mamba
        mamba2 marian mbart minimax minimax_m1 minimax_text_01 ministral mistral mixtral mllama_text_model mpt
        mt5 mvp nemotron nllb-moe olmo olmo2 olmo3 olmoe opt pegasus pegasus_x persimmon phi phi3
        phi4_multimodal phimoe plbart qwen2 qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_vl_text qwen2_moe
        qwen2_vl_text qwen3 qwen3_moe qwen3_next qwen3_omni_moe_talker_code_predictor qwen3_omni_moe_talker_text
        qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text rwkv seed_oss smollm3 stablelm starcoder2
        switch_transformers t5 t5_gemma_module udop umt5 vaultgemma whisper zamba zamba2
    """,
    "5.0.0": """
        afmoe cwm glm4_moe_lite glm_image_text jais2 lfm2_moe minimax_m2 ministral3 nanochat paddleocr_vl_text
        solar_open t5gemma2_decoder t5gemma2_text
    """,
    "5.4.0": "exaone_moe glm_ocr_text mistral4 nemotron_h qwen3_5_moe_text qwen3_5_text recurrent_gemma youtu",
    "5.5.0": "gemma4_text",
    "5.14.0": """
        cohere2_moe deepseek_ocr2_text deepseek_v32 deepseek_v4 exaone4_5_text gemma4_unified_text glm_moe_dsa
        hunyuan_vl_text hy_v3 hyperclovax inkling_text kimi_k2 laguna mellum mimo_v2_flash minicpm3 minimax_m3
        minimax_m3_vl minimax_m3_vl_text qwen3_asr_text
    """,
    "5.15.0": "axk1 axk2 cosmos3_edge_text granite_swa granitemoe_swa muse_glimmer_text olmo_hybrid",
    "5.20.0": """
        bailing_hybrid cohere_compass_text hy_v4 kimi_linear kolibri1 molmo2_text muse_spark_text step3p5
        step3p7
    """,
    "5.21.0": "flint",
    "5.23.0": "granite_docling_text internlm3 iquestcoder lfm3 mistral_large4_text",
}

_OWN = {
    # modeling_falcon.py, FalconAttention._split_heads: K and V of the new decoder architecture are broadcast to all
    # query heads and then cached (128 instead of 8 in Falcon-40B); of multi_query alone, one head is cached.
    "falcon": Habits(query_heads=True),
    # MiniMaxCache, and a list of five tensors: generation/utils.py, `_supports_default_dynamic_cache`.
    "minimax": Habits(own=True),
    # Their own code stands beside the first checkpoints; the converted ones (-hf) have transformers' class.
    **dict.fromkeys(
        ("minimax_text_01", "minimax_m1"),
        Habits(own=True, note="sized as minimax, as which the -hf checkpoint is read"),
    ),
    "rwkv": Habits(own=True),
    # modeling_gpt_neo.py: `window_size` is no key that DynamicCache looks for; local layers are masked alone.
    "gpt_neo": Habits(windows=False),
    # configuration_kimi_k25.py reads the kimi_k2 inside Kimi K2.5 as deepseek_v3; alone it brings code of its own.
    "kimi_k2": Habits(note="sized as deepseek_v3, as which transformers reads the kimi_k2 inside Kimi K2.5"),
    # modeling_deepseek_v4.py registers its layers for DynamicCache alone; those of mllama that attend to vision tokens
    # write them all into a layer of max_cache_len.
    **dict.fromkeys(("deepseek_v4", "mllama_text_model"), Habits(static=False)),
    # modeling_hunyuan_v1_dense.py and _moe.py know of no cross-layer attention (use_cla).
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text"), Habits(shares=False)),
}


_EXACT = "without --engine: the exact size"
_ROWS = [row.name for row in VERSIONS]


@cache
def _since() -> dict[str, str]:
    return {name: row for row, names in _TYPES.items() for name in names.split()}


def habits_of(model: Model, version: str) -> Habits:
    """How a model's type fills its caches in a version of the table. Raises KvcalcError for one that is not known."""
    name = model.model_type
    if name is None:  # described by hand: what its kinds of caches say
        return Habits()
    since = _since().get(name)
    if since is None:
        raise KvcalcError(
            f"model_type: transformers {version} has no class for {shown(name)}, whose own code says what is cached",
            f"{_EXACT}; or a copy of the preset with the type of a class that it has",
        )
    if _ROWS.index(version) < _ROWS.index(since):
        raise KvcalcError(
            f"--engine: the caches of {shown(name)} are not known for transformers {version}",
            f"--engine transformers@{since} or later",
        )
    return _OWN.get(name, Habits())
