"""Ranks that would cut the blocks of an fp8 checkpoint, as two engines refuse them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.api import plan, size
from kvcalc.cards.shipped import accelerators
from kvcalc.cli.main import run
from kvcalc.core.sharding import Layout
from kvcalc.engines.placement import uncut
from kvcalc.errors import KvcalcError
from kvcalc.library import loader
from kvcalc.perf.machine import machine_of
from kvcalc.perf.pace import Pace
from kvcalc.sources.config.lookup import Config
from kvcalc.sources.config.quantised import block

from .test_gpu_commands import answer

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


def test_both_ways_to_ask(capsys: pytest.CaptureFixture[str]) -> None:
    """By options and by the engine's own flags, which can say how to keep experts whole."""
    for engine in ("vllm", "sglang"):
        with pytest.raises(KvcalcError, match="192 of an expert's 1,536"):
            size("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, engine=engine)
        assert size("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, ep=8, engine=engine)
    assert size("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, engine="vllm", weights="int4")  # another checkpoint
    start = ["--gpu", "8xh200", "--", "vllm", "serve", "MiniMaxAI/MiniMax-M2", "--tensor-parallel-size", "8"]
    assert (run(start), run([*start, "--enable-expert-parallel"])) == (2, 0)
    assert capsys.readouterr().err.startswith("kvcalc: error: --tp: vllm refuses MiniMax-M2 at --tp 8: 192 of")


# As published: Qwen/Qwen3-235B-A22B-FP8; Laguna's compressed-tensors; a per-tensor checkpoint; and sides nobody means.
SCHEMES: list[tuple[dict[str, object], int | None]] = [
    ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 128),
    ({"config_groups": {"group_0": {"weights": {"strategy": "block", "block_structure": [128, 128]}}}}, 128),
    ({"quant_method": "fp8", "activation_scheme": "static"}, None),
    ({"quant_method": "fp8", "weight_block_size": [1, True]}, None),
    ({"config_groups": [], "weight_block_size": [128, 64]}, None),
]


@pytest.mark.parametrize(("scheme", "side"), SCHEMES)
def test_blocks_of_a_configuration(scheme: dict[str, object], side: int | None) -> None:
    assert block([Config(scheme, "config.json")]) == side


def test_the_clock_doubts_whole_experts() -> None:
    """What a rank with whole experts waits for was not measured, so that times have a wider range."""
    card, pace = accelerators()["h200-sxm"].card(), Pace()
    divided, whole = (machine_of(card, Layout(tp=8, ep=ep), "fp8", pace) for ep in (1, 8))
    assert len(whole.unknown) == len(divided.unknown) + 1


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_plan_keeps_experts_whole_where_it_must(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At tp 8 the row spreads whole experts, its command says so, and read back it gives the row's own numbers."""
    row = plan("qwen3-235b-a22b-fp8", gpu="8xh200", tp=8, users=64, engine=engine).to_dict()["options"][0]
    assert (row["tp"], row["ep"]) == (8, 8)
    started = row["engine_flags"][engine]
    assert {"vllm": "--enable-expert-parallel", "sglang": "--ep-size 8"}[engine] in started
    words = ("--gpu", "8xh200", "--", *started.split())
    for key in ("weights_bytes_per_gpu", "kv_budget_bytes_per_gpu"):
        assert answer(capsys, f"fit.{key}", *words) == row[key]
