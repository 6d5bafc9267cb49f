"""What flags of SGLang change of the memory beside what is counted: 0.5.23, `srt/arg_groups/fields`.

Flags that stand neither here nor among those that count were read as harmless.
"""

from kvcalc.commands.effects import effects

__all__ = ["EFFECTS"]

_GRAPHS = 2 * 2**30  # the most that graphs were seen to take, which overheads have room for

_GRAPH_FLAGS = """
    --cuda-graph-config --cuda-graph-max-bs-decode --cuda-graph-max-bs-prefill --cuda-graph-bs-decode
    --cuda-graph-bs-prefill --cuda-graph-backend-decode --cuda-graph-backend-prefill --cuda-graph-max-seq-len-prefill
    --cuda-graph-prefill-max-context --disable-decode-cuda-graph --disable-prefill-cuda-graph
    --disable-cuda-graph-padding
"""
_EXPERT_FLAGS = """
    --ep --ep-size --expert-parallel-size --moe-dp-size --moe-data-parallel-size --moe-dense-tp-size
    --shared-experts-tp-size --dwdp-size
"""
_HOST_EXPERTS = """
    --kt-weight-path --kt-method --kt-num-gpu-experts --kt-cpuinfer --enable-paged-experts --paged-experts-num-resident
"""
_HICACHE = """
    --enable-hicache --hicache-storage-backend --enable-flexkv --enable-lmcache --unified-cache-external-linker-backend
"""

EFFECTS = {
    # Weights: on the host, in another format, or spread otherwise than over tp and pp.
    **effects("offload", "--cpu-offload-gb", "keeps weights on the host", "less", idle="0"),
    **effects("offload choice", "--offload-group-size --offload-mode", "chooses which weights the host keeps", "less",
              idle="0 -1"),
    **effects("host experts", _HOST_EXPERTS, "keeps experts on the host", "less"),
    **effects("embedding", "--ple-offload-embedding --ple-offload-backend", "keeps an embedding on the host", "less",
              back="--no-ple-offload-embedding"),
    **effects("load", "--load-format", "may pack the weights as it loads them", "either",
              idle="auto safetensors pt npcache sharded_state remote remote_instance fastsafetensors"),
    **effects("packed", "--modelopt-quant --quantize-and-serve", "packs the weights as it loads them", "less"),
    **effects("experts", _EXPERT_FLAGS, "spreads experts or dense layers otherwise than attention", "either",
              idle="1"),
    **effects("redundant", "--ep-num-redundant-experts --enable-eplb", "may keep experts more than once", "more",
              idle="0"),
    **effects("elastic", "--elastic-ep-backend --enable-elastic-expert-backup", "keeps room for lost ranks", "more"),
    **effects("adapters", "--uno-lora-path", "keeps room for adapters", "more"),
    **effects("language", "--language-only --language-model-only --encoder-only", "leaves one half of the model out",
              "less"),
    **effects("towers", "--mm-enable-dp-encoder", "keeps the encoder of images whole on each rank", "more",
              back="--no-mm-enable-dp-encoder"),
    **effects("heads", "--enable-dp-lm-head", "keeps the output layer whole on each rank", "more"),
    # What stands beside weights and cache.
    **effects("graphs", _GRAPH_FLAGS, "changes which graphs are captured", "either", most=_GRAPHS),
    **effects("prefill", "--max-prefill-tokens", "changes how many tokens are read at once", "either"),
    **effects("batches", "--enable-two-batch-overlap --enable-single-batch-overlap --enable-pdmux",
              "keeps buffers for two batches", "more"),
    **effects("all2all", "--moe-a2a-backend --speculative-moe-a2a-backend", "keeps buffers for experts", "more",
              idle="none"),
    **effects("symmetric", "--enable-symm-mem --enable-torch-symm-mem --enable-mscclpp", "keeps shared buffers",
              "more"),
    **effects("compiled", "--enable-torch-compile", "keeps what compilation makes", "more"),
    **effects("returned", "--enable-return-routed-experts --enable-return-hidden-states --enable-return-indexer-topk",
              "keeps what is returned", "more"),
    # What the cache takes, by a rule that is not here.
    **effects("disaggregation", "--disaggregation-mode", "keeps room for what another server sends or takes", "either",
              cache=True, idle="null none"),
    **effects("reserved", "--num-reserved-decode-tokens --disaggregation-decode-extra-slots",
              "keeps room for what comes", "either", cache=True),
    **effects("draft format", "--speculative-draft-kv-cache-dtype", "sets the format of the draft's cache", "either",
              cache=True, idle="auto"),
    **effects("draft window", "--speculative-draft-window-size --speculative-draft-sink-size",
              "cuts the draft's cache to a window", "less", cache=True),
    **effects("index", "--qsa-indexer-dtype --enable-deepseek-v4-fp4-indexer", "sets the format of index keys",
              "either", cache=True, idle="auto"),
    **effects("pages", "--c128-page-size --swa-prefix-tails", "changes pages of windows", "either", cache=True),
    **effects("states", "--mamba-max-states-per-path --mamba-track-interval --int8-mamba-ckpt-size",
              "changes how many states are kept", "either", cache=True),
    **effects("diffusion", "--dllm-algorithm", "writes blocks of tokens at a time", "either", cache=True),
    **effects("code", "--model-impl", "takes the attention of transformers, whose layers may cache otherwise",
              "either", cache=True, idle="auto sglang"),
    **effects("embedding model", "--is-embedding", "runs the model as one that generates nothing", "either",
              cache=True),
    **effects("hicache", _HICACHE, "keeps a second cache on the host", "host"),
    **effects("backup", "--enable-weights-cpu-backup --enable-draft-weights-cpu-backup", "keeps weights twice",
              "host"),
}  # fmt: skip
