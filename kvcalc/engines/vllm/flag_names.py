"""Names of vLLM's flags that cannot change the cache, by the words that follow.

Those of 0.33.0 (`engine/arg_utils.py`, `entrypoints/common/cli_args.py`), and a few that older releases had.
"""

__all__ = ["MANY", "SWITCHES", "WORDS"]

_SWITCHES = """
    trust-remote-code allow-deprecated-quantization enable-return-routed-experts
    return-sampling-mask use-fp64-gumbel enable-trace-replay disable-cascade-attn skip-tokenizer-init
    enable-prompt-embeds enable-sleep-mode sleep-mode-offload-cudagraph enable-cumem-allocator
    enable-nccl-comm-suspend use-tqdm-on-load enable-mamba-cache-stochastic-rounding numa-bind dcp-q-replicate
    data-parallel-hybrid-lb data-parallel-external-lb data-parallel-multi-port-external-lb enable-hc-sp
    enable-batch-sharded-sampling enable-ep-weight-filter enable-dbo
    enable-shm-tensor-arena enable-elastic-ep disable-nccl-for-dp-synchronization enable-eplb
    ray-workers-use-nsight disable-custom-all-reduce enable-fault-tolerance swa-bounded-replay
    enable-tower-connector-lora specialize-active-lora enable-mixed-moe-lora-format
    enable-moe-shared-loras kv-cache-metrics cudagraph-metrics enable-layerwise-nvtx-tracing enable-mfu-metrics
    enable-logging-iteration-details jit-monitor-verbose long-prefill-token-threshold-adaptive
    disable-chunked-mm-input scheduler-reserve-full-isl enable-flashinfer-autotune
    monokernel disable-log-stats aggregate-engine-logging fail-on-environ-validation enable-log-requests
    trust-request-chat-template trust-request-mm-kwargs return-tokens-as-token-ids enable-auto-tool-choice
    exclude-tools-when-tool-choice-none enable-prompt-tokens-details enable-per-request-metrics
    enable-server-load-tracking enable-force-include-usage enable-tokenizer-info-endpoint enable-log-outputs
    enable-log-deltas cohere-is-reasoning-model log-error-stack tokens-only enable-scale-out
    kv-sharing-fast-prefill enable-mamba-shared-prefix-checkpoint calculate-kv-scales
    disable-uvicorn-access-log allow-credentials enable-ssl-refresh enable-request-id-headers
    disable-fastapi-docs enable-offline-docs enable-flash-late-interaction headless grpc enable-mm-embeds
    interleave-mm-strings mm-encoder-only disable-log-requests
    enable-reasoning mm-device-do-normalize
"""
SWITCHES = frozenset(f"--{no}{name}" for name in _SWITCHES.split() for no in ("", "no-"))
SWITCHES |= {"-dph", "-dpe", "-dpm", "-O1", "-O2", "-O3"}

# Those that take several words, as lists do (`arg_utils.py: get_kwargs`).
_MANY = """
    served-model-name allowed-media-domains cudagraph-capture-sizes numa-bind-nodes numa-bind-cpus device-ids
    ignore-patterns collect-detailed-traces sleep-preserve-parameter-names logits-processors
    lora-modules api-key middleware
"""
MANY = frozenset(f"--{name}" for name in _MANY.split())

_WORDS = """
    runner convert tokenizer tokenizer-mode seed hf-config-path allowed-local-media-path allowed-media-domains
    revision code-revision tokenizer-revision quantization-config max-logprobs logprobs-mode
    served-model-name config-format hf-token pooler-config generation-config override-generation-config
    sleep-mode-backend sleep-preserve-parameter-names model-impl logits-processors io-processor-plugin
    renderer-num-workers load-format download-dir safetensors-load-strategy safetensors-prefetch-num-threads
    safetensors-prefetch-block-size model-loader-extra-config ignore-patterns pt-load-map-location mamba-backend
    mamba-ssu-algorithm mamba-cache-philox-rounds reasoning-parser reasoning-parser-plugin
    distributed-executor-backend master-addr master-port nnodes node-rank distributed-timeout-seconds
    cpu-distributed-timeout-seconds numa-bind-nodes numa-bind-cpus device-ids dcp-comm-backend
    dcp-kv-cache-interleave-size cp-kv-cache-interleave-size data-parallel-rank data-parallel-start-rank
    data-parallel-size-local data-parallel-address data-parallel-rpc-port data-parallel-backend all2all-backend
    ubatch-size elastic-ep-max-dp-size dbo-decode-token-threshold dp-sync-interval dbo-prefill-token-threshold
    eplb-config expert-placement-strategy max-parallel-loading-workers worker-cls worker-extension-cls
    mamba-block-size prefix-cache-retention-interval
    fault-tolerance-config prefix-caching-hash-algo prefix-match-unit replayssm-buffer-len kv-offloading-size
    kv-offloading-backend offload-backend cpu-offload-gb cpu-offload-params offload-group-size
    offload-num-in-group offload-prefetch-step offload-params media-io-kwargs
    mm-processor-kwargs mm-processor-cache-gb mm-processor-cache-type mm-hasher-algorithm
    mm-shm-cache-max-object-size-mb mm-encoder-tp-mode mm-encoder-attn-backend mm-encoder-attn-dtype
    mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-path mm-encoder-fp8-scale-save-margin video-pruning-rate
    video-pruning-method mm-tensor-ipc mm-processor-device mm-ipc-gpu-memory-gb
    lora-dtype max-cpu-loras default-mm-loras max-lora-cls-labels lora-modules
    logging-config log-level log-config-file show-hidden-metrics-for-version otlp-traces-endpoint
    collect-detailed-traces per-request-spec-decode-metrics kv-cache-metrics-sample custom-histogram-buckets
    jit-monitor-mode max-num-scheduled-tokens max-num-active-seqs max-num-queued-reqs max-num-queued-tokens
    long-prefill-token-threshold scheduling-policy scheduler-cls watermark prefill-schedule-interval
    stream-interval cudagraph-capture-sizes max-cudagraph-capture-size ir-op-priority moe-backend linear-backend
    sparse-indexer-topk-backend watermark-config diffusion-config kv-events-config ec-transfer-config
    ec-manager-config engram-config reasoning-config kernel-config
    structured-outputs-config aux-output-config profiler-config watchdog-config
    weight-transfer-config shutdown-timeout kda-decode-backend chat-template
    chat-template-content-format default-chat-template-kwargs reasoning-effort-map response-role
    tool-call-parser tool-parser-plugin tool-strict-level tool-server max-log-len sse-keep-alive-interval
    cohere-format anthropic-disabled-thinking-effort fingerprint-mode fingerprint-value host port grpc-port
    data-parallel-supervisor-port dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s
    dp-supervisor-probe-failure-threshold uds uvicorn-log-level disable-access-log-for-endpoints allowed-origins
    allowed-methods allowed-headers api-key ssl-keyfile ssl-certfile ssl-ca-certs ssl-cert-reqs ssl-ciphers
    root-path middleware h11-max-incomplete-event-size h11-max-header-count api-server-count swap-space
    guided-decoding-backend max-seq-len-to-capture rope-scaling rope-theta
"""
WORDS = frozenset(f"--{name}" for name in _WORDS.split()) | {
    "-n", "-r", "-dpn", "-dpr", "-dpl", "-dpa", "-dpp", "-dpb", "-dc",
}  # fmt: skip
