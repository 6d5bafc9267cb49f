"""Which other readings there are of a log of vLLM: what it leaves open, and rules that were those of other versions."""

from collections.abc import Iterator, Sequence

from kvcalc.core.formula import kept
from kvcalc.core.kinds import encodes
from kvcalc.core.model import Indexer, Latent, Recurrent
from kvcalc.engines.log_form import StartLog, Variation, Way, Ways
from kvcalc.engines.question import Question
from kvcalc.engines.vllm.versions import VERSIONS, Version

__all__ = ["rules_of", "variations", "ways"]

_DRAFTED = range(1, 9)  # tokens that a draft may propose


def variations(question: Question, run: StartLog, version: str | None) -> Iterator[Variation]:  # noqa: ARG001
    """Rules that were those of other versions than the log names."""
    if version is not None:
        for row in VERSIONS:
            if row != question.version:
                yield Variation(f"the rules of another time, vllm {row.name}", question._replace(version=row))


def ways(question: Question, run: StartLog, version: str | None) -> Ways:
    """What is not stated, with the values that it may have."""
    settings, model = question.settings, question.request.model
    caches = model.distinct_caches
    windows = any(kept(c) or encodes(c) for c in caches)
    latents = any(isinstance(c, Latent) for c in caches)
    sparse = any(isinstance(c, Indexer) and c.store for c in caches)
    states = [c.kind for c in caches if isinstance(c, Recurrent)]
    rows = [_version(row) for row in reversed(_rows(run)) if row != question.version]
    drafts = bool(states or model.draft) and not run.stated("speculation", "speculative_config")
    # whether it matters, the settings that would state it, and the ways
    table: tuple[tuple[bool, set[str], Sequence[Way]], ...] = (
        (run.last("cpu") is not None, {"block_size"}, [_knob("block_size", 128, "blocks of 128 tokens, as on CPUs")]),
        (latents, {"block_size", "backend"},
         [_knob("block_size", size, f"blocks of {size} tokens") for size in (16, 32, 64, 128)]),
        (sparse, {"backend"},
         [_knob("backend", "FLASHINFER_MLA_SPARSE", "Blackwell's kernel for sparse latents, in plain fp8")]),
        (windows, {"max_num_batched_tokens"},
         [_knob("max_num_batched_tokens", n, f"{n:,} batched tokens") for n in (2048, 4096, 8192, 16384)]),
        (windows, {"async_scheduling"}, [_knob("async_scheduling", False, "scheduling that is not asynchronous")]),
        (bool(states), {"block_size", "backend"}, [_knob("block_size", 64, "blocks of 64 tokens, as on Intel's GPUs")]),
        (bool(states), {"enable_prefix_caching"},
         [_knob("enable_prefix_caching", on, f"prefix caching {'on' if on else 'off'}") for on in (False, True)]),
        (bool(states and settings.get("enable_prefix_caching", True)), {"mamba_cache_mode"},
         [_knob("mamba_cache_mode", "align", "states kept where prefixes end")]),
        ("deltanet" in states, {"gdn_backend"},
         [_knob("gdn_backend", "triton", "Triton's kernel for the gated delta rule")]),
        (drafts, {"speculative"}, [_drafted(n) for n in _DRAFTED]),
        (windows, {"hybrid"}, [_knob("hybrid", False, "windows kept in full")]),
        (version is None, set(), rows),
    )  # fmt: skip
    return [each for matters, stated, each in table if matters and each and not stated & set(settings)]


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


def _version(row: Version) -> Way:
    return Way("version", f"the rules of vllm {row.name}", lambda question: question._replace(version=row))


def _knob(name: str, value: object, words: str) -> Way:
    return Way(name, words, lambda question: _with(question, **{name: value}))


def _drafted(tokens: int) -> Way:
    words = f"{tokens} drafted token{'s' if tokens > 1 else ''}"
    return Way("speculative", words, lambda question: _with(question, method="mtp", speculative=tokens))


def _with(question: Question, **settings: object) -> Question:
    return question._replace(settings={**question.settings, **settings})
