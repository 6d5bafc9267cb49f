"""Values that are worked out once, by all that they depend on."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kvcalc.errors import KvcalcError

__all__ = ["Memo"]

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """What `make` found for a model or a configuration together with plain facts, each pair once.

    A value may depend on nothing else: whatever `make` looks at belongs to `of` or to `by`, whole, since a part of a
    card that one value does not need is what the next one forgets.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[int, Hashable], tuple[object, Value | KvcalcError]] = {}

    def get(self, of: object, by: Hashable, make: Callable[[], Value]) -> Value:
        """The value for `of` and `by`. A KvcalcError of `make` is remembered, and raised each time.

        `of` is told apart by identity, since hashing a model is slow, and kept alive, so that no other gets its id.
        """
        key = id(of), by
        if key not in self._made:
            try:
                made: Value | KvcalcError = make()
            except KvcalcError as error:
                made = error
            self._made[key] = of, made
        _, found = self._made[key]
        if isinstance(found, KvcalcError):
            raise found
        return found
