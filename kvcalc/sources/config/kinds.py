"""Layouts: one function for each way in which published configurations say what kind of cache each layer has.

Each gives one word for each layer, in order; what a word means is the family's business. Numbers of lines and classes
refer to transformers 5.24.0 where nothing else is named.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from kvcalc.errors import KvcalcError, shown
from kvcalc.sources.config.lookup import LAYERS, MOST_FILE_LAYERS, Config

__all__ = [
    "SPELLINGS",
    "Kinds",
    "all_of",
    "as_flagged",
    "as_listed",
    "at_indices",
    "at_offset",
    "by_window_layers",
    "cycle",
    "every",
    "indexers",
    "lettered",
    "local_and_global",
    "no_rope",
    "numbered_from_one",
    "ratios",
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
_WINDOWS = ("sliding_window", "sliding_window_size", "attention_window_size", "window_size")


def all_of(word: str, *counts: str) -> Kinds:
    """Every layer the same. `counts` are the keys that count them, where those are not the usual ones."""
    return lambda config: [word] * config.layers(counts or LAYERS)


def cycle(*words: str) -> Kinds:
    """A block of layers that repeats from the first."""
    return lambda config: list(itertools.islice(itertools.cycle(words), config.layers()))


def every(period: int, *keys: str, word: str = "sliding", last: str = "full") -> Kinds:
    """Full where (index + 1) is a multiple of the period, which `keys` may state: `sliding_window_pattern: 6`.

    EXAONE 4 states it as a string, `LLLG`, which repeats from the first layer; the last layer is always full.
    """

    def kinds(config: Config) -> list[str]:
        key, value = config.get(*keys) if keys else ("", None)
        if isinstance(value, str):
            if not value or set(value) - {"L", "G"}:
                config.expected("a pattern of the letters L and G", key)
            letters = [{"L": word, "G": last}[letter] for letter in value[:MOST_FILE_LAYERS]]
            return [*cycle(*letters)(config)[:-1], last]
        n = period if value is None else config.number(key)
        return [word if (i + 1) % n else last for i in range(config.layers())]

    return kinds


def as_listed(otherwise: Kinds, *keys: str, spellings: Mapping[str, str] = SPELLINGS) -> Kinds:
    """A list with a word for each layer, cut to the number of layers; the class's own layout where there is none.

    A list beats any pattern key. Step 3.5 and DeepSeek V4 append entries for their draft layers.
    """
    keys = keys or ("layer_types",)

    def kinds(config: Config) -> list[str]:
        listed = config.words(*keys)
        if listed is None:
            return otherwise(config)
        config.per_layer(config.get(*keys)[0], listed)
        config.ignore("sliding_window_pattern", "_sliding_window_pattern", "full_attention_interval")
        with suppress(KvcalcError):  # what the list overrides is understood, and does not count
            otherwise(config)
        return [spellings.get(word, word) for word in listed[: config.layers()]]

    return kinds


def window(config: Config) -> int | None:
    """The window in tokens, or None where there is none or where it is switched off."""
    if not config.flag("use_sliding_window", default=True):  # beats any window: Qwen2.5 states 131072 beside it
        config.ignore(*_WINDOWS, "max_window_layers")
        return None
    _, value = config.get(*_WINDOWS)
    if value in (None, 0, -1) or value is False:
        return None
    return config.number(*_WINDOWS)


def windowed(inner: Kinds) -> Kinds:
    """`inner`, in which no layer slides where the window is null or switched off."""

    def kinds(config: Config) -> list[str]:
        if window(config) is None:
            return ["full" if word == "sliding" else word for word in inner(config)]
        return inner(config)

    return kinds


def by_window_layers(slides: Callable[[int, int], bool]) -> Kinds:
    """Qwen: `slides(index, max_window_layers)` says which layers have the window."""

    def kinds(config: Config) -> list[str]:
        if window(config) is None:
            config.ignore("max_window_layers")
            return ["full"] * config.layers()
        most = config.integer("max_window_layers", low=0) or 0
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
        indices = config.integers(key, 0, count - 1)
        if indices is None:
            if without is None:
                config.expected("a list of layer numbers", key)
            return [without] * count
        chosen = set(indices)
        return [word if i in chosen else others for i in range(count)]

    return kinds


def as_flagged(key: str, words: Sequence[str], otherwise: Kinds | None = None) -> Kinds:
    """A list with a small number for each layer, such as `attn_type_list` of MiniMax: 1 is attention, 0 lightning."""

    def kinds(config: Config) -> list[str]:
        flags = config.integers(key, 0, len(words) - 1)
        if flags is None:
            if otherwise is not None:
                return otherwise(config)
            config.expected("a list with a number for each layer", key)
        config.per_layer(key, flags)
        return [words[flag] for flag in flags[: config.layers()]]

    return kinds


def lettered(key: str, letters: Mapping[str, str], otherwise: Kinds) -> Kinds:
    """One letter for each layer: `hybrid_override_pattern` of Nemotron-H. Its length is the number of layers."""

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
        return [letters[letter] for letter in pattern]

    return kinds


def numbered_from_one(config: Config) -> list[str]:
    """Kimi Linear: `linear_attn_config` lists the layers of both kinds, counted from one (KimiLinearConfig).

    The class's layout for a file without the lists differs from that of the published model: such a file is refused.
    """
    inner, count = config.inner("linear_attn_config"), config.layers()
    if inner is None:
        config.expected("the lists full_attn_layers and kda_layers", "linear_attn_config")
    full = inner.integers("full_attn_layers", 1, count) or []
    linear = inner.integers("kda_layers", 1, count) or []
    if sorted([*full, *linear]) != list(range(1, count + 1)):
        inner.refuse(f"expected each of the layers 1 to {count} once, here or in kda_layers", "full_attn_layers")
    chosen = set(full)
    return ["full" if i + 1 in chosen else "linear" for i in range(count)]


def no_rope(config: Config) -> list[str]:
    """Llama 4 (Llama4TextConfig): layers without rotary positions (0 in `no_rope_layers`) attend to everything.

    The published files ship an empty list, which means every fourth layer, like a missing one.
    """
    flags = config.integers("no_rope_layers", 0, 1)
    interval = config.integer("no_rope_layer_interval") or 4
    count = config.layers()
    if flags is None:
        flags = [int((i + 1) % interval != 0) for i in range(count)]
    config.per_layer("no_rope_layers", flags)
    chunk = config.integer("attention_chunk_size")
    return ["chunked" if flag and chunk else "full" for flag in flags[:count]]


def local_and_global(config: Config) -> list[str]:
    """GPT-Neo: `attention_types: [[["global", "local"], 16]]`, blocks and how often each repeats."""
    count = config.layers()
    words: list[str] = []
    for at, entry in enumerate(config.array("attention_types") or [[["global", "local"], -(-count // 2)]]):
        match entry:
            case [[*block], int(times)] if 0 < times <= MOST_FILE_LAYERS and set(map(str, block)) <= {
                "global",
                "local",
            }:
                words += [SPELLINGS[str(word)] for word in block[:MOST_FILE_LAYERS]] * times
            case _:
                config.refuse(f'expected [["global", "local"], N], got {shown(entry)}', "attention_types", at)
        if len(words) >= count:
            break
    config.per_layer("attention_types", words)
    return words[:count]


def indexers(period: Callable[[int], bool] | None = None) -> Kinds:
    """DeepSeek sparse attention: which layers own an indexer ("indexed"), while the others reuse its choice ("full").

    `indexer_types`, else `index_topk_pattern` (F and S), else `index_topk_freq` and its offset, else all of them, or
    what `period(index)` says (GlmMoeDsaConfig, MistralLarge4TextConfig, HYV4Config).
    """

    def kinds(config: Config) -> list[str]:
        count = config.layers()
        config.ignore("layer_types")
        key, value = config.get("indexer_types")
        if value is None:
            key, value = config.get("index_topk_pattern")
        schedule = config.integer("index_topk_freq") or 1, config.integer("index_skip_topk_offset", low=0)
        if value is not None:
            listed = list(value[:65536]) if isinstance(value, str) else config.words(key) or []
            config.per_layer(key, listed)
            words = {"full": "indexed", "F": "indexed", "shared": "full", "S": "full"}
            for at, word in enumerate(listed):
                if word not in words:
                    config.refuse(f"expected full or shared, got {shown(word)}", key, at)
            return [words[word] for word in listed[:count]]
        if period is not None:
            return ["indexed" if period(i) else "full" for i in range(count)]
        freq, offset = schedule[0], 2 if schedule[1] is None else schedule[1]
        return ["indexed" if max(i - offset + 1, 0) % freq == 0 else "full" for i in range(count)]

    return kinds


def ratios(config: Config) -> list[str]:
    """DeepSeek V4: `compress_ratios`, 0 for a window alone, 4 and 128 for compressed entries beside it."""
    listed = config.integers("compress_ratios")
    if listed is None:
        config.expected("a list with the ratio of each layer", "compress_ratios")
    config.per_layer("compress_ratios", listed)
    for at, ratio in enumerate(listed):
        if ratio not in (0, 4, 128):
            config.refuse(f"expected 0, 4 or 128, got {shown(ratio)}", "compress_ratios", at)
    return [str(ratio) for ratio in listed[: config.layers()]]
