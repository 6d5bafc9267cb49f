"""The real bytes of a cache beside the predicted ones, layer by layer. The difference is zero, or it is told."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never

from kvcalc.core.explain import cache_name
from kvcalc.core.kinds import encodes
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Model, Recurrent, Shared
from kvcalc.engines.allocation import Allocation
from kvcalc.engines.question import Question
from kvcalc.engines.stages import stage_caches
from kvcalc.verifying.measuring import Reading

__all__ = ["ComparedLayer", "Comparison", "compare"]

# What the tensors of a cache belong to, by how their names begin (cache_utils.py and the caches of single models).
_RECURRENT = ("conv", "recurrent", "state")
_INDEXER = ("idx", "indexer")
_COMPRESSED = ("buffer", "compressed", "overlap")


class ComparedLayer(NamedTuple):
    """Equal caches, and the layers in which they differ. `cache` None: tensors that nothing was predicted for."""

    cache: Cache | None
    copies: int
    predicted_bytes: int
    real_bytes: int
    layers: tuple[int, ...]

    @property
    def name(self) -> str:
        return "nothing predicted" if self.cache is None else cache_name(self.cache)


class Comparison(NamedTuple):
    """The cache once it holds `tokens` tokens of each sequence, after a prefill or one more decode step.

    `held` are predicted and real bytes of the storage that the tensors keep alive: a window is a view of a longer one.
    """

    step: str
    tokens: int
    rows: tuple[ComparedLayer, ...]
    held: tuple[int, int]

    @property
    def predicted_bytes(self) -> int:
        return sum(row.predicted_bytes for row in self.rows)

    @property
    def real_bytes(self) -> int:
        return sum(row.real_bytes for row in self.rows)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that differ."""
        return tuple(sorted({layer for row in self.rows for layer in row.layers}))

    @property
    def equal(self) -> bool:
        """No difference, in any layer or in what is held."""
        return not self.layers and self.held[0] == self.held[1]


def compare(question: Question, plan: Allocation, reading: Reading) -> Comparison:
    """A real cache against the engine's plan."""
    model, real = question.request.model, reading.layers
    found: dict[Cache | None, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for at, caches, tensors in _slots(model, real):
        for cache in caches:
            found[cache][at] += 0  # a layer that keeps nothing is compared too
        for name, amount in tensors.items():
            found[_owner(name, caches)][at] += amount
    rows = [_row(cache, charged, model, found.pop(cache, {})) for cache, charged in _charged(question, plan)]
    rows += [_row(cache, [], model, layers) for cache, layers in found.items() if any(layers.values())]
    live = plan.values.get("held_bytes_total", 0)
    assert isinstance(live, int)
    return Comparison(reading.step, reading.tokens, tuple(rows), (live, reading.held_bytes))


def _charged(question: Question, plan: Allocation) -> Iterator[tuple[Cache, list[int]]]:
    """The bytes that an engine charges for each of some equal caches, which it knows by their names and exact sizes.

    Several charges may be for copies of one cache: transformers keeps the window of DeepSeek V4 twice in some layers.
    A cache that it keeps nothing of is not charged for.
    """
    charges: dict[tuple[str, int], list[int]] = defaultdict(list)
    for charge in plan.charges:
        charges[charge.name, charge.exact // charge.copies] += [charge.bytes // charge.copies] * charge.copies
    for each in stage_caches(question):
        left = charges[cache_name(each.cache), each.exact // each.copies]
        amounts = [left.pop(0) if left else 0 for _ in range(each.copies)]
        yield each.whole, amounts
    assert not any(charges.values()), "an engine charges for what a model does not have"


def _row(cache: Cache | None, charged: list[int], model: Model, real: Mapping[int, int]) -> ComparedLayer:
    """`charged` is the bytes of each copy; where they are unequal, it is not known which layer is which."""
    copies = [layer.count(cache) for layer in model.layers]
    if len(set(charged)) == 1:
        expected = Counter({at: count * charged[0] for at, count in enumerate(copies) if count})
        wrong = [at for at in {*expected, *real} if real.get(at, 0) != expected[at]]
    else:
        left = Counter(charged)
        left.subtract(real.values())
        wrong = [at for at, amount in real.items() if amount and left[amount] < 0]
        if not wrong and +left:  # something charged for is kept in no layer
            wrong = [at for at, count in enumerate(copies) if count]
    return ComparedLayer(cache, len(charged) or len(real), sum(charged), sum(real.values()), tuple(sorted(wrong)))


def _slots(model: Model, real: Sequence[Mapping[str, int]]) -> Iterator[tuple[int, Layer, Mapping[str, int]]]:
    """Each layer of the real cache with the number and the caches of the model's layer that it serves.

    LongCat has two attention blocks in a layer, and a layer of the cache for each.
    """
    served = [(at, layer) for at, layer in enumerate(model.layers)]
    if len(real) != len(served):
        apart: list[tuple[int, Layer]] = [(at, (cache,)) for at, layer in served for cache in layer]
        if len(apart) == len(real):
            served = apart
    for at in range(max(len(served), len(real))):
        layer, caches = served[at] if at < len(served) else (at, ())
        yield layer, caches, real[at] if at < len(real) else {}


def _owner(name: str, caches: Layer) -> Cache | None:
    """The cache of a layer that a tensor belongs to, by its name."""
    return next((cache for cache in caches if _belongs(name, cache)), None)


def _belongs(name: str, cache: Cache) -> bool:
    match cache:
        case Attention() if encodes(cache) and name.startswith("cross."):
            return True
        # Of a layer with two attentions that to its own tokens comes first; Llama 3.2 Vision has the other alone.
        case Attention() | Latent():
            return name in ("keys", "values")
        case Indexer():
            return name.startswith(_INDEXER)
        case Compressed():
            return name.startswith(_COMPRESSED)
        case Recurrent():
            return name.startswith(_RECURRENT)
        case Shared():
            return False
        case _:
            assert_never(cache)
