"""Typed look-ups in a model's configuration, which remember every key that was asked for.

A missing key is not a null key: a missing one takes the class default of the model type, a null one means "derive it"
(transformers: `num_key_value_heads: null` is as many as there are query heads, whatever the class says). Look-ups
return None for both a null and a key that is missing without a default.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, TypeVar

from kvcalc.errors import KvcalcError, Problem, escape, shown
from kvcalc.preset.fields import MOST_NUMBER, between, is_integer

__all__ = ["BY_HAND", "DRAFTS", "LAYERS", "MOST_FILE_LAYERS", "SCHEMES", "Config"]

MOST_FILE_LAYERS = 1024  # several times the deepest published model; what a hostile file may cost in time

BY_HAND = (
    "correct the preset of a model like it, such as `kvcalc preset llama3-8b > my-model.yaml`, and size my-model.yaml"
)

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")

# Where a quantisation scheme stands: the second is the older name (compressed-tensors), the third MLX's.
SCHEMES = ("quantization_config", "compression_config", "quantization")

# How many draft layers there are: the first stated counts. MiniMax-M3 says 1 here and 7 modules, EXAONE 4.5 says both
# of the first and the third.
DRAFTS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "_num_mtp_layers", "num_mtp_layers", "num_mtp_modules")

# Lists that are empty in published files and mean what a missing one does (Llama 4, Qwen MoE), or that count nothing.
_MAY_BE_EMPTY = ("no_rope_layers", "mlp_only_layers", "attn_layer_indices", "mtp_layers_block_type", "mtp_layer_types",
                 "mtp_local_layer_ids", "full_attn_layers", "kda_layers")  # fmt: skip

# Usual names. A class of transformers with another name maps the first three to its own (attribute_map), and reads the
# others where the table has no name for them, since their value is null.
_MAPPED = ("num_hidden_layers", "num_attention_heads", "hidden_size")
_USUAL = ("num_key_value_heads", "head_dim", "sliding_window")

# Other names that a class of transformers 5.24.0 reads beside its own, or that published files of the type have.
_ALSO_READ = {
    "bloom": ("n_embed",), "exaone": ("num_layers",), "falcon": ("n_embed",), "step3p5": ("num_attention_groups",),
    "recurrent_gemma": ("sliding_window",),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "hunyuan_vl_text"), ("attention_head_dim",)),
    "nemotron_h": ("attention_head_dim", "mamba_n_groups", "mamba_d_conv"),
    "zamba2": ("state_size", "conv_dimension", "expansion_factor"),  # the files of its first release
}  # fmt: skip


_Value = TypeVar("_Value", int, bool, None)


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
        nulls: frozenset[str] = frozenset(),
        root: Mapping[str, object] | None = None,
    ) -> None:
        self.data, self.file, self.path, self.model_type = data, file, path, model_type
        self.defaults, self.nulls = defaults or {}, nulls
        self.root = data if root is None else root
        self.understood: set[str] = set()
        self.filled: dict[str, object] = {}  # class defaults that were used, in the order of their use
        self.derived: dict[str, str] = {}  # numbers that the file leaves out, each with what it was made of
        self.by_rule = False  # the layout of the layers is the class's own, which no key of the file states
        self.laid_by: str | None = None  # the key, other than a list of layers, that states the layout
        self.children: dict[str, Config] = {}

    def refuse(self, text: str, *key: str | int, hint: str = BY_HAND) -> NoReturn:
        """Stop reading: `FILE: KEY: text`, and the way out."""
        raise KvcalcError(str(Problem((*self.path, *key), text, file=escape(self.file))), hint)

    def expected(self, what: str, key: str, hint: str = BY_HAND) -> NoReturn:
        self.refuse(f"expected {what}, got {shown(self.data.get(key, self.defaults.get(key)))}", key, hint=hint)

    def ignore(self, *keys: str) -> None:
        """Count keys as understood that this model type carries and does not use."""
        self.understood.update(keys)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Look-ups that may fail and whose answers do not count: only so that their keys are understood."""
        with suppress(KvcalcError), self.quietly():
            yield

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Look-ups that fill nothing in: what they give is only compared."""
        before = dict(self.filled), dict(self.derived), self.by_rule
        try:
            yield
        finally:
            self.filled, self.derived, self.by_rule = before

    def get(self, *keys: str) -> tuple[str, object]:
        """The first of several spellings that is stated and not null, else the class default; with its key.

        A spelling that the class of the type does not read is refused, since the class would ignore it. A null counts
        under the usual spelling and under that of the class, and is refused where the class has a value instead and no
        meaning for a null.
        """
        self.understood.update(keys)
        own = next((key for key in keys if key in self.defaults), None)
        stated = [key for key in keys if self.data.get(key) is not None]
        if stated:
            key = own if own in stated else stated[0]
            self._check_spelling(key, own, keys)
            return key, self.data[key]
        null = next((key for key in keys if key in self.data and (own is None or key in (keys[0], own))), None)
        if null is not None and own is not None and own not in self.nulls:
            self.expected(f"a value, since {self.model_type} takes no null here", null)
        if null is not None or own is None:
            return null or keys[0], None
        self.filled[own] = self.defaults[own]
        return own, self.defaults[own]

    def _check_spelling(self, key: str, own: str | None, keys: Sequence[str]) -> None:
        """Refuse a key that is not how the class of this type spells it, which a file can only mean by mistake."""
        if not self.defaults or key in (own, *_ALSO_READ.get(self.model_type, ())):
            return
        if own is not None and key not in _MAPPED and self.data[key] != self.defaults[own]:
            self.expected(f"{own} instead, which {self.model_type} reads", key)
        if own is None and keys[0] in _USUAL and key != keys[0]:
            self.expected(f"{keys[0]} instead, which {self.model_type} reads", key)

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

    def assume(self, key: str, value: _Value) -> _Value:
        """The value that the code of this type has for a key that a file leaves out, said like a class default."""
        self.filled[key] = value
        return value

    def derive(self, key: str, value: int, made: str) -> int:
        """A number that follows from others where a file leaves `key` out, which the reader's note says."""
        self.derived[key] = f"{key} {value} = {made}"
        return value

    def lists_none(self, *keys: str) -> bool:
        """None of the keys stands in the file, not even as a null, which would say something."""
        return not any(key in self.data for key in keys)

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
        """A list, which has entries unless an empty one is known to be the same as none."""
        key, value = self.get(*keys)
        if value is None or (value == [] and key in _MAY_BE_EMPTY):
            return None
        if not isinstance(value, list):
            self.expected("a list", key)
        if not value:
            self.refuse("expected a list with entries, got an empty one", key)
        return value

    def integers(self, key: str, low: int = 0, most: int = MOST_NUMBER) -> list[int] | None:
        values = self.array(key)
        for at, value in enumerate(values or ()):
            if not is_integer(value, low, most):
                self.refuse(f"expected {between(low, most, value)}, got {shown(value)}", key, at)
        return values  # type: ignore[return-value]  # each entry was looked at

    def indices(self, key: str, low: int, most: int) -> list[int] | None:
        """Numbers of layers, each of which is listed once."""
        values, seen = self.integers(key, low, most), set()
        for at, value in enumerate(values or ()):
            if value in seen:
                self.refuse(f"expected each layer once, got {value} again", key, at)
            seen.add(value)
        return values

    def words(self, *keys: str) -> list[str] | None:
        values = self.array(*keys)
        for at, value in enumerate(values or ()):
            if not isinstance(value, str):
                self.refuse(f"expected a word, got {shown(value)}", self.get(*keys)[0], at)
        return values  # type: ignore[return-value]  # as above

    def inner(self, key: str) -> "Config | None":
        """The mapping under `key`, to look things up in; None where it is missing, null or empty and has no default."""
        self.understood.add(key)
        value, own = self.data.get(key) or {}, self.defaults.get(key)
        if not isinstance(value, dict):
            self.expected("a mapping", key)
        if not value and not own:
            return None
        if key not in self.children:
            defaults = own if isinstance(own, dict) else None
            self.children[key] = Config(value, self.file, path=(*self.path, key), defaults=defaults, root=self.root)
        return self.children[key]

    def all_filled(self) -> Iterator[tuple[str, object]]:
        """Class defaults that were used, here and in the mappings inside, by their dotted keys."""
        yield from self.filled.items()
        for name, child in self.children.items():
            yield from ((f"{name}.{key}", value) for key, value in child.all_filled())

    def layers(self, keys: Sequence[str] = LAYERS) -> int:
        count = self.number(*keys)
        if count > MOST_FILE_LAYERS:
            self.expected(f"at most {MOST_FILE_LAYERS:,} layers", self.get(*keys)[0])
        return count

    def per_layer(self, key: str, entries: Sequence[object], count: int | None = None) -> None:
        """Refuse a list that has not one entry for each layer, and perhaps one for each draft layer after them.

        transformers 5.24.0 refuses any other length (validate_layer_type in configuration_utils.py).
        """
        drafted = next((self.data[name] for name in DRAFTS if self.data.get(name)), 0) if count is None else 0
        count = self.layers() if count is None else count
        if len(entries) != count and len(entries) - count != drafted:
            self.refuse(f"expected {count} entries, one for each layer, got {len(entries)}", key)
