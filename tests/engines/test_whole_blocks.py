"""Ranks that would cut the blocks of an fp8 checkpoint, as two engines refuse them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.api import size
from kvcalc.core.sharding import Layout
from kvcalc.engines.placement import uncut
from kvcalc.errors import KvcalcError
from kvcalc.library import loader

# What public logs say of starting them: experts' channels, tp, and whether it starts. vllm #17569 (Qwen3 235B, 192);
# reports on MiniMax M2.5 and M2.7 at tp 8 (192, with vLLM 0.19 and 0.25), both at tp 4 (384); vLLM's recipes run
# DeepSeek V3 at tp 16 (128); sglang #10641: DeepSeek at tp 32 (64).
STARTED = [
    ("qwen3-235b-a22b-fp8", 8, False),
    ("qwen3-235b-a22b-fp8", 4, True),
    ("minimax-m2", 8, False),
    ("minimax-m2.7", 4, True),
    ("deepseek-v3", 16, True),
    ("deepseek-v3", 32, False),
    ("qwen3-235b-a22b", 8, True),  # bf16 has no blocks
    ("qwen3-32b-fp8", 8, True),  # no experts
]


@pytest.mark.parametrize(("preset", "tp", "starts"), STARTED)
def test_what_starts(preset: str, tp: int, starts: bool) -> None:
    model = loader.load(preset)
    if starts:
        uncut(model, Layout(tp=tp), "vllm", "--enable-expert-parallel")
        return
    with pytest.raises(KvcalcError, match="that share a scale") as refused:
        uncut(model, Layout(tp=tp), "vllm", "--enable-expert-parallel")
    assert f"--ep {tp} (--enable-expert-parallel)" in (refused.value.hint or "")
    uncut(model, Layout(tp=tp, ep=tp), "vllm", "--enable-expert-parallel")


def test_replicas_that_share_cut_experts_too() -> None:
    """Without expert parallelism vLLM cuts experts over tp x dp ranks: 1,536 / (2 x 4) is 192 again."""
    with pytest.raises(KvcalcError, match="192 of an expert's 1,536"):
        uncut(loader.load("minimax-m2"), Layout(tp=2, dp=4, sharing=4), "vllm", "--enable-expert-parallel")


@given(st.integers(0, 5), st.integers(0, 5))
def test_whole_experts_always_start(tp: int, sharing: int) -> None:
    layout = Layout(tp=2**tp, dp=2**sharing, sharing=2**sharing, ep=2 ** (tp + sharing))
    uncut(loader.load("qwen3-235b-a22b-fp8"), layout, "sglang", "--ep-size")


def test_both_ways_to_ask() -> None:
    """By options and by the engine's own flags, which can say how to keep experts whole."""
    for asked in ({"engine": "vllm"}, {"engine": "sglang"}):
        with pytest.raises(KvcalcError, match="192 of an expert's 1,536"):
            size("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, **asked)
        assert size("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, ep=8, **asked)
    assert size("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, engine="vllm", weights="int4")  # another checkpoint
