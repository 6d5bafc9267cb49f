"""How many examples a property is tried on: all of them in CI (`CI=true`), a quarter elsewhere, where people wait."""

import os

from hypothesis import Phase, settings

__all__ = ["examples", "load_profile"]

_CI = os.environ.get("CI", "").lower() == "true"

# The same examples each time, and nothing left behind. Without the phase that explains a failure, which takes a minute
# for a model.
PHASES = (Phase.explicit, Phase.generate, Phase.shrink)


def load_profile() -> None:
    """Set what holds for every property, unless it says otherwise."""
    settings.register_profile(
        "kvcalc", deadline=None, max_examples=examples(100), derandomize=True, database=None, phases=PHASES
    )
    settings.load_profile("kvcalc")


def examples(most: int) -> int:
    """How many examples there are of `most`."""
    return most if _CI else max(1, most // 4)
