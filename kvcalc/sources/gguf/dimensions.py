"""The widths of the weights in a GGUF file: tables, feed-forward layers, experts.

Nothing of it changes the cache. What a file does not say plainly is left out. Keys: src/llama-arch.cpp; which tensors
there are: src/llama-model.cpp (llama.cpp 0c1e57098).
"""

import re
from collections.abc import Sequence

from kvcalc.preset import notation
from kvcalc.sources.gguf.header import LongArray, Tensor
from kvcalc.sources.gguf.keys import MOST_WIDTH, Keys

__all__ = ["dimensions_of"]

_FEED_FORWARD = re.compile(r"blk\.([0-9]{1,4})\.ffn_(up|gate|gate_up|up_exps|gate_up_exps)\.weight")


def dimensions_of(keys: Keys, layers: int, tensors: Sequence[Tensor]) -> dict[str, object]:
    """The value of `dimensions` for a model of so many layers. `tensors` are all of the file, none if parts lack."""
    hidden = _number(keys, "embedding_length")
    if hidden is None:
        return {}
    found: dict[str, object] = {"hidden": hidden}
    names = {tensor.name: tensor for tensor in tensors}
    table = names.get("token_embd.weight")
    vocab = table.shape[1] if table is not None and len(table.shape) == 2 else _vocabulary(keys)
    if vocab:
        found["vocab"] = vocab
    if wide := _number(keys, "feed_forward_length"):
        found["intermediate"] = wide
    if tensors and not any("ffn_gate" in name or "ffn_gate_up" in name for name in names) and not _fused(names, wide):
        found["gated"] = False
    if table is not None and "output.weight" not in names:
        found["tied"] = True
    if rank := _number(keys, "attention.q_lora_rank"):
        found["q_lora_rank"] = rank
    return found | _experts(keys, layers, names)


def _number(keys: Keys, key: str) -> int | None:
    """A number above zero, or the one that all entries of a list are."""
    value = keys.get(key)
    if isinstance(value, list) and len(set(map(str, value))) == 1:
        value = value[0]
    return value if type(value) is int and 0 < value <= MOST_WIDTH else None


def _vocabulary(keys: Keys) -> int | None:
    tokens = keys.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, LongArray):
        return tokens.length
    return len(tokens) if isinstance(tokens, list) and tokens else _number(keys, "vocab_size")


def _fused(names: dict[str, Tensor], wide: int | None) -> bool:
    """Phi-3 and GLM-4 keep gate and up in one tensor, twice as wide as the layer."""
    up = names.get("blk.0.ffn_up.weight")
    return up is not None and len(up.shape) == 2 and wide is not None and up.shape[1] == 2 * wide


def _experts(keys: Keys, layers: int, names: dict[str, Tensor]) -> dict[str, object]:
    count = _number(keys, "expert_count")
    if count is None or count == 1:
        return {}
    found: dict[str, object] = {"experts": count}
    if top_k := _number(keys, "expert_used_count"):
        found["top_k"] = min(top_k, count)
    wide = _number(keys, "expert_feed_forward_length")
    stacked = next(
        (t for name, t in names.items() if name.endswith("ffn_down_exps.weight") and len(t.shape) == 3), None
    )
    if stacked is not None:  # as it is stored counts, whatever the keys leave out
        wide = stacked.shape[0]
    if wide is None:
        return found
    found["expert_intermediate"] = wide
    shared = _number(keys, "expert_shared_feed_forward_length")
    if shared is None and (shares := _number(keys, "expert_shared_count")):
        shared = shares * wide
    if shared:
        found["shared_intermediate"] = shared
    words = _words(keys, layers, names)
    if words != ["moe"] * layers:
        found["feed_forward"] = notation.fold([() if word == notation.NONE else (word,) for word in words])
    return found


def _words(keys: Keys, layers: int, names: dict[str, Tensor]) -> list[str]:
    """Which layers have experts, by the tensors or, without them, after the first dense ones."""
    held: dict[int, str] = {}
    for match in filter(None, map(_FEED_FORWARD.fullmatch, names)):
        word = "moe" if match[2].endswith("exps") else "dense"
        if held.get(int(match[1])) != "moe":  # a dense part beside experts (Gemma 4) is a shared one
            held[int(match[1])] = word
    if held:
        return [held.get(i, notation.NONE) for i in range(layers)]
    first = _number(keys, "leading_dense_block_count") or 0
    return ["dense" if i < first else "moe" for i in range(layers)]
