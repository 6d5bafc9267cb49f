"""How an engine spreads a model, where that is not our own way, and what it refuses to cut."""

from collections.abc import Sequence

from kvcalc.core.model import Model
from kvcalc.core.sharding import Layout
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["restaged", "uncut", "without_tp"]


def restaged(question: Question, sizes: Sequence[int]) -> Question:
    """The same question, with as many layers on each pipeline stage as an engine puts there."""
    stages = [stage for stage, size in enumerate(sizes) for _ in range(size)]
    layers = question.placement.layers
    if all(placed.stage == stage for placed, stage in zip(layers, stages, strict=True)):
        return question
    moved = tuple(placed._replace(stage=stage) for placed, stage in zip(layers, stages, strict=True))
    return question._replace(placement=question.placement._replace(layers=moved), groups=())


def without_tp(question: Question, engine: str) -> None:
    """Refuse to split heads where an engine's rule for it is not known."""
    if question.request.layout.tp > 1:
        raise KvcalcError(f"--tp: no rule for splitting the heads of a cache in {engine} is known", "use --pp or --dp")


def uncut(model: Model, layout: Layout, engine: str, flag: str) -> None:
    """Refuse ranks whose part of an expert is no whole number of the blocks that share a scale, as engines do.

    Whole experts (`flag`) are never cut. vLLM: `create_weights` of the experts' methods in quantization/fp8.py and
    compressed_tensors_moe (0.8 to 0.25 were seen to raise: vllm #17569); SGLang: the same check (sglang #10641).
    """
    widths, block = model.dimensions, model.weights_block
    if not flag or block is None or widths is None or not widths.experts or not widths.expert_intermediate:
        return
    channels = widths.expert_intermediate
    slices = layout.expert_ranks // layout.ep
    if channels % slices == 0 and (channels // slices) % block == 0:
        return
    of, ways = (
        channels / slices,
        f"--tp {layout.tp}" + (f" with {layout.sharing} replicas" if layout.sharing > 1 else ""),
    )
    raise KvcalcError(
        f"--tp: {engine} refuses {model.name} at {ways}: {of:g} of an expert's {channels:,} channels on a rank are no "
        f"multiple of the {block} that share a scale",
        f"--ep {layout.expert_ranks} ({flag}) keeps experts whole" + _narrower(channels, block, layout),
    )


def _narrower(channels: int, block: int, layout: Layout) -> str:
    """The next lower tp that cuts no block."""
    fits = [tp for tp in range(1, layout.tp) if layout.tp % tp == 0 and channels % (tp * layout.sharing * block) == 0]
    return f", or --tp {fits[-1]}" if fits and layout.ep == 1 else ""
