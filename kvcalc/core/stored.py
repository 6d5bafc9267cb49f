"""The parts of a model in a format of weights, and which of them a GPU of each stage holds."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.core import dtypes
from kvcalc.core.dtypes import DType, packed_bytes
from kvcalc.core.formats import KEPT, WeightFormat, format_of
from kvcalc.core.model import Model
from kvcalc.core.parts import Composition, Part, Role, composition
from kvcalc.core.sharding import Layout, stage_of
from kvcalc.core.units import ceil_div
from kvcalc.core.weight_values import RankWeights, WeightRange
from kvcalc.errors import KvcalcError

__all__ = ["Division", "Stored", "unweighed"]

# What even spreading can be wrong by, in thousandths: nothing is known of tables, which packed files keep in 16 bits.
_EVEN_PLAIN, _EVEN_PACKED = 30, 250

_BLOCK = 256  # elements of llama.cpp's larger blocks, which rows may not fill


def unweighed(model: Model) -> KvcalcError:
    reason, fetch = (f": {model.unweighed}", "fetch what is missing, or ") if model.unweighed else ("", "")
    return KvcalcError(
        f"--weights: the number of parameters of {model.name} is not known{reason}",
        f"{fetch}give the size of its weights, such as --weights 141GB, or --weights none",
    )


class Whole(NamedTuple):
    """Of the whole model: bytes, and how many parameters that are."""

    bytes: WeightRange
    parameters: int


class Stored:
    """The parts of a model in a format: likely, and as small and as large as files of that format are."""

    def __init__(self, model: Model, weights: DType | WeightFormat, *, kept: bool = False) -> None:
        parts = composition(model)
        if parts is None:
            raise unweighed(model)
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
            # A published file says what it keeps in 16 bits, and perhaps how large its groups are.
            told = isinstance(weights, DType) and weights.block > dtypes.WEIGHTS.get(weights.name, weights).block
            low, high = ({role: t for role, t in side.items()
                          if not (own and t.name in dtypes.COMPUTE) and not (told and t.name == weights.name)}
                         for side in (mix.low, mix.high))  # fmt: skip
            self.packed, self.kinds = mix.packed, ({**likely, **low, **own}, likely, {**likely, **high, **own})
            self.packed = weights if told and isinstance(weights, DType) else self.packed
            self.spread = mix.spread
        if parts.even:
            even = _EVEN_PLAIN if self.plain else _EVEN_PACKED
            self.spread = max(self.spread, (even, even))

    def whole(self) -> Whole:
        """Bytes of all parts, each once."""
        every = Counter[Part]()
        for parts in (self.parts.before, *self.parts.layers, self.parts.behind):
            every.update(parts)
        sizes = [
            sum(copies * self._size(part, part.parameters, types) for part, copies in every.items())
            for types in self.kinds
        ]
        return Whole(self._range(sizes), self.parts.parameters)

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

    def ranks(self, split: "Division") -> RankWeights:
        """What one GPU of each stage holds."""
        pp = split.layout.pp
        made: dict[tuple[tuple[Part, int], ...], list[Counter[Role]]] = {}
        stages = []
        for parts in self._by_stage(pp):
            key = tuple(parts.items())
            if key not in made:
                made[key] = self._stage(parts, split)
            stages.append(made[key])
        ranges = tuple(self._range([sum(sizes.values()) for sizes in kinds]) for kinds in stages)
        fullest = max(range(pp), key=lambda stage: ranges[stage].likely)
        estimated = any(one.low != one.high for one in ranges)
        how = "spread evenly" if self.parts.even else "part by part"
        return RankWeights(ranges, f"{self.name}, {how}", estimated, stages[fullest][1])

    def layer(self, parts: tuple[Part, ...], split: "Division") -> WeightRange:
        """What one GPU holds of one more layer of these parts."""
        return self._range([sum(sizes.values()) for sizes in self._stage(Counter(parts), split)])

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

    def _stage(self, parts: Counter[Part], split: "Division") -> list[Counter[Role]]:
        """Likely, least and most, by role. Some engines' towers are whole on every rank (vLLM's Pixtral)."""
        kinds = []
        for types, whole in zip(self.kinds, (False, False, True), strict=True):
            sizes: Counter[Role] = Counter()
            for part, copies in parts.items():
                share = part.parameters if whole and part.role == "encoder" else split.share(part)
                sizes[part.role] += copies * self._size(part, share, types)
            kinds.append(sizes)
        return kinds


class Division:
    """How the parts of a model are divided over the ranks of a stage."""

    def __init__(self, model: Model, layout: Layout, divided: tuple[Role, ...]) -> None:
        self.layout = layout
        self._experts = model.dimensions.experts if model.dimensions is not None else 0
        self._wide = divided if layout.sharing > 1 else ()

    def share(self, part: Part) -> int:
        """Parameters on the rank that has most."""
        ways = self.layout.tp
        if part.role in ("expert_up", "expert_down"):
            ep = self.layout.ep
            slices = self.layout.expert_ranks // ep
            if ep == 1:
                return ceil_div(part.parameters, slices)
            held = ceil_div(self._experts, ep)  # whole ones, or slices of as many
            return ceil_div(part.parameters * held, self._experts * slices)
        if part.role in self._wide:
            ways = self.layout.expert_ranks
        if part.ways:  # no rank has less than one head
            return part.parameters * ceil_div(part.ways, min(ways, part.ways)) // part.ways
        return ceil_div(part.parameters, ways)
