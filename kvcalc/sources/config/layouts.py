"""Layouts of single classes: what each does where a file has no list of layers, or lists them in a way of its own."""

from kvcalc.errors import shown
from kvcalc.sources.config.kinds import SPELLINGS, Kinds, as_listed, at_indices, by_rule, every, window
from kvcalc.sources.config.lookup import MOST_FILE_LAYERS, Config
from kvcalc.sources.config.numbers import HEADS, KV_HEADS
from kvcalc.sources.config.special import block_group

__all__ = [
    "BLOCK_LISTS",
    "bamba_layers",
    "block_types",
    "cohere_layers",
    "compressed_layers",
    "doubled_layers",
    "flint_layers",
    "full_at_last",
    "griffin_layers",
    "inkling_layers",
    "lfm3_layers",
    "ling_groups",
    "local_and_global",
    "m3_layers",
    "mimo_layers",
    "muse_layers",
    "no_rope",
    "numbered_from_one",
    "pruned_blocks",
    "rope_flags",
    "smol_layers",
    "states_alone",
    "zamba2_layers",
    "zamba_layers",
]


def no_rope(config: Config) -> list[str]:
    """Llama 4 (Llama4TextConfig): layers without rotary positions (0 in `no_rope_layers`) attend to everything.

    The published files ship an empty list, which means every fourth layer, like a missing one.
    """
    flags = rope_flags(config)
    chunk = config.integer("attention_chunk_size")
    return ["chunked" if flag and chunk else "full" for flag in flags]


def rope_flags(config: Config, default_interval: int | None = None) -> list[int]:
    """Whether each layer has rotary positions: `no_rope_layers`, else all but one in `no_rope_layer_interval`."""
    flags, count = config.integers("no_rope_layers", 0, 1), config.layers()
    if flags is None:
        interval = config.integer("no_rope_layer_interval") or default_interval
        if interval is None:
            config.expected("how often a layer has no rotary positions", "no_rope_layer_interval")
        if config.lists_none("no_rope_layer_interval") and default_interval is not None:
            config.assume("no_rope_layer_interval", interval)
        return [int((i + 1) % interval != 0) for i in range(count)]
    config.per_layer("no_rope_layers", flags)
    return flags[:count]


def local_and_global(config: Config) -> list[str]:
    """GPT-Neo: `attention_types: [[["global", "local"], 12]]`, blocks and how often each repeats, for all layers.

    A list of another length is refused, as GPTNeoConfig does; so is one that `attention_layers`, written out, denies.
    """
    count = config.layers()
    words: list[str] = []
    for at, entry in enumerate(config.array("attention_types") or []):
        match entry:
            case [[*block], int(times)] if 0 < times <= MOST_FILE_LAYERS and set(map(str, block)) <= {
                "global",
                "local",
            }:
                words += [str(word) for word in block[:MOST_FILE_LAYERS]] * times
            case _:
                config.refuse(f'expected [["global", "local"], N], got {shown(entry)}', "attention_types", at)
        if len(words) > count:
            break
    config.per_layer("attention_types", words)
    if config.words("attention_layers") not in (None, words):
        config.expected("the same layers as attention_types", "attention_layers")
    return [SPELLINGS[word] for word in words[:count]]


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


def ratios(config: Config) -> list[str]:
    """DeepSeek V4: `compress_ratios`, 0 for a window alone, 4 and 128 for compressed entries beside it."""
    listed = config.integers("compress_ratios")
    if listed is None:
        config.expected("a list with the ratio of each layer", "compress_ratios")
    config.per_layer("compress_ratios", listed)
    for at, ratio in enumerate(listed):
        if ratio not in (0, 4, 128):
            config.refuse(f"expected 0, 4 or 128, got {shown(ratio)}", "compress_ratios", at)
    return [str(ratio or "sliding") for ratio in listed[: config.layers()]]


def compressed_layers(config: Config) -> list[str]:
    """DeepSeek V4: the ratios, or the words for them that transformers saves, with `compress_rates` to say what of."""
    rates = config.inner("compress_rates")
    for word, ratio in (("compressed_sparse_attention", 4), ("heavily_compressed_attention", 128)):
        if rates is not None and rates.integer(word) not in (None, ratio):
            rates.expected(f"{ratio}, which {config.model_type} is read with", word)
    return as_listed(ratios, beside=("compress_ratios",))(config)


def doubled_layers(config: Config) -> list[str]:
    """LongCat Flash: `num_layers` blocks; `num_hidden_layers` counts both attentions of each (LongcatFlashConfig)."""
    both = config.integer("num_hidden_layers")
    if both is not None and config.lists_none("num_layers"):
        config.expected("num_layers beside it, which counts the blocks of two attentions", "num_hidden_layers")
    count = config.layers(("num_layers",))
    if both not in (None, 2 * count):
        config.expected(f"{2 * count}, two in each of num_layers", "num_hidden_layers")
    return ["full"] * count


def full_at_last(inner: Kinds) -> Kinds:
    """Gemma 4: the last layer is made a full one, whatever the list says (Gemma4TextConfig)."""
    return lambda config: [*inner(config)[:-1], "full"]


@by_rule
def muse_layers(config: Config) -> list[str]:
    """Muse: full attention on the last layer and every fourth one before it (MuseGlimmerTextConfig)."""
    count = config.layers()
    return ["sliding" if (count - 1 - i) % 4 else "full" for i in range(count)]


@by_rule
def flint_layers(config: Config) -> list[str]:
    """Flint: full attention on the first two layers, every fourth and the last one (FlintConfig)."""
    count = config.layers()
    return ["full" if i < 2 or i % 4 == 1 or i == count - 1 else "sliding" for i in range(count)]


@by_rule
def mimo_layers(config: Config) -> list[str]:
    """MiMo V2: full attention on the first layer and every sixth one (MiMoV2FlashConfig)."""
    return ["full" if i == 0 or (i + 1) % 6 == 0 else "sliding" for i in range(config.layers())]


@by_rule
def lfm3_layers(config: Config) -> list[str]:
    """LFM3 (Lfm3Config)."""
    return ["full" if i % 4 == 2 else "sliding" if i % 4 == 0 and i else "conv" for i in range(config.layers())]


def cohere_layers(config: Config) -> list[str]:
    """Cohere 2 MoE: the first, dense layers have a pattern of their own (Cohere2MoeConfig)."""
    dense = min(config.integer("first_k_dense_replace", low=0) or 0, config.layers())
    period = config.number("prefix_dense_sliding_window_pattern")
    rest = every(4, "sliding_window_pattern")(config)
    return ["sliding" if (i + 1) % period else "full" for i in range(dense)] + rest[: len(rest) - dense]


def smol_layers(config: Config) -> list[str]:
    """SmolLM3: a window, if it is in use at all, on the layers without rotary positions (SmolLM3Config)."""
    if window(config) is None:
        config.ignore("no_rope_layers", "no_rope_layer_interval")
        return ["full"] * config.layers()
    return ["full" if flag else "sliding" for flag in rope_flags(config)]


def m3_layers(config: Config) -> list[str]:
    """MiniMax-M3: `sparse_attention_freq` flags the layers with an index key (MiniMaxM3VLTextConfig)."""
    inner = config.inner("sparse_attention_config")
    if inner is None or not inner.flag("use_sparse_attention", default=True):
        return ["full"] * config.layers()
    flags = inner.integers("sparse_attention_freq", 0, 1)
    if flags is None:
        inner.expected("a list with a number for each layer", "sparse_attention_freq")
    inner.per_layer("sparse_attention_freq", flags, config.layers())
    return ["indexed" if flag else "full" for flag in flags[: config.layers()]]


def griffin_layers(config: Config) -> list[str]:
    """Recurrent Gemma: a block of layers that repeats; every attention layer has the window (RecurrentGemmaConfig)."""
    config.ignore("_block_types")
    block = config.words("block_types", "layers_block_type")
    if block is None:
        config.by_rule, block = True, ["recurrent", "recurrent", "attention"]
    words = {
        "recurrent": "linear",
        "linear_attention": "linear",
        "attention": "sliding",
        "sliding_attention": "sliding",
    }
    return [words.get(block[i % len(block)], block[i % len(block)]) for i in range(config.layers())]


BLOCK_LISTS = ("layers_block_type", "layer_types")


def block_types(config: Config) -> list[str]:
    """Nemotron-H: a list of blocks, whose length is the number of layers where none is stated (Nemotron 3 Ultra)."""
    lists = {key: words for key in BLOCK_LISTS if (words := config.words(key)) is not None}
    spelt = {key: [SPELLINGS.get(word, word) for word in words] for key, words in lists.items()}
    if not spelt:
        config.expected("a letter for each layer, or layers_block_type", "hybrid_override_pattern")
    (first, listed), *rest = spelt.items()
    for key, words in rest:
        if words != listed:
            config.expected(f"the same layers as {first}", key)
    count = config.integer("num_hidden_layers") or len(listed)
    if count != len(listed) or count > MOST_FILE_LAYERS:
        config.expected(f"{len(listed)}, as {first} has, and at most {MOST_FILE_LAYERS:,}", "num_hidden_layers")
    return listed


def inkling_layers(config: Config) -> list[str]:
    """Inkling: the indices of the sliding layers, else all but every sixth (InklingTextConfig)."""
    if config.array("local_layer_ids") is None:
        return every(6, word="hybrid_sliding", last="hybrid")(config)
    return at_indices("local_layer_ids", "hybrid_sliding", "hybrid")(config)


def pruned_blocks(config: Config) -> list[str]:
    """Nemotron-NAS: `block_configs[i].attention` may have no attention, or a linear layer in its place."""
    count = config.layers()
    blocks = config.array("block_configs")
    if blocks is None:
        config.expected("a list with a block for each layer", "block_configs")
    config.per_layer("block_configs", blocks)
    return ["noop" if block_group(config, i)[0] is None else "full" for i in range(count)]


def states_alone(config: Config) -> list[str]:
    """Granite 4 hybrid without a list of layers: its class makes none an attention layer (GraniteMoeHybridConfig).

    A file that states heads of attention all the same has lost its list, which differs from model to model.
    """
    return _states_alone(config, "layer_types")


def bamba_layers(config: Config) -> list[str]:
    """Bamba: the indices of the attention layers; the class has none where they are missing (BambaConfig)."""
    if not config.data.get("attn_layer_indices"):
        config.ignore("attn_layer_indices")
        return _states_alone(config, "attn_layer_indices")
    return at_indices("attn_layer_indices", "full", "linear")(config)


def _states_alone(config: Config, key: str) -> list[str]:
    if any(config.data.get(stated) for stated in (*HEADS, *KV_HEADS)):
        config.expected("which layers have the attention whose heads the file states", key)
    config.by_rule = True
    return ["linear"] * config.layers()


def zamba_layers(config: Config) -> list[str]:
    """Zamba's own layout: a hybrid third layer, then by period and offset (ZambaConfig)."""
    period, offset = config.number("attn_layer_period"), config.number("attn_layer_offset", low=0)
    start = ["linear", "linear", "hybrid"]
    count = config.layers()
    return (start + ["hybrid" if i % period == offset else "linear" for i in range(count - 3)])[:count]


def zamba2_layers(config: Config) -> list[str]:
    """Zamba2: a list of blocks, or the indices of the hybrid ones. Each hybrid position keeps a cache of its own."""
    spellings = {"mamba": "linear", "m": "linear", "linear_attention": "linear", "g": "hybrid"}
    indices = at_indices("hybrid_layer_ids", "hybrid", "linear")
    return as_listed(indices, "layers_block_type", "layer_types", spellings=spellings, beside=("hybrid_layer_ids",))(
        config
    )


def ling_groups(config: Config) -> list[str]:
    """Ling and Ring with lightning attention: the last layer of each group is full, the others linear.

    Layers behind the last whole group are full in the remote code and in MLX-LM, and linear in vLLM: a file that has
    some is refused.
    """
    if config.data.get("layer_group_size") is None:
        config.expected("the number of layers of a group", "layer_group_size")
    size, count = config.number("layer_group_size"), config.layers()
    if count % size:
        config.expected(
            f"a divisor of the {count} layers, since engines differ about those of no group", "layer_group_size"
        )
    return ["linear" if (i + 1) % size else "full" for i in range(count)]
