"""The names in a preset's `layers` become caches: which numbers each kind has, and where they are found."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, assert_never, get_args

from kvcalc.core.model import (
    Attention,
    Cache,
    Compressed,
    Indexer,
    Latent,
    Layer,
    Pattern,
    Recurrent,
    RecurrentKind,
    Shared,
    Stored,
)
from kvcalc.errors import shown
from kvcalc.preset import notation
from kvcalc.preset.fields import Reader
from kvcalc.preset.notation import Names

__all__ = ["KINDS", "RECURRENT_FIELDS", "CacheTable", "span_key"]

# The numbers of each recurrent kind, in the order in which they are written.
RECURRENT_FIELDS: dict[str, tuple[str, ...]] = {
    "mamba1": ("inner", "state", "conv"),
    "mamba2": ("heads", "head_dim", "groups", "state", "conv"),
    "deltanet": ("k_heads", "k_dim", "v_heads", "v_dim", "conv"),
    "kda": ("heads", "head_dim", "conv"),
    "shortconv": ("width", "conv"),
    "lightning": ("heads", "head_dim"),
    "rglru": ("width", "conv"),
    "rwkv": ("width", "head_dim"),
    "rwkv4": ("width",),
}
KINDS = (*get_args(Pattern), "latent", "indexer", "compressed", *get_args(RecurrentKind))


def span_key(pattern: Pattern) -> str | None:
    """The key under which a preset has the span of a pattern; None where it has none."""
    match pattern:
        case "full":
            return None
        case "sliding":
            return "window"
        case "chunked":
            return "chunk"
        case "cross":
            return "tokens"
        case _:
            assert_never(pattern)


class _Use(NamedTuple):
    """One name of `layers`: where its numbers are read, and how often the model's own layers hold it."""

    name: str
    reader: Reader
    layers: int


def _uses(layers: Sequence[Names]) -> Counter[str]:
    """How many layers have a cache of each name, shared ones not counted; equal layers are counted first."""
    uses: Counter[str] = Counter()
    for names, copies in Counter(layers).items():
        for name in names:
            if not name.startswith(notation.SHARED):
                uses[name] += copies
    return uses


class CacheTable:
    """Turns names into caches: those of a name are one object, or one for each layer where a field is a list."""

    def __init__(
        self, top: Reader, defaults: Mapping[str, int | None], layers: Sequence[Names], draft: Sequence[Names]
    ) -> None:
        self._top, self._defaults = top, defaults
        self._caches = top.inner("caches") or Reader({}, ("caches",), top.problems)
        counts, drafted = _uses(layers), _uses(draft)
        self._stored: dict[str, list[Stored]] = {}
        for name in {**counts, **drafted}:
            given = self._caches.get(name) is not None
            reader = self._caches.inner(name) if given else Reader({}, ("caches", name), top.problems)
            if reader is not None:
                self._stored[name] = self._build(_Use(name, reader, counts[name]))
        for unused in [str(key) for key in self._caches.data if key not in self._stored]:
            if unused not in counts and unused not in drafted:
                self._caches.note("expected a cache that `layers` or `draft` names, and neither does", unused)
            self._caches.get(unused)
        self._caches.close()
        self.layers = self._layers(layers, "layers")
        self.draft = self._layers(draft, "draft")

    def _build(self, use: _Use) -> list[Stored]:
        """The caches called `use.name`: one for all its layers, or a list with one for each."""
        kind: object = use.reader.get("kind")
        if kind is None and use.name in KINDS:
            kind = use.name
        if kind not in KINDS:
            close = self._top.meant(use.name, chain(KINDS, map(str, self._caches.data)))
            hint = f" (did you mean '{close}'?)" if close and kind is None else ""
            if kind is None:
                where = "layers" if use.layers else "draft"
                self._top.note(f"expected a kind or a name under `caches`, got {shown(use.name)}{hint}", where)
            else:
                use.reader.expected(f"one of {', '.join(KINDS)}", "kind")
            return []
        fields = _READERS[str(kind)](_Fields(use.reader, self._top, self._defaults, str(kind)))
        use.reader.close()
        if fields is None:
            return []
        return self._each(use, fields)

    def _each(self, use: _Use, make: Callable[[int], Stored]) -> list[Stored]:
        """One cache for all layers, or one for each where fields are lists; all lists must have the right length."""
        lists = {key: value for key, value in use.reader.data.items() if isinstance(value, list)}
        for key, value in lists.items():
            if len(value) != use.layers:
                use.reader.note(f"expected {use.layers} entries, one for each layer, got {len(value)}", str(key))
                return []
        made: dict[Stored, Stored] = {}
        caches = [make(i) for i in range(use.layers if lists else 1)]
        return [made.setdefault(cache, cache) for cache in caches]

    def _layers(self, layers: Sequence[Names], key: str) -> tuple[Layer, ...]:
        """Layers of caches. Nothing is returned once a problem was noted: the numbers would mean nothing."""
        if self._top.problems or not layers:
            return ()
        seen: Counter[str] = Counter()
        last: dict[str, Stored] = {}
        made: dict[Layer, Layer] = {}  # equal layers are one object
        done: dict[Names, Layer] = {}
        # Layers of the same names are equal, unless a list makes them differ.
        plain = all(len(choices) == 1 for choices in self._stored.values())
        result = []
        for names in dict.fromkeys(layers) if plain else layers:
            caches: list[Cache] = []
            for name in names:
                if name.startswith(notation.SHARED):
                    of = last.get(name.removeprefix(notation.SHARED))
                    if of is None:
                        self._top.note(f"expected an earlier layer with the cache that {shown(name)} reuses", key)
                        return ()
                    caches.append(Shared(of))
                    continue
                choices = self._stored[name]
                if key == "draft" and len(choices) != 1:  # whose number would it be?
                    self._top.note(f"expected a cache without lists for a draft layer, got {shown(name)}", key)
                    return ()
                last[name] = choices[seen[name] if len(choices) > 1 else 0]
                seen[name] += 1
                caches.append(last[name])
            layer = tuple(caches)
            done[names] = made.setdefault(layer, layer)
            result.append(done[names])
        return tuple(map(done.__getitem__, layers)) if plain else tuple(result)


class _Fields:
    """The numbers of one cache: its own, and for heads and widths those at the top of the preset."""

    def __init__(self, reader: Reader, top: Reader, defaults: Mapping[str, int | None], kind: str) -> None:
        self.reader, self._top, self._defaults, self.kind = reader, top, defaults, kind
        self._before = len(reader.problems)
        self._faulty = False  # a number at the top that was noted there already

    def sound(self) -> bool:
        """Nothing was wrong with this cache so far."""
        return len(self.reader.problems) == self._before and not self._faulty

    def note(self, text: str, key: str) -> None:
        """Note a fault of a number where it stands: under this cache, or at the top; once."""
        reader = self.reader if key in self.reader.data else self._top
        reader.note_once(text, key)

    def own(self, key: str, low: int = 1) -> "_PerLayer":
        """A number that must stand under this cache."""
        value = self.reader.integers(key, low)
        if value is None and self.reader.data.get(key) is None:
            self.reader.missing(f"a number for {self.kind}", key)
        return _PerLayer(value)

    def optional(self, key: str, low: int = 0) -> int:
        return self.reader.integer(key, low) or 0

    def inherited(self, key: str, low: int = 1) -> "_PerLayer":
        """A head count or width, here or at the top; `head_dim` stands for both widths."""
        keys = (key, "head_dim") if key in ("k_dim", "v_dim") else (key,)
        for each in keys:
            if self.reader.get(each) is not None:
                return _PerLayer(self.reader.integers(each, low if each == key else 1))
        for each in keys:
            if self._top.data.get(each) is not None:
                number = self._defaults[each]
                self._faulty = self._faulty or number is None
                if number is not None and number < low:
                    self.note(f"expected a number above zero for {self.kind}, got {number}", each)
                return _PerLayer(number)
        self.reader.missing(f"{' or '.join(keys)}, here or at the top of the preset", key)
        return _PerLayer(None)


class _PerLayer(NamedTuple):
    """A number for all layers, or one for each."""

    value: int | list[int] | None

    def __call__(self, i: int) -> int:
        value = self.value[i] if isinstance(self.value, list) else self.value
        assert value is not None
        return value


_Make = Callable[[int], Stored] | None


def _attention(fields: _Fields) -> _Make:
    heads, kv_heads = fields.inherited("heads"), fields.inherited("kv_heads", 0)
    k_dim, v_dim = fields.inherited("k_dim"), fields.inherited("v_dim", 0)
    rope = fields.optional("rope")
    pattern: Pattern = fields.kind  # type: ignore[assignment]  # the table of readers has this function for patterns
    key = span_key(pattern)
    span = _PerLayer(None)
    if key == "tokens" and fields.reader.data.get("tokens") == "input":
        fields.reader.get("tokens")
    elif key is not None:
        span = fields.own(key)
    if not fields.sound():
        return None

    def make(i: int) -> Attention:
        queries, cached = heads(i), kv_heads(i)
        if cached and queries % cached:
            fields.note(f"expected a divisor of the {queries} query heads, got {cached}", "kv_heads")
        if rope > k_dim(i):
            fields.note(f"expected at most k_dim, {k_dim(i)}, got {rope}", "rope")
        return Attention(pattern, queries, cached, k_dim(i), v_dim(i), span(i) if span.value else None, rope)

    return make


def _latent(fields: _Fields) -> _Make:
    rank, rope, heads = fields.own("rank"), fields.own("rope", 0), fields.inherited("heads")
    k_dim, v_dim = fields.inherited("k_dim"), fields.inherited("v_dim")
    if not fields.sound():
        return None
    return lambda i: Latent(rank(i), rope(i), heads(i), k_dim(i), v_dim(i))


def _indexer(fields: _Fields) -> _Make:
    dim, block = fields.own("dim"), fields.reader.integer("block")
    store = fields.reader.one_of("store", ("fp8+scale",))
    return (lambda i: Indexer(dim(i), "fp8+scale" if store else None, block)) if fields.sound() else None


def _compressed(fields: _Fields) -> _Make:
    ratio, dim, heads = fields.own("ratio"), fields.own("dim"), fields.inherited("heads")
    rope, indexer, overlap = fields.optional("rope"), fields.optional("indexer"), fields.reader.flag("overlap")
    if not fields.sound():
        return None
    return lambda i: Compressed(ratio(i), dim(i), rope, heads(i), overlap, indexer)


def _recurrent(fields: _Fields) -> _Make:
    numbers = {key: fields.own(key) for key in RECURRENT_FIELDS[fields.kind]}
    if not fields.sound():
        return None
    kind: RecurrentKind = fields.kind  # type: ignore[assignment]  # as above
    return lambda i: Recurrent(kind, **{key: number(i) for key, number in numbers.items()})


_READERS: dict[str, Callable[[_Fields], _Make]] = {
    **dict.fromkeys(get_args(Pattern), _attention),
    "latent": _latent,
    "indexer": _indexer,
    "compressed": _compressed,
    **dict.fromkeys(get_args(RecurrentKind), _recurrent),
}
