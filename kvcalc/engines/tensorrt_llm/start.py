"""The command of TensorRT-LLM's server for a plan's row."""

from kvcalc.commands.start import Start, format_word, model_word, share_word, weights_word, words_of
from kvcalc.errors import KvcalcError

__all__ = ["start"]

_CACHE = {"fp8": "fp8", "fp8_e4m3": "fp8", "nvfp4": "nvfp4"}  # --kv_cache_dtype, pull request 11487


def start(start: Start) -> tuple[str, ...]:
    """`trtllm-serve`, for one replica: it has no flag for more of them. Weights are as the checkpoint has them."""
    layout = start.layout
    if layout.dcp > 1:
        raise KvcalcError("--dcp: trtllm-serve has no flag that splits the context of decoding", "leave it out")
    if layout.sharing > 1:
        raise KvcalcError("--dp-attention: trtllm-serve takes enable_attention_dp in its options file alone")
    weights_word(start, {}, "tensorrt-llm")
    spread = (("--tp_size", layout.tp), ("--pp_size", layout.pp), ("--ep_size", layout.ep))
    return (
        *("trtllm-serve", model_word(start)),
        *words_of((flag, size) for flag, size in spread if size > 1),
        *words_of(
            (
                ("--max_seq_len", start.context),
                ("--max_batch_size", start.sequences),
                ("--kv_cache_dtype", format_word(start, _CACHE, "tensorrt-llm")),
                ("--kv_cache_free_gpu_memory_fraction", share_word(start.utilization)),
            )
        ),
    )
