"""Architectures of llama.cpp, and which caches each block of a model of theirs holds.

Described is the model, not what llama.cpp reserves: a window that llama.cpp ignores or replaces is written as the file
has it. Rules: load_arch_hparams in src/models/ARCH.cpp, create_memory in src/llama-model.cpp (llama.cpp 0c1e57098).
"""

from collections.abc import Callable

from kvcalc.sources.gguf.blocks import MOST_BLOCKS, Blocks, Cache, Layer
from kvcalc.sources.gguf.latent import LATENT, glm5_attention, latent, qwen4_attention
from kvcalc.sources.gguf.windows import WINDOWED

__all__ = ["ARRANGED", "FAMILIES", "NO_CACHE", "Family"]

Family = Callable[[Blocks], Callable[[int], Layer]]  # from the blocks of a model to the caches of block i
_State = Callable[[Blocks], Layer]  # the caches of a block that keeps a state


def _plain(blocks: Blocks) -> Callable[[int], Layer]:
    """Every block attends to everything."""
    return lambda i: (blocks.attention(i),)


def _expanded_latent(blocks: Blocks) -> Callable[[int], Layer]:
    """MiniCPM3 and PLM: latent attention, of which llama.cpp, and so the file, keeps every head."""
    rank = blocks.keys.required("attention.kv_lora_rank")
    blocks.keys.notes.append(
        f"The model's attention is latent, of rank {rank:,}, but its GGUF files keep all heads, as is written here."
    )
    return _plain(blocks)


def _states(state: _State) -> Family:
    """Every block has a state and nothing else."""

    def family(blocks: Blocks) -> Callable[[int], Layer]:
        layer = state(blocks)
        return lambda _: layer

    return family


def _where_no_heads(state: _State, attention: Family = _plain) -> Family:
    """A block without KV heads has a state instead; draft blocks always attend."""

    def family(blocks: Blocks) -> Callable[[int], Layer]:
        layer, attend = state(blocks), attention(blocks)
        return lambda i: attend(i) if blocks.kv_heads[i] or i >= blocks.trunk else layer

    return family


def _every(interval: int, state: _State, attention: Family = _plain) -> Family:
    """Attention in each `interval`-th block (full_attention_interval), or where recurrent_layers has a 0."""

    def family(blocks: Blocks) -> Callable[[int], Layer]:
        keys, layer, attend = blocks.keys, state(blocks), attention(blocks)
        stated = keys.number("full_attention_interval", 1)
        every = stated or interval
        recurrent = keys.each("attention.recurrent_layers", blocks.total, among=(blocks.trunk,))
        if recurrent is None:
            if stated is None:
                keys.default("full_attention_interval", interval)
            recurrent = [(i + 1) % every for i in range(blocks.trunk)]
        return lambda i: layer if i < blocks.trunk and recurrent[i] else attend(i)

    return family


def _lfm2(blocks: Blocks) -> Callable[[int], Layer]:
    """Short convolutions, and attention that slides if a window is given."""
    window = blocks.keys.number("attention.sliding_window") or 0

    def attention(own: Blocks) -> Callable[[int], Layer]:
        return lambda i: (own.attention(i, "sliding", window) if window else own.attention(i),)

    return _where_no_heads(_shortconv, attention)(blocks)


def _falcon_h1(blocks: Blocks) -> Callable[[int], Layer]:
    """Every block attends and has a state."""
    state = blocks.mamba2()
    return lambda i: (blocks.attention(i), state)


def _nemotron_h(blocks: Blocks) -> Callable[[int], Layer]:
    """Three sorts of blocks: attention, Mamba 2, and feed-forward blocks, which alone have a feed-forward length."""
    state = blocks.mamba2()
    feed_forward = blocks.keys.each("feed_forward_length", blocks.total)
    if feed_forward is None or all(feed_forward):
        blocks.keys.refuse("feed_forward_length", "one number for each block, 0 for attention and Mamba blocks")

    def layer(i: int) -> Layer:
        if i < blocks.trunk and feed_forward[i]:
            return ()
        if blocks.kv_heads[i]:
            return (blocks.attention(i),)
        return (state,) if i < blocks.trunk else ()

    return layer


def _qwen4(blocks: Blocks) -> Callable[[int], Layer]:
    """As Qwen 3.5, with index keys; one block also keeps the last n-grams for a convolution over their embeddings."""
    keys = blocks.keys
    layer = _every(4, _deltanet, qwen4_attention)(blocks)
    keys.each("attention.compress_ratios", blocks.total)  # how many tokens the index chooses together; all are kept
    value = keys.get("ple.layers")
    if not value:
        return layer
    if not isinstance(value, list) or len(value) != 1 or type(value[0]) is not int or not 0 <= value[0] < blocks.trunk:
        keys.refuse("ple.layers", f"one block below {blocks.trunk:,}")  # qwen4exp.cpp takes no more than one
    streams = keys.required("hyper_connection.count", high=64)
    width = keys.required("ple.ngram_size", high=64) * streams * keys.required("embedding_length")
    ngrams = Cache("ngrams", "shortconv", {"width": width, "conv": keys.required("ple.conv_kernel")})
    return lambda i: (*layer(i), ngrams) if i == value[0] else layer(i)


def _t5(blocks: Blocks) -> Callable[[int], Layer]:
    """The decoder: its own tokens and those of the encoder. llama.cpp computes the latter anew, and caches none."""
    attention = blocks.attention(0)
    cross = Cache("cross", "cross", {**attention.fields, "tokens": "input"})
    blocks.keys.notes.append("llama.cpp keeps no cache of the encoder's keys and values, which the model needs.")
    return lambda _: (attention, cross)


def _decoder(blocks: Blocks, layers: list[Layer]) -> list[Layer]:
    """block_count is the encoder's; the decoder has a count of its own where it differs."""
    count = blocks.keys.number("decoder_block_count", 1, MOST_BLOCKS)
    if count is None:
        blocks.keys.default("decoder_block_count", len(layers))
    return layers[:1] * (count or len(layers))


def _loops(blocks: Blocks, layers: list[Layer]) -> list[Layer]:
    """Nanbeige runs its blocks several times, with caches for each time (nanbeige.cpp)."""
    loops = blocks.keys.number("num_loops", 1, MOST_BLOCKS // len(layers)) or 1
    if loops > 1:
        blocks.keys.notes.append(f"The {len(layers):,} blocks run {loops} times, each time with a cache of its own.")
    return layers * loops


def _router(blocks: Blocks, layers: list[Layer]) -> list[Layer]:
    """Granite Switch chooses its adapters by one more layer of attention, of a single head (granite-switch.cpp)."""
    k_dim, v_dim = blocks.widths()
    return [*layers, (Cache("router", "full", {"heads": 1, "kv_heads": 1, "k_dim": k_dim, "v_dim": v_dim}),)]


def _mamba1(blocks: Blocks) -> Layer:
    return (blocks.mamba1(),)


def _mamba2(blocks: Blocks) -> Layer:
    return (blocks.mamba2(),)


def _deltanet(blocks: Blocks) -> Layer:
    return (blocks.deltanet(),)


def _kda(blocks: Blocks) -> Layer:
    return (blocks.kda(),)


def _shortconv(blocks: Blocks) -> Layer:
    return (blocks.shortconv(),)


def _lightning(blocks: Blocks) -> Layer:
    return (blocks.lightning(),)


_PLAIN = """
    apertus arcee arctic baichuan bailingmoe bailingmoe2 bitnet bloom chameleon chatglm codeshell cogvlm command-r dbrx
    deci deepseek deepseek2-ocr dots1 ernie4_5 ernie4_5-moe exaone falcon gemma glm4 glm4moe gpt2 gptneox granite
    granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 internlm2 jais jais2
    maincoder minicpm minimax-m2 mistral3 mpt nanbeige nemotron olmo olmoe openelm orion paddleocr pangu-embedded phi2
    plamo pockettts qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3tts qwen3vl qwen3vlmoe refact seed_oss smollm3
    stablelm starcoder starcoder2 talkie xverse
"""

FAMILIES: dict[str, Family] = {
    **dict.fromkeys(_PLAIN.split(), _plain),
    **WINDOWED,
    **LATENT,
    **dict.fromkeys(("minicpm3", "plm"), _expanded_latent),
    "t5": _t5,
    "mamba": _states(_mamba1),
    "mamba2": _states(_mamba2),
    **dict.fromkeys(("rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"), _states(Blocks.rwkv)),
    "jamba": _where_no_heads(_mamba1),
    **dict.fromkeys(("granitehybrid", "plamo2"), _where_no_heads(_mamba2)),
    "falcon-h1": _falcon_h1,
    **dict.fromkeys(("nemotron_h", "nemotron_h_moe"), _nemotron_h),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), _every(4, _deltanet)),
    "qwen4exp": _qwen4,
    "minimax-01": _every(8, _lightning),
    **dict.fromkeys(("kimi-linear", "kimi-k3", "bailingmoe3"), _where_no_heads(_kda, latent)),
    "glm5-next": _where_no_heads(_kda, glm5_attention),
    "lfm2": _lfm2,
    "lfm2moe": _where_no_heads(_shortconv),
}

# Architectures whose layers are not simply the blocks of the trunk, one after the other.
ARRANGED: dict[str, Callable[[Blocks, list[Layer]], list[Layer]]] = {
    "t5": _decoder,
    "nanbeige": _loops,
    "graniteswitch": _router,
}

_ENCODER = "an encoder, which keeps no cache"
_DIFFUSION = "a diffusion model, which computes all tokens anew and keeps no cache"
_DRAFT = "a draft model, which reads the states of the model it drafts for"
_PART = "a part for images or sound, without a language model"

# What is known and has no cache to describe (create_memory, and llama-embed.cpp, which builds its graph without one).
NO_CACHE = {
    **dict.fromkeys(
        ("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
         "gemma-embedding", "llama-embed", "t5encoder"), _ENCODER),
    **dict.fromkeys(("dream", "llada", "llada-moe", "rnd1"), _DIFFUSION),
    **dict.fromkeys(("eagle3", "dflash", "gemma4-assistant"), _DRAFT),
    **dict.fromkeys(("clip", "wavtokenizer-dec"), _PART),
}  # fmt: skip
