"""llama.cpp's buffers beside weights and cache: what a micro-batch needs on a device, on the host, and its output.

Sources: llama-context.cpp (sched_reserve, output_reserve), llama-graph.cpp (build_attn_inp_kq_mask, build_attn_mha),
ggml-alloc.c, ggml-backend.cpp (copies of inputs, offload), common.cpp (n_outputs_max); as vendored by llama-cpp-python
0.3.36. Printed buffers of 2024 to 2026 agree: host and no flash attention to 0.1 MiB, the rest in a range.
"""

from typing import NamedTuple, assert_never

from kvcalc.core.model import Attention, Compressed, Indexer, Latent, Model, Recurrent, Shared
from kvcalc.core.overheads import Estimate
from kvcalc.engines.llama_cpp.context import Context

__all__ = ["Step", "device_buffer", "host_buffer", "output_buffer", "step_of"]

_F32 = 4
_LEAST_COPIED = 32  # rows of a batch from which on a weight in host memory is copied: GGML_OP_OFFLOAD_MIN_BATCH


class Step(NamedTuple):
    """The sizes of one micro-batch, in bytes.

    Attributes:
        rows: Tokens of a micro-batch.
        activation: One vector of the model's width for each row.
        query: The queries of all heads for each row.
        logits: All logits of the rows whose output is kept, at the least and at the most.
        mask: The attention mask over the cells of a stream and, where there are windows, over theirs.
        scores: Attention's scores of all heads, which flash attention does not keep.
        copies: Of the inputs: 4 where devices work one behind the other, else 1.
        flash: Flash attention is on, or on if it can be.
        recent: Builds of 2026, which keep one activation more on the host.
        newest: Builds since summer 2026, which keep the output of as many rows as are asked for.
    """

    rows: int
    activation: int
    query: int
    logits: tuple[int, int]
    mask: int
    scores: int
    copies: int
    flash: bool
    recent: bool
    newest: bool


def step_of(model: Model, context: Context, *, pipelined: bool) -> Step | None:
    """The sizes of a context's micro-batch; None where the widths of the model are not known."""
    dims = model.dimensions
    if dims is None or not dims.vocab:
        return None
    rows = min(context.n_ctx, context.n_ubatch)
    heads, width = _heads(model)
    cells = context.cells  # of one stream: rows are spread over streams
    masks = cells + (context.window[1] if context.span is not None else 0)
    newest = context.version.outputs
    kept = context.sequences if newest else rows
    return Step(
        rows,
        rows * dims.hidden * _F32,
        rows * heads * width * _F32,
        (min(rows, kept) * dims.vocab * _F32, rows * dims.vocab * _F32),
        masks * rows * _F32,
        cells * rows * heads * _F32,
        4 if pipelined else 1,
        context.flash != "off",
        context.version.recent,
        newest,
    )


def _heads(model: Model) -> tuple[int, int]:
    """Query heads of the widest attention, and the elements of each."""
    found = [(0, 0)]
    for cache in model.distinct_caches:
        match cache:
            case Attention(heads=heads, k_dim=k_dim) | Latent(heads=heads, k_dim=k_dim):
                found.append((heads, k_dim))
            case Compressed(heads=heads, dim=dim):
                found.append((heads, dim))
            case Indexer() | Recurrent() | Shared():
                pass
            case _:
                assert_never(cache)
    return max(found, key=lambda each: each[0] * each[1])


def output_buffer(model: Model, context: Context) -> int:
    """Logits of one token of each sequence, on the host."""
    vocab = model.dimensions.vocab if model.dimensions else None
    return (vocab or 0) * _F32 * max(1, context.sequences)


def host_buffer(step: Step) -> int:
    """Inputs on the host: the mask for each copy and one or, in 2026, two activations; the rest is below 0.3 MiB.

    With flash attention the mask has 16 bits since summer 2026.
    """
    mask = step.mask // 2 if step.flash and step.newest else step.mask
    return step.copies * mask + (2 if step.recent else 1) * step.activation


def device_buffer(step: Step, *, last: bool, copied: int = 0) -> Estimate:
    """The compute buffer of a device; `last` has the output layer. `copied`: the largest weight that it computes with
    and that lies in host memory.

    The later of two phases, attention and logits, fits into what the earlier left free, or lies behind it.
    """
    activation, mask = step.activation, step.mask
    logits = step.logits if last else (0, 0)
    extra = copied if step.rows >= _LEAST_COPIED else 0
    if not step.flash:
        many = 2 if step.copies > 1 else 1
        size = step.scores + step.copies * mask + many * 2 * (activation + step.query)
        return Estimate(size + extra, max(size, logits[1] + activation) + extra, size + logits[1] + 2 * extra)
    few, some, most = (12, 13, 15) if step.newest else (4, 5, 9)
    masks = mask // 2 if step.newest else mask + mask // 2
    ahead = (masks + few * activation, masks + some * activation, masks + most * activation)
    behind = (logits[0] + activation, logits[0] + 2 * activation, logits[1] + 4 * activation)
    likely = max(ahead[1], behind[1] if last else 0)
    return Estimate(
        max(ahead[0], behind[0] if last else 0) + extra,
        likely + extra,
        ahead[2] + (behind[2] if last else 0) + 2 * extra,
    )
