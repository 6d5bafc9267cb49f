"""How many kernels one pass of a model starts, and what its tokens move between them. Both by kind of layer."""

from typing import NamedTuple

from kvcalc.core.formula import attending, head_dims
from kvcalc.core.model import Attention, Compressed, FeedForward, Indexer, Latent, Layer, Model, Recurrent, Shared

__all__ = ["Blocks", "blocks_of"]

# Kernels of a block, as engines for servers fused them in 2025 and 2026: norm with residual, projection, rotation with
# the write to the cache, attention, output. Latents are projected down and up and absorbed; an index is projected,
# scored and sorted; linear attention has its convolution, gates and state.
_ATTENTION, _HEAD_NORMS, _LATENT, _INDEXED, _LINEAR = 5, 1, 11, 19, 9
# Norm, both projections up, activation, projection down. Experts are routed, sorted and summed too.
_DENSE, _EXPERTS, _SHARED_EXPERTS = 4, 8, 3
_FUSED_EXPERTS = {"gpt_oss": 2}  # fewer: routing and sorting are one, and biases come with the matrices
_QUANTISED = 2  # more in each block: its inputs become fp8 or FP4 before each of two matrices

# Families that normalise the heads of queries and keys, by their published configurations and modelling code.
_NORMALISE_HEADS = (
    "qwen3",
    "gemma3",
    "gemma4",
    "olmo2",
    "olmo3",
    "minimax_m2",
    "glm4_moe",
    "hunyuan",
    "exaone4",
    "apertus",
)

_WIDTH = 2  # bytes of an activation


class Blocks(NamedTuple):
    """All blocks of a model: `sums` over ranks and `kernels` of one pass, and bytes of activations for a token.

    `moved` is what every rank of tp moves in norms, residuals, routing and conversions; `shared` what they divide:
    rotations and activation functions. What matrices read and write themselves is in what they attain, and inputs are
    converted to fewer bits as they are written. It comes to 10 to 15 % of a layer of Llama 3.1 8B in a prompt, as
    tables of kernels have it.
    """

    sums: int
    kernels: int
    moved: float
    shared: float


def blocks_of(model: Model, hidden: int, *, quantised: bool) -> Blocks:
    """The blocks of a model `hidden` elements wide; `quantised`: matrices take inputs of eight bits or fewer."""
    extra = _QUANTISED if quantised else 0
    sums = kernels = 0
    moved = shared = 0.0
    for layer, copies in model.distinct_layers.items():
        started = _mixing(model, layer)
        if started:
            width = max((c.heads * head_dims(c)[1] for c in attending(layer)), default=hidden)
            sums, kernels = sums + copies, kernels + copies * (started + extra)
            moved += copies * 4 * hidden
            shared += copies * 2 * width
    for kind, copies in _feed_forward(model).items():
        if kind == "none":
            continue
        sums, kernels = sums + copies, kernels + copies * (_feeding(model, kind) + extra)
        over, within = _between(model, kind, hidden)
        moved, shared = moved + copies * over, shared + copies * within
    return Blocks(sums, kernels, _WIDTH * moved, _WIDTH * shared)


def _mixing(model: Model, layer: Layer) -> int:
    """Kernels of a layer's attention or state; 0 where it has neither."""
    caches = [c.of if isinstance(c, Shared) else c for c in layer]
    found = 0
    if any(isinstance(c, Indexer) or (isinstance(c, Compressed) and c.indexer) for c in caches):
        found += _INDEXED
    elif any(isinstance(c, Latent | Compressed) for c in caches):
        found += _LATENT
    elif any(isinstance(c, Attention) for c in caches):
        normed = (model.model_type or "").startswith(_NORMALISE_HEADS)
        found += sum(_ATTENTION + _HEAD_NORMS * normed for c in caches if isinstance(c, Attention))
    return found + sum(_LINEAR for c in caches if isinstance(c, Recurrent))


def _feed_forward(model: Model) -> dict[FeedForward, int]:
    """How many layers feed forward in which way: all, with experts if there are any, where dimensions are not known."""
    dims, found = model.dimensions, dict[FeedForward, int]()
    if dims is not None and dims.feed_forward:
        for kind in dims.feed_forward:
            found[kind] = found.get(kind, 0) + 1
        return found
    experts = dims.experts if dims is not None else model.active_parameters is not None
    return {"moe" if experts else "dense": len(model.layers)}


def _feeding(model: Model, kind: FeedForward) -> int:
    if kind == "dense":
        return _DENSE
    dims = model.dimensions
    shared = _SHARED_EXPERTS if dims is not None and dims.shared_intermediate else 0
    return _EXPERTS + shared - _FUSED_EXPERTS.get(model.model_type or "", 0)


def _between(model: Model, kind: FeedForward, hidden: int) -> tuple[float, float]:
    """Elements that a token moves in a feed-forward block besides its matrices' own: by every rank, and divided."""
    dims = model.dimensions
    if kind == "dense" or dims is None:
        channels = 0 if dims is None else dims.intermediate or 0
        return 4 * hidden, 3 * channels
    chosen, width = dims.top_k or 0, dims.expert_hidden or hidden
    channels = chosen * (dims.expert_intermediate or 0) + dims.shared_intermediate
    return 6 * hidden + 2 * chosen * width, 3 * channels
