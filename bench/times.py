"""How far the clock is from published serving times.

    python bench/times.py [--by card|engine|class|format|phase|group|half|source|point]

Median and 90th percentile of |predicted / measured - 1|, the bias (the median of predicted / measured, less 1), and how
many measurements lie in the printed range. The facts are tests/perf/measured_times.csv. This is a benchmark and no
test: it exits 0 whatever it finds.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "perf"))

from measured import Compared, Errors, band, class_of, compared

BY: dict[str, Callable[[Compared], str]] = {
    "phase": band,
    "card": lambda each: f"{each.phase}, {each.point.gpu}",
    "engine": lambda each: f"{each.phase}, {each.point.engine}",
    "class": lambda each: f"{each.phase}, {class_of(each.point)}",
    "format": lambda each: f"{each.phase}, {each.point.weights.partition(':')[0]}",
    "source": lambda each: f"{each.phase}, {each.point.source}",
    "group": lambda each: f"{each.phase}, {each.point.gpu}, {each.point.preset}, {each.point.engine}",
    "half": lambda each: f"{half(each.point.preset)} half, {band(each)}",
    "point": lambda each: f"{each.phase}, {' '.join(map(str, each.point[:13]))}",
}


def half(preset: str) -> str:
    """Models by the parity of their names' letters: a constant is fitted on one half and tried on the other."""
    return "first" if sum(map(ord, preset.partition("-")[0])) % 2 else "second"


def main() -> None:
    parser = argparse.ArgumentParser(description="Errors of the clock against published serving times.")
    parser.add_argument("--by", choices=sorted(BY), action="append", help="default: phase, engine, class, format, card")
    parser.add_argument("--strange", action="store_true", help="with the runs that compute more than their cards can")
    asked = parser.parse_args()
    every = [each for each in compared() if asked.strange or not each.point.strange]
    for by in asked.by or ("phase", "engine", "class", "format", "card"):
        groups: dict[str, list[Compared]] = defaultdict(list)
        for each in every:
            groups[BY[by](each)].append(each)
        print(f"{'by ' + by:72} count median   p90   bias  in range")
        for name, some in sorted(groups.items()):
            found = Errors.of(some)
            print(
                f"{name:72} {found.count:5} {found.median:6.0%} {found.p90:5.0%} {found.bias:+6.0%} {found.within:9.0%}"
            )
        print()


if __name__ == "__main__":
    main()
