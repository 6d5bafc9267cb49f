"""The planner's clocks, for sums that can be done by hand."""

from typing import Any

import pytest

from kvcalc.perf.demand import Demand, demand_of
from kvcalc.perf.kernels import Blocks

from ..perf.plain import NOTHING_ELSE


@pytest.fixture
def plain_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes what it reads and computes: there are no kernels, no sums over ranks, and activations are free.

    Prompts under load are computed in passes so large that they read the weights for nothing.
    """
    pace = NOTHING_ELSE._replace(prompt_tokens=10**15)

    def without_blocks(*args: Any, **options: Any) -> Demand:
        return demand_of(*args, **options)._replace(blocks=Blocks(0, 0, 0.0, 0.0))

    monkeypatch.setattr("kvcalc.planner.times.demand_of", without_blocks)
    for chosen in ("pace_of", "pace_for"):
        monkeypatch.setattr(f"kvcalc.planner.times.{chosen}", lambda *_names, **_kind: pace)
