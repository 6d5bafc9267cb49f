"""vLLM's versions as rows of constants: what changed between the wheels of 0.11.0 to 0.33.0."""

from typing import NamedTuple

from kvcalc.commands.versions import parse
from kvcalc.core.units import Fraction

__all__ = ["VERSIONS", "Version", "dropped", "log"]


class Version(NamedTuple):
    """What changed between versions.

    `exact_tokens`: the logged tokens are int(concurrency x length), before that whole blocks of a group. `batches`:
    how many batches windows hold in flight, None for as many as the scheduler runs. `close`: below which ratio the
    commonest kind of layer sets the size of groups instead of the rarest. `checkpoints`: the kinds of states for which
    some kernel keeps a block more for its own checkpoints (`num_prefill_checkpoint_blocks`). `cached`: prefix caching
    is on by default where there are states. `lines`: of the log. `packed`: a sequence takes the sum of its groups'
    blocks, also where pages are packed. `every`: states may be kept for every block. `prefill`: prefill context
    parallelism divides the context too. `chunks`: the hybrid manager is on for chunked attention too:
    VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE is 1 by default since pull request 29627 of December 2025
    (`envs.py`, where a comment still says the opposite). `largest`: cards of 160 GiB and more batch twice as many
    tokens; `small_gb10`: a GB10 as few as a small card (`arg_utils.py: get_batch_defaults`). `blackwell`: FlashInfer
    has kernels for the sparse latents of data centres' Blackwell (10), and of others too (12).
    """

    name: str
    utilization: Fraction
    exact_tokens: bool
    batches: int | None
    close: tuple[int, int] | None
    checkpoints: frozenset[str]
    cached: bool
    lines: int
    packed: bool
    every: bool
    prefill: bool
    chunks: bool
    largest: bool
    small_gb10: bool
    blackwell: tuple[int, ...]


_90, _92 = Fraction(9, 10), Fraction(92, 100)
_0_11 = Version(
    "0.11.0", _90, exact_tokens=False, batches=1, close=None, checkpoints=frozenset(), cached=False, lines=2,
    packed=False, every=False, prefill=False, chunks=False, largest=False, small_gb10=False, blackwell=(),
)  # fmt: skip
_0_15 = _0_11._replace(name="0.15.1", close=(5, 4), every=True, prefill=True, chunks=True)
_0_19 = _0_15._replace(name="0.19.1", close=(3, 2), blackwell=(10,))
_0_20 = _0_19._replace(name="0.20.0", utilization=_92)
_0_20_2 = _0_20._replace(name="0.20.2", exact_tokens=True)
_0_24 = _0_20_2._replace(name="0.24.0", blackwell=(10, 12))
_0_26 = _0_24._replace(name="0.26.0", batches=None, cached=True, prefill=False)
_0_27 = _0_26._replace(name="0.27.0", packed=True)
_0_28 = _0_27._replace(name="0.28.0", lines=1, largest=True)
_0_29 = _0_28._replace(name="0.29.0", checkpoints=frozenset({"kda"}))
_0_32 = _0_29._replace(name="0.32.0", checkpoints=_0_29.checkpoints | {"mamba2"}, every=False)
_0_33 = _0_32._replace(name="0.33.0", checkpoints=_0_32.checkpoints | {"deltanet"}, small_gb10=True)
VERSIONS = (_0_11, _0_15, _0_19, _0_20, _0_20_2, _0_24, _0_26, _0_27, _0_28, _0_29, _0_32, _0_33)


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
