"""vLLM's versions as rows of constants: what changed between the wheels of 0.11.0 to 0.33.0."""

from functools import lru_cache
from typing import Literal, NamedTuple

from kvcalc.commands.versions import parse
from kvcalc.core.units import Fraction

__all__ = ["VERSIONS", "Profile", "Version", "dropped", "log"]


class Profile(NamedTuple):
    """How a version measures what it needs beside weights and cache: its profile run, and what that finds.

    Attributes:
        first: The engine before V1: 256 sequences on any card, and prompts in one piece.
        sampler: How top-k and top-p are found: by sorting all logits, or by kernels that keep few copies of them
            (Triton's or FlashInfer's). The official image of 0.11.0 had FlashInfer's.
        second: Which models have the second model runner, with a sampler of its own.
        processed: Its profile run samples with penalties and filters too.
        kept: Whose workspaces of experts stay allocated beside the sampler's memory, instead of taking turns with it.
        triton: On Hopper, block-scaled fp8 experts run in Triton unless experts are spread, then in FlashInfer; before
            that in DeepGEMM.
        reduces: All-reduce and norm are fused by default, which has a workspace.
        graphs: Memory of captured graphs comes off the pool.
        blind: Not in the second runner, whose `profile_cudagraph_memory` gives 0 in the wheels of 0.25.0 and 0.28.0,
            and an estimate in those of 0.30.0 and 0.33.0.
        large: Cards of 160 GiB and more batch 16,384 tokens.
        small: A GB10 counts as a small card.
    """

    first: bool = False
    sampler: Literal["sort", "kernel"] = "sort"
    second: Literal["none", "qwen3", "dense", "all"] = "none"
    processed: bool = False
    kept: Literal["none", "fp8", "16-bit", "all"] = "none"
    triton: bool = False
    reduces: Literal["none", "alone", "any"] = "none"
    graphs: Literal["none", "cuda", "any"] = "none"
    blind: bool = False
    large: bool = False
    small: bool = False


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
    (`envs.py`, where a comment still says the opposite). `blackwell`: FlashInfer has kernels for the sparse latents
    of data centres' Blackwell (10), and of others too (12). `profile`: how it measures what is beside the cache.
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
    blackwell: tuple[int, ...]
    profile: Profile


# Of the profile run, by the wheels of 0.11.0, 0.14.1, 0.16.0, 0.17.0, 0.18.0, 0.20.0, 0.22.0, 0.25.0, 0.28.0, 0.30.0
# and 0.33.0; what lies between follows the lower one. `kept` before 0.17: printed by start-ups of DeepSeek R1 on H200
# (7.3 GiB beside the weights in 0.11.2, 5.8 in 0.13.0 and 0.16.0, 7.4 in 0.14.1) and of Qwen3-VL-30B.
_V0 = Profile(first=True)
_SORTED = Profile()
_IMAGE = Profile(sampler="kernel", kept="fp8")
_0_11 = Profile(kept="fp8")
_0_14 = Profile(kept="all")
_0_16 = Profile(kept="16-bit")
_0_17 = Profile(sampler="kernel", kept="all", triton=True, reduces="alone")
_0_20 = _0_17._replace(graphs="cuda")
_0_22 = _0_20._replace(graphs="any", second="qwen3", blind=True)
_0_25 = _0_22._replace(second="dense")
_0_28 = _0_25._replace(large=True)
_0_30 = _0_28._replace(second="all", blind=False)
_0_33 = _0_30._replace(processed=True, reduces="any", small=True)

_90, _92 = Fraction(9, 10), Fraction(92, 100)
_R11 = Version(
    "0.6.0", _90, exact_tokens=False, batches=1, close=None, checkpoints=frozenset(), cached=False, lines=2,
    packed=False, every=False, prefill=False, chunks=False, blackwell=(), profile=_V0,
)  # fmt: skip
_R15 = _R11._replace(name="0.15.1", close=(5, 4), every=True, prefill=True, chunks=True, profile=_0_14)
_R19 = _R15._replace(name="0.19.1", close=(3, 2), blackwell=(10,), profile=_0_17)
_R20 = _R19._replace(name="0.20.0", utilization=_92, profile=_0_20)
_R20_2 = _R20._replace(name="0.20.2", exact_tokens=True)
_R24 = _R20_2._replace(name="0.24.0", blackwell=(10, 12), profile=_0_22)
_R25 = _R24._replace(name="0.25.0", profile=_0_25)
_R26 = _R25._replace(name="0.26.0", batches=None, cached=True, prefill=False)
_R27 = _R26._replace(name="0.27.0", packed=True)
_R28 = _R27._replace(name="0.28.0", lines=1, profile=_0_28)
_R29 = _R28._replace(name="0.29.0", checkpoints=frozenset({"kda"}))
_R30 = _R29._replace(name="0.30.0", profile=_0_30)
_R32 = _R30._replace(name="0.32.0", checkpoints=_R29.checkpoints | {"mamba2"}, every=False)
_R33 = _R32._replace(name="0.33.0", checkpoints=_R32.checkpoints | {"deltanet"}, profile=_0_33)
VERSIONS = (
    _R11,
    _R11._replace(name="0.9.0", profile=_SORTED),
    _R11._replace(name="0.11.0", profile=_IMAGE),
    _R11._replace(name="0.11.1", profile=_0_11),
    _R11._replace(name="0.12.0", profile=_SORTED),
    _R11._replace(name="0.14.0", profile=_0_14),
    _R15,
    _R15._replace(name="0.16.0", profile=_0_16),
    _R15._replace(name="0.17.0", profile=_0_17),
    _R19,
    _R20,
    _R20_2,
    _R20_2._replace(name="0.22.0", profile=_0_22),
    _R24,
    _R25,
    _R26,
    _R27,
    _R28,
    _R29,
    _R30,
    _R32,
    _R33,
)
_OLDEST = "0.11.0"  # whose rules for the cache were read


# The last version that ran a type of model (`model_executor/models/registry.py`).
_LAST = {
    "mllama_text_model": "0.10.2", "bart": "0.10.2", "t5": "0.10.2", "qwen": "0.23.0", "internlm": "0.23.0",
    "xverse": "0.23.0", "dots1": "0.23.0", "bamba": "0.23.0", "minimax": "0.23.0", "minimax_text_01": "0.23.0",
    "baichuan": "0.23.0", "aquila": "0.24.0", "grok-1": "0.24.0", "persimmon": "0.25.0", "plamo2": "0.26.0",
    "arctic": "0.28.0", "mpt": "0.28.0", "chameleon": "0.28.0",
}  # fmt: skip


@lru_cache(64)  # a search asks for one version thousands of times
def dropped(version: Version, model_type: str | None) -> tuple[str, ...]:
    """Warnings where a version no longer runs such a model by itself, or where how it makes blocks was not read."""
    old = parse(version.name, "--engine") < parse(_OLDEST, "--engine")
    if old:
        return (f"vllm {version.name} is older than all versions whose blocks were read: those of {_OLDEST} are used",)
    last = _LAST.get(model_type or "")
    if last is None or parse(last, "--engine") >= parse(version.name, "--engine"):
        return ()
    return (f"vllm {version.name} does not run {model_type} models by itself: the last version that did is {last}",)


def log(version: Version, tokens: int, length: int, concurrency: float) -> tuple[str, ...]:
    """The lines that vLLM prints (`v1/core/kv_cache_utils.py`)."""
    counted = f"GPU KV cache size: {tokens:,} tokens"
    most = f"Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x"
    return (f"{counted}, {most}",) if version.lines == 1 else (counted, most)
