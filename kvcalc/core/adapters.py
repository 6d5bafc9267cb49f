"""Low-rank adapters (LoRA, arXiv 2106.09685): for a matrix of d_in x d_out one of d_in x rank and one of rank x d_out.

Engines reserve room for a number of adapters of the largest rank, whatever is loaded: vLLM 0.27.1,
`create_lora_weights` of lora/layers/base_linear.py; SGLang, lora/mem_pool.py. Over ranks of tp, a matrix that is
divided by columns has the whole of the first and a part of the second, one that is divided by rows the other way round.
"""

from collections import Counter
from typing import NamedTuple

from kvcalc.core.model import Dimensions, Model
from kvcalc.core.parts import Part, Role, composition
from kvcalc.core.sharding import Layout, stage_of
from kvcalc.core.stored import Division
from kvcalc.core.units import ceil_div, parse_integer
from kvcalc.core.weight_values import WeightRange
from kvcalc.errors import KvcalcError, shown

__all__ = ["Adapters", "adapter_bytes", "parse_adapters"]

_MOST, _MOST_RANK = 100_000, 4096
_COLUMNS: tuple[Role, ...] = ("query", "key", "value", "up", "shared_up", "expert_up")
_ROWS: tuple[Role, ...] = ("output", "down", "shared_down", "expert_down")
_EXPERTS: tuple[Role, ...] = ("expert_up", "expert_down")
_GATED: tuple[Role, ...] = ("up", "shared_up", "expert_up")
_WHOLE: tuple[Role, ...] = ("latent", "state")


class Adapters(NamedTuple):
    """How many adapters a GPU has room for at once, and the largest rank of one."""

    number: int
    rank: int

    def __str__(self) -> str:
        return f"{self.number} x rank {self.rank}"


def parse_adapters(text: str, what: str) -> Adapters:
    """`4:16`, four adapters of rank 16. Raises KvcalcError."""
    number, colon, rank = text.strip().partition(":")
    if not colon:
        raise KvcalcError(f"{what}: expected N:RANK, such as 4:16, got {shown(text)}")
    return Adapters(parse_integer(number, what, _MOST), parse_integer(rank, what, _MOST_RANK))


def adapter_bytes(model: Model, adapters: Adapters, layout: Layout, *, sharded: bool = False) -> WeightRange:
    """Bytes on the GPU that holds most, in the model's dtype (`--lora-dtype auto`).

    `sharded`: both matrices are divided over tp. The least leaves routed experts out, which only newer engines adapt
    (vLLM from 0.11.1), and the most has the table of embeddings and the output head too, which
    engines adapt for some models. Raises KvcalcError where the widths of the matrices are not known.
    """
    parts = composition(model)
    if parts is None or parts.even or model.dimensions is None:
        raise KvcalcError(
            f"--lora: the widths of {model.name}'s matrices are not known", "give their bytes as --overhead SIZE"
        )
    stages = [Counter[Part]() for _ in range(layout.pp)]
    for i, layer in enumerate(parts.layers):
        stages[stage_of(i, len(parts.layers), layout.pp)].update(layer)
    split = Division(model, layout, ())
    dims = model.dimensions
    elements = max(
        sum(copies * _elements(part, split, dims, sharded=sharded) for part, copies in stage.items())
        for stage in stages
    )
    bare = max(
        sum(copies * _elements(part, split, dims, sharded=sharded) for part, copies in stage.items()
            if part.role not in _EXPERTS)
        for stage in stages
    )  # fmt: skip
    tables = 0 if dims.vocab is None else 2 * (ceil_div(dims.vocab, layout.tp) + dims.hidden)
    width = adapters.number * adapters.rank * model.dtype.block_bytes
    return WeightRange(width * bare, width * elements, width * (elements + tables))


def _elements(part: Part, split: Division, dims: Dimensions, *, sharded: bool) -> int:
    """d_in + d_out of a part's matrices on one rank, for each of the rank's columns."""
    if not part.row or part.role not in (*_COLUMNS, *_ROWS, *_WHOLE):
        return 0
    experts = part.role in _EXPERTS
    copies = dims.experts if experts else 1
    held = ceil_div(copies, split.layout.ep) if experts and split.layout.ep > 1 else copies
    own, slices = split.share(part), 2 if part.role in _GATED and dims.gated else 1
    if part.role in _ROWS:
        out = part.parameters // (part.row * copies)
        into, behind = own // out, held * out
        return into + (ceil_div(behind, split.layout.tp) if sharded else behind)
    into = held * part.row * slices
    return (ceil_div(into, split.layout.tp) if sharded else into) + own // part.row
