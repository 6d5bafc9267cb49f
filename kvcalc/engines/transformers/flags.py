"""What is said to transformers: arguments of `generate`, and the command lines of `transformers chat` and `serve`.

Names are those of GenerationConfig (generation/configuration_utils.py), of QuantizedCache (cache_utils.py) and of
cli/serve.py and cli/chat.py, 5.23.0. `cache_implementation=static` and `--cache-implementation static` are one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kvcalc.commands.effects import effects
from kvcalc.commands.flags import Flag, Flags, FlagValues, read_flags, word
from kvcalc.core.dtypes import COMPUTE, DType, dtype_called
from kvcalc.core.model import Model, Recurrent, Shared
from kvcalc.core.units import parse_integer
from kvcalc.engines.options import EngineOptions
from kvcalc.errors import KvcalcError, shown

__all__ = ["FLAGS", "GROUPED", "Settings", "model_of", "options_of"]

GROUPED = ("nbits", "axis_key", "axis_value", "q_group_size", "residual_length")


class Settings(NamedTuple):
    """What `generate` is called with. `no_config`: past_key_values is a `DynamicCache()` that knows of no windows."""

    cache_implementation: str | None = None  # dynamic, static, quantized
    no_config: bool = False
    max_new_tokens: int = 0
    max_cache_len: int = 0
    prefill_chunk_size: int | None = None
    num_beams: int = 1
    num_return_sequences: int = 1
    dtype: DType | None = None
    backend: str | None = None
    nbits: int | None = None
    axis_key: int | None = None
    axis_value: int | None = None
    q_group_size: int | None = None
    residual_length: int | None = None


def _one_of(*words: str) -> Callable[[str, str], str]:
    def parse(text: str, what: str) -> str:
        if text not in words:
            raise KvcalcError(f"{what}: expected one of {', '.join(words)}, got {shown(text)}")
        return text

    return parse


def _count(text: str, what: str) -> int:
    """A number that may be 0."""
    return 0 if text.strip() == "0" else parse_integer(text, what)


def _axis(text: str, what: str) -> int:
    return int(_one_of("0", "1")(text, what))


def _dtype(text: str, what: str) -> DType | None:
    name = text.strip().removeprefix("torch.")
    return None if name == "auto" else dtype_called(name, COMPUTE, what)


def _switch(text: str, what: str) -> bool:
    return _one_of("true", "false")(text.lower(), what) == "true"


def _config(text: str, what: str) -> tuple[str, ...]:
    """The arguments in a dictionary, `{"backend": "hqq", "nbits": 8}`, as flags."""
    inside = text.strip()
    if inside[:1] != "{" or inside[-1:] != "}":
        raise KvcalcError(f"{what}: expected a dictionary such as {{'backend': 'hqq', 'nbits': 8}}, got {shown(text)}")
    pairs = [item.partition(":") for item in inside[1:-1].split(",") if item.strip()]
    return tuple(_flag(_bare(key), _bare(value)) for key, _, value in pairs)


def _bare(text: str) -> str:
    return text.strip().strip("'\"")


def _flag(key: str, value: str) -> str:
    return f"--{key.replace('_', '-')}={value}"


# Words of old versions mean a static cache too (configuration_utils.py: DEPRECATED_STATIC_CACHE_IMPLEMENTATIONS).
_STATIC = ("static", "sliding_window", "hybrid", "hybrid_chunked")
_OFFLOADED = ("offloaded", "offloaded_static", "offloaded_hybrid", "offloaded_hybrid_chunked")

_KNOBS: dict[str, Callable[[str, str], object]] = {
    "cache_implementation": _one_of("dynamic", "quantized", *_STATIC, *_OFFLOADED, "paged"),
    "past_key_values": word,
    "cache_config": _config,
    "use_cache": _switch,
    "max_length": parse_integer,
    "max_new_tokens": _count,
    "max_cache_len": parse_integer,
    "prefill_chunk_size": parse_integer,
    "num_beams": parse_integer,
    "num_return_sequences": parse_integer,
    "dtype": _dtype,
    "torch_dtype": _dtype,
    "backend": _one_of("quanto", "hqq", "fp8"),
    "nbits": parse_integer,
    "axis_key": _axis,
    "axis_value": _axis,
    "q_group_size": parse_integer,
    "residual_length": _count,
    "use_mtp": _switch,
    **dict.fromkeys(("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "guidance_scale"), word),
}

# What chooses tokens, and what loads and serves a model, leaves its cache as it is.
_WORDS = """
    min_length min_new_tokens early_stopping max_time stop_strings do_sample temperature top_k top_p min_p top_h
    typical_p epsilon_cutoff eta_cutoff repetition_penalty encoder_repetition_penalty length_penalty
    no_repeat_ngram_size bad_words_ids renormalize_logits forced_bos_token_id forced_eos_token_id
    remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens sequence_bias
    token_healing watermarking_config output_attentions output_hidden_states output_scores output_logits
    return_dict_in_generate pad_token_id bos_token_id eos_token_id encoder_no_repeat_ngram_size
    decoder_start_token_id compile_config disable_compile streamer tokenizer seed attn_implementation device
    device_map revision quantization reasoning chat_template_kwargs decision_config model_timeout host port log_level
    default_seed user system_prompt save_folder examples_path generation_config
"""
_SWITCHES = "--no-compile --no-continuous-batching --trust-remote-code --enable-cors --non-blocking --help"


def _long(name: str) -> str:
    return "--" + name.replace("_", "-")


_EFFECTS = {
    **effects("device", "--device-map", "may keep layers on the host, with their cache", "less", cache=True,
              idle="none cuda cuda:0"),
    **effects("packed", "--quantization", "packs the weights as it loads them", "less", idle="none"),
    **effects("host", "--device", "may keep everything on the host", "less", cache=True, idle="auto cuda cuda:0"),
}  # fmt: skip

FLAGS = Flags(
    ("transformers chat", "transformers serve"),
    (
        *(Flag("dtype" if key == "torch_dtype" else key, (_long(key),), parse) for key, parse in _KNOBS.items()),
        # cli/serving/utils.py: `--compile` asks for a static cache, `--continuous-batching` for a pool of pages.
        Flag("cache_implementation", ("--compile",), constant="static"),
        Flag("cache_implementation", ("--continuous-batching",), constant="paged"),
    ),
    words=frozenset(map(_long, _WORDS.split())),
    switches=frozenset(_SWITCHES.split()),
    underscores=True,
    effects=_EFFECTS,
)


def model_of(program: str, read: FlagValues) -> str | None:
    """`transformers chat MODEL`, and `transformers serve MODEL`."""
    return read.others[0] if program and read.others and "=" not in read.others[0] else None


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:
    """Arguments as flags and as KEY=VALUE, both in any number."""
    words = [word for word in read.others if "=" in word or "://" in word]
    others = [word for word in read.others if word not in words]
    if len(others) > bool(program):
        raise KvcalcError(
            f"--: expected an argument of generate() as KEY=VALUE, got {shown(others[-1])}",
            "such as cache_implementation=static",
        )
    again = _read([_flag(*_pair(word)) for word in words if "://" not in word])
    config = _read(read.values.get("cache_config", again.values.get("cache_config", ())))  # type: ignore[arg-type]
    values = {**read.values, **again.values, **config.values}
    _check(values)
    warnings = list(again.warnings + config.warnings)
    options: dict[str, object] = {}
    settings = {key: value for key, value in values.items() if key in Settings._fields and value is not None}
    if "cache_implementation" in settings and settings["cache_implementation"] in _STATIC:
        settings["cache_implementation"] = "static"
    if "max_cache_len" in settings and settings.get("cache_implementation") != "static":
        warnings.append("max_cache_len changes nothing without cache_implementation=static")
    if values.get("past_key_values") == _NO_CONFIG:
        settings["no_config"] = True
    if "max_length" in values:  # the last new token is never cached
        options["context"] = int(str(values["max_length"])) - 1
    dtype = settings.get("dtype")
    if isinstance(dtype, DType) and any(not isinstance(c, Recurrent | Shared) for c in model.distinct_caches):
        options["kv_dtype"] = dtype.name
    return EngineOptions(options, settings, tuple(warnings), uncounted=(*read.uncounted, *again.uncounted))


def _pair(text: str) -> tuple[str, str]:
    """`max_new_tokens=20`, and as it stands in Python: `cache_implementation="static",`."""
    key, _, value = text.partition("=")
    return key.strip().lstrip("-"), _bare(value.strip().rstrip(","))


def _read(words: Sequence[str]) -> FlagValues:
    return read_flags(words, FLAGS, {}, "transformers")


# What keeps more than the cache, or nothing.
_REFUSED = {
    **dict.fromkeys(
        ("assistant_model", "prompt_lookup_num_tokens", "assistant_early_exit", "guidance_scale"),
        "what it keeps beside the cache is not known",
    ),
    "use_mtp": "what its draft layers keep is not known",
}
_NO_CONFIG = "DynamicCache()"


def _check(values: Mapping[str, object]) -> None:
    """Refuse what contradicts, what keeps nothing, and what keeps more in a way that is not known."""
    refused = next((key for key in _REFUSED if values.get(key) not in (None, False)), None)
    if refused:
        raise KvcalcError(f"{refused}: {_REFUSED[refused]}", "leave it out")
    if values.get("use_cache") is False:
        raise KvcalcError("use_cache: without a cache there is nothing to size", "leave it out")
    if "max_length" in values and "max_new_tokens" in values:
        raise KvcalcError("max_length: transformers heeds max_new_tokens alone beside it", "leave one of them out")
    if values.get("max_length") == 1:
        raise KvcalcError("max_length: expected 2 or more, since the last token is never cached")
    grouped = [key for key in GROUPED if key in values]
    if grouped and values.get("backend") == "fp8":
        raise KvcalcError(f"{grouped[0]}: the fp8 backend has one scale for each tensor", "leave it out")
    _check_implementation(values.get("cache_implementation"), values.get("past_key_values"))


def _check_implementation(implementation: object, past: object) -> None:
    if implementation in _OFFLOADED:
        raise KvcalcError(
            f"cache_implementation: which layers of an {implementation} cache are on the GPU is not known",
            "dynamic or static: the same bytes, on the GPU and in the host's memory together",
        )
    if implementation == "paged":
        raise KvcalcError(
            "cache_implementation: how many pages continuous batching takes is not known",
            "without --engine: the exact size",
        )
    if past is not None and past not in {_NO_CONFIG, "DynamicCache(config=model.config)"}:
        raise KvcalcError(
            f"past_key_values: expected {_NO_CONFIG} or DynamicCache(config=model.config), got {shown(past)}",
            "the others have a cache_implementation",
        )
    if past is not None and implementation is not None:
        raise KvcalcError("past_key_values: transformers takes it or cache_implementation", "leave one of them out")
