"""Which keys of a configuration could change the cache. One that could and was not understood refuses the file.

Told by name: a published key that shapes the cache has so far always had one of a few fragments in its name. The
exceptions, which have such a fragment and do not matter, were collected from the published files and from the fields
of the classes of transformers 5.24.0.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from kvcalc.errors import escape, shown
from kvcalc.sources.config.lookup import BY_HAND, SCHEMES, Config

__all__ = ["Unknown", "of_other_half", "refuse_unknown", "suspicious", "unknown_keys"]

_FRAGMENTS = re.compile(
    r"attn|attention|window|sliding|swa|chunk|kv|cache|head|layer|pattern|mamba|ssm|conv|state|latent|lora|rope_dim"
    r"|index|share|compress|recur|linear|hybrid|loop|memory|mem_|sparse|global|local|block|mtp|nextn|delta|kda|cross"
    r"|query_group|grouped_(query|att)|key_value|group_size|mixer|pruned|(^|_)d_[kqv](_|$)|(^|_)(key|value|[kqv])_(dim|size|width)"
    r"|ngram|stride|interval|period|encoder|decoder|no_rope|nope|rwkv|multi_query|use_mla|use_cla|ut_steps|meta_tokens|hidden_groups|k_eq_v"
    # Layers run more than once, caches that others fill, and attention that keeps or drops tokens by a rule of its own.
    r"|pass(es)?(_|$)|iteration|iters?(_|$)|repeat|cycle|unroll|reuse|from_[kv](_|$)|retention|sink|landmark|depth|evict"
    r"|dilat|universal|ponder|halt|early_exit|history|(^|_)(nsa|moba|dsa|mla|mqa|gqa|yoco|retnet|ttt|lsh)(_|$)",
    re.IGNORECASE,
)

# Names that say by themselves that they are of no consequence: probabilities, norms, biases, initialisers, token ids,
# activations, scales, implementations; the towers for images and sound; the feed-forward part; and what generation
# and old versions of transformers write into every file.
_HARMLESS_NAMES = re.compile(
    r".*(dropout|dropout_prob|_pdrop|layerdrop|_prob|_bias|_eps|_epsilon|_norm|_norms|layernorm|layernorms|_alpha|_beta|_act|_init|_range"
    r"|_init_scale|_std|_coef|_theta|_token|_token_id|_token_index|_token_ids|_multiplier|_multipliers"
    r"|_softcapping|_in_fp32|_implementation|_autoset|_floor|_temperature|_lr|_kernels|_mask)"
    r"|(vision|visual|image|img|audio|video|speech|mm|vit|projector|talker|token2wav|codec|code2wav|qformer|perceiver"
    r"|freeze|unfreeze|summary|initializer|mask|blocksparse|use_flash|flash|moe|expert|experts"
    r"|shared_expert|mlp|router|output|chunk_size_feed|tokenizer|linear_(dt|a_log))(_.*|s)?"
)

_HARMLESS_GROUPS = (
    # Attention: how it is computed, normed or scaled, not what is kept.
    """attention_layer_norm attention_probs_dropout_prob attention_softmax_in_fp32 attention_value_scale
    attn_dropout_prob attn_output_gate attn_scale attn_temperature_tuning scale_attn_weights parallel_attn
    scale_attn_by_inverse_layer_idx reorder_and_upcast_attn num_ln_in_parallel_attn attn_logit_softcapping
    clip_qkv qk_layernorm qk_layer_norms query_pre_attn_scalar apply_query_key_layer_scaling add_qkv_bias qkv_bias
    use_qkv_bias skip_bias_add_qkv use_logn_attn use_flash_attn use_flash_attention use_attention_gate
    full_attn_mod reset_attention_mask attn_res_block_size attn_rotary_emb
    use_head_wise_attn_gate mla_use_nope
    mla_use_output_gate no_kda_lora gated_attention_proj_granularity_type
    full_attn_alpha_factor full_attn_beta_factor linear_attn_alpha_factor
    linear_attn_beta_factor activation_situ_linear_beta use_full_rank_gate kda_safe_gate kda_lower_bound
    linear_lower_bound linear_allow_neg_eigval qk_norm_type rope_scaling_layers _attn_implementation attn_impl
    attn_uses_sequence_id""",
    # Dual chunk attention (Qwen2.5 1M): five queries for one key, cached once (vLLM, dual_chunk_flash_attn.py).
    """dual_chunk_attention_config""",
    # Query and output compression of latent attention, the number of index heads and how many tokens they choose.
    """q_lora_rank o_lora_rank qk_head_dim q_head_dim index_n_heads index_topk index_topk_blocks index_local_blocks
    indexer_rope_interleave index_share_for_mtp_iteration sparse_num_index_heads sparse_topk_blocks
    sparse_init_block sparse_local_block sparse_score_type sparse_disable_index_value""",
    # Norms, positions, heads that are outputs.
    """add_bias_linear add_final_layer_norm do_layer_norm_before _remove_final_layer_norm layer_norm_type
    apply_residual_connection_post_layernorm post_layer_norm layer_norm_elementwise_affine mamba_norm_before_gate
    mamba_rms_norm layer_rope_theta rope_local_base_freq compress_rope_theta relative_attention_num_buckets
    relative_attention_max_distance lm_head_bias lm_head rm_head hidden_mamba_act""",
    # The feed-forward part of the layers.
    """mlp_layer_types first_k_dense_replace decoder_sparse_step encoder_sparse_step interleave_moe_layer_step
    num_mem_blocks n_shared_experts num_shared_expert num_shared_experts shared_moe_mode use_shared_mlp_adapter
    mamba_use_mlp block_use_swiglu block_out_dim use_parallel_block num_local_experts num_dense_layers num_hash_layers
    block_dim block_ff_dim block_auto_adjust_ff_dim block_ffn_dim_multiplier block_multiple_of
    shared_intermediate_size enable_moe_block share_expert_dim latent_moe_use_norm swiglu_limits_shared
    hidden_size_per_layer_input vocab_size_per_layer_input activation_sparsity_pattern expert_layer_offset
    expert_layer_period num_sparse_decoder_layers num_sparse_encoder_layers decoder_ffn_dim encoder_ffn_dim""",
    # State-space layers: kernels and inner steps; widths of projections; conv_dim and conv_dim_out of LFM2 are its
    # width.
    """mamba_dt_rank mamba_proj_bias mamba_conv_bias conv_bias use_conv_bias use_mambapy use_falcon_mambapy
    use_mem_eff_path use_mem_rope use_shared_attention_adapter conv_dim conv_dim_out num_logits_to_keep
    mamba_dt_init_floor mamba_dt_limit mamba_dt_max mamba_dt_min use_mamba_kernels""",
    # Draft layers: what they share, not how many there are.
    """mtp_loss_scaling_factor mtp_use_dedicated_embeddings mtp_share_layers mtp_mlp_layer_types
    mtp_hidden_states_first""",
    # What transformers writes into every file, generation settings, training and export.
    """use_cache cache_implementation cross_attention_hidden_size add_cross_attention is_decoder is_encoder_decoder
    tie_encoder_decoder output_attentions output_hidden_states encoder_no_repeat_ngram_size
    no_repeat_ngram_size decoder_start_token_id forced_decoder_ids drop_vision_last_layer use_weighted_layer_sum
    for_llm_compressor pre_allocate_kv_cache embd_layer share_encoder_decoder_embeddings seconds_per_chunk
    scale_decoder_outputs decoder_vocab_size
    tokenizer_padding_side scale_depth hc_sinkhorn_iters""",
)
_HARMLESS = frozenset(key for group in _HARMLESS_GROUPS for key in group.split())


# Mappings with keys of their own that are known: positions and labels, tasks, what other programs of the file's read.
_HARMLESS_MAPPINGS = ("rope_parameters", "rope_scaling", "auto_map", "id2label", "label2id", "task_specific_params",
                      "transformers.js_config", "init_config", "generation_config", *SCHEMES)  # fmt: skip


# Words in the names of what images, sound and speech have, which are no matter of the language part's cache.
_OF_OTHERS = """
    acoustic audio clip codec crop frame frames image images img mel ocr patch patches pixel pixels siglip speaker
    spectrogram speech talker tile tiles video videos vision visual vit vocoder voice vq
"""


def of_other_half(key: str, more: str = "") -> bool:
    """A key that, by a word of its name, belongs to a model's half for images or sound. `more`: further such words."""
    return not set(key.lower().split("_")).isdisjoint((*_OF_OTHERS.split(), *more.split()))


def suspicious(key: str) -> bool:
    """The name `key` could change the cache as far as one can tell from it."""
    return _FRAGMENTS.search(key) is not None and not _harmless(key)


def _harmless(key: str) -> bool:
    return key in _HARMLESS or _HARMLESS_NAMES.fullmatch(key.lower()) is not None


class Unknown(NamedTuple):
    """A key whose effect on the cache is not known, and the mapping that has it."""

    config: Config
    key: str

    @property
    def path(self) -> str:
        return ".".join((*self.config.path, self.key))


_MOST_LISTED = 6


def refuse_unknown(found: Sequence[Unknown]) -> NoReturn:
    """Refuse all such keys at once, so that who takes them out of a copy is not sent from one to the next."""
    (config, key), others = found[0], [escape(each.path)[:60] for each in found[1:]]
    more = f" and {len(others) - _MOST_LISTED} more" if len(others) > _MOST_LISTED else ""
    listed = ", ".join(others[:_MOST_LISTED]) + more
    what = f"{shown(key)} and {listed} do" if others else f"{shown(key)} does"
    them = "them" if others else "it"
    hint = f"if {what} not change the cache, take {them} out of a copy of the file; otherwise {BY_HAND}"
    also = f", and so of {listed}" if others else ""
    config.expected(f"a key whose effect on the cache is known{also}", key, hint=hint)


def unknown_keys(config: Config, *, known: bool) -> Iterator[Unknown]:
    """The keys of a configuration that could change the cache and that nothing has asked for.

    Those of the mappings around the language part are looked at in `around`. `known`: so is the type, whose class says
    what a half for images or sound has beside it.
    """
    for key, value in config.data.items():
        if not value or key in config.understood or (known and of_other_half(key)):
            continue
        if not suspicious(key):
            yield from _in_mapping(config, key)
        elif not (value == -1 and "window" in key) and config.defaults.get(key) != value:  # -1 is no window
            yield Unknown(config, key)
    for child in config.children.values():
        yield from unknown_keys(child, known=known)


def _in_mapping(config: Config, key: str) -> Iterator[Unknown]:
    """Such keys one level down, in a mapping that nothing has looked into."""
    value = config.data[key]
    if not isinstance(value, dict) or key in _HARMLESS_MAPPINGS or _harmless(key):
        return
    inner = Config(value, config.file, path=(*config.path, key))
    yield from (Unknown(inner, str(name)) for name, each in value.items() if each and suspicious(str(name)))
