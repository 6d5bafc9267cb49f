"""The names of transformers' own classes: a layer of a cache, and the cache."""

from kvcalc.core.formula import kept
from kvcalc.core.kinds import attention_class
from kvcalc.core.model import Attention, Cache, Compressed, Indexer, Latent, Layer, Model, Recurrent, Shared
from kvcalc.engines.transformers.generation import Generation

__all__ = ["cache_class", "layer_classes"]


def cache_class(model: Model, run: Generation) -> str | None:
    """The class of the object that `generate` fills; None where each model had its own, or none."""
    caches = model.distinct_caches
    kinds = {cache.kind for cache in caches if isinstance(cache, Recurrent)}
    if "lightning" in kinds:
        return "MiniMaxCache"
    if "rwkv4" in kinds or (kinds and run.version.conv_everywhere):
        return None
    if run.quantised:
        return "QuantizedCache"
    if attention_class(model) == "encoder-decoder":
        return "EncoderDecoderCache"
    return "StaticCache" if run.static else "DynamicCache"


def layer_classes(layer: Layer, run: Generation) -> tuple[str, ...]:
    """The classes of a decoder layer's objects in the cache, mostly one. Some hold nothing."""
    caches = [cache for cache in layer if not isinstance(cache, Shared)]
    if not run.habits.shares:
        caches = [cache.of if isinstance(cache, Shared) else cache for cache in layer]
    state = [c for c in caches if isinstance(c, Recurrent)]
    compressed = [c for c in caches if isinstance(c, Compressed)]
    if compressed:
        return ("DeepseekV4CSACache" if compressed[0].overlap else "DeepseekV4HCACache",)
    if not caches:
        return (run.version.nothing,) if run.version.nothing else ()
    if state and state[0].kind == "lightning":
        return ("DynamicLayer",)
    attending = [c for c in caches if isinstance(c, Attention | Latent)]
    indexed = any(isinstance(c, Indexer) for c in caches)
    if state:
        return (_with_state(attending[0], run) if attending else "LinearAttentionLayer",)
    return tuple(_attention(cache, run, indexed=indexed) for cache in attending)


def _with_state(cache: Cache, run: Generation) -> str:
    static = "Static" if run.static else ""
    window = "SlidingWindowAttention" if _slides(cache, run) else "FullAttention"
    return f"LinearAttentionAnd{static}{window}Layer"


def _attention(cache: Attention | Latent, run: Generation, *, indexed: bool) -> str:
    kind = "Static" if run.static else "Dynamic"
    if run.quantised:
        return {"quanto": "Quanto", "hqq": "HQQ", "fp8": "Fp8"}[run.quantised.backend] + "QuantizedLayer"
    if indexed and isinstance(cache, Attention):
        return f"MiniMaxM3VLSparse{'Static' if run.static else ''}CacheLayer"
    return f"{kind}{'Indexed' if indexed else 'SlidingWindow' if _slides(cache, run) else ''}Layer"


def _slides(cache: Cache, run: Generation) -> bool:
    return bool(kept(cache)) and run.windows
