"""What the numbers of a log are called."""

__all__ = ["words_of"]

# What people call the quantities; the others are called in words of their own.
_WORDS = {
    "tokens": "tokens that fit",
    "num_blocks": "blocks",
    "cpu_blocks": "blocks in host memory",
    "needed": "needed for one request",
    "longest": "longest request that fits",
    "stored": "tokens of all blocks",
    "attn_block": "tokens of a block",
    "mamba_pad_pct": "padding of a state's page",
    "token_bytes": "bytes of a token",
    "bytes": "whole cache",
    "kv": "K and V",
    "kv_gb": "K and V",
    "kv_gib": "K and V",
    "kv_mib": "K and V",
    "k_gb": "K",
    "v_gb": "V",
    "k_mib": "K",
    "v_mib": "V",
    "conv_gb": "convolutions",
    "ssm_gb": "states",
    "mamba_slots": "slots of states",
    "swa_layer_tokens": "tokens of windows",
    "rs_mib": "states",
    "rs_cells": "cells of states",
    "rs_layers": "layers of the model",
    "r_f32_mib": "R of states",
    "s_f32_mib": "S of states",
    "p_f32_mib": "P of states",
    "total": "memory of the GPU",
    "weights": "weights",
    "activations": "peak of activations",
    "non_torch": "beside torch",
    "consumed": "weights and beside torch",
    "graphs": "graphs",
    "cache": "memory for the cache",
    "before": "free before the weights",
    "after": "free behind the weights",
    "pooled": "free behind the pool",
    "peak": "peak of the profile",
    "compute": "compute buffer",
}
_POOLS = {"swa": "windows", "csa": "entries of 4", "hca": "entries of 128", "lid": "their index", "index": "index"}


def words_of(quantity: str) -> str:
    """A quantity in words for people."""
    pool, _, rest = quantity.partition("_")
    if pool in _POOLS and quantity not in _WORDS:
        return f"{_WORDS.get(rest, rest)} of {_POOLS[pool]}"
    return _WORDS.get(quantity, quantity)
