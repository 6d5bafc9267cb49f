"""What the weights take: of the whole model, and of one GPU in each pipeline stage of a replica.

A GPU holds its share of the matrices, and the whole of what is not divided: routers, norms, the projections down to a
latent; of keys and values one head at least. The first stage has the table of embeddings and towers, the last the
output head. Of experts that are spread (`Layout.ep`), each rank holds whole ones. vLLM 0.33: parallel_state.py in
distributed/ and, in model_executor/layers, ReplicatedLinear, ColumnParallelLinear, QKVParallelLinear,
VocabParallelEmbedding, FusedMoE.
"""

from typing import Literal

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType, packed_bytes
from kvcalc.core.formats import NAMES, WeightFormat, format_of
from kvcalc.core.model import Model
from kvcalc.core.parts import Role, composition
from kvcalc.core.sharding import Layout
from kvcalc.core.stored import Division, Stored, unweighed
from kvcalc.core.units import ceil_div, format_count, parse_size
from kvcalc.core.weight_values import RankWeights, WeightBytes, WeightRange
from kvcalc.errors import KvcalcError

__all__ = [
    "Weights",
    "dtype_of",
    "fullest_rank",
    "loaded_as_fp8",
    "parse",
    "rank_weights",
    "weigh",
]

# What the user says of the weights: the preset's word, none to count, a size of the whole model, a plain type or a
# format of files.
Weights = Literal["auto", "none"] | int | DType | WeightFormat

ALONE = Layout()


def parse(text: str, what: str) -> Weights:
    """`auto`, `none`, a size with its unit or the name of a format. `what` names the option in errors. Raises
    KvcalcError.
    """
    match text.strip().lower():
        case "auto":
            return "auto"
        case "none":
            return "none"
        case word if word[:1].isdigit():
            return parse_size(text, what, zero=True)
        case word:
            if word not in dtypes.WEIGHTS and (found := format_of(word)) is not None:
                return found
            return dtypes.dtype_called(text, dtypes.WEIGHTS, what, also=NAMES)


def dtype_of(word: str) -> DType:
    """The type of most matrices in files of a format, under the format's name, by which the mix is found again."""
    mix = None if word in dtypes.WEIGHTS else format_of(word)
    return dtypes.WEIGHTS[word] if mix is None else mix.packed._replace(name=mix.name)


def weigh(model: Model, weights: Weights, loaded: DType | None = None) -> WeightBytes:
    """The weights of the whole model: measured where the preset knows, else parameters x the storage dtype.

    A format of files is counted part by part. `loaded`: what the published weights are packed into as they are loaded.
    Raises KvcalcError where the number of parameters is not known.
    """
    if weights == "none":
        return WeightBytes(0, "--weights none: not counted")
    if isinstance(weights, int):
        return WeightBytes(weights, "as given", low=weights, high=weights)
    if weights == "auto" and model.weights_bytes is not None and loaded is None:
        measured = model.weights_bytes
        return WeightBytes(measured, "measured from the checkpoint's tensors", low=measured, high=measured)
    stored = (loaded or model.weights_dtype or model.dtype) if weights == "auto" else weights
    if isinstance(stored, DType) and stored.name not in dtypes.WEIGHTS and (mix := format_of(stored.name)) is not None:
        stored = mix  # a whole-file format, which has no bits of its own
    if isinstance(stored, WeightFormat):
        weights = stored
        whole = Stored(model, weights).whole()
        source = f"{format_count(whole.parameters)} parameters as {weights.name}: {weights.source}"
        return WeightBytes(whole.bytes.likely, source, True, whole.bytes.low, whole.bytes.high)
    own = loaded or model.weights_dtype or model.dtype
    rough = weights == "auto" and own != model.dtype and not (loaded and loaded.name in dtypes.COMPUTE)
    if model.parameters is None:
        raise unweighed(model)
    source = f"{format_count(model.parameters)} parameters x {stored.bits} bits ({stored.name})"
    size = packed_bytes(stored, model.parameters)
    return WeightBytes(size, source, rough, size, size)


def loaded_as_fp8(model: Model) -> DType | None:
    """What --quantization fp8 makes of a checkpoint's weights; nothing where it is packed already."""
    return dtypes.WEIGHTS["fp8"] if (model.weights_dtype or model.dtype).name in dtypes.COMPUTE else None


def rank_weights(
    model: Model,
    weights: Weights,
    layout: Layout = ALONE,
    *,
    divided: tuple[Role, ...] = (),
    loaded: DType | None = None,
) -> RankWeights:
    """The weights of one GPU in each stage of a layout.

    `divided`: roles that replicas of attention divide between them as they do the experts. Raises KvcalcError where
    neither a size nor a number of parameters is known, and where experts are shared of which nothing is known.
    """
    tp, pp = layout.tp, layout.pp
    if weights == "none":
        return RankWeights((WeightRange(0, 0, 0),) * pp, "--weights none: not counted", estimated=False, roles={})
    measured = weights if isinstance(weights, int) else None
    if weights == "auto" and loaded is None:
        measured = model.weights_bytes
    if isinstance(weights, int | str):
        weights = loaded or model.weights_dtype or model.dtype
    elif isinstance(weights, DType):
        loaded = weights  # asked for, so that what the checkpoint keeps does not count
    if composition(model) is None and measured is not None:  # nothing but the size is known
        each = ceil_div(measured, tp * pp)
        return RankWeights((WeightRange(each, each, each),) * pp, "spread evenly", estimated=True, roles={"rest": each})
    stored = Stored(model, weights, kept=loaded is None)
    if layout.sharing > 1 and stored.parts.even:
        raise KvcalcError(
            f"--dp-attention: which part of {model.name}'s weights its experts are is not known",
            "give --kv-memory, or the widths of its matrices as `dimensions` in a preset",
        )
    found = stored.ranks(Division(model, layout, divided))
    return found if measured is None else _scaled(found, measured, stored.whole().bytes.likely)


def _scaled(found: RankWeights, measured: int, counted: int) -> RankWeights:
    """Shares of a size that is known, as the parts are divided."""
    stages = tuple(WeightRange(*(ceil_div(stage.likely * measured, counted),) * 3) for stage in found.stages)
    roles = {role: size * measured // counted for role, size in found.roles.items()}
    return RankWeights(stages, "measured, divided as the parts are", estimated=False, roles=roles)


# Published numbers of parameters are rounded to some four digits: what is nearer is no difference.
_ROUNDED = 1000


def fullest_rank(
    model: Model,
    weights: Weights,
    whole: WeightBytes,
    layout: Layout = ALONE,
    *,
    divided: tuple[Role, ...] = (),
    loaded: DType | None = None,
) -> WeightRange:
    """Bytes on the GPU that holds most of the `whole`.

    Of a size or a plain type that is asked for, an even share; a packed type has a range up to what its parts come to,
    since tables and more may stay in 16 bits. Of a published model the parts, or an even share where they come to the
    same up to rounding. Where experts are spread or shared, always the parts. Raises KvcalcError where neither a size
    nor a number of parameters is known.
    """
    if layout.ep > 1 or layout.sharing > 1:
        return rank_weights(model, weights, layout, divided=divided, loaded=loaded).fullest
    even = ceil_div(whole.bytes, layout.tp * layout.pp)
    evenly = WeightRange(even, even, even)
    if weights == "none" or isinstance(weights, int):
        return evenly
    parts = rank_weights(model, weights, layout, loaded=loaded).fullest
    if isinstance(weights, DType) or loaded is not None:
        plain = loaded if loaded is not None else weights
        packed = isinstance(plain, DType) and plain.block_bytes < 2 * plain.block
        return WeightRange(min(even, parts.low), even, max(even, parts.high)) if packed else evenly
    rounded = parts.low == parts.high and abs(parts.likely - even) * _ROUNDED <= even
    return evenly if rounded else parts
