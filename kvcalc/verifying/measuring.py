"""A real cache, filled by a real forward pass, and its bytes layer by layer.

On the meta device tensors have shapes and no values. Where a model's code asks for one (is anything masked? was an
expert chosen?), all are said to be zero: what a cache keeps does not depend on it.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from kvcalc.verifying.building import attempt

__all__ = ["Reading", "readings"]

# Bookkeeping of a few bytes a layer that the prediction leaves out.
_BOOKKEEPING = ("_sliding_window_tensor", "cumulative_length", "indexer_position_ids")

LayerBytes = dict[str, int]


class Reading(NamedTuple):
    """Bytes of the tensors of each layer, by their names in the cache, once it holds `tokens` tokens.

    `held_bytes` is the storage that they keep alive: a window is a view of a longer tensor.
    """

    step: str
    tokens: int
    layers: list[LayerBytes]
    held_bytes: int


def readings(model: Any, batch: int, context: int, encoder_tokens: int | None) -> Iterator[Reading]:
    """Prefill all tokens but one, then decode one; the cache after each of the two."""
    import torch

    inputs = _encoded(model, batch, encoder_tokens or 1)
    ids = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
    name = _cache_name(model)
    cache = _empty_cache(model)
    done = 0
    for step, count in (("prefill", context - 1 or 1), ("decode", 1)):
        if done == context:
            return
        tokens = torch.zeros((batch, count), dtype=torch.long, device="meta")
        with attempt(f"run a {model.config.model_type} model on the meta device"), torch.no_grad(), _zero_values():
            out = model(**{ids: tokens, name: cache}, use_cache=True, **inputs)
        inputs.pop("cross_attention_states", None)  # an image is looked at once
        cache = getattr(out, name, None) if cache is None else cache
        done += count
        tensors = _layers(model, cache)
        yield Reading(step, done, [_sizes(layer) for layer in tensors], _held(tensors))


def _encoded(model: Any, batch: int, tokens: int) -> dict[str, Any]:
    """What a decoder looks at: the output of an encoder, which is not run, or of a vision tower."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    def states() -> Any:
        return torch.zeros((batch, tokens, model.config.hidden_size), dtype=model.dtype, device="meta")

    if model.config.is_encoder_decoder:
        return {"encoder_outputs": BaseModelOutput(last_hidden_state=states())}
    return {"cross_attention_states": states()} if "cross_attention_states" in _parameters(model) else {}


def _parameters(model: Any) -> Any:
    return inspect.signature(model.forward).parameters


def _cache_name(model: Any) -> str:
    """Under which name a model takes and returns its cache: Mamba and RWKV have words of their own."""
    return next((name for name in ("past_key_values", "cache_params", "state") if name in _parameters(model)), "")


def _empty_cache(model: Any) -> Any:
    """The cache that `generate` builds (GenerationMixin._prepare_cache_for_generation); None where the model does."""
    from transformers import DynamicCache, EncoderDecoderCache

    if type(model).__name__.startswith(("Rwkv", "MiniMaxModel")):
        return None
    config = model.config.get_text_config(decoder=True)
    if model.config.is_encoder_decoder:
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    return DynamicCache(config=config)


@contextmanager
def _zero_values() -> Iterator[None]:
    import torch

    def item(tensor: Any) -> Any:
        return 0.0 if tensor.dtype.is_floating_point else tensor.dtype is not torch.bool and 0

    def nonzero(tensor: Any) -> Any:
        return tensor.new_empty((0, tensor.dim()), dtype=torch.long)

    with torch.library._scoped_library("aten", "IMPL") as library:  # noqa: SLF001 - the way to undo it again
        library.impl("_local_scalar_dense", item, "Meta")
        library.impl("nonzero", nonzero, "Meta")
        yield


def _layers(model: Any, cache: Any) -> list[dict[str, Any]]:
    """The tensors of each layer, by name."""
    if isinstance(cache, list):  # RWKV: tensors of all layers
        return [{f"state.{i}": each[..., at] for i, each in enumerate(cache)} for at in range(cache[0].shape[-1])]
    if hasattr(cache, "cross_attention_cache"):
        own, cross = _layers(model, cache.self_attention_cache), _layers(model, cache.cross_attention_cache)
        return [{**a, **{f"cross.{name}": each for name, each in b.items()}} for a, b in zip(own, cross, strict=True)]
    found = [dict(_tensors(layer)) for layer in cache.layers]
    for at, state in enumerate(getattr(cache, "linear_cache", ())):  # MiniMax Text keeps states beside the layers
        found += [{} for _ in range(at + 1 - len(found))]
        found[at] |= dict(_named("state", state))
    for at, layer in enumerate(getattr(model, "layers", ())):
        if states := _on_modules(layer):
            found[at] |= states
    return found


def _on_modules(layer: Any) -> dict[str, Any]:
    """States that Recurrent Gemma keeps on the modules of a layer."""
    names = ("conv1d_state", "recurrent_states")
    return {
        name: state
        for module in layer.modules()
        for name in names
        if (state := getattr(module, name, None)) is not None
    }


def _tensors(layer: Any) -> Iterator[tuple[str, Any]]:
    """All tensors that a layer of a cache has, but for bookkeeping; one that stands under two names, once."""
    seen: set[int] = set()
    for name, value in vars(layer).items():
        if name not in _BOOKKEEPING:
            for full, tensor in _named(name, value):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield full, tensor


def _named(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in a value, in dictionaries and lists too."""
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, dict | list | tuple):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _named(f"{name}.{key}", inner)


def _sizes(layer: dict[str, Any]) -> LayerBytes:
    return {name: tensor.numel() * tensor.element_size() for name, tensor in layer.items()}


def _held(layers: list[dict[str, Any]]) -> int:
    """Bytes of all storages that some tensor is a view of, each once."""
    storages = {tensor.untyped_storage()._cdata: tensor for layer in layers for tensor in layer.values()}  # noqa: SLF001
    return sum(tensor.untyped_storage().nbytes() for tensor in storages.values())
