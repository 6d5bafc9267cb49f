"""What is asked of a cache by its kind: its word, whose tokens it holds, whether heads look at it.

Each answer is a `match` that names all kinds, so that the type checker asks for the answer of a new one.
"""

from typing import TypeGuard, assert_never

from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Kind, Latent, Model, Recurrent, Shared

__all__ = ["attends", "attention_class", "encodes", "kind", "one_vector"]


def kind(cache: Cache) -> Kind:
    """The word for a cache in reports and JSON."""
    match cache:
        case Attention(pattern=pattern):
            return pattern
        case Latent():
            return "latent"
        case Indexer():
            return "indexer"
        case Compressed():
            return "compressed"
        case Recurrent():
            return "recurrent"
        case Shared():
            return "shared"
        case _:
            assert_never(cache)


def encodes(cache: Cache) -> bool:
    """Whether a cache holds the encoder's tokens, of which no more come, and not those of the sequence."""
    match cache:
        case Attention(pattern=pattern):
            match pattern:
                case "cross":
                    return True
                case "full" | "sliding" | "chunked":
                    return False
                case _:
                    assert_never(pattern)
        case Latent() | Indexer() | Compressed() | Recurrent() | Shared():
            return False
        case _:
            assert_never(cache)


def attends(cache: Cache) -> TypeGuard[Attention | Latent | Compressed]:
    """Whether heads look at what a cache holds, so that it has query heads."""
    match cache:
        case Attention() | Latent() | Compressed():
            return True
        case Indexer() | Recurrent() | Shared():
            return False
        case _:
            assert_never(cache)


def one_vector(cache: Cache) -> bool:
    """Whether a cache is by its kind one vector for all heads, as key and as value, and so has one format."""
    match cache:
        case Latent() | Compressed():
            return True
        case Attention() | Indexer() | Recurrent() | Shared():
            return False
        case _:
            assert_never(cache)


def attention_class(model: Model) -> str:
    """`mha`, `mqa`, `gqa`, `mla`, `hybrid`, `ssm` or `encoder-decoder`; windowed models keep the first three."""
    caches = model.distinct_caches
    recurrent = any(isinstance(c, Recurrent) for c in caches)
    attending = [c for c in caches if attends(c)]
    if recurrent:
        return "hybrid" if attending else "ssm"
    # Self and cross attention in the same layer; Llama 3.2 Vision has layers of cross attention alone, and is not one.
    if any({True, False} <= {encodes(c) for c in layer if isinstance(c, Attention)} for layer in model.distinct_layers):
        return "encoder-decoder"
    if any(isinstance(c, Latent) for c in attending):
        return "mla"
    per_head = [c for c in attending if isinstance(c, Attention) and c.kv_heads]
    most = max((c.kv_heads for c in per_head), default=1)
    heads = max((c.heads for c in per_head), default=1)
    return "mha" if most == heads else "mqa" if most == 1 else "gqa"
