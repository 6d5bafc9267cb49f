"""What changed in the caches of transformers, version by version."""

from typing import NamedTuple

__all__ = ["VERSIONS", "Version"]


# modeling_recurrent_gemma.py and modeling_rwkv.py, in every version; modeling_minimax.py takes the model's dtype.
_ALWAYS = frozenset({"rglru", "rwkv4"})


class Version(NamedTuple):
    """A row of constants.

    `compressed`: latent attention caches the latent, and no keys and values for each head. `float_states`: kinds of
    recurrent states that are float32 in a model of 16 bits, and `float_types` model types in which Mamba's is too.
    `conv_everywhere`: a convolution's columns are allocated for attention layers too. `shared_copies`: what other
    layers share is kept a second time. `whole_chunks`: several tokens at once are quantised as soon as they would fill
    the residual. `fp8`: QuantizedCache has that backend. `nothing`: the class of layers that cache nothing.
    `wider`: model types whose window is W tokens beside the query, which is itself among the W tokens of others.
    `forgetful`: model types with layers that may share, whose windows a DynamicCache is not told of where none does.
    """

    name: str
    compressed: bool = True
    float_states: frozenset[str] = frozenset({"mamba1", "mamba2", "deltanet", "kda", *_ALWAYS})
    float_types: frozenset[str] = frozenset()
    conv_everywhere: bool = False
    shared_copies: bool = False
    whole_chunks: bool = True
    fp8: bool = True
    nothing: str | None = None
    wider: frozenset[str] = frozenset({"mimo_v2_flash"})
    forgetful: frozenset[str] = frozenset()


# Each difference was seen in what both versions beside it allocate for the same small models.
_CURRENT = Version("5.23.0", nothing="DummyLayer")
_BEFORE = _CURRENT._replace(nothing=None)
_GROUPED = _BEFORE._replace(fp8=False)  # 5.21: cache_utils.py, Fp8QuantizedLayer
# 5.20: QuantizedLayer.update; configuration_mimo_v2_flash.py, sliding_window_size
_TOKENS = _GROUPED._replace(whole_chunks=False, wider=frozenset())
_EXPANDED = _TOKENS._replace(compressed=False)  # 5.15: modeling_deepseek_v3.py
# 5.14: LinearAttentionLayer.lazy_initialization; DynamicCache.__init__, where `layer_types[:-0]` was no layer at all
_SAME_STATES = _EXPANDED._replace(float_states=_ALWAYS, forgetful=frozenset({"gemma3n_text", "gemma4_text"}))
_COPIES = _SAME_STATES._replace(shared_copies=True)  # 5.6: modeling_gemma3n.py, shared_layers
# 5.5: one class for the states of all models, where each had its own (MambaCache, Lfm2HybridConvCache, ...).
_OWN_STATES = _COPIES._replace(
    float_states=_ALWAYS | {"deltanet"}, float_types=frozenset({"jamba", "zamba"}), conv_everywhere=True
)

VERSIONS = (
    _OWN_STATES._replace(name="4.57.0"),
    _OWN_STATES._replace(name="5.0.0"),
    _OWN_STATES._replace(name="5.4.0"),
    _COPIES._replace(name="5.5.0"),
    _SAME_STATES._replace(name="5.6.0"),
    _EXPANDED._replace(name="5.14.0"),
    _TOKENS._replace(name="5.15.0"),
    _GROUPED._replace(name="5.20.0"),
    _BEFORE._replace(name="5.21.0"),
    _CURRENT,
)
