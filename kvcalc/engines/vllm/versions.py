"""vLLM's versions as rows of constants: what changed between the wheels of 0.11.0 to 0.33.0."""

from typing import NamedTuple

from kvcalc.commands.versions import parse
from kvcalc.core.units import Fraction

__all__ = ["VERSIONS", "Version", "dropped", "log"]


class Version(NamedTuple):
    """What changed between versions.

    `exact_tokens`: the logged tokens are int(concurrency x length), before that whole blocks of a group. `batches`:
    how many batches windows hold in flight, None for as many as the scheduler runs. `close`: below which ratio the
    commonest kind of layer sets the size of groups instead of the rarest. `checkpoint`: states keep a block more for a
    kernel's own checkpoints. `cached`: prefix caching is on by default where there are states. `lines`: of the log.
    `packed`: a sequence takes the sum of its groups' blocks, also where pages are packed. `every`: states may be kept
    for every block. `prefill`: prefill context parallelism divides the context too. `chunks`: the hybrid manager is on
    for chunked attention too: VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is 1 by default since pull request
    29627 of December 2025 (`envs.py`, where a comment still says the opposite).
    """

    name: str
    utilization: Fraction
    exact_tokens: bool
    batches: int | None
    close: tuple[int, int] | None
    checkpoint: bool
    cached: bool
    lines: int
    packed: bool
    every: bool
    prefill: bool
    chunks: bool


_90, _92 = Fraction(9, 10), Fraction(92, 100)
VERSIONS = (
    Version("0.11.0", _90, False, 1, None, False, False, 2, False, False, False, False),
    Version("0.15.1", _90, False, 1, (5, 4), False, False, 2, False, True, True, True),
    Version("0.19.1", _90, False, 1, (3, 2), False, False, 2, False, True, True, True),
    Version("0.20.0", _92, False, 1, (3, 2), False, False, 2, False, True, True, True),
    Version("0.20.2", _92, True, 1, (3, 2), False, False, 2, False, True, True, True),
    Version("0.26.0", _92, True, None, (3, 2), False, True, 2, False, True, False, True),
    Version("0.27.0", _92, True, None, (3, 2), False, True, 2, True, True, False, True),
    Version("0.28.0", _92, True, None, (3, 2), False, True, 1, True, True, False, True),
    Version("0.29.0", _92, True, None, (3, 2), True, True, 1, True, True, False, True),
    Version("0.33.0", _92, True, None, (3, 2), True, True, 1, True, False, False, True),
)


# The last version that ran a type of model (`model_executor/models/registry.py`).
_LAST = {
    "mllama_text_model": "0.10.2", "bart": "0.10.2", "t5": "0.10.2", "qwen": "0.23.0", "internlm": "0.23.0",
    "xverse": "0.23.0", "dots1": "0.23.0", "bamba": "0.23.0", "minimax": "0.23.0", "minimax_text_01": "0.23.0",
    "baichuan": "0.23.0", "aquila": "0.24.0", "grok-1": "0.24.0", "persimmon": "0.25.0", "plamo2": "0.26.0",
    "arctic": "0.28.0", "mpt": "0.28.0", "chameleon": "0.28.0",
}  # fmt: skip


def dropped(version: Version, model_type: str | None) -> tuple[str, ...]:
    """A warning where a version no longer runs such a model by itself."""
    last = _LAST.get(model_type or "")
    if last is None or parse(last, "--engine") >= parse(version.name, "--engine"):
        return ()
    return (f"vllm {version.name} does not run {model_type} models by itself: the last version that did is {last}",)


def log(version: Version, tokens: int, length: int, concurrency: float) -> tuple[str, ...]:
    """The lines that vLLM prints (`v1/core/kv_cache_utils.py`)."""
    counted = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x"
    return (f"{counted}, {most}",) if version.lines == 1 else (counted, most)
