"""SGLang's command line, as far as it concerns the cache: `srt/arg_groups/fields` of 0.5.23."""

from collections.abc import Mapping

from kvcalc.commands.flags import Flag, Flags, FlagValues, Image, word
from kvcalc.commands.start import Start, format_word, model_word, share_word, weights_word, words_of
from kvcalc.core import dtypes
from kvcalc.core.model import Model
from kvcalc.core.units import Fraction, parse_integer
from kvcalc.core.weights import loaded_as_fp8
from kvcalc.engines.base import EngineOptions, drafting, loaded_in_16_bits, model_flag, packed_otherwise
from kvcalc.engines.overrides import known, limit, parse_object
from kvcalc.engines.sglang.effects import EFFECTS
from kvcalc.errors import KvcalcError, shown

__all__ = ["FLAGS", "integer", "model_of", "options_of", "start"]

# Flags that cannot change the cache.
_SWITCHES = """
    enable-lean-attention enable-lora enable-lora-overlap-loading enable-multimodal enable-quant-communications
    abort-on-priority-when-disabled allow-auto-truncate checkpoint-engine-wait-weights-before-ready
    constrained-json-disable-any-whitespace debug-cuda-graph delete-ckpt-after-loading
    disable-aiter-allreduce-fusion-in-decode disable-aiter-allreduce-fusion-in-prefill disable-attn-tp-gather
    disable-chunked-prefix-cache disable-cuda-graph-padding disable-custom-all-reduce disable-decode-cuda-graph
    disable-fast-image-processor disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather
    disable-outlines-disk-cache disable-prefill-cuda-graph disable-priority-preemption
    disable-shared-experts-fusion disable-tokenizer-batch-decode disaggregation-decode-enable-offload-kvcache
    disaggregation-decode-enable-radix-cache disaggregation-enable-kv-checksum dllm-fdfo
    enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion enable-amd-monokernel
    enable-attn-tp-input-scattered enable-broadcast-mm-inputs-process enable-cache-report
    enable-cp-decode-attn-tp enable-cudagraph-gc enable-custom-logit-processor enable-deepseek-v4-fp4-indexer
    enable-dense-mlp-attn-tp enable-deterministic-inference enable-dp-attention-local-control-broadcast
    enable-dp-lm-head enable-draft-weights-cpu-backup
    enable-dynamic-batch-tokenizer enable-dynamic-chunking enable-elastic-expert-backup
    enable-encoder-swa-bounded-replay enable-eplb enable-flexkv enable-forward-pass-metrics enable-fp32-lm-head
    enable-fused-moe-sum-all-reduce enable-hicache enable-hierarchical-cache enable-http-worker-reuseport
    enable-http2 enable-layernorm-sp enable-layerwise-nvtx-marker enable-linker-mla-dedup enable-lmcache
    enable-mamba-cache-stochastic-rounding enable-megamoe-for-layernorm-sp enable-memory-saver enable-metrics
    enable-metrics-for-all-schedulers enable-mfu-metrics enable-mis enable-mixed-chunk enable-mm-global-cache
    enable-mscclpp enable-multi-layer-eagle enable-nccl-nvls enable-nvidia-megakernel enable-p2p-check
    enable-paged-experts enable-pd-role-switch enable-pdmux enable-precise-embedding-interpolation
    enable-prefill-cp enable-prefill-delayer enable-prefix-mm-cache enable-priority-scheduling
    enable-profile-cuda-graph enable-request-time-stats-logging enable-response-store
    enable-return-aux-hidden-states enable-return-hidden-states enable-return-indexer-topk
    enable-return-routed-experts enable-scattered-sconv enable-session-radix-cache enable-shared-experts-attn-tp
    enable-single-batch-overlap enable-ssl-refresh enable-streaming-session enable-strict-thinking
    enable-symm-mem enable-tokenizer-batch-encode enable-torch-compile enable-torch-compile-debug-mode
    enable-torch-symm-mem enable-trace enable-two-batch-overlap enable-unified-cache-external-linker
    enable-w4a4-mxfp4-megamoe enable-waterfill enable-watermark enable-weights-cpu-backup encoder-only
    enforce-disable-flashinfer-allreduce-fusion enforce-shared-experts-fusion export-metrics-to-file
    flashinfer-mla-disable-ragged grpc-mode incremental-streaming-output is-embedding language-model-only
    language-only log-requests lora-strict-loading lora-use-virtual-experts mlx-enable-sampling pre-warm-nccl
    quantize-and-serve remote-instance-weight-loader-start-seed-via-transfer-engine return-input-ids
    return-output-ids schedule-low-priority-values-first show-time-cost skip-server-warmup skip-tokenizer-init
    sleep-on-idle smg-grpc-mode speculative-adaptive speculative-dspark-align-verify-tokens-to-graph-tier
    speculative-use-block-verification speculative-use-rejection-sampling stream-response-default-include-usage
    strip-thinking-cache triton-attention-reduce-in-fp32 trust-mm-content-hashes trust-remote-code
    trust-request-chat-template use-ray weight-loader-disable-mmap weight-loader-drop-cache-after-load
    weight-loader-prefetch-checkpoints
"""
# Those that have a --no- form too (argparse.BooleanOptionalAction).
_EITHER = """
    mm-enable-dp-encoder speculative-enable-w4a4-mxfp4-megamoe enable-tf32-matmul enable-decoder-swa-bounded-replay
    enable-fused-qk-norm-rope enable-dsa-fused-indexer ple-offload-embedding experts-shared-outer-loras
    dcp-replicate-q-proj enable-tp-lm-head-all-to-all dllm-fdfo lora-strict-loading
"""
# Those that take several words.
_MANY = """
    allowed-media-domains bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token
    cuda-graph-bs-decode cuda-graph-bs-prefill custom-weight-loader debug-tensor-dump-layers encoder-register-urls
    encoder-urls flashinfer-autotune-skip-ops gc-threshold generation-tokens-buckets log-requests-target lora-paths
    lora-target-modules model-checksum numa-node prefill-delayer-forward-passes-buckets
    prefill-delayer-wait-seconds-buckets prompt-tokens-buckets return-aux-hidden-state-layer-ids
    tokenizer-metrics-allowed-custom-labels uvicorn-access-log-exclude-prefixes
"""
_WORDS = """
    admin-api-key allowed-media-domains api-key asr-max-buffer-seconds asr-max-concurrent-sessions
    base-gpu-id
    batch-notify-size bf16-gemm-backend boundary-reduction bucket-e2e-request-latency bucket-inter-token-latency
    bucket-time-to-first-token c128-page-size chat-template completion-template
    constrained-json-max-whitespace-cnt constrained-json-whitespace-pattern context-bucket cp-strategy
    cpu-offload-gb crash-dump-folder cuda-graph-backend-decode cuda-graph-backend-prefill cuda-graph-bs-decode
    cuda-graph-bs-prefill cuda-graph-config cuda-graph-max-bs-decode cuda-graph-max-bs-prefill
    cuda-graph-max-seq-len-prefill cuda-graph-prefill-max-context custom-weight-loader dcp-comm-backend
    dcp-size debug-tensor-dump-input-file debug-tensor-dump-layers
    debug-tensor-dump-output-folder decode-context-parallel-size decode-log-interval
    decoupled-spec-bind-endpoint decoupled-spec-connect-endpoints decoupled-spec-rank decoupled-spec-role
    decrypted-config-file decrypted-draft-config-file deepep-config deepep-dispatcher-output-dtype deepep-mode
    deepep-v2-mode default-chat-template-kwargs default-priority-value detokenizer-worker-num device
    disaggregation-bootstrap-port disaggregation-decode-allocation-policy disaggregation-decode-extra-slots
    disaggregation-decode-host-receive-threshold disaggregation-decode-polling-interval
    disaggregation-decode-retraction-backup disaggregation-ib-device disaggregation-mode
    disaggregation-transfer-backend dist-init-addr dist-timeout dllm-algorithm dllm-algorithm-config
    download-dir dsa-paged-mqa-logits-backend dsa-topk-backend
    dsa-triton-union dsv4-attn-backend dsv4-prefill-backend dwdp-size dynamic-batch-tokenizer-batch-size
    dynamic-batch-tokenizer-batch-timeout elastic-ep-backend elastic-ep-initial-size elastic-ep-join-mode
    elastic-ep-join-rank-offset elastic-ep-scale-timeout
    encoder-bootstrap-port encoder-register-urls encoder-transfer-backend
    encoder-urls engine-info-bootstrap-port ep ep-dispatch-algorithm ep-num-redundant-experts ep-size
    eplb-algorithm eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk
    eplb-rebalance-num-iterations expert-balancedness-report-mode expert-distribution-recorder-buffer-size
    expert-distribution-recorder-mode expert-parallel-size export-metrics-to-file-dir
    extra-metric-labels fastapi-root-path file-storage-path flashinfer-a2a-dispatch-type
    flashinfer-allreduce-fusion-backend flashinfer-autotune-skip-ops flashinfer-mxfp4-moe-precision
    flexkv-config-file forward-hooks forward-pass-metrics-ipc-name forward-pass-metrics-worker-id
    fp4-gemm-backend fp8-gemm-backend fuseep-mode gated-launch-port gc-threshold gc-warning-threshold-secs
    generation-tokens-buckets gpu-id-step grammar-backend grpc-http-sidecar-port grpc-port
    grpc-response-timeout-secs hf-chat-template-name hicache-host-memory-fraction hicache-host-memory-mode
    hicache-io-backend hicache-mem-layout hicache-ratio hicache-size hicache-storage-backend
    hicache-storage-backend-extra-config hicache-storage-prefetch-policy
    hicache-storage-prefetch-retry-max-attempts hicache-storage-prefetch-retry-poll-interval
    hicache-write-policy hierarchical-sparse-attention-extra-config hisparse-config host
    http2-initial-connection-window-size http2-max-concurrent-streams image-processor-backend
    init-expert-location int8-mamba-ckpt-size kt-cpuinfer kt-max-deferred-experts-per-token kt-method
    kt-num-gpu-experts kt-threadpool-count kt-weight-path kv-canary kv-canary-sweep-interval kv-events-config
    limit-mm-data-per-request linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend
    linear-attn-verify-backend linear-replayssm-cache-len lmcache-config-file load-balance-method load-format
    load-publish-endpoint load-snapshot-publish-interval log-level log-level-http log-requests-format
    log-requests-level log-requests-target lora-backend lora-drain-wait-threshold lora-eviction-policy
    lora-paths lora-target-modules mamba-backend mamba-cache-philox-rounds mamba-max-states-per-path
    mamba-track-interval max-ep-size max-loaded-loras max-lora-chunk-size
    max-lora-rank max-loras-per-batch max-prefill-tokens max-queued-requests media-url-max-file-size-mb
    min-free-slots-delay mm-attention-backend mm-feature-transport mm-global-cache-backend
    mm-io-worker-num mm-preprocess-cache-size-mb mm-process-config mm-processor-worker-num model-checksum
    model-config-parser model-impl model-loader-extra-config modelexpress-config
    modelopt-checkpoint-restore-path modelopt-checkpoint-save-path modelopt-export-path modelopt-quant
    moe-a2a-backend moe-data-parallel-size moe-dense-tp-size moe-dp-size moe-runner-backend mooncake-ib-device
    msprobe-dump-config nccl-init-addr nccl-port nnodes node-rank num-continuous-decode-steps
    num-reserved-decode-tokens numa-node offload-group-size offload-mode offload-num-in-group
    offload-prefetch-step optimistic-prefill-attempts otlp-service-name otlp-traces-endpoint
    paged-experts-num-resident pdmux-config-path ple-offload-backend ple-offload-dir port
    pp-async-batch-depth pp-max-micro-batch-size preferred-sampling-params prefill-decode-interval
    prefill-decode-interval-min-bs prefill-delayer-forward-passes-buckets prefill-delayer-max-delay-ms
    prefill-delayer-max-delay-passes prefill-delayer-queue-min-ratio prefill-delayer-token-usage-low-watermark
    prefill-delayer-wait-seconds-buckets prefill-kv-cache-dequant-dtype prefill-max-requests
    priority-scheduling-preemption-threshold prompt-tokens-buckets qsa-indexer-dtype
    quantization-param-path radix-cache-backend radix-eviction-policy radix-eviction-policy-config random-seed
    remote-instance-weight-loader-backend remote-instance-weight-loader-seed-instance-ip
    remote-instance-weight-loader-seed-instance-service-port
    remote-instance-weight-loader-send-weights-group-ports retraction-policy return-aux-hidden-state-layer-ids
    return-hidden-states-mode revision rl-on-policy-target rl-quant-profile sampling-defaults
    sampling-mask-max-tokens schedule-conservativeness schedule-policy scheduler-recv-interval served-model-name
    shared-experts-tp-size sidecar sidecar-args sm-group-num smg-http-sidecar-port soft-watchdog-timeout
    spec-trace-dir speculative-accept-threshold-acc speculative-accept-threshold-single
    speculative-adaptive-config speculative-attention-mode speculative-dflash-block-size
    speculative-domino-candidate-pool-size speculative-draft-attention-backend speculative-draft-kv-cache-dtype
    speculative-draft-load-format speculative-draft-model-quantization speculative-draft-model-revision
    speculative-draft-sink-size speculative-draft-window-size speculative-dsa-topk-backend
    speculative-dspark-block-size speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path
    speculative-moe-a2a-backend speculative-moe-runner-backend
    speculative-ngram-capacity speculative-ngram-external-corpus-max-tokens
    speculative-ngram-external-corpus-path speculative-ngram-external-sam-budget speculative-ngram-match-type
    speculative-ngram-max-bfs-breadth speculative-ngram-max-trie-depth speculative-ngram-min-bfs-breadth
    speculative-token-map ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password startup-weight-load-mode
    stream-interval swa-prefix-tails tbo-token-distribution-threshold tokenizer-backend
    tokenizer-metrics-allowed-custom-labels tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-path
    tokenizer-worker-num tool-server torch-compile-max-bs trace-modules triton-attention-num-kv-splits
    triton-attention-split-tile-size unified-cache-external-linker-backend unified-cache-external-linker-config
    uno-lora-path uvicorn-access-log-exclude-prefixes warmups watchdog-timeout watermark-config
    weight-cache-mode weight-cache-socket weight-cache-timeout weight-loader-prefetch-num-threads weight-version
"""

# Each puts pools of another shape in place of the plain ones (`kv_cache_configurator.py`).
_POOLS = (
    "--enable-hisparse", "--enable-unified-memory", "--enable-dsa-cache-layer-split", "--enable-linear-replayssm",
    "--enable-linear-replayssm-spec", "--enable-int8-mamba-checkpoint", "--enable-kv-cache-sharding",
    "--enable-page-major-kv-layout", "--prefill-only-disable-kv-cache",
)  # fmt: skip
_KV = ("auto", "bf16", "bfloat16", "fp8_e4m3", "fp8_e5m2")


def _kv_dtype(text: str, what: str) -> str:
    """A format of fields/model.py. Those in 4 bits and mxfp8 have scales and buffers whose sizes were not read."""
    name = text.strip().lower()
    if name != "auto" and name not in _DTYPES and known(name) not in ("fp16", "bf16", "fp32", "fp8", *_KV):
        raise KvcalcError(
            f"{what}: expected a format of sglang's that was read, got {shown(text)}", f"one of {', '.join(_KV)}"
        )
    return name


_DTYPES = {"half": "fp16", "float16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "float": "fp32", "float32": "fp32"}

FLAGS = Flags(
    ("sglang serve", "sglang.launch_server"),
    (
        Flag("model", ("--model-path", "--model"), word),
        Flag("context", ("--context-length",), parse_integer),
        Flag("tp", ("--tp-size", "--tensor-parallel-size", "--tp"), parse_integer),
        Flag("pp", ("--pp-size", "--pipeline-parallel-size", "--pp"), parse_integer),
        Flag("dp", ("--dp-size", "--data-parallel-size", "--dp"), parse_integer),
        Flag("dcp", ("--dcp-size", "--decode-context-parallel-size"), parse_integer),
        Flag("attention_dp", ("--attn-dp-size", "--attention-data-parallel-size"), parse_integer),
        Flag("attention_cp", ("--attn-cp-size", "--attention-context-parallel-size"), parse_integer),
        Flag("overrides", ("--json-model-override-args",), parse_object),
        Flag("kv_dtype", ("--kv-cache-dtype",), _kv_dtype),
        Flag("dtype", ("--dtype",), word),
        Flag("quantization", ("--quantization",), word),
        Flag("utilization", ("--mem-fraction-static",), Fraction.parse),
        Flag("page_size", ("--page-size",), parse_integer),
        Flag("max_total_tokens", ("--max-total-tokens",), parse_integer),
        Flag("max_running_requests", ("--max-running-requests",), parse_integer),
        Flag("chunked_prefill_size", ("--chunked-prefill-size",), parse_integer),
        Flag("swa_full_tokens_ratio", ("--swa-full-tokens-ratio",), Fraction.parse),
        Flag("mamba_full_memory_ratio", ("--mamba-full-memory-ratio",), Fraction.parse),
        Flag("max_mamba_cache_size", ("--max-mamba-cache-size",), parse_integer),
        Flag("mamba_ssm_dtype", ("--mamba-ssm-dtype",), word),
        Flag("mamba_strategy", ("--mamba-radix-cache-strategy",), word),
        Flag("backend", ("--attention-backend",), word),
        Flag("dsa_prefill_backend", ("--dsa-prefill-backend",), word),
        Flag("dsa_decode_backend", ("--dsa-decode-backend",), word),
        Flag("algorithm", ("--speculative-algorithm",), word),
        Flag("draft_model", ("--speculative-draft-model-path", "--speculative-draft-model"), word),
        Flag("draft_tokens", ("--speculative-num-draft-tokens",), parse_integer),
        Flag("disable_radix_cache", ("--disable-radix-cache",)),
        Flag("disable_overlap", ("--disable-overlap-schedule",)),
        Flag("dp_attention", ("--enable-dp-attention",)),
        *(Flag("pools", (name,), constant=name) for name in _POOLS),
        Flag("whole_windows", ("--disable-hybrid-swa-memory",)),
    ),
    words=frozenset(f"--{name}" for name in _WORDS.split())
    | frozenset({"--decode-attention-backend", "--prefill-attention-backend", "--speculative-num-steps",
                 "--speculative-eagle-topk"}),
    switches=frozenset(f"--{name}" for name in _SWITCHES.split())
    | frozenset(f"--{no}{name}" for name in _EITHER.split() for no in ("", "no-")),
    many=frozenset(f"--{name}" for name in _MANY.split()),
    images=(Image("lmsysorg/sglang", ""),),  # docker/Dockerfile: no entrypoint of its own
    abbreviated=True,
    config=("--config",),
    effects=EFFECTS,
)  # fmt: skip

_OPTIONS = ("tp", "pp", "dp", "dcp", "context")
_APART = (
    "model", "utilization", "kv_dtype", "dtype", "quantization", "overrides", "dp_attention", "attention_dp", *_OPTIONS,
)  # fmt: skip


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:
    """Options of ours, and SGLang's own settings. Without a length, a command takes the model's limit."""
    values = dict(read.values)
    options = {name: values[name] for name in _OPTIONS if name in values}
    limited = limit(
        values.get("overrides"), "--json-model-override-args", "--context-length", stated="context" in values
    )
    if program and (limited or model.max_context):
        options.setdefault("context", limited or "max")
    computed, kept = (str(values.get(name, "auto")).lower() for name in ("dtype", "kv_dtype"))
    if computed != "auto" and computed not in _DTYPES:
        raise KvcalcError(f"--dtype: expected auto or one of {', '.join(_DTYPES)}, got {shown(computed)}")
    if kept != "auto":
        options["kv_dtype"] = _DTYPES.get(kept, kept)
    elif computed != "auto" and model.kv_dtype is None:
        options["kv_dtype"] = _DTYPES[computed]
    utilization = values.get("utilization")
    settings = {name: value for name, value in values.items() if name not in _APART}
    if computed != "auto":
        settings["computed"] = dtypes.COMPUTE[_DTYPES[computed]]
    # `_get_and_verify_dtype` (configs/model_config.py): fp16, and bf16 for the Gemmas.
    own = "bf16" if (model.model_type or "").startswith("gemma") else "fp16"
    loaded = loaded_in_16_bits(model, own) if computed == "auto" else None
    defaults: dict[str, object] = {}
    if loaded is not None:
        settings["computed"] = loaded.computed
        defaults = {} if "kv_dtype" in options or model.kv_dtype else {"kv_dtype": loaded.computed.name}
    if "context" in values or limited:
        settings["context_length"] = values.get("context", limited)
    _spread_attention(values, options, settings)
    draft, algorithm = values.get("draft_model"), str(values.get("algorithm", "")).upper()
    return EngineOptions(
        options,
        settings,
        utilization=utilization if isinstance(utilization, Fraction) else None,
        defaults=defaults,
        draft=draft if isinstance(draft, str) and algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE") else None,
        sequences=integer(settings.get("max_running_requests")),
        loaded=loaded_as_fp8(model) if values.get("quantization") == "fp8" else loaded and loaded.weights,
        uncounted=(
            *read.uncounted,
            *packed_otherwise(values.get("quantization"), ("fp8",), model),
            *([drafting("--speculative-algorithm")] if algorithm not in ("", "NGRAM") else ()),
            *(loaded.uncounted if loaded else ()),
        ),
    )


def _spread_attention(values: Mapping[str, object], options: dict[str, object], settings: dict[str, object]) -> None:
    """Data-parallel attention: groups of tp / N ranks, each with heads, sequences and a pool of its own.

    The old spelling counts the groups by --dp-size (`handle_deprecated_dp_attention`). Each group has its part of the
    requests and of the slots of states (`kv_cache_configurator.py`).
    """
    tp, dp = integer(values.get("tp")) or 1, integer(values.get("dp")) or 1
    groups = integer(values.get("attention_dp")) or 1
    if values.get("dp_attention") and groups == 1:
        groups, dp = dp, 1
    if (integer(values.get("attention_cp")) or 1) > 1:
        raise KvcalcError("--attn-cp-size: how it spreads a context was not read", "leave it out")
    if groups == 1:
        return
    if tp % groups:
        raise KvcalcError(
            f"--attn-dp-size: {groups} does not divide --tp-size {tp}", "the groups share the ranks of tp"
        )
    options["tp"], options["dp"], settings["attention_groups"] = tp // groups, dp * groups, groups
    for name in ("max_running_requests", "max_mamba_cache_size"):
        given = integer(values.get(name))
        if given is not None:
            settings[name] = max(1, given // groups)


def model_of(program: str, read: FlagValues) -> str | None:
    """--model-path, or the first word behind `sglang serve` (cli/serve.py: _normalize_positional_model_path)."""
    if program.startswith("sglang serve") and read.others and "model" not in read.values:
        return read.others[0]
    return model_flag(program, read)


def integer(value: object) -> int | None:
    """A setting that is a number, if it was given."""
    return value if isinstance(value, int) else None


# The choices of --kv-cache-dtype in `arg_groups/fields/model.py`: its fp8 has two names.
_CACHE = {"bf16": "bf16", "fp8": "fp8_e4m3", "fp8_e4m3": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2"}


def start(start: Start) -> tuple[str, ...]:
    """`sglang.launch_server`. --max-running-requests is for each replica: it is divided with dp attention alone
    (`model_executor/pool_configurator.py`). That, and a split context, have no rule here.
    """
    layout = start.layout
    if layout.dcp > 1:
        raise KvcalcError("--dcp: what sglang counts and logs of a split context was not read", "leave it out")
    spread = (("--tp-size", layout.tp), ("--pp-size", layout.pp), ("--dp-size", layout.dp))
    return (
        *("python", "-m", "sglang.launch_server", "--model-path", model_word(start)),
        *words_of((flag, size) for flag, size in spread if size > 1),
        *words_of(
            (
                ("--context-length", start.context),
                ("--max-running-requests", start.sequences),
                ("--kv-cache-dtype", format_word(start, _CACHE, "sglang")),
                ("--quantization", weights_word(start, {"fp8": "fp8"}, "sglang")),
                ("--mem-fraction-static", share_word(start.utilization)),
            )
        ),
    )
