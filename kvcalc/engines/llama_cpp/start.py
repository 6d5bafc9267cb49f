"""The command of llama-server for a plan's row: one server, one replica (common/arg.cpp, llama.cpp 0c1e57098)."""

import re

from kvcalc.commands.start import Start, format_word, model_word, words_of
from kvcalc.commands.versions import pick
from kvcalc.core import dtypes
from kvcalc.engines.llama_cpp.context import MOST_SEQUENCES
from kvcalc.engines.llama_cpp.versions import VERSIONS
from kvcalc.errors import KvcalcError, shown

__all__ = ["start"]

_ALL_LAYERS = 999  # -ngl: on GPUs; `all` is newer
_CACHE = {"fp32": "f32", "fp16": "f16", "bf16": "bf16"}
_CACHE |= {name: name for name in ("q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")}  # kv_cache_types
_PLAIN = {"fp32": "F32", "fp16": "F16", "bf16": "BF16"}
_PACKED = re.compile(r"i?q\d_\w+|tq\d_0|mxfp4|nvfp4", re.ASCII)


def start(start: Start) -> tuple[str, ...]:
    """`llama-server`: -c is for all its sequences. Layers go to its devices in equal parts: its pipeline stages."""
    layout = start.layout
    if layout.tp > 1:
        raise KvcalcError("--tp: no rule for splitting the heads of a cache in llama.cpp is known", "use --pp or --dp")
    if start.sequences > MOST_SEQUENCES:
        raise KvcalcError(f"--batch: llama.cpp has at most {MOST_SEQUENCES} sequences, got {start.sequences:,}")
    kind = format_word(start, _CACHE, "llama.cpp")
    version, _ = pick(VERSIONS, start.version, "llama.cpp")
    alone = start.sequences == 1 and version.one_is_auto  # -np 1 would be the default of 4
    return (
        *("llama-server", "-m", _file(start)),
        *words_of(
            (
                ("-c", start.context * start.sequences),
                ("-np", start.sequences),
                ("-ctk", kind),
                ("-ctv", kind),
                ("-ngl", _ALL_LAYERS),
                ("-ts", ",".join("1" * layout.pp) if layout.pp > 1 else None),
            )
        ),
        *(("-kvu",) if alone else ()),
    )


def _file(start: Start) -> str:
    """A GGUF file of the model: itself, else one by the names that converted models usually have."""
    model = model_word(start)
    stored = (start.weights or "").lower()
    if stored and not (stored in dtypes.WEIGHTS and (stored in _PLAIN or _PACKED.fullmatch(stored))):
        raise KvcalcError(f"--weights: no GGUF file holds {shown(start.weights)} weights", "such as q8_0 or q4_0")
    if model.lower().endswith(".gguf"):
        return model
    name = re.split(r"[/\\]", model.rstrip("/\\"))[-1].lstrip("-") or "model"
    return f"{name}-{_PLAIN.get(stored) or stored.upper() or 'F16'}.gguf"
