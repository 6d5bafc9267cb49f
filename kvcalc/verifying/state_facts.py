"""What a model's recurrent layers are, in the names that published configurations have for it. See `facts`."""

from kvcalc.core.model import Model, Recurrent
from kvcalc.errors import KvcalcError
from kvcalc.verifying.facts import Facts, first, heads, words

__all__ = [
    "attention_indices",
    "attention_period",
    "deltanet",
    "griffin",
    "jamba",
    "kimi_delta",
    "mamba1",
    "mamba2",
    "mamba2_heads",
    "nemotron",
    "rwkv4",
    "shortconv",
    "zamba",
    "zamba2",
]


def _width(model: Model) -> int:
    """The width of a model with attention layers."""
    width = heads(model)["hidden_size"]
    assert isinstance(width, int)
    return width


def _expansion(inner: int, width: int) -> int:
    """How much wider a state is than the model, which these classes have as a whole number."""
    if inner % width:
        raise KvcalcError(f"expected a state of a multiple of {width} elements, the width of all heads, got {inner}")
    return inner // width


def mamba1(model: Model) -> Facts:
    """States alone: a model as wide as they are."""
    one = first(model, Recurrent)
    return {"hidden_size": one.inner, "expand": 1, "state_size": one.state, "conv_kernel": one.conv}


def jamba(model: Model) -> Facts:
    one = first(model, Recurrent)
    expansion = _expansion(one.inner, _width(model))
    return {"mamba_expand": expansion, "mamba_d_state": one.state, "mamba_d_conv": one.conv}


def mamba2(model: Model) -> Facts:
    """States alone, in Codestral's names."""
    one = first(model, Recurrent)
    return {
        "hidden_size": one.heads * one.head_dim,
        "expand": 1,
        "num_heads": one.heads,
        "head_dim": one.head_dim,
        "n_groups": one.groups,
        "state_size": one.state,
        "conv_kernel": one.conv,
    }


def mamba2_heads(model: Model) -> Facts:
    """States between or beside attention, in the names of Bamba, Granite and Falcon H1."""
    one = first(model, Recurrent)
    inner = one.heads * one.head_dim
    stated = model.model_type == "falcon_h1"  # the inner width itself, beside a factor of no consequence
    return {
        "mamba_n_heads": one.heads,
        "mamba_d_head": one.head_dim,
        "mamba_n_groups": one.groups,
        "mamba_d_state": one.state,
        "mamba_d_conv": one.conv,
        **({"mamba_d_ssm": inner} if stated else {"mamba_expand": _expansion(inner, _width(model))}),
    }


def nemotron(model: Model) -> Facts:
    """Nemotron-H: a list of blocks is its depth. Whether a layer without a cache has experts is of no consequence."""
    one = first(model, Recurrent)
    return {
        "mamba_num_heads": one.heads,
        "mamba_head_dim": one.head_dim,
        "n_groups": one.groups,
        "ssm_state_size": one.state,
        "conv_kernel": one.conv,
        "layers_block_type": words(model),
    }


def zamba(model: Model) -> Facts:
    """Zamba: as Zamba 2, with states of the first Mamba."""
    one, width = first(model, Recurrent), _width(model) // 2
    return {
        "hidden_size": width,
        "mamba_expand": _expansion(one.inner, width),
        "mamba_d_state": one.state,
        "mamba_d_conv": one.conv,
        "layers_block_type": words(model),
    }


def zamba2(model: Model) -> Facts:
    """Zamba 2: attention sees the hidden state and the embedding side by side, twice the width of the model."""
    one = first(model, Recurrent)
    width = _width(model) // 2
    return {
        "hidden_size": width,
        "mamba_expand": _expansion(one.heads * one.head_dim, width),
        "n_mamba_heads": one.heads,
        "mamba_ngroups": one.groups,
        "mamba_d_state": one.state,
        "mamba_d_conv": one.conv,
        "layers_block_type": words(model),
    }


def deltanet(model: Model) -> Facts:
    one = first(model, Recurrent)
    return {
        "linear_num_key_heads": one.k_heads,
        "linear_key_head_dim": one.k_dim,
        "linear_num_value_heads": one.v_heads,
        "linear_value_head_dim": one.v_dim,
        "linear_conv_kernel_dim": one.conv,
    }


def kimi_delta(model: Model) -> Facts:
    """Kimi Linear lists its layers counted from one."""
    one, named = first(model, Recurrent), words(model)
    return {
        "linear_attn_config": {
            "num_heads": one.heads,
            "head_dim": one.head_dim,
            "short_conv_kernel_size": one.conv,
            "full_attn_layers": [i for i, word in enumerate(named, 1) if word != "linear_attention"],
            "kda_layers": [i for i, word in enumerate(named, 1) if word == "linear_attention"],
        }
    }


def shortconv(model: Model) -> Facts:
    return {"conv_L_cache": first(model, Recurrent).conv}


def griffin(model: Model) -> Facts:
    one = first(model, Recurrent)
    block = words(model, linear_attention="recurrent", sliding_attention="attention")
    return {"lru_width": one.width, "conv1d_width": one.conv, "block_types": block}


def rwkv4(model: Model) -> Facts:
    width = first(model, Recurrent).width
    return {"hidden_size": width, "attention_hidden_size": width}


def attention_indices(model: Model) -> Facts:
    return {"attn_layer_indices": [i for i, word in enumerate(words(model)) if word == "full_attention"]}


def attention_period(model: Model) -> Facts:
    where = [i for i, word in enumerate(words(model)) if word == "full_attention"]
    period = where[1] - where[0] if len(where) > 1 else len(model.layers)
    return {"attn_layer_period": period, "attn_layer_offset": where[0] if where else 0}
