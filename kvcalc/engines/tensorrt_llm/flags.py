"""TensorRT-LLM's command line, as far as it concerns the cache: `trtllm-serve` and fields of `llmapi/llm_args.py`."""

from collections.abc import Mapping

from kvcalc.commands.effects import effects
from kvcalc.commands.flags import Flag, Flags, FlagValues, Image, word
from kvcalc.core.model import Model
from kvcalc.core.units import MOST_BYTES, Fraction, parse_integer
from kvcalc.engines.options import EngineOptions
from kvcalc.engines.overrides import parse_object
from kvcalc.errors import KvcalcError, escape

__all__ = ["FLAGS", "model_of", "options_of"]

# Flags that cannot change the cache.
_WORDS = """
    host port backend log_level max_beam_width gpus_per_node
    num_postprocess_workers reasoning_parser tool_parser tokenizer custom_tokenizer
    metadata_server_config_file server_role served_model_name
"""

_EFFECTS = {
    **effects("experts", "--ep_size", "spreads whole experts over ranks", "either", idle="1"),
    **effects("beams", "--max_beam_width", "keeps a cache for each beam", "more", cache=True, idle="1"),
    **effects("server", "--server_role", "keeps room for what another server sends or takes", "either", cache=True),
}  # fmt: skip

FLAGS = Flags(
    ("trtllm-serve serve", "trtllm-serve"),
    (
        Flag("model", ("--model",), word),
        Flag("context", ("--max_seq_len", "--max-seq-len"), parse_integer),
        Flag("tp", ("--tp_size", "--tp-size", "--tensor_parallel_size"), parse_integer),
        Flag("pp", ("--pp_size", "--pp-size", "--pipeline_parallel_size"), parse_integer),
        Flag("ep", ("--ep_size", "--ep-size", "--moe_expert_parallel_size"), parse_integer),
        Flag("kv_dtype", ("--kv_cache_dtype", "--kv-cache-dtype"), word),
        Flag("utilization", ("--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"), Fraction.parse),
        Flag("second_manager", ("--use_kv_cache_manager_v2",)),
        Flag("max_batch_size", ("--max_batch_size", "--max-batch-size"), parse_integer),
        Flag("max_num_tokens", ("--max_num_tokens", "--max-num-tokens"), parse_integer, apart=True),
        Flag("tokens_per_block", ("--tokens_per_block", "--tokens-per-block"), parse_integer),
        Flag("attention_dp", ("--enable_attention_dp",)),
        Flag("cache", ("--kv_cache_config",), parse_object, fields=True),
        Flag("drafts", ("--speculative_config",), parse_object, fields=True),
        Flag("sparse", ("--sparse_attention_config",), parse_object, fields=True),
    ),
    words=frozenset(f"--{name}" for name in _WORDS.split()),
    config=("--extra_llm_api_options", "--config"),  # llmapi/llm_args.py: update_llm_args_with_extra_options
    config_last=True,
    images=(Image("tensorrt-llm/release", ""),),  # nvcr.io/nvidia
    switches=frozenset({"--trust_remote_code", "--fail_fast_on_attention_window_too_large"}),
    effects=_EFFECTS,
)
_OPTIONS = ("context", "tp", "pp", "ep", "kv_dtype")


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:
    """Options of ours under their names, the rest as its own settings. The model's limit is the default length."""
    values = {**read.values, **_cache_settings(read.values.get("cache"))}
    utilization, sequences = values.pop("utilization", None), values.get("max_batch_size")
    memory = values.pop("kv_memory", None)
    for key, name in (("drafts", "speculative_config"), ("sparse", "sparse_attention_config")):
        if values.pop(key, None):
            raise KvcalcError(f"--{name}: what it adds to the cache is not known", "leave it out")
    options = {key: value for key, value in values.items() if key in _OPTIONS}
    settings = {key: value for key, value in values.items() if key not in (*_OPTIONS, "model", "cache")}
    if program and model.max_context:
        options.setdefault("context", "max")
    ranks = options.get("tp", 1)
    if settings.get("attention_dp") and isinstance(ranks, int) and ranks > 1:  # resource_manager.py: tp_size is 1
        options["tp"], options["dp"] = 1, ranks
    experts = model.dimensions is not None and bool(model.dimensions.experts)
    uncounted = read.uncounted
    if experts:
        options |= {"dp_attention": ranks} if "dp" in options else {}
        uncounted = tuple(each for each in uncounted if each.effect.key != "experts")
    else:
        options.pop("ep", None)
    return EngineOptions(
        options,
        settings,
        warnings=() if memory is None else (_CAPPED,),
        utilization=utilization if isinstance(utilization, Fraction) else None,
        kv_memory=memory if isinstance(memory, int) else None,
        sequences=sequences if isinstance(sequences, int) else None,
        uncounted=uncounted,
    )


# kv_cache_config of llmapi/llm_args.py: our keys of its fields, and what cannot change the size of the pool's blocks.
_CACHE_FIELDS = {
    "dtype": "kv_dtype",
    "tokens_per_block": "tokens_per_block",
    "free_gpu_memory_fraction": "utilization",
    "use_kv_cache_manager_v2": "second_manager",
    "max_gpu_total_bytes": "kv_memory",
}
# _torch/pyexecutor/_util.py: KvCacheCreator takes the smaller of it and the share of what weights leave.
_CAPPED = "max_gpu_total_bytes: taken as the memory of the cache; a GPU with less to spare gives less"
_HARMLESS = (
    "enable_block_reuse", "enable_partial_reuse", "copy_on_partial_reuse", "host_cache_size", "event_buffer_max_size",
    "attention_dp_events_gather_period_ms", "onboard_blocks", "secondary_offload_min_priority", "use_uvm",
)  # fmt: skip


def _cache_settings(given: object) -> dict[str, object]:
    """What `kv_cache_config` says of the cache. A field without a rule here is refused."""
    found: dict[str, object] = {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        what = f"kv_cache_config: {escape(str(name))[:60]}"
        if value is None or name in _HARMLESS:
            continue
        if name not in _CACHE_FIELDS:
            raise KvcalcError(f"{what}: its effect on the cache is not known", "leave it out")
        key = _CACHE_FIELDS[name]
        if key == "utilization":
            found[key] = Fraction.parse(str(value), what)
        elif key == "tokens_per_block":
            found[key] = parse_integer(str(value), what)
        elif key == "kv_memory":
            if str(value) != "0":  # 0, the default, bounds nothing
                found[key] = parse_integer(str(value), what, MOST_BYTES)
        elif key == "second_manager":
            found[key] = value is True
        else:
            found[key] = str(value)
    return found


def model_of(program: str, read: FlagValues) -> str | None:  # noqa: ARG001
    """The word behind `trtllm-serve`, or its --model."""
    model = read.values.get("model") or (read.others[0] if read.others else None)
    return model if isinstance(model, str) else None
