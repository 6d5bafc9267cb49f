"""GPUs by name: what they hold, and what engines choose by them."""

import json
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cards.names import card_called, cards_called
from kvcalc.cards.shipped import accelerators
from kvcalc.cli.main import run
from kvcalc.core.fitting import fit
from kvcalc.core.memory import Budget
from kvcalc.core.overheads import total
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.core.units import Fraction
from kvcalc.engines.base import allocator_of, reserve
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.launch.beside import beside_weights
from kvcalc.launch.registry import engine_called
from kvcalc.library import loader
from kvcalc.views.engine import engine_values

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "gpus" / "gpus.json"
CARDS = len(json.loads((ROOT / "presets" / "gpus.json").read_text(encoding="utf-8"))["cards"])


@pytest.mark.parametrize(
    ("text", "count", "name", "memory"),
    [
        # The runtime's totals in public logs: 79.18, 23.64 and 178.35 GiB; an RTX 3090's driver prints 24,576 MiB, and
        # the runtime some 0.6 GiB less.
        ("h100", None, "h100-sxm", int(79.18 * 2**30)),
        ("8xH100", 8, "h100-sxm", int(79.18 * 2**30)),
        ("rtx4090", None, "rtx-4090", int(23.64 * 2**30)),
        ("RTX 4090", None, "rtx-4090", int(23.64 * 2**30)),
        ("2 x b200", 2, "b200-sxm", int(178.35 * 2**30)),
        ("a100-80gb", None, "a100-80gb-sxm", int(79.15 * 2**30)),
        ("rtx3090", None, "rtx-3090", 24_576 * 2**20 - int(0.6 * 2**30)),
        ("h100:8", 8, "h100-sxm", int(79.18 * 2**30)),
        ("h100x8", 8, "h100-sxm", int(79.18 * 2**30)),
        ("8*h100", 8, "h100-sxm", int(79.18 * 2**30)),
        ("rtx4090x2", 2, "rtx-4090", int(23.64 * 2**30)),
        # recommendedMaxWorkingSetSize in logs of llama.cpp: 17,179.87 MB of 24 GiB, 28,991.03 of 36, 51,539.61 of 64.
        ("m4-pro:24GB", None, "apple-m4-pro:24GB", 17_179_869_184),
        ("m3-pro:36GB", None, "apple-m3-pro:36GB", 28_991_029_248),
        ("m4-max:64gb", None, "apple-m4-max:64GB", 51_539_607_552),
    ],
)
def test_a_card_has_many_spellings(text: str, count: int | None, name: str, memory: int) -> None:
    """What people type leads to a card and to the memory that it reports, not to the number on the box."""
    found, card = card_called(text)
    assert (found, card.name, card.memory) == (count, name, memory)


@pytest.mark.parametrize(
    ("name", "gib", "source"),
    [
        # planning.md, section 1: the runtime's total where it was read ...
        ("t4", 14.57, "runtime"),
        ("l4", 21.95, "runtime"),
        ("a10g", 22.06, "runtime"),
        ("rtx-5090", 31.36, "runtime"),
        ("l40s", 44.40, "runtime"),
        ("rtx-pro-6000-blackwell", 94.97, "runtime"),
        ("h200-sxm", 139.80, "runtime"),
        ("mi300x", 191.98, "runtime"),
        ("gb10-dgx-spark", 121.6, "runtime"),
        # ... else the driver's less 0.6 GiB, of NVIDIA's: 95830 / 1024 - 0.6; AMD hands out all: 294896 / 1024
        ("h100-nvl", 92.984, "driver-less-reserve"),
        ("a30", 23.4, "driver-less-reserve"),
        ("a40", 44.388, "driver-less-reserve"),
        ("rtx-a6000", 47.388, "driver-less-reserve"),
        ("gb200", 184.43, "driver-less-reserve"),
        ("b300-sxm", 267.994, "driver-less-reserve"),
        ("mi355x", 287.984, "driver"),
        ("gaudi3", 128.0, "driver"),
        # one die of an MI250X prints 65520 MiB; an MI325X has its GiB less 16 MiB, as its siblings
        ("mi250x", 63.984, "driver"),
        ("mi325x", 255.984, "driver"),
        # logs of llama.cpp print 2/3 of 16 GiB and 73728 of 98304 MiB; an Ultra of 512 GiB gets 3/4
        ("apple-m1", 10.667, "unified-share"),
        ("apple-m2-max", 72.0, "unified-share"),
        ("apple-m3-ultra", 384.0, "unified-share"),
        # nothing but the number on the box: 96e9 / 2^30 - 0.6
        ("trainium2", 88.807, "nominal-less-reserve"),
    ],
)
def test_the_memory_used_is_what_a_process_gets(name: str, gib: float, source: str) -> None:
    """The runtime's total counts, else a figure that is not above it, and the answer says which."""
    card = card_called(name)[1]
    assert (round(card.memory / 2**30, 3), card.memory_source) == (pytest.approx(gib, abs=0.001), source)


def test_no_estimate_is_above_what_was_read() -> None:
    """Where the runtime's total is known, the rules for cards without one would have given no more than a hundredth
    above it: a card taken for larger than it is would be sold as enough.
    """
    for one in accelerators().values():
        if one.runtime_gib is not None and one.usable is None and one.marketing_gb:
            assert one._replace(runtime_gib=None, driver_mib=None).used()[0] <= one.used()[0]
            assert one._replace(runtime_gib=None).used()[0] <= one.used()[0] * 1.01


@pytest.mark.parametrize(
    ("name", "bandwidth", "flops16", "flops8", "link", "machine"),
    [
        # data sheets, dense: a tenth of a percent of them is what marketing rounds
        ("h100-sxm", 3350, 989, 1979, 450, 8),
        ("a100-80gb-sxm", 2039, 312, None, 300, 8),  # no fp8
        ("l40s", 864, 362.05, 733, 31.5, 8),  # not the sparse 1466; sixteen lanes of PCIe 4 at 1.969
        ("a100-80gb-pcie", 1935, 312, None, 31.5, 8),  # a bridge joins pairs only
        ("mi250x", 1638, 191.5, None, 200, 8),  # one die: half of 3277 and 383
        ("gb200", 8000, 2500, 5000, 900, 4),
        ("gh200-96gb", 4000, 989, 1979, None, 1),  # its fast link leads to the CPU
        ("tpu-v5e", 810, 197, None, 200, 8),  # 1600 Gbit/s
        ("gaudi2", 2460, 432, 865, 262.5, 8),  # 21 ports of 100 Gbit/s
        ("apple-m3-max", 400, 16.3, None, None, 1),
    ],
)
def test_rates_are_dense_and_links_in_one_direction(
    name: str, bandwidth: int, flops16: float, flops8: float | None, link: float | None, machine: int
) -> None:
    """What is computed from a card's rates does not rest on sparse or doubled numbers."""
    card = card_called(name)[1]
    assert (card.bandwidth, card.flops16, card.machine) == (bandwidth * 10**9, round(flops16 * 10**12), machine)
    assert card.flops8 == (None if flops8 is None else round(flops8 * 10**12))
    assert (card.link is None) == (link is None)
    assert link is None or card.link == pytest.approx(link * 1e9, rel=0.001)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        # as nvidia-smi and rocm-smi print them
        ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb-sxm"), ("NVIDIA A100 80GB PCIe", "a100-80gb-pcie"),
        ("NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"), ("NVIDIA H200", "h200-sxm"), ("NVIDIA B200", "b200-sxm"),
        ("NVIDIA GH200 480GB", "gh200-96gb"), ("NVIDIA GB10", "gb10-dgx-spark"), ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100-16gb-sxm"), ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"), ("AMD Instinct MI300X OAM", "mi300x"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell"),
        ("AMD Radeon RX 7900 XTX", "rx-7900-xtx"), ("Apple M3 Max", "apple-m3-max"),
        # as people type them
        ("H100-80GB", "h100-sxm"), ("4090", "rtx-4090"), ("7900xtx", "rx-7900-xtx"), ("strix halo", "ryzen-ai-max-395"),
    ],
)  # fmt: skip
def test_a_driver_s_own_name_is_understood(text: str, name: str) -> None:
    """What a tool prints can be pasted."""
    assert card_called(text) == (None, card_called(name)[1])


@pytest.mark.parametrize(
    ("text", "gpus", "name", "machine"),
    [
        ("p5.48xlarge", 8, "h100-sxm", 8),
        ("2xp5.48xlarge", 16, "h100-sxm", 8),
        ("g6.12xlarge", 4, "l4", 4),
        ("a2-megagpu-16g", 16, "a100-40gb-sxm", 16),
        ("ND96isr_H100_v5", 8, "h100-sxm", 8),
        ("standard_nd96isr_h100_v5", 8, "h100-sxm", 8),
        ("v5p-8", 4, "tpu-v5p", 4),  # cores, two a chip
        ("p6e-gb200.36xlarge", 4, "gb200", 4),
    ],
)
def test_a_machine_type_is_so_many_of_a_card(text: str, gpus: int, name: str, machine: int) -> None:
    """A cloud's name for a machine says which cards it has, how many, and that they stand together."""
    found, card = card_called(text)
    assert (found, card.name, card.machine) == (gpus, name, machine)


def test_cards_in_slots_have_no_fast_link() -> None:
    """The V100s of Azure's NCv3 are PCIe cards: 112 TFLOP/s, and sixteen lanes of PCIe 3 at 0.985 GB/s."""
    card = card_called("Standard_NC24s_v3")[1]
    assert (card.flops16, card.link) == (112 * 10**12, 15_760_000_000)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("g6f.large", "--gpu: g6f.large has a slice of an L4 with 2,861 MiB, not a whole card"),
        ("Standard_NV18ads_A10_v5", "--gpu: Standard_NV18ads_A10_v5 has half an A10, not a whole card"),
        ("a100", "--gpu: 'a100' is not one card"),
        ("rtx 6000", "--gpu: 'rtx 6000' is not one card"),
        ("NVIDIA GeForce RTX 4090 D", "--gpu: 'NVIDIA GeForce RTX 4090 D' is not in the table of GPUs"),
        ("RTX 4070 Ti Super", "--gpu: 'RTX 4070 Ti Super' is not in the table of GPUs"),
        ("V100-PCIE-16GB", "--gpu: 'V100-PCIE-16GB' is not in the table of GPUs"),
        ("h100,l40s", "--gpu: expected one card, got 2"),
        ("all", f"--gpu: expected one card, got {CARDS}"),
        (",", "--gpu: expected GPUs such as h100, 8xh100 or h100,l40s, got ','"),
        ("65536xp5.48xlarge", "--gpu: expected at most 65,536 GPUs, got 524,288"),
        ("h\u202e100", "--gpu: expected a GPU such as h100, 8xh100 or h100:8, got 'h\\u202e100'"),
        ("8xh100:2", "--gpu: expected a GPU such as h100, 8xh100 or h100:8, got '8xh100:2'"),
        ("h100:40GB", "--gpu: h100-sxm has one size of memory, got '40GB'"),
    ],
)
def test_what_is_no_one_card_is_refused(text: str, message: str) -> None:
    """A part of a card, a family, a card that only resembles one of the table and a list are not guessed at."""
    with pytest.raises(KvcalcError) as caught:
        card_called(text)
    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "name"), [("h10", "h100"), ("gb20", "gb200"), ("rtx409", "rtx-4090"), ("h100-sx", "h100-sxm")]
)
def test_a_misspelt_card_has_the_nearest_name(text: str, name: str) -> None:
    """h10 lacks one letter of h100, as people call h100-sxm, and has another one than a10."""
    with pytest.raises(KvcalcError) as caught:
        card_called(text)
    assert (caught.value.hint or "").startswith(f"did you mean {name}")


def test_several_cards_and_all() -> None:
    """A planner takes a list, in which no card stands twice, or everything."""
    assert [(gpus, card.name) for gpus, card in cards_called("h100, 8xl40s,h100,p4d.24xlarge")] == [
        (None, "h100-sxm"),
        (8, "l40s"),
        (8, "a100-40gb-sxm"),
    ]
    assert len(cards_called("all")) == CARDS


# Where the collection does not say what one device has, and what it does say of it: a pair of devices, totals that were
# read elsewhere, a runtime's total among the drivers'.
CORRECTED = {"mi250x", "max-1550", "gb10-dgx-spark", "v100-16gb-sxm", "a800-80gb-sxm", "h800-80gb-sxm", "h20-141gb", "l20",
             "mi325x"}  # fmt: skip


def test_the_table_is_what_was_read_of_each_card() -> None:
    """Every card's totals, bandwidth and capability are those of the collection of public logs, or corrected."""
    if not SHARED.exists():
        pytest.skip("the collection of GPUs is not beside this checkout")
    read = {gpu["id"]: gpu for gpu in json.loads(SHARED.read_text(encoding="utf-8"))["gpus"]}
    ours = accelerators()
    assert list(ours) == list(read)
    for name in set(ours) - CORRECTED:
        gpu, card = read[name], ours[name]
        assert (card.marketing_gb, card.driver_mib, card.runtime_gib) == (
            gpu["memory_gb"], gpu["memory_mib_driver"], gpu["memory_gib_runtime"])  # fmt: skip
        assert (card.bandwidth_gb_s, card.tflops_fp8) == (gpu["bandwidth_gb_s"], gpu["tflops_fp8_dense"])
        assert (card.capability, card.bf16) == (gpu["cuda_compute_capability"], gpu["has_bf16"])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        # 0.9 of 79.18 GiB where no engine says; 70.55e9 x 2 B over eight
        (["llama3-70b", "--gpu", "8xh100"],
         {"gpus": 8, "vram_bytes_per_gpu": 85_018_877_624, "utilization": 0.9, "weights_bytes_per_gpu": 17_637_500_000}),
        (["llama3-70b", "--gpu", "h100", "--gpus", "8"], {"gpus": 8, "utilization": 0.9}),
        (["llama3-70b", "--gpu", "h100", "--tp", "2", "--pp", "2"], {"gpus": 4, "utilization": 0.9}),
        (["llama3-70b", "--gpu", "8xh100", "--engine", "vllm"], {"gpus": 8, "utilization": 0.92}),
        (["llama3-70b", "--gpu", "8xh100", "--engine", "vllm@0.19.1"], {"gpus": 8, "utilization": 0.9}),
        (["llama3-70b", "--gpu", "8xh100", "--utilization", "0.5"], {"utilization": 0.5}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_card_gives_its_memory(argv: list[str], expected: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """--gpu stands for --vram, the number of GPUs and a careful share."""
    assert run([*argv, "--json"]) == 0
    fit = json.loads(capsys.readouterr().out)["fit"]
    assert {key: fit[key] for key in expected} == expected


def test_what_an_engine_counts_lies_in_its_range() -> None:
    """Where only a run can tell what else an engine takes, its tokens have a range, as its lines turn out.

    0.92 of 79.18 GiB less 16.06e9 B of weights are 62,157,367,414 B; a block of 16 tokens is 2 MiB.
    """
    size = measure(ask(loader.load("llama3.1-8b")))
    h100, engine = card_called("h100")[1], engine_called("vllm")
    question = Question(size.request, size.placement, engine.versions[-1], card=h100)
    lines = beside_weights(engine, question, h100.memory).lines
    reservation, off = reserve(engine, question), total(lines)
    budget = Budget(h100.memory, utilization=Fraction(92, 100), overheads=lines, card=h100)
    found = engine_values(reservation, fit(size, budget, allocator_of(reservation)))
    high, likely, low = ((62_157_367_414 - bytes_) // 2**21 * 16 for bytes_ in off)
    assert (found["capacity_tokens_low"], found["capacity_tokens"], found["capacity_tokens_high"]) == (
        low,
        likely,
        high,
    )
    assert low < likely < high < 474_208
    known = engine_values(reservation, fit(size, Budget(kv_memory=40 * 2**30), allocator_of(reservation)))
    assert (known["capacity_tokens"], known["capacity_tokens_low"]) == (40 * 2**30 // 2**21 * 16, None)


@pytest.mark.parametrize(
    ("argv", "block"),
    [
        # engines-gpu.md A.5: latents take 16 on Hopper and 64 in eight bits, 32 on Blackwell, 16 on Ada
        (["deepseek-v3"], 16),
        (["deepseek-v3", "--kv-dtype", "fp8"], 64),
        (["deepseek-v3", "--gpu", "8xh200"], 16),
        (["deepseek-v3", "--gpu", "8xh200", "--kv-dtype", "fp8"], 64),
        (["deepseek-v3", "--gpu", "8xb200"], 32),
        (["deepseek-v3", "--gpu", "8xl40s", "--kv-dtype", "fp8"], 16),
        (["deepseek-v3.2", "--gpu", "8xb200"], 64),
        # A.6: FlashInfer's gated delta rule on Hopper and on Blackwell, Triton's elsewhere
        (["qwen3-next-80b", "--gpu", "4xh100"], 320),
        (["qwen3-next-80b", "--gpu", "4xa100-80gb"], 272),
        (["llama3-8b", "--gpu", "b200"], 16),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_blocks_of_vllm_follow_the_card(argv: list[str], block: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The kernels that a card has decide on vLLM's block; without a card those of an H100."""
    run(
        [*argv, "--engine", "vllm", "--weights", "none", "--json"]
        if "--gpu" in argv
        else [*argv, "--engine", "vllm", "--json"]
    )
    assert json.loads(capsys.readouterr().out)["engine"]["block_size"] == block
