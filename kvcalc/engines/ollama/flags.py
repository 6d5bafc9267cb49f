"""What sets Ollama's cache: variables in front of `ollama serve`, or options of a request under their own names.

From envconfig/config.go, api/types.go (Options and Runner), cmd/cmd.go (flags of `ollama run`) and server/sched.go
(load), Ollama fb3076099.
"""

import re

from kvcalc.commands.effects import effects
from kvcalc.commands.flags import Flag, Flags, FlagValues, Image
from kvcalc.core.model import Model
from kvcalc.core.units import parse_integer
from kvcalc.engines.llama_cpp.archs import arch_of
from kvcalc.engines.llama_cpp.context import MOST_SEQUENCES
from kvcalc.engines.ollama.versions import Version
from kvcalc.engines.options import EngineOptions
from kvcalc.errors import KvcalcError, shown

__all__ = ["FLAGS", "model_of", "options_of", "stored"]

_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")  # handed on to llama-server

_GIB = 1024**3
_CONTEXTS = ((47 * _GIB, 262144), (23 * _GIB, 32768), (0, 4096))  # least memory, num_ctx

_WORDS = "--keepalive --format --dimensions --width --height --steps --seed --negative"
_SWITCHES = """
    --verbose --insecure --nowordwrap --hidethinking --truncate --think --experimental --experimental-yolo
    --experimental-websearch --help -h --version -v
"""


def _type(text: str, what: str) -> str:
    if text.lower() not in _TYPES:
        raise KvcalcError(f"{what}: expected one of {', '.join(_TYPES)}, got {shown(text)}")
    return text.lower()


def _parallel(text: str, what: str) -> int:
    return 0 if text.strip() == "0" else parse_integer(text, what, MOST_SEQUENCES)


def _from_zero(text: str, what: str) -> int:
    return 0 if text.strip() == "0" else parse_integer(text, what)


_EFFECTS = {
    **effects("layers", "num_gpu", "keeps the layers above that number on the host, with their cache", "less",
              cache=True, idle="-1"),
    **effects("kept free", "OLLAMA_GPU_OVERHEAD", "keeps memory free", "more", idle="0"),
    **effects("models", "OLLAMA_MAX_LOADED_MODELS", "lets other models stay beside this one", "more", idle="0 1"),
    **effects("spread", "OLLAMA_SCHED_SPREAD", "spreads a model that fits one GPU over all", "less", idle="0 false"),
}  # fmt: skip

FLAGS = Flags(
    ("ollama run", "ollama serve", "ollama start"),
    (
        Flag("num_parallel", (), _parallel, env=("OLLAMA_NUM_PARALLEL",)),
        Flag("num_ctx", (), _from_zero, env=("OLLAMA_CONTEXT_LENGTH", "num_ctx")),  # a request's own comes last
        Flag("kv_type", (), _type, env=("OLLAMA_KV_CACHE_TYPE",)),
        Flag("flash", (), env=("OLLAMA_FLASH_ATTENTION",)),
        Flag("num_batch", (), parse_integer, env=("num_batch",)),
        Flag("drafted", (), _from_zero, env=("draft_num_predict",)),
    ),
    words=frozenset(_WORDS.split()),
    switches=frozenset(_SWITCHES.split()),
    images=(Image("ollama/ollama", "ollama", "serve"),),  # Dockerfile: ENTRYPOINT and CMD
    clients=("ollama run",),
    wordless=("", "ollama serve", "ollama start"),
    effects=_EFFECTS,
)


def model_of(program: str, read: FlagValues) -> str | None:
    """`ollama run MODEL [PROMPT]`; `ollama serve` names none."""
    return read.others[0] if program == "ollama run" and read.others else None


_FULL = re.compile(r"(?:.*-)?(?:fp16|f16|bf16)", re.IGNORECASE)


def stored(program: str, read: FlagValues, model: Model) -> str | None:
    """The file that a command names, in words, where it packs the weights; None where its tensors are counted."""
    tag = (model_of(program, read) or "").rpartition(":")[2]
    if model.gguf or _FULL.fullmatch(tag):
        return None
    packed = re.search(r"(?:^|-)(q[1-8]_\w+|mxfp4|nvfp4)$", tag, re.IGNORECASE)
    return f"a {packed[1].upper()} file" if packed else "a GGUF file"


def _by_memory(memory: int | None, version: Version, limit: int | None) -> dict[str, object]:
    """The default of num_ctx where the memory of all GPUs is known: server/routes.go, Serve."""
    if memory is None or version.build is None:  # before 0.30 its rule is not known
        return {}
    tokens = next(tokens for least, tokens in _CONTEXTS if memory >= least)
    return {"context": tokens if limit is None else min(tokens, limit)}


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:  # noqa: ARG001 - one signature for all engines
    values, version = read.values, read.version
    assert isinstance(version, Version)
    options: dict[str, object] = {}
    warnings = []
    tokens, limit = values.get("num_ctx"), model.max_context
    if isinstance(tokens, int) and tokens:  # 0: by the memory, as without it
        if limit is not None and tokens > limit:
            warnings.append(f"Ollama lowers num_ctx from {tokens:,} to the model's limit of {limit:,}")
        options["context"] = tokens if limit is None else min(tokens, limit)
    parallel = values.get("num_parallel")
    if isinstance(parallel, int):
        alone = parallel > 1 and arch_of(model) in version.alone
        if alone:
            warnings.append(
                f"OLLAMA_NUM_PARALLEL: Ollama runs {arch_of(model)} with one sequence at a time, whatever it says"
            )
        options["batch"] = 1 if alone else max(parallel, 1)
    defaults = {} if "context" in options else _by_memory(read.memory, version, limit)
    if "kv_type" in values:
        options["kv_dtype"] = values["kv_type"]
    if "drafted" in values and not model.draft:
        warnings.append(f"draft_num_predict: no draft layers of {model.name} are known here")
    settings = {key: values[key] for key in ("flash", "num_batch", "drafted") if key in values}
    told = "context" in options or bool(defaults)
    return EngineOptions(
        options, {**settings, "told": told}, tuple(warnings), defaults=defaults, uncounted=read.uncounted
    )
