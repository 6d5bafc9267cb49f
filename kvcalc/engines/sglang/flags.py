"""SGLang's command line, as far as it concerns the cache: `srt/arg_groups/fields` of 0.5.23."""

import re
from collections.abc import Mapping, Sequence

from kvcalc.commands.effects import Uncounted
from kvcalc.commands.flags import Flag, Flags, FlagValues, Image, word
from kvcalc.core import dtypes
from kvcalc.core.model import Model
from kvcalc.core.units import Fraction, parse_integer, parse_size
from kvcalc.core.weights import loaded_as_fp8
from kvcalc.engines.adapters import adapter_room, unknown_adapters
from kvcalc.engines.options import EngineOptions, model_flag
from kvcalc.engines.overrides import known, limit, parse_object
from kvcalc.engines.sglang.effects import EFFECTS
from kvcalc.engines.sglang.flag_names import MANY, SWITCHES, WORDS
from kvcalc.engines.uncounted import drafting, kept_on_host, loaded_in_16_bits, packed_otherwise
from kvcalc.errors import KvcalcError, shown

__all__ = ["FLAGS", "integer", "model_of", "options_of"]


# Each puts pools of another shape in place of the plain ones (`kv_cache_configurator.py`).
_POOLS = (
    "--enable-hisparse", "--enable-unified-memory", "--enable-dsa-cache-layer-split", "--enable-linear-replayssm",
    "--enable-linear-replayssm-spec", "--enable-int8-mamba-checkpoint", "--enable-kv-cache-sharding",
    "--enable-page-major-kv-layout", "--prefill-only-disable-kv-cache",
)  # fmt: skip
_KV = ("auto", "bf16", "bfloat16", "fp8_e4m3", "fp8_e5m2")


def _kv_dtype(text: str, what: str) -> str:
    """A format of fields/model.py. Those in 4 bits and mxfp8 have scales and buffers whose sizes are not known."""
    name = text.strip().lower()
    if name != "auto" and name not in _DTYPES and known(name) not in ("fp16", "bf16", "fp32", "fp8", *_KV):
        raise KvcalcError(
            f"{what}: expected a format of sglang's that is known, got {shown(text)}", f"one of {', '.join(_KV)}"
        )
    return name


def _gibibytes(text: str, what: str) -> int:
    """Bytes of a whole number of GiB."""
    return parse_integer(text, what) << 30 if text.strip() != "0" else 0


def _gigabytes(text: str, what: str) -> int:
    """Bytes of a number of GB; 0 leaves it to the ratio."""
    return parse_size(f"{text.strip()}GB", what, zero=True)


def _ratio(text: str, what: str) -> float:
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4})?", text.strip()) or not float(text):
        raise KvcalcError(f"{what}: expected a number above 0, such as 2, got {shown(text)}")
    return float(text)


_DTYPES = {"half": "fp16", "float16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "float": "fp32", "float32": "fp32"}

FLAGS = Flags(
    ("sglang serve", "sglang.launch_server"),
    (
        Flag("model", ("--model-path", "--model"), word),
        Flag("context", ("--context-length",), parse_integer),
        Flag("tp", ("--tp-size", "--tensor-parallel-size", "--tp"), parse_integer),
        Flag("pp", ("--pp-size", "--pipeline-parallel-size", "--pp"), parse_integer),
        Flag("dp", ("--dp-size", "--data-parallel-size", "--dp"), parse_integer),
        Flag("ep", ("--ep-size", "--expert-parallel-size", "--ep"), parse_integer),
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
        Flag("offload", ("--cpu-offload-gb",), _gibibytes),
        Flag("hicache", ("--enable-hierarchical-cache",)),
        Flag("hicache_size", ("--hicache-size",), _gigabytes),
        Flag("hicache_ratio", ("--hicache-ratio",), _ratio),
        Flag("lora", ("--enable-lora",)),
        Flag("lora", ("--lora-paths",), word, several=True),
        Flag("max_loras", ("--max-loras-per-batch",), parse_integer),
        Flag("lora_targets", ("--lora-target-modules",), word, several=True),
        Flag("max_lora_rank", ("--max-lora-rank",), parse_integer),
        Flag("multimodal", ("--enable-multimodal",)),
        *(Flag("pools", (name,), constant=name) for name in _POOLS),
        Flag("whole_windows", ("--disable-hybrid-swa-memory",)),
    ),
    words=WORDS,
    switches=SWITCHES,
    many=MANY,
    images=(Image("lmsysorg/sglang", ""),),  # docker/Dockerfile: no entrypoint of its own
    abbreviated=True,
    config=("--config",),
    effects=EFFECTS,
)  # fmt: skip

_OPTIONS = ("tp", "pp", "dp", "dcp", "context")
_APART = (
    "model", "utilization", "kv_dtype", "dtype", "quantization", "overrides", "dp_attention", "attention_dp", "ep",
    "offload",
    "lora", "max_loras", "max_lora_rank", "lora_targets", *_OPTIONS,
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
    on_host, left = kept_on_host(values, model, read.uncounted)
    uncounted = _spread_experts(values, model, options, settings, left)
    if (room := adapter_room(values, 8, 0)) is not None:  # max_loras_per_batch; the rank is that of the paths
        lacking = unknown_adapters(model, "--enable-lora", values.get("lora_targets"), room)
        uncounted = (*uncounted, *lacking)
        settings |= {} if lacking else {"adapters": room}
    draft, algorithm = values.get("draft_model"), str(values.get("algorithm", "")).upper()
    return EngineOptions(
        options,
        settings,
        utilization=utilization if isinstance(utilization, Fraction) else None,
        defaults=defaults,
        draft=draft if isinstance(draft, str) and algorithm in ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE") else None,
        sequences=integer(settings.get("max_running_requests")),
        loaded=loaded_as_fp8(model) if values.get("quantization") == "fp8" else loaded and loaded.weights,
        on_host=on_host,
        uncounted=(
            *uncounted,
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
        raise KvcalcError("--attn-cp-size: how it spreads a context is not known", "leave it out")
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


def _spread_experts(
    values: Mapping[str, object],
    model: Model,
    options: dict[str, object],
    settings: Mapping[str, object],
    uncounted: Sequence[Uncounted],
) -> Sequence[Uncounted]:
    """Experts are divided over all ranks of --tp-size, with --ep-size in whole ones. What is left uncounted."""
    if model.dimensions is None or not model.dimensions.experts:
        return uncounted
    if "attention_groups" in settings:
        options["dp_attention"] = settings["attention_groups"]
    if (ep := integer(values.get("ep"))) is not None:
        tp = integer(values.get("tp")) or 1
        if tp % ep:  # server_args.py
            raise KvcalcError(f"--ep-size: {ep} does not divide --tp-size {tp}", "ranks of tp share the experts")
        options["ep"] = ep
    return [each for each in uncounted if each.flag.replace("=", " ").split()[0] not in _EP]


_EP = ("--ep-size", "--expert-parallel-size", "--ep")


def model_of(program: str, read: FlagValues) -> str | None:
    """--model-path, or the first word behind `sglang serve` (cli/serve.py: _normalize_positional_model_path)."""
    if program.startswith("sglang serve") and read.others and "model" not in read.values:
        return read.others[0]
    return model_flag(program, read)


def integer(value: object) -> int | None:
    """A setting that is a number, if it was given."""
    return value if isinstance(value, int) else None
