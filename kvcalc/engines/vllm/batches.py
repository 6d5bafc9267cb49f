"""How many sequences and tokens vLLM takes into one batch where nobody says: `get_batch_defaults` of `arg_utils.py`."""

from typing import NamedTuple

from kvcalc.core.card import Card
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.versions import Profile, Version
from kvcalc.perf.pace import runs_ahead
from kvcalc.serving.rules import Limits

__all__ = ["Batch", "batch_of", "batched_tokens", "scheduler"]

_GIB = 2**30
_H100 = 79 * _GIB  # where no card is known


class Batch(NamedTuple):
    """The most sequences, and the most tokens of all of them together, in one step."""

    sequences: int
    tokens: int


def batch_of(question: Question, memory: int | None = None) -> Batch:
    """--max-num-seqs and --max-num-batched-tokens as they are in force on a card with so many bytes."""
    assert isinstance(question.version, Version)
    settings, profile, context = question.settings, question.version.profile, question.request.context
    sequences, tokens = _stated(question, memory)
    if not settings.get("max_num_batched_tokens"):
        # V0 took prompts in one piece up to 32,768 tokens of context (`EngineArgs.create_engine_config` of 0.8).
        whole = context <= 32768 if profile.first else settings.get("enable_chunked_prefill") is False
        tokens = min(max(tokens, context) if whole else tokens, sequences * context)
    return Batch(sequences if settings.get("max_num_seqs") else min(sequences, tokens), tokens)


def scheduler(question: Question, memory: int) -> Limits:
    """What a step takes. Prompts are computed in pieces unless --no-enable-chunked-prefill, V1's default.

    From 0.14 on a step is scheduled while the one before it runs (`step_with_batch_queue` of `v1/engine/core.py`; pull
    requests 19970 and 27614, by default), which makes first tokens later (pull request 39592).
    """
    batch, settings = batch_of(question, memory), question.settings
    ahead = settings.get("async_scheduling", runs_ahead(question.version.name)) is True
    chunked = settings.get("enable_chunked_prefill") is not False
    by_piece = chunked and _by_piece(question.version.name)
    return Limits(batch.sequences, batch.tokens, chunked, ahead=ahead, by_piece=by_piece)


def _by_piece(version: str) -> bool:
    """Before `scheduler_reserve_full_isl` (pull request 37307; on by default in 0.19.0) the first piece had to fit."""
    return tuple(int(each) for each in version.split(".")[:2]) < (0, 19)


def batched_tokens(question: Question) -> int:
    """--max-num-batched-tokens, whatever the context."""
    return _stated(question, None).tokens


def _stated(question: Question, memory: int | None) -> Batch:
    """What the flags say, else the defaults."""
    assert isinstance(question.version, Version)
    settings, card = question.settings, question.card
    default = _defaults(card, memory or (card.memory if card else _H100), question.version.profile)
    twice = 2 if settings.get("performance_mode") == "throughput" else 1
    sequences, tokens = (_number(settings.get(name)) for name in ("max_num_seqs", "max_num_batched_tokens"))
    return Batch(sequences or twice * default.sequences, tokens or twice * default.tokens)


def _defaults(card: Card | None, memory: int, profile: Profile) -> Batch:
    """Of a server. Offline, `LLM` takes twice the tokens on large cards and four times on others."""
    if profile.first:
        return Batch(256, 2048)
    name = card.name if card else ""
    small = name.startswith("a100") or (profile.small and name.startswith("gb10"))
    if profile.large and memory >= 160 * _GIB:
        return Batch(1024, 16384)
    return Batch(1024, 8192) if memory >= 70 * _GIB and not small else Batch(256, 2048)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
