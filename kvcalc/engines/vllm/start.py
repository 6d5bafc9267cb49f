"""The command of vLLM's server for a plan's row (`engine/arg_utils.py` of 0.33.0)."""

from kvcalc.commands.start import Start, format_word, model_word, share_word, weights_word, words_of
from kvcalc.engines.vllm.formats import PACKED

__all__ = ["replicates", "start"]

# CacheDType in `config/cache.py`.
_CACHE = {
    "fp16": "float16", "bf16": "bfloat16", **{name: name for name in ("fp8", "fp8_e4m3", "fp8_e5m2", "nvfp4", *PACKED)}
}  # fmt: skip


def replicates(start: Start) -> bool:
    """--data-parallel-size makes replicas share their experts (`FusedMoEParallelConfig.make`)."""
    return not start.experts or start.layout.sharing > 1


def start(start: Start) -> tuple[str, ...]:
    """`vllm serve`, one server for each replica where they have experts and share none. --max-num-seqs is for each,
    since each has a scheduler of its own (`v1/engine/core.py`).
    """
    layout = start.layout
    replicas = layout.dp if replicates(start) else 1
    spread = (
        ("--tensor-parallel-size", layout.tp),
        ("--pipeline-parallel-size", layout.pp),
        ("--data-parallel-size", replicas),
        ("--decode-context-parallel-size", layout.dcp),
    )
    return (
        *("vllm", "serve", model_word(start)),
        *words_of((flag, size) for flag, size in spread if size > 1),
        *(("--enable-expert-parallel",) if layout.ep > 1 else ()),
        *words_of(
            (
                ("--max-model-len", start.context),
                ("--max-num-seqs", start.sequences),
                ("--kv-cache-dtype", format_word(start, _CACHE, "vllm")),
                ("--quantization", weights_word(start, {"fp8": "fp8"}, "vllm")),
                ("--gpu-memory-utilization", share_word(start.utilization)),
            )
        ),
    )
