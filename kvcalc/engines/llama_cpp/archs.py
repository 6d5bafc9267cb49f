"""GGUF architectures: which one a model becomes, and in what llama.cpp treats some of them unlike the rest.

From conversion/*.py (which architecture a model is converted to), load_arch_hparams in src/models/ARCH.cpp and
create_memory in src/llama-model.cpp, llama.cpp 0c1e57098.
"""

from kvcalc.core.model import Model, Shared
from kvcalc.errors import KvcalcError, escape

__all__ = ["APART", "DRAFTS_CACHED", "EXPANDED", "FIXED_WINDOW", "INDEX_V", "NO_FLASH", "WINDOWED", "arch_of", "slides"]

# Model types by the architecture that they are converted to. Those that no converter knows are not here.
_TYPES = {
    "llama": "llama mistral mixtral internlm3 iquestcoder",
    "command-r": "cohere",
    "cohere2moe": "cohere2_moe",
    "starcoder": "gpt_bigcode",
    "gptneox": "gpt_neox",
    "gpt-oss": "gpt_oss",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text gemma4_unified_text",
    "deci": "deci nemotron-nas",
    "deepseek2": "deepseek_v2 deepseek_v3 kimi_k2 glm4_moe_lite youtu",
    "deepseek32": "deepseek_v32",
    "deepseek4": "deepseek_v4",
    "glm-dsa": "glm_moe_dsa",
    "chatglm": "chatglm glm",
    "glm4": "glm4 glm4v_text glm_ocr_text",
    "glm4moe": "glm4_moe glm4v_moe_text solar_open",
    "granite_swa": "granite_swa granitemoe_swa",
    "granitemoe": "granitemoe granitemoeshared",
    "granitehybrid": "granitemoehybrid bamba",
    "grok": "grok-1",
    "falcon": "falcon RefinedWeb RefinedWebModel",
    "falcon-h1": "falcon_h1",
    "ernie4_5-moe": "ernie4_5_moe",
    "exaone4": "exaone4 exaone4_5_text",
    "exaone-moe": "exaone_moe",
    "hunyuan-dense": "hunyuan_v1_dense",
    "hunyuan-moe": "hunyuan_v1_moe",
    "hunyuan_vl": "hunyuan_vl_text",
    "kimi-linear": "kimi_linear",
    "lfm2moe": "lfm2_moe",
    "llama4": "llama4_text",
    "mamba": "mamba falcon_mamba",
    "mimo2": "mimo_v2_flash",
    "minimax-01": "minimax_text_01 minimax_m1",
    "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3 minimax_m3_vl minimax_m3_vl_text",
    "mistral3": "ministral3",
    "muse-glimmer": "muse_glimmer_text",
    "olmo2": "olmo2 olmo3",
    "paddleocr": "paddleocr_vl_text",
    "phi2": "phi",
    "bailingmoe2": "sarvam_moe",
    "qwen2moe": "qwen2_moe",
    "qwen2vl": "qwen2_vl_text qwen2_5_vl_text qwen2_5_omni_text",
    "qwen3moe": "qwen3_moe",
    "qwen3next": "qwen3_next",
    "qwen3vl": "qwen3_vl_text qwen3_asr_text",
    "qwen3vlmoe": "qwen3_vl_moe_text qwen3_omni_moe_text",
    "qwen35": "qwen3_5_text",
    "qwen35moe": "qwen3_5_moe_text",
    "step35": "step3p5 step3p7",
    "t5": "t5 mt5 umt5",
}
_SAME_NAME = """
    afmoe apertus arcee arctic baichuan bitnet bloom chameleon cohere2 dbrx deepseek dots1 ernie4_5 exaone gemma gemma2
    gpt2 granite hy_v3 hy_v4 internlm2 jais2 jamba laguna lfm2 mamba2 mellum minicpm minicpm3 mistral4 mpt nemotron
    nemotron_h olmo olmoe openelm orion phi3 phimoe qwen qwen2 qwen3 rwkv6 rwkv7 seed_oss smollm3 stablelm starcoder2
    xverse
"""
_ARCHS = {kind: arch for arch, kinds in _TYPES.items() for kind in kinds.split()} | {
    name: name for name in _SAME_NAME.split()
}

# Where sliding layers have a cache of their own. The windows of all others are not looked at (phi3.cpp switches its
# own off), so that Mistral 7B v0.1, Phi-3 and StarCoder2 keep everything.
_WINDOWED = """
    afmoe cohere2 cohere2moe deepseek4 dots3note exaone-moe exaone4 gemma2 gemma3 gemma3n gemma4 gpt-oss granite_swa
    laguna lfm2 llama4 maple mellum mimo2 muse-glimmer olmo2 plamo3 smallthinker spark2_5 step35
"""
WINDOWED = frozenset(_WINDOWED.split())
FIXED_WINDOW = {"llama4": 8192, "smallthinker": 4096}  # llama4.cpp, smallthinker.cpp: whatever the file says
INDEX_V = frozenset({"minimax-m3"})  # llama-kv-cache-msa.cpp: the cache of index keys has a V as well
EXPANDED = frozenset({"minicpm3", "plm"})  # latent attention, of which every head is kept
NO_FLASH = frozenset({"grok"})  # llama_init_from_model: forced off
APART = frozenset({"deepseek4"})  # llama-kv-cache-dsv4.cpp: a stream for each sequence even in a unified cache
DRAFTS_CACHED = frozenset({"bailingmoe3", "deepseek4", "minimax-m3"})  # create_memory filters out no draft layers

_GEMMA3N_LAYERS = 20  # gemma3n.cpp: n_layer_kv_from_start
_EXAONE4_LAYERS = 64  # exaone4.cpp: only the 32B model slides


def arch_of(model: Model) -> str:
    """The GGUF architecture of a model: the one it states, or the one that its type is converted to."""
    arch = model.gguf or _ARCHS.get(model.model_type or "")
    if arch is None:
        kind = f"no converter for the model type {escape(model.model_type)}" if model.model_type else "no model type"
        raise KvcalcError(
            f"llama.cpp: {model.name} has no GGUF architecture that is known here, {kind}",
            "if its GGUF files have one, name it in a preset: `gguf: llama`",
        )
    if arch == "gemma3n" and _own_layers(model) != _GEMMA3N_LAYERS:
        raise KvcalcError(
            f"llama.cpp: the first {_GEMMA3N_LAYERS} layers of a Gemma 3n are cached, and {model.name} shares others",
            "there is no rule for it",
        )
    return arch


def slides(arch: str, model: Model) -> bool:
    """Whether the sliding layers of a model have a cache of their own."""
    return arch in WINDOWED and (arch != "exaone4" or len(model.layers) == _EXAONE4_LAYERS)


def _own_layers(model: Model) -> int:
    """Layers that keep something themselves."""
    kept = model.distinct_layers.items()
    return sum(copies for layer, copies in kept if any(not isinstance(cache, Shared) for cache in layer))
