"""A preset's mapping becomes a Model. What each key means is told to people in presets/README.md.

Every fault is collected before one DocumentError is raised, so that `models --check` can show all of them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from kvcalc import dtypes, notation
from kvcalc.dtypes import DType
from kvcalc.errors import KvcalcError, Problem, nearest, shown
from kvcalc.model import (
    Attention,
    Cache,
    Compressed,
    Indexer,
    Latent,
    Layer,
    Model,
    Reach,
    Recurrent,
    RecurrentKind,
    Shared,
    Stored,
)
from kvcalc.notation import Names
from kvcalc.reading import Reader
from kvcalc.units import MOST_BYTES, parse_count

__all__ = ["CONFIDENCE", "KEYS", "KINDS", "RECURRENT_FIELDS", "model_from_preset", "read_layers"]

KEYS = (
    "name", "id", "family", "base", "model_type", "gguf", "source", "confidence", "note",
    "dtype", "weights_dtype", "kv_dtype", "state_dtype", "parameters", "active_parameters", "weights_bytes",
    "max_context", "context", "encoder_tokens", "heads", "kv_heads", "head_dim", "k_dim", "v_dim",
    "layers", "count", "draft", "caches",
)  # fmt: skip

CONFIDENCE = ("config file read", "config excerpt read", "third-party table", "class default", "run configuration",
              "from memory")  # fmt: skip

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
KINDS = (*get_args(Reach), "latent", "indexer", "compressed", *get_args(RecurrentKind))

_TOP_HEADS = ("heads", "kv_heads", "head_dim", "k_dim", "v_dim")
_SPAN = {"full": None, "sliding": "window", "chunked": "chunk", "cross": "tokens"}


def model_from_preset(data: Mapping[object, object], origin: str) -> tuple[Model | None, list[Problem]]:
    """The model that a preset describes, or None and what is wrong with it. `origin` is the name it was found under."""
    top = Reader(data)
    name = top.text("name", required=True)
    ids = top.texts("id")
    facts = _facts(top)
    defaults = {key: top.integer(key, 0 if key in ("kv_heads", "v_dim") else 1) for key in _TOP_HEADS}
    top.get("base")  # resolved by whoever read the file
    layers, draft = read_layers(top, "layers"), read_layers(top, "draft")
    count = top.integer("count")
    if count is not None and layers and count != len(layers):
        top.note(f"expected {len(layers)}, the number of layers described, got {count}", "count")
    if "layers" not in data:
        top.note("expected the layers of the model, such as `80 full`, got nothing", "layers")
    built = _Caches(top, defaults, layers, draft)
    top.close()
    if top.problems or name is None:
        return None, top.problems
    family = facts.pop("family") or name.split()[0].lower()
    model = Model(name=name, ids=ids, family=family, layers=built.layers, draft=built.draft, origin=origin, **facts)
    return model, []


def _facts(top: Reader) -> dict[str, Any]:
    """The fields of Model that are read as they stand."""
    facts: dict[str, Any] = {key: top.text(key) for key in ("family", "model_type", "gguf", "source", "note")}
    facts["confidence"] = top.one_of("confidence", CONFIDENCE)
    facts["dtype"] = _dtype(top, "dtype", dtypes.COMPUTE)
    if "dtype" not in top.data:
        top.note(f"expected one of {', '.join(dtypes.COMPUTE)}, got nothing", "dtype")
    facts["weights_dtype"] = _dtype(top, "weights_dtype", dtypes.WEIGHTS)
    facts["kv_dtype"] = _dtype(top, "kv_dtype", dtypes.KV)
    facts["state_dtype"] = _dtype(top, "state_dtype", dtypes.COMPUTE)
    for key in ("parameters", "active_parameters"):
        facts[key] = _count(top, key)
    facts["weights_bytes"] = top.integer("weights_bytes", 1, MOST_BYTES)
    for key in ("max_context", "context", "encoder_tokens"):
        facts[key] = top.integer(key)
    return facts


def _dtype(top: Reader, key: str, among: dict[str, DType]) -> DType | None:
    value = top.get(key)
    if value is None:
        return None
    if isinstance(value, str):
        try:
            return dtypes.find(value, among, key)
        except KvcalcError:
            pass
    top.expected(f"one of {', '.join(among)}", key)
    return None


def _count(top: Reader, key: str) -> int | None:
    value = top.get(key)
    if isinstance(value, str):
        value = parse_count(value)
    if value is None and top.data.get(key) is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10**16:
        return value
    top.expected("a count such as 70.55B", key)
    return None


def read_layers(top: Reader, key: str) -> list[Names]:
    """The layers under `key`, each as the names of its caches; empty where the key is missing or faulty."""
    value = top.get(key)
    try:
        if isinstance(value, str):
            return notation.expand(value)
        if isinstance(value, dict):
            return _pattern(top, key)
    except ValueError as error:
        top.note(str(error), key)
        return []
    if value is not None:
        top.expected("layers such as `80 full`, or a pattern with letters", key)
    return []


def _pattern(top: Reader, key: str) -> list[Names]:
    inner = top.inner(key)
    assert inner is not None
    pattern, letters = inner.text("pattern", required=True), inner.get("letters")
    inner.close()
    if not isinstance(letters, dict) or not all(isinstance(x, str) for pair in letters.items() for x in pair):
        inner.expected("a mapping of letters to caches", "letters")
        return []
    return [] if pattern is None else notation.expand_pattern(pattern, letters)


class _Use(NamedTuple):
    """One name of `layers`: where its numbers are read, and how often the model's own layers hold it."""

    name: str
    reader: Reader
    layers: int


class _Caches:
    """Turns names into caches: those of a name are one object, or one for each layer where a field is a list."""

    def __init__(
        self, top: Reader, defaults: Mapping[str, int | None], layers: Sequence[Names], draft: Sequence[Names]
    ) -> None:
        self._top, self._defaults = top, defaults
        self._caches = top.inner("caches") or Reader({}, ("caches",), top.problems)
        counts = Counter(n for names in layers for n in names if not n.startswith(notation.SHARED))
        drafted = Counter(n for names in draft for n in names if not n.startswith(notation.SHARED))
        self._stored: dict[str, list[Stored]] = {}
        for name in {**counts, **drafted}:
            given = self._caches.data.get(name) is not None
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
            close = nearest(use.name, [*KINDS, *map(str, self._caches.data)], 1)
            hint = f" (did you mean '{close[0]}'?)" if close and kind is None else ""
            if kind is None:
                self._top.note(f"expected a kind or a name under `caches`, got {shown(use.name)}{hint}", "layers")
            else:
                use.reader.expected(f"one of {', '.join(KINDS)}", "kind")
            return []
        fields = _READERS[str(kind)](_Fields(use.reader, self._defaults, str(kind)))
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
        if self._top.problems:
            return ()
        seen: Counter[str] = Counter()
        last: dict[str, Stored] = {}
        made: dict[Layer, Layer] = {}
        done: dict[Names, Layer] = {}  # layers of the same names are one object, unless a list makes them differ
        plain = all(len(choices) == 1 for choices in self._stored.values())
        result = []
        for names in layers:
            if plain and names in done:
                result.append(done[names])
                continue
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
                if len(choices) > 1 and seen[name] >= len(choices):
                    self._top.note(f"expected a cache without lists for a draft layer, got {shown(name)}", key)
                    return ()
                last[name] = choices[seen[name] if len(choices) > 1 else 0]
                seen[name] += 1
                caches.append(last[name])
            layer = tuple(caches)
            done[names] = made.setdefault(layer, layer)
            result.append(done[names])
        return tuple(result)


class _Fields:
    """The numbers of one cache: its own, and for heads and widths those at the top of the preset."""

    def __init__(self, reader: Reader, defaults: Mapping[str, int | None], kind: str) -> None:
        self.reader, self._defaults, self.kind = reader, defaults, kind
        self._before = len(reader.problems)

    def sound(self) -> bool:
        """Nothing was wrong with this cache so far."""
        return len(self.reader.problems) == self._before

    def own(self, key: str, low: int = 1) -> "_PerLayer":
        """A number that must stand under this cache."""
        value = self.reader.integers(key, low)
        if value is None and key not in self.reader.data:
            self.reader.note(f"expected a number for {self.kind}, got nothing", key)
        return _PerLayer(value)

    def optional(self, key: str, low: int = 0) -> int:
        return self.reader.integer(key, low) or 0

    def inherited(self, key: str, low: int = 1) -> "_PerLayer":
        """A head count or width, here or at the top; `head_dim` stands for both widths."""
        keys = (key, "head_dim") if key in ("k_dim", "v_dim") else (key,)
        for each in keys:
            if each in self.reader.data:
                return _PerLayer(self.reader.integers(each, low))
        for each in keys:
            if self._defaults.get(each) is not None:
                return _PerLayer(self._defaults[each])
        if not any(each in self.reader.data for each in keys):
            names = " or ".join(keys)
            self.reader.note(f"expected {names}, here or at the top of the preset, got nothing", key)
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
    span_key = _SPAN[fields.kind]
    span = _PerLayer(None)
    if span_key == "tokens" and fields.reader.data.get("tokens") == "input":
        fields.reader.get("tokens")
    elif span_key is not None:
        span = fields.own(span_key)
    if not fields.sound():
        return None
    reach: Reach = fields.kind  # type: ignore[assignment]  # the table of readers has this function for four kinds

    def make(i: int) -> Attention:
        queries, cached = heads(i), kv_heads(i)
        if cached and queries % cached:
            fields.reader.note(f"expected a divisor of the {queries} query heads, got {cached}", "kv_heads")
        if rope > k_dim(i):
            fields.reader.note(f"expected at most k_dim, {k_dim(i)}, got {rope}", "rope")
        return Attention(reach, queries, cached, k_dim(i), v_dim(i), span(i) if span.value else None, rope)

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
    **dict.fromkeys(get_args(Reach), _attention),
    "latent": _latent,
    "indexer": _indexer,
    "compressed": _compressed,
    **dict.fromkeys(get_args(RecurrentKind), _recurrent),
}
