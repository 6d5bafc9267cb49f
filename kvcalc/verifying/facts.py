"""What a model's layers are, in the names that published configurations have for it.

A setter takes a model and gives keys of a config.json; `expressing` says which of them a model type has. Where one
number stands for all layers the first speaks for them: what that does not say shows when it is read back.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar, assert_never

from kvcalc.core.kinds import encodes
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Model, Pattern, Recurrent, Shared
from kvcalc.errors import KvcalcError

__all__ = [
    "Facts",
    "Setter",
    "attention_types",
    "chunks",
    "compressed",
    "cross_layers",
    "depth",
    "first",
    "gemma4_heads",
    "halves",
    "heads",
    "heads_per_layer",
    "indexers",
    "inner_heads",
    "latent_sources",
    "latents",
    "layer_types",
    "multi_query",
    "shared_layers",
    "split_heads",
    "windows",
    "words",
]

Facts = dict[str, object]
Setter = Callable[[Model], Facts]
Kept = TypeVar("Kept", Attention, Compressed, Indexer, Latent, Recurrent)


def _stored(layer: Layer) -> Iterator[Cache]:
    """The caches of a layer; where it reuses one, that one."""
    for cache in layer:
        yield cache.of if isinstance(cache, Shared) else cache


def _every(model: Model, kept: type[Kept]) -> list[Kept]:
    """Every cache of a class, in the order of layers."""
    return [cache for layer in model.layers for cache in _stored(layer) if isinstance(cache, kept)]


def first(model: Model, kept: type[Kept]) -> Kept:
    """The first cache of a class."""
    found = _every(model, kept)
    if not found:
        raise _foreign(model, f"a {kept.__name__.lower()} cache")
    return found[0]


def _attending(model: Model, *patterns: Pattern) -> Attention:
    """The first attention cache of one of some patterns, the first of which is preferred."""
    found = [cache for pattern in patterns for cache in _every(model, Attention) if cache.pattern == pattern]
    if not found:
        raise _foreign(model, f"{patterns[0]} attention")
    return found[0]


def _foreign(model: Model, what: str) -> KvcalcError:
    """Raised for a model whose layers are not what its model type says."""
    return KvcalcError(f"model_type: expected one without {what}, as the layers are, got {model.model_type}")


def _span(model: Model, pattern: Pattern) -> int | None:
    """The window or chunk of a model, None where it has none."""
    return next((cache.span for cache in _every(model, Attention) if cache.pattern == pattern), None)


def _word(layer: Layer) -> str:
    """The word for a layer in `layer_types`."""
    caches = list(_stored(layer))
    recurrent = [cache for cache in caches if isinstance(cache, Recurrent)]
    if recurrent:
        return "hybrid" if len(caches) > len(recurrent) else "linear_attention"
    if any(isinstance(cache, Indexer) for cache in caches):
        return "indexed_attention"
    windows = [word for cache in caches if isinstance(cache, Attention) if (word := _window_word(cache))]
    return windows[0] if windows else "full_attention" if caches else "mlp"


def _window_word(cache: Attention) -> str | None:
    """The word for a layer whose attention forgets."""
    match cache.pattern:
        case "sliding":
            return "sliding_attention"
        case "chunked":
            return "chunked_attention"
        case "full" | "cross":
            return None
        case _:
            assert_never(cache.pattern)


def words(model: Model, **renamed: str) -> list[str]:
    """A word for each layer, as `layer_types` spells it or as a class does."""
    return [renamed.get(word, word) for word in map(_word, model.layers)]


def depth(model: Model) -> Facts:
    return {"num_hidden_layers": len(model.layers)}


def layer_types(**renamed: str) -> Setter:
    return lambda model: {"layer_types": words(model, **renamed)}


def heads(model: Model) -> Facts:
    """The heads of full layers, else of the others. The model is as wide as they are, since many classes divide it."""
    one = _attending(model, "full", "sliding", "chunked")
    return {
        "hidden_size": one.heads * one.k_dim,
        "num_attention_heads": one.heads,
        "num_key_value_heads": one.kv_heads,
        "head_dim": one.k_dim,
    }


def split_heads(model: Model) -> Facts:
    """MiMo V2: values of another width, and heads of sliding layers (which the class takes to be twice as many)."""
    full, sliding = _attending(model, "full"), _attending(model, "sliding")
    return {"v_head_dim": full.v_dim, "swa_num_key_value_heads": sliding.kv_heads}


def multi_query(model: Model) -> Facts:
    """GPT BigCode and old Falcon: one head for all queries, or as many as these; new Falcon: groups."""
    one = _attending(model, "full")
    grouped = one.kv_heads not in (1, one.heads)
    return {"multi_query": one.kv_heads == 1, "new_decoder_architecture": grouped, "num_kv_heads": one.kv_heads}


def inner_heads(model: Model) -> Facts:
    """DBRX, with the two published numbers for which its class has no default that can be computed."""
    return {"attn_config": {"kv_n_heads": _attending(model, "full").kv_heads, "rope_theta": 500000.0, "clip_qkv": 8}}


def heads_per_layer(model: Model) -> Facts:
    return {"num_attention_heads_per_layer": [cache.heads for cache in _every(model, Attention)]}


def windows(key: str = "sliding_window") -> Setter:
    """The window, and that it is in use (Qwen)."""

    def setter(model: Model) -> Facts:
        span = _span(model, "sliding")
        return {key: span, "use_sliding_window": span is not None}

    return setter


def chunks(model: Model) -> Facts:
    flags = [int(word == "chunked_attention") for word in words(model)]
    return {"attention_chunk_size": _span(model, "chunked"), "no_rope_layers": flags}


def attention_types(model: Model) -> Facts:
    """GPT-Neo: blocks of layers and how often each repeats."""
    named = words(model, full_attention="global", sliding_attention="local")
    return {"attention_types": [[[word], 1] for word in named]}


def shared_layers(model: Model) -> Facts:
    return {"num_kv_shared_layers": sum(isinstance(cache, Shared) for cache in model.caches())}


def gemma4_heads(model: Model) -> Facts:
    """Gemma 4: the heads at the top are those of sliding layers."""
    sliding, full = _attending(model, "sliding", "full"), _attending(model, "full")
    own = full.kv_heads != sliding.kv_heads
    return {
        "num_attention_heads": sliding.heads,
        "num_key_value_heads": sliding.kv_heads,
        "head_dim": sliding.k_dim,
        "global_head_dim": full.k_dim,
        "attention_k_eq_v": own,
        "num_global_key_value_heads": full.kv_heads if own else None,
    }


def latents(model: Model) -> Facts:
    """The latent, and the heads before compression. The width of the model does not enter."""
    one = first(model, Latent)
    return {
        "num_attention_heads": one.heads,
        "num_key_value_heads": one.heads,
        "kv_lora_rank": one.rank,
        "qk_rope_head_dim": one.rope,
        "qk_nope_head_dim": one.k_dim - one.rope,
        "v_head_dim": one.v_dim,
    }


def latent_sources(model: Model) -> Facts:
    """Mistral Large 4: layers without rotary positions, and the layer whose latent each layer uses."""
    ropes, sources, last = [], [], dict[Cache, int]()
    for at, layer in enumerate(model.layers):
        kept = next(cache for cache in _stored(layer) if isinstance(cache, Latent))
        ropes.append(int(kept.rope > 0))
        if kept in layer:
            last[kept] = at
        sources.append(last[kept])
    return {"no_rope_layers": ropes, "kv_source_layers": sources}


def indexers(model: Model) -> Facts:
    """The index key, and which layers have one of their own; MiniMax-M3 may have none."""
    if not _every(model, Indexer):
        return {}
    one = first(model, Indexer)
    own = ["full" if any(isinstance(cache, Indexer) for cache in layer) else "shared" for layer in model.layers]
    return {"index_head_dim": one.dim, "index_block_size": one.block, "indexer_types": own}


def compressed(model: Model) -> Facts:
    """DeepSeek V4: a window in which one vector is key and value, and a ratio for each layer."""
    one = _attending(model, "sliding")
    return {
        "num_attention_heads": one.heads,
        "num_key_value_heads": one.kv_heads,
        "head_dim": one.k_dim,
        "qk_rope_head_dim": one.rope,
        "compress_ratios": [
            next((cache.ratio for cache in layer if isinstance(cache, Compressed)), 0) for layer in model.layers
        ],
        "index_head_dim": max((cache.indexer for cache in _every(model, Compressed)), default=0),
    }


def cross_layers(model: Model) -> Facts:
    """Llama 3.2 Vision: the layers that look at the image alone."""
    cross = [i for i, layer in enumerate(model.layers) if any(encodes(cache) for cache in layer)]
    return {"cross_attention_layers": cross}


def halves(model: Model) -> Facts:
    """A decoder that looks at the output of an encoder just as deep (T5 takes the depth of its cache from there)."""
    one, cross, count = _attending(model, "full"), _attending(model, "cross"), len(model.layers)
    named: Facts = {
        "d_model": one.heads * one.k_dim,
        **dict.fromkeys(("decoder_layers", "encoder_layers", "num_decoder_layers", "num_layers"), count),
        **dict.fromkeys(("decoder_attention_heads", "encoder_attention_heads", "num_heads"), one.heads),
        "d_kv": one.k_dim,
    }
    return named if cross.span is None else {**named, "max_source_positions": cross.span}
