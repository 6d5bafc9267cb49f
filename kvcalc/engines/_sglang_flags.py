"""SGLang's command line, as far as it concerns the cache."""

from kvcalc.fitting import Share
from kvcalc.flags import Flag, Flags, Read, word
from kvcalc.model import Model
from kvcalc.reserving import Asked, model_flag
from kvcalc.units import parse_integer

__all__ = ["FLAGS", "asked", "model_of"]

model_of = model_flag

FLAGS = Flags(
    ("sglang serve", "sglang.launch_server"),
    (
        Flag("model", ("--model-path", "--model"), word),
        Flag("context", ("--context-length",), parse_integer),
        Flag("tp", ("--tp-size", "--tensor-parallel-size", "--tp"), parse_integer),
        Flag("pp", ("--pp-size", "--pipeline-parallel-size", "--pp"), parse_integer),
        Flag("dp", ("--dp-size", "--data-parallel-size", "--dp"), parse_integer),
        Flag("kv_dtype", ("--kv-cache-dtype",), word),
        Flag("page_size", ("--page-size",), parse_integer),
        Flag("swa_full_tokens_ratio", ("--swa-full-tokens-ratio",), Share.parse),
        Flag("disable_radix_cache", ("--disable-radix-cache",)),
    ),
)

_OPTIONS = ("context", "tp", "pp", "dp", "kv_dtype")


def asked(program: str, read: Read, model: Model) -> Asked:  # noqa: ARG001 - one signature for all engines
    """Options of ours under their names, the rest as SGLang's own settings."""
    options = {key: value for key, value in read.values.items() if key in _OPTIONS}
    return Asked(options, {key: value for key, value in read.values.items() if key not in (*_OPTIONS, "model")})
