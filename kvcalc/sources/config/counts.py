"""Counts that say nothing of the cache and much of the weights: impossible ones are refused like all others.

Without this a file with a slip would be sized, and its weights would be unknown or wrong in silence.
"""

from kvcalc.preset.fields import MOST_NUMBER, between, is_integer
from kvcalc.sources.config.lookup import Config

__all__ = ["check_counts"]

_ABOVE_ZERO = ("vocab_size", "hidden_size", "intermediate_size", "decoder_sparse_step", "expert_layer_period",
               "block_ff_dim", "block_multiple_of", "q_lora_rank", "moe_latent_size")  # fmt: skip
# Published files have a 0 for what a model lacks: experts in Granite 4 350M, shared ones in Qwen3 Coder.
_FROM_ZERO = ("moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size",
              "moe_shared_expert_intermediate_size", "num_local_experts", "num_experts", "n_routed_experts",
              "num_experts_per_tok", "n_shared_experts", "first_k_dense_replace", "expert_layer_offset")  # fmt: skip

# Of which files may have a list, with one count for each layer: Gemma 3n, Hunyuan-A13B.
_LISTED = ("intermediate_size", "moe_intermediate_size", "num_experts_per_tok")


def check_counts(text: Config) -> None:
    """Refuse what is neither a possible count nor null."""
    for low, keys in ((1, _ABOVE_ZERO), (0, _FROM_ZERO)):
        for key in keys:
            value = text.data.get(key)
            listed = isinstance(value, list) and key in _LISTED
            for each in value if listed and isinstance(value, list) else [] if value is None else [value]:
                if not is_integer(each, low, MOST_NUMBER):
                    text.expected(between(low, MOST_NUMBER, each), key)
