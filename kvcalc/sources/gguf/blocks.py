"""The blocks of a GGUF model, and the caches that one of them can hold, in the words of a preset.

Rules: load_hparams in src/llama-model.cpp, n_embd_r and n_embd_s in src/llama-hparams.cpp (llama.cpp 0c1e57098).
"""

from typing import NamedTuple

from kvcalc.core.model import Pattern
from kvcalc.preset.caches import span_key
from kvcalc.preset.notation import SHARED
from kvcalc.sources.gguf.keys import Keys

__all__ = ["MOST_BLOCKS", "Blocks", "Cache", "Layer", "Value", "shared"]

MOST_BLOCKS = 512  # LLAMA_MAX_LAYERS

Value = int | str | bool


class Cache(NamedTuple):
    """One cache of one layer: its name in `layers`, its kind, and its fields under `caches`."""

    name: str
    kind: str
    fields: dict[str, Value]


Layer = tuple[Cache, ...]


def shared(name: str) -> Layer:
    """A layer that reuses the last earlier cache called `name`."""
    return (Cache(SHARED + name, "", {}),)


class Blocks:
    """How many blocks there are, and their heads and widths. The first `trunk` are the model's own, the rest drafts."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.total = keys.required("block_count", high=MOST_BLOCKS)
        drafts = keys.number("nextn_predict_layers") or 0  # counted in block_count
        if drafts >= self.total:
            keys.refuse("nextn_predict_layers", f"fewer than the {self.total:,} blocks of the file")
        self.trunk = self.total - drafts
        self.heads = keys.each("attention.head_count", self.total) or [0] * self.total
        stated = keys.each("attention.head_count_kv", self.total)
        self.kv_heads = stated or self.heads
        if stated is None and any(self.heads):
            keys.default("attention.head_count_kv", "as many as attention.head_count")
        self._widths = tuple(keys.number(f"attention.{part}_length") for part in ("key", "value"))
        self._sliding_widths = tuple(keys.number(f"attention.{part}_length_swa") for part in ("key", "value"))

    def first_heads(self) -> int:
        """Query heads, where one number must do for all layers."""
        heads = next((count for count in self.heads if count), 0)
        if not heads:
            self.keys.refuse("attention.head_count", "a number above zero")
        return heads

    def widths(self, *, sliding: bool = False) -> tuple[int, int]:
        """Elements of a key and of a value of one head; without a key of their own, embedding_length / head_count."""
        found = []
        for part, full, own in zip(("key", "value"), self._widths, self._sliding_widths, strict=True):
            width = own if sliding and own is not None else full
            if width is None:
                if not self.heads[0]:
                    self.keys.refuse(f"attention.{part}_length", "a number above zero")
                width = self.keys.required("embedding_length") // self.heads[0]
            if not width:
                self.keys.refuse(f"attention.{part}_length", "a number above zero")
            found.append(width)
        return found[0], found[1]

    def attention(self, i: int, pattern: Pattern = "full", span: int = 0) -> Cache:
        """Keys and values of all KV heads of block `i`."""
        heads, kv_heads = self.heads[i], self.kv_heads[i]
        k_dim, v_dim = self.widths(sliding=pattern != "full")
        if not kv_heads:  # pruned (Nemotron-NAS)
            return Cache("noop", "full", {"heads": self.first_heads(), "kv_heads": 0, "k_dim": k_dim, "v_dim": v_dim})
        if not heads or heads % kv_heads:
            self.keys.refuse("attention.head_count_kv", f"divisors of the query heads, {heads} in block {i}")
        fields: dict[str, Value] = {"heads": heads, "kv_heads": kv_heads, "k_dim": k_dim, "v_dim": v_dim}
        key = span_key(pattern)
        if key is not None:
            fields[key] = span
        return Cache(pattern, pattern, fields)

    def mamba1(self) -> Cache:
        keys = self.keys
        keys.get("ssm.time_step_rank")  # the rank of a projection, here
        fields = {key: keys.required(f"ssm.{name}") for key, name in (("inner", "inner_size"), ("state", "state_size"))}
        return Cache("mamba1", "mamba1", {**fields, "conv": keys.required("ssm.conv_kernel")})

    def mamba2(self) -> Cache:
        """Heads as time_step_rank. PLaMo-2 writes no groups: its convolution is as narrow as that of Mamba 1."""
        keys = self.keys
        groups = keys.required("ssm.group_count", 0)
        if not groups:
            return self.mamba1()
        heads, head_dim = self._inner_heads()
        return Cache(
            "mamba2",
            "mamba2",
            {
                "heads": heads,
                "head_dim": head_dim,
                "groups": groups,
                "state": keys.required("ssm.state_size"),
                "conv": keys.required("ssm.conv_kernel"),
            },
        )

    def deltanet(self) -> Cache:
        """Gated DeltaNet in the keys of Mamba 2: group_count key heads of state_size, time_step_rank value heads."""
        keys = self.keys
        v_heads, v_dim = self._inner_heads()
        return Cache(
            "deltanet",
            "deltanet",
            {
                "k_heads": keys.required("ssm.group_count"),
                "k_dim": keys.required("ssm.state_size"),
                "v_heads": v_heads,
                "v_dim": v_dim,
                "conv": keys.required("ssm.conv_kernel"),
            },
        )

    def _inner_heads(self) -> tuple[int, int]:
        inner, heads = self.keys.required("ssm.inner_size"), self.keys.required("ssm.time_step_rank")
        if inner % heads:
            self.keys.refuse("ssm.time_step_rank", f"a divisor of ssm.inner_size, {inner:,}")
        return heads, inner // heads

    def kda(self) -> Cache:
        keys = self.keys
        fields = {"heads": self.first_heads(), "head_dim": keys.required("kda.head_dim")}
        return Cache("kda", "kda", {**fields, "conv": keys.required("ssm.conv_kernel")})

    def shortconv(self) -> Cache:
        keys = self.keys
        fields: dict[str, Value] = {"width": keys.required("embedding_length")}
        return Cache("shortconv", "shortconv", {**fields, "conv": keys.required("shortconv.l_cache")})

    def lightning(self) -> Cache:
        return Cache("lightning", "lightning", {"heads": self.first_heads(), "head_dim": self.widths()[0]})

    def rwkv(self) -> Layer:
        """RWKV shifts the last token into two vectors a layer; its hybrids with other blocks only into one.

        One shift is a convolution of two columns, and the state of width x head_size is that of linear attention.
        """
        keys = self.keys
        width, head_dim = keys.required("embedding_length"), keys.required("wkv.head_size")
        shifts = keys.number("token_shift_count")
        if shifts is None:
            keys.default("token_shift_count", 2)
        if shifts in (None, 2):
            return (Cache("rwkv", "rwkv", {"width": width, "head_dim": head_dim}),)
        if shifts != 1:
            keys.refuse("token_shift_count", "1 or 2")
        if width % head_dim:
            keys.refuse("wkv.head_size", f"a divisor of the width, {width:,}")
        keys.notes.append("One token shift a layer, written as a convolution of two columns.")
        return (
            Cache("shift", "shortconv", {"width": width, "conv": 2}),
            Cache("wkv", "lightning", {"heads": width // head_dim, "head_dim": head_dim}),
        )
