"""The lines beside weights and cache: each rule at its edges, worked out by hand from the logs' table."""

import pytest

from kvcalc.core.model import Model
from kvcalc.launch.registry import all_engines
from kvcalc.library import loader
from kvcalc.planner.overheads import NAMES, Estimate, estimate, given, likely, total

from .hand import model

GIB = 2**30


def line(name: str, of: Model, memory: int = 80 * GIB, ranks: int = 1) -> Estimate:
    """One line of one of `ranks` GPUs."""
    (found,) = estimate(of, memory, ranks, names=(name,))
    return found.size


def hundredths(low: int, middle: int, high: int) -> Estimate:
    """Hundredths of a GiB, cut to a byte."""
    return Estimate(low * GIB // 100, middle * GIB // 100, high * GIB // 100)


# Memory in GiB; a 64th of it but at least 0.2 GiB; a 40th of it but at least 2 GiB. With experts a 32nd, and an eighth.
@pytest.mark.parametrize(
    ("memory", "experts", "middle", "high"),
    [
        (8, False, 0.2, 2),  # 8 / 64 = 0.125 is below 0.2; 8 / 40 = 0.2 below 2
        (12.8, False, 0.2, 2),  # 12.8 / 64 = 0.2
        (80, False, 1.25, 2),  # 80 / 64; 80 / 40 = 2
        (192, False, 3, 4.8),
        (6.4, True, 0.2, 2),  # 6.4 / 32 = 0.2; 6.4 / 8 = 0.8
        (80, True, 2.5, 10),
        (288, True, 9, 36),
    ],
)
def test_activations_grow_with_the_card(memory: float, experts: bool, middle: float, high: float) -> None:
    """0.2 GiB at least was seen; more experts, more memory."""
    of = model(active_parameters=1_000 if experts else None)
    found = line("activations", of, round(memory * GIB))
    assert found.low == 20 * GIB // 100
    assert (found.likely, found.high) == pytest.approx((middle * GIB, high * GIB), abs=1)


@pytest.mark.parametrize(
    ("parameters", "size"),
    [
        (None, (5, 30, 70)),
        (10**9, (5, 30, 70)),
        (30 * 10**9, (5, 30, 70)),  # up to 30B, with 30B
        (30 * 10**9 + 1, (5, 50, 200)),
        (150 * 10**9, (5, 50, 200)),
        (150 * 10**9 + 1, (30, 150, 860)),
    ],
)
def test_graphs_by_the_models_size(parameters: int | None, size: tuple[int, int, int]) -> None:
    """Three sizes of models were seen, each up to its last parameter."""
    assert line("graphs", model(parameters=parameters)) == hundredths(*size)


@pytest.mark.parametrize(("ranks", "size"), [(1, (5, 15, 15)), (2, (5, 38, 60)), (3, (5, 38, 60)), (64, (5, 38, 60))])
def test_communication_is_of_one_gpu_or_of_several(ranks: int, size: tuple[int, int, int]) -> None:
    """0.15 GiB alone, 0.38 of up to 0.6 among several."""
    assert line("communication", model(), ranks=ranks) == hundredths(*size)


def test_the_runtime_is_always_the_same() -> None:
    """0.25 to 0.9 GiB."""
    assert line("runtime", model()) == hundredths(25, 45, 90)


def test_lines_add_up() -> None:
    """80 GiB, one GPU, a small dense model, in hundredths: 20 + 5 + 5 + 25; 125 + 30 + 15 + 45; 200 + 70 + 15 + 90."""
    lines = estimate(model(), 80 * GIB, 1)
    assert tuple(each.name for each in lines) == NAMES
    # Each line is cut to a byte by itself, so that a byte a line may be missing.
    assert total(lines) == pytest.approx(hundredths(55, 215, 375), abs=4)
    assert likely(lines) == total(lines).likely


def test_what_is_stated_stands_in_its_place_without_a_range() -> None:
    """A size of the asker's own counts although the engine leaves that line outside of its share."""
    lines = estimate(model(), 80 * GIB, 1, names=("communication", "runtime"), stated={"graphs": 7, "runtime": 0})
    assert [(each.name, each.size) for each in lines] == [
        ("graphs", Estimate(7, 7, 7)),
        ("communication", hundredths(5, 15, 15)),
        ("runtime", Estimate(0, 0, 0)),
    ]
    assert given("overhead", 5).size == (5, 5, 5)


def test_overheads_are_the_engines_own() -> None:
    """The lines of a dense model on several H100 add up to the range that an engine states for all of them."""
    of = loader.load("llama3.1-8b")
    engines = {engine.name: engine for engine in all_engines()}
    for name in ("vllm", "tensorrt-llm", "sglang"):
        size = total(estimate(of, 85_018_877_624, 2, names=tuple(n for n in NAMES if n not in engines[name].uncounted)))
        overhead = engines[name].overhead
        assert overhead is not None
        assert (size.low, size.high) == pytest.approx(overhead, abs=8)
        assert size.low < size.likely < size.high
