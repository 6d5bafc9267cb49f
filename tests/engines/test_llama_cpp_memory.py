"""llama.cpp's buffers and what it puts where, against sizes that builds of 2024 to 2026 printed (MiB are 2^20 bytes)."""

from typing import Any

import pytest

from kvcalc.commands.versions import pick
from kvcalc.core.overheads import Overhead
from kvcalc.core.request import ask
from kvcalc.core.sharding import place
from kvcalc.engines.llama_cpp.buffers import Step, device_buffer, host_buffer, output_buffer, step_of
from kvcalc.engines.llama_cpp.context import context_of
from kvcalc.engines.llama_cpp.engine import ENGINE
from kvcalc.engines.llama_cpp.placement import offload_of, placed, places
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch
from kvcalc.library import loader

MIB, GIB = 2**20, 2**30


def question(preset: str, context: int, build: str | None = None, batch: int = 1, **settings: Any) -> Question:
    asked = ask(loader.load(preset), context=context, batch=batch)
    version, _ = pick(ENGINE.versions, build, "llama.cpp")
    return Question(asked, place(asked.model, asked.layout), version, settings)


def step(asked: Question, *, pipelined: bool = False) -> Step:
    found = step_of(asked.request.model, context_of(asked), pipelined=pipelined)
    assert found is not None
    return found


# Printed "compute buffer size" of a device without flash attention, exactly: an 8B at 8,192 cells on one card and, with
# the inputs held four times, on several; Qwen3-30B-A3B at 70,016 cells.
@pytest.mark.parametrize(
    ("preset", "context", "pipelined", "printed"),
    [("llama3-8b", 8192, False, 560.00), ("llama3-8b", 8192, True, 640.00), ("qwen3-30b-a3b", 70_000, False, 4536.75)],
)
def test_scores_are_kept_without_flash_attention(preset: str, context: int, pipelined: bool, printed: float) -> None:
    """cells x 512 rows x 32 heads x 4 B + the mask + activations and queries."""
    size = device_buffer(step(question(preset, context, "b6400", flash_attn="off"), pipelined=pipelined), last=False)
    assert size.low == size.likely == size.high == printed * MIB


# Printed "CUDA_Host compute buffer size".
@pytest.mark.parametrize(
    ("context", "build", "pipelined", "printed"),
    [(8192, "b4082", False, 24.01), (8192, "b4082", True, 72.02), (8192, "b9010", False, 32.01)],
)
def test_the_host_holds_masks_and_activations(context: int, build: str, pipelined: bool, printed: float) -> None:
    """An 8B: 16 MiB of mask for each copy, and 8 MiB of activations, twice in 2026."""
    size = host_buffer(step(question("llama3-8b", context, build, flash_attn="off"), pipelined=pipelined))
    assert abs(size / MIB - printed) < 0.1


def test_masks_of_flash_attention_have_16_bits_since_summer_2026() -> None:
    """8,192 cells x 512 rows x 2 B = 8 MiB and two activations of 8 MiB each, where it was 16 MiB and those."""
    before, after = (
        host_buffer(step(question("llama3-8b", 8192, build, flash_attn="on"))) for build in ("b9500", "b10720")
    )
    assert (before, after) == (32 * MIB, 24 * MIB)


@pytest.mark.parametrize(
    ("preset", "sequences", "printed"),
    [("llama3-8b", 1, 0.49), ("qwen3-8b", 1, 0.58), ("qwen3-8b", 16, 9.27)],
)
def test_the_output_is_a_row_of_logits_for_each_sequence(preset: str, sequences: int, printed: float) -> None:
    asked = question(preset, 4096, batch=sequences)
    assert round(output_buffer(asked.request.model, context_of(asked)) / MIB, 2) == printed


def test_logits_count_on_the_last_device_alone() -> None:
    """A short context: 512 rows x 128,256 x 4 B = 250.5 MiB and an activation of 8: 258.5 MiB printed."""
    asked = step(question("llama3-8b", 2048, "b6400", flash_attn="on"))
    assert device_buffer(asked, last=True).low == 258.5 * MIB
    assert device_buffer(asked, last=False).high < 100 * MIB


def test_a_server_keeps_few_logits_since_summer_2026() -> None:
    """One row for each slot in place of 512: a quarter GiB less on the last card."""
    before, after = (
        device_buffer(step(question("llama3-8b", 2048, build, flash_attn="on")), last=True).likely
        for build in ("b9500", "b10720")
    )
    assert before - after > 150 * MIB


def test_places_on_equal_cards() -> None:
    """33 places of an 8B: 9, 8, 8, and 7 layers with the output; on two 17, and 15 with the output."""
    four, two = (places(32, offload_of({}, devices)) for devices in (4, 2))
    assert [four.count(i) for i in range(4)] == [9, 8, 8, 8]
    assert [two.count(i) for i in range(2)] == [17, 16]
    assert four[-1] == 3


def test_the_cache_lies_beside_its_layers() -> None:
    """Printed: 288, 256, 256 and 224 MiB of an 8B's cache of 8,192 cells on four cards, 544 and 480 on two."""
    asked = question("llama3-8b", 8192)
    four, two = (placed(asked, 8 * GIB, devices) for devices in (4, 2))
    assert [each.cache // MIB for each in four] == [288, 256, 256, 224, 0]
    assert [each.cache // MIB for each in two] == [544, 480, 0]


def test_the_last_layers_are_offloaded_first() -> None:
    """-ngl 32 of an 8B leaves layer 0 on the host, -ngl 1 all layers but the output; -nkvo the whole cache."""
    assert places(32, offload_of({"gpu_layers": 32}, 1))[:2] == [None, 0]
    assert places(32, offload_of({"gpu_layers": 1}, 1))[-2:] == [None, 0]
    device, host = placed(question("llama3-8b", 8192, kv_offload=False), 8 * GIB, 1)
    assert (device.cache, host.cache) == (0, 1024 * MIB)


def test_a_host_weight_is_copied_for_large_batches() -> None:
    """-ngl 0 of Qwen3-32B in q8_0: logits, an activation, and a copy of the output: 788.2 + 296.75 + 10 = 1,094.99 MiB.

    All of 64 layers have more parameters than the output; it is the largest single weight.
    """
    asked = question("qwen3-32b", 512, "b6400", gpu_layers=0, flash_attn="on", n_ubatch=512)
    model = asked.request.model
    assert model.parameters is not None
    device, host = placed(asked, model.parameters * 34 // 32, 1)
    assert device.layers == 0
    assert device.weights == device.cache == 0
    assert abs(device.compute.low / MIB - 1094.99) < 8
    assert host.weights >= model.parameters * 34 // 32


def test_experts_on_the_host_leave_cache_and_attention() -> None:
    """--n-cpu-moe 24 of Qwen3-30B-A3B: half of 48 layers x 128 experts x 3 x 2,048 x 768 x 17 GiB / 30.5B parameters."""
    asked = question("qwen3-30b-a3b", 4096, cpu_experts=24)
    device, _ = placed(asked, 17 * GIB, 1)
    whole, _ = placed(question("qwen3-30b-a3b", 4096), 17 * GIB, 1)
    moved = whole.weights - device.weights
    assert moved == pytest.approx(24 * 128 * 3 * 2048 * 768 * 17 * GIB / 30.53e9, rel=0.01)
    assert (device.cache, device.layers) == (whole.cache, whole.layers)
    by_name, _ = placed(question("qwen3-30b-a3b", 4096, tensor_buffers=(("exps", True),)), 17 * GIB, 1)
    assert by_name.weights < device.weights


def test_unequal_shares_are_places_and_not_bytes() -> None:
    started = launch("llama.cpp", ["-ts", "3,1"])
    stated = ENGINE.options_of(started.program, started.read, loader.load("llama3-8b"))
    device, other, _ = placed(question("llama3-8b", 8192, **stated.settings), 8 * GIB, 2)
    assert (device.layers, other.layers) == (25, 8)


@pytest.mark.parametrize("pattern", ["(a*)*=CPU", "exps", ".*.*.*.*x=CPU", "[=CPU"])
def test_patterns_that_can_take_for_ever_are_refused(pattern: str) -> None:
    with pytest.raises(KvcalcError, match="-ot"):
        launch("llama.cpp", ["-ot", pattern])


def lines(asked: Question) -> dict[str, Overhead]:
    return {line.name: line for line in ENGINE.memory(asked, 24 * GIB)}


def test_the_lines_of_a_device() -> None:
    """--fit keeps 1,024 MiB free on each device; -ub 256 halves the compute buffer."""
    found = lines(question("llama3-8b", 131_072))
    assert list(found) == ["compute buffer", "runtime", "margin"]
    assert found["margin"].size.likely == GIB
    assert found["compute buffer"].saving.startswith("-ub 256: + ")
    assert "margin" not in lines(question("llama3-8b", 8192, fit=False))
    assert lines(question("llama3-8b", 8192, fit_target=256 * MIB))["margin"].size.likely == 256 * MIB


def test_the_buffer_grows_with_the_context() -> None:
    """Without flash attention by heads x rows x 4 B a cell: 64 KiB for 32 heads."""
    short, long = (
        lines(question("llama3-8b", context, flash_attn="off"))["compute buffer"].size.likely
        for context in (8192, 16_384)
    )
    assert long - short == 8192 * 512 * (32 + 1) * 4
