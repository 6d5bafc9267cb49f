"""What flags of llama.cpp change of the memory beside what is counted: common/arg.cpp, llama.cpp 0c1e57098.

Flags that stand neither here nor among those that count were read as harmless.
"""

import re

from kvcalc.commands.effects import Uncounted, effects
from kvcalc.core.model import Model

__all__ = ["EFFECTS", "partly"]

EFFECTS = {
    # Layers or their tensors on the host, and with layers their part of the cache.
    **effects("layers", "-ngl --gpu-layers --n-gpu-layers LLAMA_ARG_N_GPU_LAYERS",
              "keeps the layers above that number on the host, with their cache", "less", cache=True,
              idle="auto all -1"),
    **effects("cache", "-nkvo --no-kv-offload LLAMA_ARG_NO_KV_OFFLOAD", "keeps the cache on the host", "less",
              cache=True, back="-kvo --kv-offload LLAMA_ARG_KV_OFFLOAD"),
    **effects("experts", "-ncmoe --n-cpu-moe LLAMA_ARG_N_CPU_MOE -cmoe --cpu-moe LLAMA_ARG_CPU_MOE",
              "keeps experts on the host", "less", idle="0"),
    **effects("ffn", "-ncffn --n-cpu-ffn LLAMA_ARG_N_CPU_FFN", "keeps feed-forward layers on the host", "less",
              idle="0"),
    **effects("tensors", "-ot --override-tensor LLAMA_ARG_OVERRIDE_TENSOR", "places tensors by their names", "either"),
    **effects("devices", "-dev --device LLAMA_ARG_DEVICE", "chooses the devices that hold layers and cache", "either",
              cache=True),
    **effects("machines", "--rpc LLAMA_ARG_RPC", "keeps layers, with their cache, on other machines", "less",
              cache=True),
    **effects("unified", "GGML_CUDA_ENABLE_UNIFIED_MEMORY", "lets a GPU spill over to the host", "less", cache=True,
              idle="0"),
    # What stands beside weights and cache.
    **effects("projector", "-mm --mmproj LLAMA_ARG_MMPROJ -mmu --mmproj-url LLAMA_ARG_MMPROJ_URL",
              "loads a projector of images", "more", back="--no-mmproj --no-mmproj-offload"),
    **effects("adapters", "--lora --lora-scaled --control-vector --control-vector-scaled", "loads adapters", "more"),
    **effects("drafts", "--mtp --eagle3 --dflash", "loads what drafts tokens, with its cache", "more", cache=True),
    **effects("voice", "--model-vocoder", "loads a second model", "more"),
    **effects("draft layers", "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl",
              "places the layers of the draft", "either", idle="auto all -1"),
    **effects("draft experts", "-ncmoed --n-cpu-moe-draft -cmoed --cpu-moe-draft --spec-draft-n-cpu-moe "
              "--spec-draft-cpu-moe --spec-draft-override-tensor -otd --override-tensor-draft",
              "places weights of the draft", "less", idle="0"),
    **effects("fit", "-fitt --fit-target -fitc --fit-ctx", "changes what is left free, and how far it shortens",
              "either", cache=True),
    **effects("host", "-cram --cache-ram LLAMA_ARG_CACHE_RAM", "keeps prompts on the host", "host", idle="0"),
    **effects("checkpoints", "--ctx-checkpoints --swa-checkpoints -ctxcp", "keeps copies of windows on the host",
              "host", idle="0"),
}  # fmt: skip


def partly(uncounted: tuple[Uncounted, ...], model: Model) -> tuple[Uncounted, ...]:
    """Without -ngl of at least all layers and the output's, which keeps everything on the GPUs (llama_model.cpp)."""

    def whole(each: Uncounted) -> bool:
        number = re.search(r"\d{1,9}$", each.flag)
        return each.effect.key == "layers" and number is not None and int(number[0]) > len(model.layers)

    return tuple(each for each in uncounted if not whole(each))
