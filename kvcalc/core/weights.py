"""What the weights take: of the whole model, and of one GPU in each pipeline stage of a replica.

A GPU holds its share of the matrices, and the whole of what is not divided: routers, norms, the projections down to a
latent; of keys and values one head at least. The first stage has the table of embeddings and towers, the last the
output head. With experts spread over `ep` ranks, each holds whole ones (vLLM 0.33, distributed/parallel_state.py and
model_executor/layers: ReplicatedLinear, ColumnParallelLinear, QKVParallelLinear, VocabParallelEmbedding, FusedMoE).
"""

from collections import Counter
from collections.abc import Mapping
from typing import Literal, NamedTuple

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType, packed_bytes
from kvcalc.core.formats import KEPT, NAMES, WeightFormat, format_of
from kvcalc.core.model import Model
from kvcalc.core.parts import Composition, Part, Role, composition
from kvcalc.core.sharding import stage_of
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

# What even spreading can be wrong by, in thousandths: nothing is known of tables, which packed files keep in 16 bits.
_EVEN_PLAIN, _EVEN_PACKED = 30, 250

_BLOCK = 256  # elements of llama.cpp's larger blocks, which rows may not fill


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
        whole = _Stored(model, weights).whole()
        source = f"{format_count(whole.parameters)} parameters as {weights.name}: {weights.source}"
        return WeightBytes(whole.bytes.likely, source, True, whole.bytes.low, whole.bytes.high)
    own = loaded or model.weights_dtype or model.dtype
    rough = weights == "auto" and own != model.dtype and not (loaded and loaded.name in dtypes.COMPUTE)
    if model.parameters is None:
        raise _unknown(model)
    source = f"{format_count(model.parameters)} parameters x {stored.bits} bits ({stored.name})"
    size = packed_bytes(stored, model.parameters)
    return WeightBytes(size, source, rough, size, size)


def _unknown(model: Model) -> KvcalcError:
    reason, fetch = (f": {model.unweighed}", "fetch what is missing, or ") if model.unweighed else ("", "")
    return KvcalcError(
        f"--weights: the number of parameters of {model.name} is not known{reason}",
        f"{fetch}give the size of its weights, such as --weights 141GB, or --weights none",
    )


def loaded_as_fp8(model: Model) -> DType | None:
    """What --quantization fp8 makes of a checkpoint's weights; nothing where it is packed already."""
    return dtypes.WEIGHTS["fp8"] if (model.weights_dtype or model.dtype).name in dtypes.COMPUTE else None


def rank_weights(
    model: Model, weights: Weights, *, tp: int = 1, pp: int = 1, ep: int | None = None, loaded: DType | None = None
) -> RankWeights:
    """The weights of one GPU in each of `pp` stages whose matrices are divided over `tp` ranks.

    `ep`: ranks over which experts are spread, tp by default; tp x dp where replicas share them (vLLM's
    --enable-expert-parallel, SGLang's --enable-dp-attention, where tp is that of attention alone). Raises KvcalcError
    where neither a size nor a number of parameters is known.
    """
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
    stored = _Stored(model, weights, kept=loaded is None)
    found = stored.ranks(tp, pp, tp if ep is None else ep)
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
    *,
    tp: int = 1,
    pp: int = 1,
    ep: int | None = None,
    loaded: DType | None = None,
) -> WeightRange:
    """Bytes on the GPU that holds most of the `whole`.

    Of a size or a plain type that is asked for, an even share; a packed type has a range up to what its parts come to,
    since tables and more may stay in 16 bits. Of a published model the parts, or an even share where they come to the
    same up to rounding. Raises KvcalcError where neither a size nor a number of parameters is known.
    """
    even = ceil_div(whole.bytes, tp * pp)
    evenly = WeightRange(even, even, even)
    if weights == "none" or isinstance(weights, int):
        return evenly
    parts = rank_weights(model, weights, tp=tp, pp=pp, ep=ep, loaded=loaded).fullest
    if isinstance(weights, DType) or loaded is not None:
        plain = loaded if loaded is not None else weights
        packed = isinstance(plain, DType) and plain.block_bytes < 2 * plain.block
        return WeightRange(min(even, parts.low), even, max(even, parts.high)) if packed else evenly
    rounded = parts.low == parts.high and abs(parts.likely - even) * _ROUNDED <= even
    return evenly if rounded else parts


class _Whole(NamedTuple):
    bytes: WeightRange
    parameters: int


class _Stored:
    """The parts of a model in a format: likely, and as small and as large as files of that format are."""

    def __init__(self, model: Model, weights: DType | WeightFormat, *, kept: bool = False) -> None:
        parts = composition(model)
        if parts is None:
            raise _unknown(model)
        self.parts: Composition = parts
        mix = format_of(weights.name) if isinstance(weights, DType) else weights
        self.plain = mix is None
        self.name = weights.name
        moe = model.dimensions is not None and bool(model.dimensions.experts)
        own = {role: model.dtype for word in model.weights_kept for role in KEPT[word]} if kept else {}
        self.spread, self.narrow = (0, 0), None if mix is None else mix.narrow
        if mix is None:
            assert isinstance(weights, DType)
            types: Mapping[Role, DType] = {}
            self.packed, self.kinds = weights, (types, types, types)
        else:
            tied = {"embedding": mix.tied} if parts.tied and mix.tied is not None else {}
            likely: dict[Role, DType] = {**mix.other, **(mix.moe if moe else {}), **tied, **own}  # type: ignore[dict-item]
            # A published file says what it keeps in 16 bits; how large its groups are, none of our facts.
            low, high = ({role: t for role, t in side.items() if not own or t.name not in dtypes.COMPUTE}
                         for side in (mix.low, mix.high))  # fmt: skip
            self.packed, self.kinds = mix.packed, ({**likely, **low, **own}, likely, {**likely, **high, **own})
            self.spread = mix.spread
        if parts.even:
            even = _EVEN_PLAIN if self.plain else _EVEN_PACKED
            self.spread = max(self.spread, (even, even))

    def whole(self) -> _Whole:
        """Bytes of all parts, each once."""
        every = Counter[Part]()
        for parts in (self.parts.before, *self.parts.layers, self.parts.behind):
            every.update(parts)
        sizes = [
            sum(copies * self._size(part, part.parameters, types) for part, copies in every.items())
            for types in self.kinds
        ]
        return _Whole(self._range(sizes), self.parts.parameters)

    def _size(self, part: Part, parameters: int, types: Mapping[Role, DType]) -> int:
        """Bytes of so many of a part's parameters; less than none where rules count more than is stated."""
        dtype = types.get(part.role, self.packed)
        if self.narrow is not None and part.row % _BLOCK:
            tied = part.role == "embedding" and self.parts.tied
            dtype = self.narrow.other.get("head" if tied else part.role, self.narrow.packed)
        return packed_bytes(dtype, parameters) if parameters >= 0 else -packed_bytes(dtype, -parameters)

    def _range(self, sizes: list[int]) -> WeightRange:
        low, likely, high = sizes
        less, more = self.spread
        least = min(low, likely) * (1000 - less) // 1000
        return WeightRange(least, likely, ceil_div(max(likely, high) * (1000 + more), 1000))

    def ranks(self, tp: int, pp: int, ep: int) -> RankWeights:
        """What one GPU of each stage holds."""
        made: dict[tuple[tuple[Part, int], ...], list[Counter[Role]]] = {}
        stages = []
        for parts in self._by_stage(pp):
            key = tuple(parts.items())
            if key not in made:
                made[key] = self._stage(parts, tp, ep)
            stages.append(made[key])
        ranges = tuple(self._range([sum(sizes.values()) for sizes in kinds]) for kinds in stages)
        fullest = max(range(pp), key=lambda stage: ranges[stage].likely)
        estimated = any(one.low != one.high for one in ranges)
        how = "spread evenly" if self.parts.even else "part by part"
        return RankWeights(ranges, f"{self.name}, {how}", estimated, stages[fullest][1])

    def _by_stage(self, pp: int) -> list[Counter[Part]]:
        count = len(self.parts.layers)
        stages = [Counter[Part]() for _ in range(pp)]
        for i, parts in enumerate(self.parts.layers):
            stages[stage_of(i, count, pp)].update(parts)
        stages[0].update(self.parts.before)
        stages[-1].update(self.parts.behind)
        if self.parts.tied and pp > 1:  # both ends need the table
            stages[-1].update(part for part in self.parts.before if part.role == "embedding")
        return stages

    def _stage(self, parts: Counter[Part], tp: int, ep: int) -> list[Counter[Role]]:
        """Likely, least and most, by role. Some engines' towers are whole on every rank (vLLM's Pixtral)."""
        kinds = []
        for types, whole in zip(self.kinds, (False, False, True), strict=True):
            sizes: Counter[Role] = Counter()
            for part, copies in parts.items():
                share = part.parameters if whole and part.role == "encoder" else _share(part, tp, ep)
                sizes[part.role] += copies * self._size(part, share, types)
            kinds.append(sizes)
        return kinds


def _share(part: Part, tp: int, ep: int) -> int:
    """Parameters on the rank that has most."""
    ways = ep if part.role in ("expert_up", "expert_down") else tp
    if part.ways:  # no rank has less than one head
        return part.parameters * ceil_div(part.ways, min(ways, part.ways)) // part.ways
    return ceil_div(part.parameters, ways)
