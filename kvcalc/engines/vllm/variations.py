"""Which other readings there are of a log of vLLM: what it leaves open, and rules that were those of other versions."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product

from kvcalc.core.formula import kept
from kvcalc.core.kinds import encodes
from kvcalc.core.model import Indexer, Latent, Recurrent
from kvcalc.engines.base import Question
from kvcalc.engines.log_form import StartLog, Variation
from kvcalc.engines.vllm.versions import VERSIONS, Version

__all__ = ["rules_of", "variations"]

_Assumption = tuple[str, Callable[[Question], Question]]


def variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:
    """What the log leaves open, one and up to three things at a time; then what would contradict it."""
    assumptions = _assumptions(question, run, version)
    for many in (1, 2, 3):
        for chosen in combinations(assumptions, many):
            for each in product(*chosen):
                changed = question
                for _, change in each:
                    changed = change(changed)
                yield Variation(", ".join(words for words, _ in each), changed, open=True)
    if version is not None:
        for row in VERSIONS:
            if row != question.version:
                yield Variation(
                    f"the rules of another time, vllm {row.name}", question._replace(version=row), open=False
                )


def _assumptions(question: Question, run: StartLog, version: str | None) -> list[Sequence[_Assumption]]:
    """What is not stated, with the values that it may have."""
    settings, caches = question.settings, question.request.model.distinct_caches
    windows = any(kept(c) or encodes(c) for c in caches)
    latents = any(isinstance(c, Latent) for c in caches)
    sparse = any(isinstance(c, Indexer) and c.store for c in caches)
    states = [c.kind for c in caches if isinstance(c, Recurrent)]
    rows = [_version(row) for row in reversed(_rows(run)) if row != question.version]
    # whether it matters, the settings that would state it, and the assumptions
    table: tuple[tuple[bool, set[str], Sequence[_Assumption]], ...] = (
        (version is None, set(), rows),
        (run.last("cpu") is not None, {"block_size"}, [_with("block_size", 128, "blocks of 128 tokens, as on CPUs")]),
        (latents, {"block_size", "backend"},
         [_with("block_size", size, f"blocks of {size} tokens") for size in (16, 32, 64, 128)]),
        (sparse, {"backend"},
         [_with("backend", "FLASHINFER_MLA_SPARSE", "Blackwell's kernel for sparse latents, in plain fp8")]),
        (windows, {"max_num_batched_tokens"},
         [_with("max_num_batched_tokens", n, f"{n:,} batched tokens") for n in (2048, 16384)]),
        (windows, {"async_scheduling"}, [_with("async_scheduling", False, "scheduling that is not asynchronous")]),
        (bool(states), {"block_size", "backend"}, [_with("block_size", 64, "blocks of 64 tokens, as on Intel's GPUs")]),
        (bool(states), {"enable_prefix_caching"},
         [_with("enable_prefix_caching", on, f"prefix caching {'on' if on else 'off'}") for on in (False, True)]),
        (bool(states and settings.get("enable_prefix_caching", True)), {"mamba_cache_mode"},
         [_with("mamba_cache_mode", "align", "states kept where prefixes end")]),
        ("deltanet" in states, {"gdn_backend"},
         [_with("gdn_backend", "triton", "Triton's kernel for the gated delta rule")]),
        (windows, {"hybrid"}, [_with("hybrid", False, "windows kept in full")]),
    )  # fmt: skip
    return [assumptions for matters, stated, assumptions in table if matters and not stated & set(settings)]


def _rows(run: StartLog) -> list[Version]:
    """The versions that print in this way: tokens and concurrency in one line, or in two."""
    counted = [each for each in run.found if {"tokens", "concurrency"} & set(each.says)]
    numbers = {name: {each.number for each in counted if name in each.says} for name in ("tokens", "concurrency")}
    if not numbers["tokens"] or not numbers["concurrency"]:
        return list(VERSIONS)
    lines = 1 if numbers["tokens"] & numbers["concurrency"] else 2
    return [row for row in VERSIONS if row.lines == lines]


def rules_of(run: StartLog) -> str | None:
    """The newest version that prints in this way."""
    rows = _rows(run)
    return rows[-1].name if rows[-1] != VERSIONS[-1] else None


def _version(row: Version) -> _Assumption:
    return f"the rules of vllm {row.name}", lambda question: question._replace(version=row)


def _with(name: str, value: object, words: str) -> _Assumption:
    return words, lambda question: question._replace(settings={**question.settings, name: value})
