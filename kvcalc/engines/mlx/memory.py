"""What MLX takes beside weights and cache: a chunk of the prompt in flight, and buffers that it keeps for reuse.

Apple's chips share their memory with the system. macOS lets the GPU hold about 2/3 of it, and 3/4 from 36 GiB on
(recommendedMaxWorkingSetSize, which the catalogue counts with); `sudo sysctl iogpu.wired_limit_mb=N` sets another limit
until the next start, and 0 the default (mlx.core.set_wired_limit in MLX's documentation).
"""

from kvcalc.core.overheads import Estimate, Overhead, gain
from kvcalc.engines.forward import gib, widest_layer
from kvcalc.engines.mlx.flags import settings
from kvcalc.engines.question import Question

__all__ = ["memory"]

_SOURCE = "mlx_lm/generate.py: chunks of --prefill-step-size; not measured"


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all engines
    """A chunk's widest layer and its logits in fp32, and what Metal's heaps keep."""
    model, use = question.request.model, settings(question.settings)
    tokens = min(use.prefill_step_size, question.request.context)
    passed = widest_layer(model, tokens, 1)
    rule = f"{tokens:,} tokens of a prompt at the widest layer (--prefill-step-size)"
    if passed is None:
        size, saving = gib(0.1, 0.5, 1.5), ""
    else:
        size = Estimate(passed // 2, passed, 3 * passed)
        saving = gain(f"--prefill-step-size {tokens // 4}", passed, passed // 4) if tokens >= 1024 else ""
    runtime = Overhead("runtime", gib(0.1, 0.3, 0.8), "Metal's heaps and buffers kept for reuse", _SOURCE)
    return (Overhead("activations", size, rule, _SOURCE, saving=saving), runtime)
