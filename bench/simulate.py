"""CPU time and peak memory of `kvcalc simulate`, beyond what the plain command takes.

    python bench/simulate.py [--json]

The public traces are taken from `../shared/traces` where it is there; without it, requests are made up. Limits: Azure's
conversation trace (19,366 requests) in the closed loop 1.5 s, Mooncake's (12,031) with its prefixes 1 s and at seven
capacities 2 s, a million requests 20 s and 300 MiB. For Mooncake's trace a Rust engine with 1.5 GB of tables
(aisimulate 0.13) takes 12.3 s. This is a benchmark and no test. POSIX only.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PLAIN = "llama3-70b --batch 8 -q"
ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT.parent / "shared" / "traces"


class Case(NamedTuple):
    """A simulation, and the seconds and MiB that it may take."""

    arguments: str
    limit: float
    memory: float = 300


MADE_UP = "--rate 20 --input 1155/4083 --output 211/451"
CASES = (
    Case(f"simulate llama3.1-8b {TRACES}/AzureLLMInferenceTrace_conv.csv --gpu h100 --replicas 2 -q", 1.5),
    Case(
        f"simulate llama3.1-8b {TRACES}/mooncake_conversation_trace.jsonl --gpu h200 --replicas 8 --prefix-cache -q", 1
    ),
    Case(f"simulate llama3.1-8b {TRACES}/mooncake_conversation_trace.jsonl --capacity 1m,2m,5m,10m,20m,50m,100m -q", 2),
    Case(f"simulate llama3.1-8b --gpu h100 --replicas 4 --requests 20000 {MADE_UP} -q", 1.5),
    Case(f"simulate llama3.1-8b --gpu h100 --replicas 4 --requests 1000000 {MADE_UP} -q", 20),
)


class Used(NamedTuple):
    """CPU seconds, and MiB of memory at most."""

    seconds: float
    memory: float


def run(arguments: str, folder: Path) -> Used:
    """One process, its output thrown away; a status of 1 is an answer."""
    env = dict(os.environ) | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "XDG_CONFIG_HOME": str(folder / "none")}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    null = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (0, 1, 2)]
    command = [sys.executable, "-m", "kvcalc", *arguments.split()]
    pid = os.posix_spawn(command[0], command, env, file_actions=actions)
    os.close(null)
    _, status, usage = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 1):
        raise SystemExit(f"kvcalc {arguments} exited {os.waitstatus_to_exitcode(status)}")
    return Used(usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of kvcalc simulate beyond the plain command.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    cases = [case for case in CASES if TRACES.is_dir() or str(TRACES) not in case.arguments]
    with tempfile.TemporaryDirectory(prefix="kvcalc-bench-") as folder:
        place = Path(folder)
        run(PLAIN, place)  # bytecode is cached
        plain = run(PLAIN, place).seconds
        found = []
        for case in cases:
            used = run(case.arguments, place)
            command = f"kvcalc {case.arguments.replace(str(TRACES), 'TRACES')}"
            found.append({"command": command, "more": used.seconds - plain, "limit": case.limit, "memory": used.memory})
    if options.json:
        print(json.dumps({"cases": found}, indent=2))
        return
    print(f"{'more':>8} {'limit':>8} {'memory':>9}")
    for row in found:
        print(f"{row['more']:6.2f} s {row['limit']:6} s {row['memory']:5.0f} MiB   {row['command']}")


if __name__ == "__main__":
    main()
