"""The metadata of a GGUF file becomes the mapping of a preset.

It describes the model, as a file under presets/ does, and not what llama.cpp reserves for it. Keys and defaults:
load_hparams in src/llama-model.cpp (llama.cpp 0c1e57098). What is not understood is refused, never guessed.
"""

import os
import re
from collections.abc import Mapping, Sequence

from kvcalc.core.units import MOST_BYTES
from kvcalc.errors import escape, nearest
from kvcalc.sources.faults import Phrase, fault
from kvcalc.sources.gguf import tensors
from kvcalc.sources.gguf.blocks import Blocks, Layer
from kvcalc.sources.gguf.dimensions import dimensions_of
from kvcalc.sources.gguf.families import ARRANGED, FAMILIES, NO_CACHE
from kvcalc.sources.gguf.header import Tensor
from kvcalc.sources.gguf.keys import BY_HAND, MOST_WIDTH, Keys
from kvcalc.sources.gguf.preset import preset_part

__all__ = ["preset_from_gguf"]

_LONGEST_NAME = 120
_LONGEST_STEM = 255

_DTYPE_NOTE = "GGUF does not say in what the model computes: fp16 is the dtype that llama.cpp caches in."

# Model types of transformers that an architecture can be nothing else than. Left out are those that stand for several
# (llama: llama, mistral, mixtral; deepseek2: deepseek_v2, deepseek_v3, kimi_k2; deci: deci, nemotron-nas; mamba).
_MODEL_TYPES = {
    "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "gpt-oss": "gpt_oss",
    "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "qwen3next": "qwen3_next", "qwen35": "qwen3_5_text",
    "qwen35moe": "qwen3_5_moe_text", "gptneox": "gpt_neox", "starcoder": "gpt_bigcode", "command-r": "cohere",
    "deepseek32": "deepseek_v32", "deepseek4": "deepseek_v4", "glm4moe": "glm4_moe", "glm-dsa": "glm_moe_dsa",
    "nemotron_h_moe": "nemotron_h", "granitehybrid": "granitemoehybrid", "falcon-h1": "falcon_h1",
    "llama4": "llama4_text", "lfm2moe": "lfm2_moe", "minimax-m2": "minimax_m2",
    "minimax-m3": "minimax_m3", "kimi-linear": "kimi_linear", "kimi-k3": "kimi_linear", "phi2": "phi",
}  # fmt: skip
_SAME_NAME = """
    bloom chatglm cohere2 dbrx exaone4 falcon gemma gemma2 glm4 gpt2 granite granitemoe jamba laguna lfm2 mamba2
    minicpm3 mpt nemotron nemotron_h olmo olmoe openelm phi3 phimoe qwen2 qwen3 rwkv6 seed_oss smollm3 stablelm
    starcoder2 t5
"""


def preset_from_gguf(
    metadata: Mapping[str, object],
    *,
    file: str,
    weights_bytes: int | None,
    parameters: int | None = None,
    held: Sequence[Tensor] = (),
) -> dict[str, object]:
    """The preset of the model that `metadata` describes. Raises KvcalcError for what is not understood.

    `weights_bytes` and `parameters` are the sums over all tensors, which the metadata does not have: None where a part
    of the file is missing. `held` are the tensors, which must be those of the model.
    """
    arch = _architecture(metadata, file)
    keys = Keys(metadata, arch, file)
    if keys.get("attention.causal") in (False, 0):
        keys.refuse("attention.causal", "a decoder; an encoder keeps no cache", "there is nothing to size")
    blocks = Blocks(keys)
    layers, draft = _layers(blocks, held, whole=weights_bytes is not None)
    limit = keys.number("context_length", 1, 1 << 40)
    chosen = _chosen(keys, layers)
    widths = dimensions_of(keys, blocks.trunk, held if weights_bytes is not None else ())
    keys.close()
    preset: dict[str, object] = {"name": _name(metadata, file)}
    model_type = _model_type(arch, layers)
    if model_type is not None:
        preset["model_type"] = model_type
    preset |= {
        "gguf": arch,
        "source": escape(file),
        "confidence": "config file read",
        "note": " ".join([*_defaults(keys), *keys.notes, _DTYPE_NOTE]),
        "dtype": "fp16",
    }
    if parameters and parameters < 10**16:
        preset["parameters"] = parameters
    if weights_bytes and weights_bytes <= MOST_BYTES:
        preset["weights_bytes"] = weights_bytes
    if widths:
        preset["dimensions"] = widths
    if limit is not None:
        preset["max_context"] = limit
        if arch == "t5":  # what its converter calls the limit is the length that the encoder was trained with
            preset["encoder_tokens"] = limit
    return preset | chosen | preset_part(layers, draft)


def _chosen(keys: Keys, layers: Sequence[Layer]) -> dict[str, int]:
    """How many heads score the tokens of sparse attention, and how many tokens or entries it chooses.

    GLM-5.3 Flash scores pooled keys, and MiniMax-M3 whole blocks, in units that its file does not explain.
    """
    if not any(cache.kind == "indexer" or cache.fields.get("indexer") for layer in layers for cache in layer):
        return {}
    group = "attention.indexer"
    if any(keys.get(f"{group}.{key}") is not None for key in ("kpool", "block_size")):
        return {}
    found = {"index_heads": keys.get(f"{group}.head_count"), "index_topk": keys.get(f"{group}.top_k")}
    return {key: value for key, value in found.items() if type(value) is int and 0 < value < MOST_WIDTH}


def _defaults(keys: Keys) -> list[str]:
    """What llama.cpp takes for keys that the file leaves out, in a sentence."""
    listed = ", ".join(f"{key} {value}" for key, value in keys.defaults.items())
    return [f"Defaults of llama.cpp, which the file leaves out: {listed}."] if listed else []


def _architecture(metadata: Mapping[str, object], file: str) -> str:
    kind = metadata.get("general.type", "model")
    if kind != "model":
        raise fault(file, "general.type", "model", kind, "give the GGUF file of the language model itself")
    arch = metadata.get("general.architecture")
    name = arch if isinstance(arch, str) else ""
    if name in NO_CACHE:
        reason = Phrase(f"{name}, {NO_CACHE[name]}")
        raise fault(file, "general.architecture", "a language model with a cache", reason, "there is nothing to size")
    if name not in FAMILIES:
        close = nearest(name, FAMILIES, 1) if 0 < len(name) < _LONGEST_NAME else []
        like = f"it looks like {close[0]}; " if close else ""
        got = Phrase("nothing") if arch is None else arch
        raise fault(file, "general.architecture", "an architecture that is known here", got, like + BY_HAND)
    return name


def _layers(blocks: Blocks, held: Sequence[Tensor], *, whole: bool) -> tuple[list[Layer], list[Layer]]:
    arch = blocks.keys.arch
    layer = FAMILIES[arch](blocks)
    layers = [layer(i) for i in range(blocks.trunk)]
    tensors.check_tensors(blocks.keys.file, arch, layers, blocks.total - blocks.trunk, held, whole=whole)
    if arch in ARRANGED:
        layers = ARRANGED[arch](blocks, layers)
    return layers, [layer(i) for i in range(blocks.trunk, blocks.total)]


def _model_type(arch: str, layers: list[Layer]) -> str | None:
    if arch == "olmo2":  # one architecture for both: OLMo 3 slides
        return "olmo3" if any(cache.kind == "sliding" for layer in layers for cache in layer) else "olmo2"
    return _MODEL_TYPES.get(arch, arch if arch in _SAME_NAME.split() else None)


def _name(metadata: Mapping[str, object], file: str) -> str:
    """What the file calls itself, if that can be printed on one line, else the name of the file."""
    name = metadata.get("general.name")
    if isinstance(name, str):
        line = " ".join(name.split())
        if line and line.isprintable() and len(line) <= _LONGEST_NAME:
            return line
    stem = re.sub(r"(-\d{5}-of-\d{5})?\.gguf$", "", os.path.basename(file), flags=re.IGNORECASE)
    return escape(stem)[:_LONGEST_STEM] or "GGUF model"
