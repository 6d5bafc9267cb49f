"""The command lines of MLX-LM: mlx_lm/generate.py, chat.py and server.py 0.32.2, setup_arg_parser and main."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kvcalc.commands.effects import effects
from kvcalc.commands.flags import Flag, Flags, FlagValues, word
from kvcalc.core.model import Model
from kvcalc.core.units import parse_integer
from kvcalc.engines.options import EngineOptions
from kvcalc.errors import KvcalcError, shown

__all__ = ["FLAGS", "Settings", "options_of", "settings", "stored"]

# Tokens that each program generates by default; without a program, as mlx_lm.generate does.
_GENERATED = {"generate": 100, "chat": 256, "server": 512}
_QUANTISED = ("kv_bits", "kv_group_size", "quantized_kv_start")
_LACKS = {"generate": ("decode_concurrency",), "chat": (*_QUANTISED, "decode_concurrency"), "server": ("max_kv_size",)}

# What cannot change the cache of one request, as argparse has it: with a word, and without.
_WORDS = """
    --adapter-path --extra-eos-token --system-prompt --prompt -p --image --prefill-response --temp --top-p
    --min-p --top-k --xtc-probability --xtc-threshold --min-tokens-to-keep --seed --chat-template-config
    --verbose --num-draft-tokens --host --port --allowed-origins --log-level --chat-template
    --chat-template-args --prompt-concurrency --prompt-cache-size --prompt-cache-bytes
"""
_SWITCHES = """
    --trust-remote-code --ignore-chat-template --use-default-chat-template --quantize-activations -qa --pipeline
    --help -h
"""


def _one_of(*numbers: int) -> Callable[[str, str], int]:
    def parse(text: str, what: str) -> int:
        if text.strip() not in map(str, numbers):
            raise KvcalcError(f"{what}: expected one of {', '.join(map(str, numbers))}, got {shown(text)}")
        return int(text)

    return parse


def _from(least: int) -> Callable[[str, str], int]:
    def parse(text: str, what: str) -> int:
        number = 0 if text.strip() == "0" else parse_integer(text, what)
        if number < least:
            raise KvcalcError(f"{what}: expected {least} or more, got {shown(text)}")
        return number

    return parse


_EFFECTS = {
    **effects("adapters", "--adapter-path", "loads adapters", "more"),
    **effects("prompts", "--prompt-cache-size --prompt-cache-bytes --prompt-concurrency",
              "changes how many caches of prompts are kept", "either", cache=True),
    **effects("pipeline", "--pipeline", "spreads layers over machines", "less", cache=True),
    **effects("quantised", "--quantize-activations -qa", "packs what is computed", "less"),
}  # fmt: skip

_PROGRAMS = ("mlx_lm.generate", "mlx_lm generate", "mlx_lm.chat", "mlx_lm chat", "mlx_lm.server", "mlx_lm server")

FLAGS = Flags(
    _PROGRAMS,
    (
        Flag("model", ("--model",), word),
        Flag("max_tokens", ("--max-tokens", "-m"), parse_integer),
        Flag("prefill_step_size", ("--prefill-step-size",), parse_integer),
        Flag("max_kv_size", ("--max-kv-size",), _from(5)),  # the first four tokens are kept, and one must be written
        Flag("kv_bits", ("--kv-bits",), _one_of(2, 3, 4, 5, 6, 8)),  # mx.quantize
        Flag("kv_group_size", ("--kv-group-size",), _one_of(32, 64, 128)),
        Flag("quantized_kv_start", ("--quantized-kv-start",), _from(0)),
        Flag("decode_concurrency", ("--decode-concurrency",), parse_integer),
        Flag("draft_model", ("--draft-model",), word),
        Flag("prompt_cache_file", ("--prompt-cache-file",), word),
    ),
    words=frozenset(_WORDS.split()),
    switches=frozenset(_SWITCHES.split()),
    abbreviated=True,
    wordless=("", *_PROGRAMS),
    many=frozenset({"--extra-eos-token"}),
    effects=_EFFECTS,
)


class Settings(NamedTuple):
    """What a run of MLX-LM is started with. `concurrency` is the most sequences that it decodes together."""

    program: str = ""
    max_tokens: int = 100
    prefill_step_size: int = 2048
    max_kv_size: int | None = None
    kv_bits: int | None = None
    kv_group_size: int = 64
    quantized_kv_start: int = 5000
    decode_concurrency: int = 32


def settings(settings: Mapping[str, object]) -> Settings:
    """The settings of a question, and defaults for what is not there."""
    return Settings()._replace(**settings)  # type: ignore[arg-type]  # the flags' parsers made them what they must be


_PACKED = re.compile(r"-(?:(\d)bit|(mxfp4|mxfp8|nvfp4))(?=-|\Z)", re.IGNORECASE)


def stored(program: str, read: FlagValues, model: Model) -> str | None:  # noqa: ARG001 - one signature for all engines
    """What a command runs, by its name: weights that are packed, where the model's are not. None for others."""
    packed = next(reversed([*_PACKED.finditer(str(read.values.get("model", "")))]), None)  # the last of such words
    counted = model.weights_dtype or model.dtype
    if packed is None or counted.block_bytes < 2 * counted.block:
        return None
    return f"{packed[1]}-bit weights" if packed[1] else f"{packed[2]} weights"


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:  # noqa: ARG001 - one signature for all engines
    name = program.removeprefix("mlx_lm")[1:]
    for flag in FLAGS.flags:
        if flag.key in read.values and flag.key in _LACKS.get(name, ()):
            raise KvcalcError(f"{flag.names[0]}: mlx_lm.{name} has no such option", "leave it out")
    if "draft_model" in read.values:
        raise KvcalcError(
            "--draft-model: MLX-LM keeps the cache of a second model beside this one, which is not sized here",
            "leave it out, and size each model alone",
        )
    warnings = []
    if "prompt_cache_file" in read.values:
        warnings.append("--prompt-cache-file: the file is not opened, and its tokens counted as read afresh")
    own = {"program": name, "max_tokens": _GENERATED[name]} if name else {}
    given = {key: value for key, value in read.values.items() if key in Settings._fields}
    return EngineOptions(settings=own | given, warnings=tuple(warnings), uncounted=read.uncounted)
