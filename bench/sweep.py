"""CPU time and peak memory of `kvcalc sweep`, against the plain command.

    python bench/sweep.py [--runs N] [--json]

Each sweep runs in turns with `kvcalc llama3-70b --batch 8 -q`, and what it takes beyond that is what its cells cost.
Each process is measured whole, with bytecode cached. This is a benchmark and no test: the limits are 0.2 s for 10,000
cells, and 1.5 s and 100 MB for 100,000 rows of CSV. POSIX only.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import NamedTuple

PLAIN = "llama3-70b --batch 8 -q"


class Case(NamedTuple):
    """A sweep, and the seconds that it may take beyond the plain command."""

    arguments: str
    limit: float | None


CASES = (
    Case("sweep llama3-70b -c 1k..100k -b 1..100 -f csv", 0.2),
    Case("sweep llama3-70b -c 1k..100k -b 1..100 -f plain", 0.2),
    Case("sweep llama3-70b -c 1k..100k -b 1..100 -f json", 0.2),
    Case("sweep llama3-70b -c 1k..10000k -f csv", 0.2),
    Case("sweep gemma3-27b -c 1k..100k -b 1..100 --tp 4 --gpu h100 -f csv", 0.2),
    Case("sweep deepseek-v3.2 -c 1k..100k -b 1..10 --tp 1,2,4,8,16 --kv-dtype bf16,fp8 --gpu h200 -f csv", 0.2),
    Case("sweep llama3-70b -c 1k..100k -b 1..1000 -f csv", 1.5),
    Case("sweep llama3-70b -c 1k..100k -b 1..1000 --gpu h100 --tp 8 -f csv", 1.5),
    Case("sweep llama3-70b -c 1k..100k -b 1..1000 -f json", None),
    Case("sweep llama3-70b -c 1k..100k -b 1..10 --engine vllm -f csv", None),
)


class Used(NamedTuple):
    """CPU seconds, and MiB of memory at most."""

    seconds: float
    memory: float


def run(arguments: str, folder: Path) -> Used:
    """One process, its output thrown away; a status of 1 is an answer."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "KVCALC_PRESETS")
    }
    env = kept | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "XDG_CONFIG_HOME": str(folder / "none")}
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (0, 1, 2)]
    command = [sys.executable, "-m", "kvcalc", *arguments.split()]
    pid = os.posix_spawn(command[0], command, env, file_actions=actions)
    os.close(null)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"kvcalc {arguments} exited {os.waitstatus_to_exitcode(status)}")
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(case: Case, folder: Path, runs: int) -> dict[str, object]:
    pairs = [(run(case.arguments, folder), run(PLAIN, folder)) for _ in range(runs + 1)][1:]  # the first one warms up
    return {
        "command": f"kvcalc {case.arguments}",
        "seconds": median(sweep.seconds for sweep, _ in pairs),
        "more": median(sweep.seconds - plain.seconds for sweep, plain in pairs),
        "ratio": median(sweep.seconds / plain.seconds for sweep, plain in pairs),
        "memory": max(sweep.memory for sweep, _ in pairs),
        "limit": case.limit,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of kvcalc sweep against the plain command.")
    parser.add_argument("--runs", type=int, default=7, metavar="N", help="pairs of each command; default: 7")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvcalc-bench-") as folder:
        found = [measure(case, Path(folder), max(options.runs, 1)) for case in CASES]
    if options.json:
        print(json.dumps({"runs": options.runs, "cases": found}, indent=2))
        return
    print(f"{'CPU':>8} {'more':>8} {'limit':>6} {'ratio':>6} {'memory':>9}")
    for row in found:
        limit = "-" if row["limit"] is None else row["limit"]
        print(
            f"{row['seconds']:6.2f} s {row['more']:6.3f} s {limit:>6} {row['ratio']:6.1f} {row['memory']:5.0f} MiB"
            f"   {row['command']}"
        )


if __name__ == "__main__":
    main()
