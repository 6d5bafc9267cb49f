"""A model as the config.json of its type: what `kvcalc.sources.config` reads, written again.

Only what the cache depends on is said; all else is left to the defaults of the classes of transformers. What a class
made of it is read back (`building`), so that a row which is wrong or missing here shows as layers that differ and never
as a size.
"""

from collections.abc import Mapping

from kvcalc.core.model import Model
from kvcalc.errors import KvcalcError
from kvcalc.verifying import facts as f
from kvcalc.verifying import state_facts as s
from kvcalc.verifying.facts import Facts, Setter

__all__ = ["READ_ONCE", "RESTATED", "class_type", "config_of"]

# Types of ours that are parts of larger models in transformers, and the type of that part (`text_config` of exaone4_5,
# minimax_m3_vl, qwen3_asr and step3p7).
_PARTS = {
    "exaone4_5_text": "exaone4",
    "minimax_m3": "minimax_m3_vl_text",
    "qwen3_asr_text": "qwen3",
    "step3p7": "step3p5",
}

# Published keys that a class takes when it is made and has no field for. Other keys that a class has no field for are
# of no consequence to it, and left out.
READ_ONCE = (
    "compress_ratios", "global_head_dim", "linear_attn_config", "num_global_key_value_heads", "qk_rope_head_dim",
    "sliding_window_size", "swa_num_key_value_heads",
)  # fmt: skip

# What a class says in a way of its own, beside or in place of the published keys that it was made from; these are what
# is read back.
RESTATED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("dbrx", "gpt_bigcode"), ("num_key_value_heads",)),
    "deepseek_v4": ("compress_rates",),
    "gemma4_text": ("per_layer_config",),
    "kimi_linear": ("layer_types", "linear_conv_kernel_dim", "linear_head_dim", "linear_num_heads"),
    "mimo_v2_flash": ("sliding_window",),  # one more than sliding_window_size
    "t5": ("scale_decoder_outputs",),
}

# The class default rotates whole heads, which contradicts its own sections; published files rotate half of each.
_GLM_ROPE = {
    "rope_type": "default",
    "rope_theta": 10000.0,
    "partial_rotary_factor": 0.5,
    "mrope_section": [8, 12, 12],
}

_PLAIN: tuple[Setter, ...] = (f.depth, f.heads, f.layer_types(), f.windows())
_ROWS: Mapping[str, tuple[Setter, ...]] = {
    # Heads, windows and sharing told in another way.
    **dict.fromkeys(("falcon", "gpt_bigcode"), (*_PLAIN, f.multi_query)),
    "dbrx": (*_PLAIN, f.inner_heads),
    "gemma3n_text": (*_PLAIN, f.shared_layers),
    "gemma4_text": (*_PLAIN, f.gemma4_heads, f.shared_layers),
    "glm4v_text": (*_PLAIN, lambda _: {"rope_parameters": _GLM_ROPE}),
    "gpt_neo": (f.depth, f.heads, f.windows("window_size"), f.attention_types),
    "laguna": (*_PLAIN, f.heads_per_layer),
    "llama4_text": (*_PLAIN, f.chunks),
    "mimo_v2_flash": (*_PLAIN, f.windows("sliding_window_size"), f.split_heads),
    # Two halves, or layers that look at an image.
    **dict.fromkeys(
        (
            "bart",
            "bigbird_pegasus",
            "blenderbot",
            "blenderbot-small",
            "led",
            "longt5",
            "m2m_100",
            "marian",
            "mbart",
            "mt5",
            "mvp",
            "pegasus",
            "pegasus_x",
            "plbart",
            "t5",
            "umt5",
            "whisper",
        ),
        (f.halves,),
    ),
    "mllama_text_model": (*_PLAIN, f.cross_layers),
    # Latents, index keys and compressed entries.
    **dict.fromkeys(("axk1", "deepseek_v3", "glm4_moe_lite", "minicpm3", "mistral4", "youtu"), (f.depth, f.latents)),
    # Every layer dense: the class has no default for its experts that can be computed.
    "deepseek_v2": (f.depth, f.latents, lambda model: {"first_k_dense_replace": len(model.layers)}),
    "longcat_flash": (lambda model: {"num_layers": len(model.layers)}, f.latents),
    **dict.fromkeys(("axk2", "deepseek_v32", "glm_moe_dsa", "hy_v4"), (f.depth, f.latents, f.indexers)),
    "mistral_large4_text": (f.depth, f.latents, f.latent_sources, f.indexers),
    "minimax_m3_vl_text": (f.depth, f.heads, f.layer_types(indexed_attention="minimax_m3_sparse"), f.indexers),
    # Rounds of a normalisation, of which one is enough here.
    "deepseek_v4": (f.depth, f.compressed, f.windows(), lambda _: {"hc_sinkhorn_iters": 1}),
    # Recurrent states, alone and between attention layers.
    **dict.fromkeys(("mamba", "falcon_mamba"), (f.depth, s.mamba1)),
    "mamba2": (f.depth, s.mamba2),
    "rwkv": (f.depth, s.rwkv4),
    "jamba": (f.depth, f.heads, s.jamba, s.attention_period),
    "bamba": (f.depth, f.heads, s.mamba2_heads, s.attention_indices),
    **dict.fromkeys(("falcon_h1", "granitemoehybrid"), (*_PLAIN, s.mamba2_heads)),
    "nemotron_h": (f.heads, s.nemotron),
    "zamba": (f.depth, f.heads, s.zamba),
    "zamba2": (f.depth, f.heads, s.zamba2),
    "recurrent_gemma": (f.depth, f.heads, f.windows("attention_window_size"), s.griffin),
    **dict.fromkeys(("olmo_hybrid", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"), (*_PLAIN, s.deltanet)),
    "kimi_linear": (f.depth, f.latents, s.kimi_delta),
    **dict.fromkeys(("lfm2", "lfm2_moe"), (f.depth, f.heads, f.layer_types(linear_attention="conv"), s.shortconv)),
    "lfm3": (f.depth, f.heads, f.layer_types(linear_attention="conv"), f.windows(), s.shortconv),
}


def class_type(model_type: str | None) -> str:
    """The model type under which transformers knows one of ours."""
    if model_type is None:
        raise KvcalcError("model_type: expected the model type whose class builds the cache, got nothing")
    return _PARTS.get(model_type, model_type)


def config_of(model: Model) -> Facts:
    """The configuration of a model, by its type."""
    facts: Facts = {}
    for setter in _ROWS.get(class_type(model.model_type), _PLAIN):
        facts |= setter(model)
    return facts
