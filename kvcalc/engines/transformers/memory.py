"""What transformers takes beside weights and cache: a prompt in one piece, its logits, and torch's context."""

from kvcalc.core.overheads import Estimate, Overhead
from kvcalc.engines.forward import gib, widest_layer
from kvcalc.engines.question import Question

__all__ = ["memory"]

_SOURCE = "transformers generation/utils.py: a prompt passes at once; not measured"


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all engines
    """All prompts of a replica pass together; logits are those of the last token, sorted in fp32 where it samples."""
    request = question.request
    model = request.model
    tokens = request.context * question.sequences
    passed = widest_layer(model, tokens, request.layout.tp)
    rule = f"a prompt of {tokens:,} tokens at most, in one piece, at the widest layer"
    vocab = model.dimensions.vocab if model.dimensions else None
    if passed is None or vocab is None:
        size = gib(0.2, 1, 4)
    else:
        logits = 16 * question.sequences * vocab
        size = Estimate(logits, passed // 2 + logits, passed + logits)
    runtime = Overhead("runtime", gib(0.3, 0.6, 1.2), "torch's context and libraries", "seen, not measured here")
    return (Overhead("activations", size, rule, _SOURCE), runtime)
