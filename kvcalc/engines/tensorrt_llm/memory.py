"""What TensorRT-LLM has taken when it measures what is free, of which its cache gets a share."""

from math import log2

from kvcalc.core.overheads import Estimate, Overhead, gain
from kvcalc.core.units import format_bytes
from kvcalc.engines.forward import gib, widest_layer
from kvcalc.engines.question import Question
from kvcalc.serving.rules import Limits

__all__ = ["memory", "scheduler"]

_TOKENS, _BATCH = 8192, 2048  # --max_num_tokens and --max_batch_size of trtllm-serve by default
_SOURCE = "tensorrt_llm/_torch/pyexecutor/_util.py, KvCacheCreator: a run before the cache is cut; sizes by public logs"
# Tenths of a byte for each logit of the largest batch: the sampler's buffers. A log of the older runtime has 12 GiB of
# decoder buffers for 2,048 sequences, which is 49 B for each of 128,256 logits.
_LOGIT = (0, 80, 490)


def scheduler(question: Question, memory: int) -> Limits:  # noqa: ARG001 - one signature for all engines
    """GUARANTEED_NO_EVICT (`CapacitySchedulerPolicy` of llmapi/llm_args.py, the default): a request is admitted when
    all that it may come to fits. Prompts are whole but where enable_chunked_prefill says otherwise.
    """
    given = question.settings.get("max_batch_size")
    return Limits(given if isinstance(given, int) else _BATCH, _TOKENS, chunked=False, whole=True)


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all engines
    """Named lines of the memory that is gone beside the weights.

    Two logs: 79.1 GiB, an engine of 6.7 and 70.48 free, so 1.9 beside it; 93.1 and 85.57 free on one of two cards.
    """
    request = question.request
    model, tp = request.model, request.layout.tp
    lines = [Overhead("runtime", gib(0.4, 0.8, 1.5), "CUDA's context and libraries", _SOURCE)]
    if tp > 1:
        step = log2(tp)
        rule = f"buffers between GPUs: 0.3 GiB x log2({tp}), by one log of two cards"
        lines.append(Overhead("communication", gib(0.1 * step, 0.3 * step, 0.6 * step), rule, _SOURCE))
    most = question.settings.get("max_num_tokens")
    tokens = most if isinstance(most, int) else _TOKENS
    passed = widest_layer(model, tokens, tp)
    rule = f"a forward pass of {tokens:,} tokens (--max_num_tokens) at the widest layer: half to twice, not measured"
    size = gib(0.2, 1, 4) if passed is None else Estimate(passed // 2, passed, 2 * passed)
    fewer = "" if passed is None else gain(f"--max_num_tokens {tokens // 4}", passed, passed // 4)
    lines.append(Overhead("activations", size, rule, _SOURCE, saving=fewer))
    if model.dimensions is not None and model.dimensions.vocab:
        given = question.settings.get("max_batch_size")
        batch = given if isinstance(given, int) else _BATCH
        logits = batch * model.dimensions.vocab
        size = Estimate(*(logits * tenths // 10 for tenths in _LOGIT))
        rule = f"sampling up to {batch:,} sequences (--max_batch_size) x {model.dimensions.vocab:,} logits x 8 B"
        rule += f"; the older runtime's decoder holds up to {format_bytes(size.high)}"
        saving = gain("--max_batch_size 256", size.likely, size.likely * 256 // batch) if batch > 256 else ""
        lines.append(Overhead("sampler", size, rule, _SOURCE, saving=saving))
    return tuple(lines)
