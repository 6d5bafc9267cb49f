"""What flags and variables of vLLM change of the memory beside what is counted: 0.33.0, `config/*.py` and `envs.py`.

Flags that stand neither here nor among those that count were read as harmless: they change what is sampled, logged,
spread or scheduled, or what the host alone keeps and they state (`--swap-space`).
"""

from kvcalc.commands.effects import effects

__all__ = ["EFFECTS", "GRAPHS"]

GRAPHS = 2 * 2**30  # the most that graphs were seen to take, which overheads have room for

_LOADED_AS_THEY_ARE = """
    auto safetensors pt npcache hf mistral runai_streamer runai_streamer_sharded fastsafetensors tensorizer
    sharded_state modelexpress instanttensor
"""
_GRAPHS = """
    --compilation-config -cc --optimization-level -O -O0 -O1 -O2 -O3 --cudagraph-capture-sizes
    --max-cudagraph-capture-size
"""
_AITER = """
    VLLM_ROCM_USE_AITER VLLM_ROCM_USE_AITER_MLA VLLM_ROCM_USE_AITER_MHA VLLM_ROCM_USE_AITER_UNIFIED_ATTENTION
    VLLM_ROCM_SHUFFLE_KV_CACHE_LAYOUT
"""

EFFECTS = {
    # Weights: on the host, in another format, or spread otherwise than over tp and pp.
    **effects("offload", "--cpu-offload-gb", "keeps weights on the host", "less", idle="0"),
    **effects("offload choice", "--offload-group-size --cpu-offload-params --offload-backend",
              "chooses which weights the host keeps", "less", idle="0 auto uva"),
    **effects("load", "--load-format", "may pack the weights as it loads them", "either", idle=_LOADED_AS_THEY_ARE),
    **effects("packed", "--quantization-config", "packs the weights as it loads them", "less"),
    **effects("experts", "--enable-expert-parallel -ep", "spreads whole experts over all ranks", "either",
              idle="false", back="--no-enable-expert-parallel"),
    **effects("redundant", "--enable-eplb", "may keep experts more than once", "more", back="--no-enable-eplb"),
    **effects("elastic", "--enable-elastic-ep", "keeps room for ranks that come and go", "more",
              back="--no-enable-elastic-ep"),
    **effects("language", "--language-model-only --mm-encoder-only", "leaves one half of the model out", "less",
              back="--no-language-model-only --no-mm-encoder-only"),
    **effects("towers", "--mm-encoder-tp-mode", "may keep the encoder of images whole on each rank", "more",
              idle="weights"),
    # What stands beside weights and cache.
    **effects("ipc", "--mm-ipc-gpu-memory-gb", "keeps memory for images", "more", idle="0"),
    **effects("graphs", _GRAPHS, "changes which graphs are captured", "either", most=GRAPHS),
    **effects("batches", "--enable-dbo --ubatch-size", "keeps buffers for two batches", "more", idle="0",
              back="--no-enable-dbo"),
    **effects("all2all", "--all2all-backend", "keeps buffers for experts, and may batch fewer tokens", "either",
              cache=True),
    **effects("routed", "--enable-return-routed-experts --enable-trace-replay", "keeps which experts were taken",
              "more", back="--no-enable-return-routed-experts --no-enable-trace-replay"),
    **effects("workspace", "VLLM_FLASHINFER_WORKSPACE_BUFFER_SIZE VLLM_SPARSE_INDEXER_MAX_LOGITS_MB",
              "sets the size of a kernel's buffer", "either"),
    # What the cache takes, by a rule that is not here.
    **effects("pooling", "--runner --convert", "runs the model as another kind than one that generates", "either",
              cache=True, idle="auto generate none"),
    **effects("code", "--model-impl", "takes the attention of transformers, whose layers may cache otherwise",
              "either", cache=True, idle="auto vllm"),
    **effects("interleave", "--dcp-kv-cache-interleave-size --cp-kv-cache-interleave-size",
              "rounds what each rank of a split context keeps", "either", cache=True, idle="1"),
    **effects("diffusion", "--diffusion-config -dc", "writes blocks of tokens at a time", "either", cache=True),
    **effects("engram", "--engram-config", "places tables of n-grams", "either"),
    **effects("aiter", _AITER, "chooses AITER's kernels, whose blocks were not read", "either", cache=True,
              idle="0 false"),
    **effects("cpu", "VLLM_CPU_KVCACHE_SPACE", "is what the cache takes on a CPU, and is not read", "either",
              cache=True),
}  # fmt: skip
