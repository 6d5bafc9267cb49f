"""Typed look-ups in the metadata of one architecture, and which of its keys could change the cache.

Names of the keys: src/llama-arch.cpp (llama.cpp 0c1e57098). What is asked for is noted; a key that nobody asked for and
that could change the cache refuses the file.
"""

import re
from collections.abc import Mapping
from typing import NoReturn

from kvcalc.sources.faults import Phrase, fault
from kvcalc.sources.gguf.header import LongArray

__all__ = ["BY_HAND", "Keys"]

BY_HAND = (
    "size it from the model's config.json, or correct the preset of a model like it, such as "
    "`kvcalc preset llama3-8b > my-model.yaml`, and size my-model.yaml"
)

MOST_WIDTH = 1 << 24  # above any width, count or window of a real model; keeps every product below the preset's limit
_MISSING = Phrase("nothing")

# A key could change the cache if it stands in one of these groups or has one of these words in it.
_GROUPS = ("attention.", "ssm.", "kda.", "wkv.", "shortconv.", "ple.")
_WORDS = frozenset(
    word
    for words in (
        "kv swa window pattern chunk cache shared latent indexer compress",
        "recurrent interval hybrid lightning conv shift loops nextn mtp",
    )
    for word in words.split()
)
# Groups that are about positions, experts and other inputs, whatever words they have.
_HARMLESS_GROUPS = ("rope.", "expert_", "experts_", "moe_", "adapters.", "vision.", "audio.", "tokenizer.")
# How attention is computed, scaled and normed, how queries and outputs are compressed, how many tokens are chosen.
_HARMLESS = frozenset(
    f"{group}.{key}"
    for group, keys in {
        "attention": "layer_norm_epsilon layer_norm_rms_epsilon group_norm_epsilon group_norm_groups max_alibi_bias "
        "clamp_kqv q_lora_rank decay_lora_rank iclr_lora_rank value_residual_mix_lora_rank gate_lora_rank "
        "relative_buckets_count rope_pattern scale output_scale value_scale temperature_length temperature_scale "
        "output_group_count output_lora_rank compress_rope_freq_base",
        "attention.indexer": "head_count top_k local_blocks kpool_select_tail",
        "ssm": "dt_b_c_rms",
        "kda": "safe_gate gate_lower_bound",
        "ple": "heads_per_ngram layer_multipliers head_offsets head_vocab_sizes eos_token_id image_token_id",
    }.items()
    for key in keys.split()
)


class Keys:
    """The keys of `arch` in the metadata of `file`. `notes` collects what a careful reader should be told.

    `defaults` are the keys that the file leaves out, with what llama.cpp takes in their place.
    """

    def __init__(self, metadata: Mapping[str, object], arch: str, file: str) -> None:
        self.metadata, self.arch, self.file = metadata, arch, file
        self.notes: list[str] = []
        self.defaults: dict[str, str] = {}
        self._asked: set[str] = set()

    def get(self, key: str) -> object:
        """The raw value, or None; the key counts as understood from now on."""
        self._asked.add(key)
        return self.metadata.get(f"{self.arch}.{key}")

    def default(self, key: str, value: object) -> None:
        """Note that llama.cpp, and so the preset, takes `value` for a key that the file leaves out."""
        self.defaults[key] = f"{value:,}" if isinstance(value, int) else str(value)

    def refuse(self, key: str, expected: str, hint: str = BY_HAND) -> NoReturn:
        """Stop reading because of the value of `key`."""
        value = self.get(key)
        raise fault(self.file, f"{self.arch}.{key}", expected, _MISSING if value is None else value, hint)

    def number(self, key: str, low: int = 0, high: int = MOST_WIDTH) -> int | None:
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not int or not low <= value <= high:
            self.refuse(key, f"a number from {low:,} to {high:,}")
        return value

    def required(self, key: str, low: int = 1, high: int = MOST_WIDTH) -> int:
        value = self.number(key, low, high)
        if value is None:
            self.refuse(key, "a number")
        return value

    def each(self, key: str, count: int, *, among: tuple[int, ...] = ()) -> list[int] | None:
        """One number for each of `count` layers, whether the file gives one for all or a list of them.

        Lists hold unsigned or signed numbers or truth values (get_key_or_arr in llama-model-loader.cpp); `among` are
        other lengths that are right too.
        """
        value = self.get(key)
        if not isinstance(value, list):
            number = int(value) if isinstance(value, bool) else self.number(key)
            return None if number is None else [number] * count
        if len(value) != count and len(value) not in among:
            self.refuse(key, f"{count:,} numbers, one for each layer")
        if not all(isinstance(entry, int) and 0 <= entry <= MOST_WIDTH for entry in value):
            self.refuse(key, f"numbers from 0 to {MOST_WIDTH:,}")
        return [int(entry) for entry in value]

    def close(self) -> None:
        """Refuse the file for a key that could change the cache and that nobody asked for, unless it says "off"."""
        prefix = self.arch + "."
        for name, value in self.metadata.items():
            key = name.removeprefix(prefix)
            if key != name and key not in self._asked and _may_matter(key) and not _off(value):
                raise fault(self.file, name, "a key whose effect on the cache is known here", value, BY_HAND)


def _may_matter(key: str) -> bool:
    if key in _HARMLESS or key.startswith(_HARMLESS_GROUPS):
        return False
    return key.startswith(_GROUPS) or not _WORDS.isdisjoint(re.split(r"[._]", key))


def _off(value: object) -> bool:
    """Zero, false, nothing, or a list of such."""
    return not isinstance(value, LongArray) and not (any(value) if isinstance(value, list) else value)
