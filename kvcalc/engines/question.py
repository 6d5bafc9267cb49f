"""The question that an engine is asked, and its refusal of a kind without a rule."""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

from kvcalc.commands.versions import Version
from kvcalc.core.card import Card
from kvcalc.core.explain import cache_name
from kvcalc.core.model import Cache
from kvcalc.core.request import Request
from kvcalc.core.sharding import Placement
from kvcalc.errors import KvcalcError

__all__ = ["PlacedCaches", "Question", "Value", "no_rule"]


Value = TypeVar("Value")


PlacedCaches: TypeAlias = tuple[int, Cache, Cache, int]  # stage, one rank's part of a cache, the whole cache, copies


def no_rule(engine: str, cache: Cache, hint: str = "leave it out") -> KvcalcError:
    """What an engine raises for a kind of cache for which it has no rule: one line with both names.

    The last case of each `match` over kinds is this, so that no engine takes a kind that it does not know for full
    attention.
    """
    return KvcalcError(f"--engine: {engine}'s rule for {cache_name(cache)} is not known", hint)


class Question(NamedTuple):
    """A request put to one version of an engine.

    Attributes:
        request: The question, with every default filled in.
        placement: The model as it is spread over one replica.
        version: A row of the engine's versions.
        settings: The engine's own settings, from its flags; what is not there has its default.
        groups: Equal caches, where they were counted already.
        card: What it runs on, where that was named.
        found: Where `once` leaves what depends on neither batch nor context, since a fit asks some eighty times.
        alike: Where an engine leaves what depends on its settings alone, for questions that differ in the card.
    """

    request: Request
    placement: Placement
    version: Version
    settings: Mapping[str, object] = {}
    groups: tuple[PlacedCaches, ...] = ()
    card: Card | None = None
    found: dict[str, tuple[object, Any]] | None = None
    alike: dict[Hashable, Any] | None = None

    def counted(self) -> "Question":
        """The same question, whose equal caches need not be counted again for another number of tokens."""
        return self._replace(groups=self.placed(), found={})

    def placed(self) -> tuple[PlacedCaches, ...]:
        """The caches of one replica, equal ones together, in order of first occurrence."""
        if self.groups:
            return self.groups
        counts: Counter[tuple[int, Cache, Cache]] = Counter()
        for placed, layer in zip(self.placement.layers, self.request.model.layers, strict=True):
            for cache, whole in zip(placed.caches, layer, strict=True):
                counts[placed.stage, cache, whole] += 1
        return tuple((*key, copies) for key, copies in counts.items())

    def once(self, name: str, make: Callable[[], Value]) -> Value:
        """What `make` finds, which must depend on neither batch nor context: worked out once for a counted question.

        The same question with another version, card or setting has values of its own.
        """
        if self.found is None:
            return make()
        fixed = self._replace(request=self.request._replace(batch=1, context=1), found=None, alike=None)
        before = self.found.get(name)
        if before is None or before[0] != fixed:
            self.found[name] = before = fixed, make()
        value: Value = before[1]
        return value

    @property
    def sequences(self) -> int:
        """Sequences on the fullest replica."""
        return self.request.sequences_per_replica

    def at(self, sequences: int, tokens: int) -> "Question":
        """The same question of another number of sequences a replica, and of tokens in each."""
        batch = sequences * self.request.layout.dp
        return self._replace(request=self.request._replace(batch=batch, context=tokens))
