"""vLLM's command line, as far as it concerns the cache: `engine/arg_utils.py` and `entrypoints/common/cli_args.py` of
0.33.0. Underscores may stand for hyphens, and every switch has its `--no-` form.
"""

from collections.abc import Iterator, Mapping, Sequence

from kvcalc.commands.effects import Effect, Uncounted
from kvcalc.commands.flags import Flag, Flags, FlagValues, Image, word
from kvcalc.core import dtypes
from kvcalc.core.model import Model
from kvcalc.core.units import Fraction, parse_integer
from kvcalc.core.weights import loaded_as_fp8
from kvcalc.engines.adapters import adapter_room, unknown_adapters
from kvcalc.engines.options import EngineOptions, model_flag
from kvcalc.engines.overrides import limit, parse_object
from kvcalc.engines.uncounted import drafting, kept_on_host, loaded_in_16_bits, packed_otherwise
from kvcalc.engines.vllm.carried import carried
from kvcalc.engines.vllm.effects import EFFECTS
from kvcalc.engines.vllm.flag_names import MANY, SWITCHES, WORDS
from kvcalc.engines.vllm.flag_values import (
    AUTO,
    attention_config,
    cache_dtype,
    cache_layout,
    compilation_config,
    counted,
    gibibytes,
    latents,
    layer_names,
    length,
    limits,
    lora_rank,
    offloading_backend,
    partition,
    size,
    speculative_config,
    transfer_config,
)
from kvcalc.engines.vllm.formats import PACKED
from kvcalc.engines.vllm.specs import shortest_window
from kvcalc.errors import KvcalcError, shown

__all__ = ["FLAGS", "model_of", "options_of"]


def _switch(
    key: str, name: str, *, off: bool = False, env: tuple[str, ...] = (), apart: bool = False
) -> tuple[Flag, Flag]:
    """A switch and its `--no-` form, and of --enable-x also --disable-x (`EnableDisableAction`).

    `off`: the switch turns `key` off; `env` are variables that turn it on.
    """
    verb, _, rest = name.partition("-")
    other = {"enable": f"disable-{rest}", "disable": f"enable-{rest}"}.get(verb)
    against = (f"--no-{name}", *((f"--{other}",) if other else ()))
    return (
        Flag(key, (f"--{name}",), constant=not off, env=() if off else env, apart=apart),
        Flag(key, against, constant=off, env=env if off else (), apart=apart),
    )


FLAGS = Flags(
    ("vllm serve", "vllm.entrypoints.openai.api_server", "vllm"),
    (
        Flag("model", ("--model",), word),
        Flag("context", ("--max-model-len",), length),
        Flag("tp", ("--tensor-parallel-size", "-tp"), parse_integer),
        Flag("pp", ("--pipeline-parallel-size", "-pp"), parse_integer),
        Flag("dp", ("--data-parallel-size", "-dp"), parse_integer),
        Flag("dcp", ("--decode-context-parallel-size", "-dcp"), parse_integer),
        Flag("dtype", ("--dtype",), word),
        Flag("kv_dtype", ("--kv-cache-dtype",), cache_dtype),
        Flag("quantization", ("--quantization", "-q"), word),
        Flag("kv_memory", ("--kv-cache-memory-bytes", "--kv-cache-memory"), size),
        Flag("utilization", ("--gpu-memory-utilization", "--device-memory-utilization"), Fraction.parse),
        Flag("block_size", ("--block-size",), parse_integer),
        Flag("max_num_seqs", ("--max-num-seqs",), parse_integer),
        Flag("max_num_batched_tokens", ("--max-num-batched-tokens",), size),
        Flag("num_gpu_blocks", ("--num-gpu-blocks-override",), parse_integer),
        Flag("backend", ("--attention-backend",), word),
        Flag("old_backend", (), word, env=("VLLM_ATTENTION_BACKEND",)),
        Flag("attention", ("--attention-config", "-ac"), attention_config, fields=True),
        Flag("layout", (), cache_layout, env=("VLLM_KV_CACHE_LAYOUT",)),
        Flag("whole_heads", (), latents, env=("VLLM_MLA_DISABLE",)),
        Flag("mamba_cache_mode", ("--mamba-cache-mode",), word),
        Flag("mamba_cache_dtype", ("--mamba-cache-dtype",), word),
        Flag("mamba_ssm_cache_dtype", ("--mamba-ssm-cache-dtype",), word),
        Flag("gdn_backend", ("--gdn-prefill-backend",), word),
        Flag("kda_backend", ("--kda-prefill-backend",), word),
        Flag("additional", ("--additional-config",), parse_object, fields=True),
        Flag("speculation", ("--speculative-config", "-sc"), speculative_config, fields=True),
        Flag("method", ("--spec-method",), word),
        Flag("speculative", ("--spec-tokens",), parse_integer),
        Flag("draft_model", ("--spec-model",), word),
        Flag("overrides", ("--hf-overrides",), parse_object, fields=True),
        Flag("connectors", ("--kv-transfer-config",), transfer_config, fields=True),
        Flag("skip_layers", ("--kv-cache-dtype-skip-layers",), layer_names, several=True),
        Flag("swap_space", ("--swap-space",), gibibytes),
        Flag("offload", ("--cpu-offload-gb",), gibibytes, apart=True),
        Flag("host_size", ("--kv-offloading-size",), gibibytes, apart=True),
        Flag("host_backend", ("--kv-offloading-backend",), offloading_backend, apart=True),
        Flag("prefill_context", ("--prefill-context-parallel-size", "-pcp"), parse_integer),
        Flag("partition", (), partition, env=("VLLM_PP_LAYER_PARTITION",)),
        Flag("replay", ("--use-replayssm",)),
        Flag("performance_mode", ("--performance-mode",), word, apart=True),
        Flag("optimization", ("--optimization-level", "-O"), word, apart=True),
        Flag("optimization", ("-O0",), constant="0", apart=True),
        Flag("compilation", ("--compilation-config", "-cc"), compilation_config, fields=True, apart=True),
        Flag("images", ("--limit-mm-per-prompt",), limits, fields=True, apart=True),
        Flag("count_graphs", (), counted, env=("VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",), apart=True),
        *_switch("enforce_eager", "enforce-eager", apart=True),
        *_switch("language_model_only", "language-model-only", apart=True),
        *_switch("skip_mm_profiling", "skip-mm-profiling", apart=True),
        *_switch("enable_chunked_prefill", "enable-chunked-prefill", apart=True),
        *_switch("expert_parallel", "enable-expert-parallel", apart=True),
        Flag("expert_parallel", ("-ep",)),
        *_switch("lora", "enable-lora", apart=True),
        *_switch("fully_sharded_loras", "fully-sharded-loras", apart=True),
        Flag("max_loras", ("--max-loras",), parse_integer, apart=True),
        Flag("lora_targets", ("--lora-target-modules",), word, several=True, apart=True),
        Flag("max_lora_rank", ("--max-lora-rank",), lora_rank, apart=True),
        *_switch("async_scheduling", "async-scheduling"),
        *_switch("enable_prefix_caching", "enable-prefix-caching"),
        *_switch(
            "hybrid",
            "disable-hybrid-kv-cache-manager",
            off=True,
            env=("VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE",),
        ),
        *_switch("windows", "disable-sliding-window", off=True),
    ),
    words=WORDS,
    switches=SWITCHES,
    many=MANY,
    underscores=True,
    abbreviated=True,
    config=("--config",),
    images=(Image("vllm/vllm-openai", "vllm serve"),),  # docker/Dockerfile; older: the module
    effects=EFFECTS,
)

_OPTIONS = ("tp", "pp", "dp", "dcp")
_FP8 = ("fp8", "fp8_per_tensor", "fp8_per_block", "fp8_per_channel")  # made of 16 bits (`config/quantization.py`)
_DTYPES = {"half": "fp16", "float16": "fp16", "bfloat16": "bf16", "float": "fp32", "float32": "fp32"}
_SETTINGS = (
    "block_size", "max_num_seqs", "max_num_batched_tokens", "num_gpu_blocks", "backend", "mamba_cache_mode",
    "mamba_cache_dtype", "mamba_ssm_cache_dtype", "gdn_backend", "kda_backend", "async_scheduling",
    "enable_prefix_caching", "hybrid",
    "windows", "method", "speculative", "skip_layers", "swap_space", "prefill_context", "replay", "partition",
    "performance_mode",
    "enforce_eager", "language_model_only", "skip_mm_profiling", "enable_chunked_prefill", "expert_parallel",
    "count_graphs", "fully_sharded_loras", "host_size", "host_backend",
)  # fmt: skip


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:
    """Options of ours, and vLLM's own settings. Without a length, a command takes the model's limit."""
    values = dict(read.values)
    options = {name: values[name] for name in _OPTIONS if name in values}
    settings = {name: values[name] for name in _SETTINGS if name in values}
    draft = _drafted(values, settings)
    warnings = carried(values, settings, read.version)
    _implied(values, settings)
    context = _context(values, program, model)
    if context == AUTO:
        context, settings["auto_length"] = "max", True
    if context is not None:
        options["context"] = context
    on_host, left = kept_on_host(values, model, read.uncounted)
    settings |= {"on_host": True} if on_host else {}
    uncounted = _spread(values, model, options, left)
    if (room := adapter_room(values, 1, 16)) is not None:  # config/lora.py: max_loras, max_lora_rank
        uncounted += (lacking := unknown_adapters(model, "--enable-lora", values.get("lora_targets")))
        settings |= {} if lacking else {"adapters": room}
    computed = str(values.get("dtype", "auto")).lower()
    if computed != "auto":
        if computed not in _DTYPES:
            raise KvcalcError(f"--dtype: expected auto or one of {', '.join(_DTYPES)}, got {shown(computed)}")
        settings["computed"] = dtypes.COMPUTE[_DTYPES[computed]]
    # `_resolve_auto_dtype` (config/model.py): the first dtype of the platform; on Turing that is fp16, as wide.
    loaded = loaded_in_16_bits(model, "bf16") if computed == "auto" else None
    defaults: dict[str, object] = {}
    if loaded is not None:
        settings["computed"] = loaded.computed
        defaults = {} if model.kv_dtype else {"kv_dtype": loaded.computed.name}
    kept = str(values.get("kv_dtype", "auto")).lower()
    if kept in PACKED:
        settings["packed"] = kept
    if kept != "auto":
        options["kv_dtype"] = PACKED.get(kept, kept)
    elif computed != "auto" and model.kv_dtype is None:
        options["kv_dtype"] = _DTYPES[computed]
    utilization, memory = values.get("utilization"), values.get("kv_memory")
    sequences = values.get("max_num_seqs")
    return EngineOptions(
        options,
        settings,
        tuple(warnings),
        utilization=utilization if isinstance(utilization, Fraction) else None,
        kv_memory=memory if isinstance(memory, int) else None,
        defaults={} if "kv_dtype" in options else defaults,
        draft=draft,
        sequences=sequences if isinstance(sequences, int) else None,
        loaded=loaded_as_fp8(model) if values.get("quantization") in _FP8 else loaded and loaded.weights,
        on_host=on_host,
        uncounted=(*uncounted, *_uncounted(values, settings, model), *(loaded.uncounted if loaded else ())),
    )


def _spread(
    values: Mapping[str, object], model: Model, options: dict[str, object], uncounted: Sequence[Uncounted]
) -> list[Uncounted]:
    """Experts are divided over the ranks of tp x dp, and with --enable-expert-parallel in whole ones
    (`FusedMoEParallelConfig.make`). What is left uncounted.
    """
    experts = 0 if model.dimensions is None else model.dimensions.experts
    parallel = values.get("expert_parallel") is True
    if model.dimensions is None or not (parallel or experts):
        return list(uncounted)
    if parallel and not experts:  # config/model.py, _verify_with_expert_parallelism
        raise KvcalcError(f"--enable-expert-parallel: vLLM refuses it where a model has no experts, as {model.name}")
    if values.get("dp") not in (None, 1):
        options["dp_attention"] = True
    if parallel:
        options["ep"] = "all"
    return [each for each in uncounted if each.effect.key != "experts"]


def _uncounted(values: Mapping[str, object], settings: Mapping[str, object], model: Model) -> Iterator[Uncounted]:
    """What flags that count in one way change in another, which does not."""
    yield from packed_otherwise(values.get("quantization"), _FP8, model)
    if "connectors" in values:
        yield Uncounted("--kv-transfer-config", Effect("connector", "may keep buffers for what it moves", "more"))
    if settings.get("method") not in (None, "ngram", "ngram_gpu", "suffix"):
        yield drafting("--speculative-config")


def _implied(values: Mapping[str, object], settings: dict[str, object]) -> None:
    """What flags say by another name: that nothing is captured, and that there are no images."""
    if values.get("compilation") is False or str(values.get("optimization", "")).lstrip("O=") == "0":
        settings["enforce_eager"] = True
    if values.get("images") is False:
        settings["language_model_only"] = True
    if values.get("connectors") is False:
        settings.setdefault("hybrid", False)


def _context(values: Mapping[str, object], program: str, model: Model) -> object:
    """The length that is stated; that of a command is the limit of the model, or of keys that replace it."""
    limited = limit(values.get("overrides"), "--hf-overrides", "--max-model-len", stated="context" in values)
    window = _shortest(model) if values.get("windows") is False and program else None
    if window:
        limited = min(window, limited or window)  # `_get_and_verify_max_len`
    return values.get("context", limited or "max" if program and (limited or model.max_context) else None)


def _shortest(model: Model) -> int | None:
    """The window to which a model without windows is cut."""
    window = shortest_window(model)
    return window and min(window, model.max_context or window)


# Methods whose draft has layers of its own, which vLLM lists behind the model's: of EAGLE's kinds or of any model.
_OF_MODELS = ("draft_model", "eagle", "eagle3")


def _drafted(values: Mapping[str, object], settings: dict[str, object]) -> str | None:
    """The draft model that is named, for a method that runs its layers. The method and the tokens become settings."""
    stated = values.get("speculation")
    said = {**(stated if isinstance(stated, dict) else {}), **values}
    if not {"speculation", "method", "speculative", "draft_model"} & said.keys():
        return None
    method, name = str(said.get("method", "")), said.get("draft_model")
    if not method and isinstance(name, str):  # the order of config/speculative.py
        kinds = {"eagle-": "eagle", "eagle3": "eagle3", "dflash": "dflash", "dspark": "dspark"}
        method = next((kind for part, kind in kinds.items() if part in name.lower()), "draft_model")
    settings["method"] = method
    if "speculative" in said:
        settings["speculative"] = said["speculative"]
    elif method not in ("ngram", "ngram_gpu", "suffix"):
        raise KvcalcError(
            "--speculative-config: expected num_speculative_tokens in it", "say how many tokens are drafted"
        )
    if method not in _OF_MODELS:
        return None
    if "draft_tp" in said and said["draft_tp"] != values.get("tp", 1):
        raise KvcalcError("--speculative-config: draft_tensor_parallel_size other than the model's has no rule here")
    return name if isinstance(name, str) else None


def model_of(program: str, read: FlagValues) -> str | None:
    """The word behind `vllm serve`, or --model."""
    if program.startswith("vllm serve") and read.others:
        return read.others[0]
    return model_flag(program, read)
