"""How an engine spreads a model, where that is not our own way, and what it refuses to cut."""

from collections.abc import Sequence

from kvcalc.core.model import Model
from kvcalc.core.sharding import Layout
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError

__all__ = ["cuts_blocks", "restaged", "uncut", "without_tp"]


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


def cuts_blocks(model: Model, layout: Layout) -> bool:
    """Whether a rank's part of an expert is no whole number of the blocks that share a scale. Whole experts never are.

    vLLM raises then, in `create_weights` of the experts' methods (quantization/fp8.py, compressed_tensors_moe; seen
    with 0.8 to 0.25: vllm #17569), and SGLang in its own (sglang #10641).
    """
    widths, block = model.dimensions, model.weights_block
    if block is None or widths is None or not widths.experts or not widths.expert_intermediate:
        return False
    return widths.expert_intermediate % (layout.expert_ranks // layout.ep * block) != 0


def uncut(model: Model, layout: Layout, engine: str, flag: str) -> None:
    """Refuse ranks that cut blocks, for an engine that does and has a `flag` for whole experts."""
    if not flag or not cuts_blocks(model, layout):
        return
    assert model.dimensions is not None
    assert model.dimensions.expert_intermediate
    channels, slices = model.dimensions.expert_intermediate, layout.expert_ranks // layout.ep
    replicas = f" with {layout.sharing} replicas that share" if layout.sharing > 1 else ""
    fits = [tp for tp in range(1, layout.tp) if layout.tp % tp == 0 and not cuts_blocks(model, layout._replace(tp=tp))]
    narrower = f", or --tp {fits[-1]}" if fits and layout.ep == 1 else ""
    raise KvcalcError(
        f"--tp: {engine} refuses {model.name} at --tp {layout.tp}{replicas}: {channels / slices:g} of an expert's "
        f"{channels:,} channels on a rank are no multiple of the {model.weights_block} that share a scale",
        f"--ep {layout.expert_ranks} ({flag}) keeps experts whole{narrower}",
    )
