"""Layouts: one function for each way in which published configurations say what kind of cache each layer has.

Each gives one word for each layer, in order; what a word means is the family's business. Numbers of lines and classes
refer to transformers 5.24.0 where nothing else is named.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence

from kvcalc.errors import shown
from kvcalc.sources.config.lookup import LAYERS, MOST_FILE_LAYERS, Config

__all__ = [
    "PATTERNS",
    "SPELLINGS",
    "WINDOWS",
    "Kinds",
    "agreed",
    "all_of",
    "as_flagged",
    "as_listed",
    "at_indices",
    "at_offset",
    "by_rule",
    "by_window_layers",
    "cycle",
    "every",
    "lettered",
    "spelt",
    "window",
    "windowed",
]

Kinds = Callable[[Config], list[str]]

# Old and new spellings of one kind: configuration_utils.py renames mamba, attention and the sparse ones when it loads.
SPELLINGS = {
    "full_attention": "full",
    "attention": "full",
    "global": "full",
    "sliding_attention": "sliding",
    "window_attention": "sliding",
    "local": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "linear",
    "mamba2": "linear",
    "recurrent": "linear",
    "mlp": "none",
    "moe": "none",
    "deepseek_sparse_attention": "indexed",
    "indexed_attention": "indexed",
    "minimax_m3_sparse": "indexed",
    "compressed_sparse_attention": "4",
    "heavily_compressed_attention": "128",
}

# The first window stated is the one; a window of null, 0 or -1 is none (Grok-2 ships -1).
WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size", "window_size")


# Keys that lay windows out in some layers.
PATTERNS = ("sliding_window_pattern", "_sliding_window_pattern", "max_window_layers", "global_attn_every_n_layers")


def all_of(word: str, *counts: str) -> Kinds:
    """Every layer the same. `counts` are the keys that count them, where those are not the usual ones."""
    return lambda config: [word] * config.layers(counts or LAYERS)


def by_rule(inner: Kinds) -> Kinds:
    """A layout that only the class knows: the note says so, since no key of the file states it."""

    def kinds(config: Config) -> list[str]:
        config.by_rule = True
        return inner(config)

    return kinds


def _cycled(config: Config, words: Sequence[str]) -> list[str]:
    return list(itertools.islice(itertools.cycle(words), config.layers()))


def cycle(*words: str) -> Kinds:
    """A block of layers that repeats from the first, by the rule of the class."""
    return by_rule(lambda config: _cycled(config, words))


def every(period: int, key: str = "", *echoes: str, word: str = "sliding", last: str = "full") -> Kinds:
    """Full where (index + 1) is a multiple of the period, which `key` may state: `sliding_window_pattern: 6`.

    `echoes` are keys that repeat it and that nothing reads. EXAONE 4 states it as a string, `LLLG`, which repeats from
    the first layer; the last layer is always full.
    """

    def kinds(config: Config) -> list[str]:
        value = config.get(key)[1] if key else None
        if isinstance(value, str):
            if not value or set(value) - {"L", "G"}:
                config.expected("a pattern of the letters L and G", key)
            config.laid_by = key
            letters = [{"L": word, "G": last}[letter] for letter in value[:MOST_FILE_LAYERS]]
            return [*_cycled(config, letters)[:-1], last]
        if value is None and key in config.data and key not in config.nulls:
            config.expected("how often a layer is full", key)
        n = period if value is None else config.number(key)
        for echo in echoes:
            if config.integer(echo) not in (None, n):
                config.expected(f"{n}, the period of full layers", echo)
        stated = next((each for each in (key, *echoes) if config.data.get(each) is not None), None)
        config.by_rule |= stated is None and value is None and n > 1
        config.laid_by = stated or config.laid_by
        return [word if (i + 1) % n else last for i in range(config.layers())]

    return kinds


def as_listed(
    otherwise: Kinds, *keys: str, spellings: Mapping[str, str] = SPELLINGS, beside: Sequence[str] | None = None
) -> Kinds:
    """A list with a word for each layer, cut to the number of layers; the class's own layout where there is none.

    Where a file states more than one, the lists of `keys` and what `otherwise` makes of other keys must agree with it:
    the classes take the list, and a pattern that says something else was edited. `beside` are those keys where
    `otherwise` has no answer without one. Step 3.5 and DeepSeek V4 append entries for their draft layers.
    """
    keys = keys or ("layer_types",)

    def kinds(config: Config) -> list[str]:
        found = {key: spelt(config, key, spellings) for key in keys if config.words(key) is not None}
        if not found:
            return otherwise(config)
        if beside is None or any(config.data.get(key) for key in beside):
            with config.quietly():
                laid = otherwise(config)
            found |= {key: laid for key in (*(beside or ()), config.laid_by) if key and config.data.get(key)}
        config.ignore(*(beside or ()))
        return agreed(config, found)

    return kinds


def agreed(config: Config, found: Mapping[str, list[str]]) -> list[str]:
    """The layers that several keys state, each a word for each. Notes a fault where one differs from the first."""
    (first, listed), *rest = found.items()
    for key, words in rest:
        if words != listed:
            config.expected(f"the same layers as {first}", key)
    return listed


def spelt(config: Config, key: str, spellings: Mapping[str, str]) -> list[str]:
    """The words of one list, cut to the number of layers, in our spelling."""
    listed = config.words(key) or []
    config.per_layer(key, listed)
    return [spellings.get(word, word) for word in listed[: config.layers()]]


def window(config: Config) -> int | None:
    """The window in tokens, or None where there is none or where it is switched off."""
    switched_off = not config.flag("use_sliding_window", default=True)
    if switched_off and (not config.defaults or "use_sliding_window" in config.defaults):
        config.ignore(*WINDOWS, "max_window_layers")  # beats any window: Qwen2.5 states 131072 beside it
        return None
    key, value = config.get(*WINDOWS)
    if value is None and config.defaults and config.lists_none(*WINDOWS):
        config.assume(key, None)  # the class has none, and files of a model with a window state it
    if value in (None, 0, -1) or value is False:
        return None
    if switched_off:
        config.expected(f"true, since {config.model_type} has no such switch and a window", "use_sliding_window")
    return config.number(*WINDOWS)


def windowed(inner: Kinds) -> Kinds:
    """`inner`, in which no layer slides where the window is null or switched off: a list must not say that one does."""

    def kinds(config: Config) -> list[str]:
        words = inner(config)
        if window(config) is not None:
            return words
        if "sliding" in words and config.data.get("layer_types"):
            if config.data.get("use_sliding_window") is False:
                config.expected("true, since layer_types has sliding layers", "use_sliding_window")
            key = next((key for key in WINDOWS if key in config.data), WINDOWS[0])
            config.expected("the window of the sliding layers in layer_types", key)
        words = ["full" if word == "sliding" else word for word in words]
        config.by_rule &= set(words) != {"full"}  # nothing is left of the rule
        return words

    return kinds


def by_window_layers(slides: Callable[[int, int], bool]) -> Kinds:
    """Qwen: `slides(index, max_window_layers)` says which layers have the window."""

    def kinds(config: Config) -> list[str]:
        if window(config) is None:
            config.ignore("max_window_layers")
            return ["full"] * config.layers()
        most = config.integer("max_window_layers", low=0) or 0
        config.laid_by = "max_window_layers" if config.data.get("max_window_layers") is not None else None
        return ["sliding" if slides(i, most) else "full" for i in range(config.layers())]

    return kinds


def at_offset(period: str, offset: str) -> Kinds:
    """Jamba: attention where index % `attn_layer_period` is `attn_layer_offset`."""

    def kinds(config: Config) -> list[str]:
        step, start = config.number(period), config.number(offset, low=0)
        if start >= step:
            config.expected(f"less than {period}, {step}", offset)
        return ["full" if i % step == start else "linear" for i in range(config.layers())]

    return kinds


def at_indices(key: str, word: str, others: str, without: str | None = None) -> Kinds:
    """A list of the indices, from zero, of the layers of one kind. `without`: the word for all if there is no list."""

    def kinds(config: Config) -> list[str]:
        count = config.layers()
        indices = config.indices(key, 0, count - 1)
        if indices is None:
            if without is None:
                config.expected("a list of layer numbers", key)
            config.by_rule = True
            return [without] * count
        chosen = set(indices)
        return [word if i in chosen else others for i in range(count)]

    return kinds


def as_flagged(key: str, words: Sequence[str | None], otherwise: Kinds | None = None) -> Kinds:
    """A list with a small number for each layer, such as `attn_type_list` of MiniMax: 1 is attention, 0 lightning.

    Numbers whose word is None are not read of this type.
    """

    def kinds(config: Config) -> list[str]:
        flags = config.integers(key, 0, len(words) - 1)
        if flags is None:
            if otherwise is not None:
                return otherwise(config)
            config.expected("a list with a number for each layer", key)
        config.per_layer(key, flags)
        kept = [words[flag] for flag in flags[: config.layers()]]
        for at, word in enumerate(kept):
            if word is None:
                known = " or ".join(str(i) for i, each in enumerate(words) if each is not None)
                config.refuse(f"expected {known}, which {config.model_type} is read with, got {flags[at]}", key, at)
        return [word for word in kept if word is not None]

    return kinds


def lettered(key: str, letters: Mapping[str, str], otherwise: Kinds, lists: Sequence[str]) -> Kinds:
    """One letter for each layer: `hybrid_override_pattern` of Nemotron-H. Its length is the number of layers.

    `lists` are the keys that `otherwise` reads; where one is stated too, both must say the same.
    """

    def kinds(config: Config) -> list[str]:
        pattern = config.text(key)
        if not pattern:
            return otherwise(config)
        unknown = sorted(set(pattern) - set(letters))
        if unknown:
            config.refuse(f"expected the letters {' '.join(letters)}, got {shown(unknown[0])}", key)
        if len(pattern) > MOST_FILE_LAYERS:
            config.refuse(f"expected at most {MOST_FILE_LAYERS:,} layers, got {len(pattern):,}", key)
        stated = config.integer("num_hidden_layers")
        if stated is not None and stated != len(pattern):
            config.refuse(f"expected {stated} letters, one for each layer, got {len(pattern)}", key)
        words = [letters[letter] for letter in pattern]
        if any(config.data.get(listed) for listed in lists) and otherwise(config) != words:
            config.expected("the same layers as the list beside it", key)
        return words

    return kinds
