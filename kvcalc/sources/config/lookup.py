"""Typed look-ups in a model's configuration, which remember every key that was asked for.

A missing key is not a null key: a missing one takes the class default of the model type, a null one means "derive it"
(transformers: `num_key_value_heads: null` is as many as there are query heads, whatever the class says). Look-ups
return None for both a null and a key that is missing without a default.
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from kvcalc.errors import KvcalcError, Problem, escape, shown
from kvcalc.reading import MOST_NUMBER, between, is_integer

__all__ = ["BY_HAND", "LAYERS", "MOST_FILE_LAYERS", "Config"]

MOST_FILE_LAYERS = 1024  # several times the deepest published model; what a hostile file may cost in time

BY_HAND = "correct the preset of a model like it, such as `kvcalc preset llama3-8b > my.yaml`, and size my.yaml"

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")


class Config:
    """The mapping `data`, found at `path` of `file`. `root` is the whole file, of which `data` is the language part."""

    def __init__(
        self,
        data: Mapping[str, object],
        file: str,
        *,
        path: tuple[str, ...] = (),
        model_type: str = "",
        defaults: Mapping[str, object] | None = None,
        root: Mapping[str, object] | None = None,
    ) -> None:
        self.data, self.file, self.path, self.model_type = data, file, path, model_type
        self.defaults = defaults or {}
        self.root = data if root is None else root
        self.understood: set[str] = set()
        self.children: dict[str, Config] = {}

    def refuse(self, text: str, *key: str | int, hint: str = BY_HAND) -> NoReturn:
        """Stop reading: `FILE: KEY: text`, and the way out."""
        raise KvcalcError(str(Problem((*self.path, *key), text, file=escape(self.file))), hint)

    def expected(self, what: str, key: str, hint: str = BY_HAND) -> NoReturn:
        self.refuse(f"expected {what}, got {shown(self.data.get(key, self.defaults.get(key)))}", key, hint=hint)

    def ignore(self, *keys: str) -> None:
        """Count keys as understood that this model type carries and does not use."""
        self.understood.update(keys)

    def get(self, *keys: str) -> tuple[str, object]:
        """The first of several spellings that is stated and not null, else the class default; with its key."""
        self.understood.update(keys)
        stated = [key for key in keys if key in self.data]
        for key in stated:
            if self.data[key] is not None:
                return key, self.data[key]
        if stated:
            return stated[0], None
        return next(((key, self.defaults[key]) for key in keys if key in self.defaults), (keys[0], None))

    def integer(self, *keys: str, low: int = 1) -> int | None:
        """A whole number under one of several spellings, which must agree where more than one is stated."""
        key, value = self.get(*keys)
        if value is None:
            return None
        if not is_integer(value, low, MOST_NUMBER):
            self.expected(between(low, MOST_NUMBER, value), key)
        for other in keys:
            if self.data.get(other) not in (None, value):
                self.expected(f"{shown(value)}, as {key} says", other)
        return value  # type: ignore[return-value]  # is_integer has told

    def number(self, *keys: str, low: int = 1) -> int:
        """A whole number without which the cache cannot be sized."""
        value = self.integer(*keys, low=low)
        if value is None:
            self.expected(between(low, MOST_NUMBER), keys[0])
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        _, value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.expected("true or false", key)
        return value

    def text(self, *keys: str) -> str | None:
        key, value = self.get(*keys)
        if value is None:
            return None
        if not isinstance(value, str):
            self.expected("text", key)
        return value

    def array(self, *keys: str) -> list[object] | None:
        """A list; an empty one counts as left out (Llama 4 ships `no_rope_layers: []`)."""
        key, value = self.get(*keys)
        if value is None:
            return None
        if not isinstance(value, list):
            self.expected("a list", key)
        return value or None

    def integers(self, key: str, low: int = 0, most: int = MOST_NUMBER) -> list[int] | None:
        values = self.array(key)
        for at, value in enumerate(values or ()):
            if not is_integer(value, low, most):
                self.refuse(f"expected {between(low, most, value)}, got {shown(value)}", key, at)
        return values  # type: ignore[return-value]  # each entry was looked at

    def words(self, *keys: str) -> list[str] | None:
        values = self.array(*keys)
        for at, value in enumerate(values or ()):
            if not isinstance(value, str):
                self.refuse(f"expected a word, got {shown(value)}", self.get(*keys)[0], at)
        return values  # type: ignore[return-value]  # as above

    def inner(self, key: str) -> "Config | None":
        """The mapping under `key`, to look things up in; None where it is missing, null or empty."""
        _, value = self.get(key)
        if not value:
            return None
        if not isinstance(value, dict):
            self.expected("a mapping", key)
        if key not in self.children:
            self.children[key] = Config(value, self.file, path=(*self.path, key), root=self.root)
        return self.children[key]

    def layers(self, keys: Sequence[str] = LAYERS) -> int:
        count = self.number(*keys)
        if count > MOST_FILE_LAYERS:
            self.expected(f"at most {MOST_FILE_LAYERS:,} layers", self.get(*keys)[0])
        return count

    def per_layer(self, key: str, entries: Sequence[object], count: int | None = None) -> None:
        """Refuse a list that says nothing about some of the layers. A longer one may: the rest are draft layers."""
        count = self.layers() if count is None else count
        if len(entries) < count:
            self.refuse(f"expected {count} entries, one for each layer, got {len(entries)}", key)
