"""The clock against published serving times: the errors that it may have.

`bench/times.py` prints the whole table. TTFT under many clients in a closed loop is no aim: those that come all at once
at the start of a run wait for one another, which the range of an answer covers and its middle does not.
"""

from collections import defaultdict
from functools import cache

import pytest

from .measured import Compared, Errors, band, class_of, compared, points


@cache
def _compared() -> tuple[Compared, ...]:
    return tuple(each for each in compared() if not each.point.strange)


def test_all_facts_are_there() -> None:
    """429 measurements, 15 of which are left out of the errors, with the reason beside `measured._STRANGE`."""
    assert len(points()) == 429
    assert sum(point.strange for point in points()) == 15


# The aims: median, 90th percentile, and bias.
@pytest.mark.parametrize(
    ("which", "middle", "p90", "bias"),
    [
        ("TPOT, 1 to 4", 0.15, 0.40, 0.08),
        ("TPOT, 5 to 32", 0.15, 0.40, 0.08),
        ("TPOT, 33 and more", 0.15, 0.40, 0.08),
        ("maximum throughput", 0.15, 0.35, 0.08),
        ("llama.cpp prefill", 0.15, 0.35, 0.08),
    ],
)
def test_errors(which: str, middle: float, p90: float, bias: float) -> None:
    """Half of the predictions lie within `middle`, nine of ten within `p90`."""
    found = Errors.of([each for each in _compared() if band(each) == which])
    assert found.median <= middle
    assert found.p90 <= p90
    assert abs(found.bias) <= bias
    assert found.within >= 0.9  # in the printed range


def test_long_prompts() -> None:
    """The first token of prompts of 4k and more where few others are there, but for runs that took ten times as long as
    the same card, model and length did elsewhere (five of twelve: DeepSeek in SGLang on B200 and B300).
    """
    some = [each for each in _compared() if band(each) == "TTFT, 4k and more, 1 to 4" and each.measured < 2]
    found = Errors.of(some)
    assert found.count == 8
    assert found.median <= 0.25


def test_groups_are_not_biased() -> None:
    """Every group of ten measurements: of a card, a class of models, an engine and a phase."""
    groups: dict[tuple[str, ...], list[Compared]] = defaultdict(list)
    for each in _compared():
        if each.phase != "ttft":
            groups[each.phase, each.point.gpu, class_of(each.point), each.point.engine].append(each)
    found = {name: Errors.of(some).bias for name, some in groups.items() if len(some) >= 10}
    assert len(found) > 10
    assert {name: bias for name, bias in found.items() if abs(bias) > 0.35} == {}


def test_16_bit_dense_models_on_hopper() -> None:
    """Within 15 %, but for one of the three: Llama 2 with answers of 1,448 tokens, of whose time five other clocks miss
    more than this one (Vidur and inference-sim's own say 10.7 and 11.9 ms of 15.2; this one 12.1).
    """
    some = [
        each
        for each in _compared()
        if each.phase == "tpot" and each.point.gpu == "h100-sxm" and each.point.preset in ("qwen2.5-7b", "llama2-7b")
    ]
    assert len(some) == 3
    assert sorted(each.error for each in some)[1] <= 0.07
    assert max(each.error for each in some) <= 0.21
