"""What model types are called: the plain ones, those that cannot be read, and what stands for what."""

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["PLAIN_TYPES", "named_by", "only_encodes", "refusal", "resolved"]

# Types of transformers 5.24.0 of which every layer keeps the keys and values of every token.
_PLAIN = """
apertus apertus1p5_text arcee aria_text biogpt bitnet bloom chameleon codegen cohere cosmos3_edge_text ctrl
deepseek_ocr2_text diffllama doge emu3_text_model exaone flex_olmo gemma git glm glm4 glm4_moe
glm4v_moe_text glm4v_text glm_image_text glm_ocr_text gpt2 gpt_neox gpt_neox_japanese gptj granite
granite_docling_text granitemoe granitemoeshared helium hy_v3 hyperclovax internlm3 iquestcoder jais2 llama
molmo2_text nanochat nemotron olmo olmo2 olmoe opt paddleocr_vl_text persimmon phi qwen3_vl_moe_text qwen3_vl_text
sarvam_moe seed_oss solar_open stablelm
"""
# The same of remote code, as published files show.
_PLAIN_REMOTE = """
Yi aquila arctic bailing_moe bailing_moe_v2 baichuan deepseek
internlm internlm2 minicpm molmo orion phi-msft qwen qwen3_asr_text xverse
"""
PLAIN_TYPES = (*_PLAIN.split(), *_PLAIN_REMOTE.split())

# Model types whose cache this reader cannot describe, each with the reason.
_REFUSED = {
    "blt_global_transformer": "bytes are grouped into patches, and each of its three parts caches at its own rate",
    "blt_local_decoder": "bytes are grouped into patches, and each of its three parts caches at its own rate",
    "csm": "a second decoder keeps a cache of its own for every frame of sound",
    "diffusion_gemma_text": "it writes a block of tokens at a time, not one token after the other",
    "dory": "a group of its layers runs in loops, each of which keeps its own cache",
    "dots3_note_text": "its sliding layers keep latents of another size, in a window",
    "glm5_next_text": "its indexers keep pooled keys",
    "hrm_text": "its layers run in cycles, each of which keeps its own cache",
    "idefics": "layers of cross attention stand between its layers, and what they keep depends on the images",
    "inkling2_loop_text": "a group of its layers runs in loops, each of which keeps its own cache",
    "inkling2_text": "its convolutions keep states whose widths no file states",
    "muse_glimmer_assistant": "it drafts for another model and reads that model's hidden states",
    "openai-gpt": "it was published without a cache: every token is computed anew",
    "qwen4_exp_text": "its indexers keep compressed keys, and some of its layers n-gram states",
    "unlimited_ocr_text": "it keeps a reference of changing length beside its window",
    "xlstm": "its states are matrices of a kind that presets do not have",
    "yuan": "it also keeps the hidden states that its local filter needs",
    "zaya": "its attention keeps convolution states and a delayed value beside the cache",
    **dict.fromkeys(
        ("albert", "bert", "clip", "clip_text_model", "deberta", "deberta-v2", "distilbert", "electra", "modernbert",
         "roberta", "siglip", "t5_encoder", "vit", "wav2vec2", "xlm-roberta"),
        "it only encodes, and keeps no cache",
    ),
}  # fmt: skip

# Architectures of transformers 5.24.0 that only encode, under types that also decode or that are not stated.
_ENCODERS = re.compile(
    r"\w+EncoderModel|\w+ForMaskedLM|(M?T5|UMT5)ForTokenClassification|WhisperForAudioClassification"
    r"|(Albert|Bert|Camembert|Deberta|DebertaV2|DistilBert|Electra|Ernie|ModernBert|MPNet|Roberta|XLMRoberta)"
    r"(Model|For\w+)"
)

# What an architecture is made for, behind the name of its model: the first such word, and all behind it.
_TASK = re.compile(r"(?:For[A-Z]\w*+|LMHeadModel|Model)$")
_LONGEST_NAME = 200  # of an architecture; the longest of transformers has some 60 characters

# Types of whole models that carry their language part flat, or leave its type out: the type of that part. Those of
# transformers 5.24.0 by `sub_configs_defaults` of their classes, the others by their remote code.
_LANGUAGE_TYPES = {
    **dict.fromkeys(("deepseek_vl", "deepseek_vl_hybrid", "janus", "llava_next_video", "multi_modality",
                     "perception_lm"), "llama"),
    **dict.fromkeys(("audioflamingo3", "internvl", "musicflamingo", "ovis2", "vibevoice", "vibevoice_asr",
                     "video_llama_3"), "qwen2"),
    **dict.fromkeys(("minicpm_ocr", "minicpmv4_6", "minicpmv4_7"), "qwen3_5_text"),
    **dict.fromkeys(("aya_vision", "cohere2_vision"), "cohere2"),
    **dict.fromkeys(("granite_speech", "granite_speech_plus"), "granite"),
    **dict.fromkeys(("blip-2", "instructblip", "instructblipvideo"), "opt"),
    **dict.fromkeys(("glm46v", "glmga"), "glm4v_text"),
    "apertus1p5": "apertus1p5_text", "cohere_compass": "cohere_compass_text", "cosmos3_edge": "cosmos3_edge_text",
    "cosmos3_omni": "qwen3_vl_text", "deepseek_ocr2": "deepseek_ocr2_text", "deepseek_vl_v2": "deepseek_v2",
    "emu3": "emu3_text_model", "gemma4_unified": "gemma4_unified_text", "glm_image": "glm_image_text",
    "glm_ocr": "glm_ocr_text", "granite_docling": "granite_docling_text", "hunyuan_vl": "hunyuan_vl_text",
    "hy_v4_vl": "hy_v4_vl_text", "hyperclovax_vision_v2": "hyperclovax", "inkling_mm_model": "inkling_text",
    "jev": "qwen3_5_text", "lfm3_vl": "lfm3", "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral_large4": "mistral_large4_text", "nemotron_h_omni": "nemotron_h", "paddleocr_vl": "paddleocr_vl_text",
    "qianfan_ocr": "qwen3", "shieldgemma2": "gemma3_text",
    "aria": "aria_text", "exaone4_5": "exaone4_5_text", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text", "glm4v": "glm4v_text", "glm4v_moe": "glm4v_moe_text", "idefics2": "mistral",
    "idefics3": "llama", "inkling": "inkling_text", "kimi_k25": "kimi_k2", "kimi_k3": "kimi_linear",
    "kimi_vl": "deepseek_v3", "llama4": "llama4_text", "llava": "llama", "llava_llama": "llama", "llava_next": "llama",
    "llava_onevision": "qwen2", "llava_qwen2": "qwen2", "lfm2_vl": "lfm2", "minicpmv": "qwen2", "minicpmo": "qwen2",
    "mistral3": "mistral", "mllama": "mllama_text_model", "molmo2": "molmo2_text", "muse_glimmer": "muse_glimmer_text",
    "muse_spark": "muse_spark_text", "paligemma": "gemma", "phi3_v": "phi3", "phi4mm": "phi3",
    "deepseek_ref": "deepseek_v4", "qwen2_5_omni": "qwen2_5_omni_text",
    "qwen2_5_vl": "qwen2_5_vl_text", "qwen2_audio": "qwen2", "qwen2_vl": "qwen2_vl_text", "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text", "qwen3_omni_moe": "qwen3_omni_moe_text", "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text", "smolvlm": "llama",
    "step3p7_text": "step3p7", "video_llava": "llama", "vipllava": "llama",
}  # fmt: skip

# Where the type is missing, or says something else than the architecture: Grok-2 calls itself git, which is another
# model's name; one copy of MiniCPM3 has no type; Codestral Mamba has been published as mamba.
_BY_ARCHITECTURE = {
    "Grok1ForCausalLM": ("git", "grok-1"),
    "Grok1ModelForCausalLM": ("git", "grok-1"),
    "MiniCPM3ForCausalLM": (None, "minicpm3"),
    "Mamba2ForCausalLM": ("mamba", "mamba2"),
}


def resolved(model_type: str | None, architecture: str | None) -> str | None:
    """The type by which a language part is read, from what it calls itself."""
    called, meant = _BY_ARCHITECTURE.get(architecture or "", ("", None))
    if meant is not None and called == model_type:
        return meant
    return _LANGUAGE_TYPES.get(model_type or "", model_type)


def only_encodes(architecture: str) -> bool:
    """The architecture has an encoder and nothing that keeps a cache."""
    return len(architecture) <= _LONGEST_NAME and _ENCODERS.fullmatch(architecture) is not None


def named_by(architecture: str, types: Iterable[str]) -> str | None:
    """The one of `types` that an architecture is named after: DeepseekV32ForCausalLM is of deepseek_v32."""
    if len(architecture) > _LONGEST_NAME:
        return None
    stem = _squeezed(_TASK.sub("", architecture))
    found = _by_stem(tuple(types)).get(stem)
    return _LANGUAGE_TYPES.get(found, found) if found is not None else None


@lru_cache(1)
def _by_stem(types: tuple[str, ...]) -> dict[str, str]:
    """All types by their names without separators, of equal ones the first."""
    return {_squeezed(each): each for each in reversed((*_LANGUAGE_TYPES, *types))}


def _squeezed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def refusal(model_type: str) -> str | None:
    """Why a type that is known cannot be read, or None."""
    return _REFUSED.get(model_type)
