"""What the columns of a trace mean, by the names that public traces give them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kvcalc.errors import KvcalcError, shown

__all__ = ["Columns", "columns_of"]

# Azure 2023 and 2024, BurstGPT, Mooncake, Qwen-Bailian, vidur, SplitwiseSim, weka (their repositories' READMEs).
_MEANINGS: Mapping[str, tuple[str, ...]] = {
    "time": ("timestamp", "arrived_at", "arrival_timestamp", "arrival_time", "t", "time"),
    "input": ("contexttokens", "request tokens", "input_length", "num_prefill_tokens", "prompt_size", "in",
              "input_tokens", "prompt_tokens"),
    "output": ("generatedtokens", "response tokens", "output_length", "num_decode_tokens", "token_size", "out",
               "output_tokens", "completion_tokens"),
    "prefix": ("hash_ids",),
    "session": ("session id", "session_id", "chat_id"),
    "block": ("block_size",),
}  # fmt: skip
_WORDS = {"time": "the time of arrival", "input": "the tokens of the prompt", "output": "the tokens that are generated"}

# Formats whose unit of time and tokens of a block are known, by columns that no other has together.
_FORMATS = (
    (frozenset({"contexttokens", "generatedtokens"}), "", None),  # Azure: the wall clock
    (frozenset({"chat_id", "hash_ids"}), "s", 16),  # Qwen-Bailian
    (frozenset({"request tokens", "response tokens"}), "s", None),  # BurstGPT
    (frozenset({"num_prefill_tokens", "num_decode_tokens"}), "s", None),  # vidur
    (frozenset({"prompt_size", "token_size"}), "s", None),  # SplitwiseSim
    (frozenset({"timestamp", "input_length", "output_length", "hash_ids"}), "ms", 512),  # Mooncake
    (frozenset({"t", "in", "out", "hash_ids"}), "", 64),  # weka
)


class Columns(NamedTuple):
    """The names of a file's columns by what they mean; the `unit` of its times and tokens of a `block`, where known."""

    names: Mapping[str, str]
    unit: str
    block: int | None


def columns_of(names: Iterable[str], file: str) -> Columns:
    """Find the columns by their names. Raises KvcalcError for one that is missing or has two candidates."""
    listed = list(names)
    known = {name.strip().lower(): name for name in listed}
    found: dict[str, str] = {}
    for meaning, spellings in _MEANINGS.items():
        having = [known[spelling] for spelling in spellings if spelling in known]
        if len(having) > 1:
            both = " and ".join(shown(name) for name in having)
            raise KvcalcError(f"{file}: {both} may both be {_WORDS.get(meaning, meaning)}", "leave one of them out")
        if having:
            found[meaning] = having[0]
    for meaning in ("input", "output"):
        if meaning not in found:
            there = ", ".join(shown(name) for name in listed[:8]) or "none"
            raise KvcalcError(
                f"{file}: no column is {_WORDS[meaning]}; there are {there}",
                f"call it one of {', '.join(_MEANINGS[meaning])}",
            )
    unit, block = next(((unit, block) for has, unit, block in _FORMATS if has <= known.keys()), ("", None))
    return Columns(found, unit, block)
