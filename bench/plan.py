"""How much CPU a plan takes on top of the shortest question.

    python bench/plan.py [--runs N]

Each `kvcalc plan` runs in turns with `kvcalc llama3-70b -q`, a process of its own, measured as in startup.py. The
limit, 0.5 s, is that of all accelerators for 100 users of a 70B. This is a benchmark and no test: it exits 0 whatever
it finds. POSIX only.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median

from startup import WARM_UP, environment, positive, run

FLOOR = ["llama3-70b", "-q"]
LIMIT = 0.5
SERVED = ["--input", "1155/4083", "--output", "211/451", "--rate", "5"]
CASES = (
    (["plan", "llama3-70b", "--gpu", "all", "--users", "100"], LIMIT),
    (["plan", "llama3-70b", "--gpu", "all", "--users", "100", "--json"], LIMIT),
    (["plan", "llama3-70b", "--users", "100"], None),
    (["plan", "llama3-70b", "--gpu", "all", "--users", "100", "--engine", "vllm"], None),
    (["plan", "llama3.1-8b", "--gpu", "all", *SERVED], LIMIT),
    (["plan", "llama3.1-8b", "--gpu", "all", *SERVED, "--ttft", "1s", "--tpot", "50ms"], LIMIT),
)


def medians(arguments: list[str], folder: Path, runs: int, *, terminal: bool) -> tuple[float, float]:
    """Median of the seconds above the shortest question, and of the ratio to it."""
    env = environment(folder)
    command = [sys.executable, "-m", "kvcalc"]

    def pair() -> tuple[float, float]:
        floor, _ = run([*command, *FLOOR], env, terminal=False)
        seconds, _ = run([*command, *arguments], env, terminal=terminal)
        return seconds - floor, seconds / floor

    for _ in range(WARM_UP):
        pair()
    pairs = [pair() for _ in range(runs)]
    return median(above for above, _ in pairs), median(ratio for _, ratio in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of `kvcalc plan` above the shortest question.")
    parser.add_argument("--runs", type=positive, default=9, metavar="N", help="pairs of each command; default: 9")
    runs = parser.parse_args().runs
    print(f"CPU time above `kvcalc {' '.join(FLOOR)}`, and as its multiple: medians of {runs} interleaved pairs\n")
    with tempfile.TemporaryDirectory(prefix="kvcalc-bench-") as folder:
        for arguments, limit in CASES:
            for terminal in (False, True) if "--json" not in arguments else (False,):
                above, ratio = medians(arguments, Path(folder), runs, terminal=terminal)
                where = " (terminal)" if terminal else ""
                bound = f"limit {1000 * limit:.0f} ms" if limit else ""
                print(f"{1000 * above:7.0f} ms  {ratio:5.1f}x  {bound:14}  kvcalc {' '.join(arguments)}{where}")


if __name__ == "__main__":
    main()
