"""CPU time and peak memory of `kvcalc check` with a log of 100 MB.

    python bench/check_log.py [--runs N] [FILE]

Without a file, logs are written that begin with the start of an engine and go on with what servers print: lines of
requests, the same in the JSON of Docker, the usage of the cache, and one line without an end. Each run is a process of
its own, measured whole. This is a benchmark and no test: the limits are 2 s and 100 MB. POSIX only.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median

START = Path(__file__).resolve().parent.parent / "tests" / "logs" / "vllm-llama3.3-70b.log"
MEGABYTES = 100

REQUEST = '(APIServer pid=1) INFO:     10.0.0.7:{0} - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
USAGE = (
    "(APIServer pid=1) INFO 05-21 22:10:46 [loggers.py:248] Engine 000: Avg prompt throughput: {0}.1 tokens/s, Avg "
    "generation throughput: 71.3 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 3.1%, Prefix cache "
    "hit rate: 0.0%\n"
)

CHILD = """\
import resource, sys
from kvcalc.cli.main import run
status = run(["check", sys.argv[1], "-q"])
used = resource.getrusage(resource.RUSAGE_SELF)
print(status, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""


def docker(line: str) -> str:
    return json.dumps({"log": line, "stream": "stderr", "time": "2026-05-21T22:10:46.974563812Z"}) + "\n"


def logs(start: str) -> Iterator[tuple[str, str, str]]:
    """Name, beginning, and what is repeated behind it."""
    requests, usage = ("".join(line.format(i) for i in range(10_000, 20_000)) for line in (REQUEST, USAGE))
    yield "requests", start, requests
    yield "usage", start, usage
    yield "docker", *("".join(map(docker, text.splitlines(keepends=True))) for text in (start, requests))
    yield "one line", start, "x" * 1_000_000
    yield "not a log", "", "\0\x1b[31m\xff{" * 200_000


def written(folder: Path) -> Iterator[tuple[str, Path]]:
    for name, start, rest in logs(START.read_text(encoding="utf-8")):
        path = folder / f"{name.replace(' ', '-')}.log"
        with path.open("w", encoding="latin-1") as file:
            file.write(start)
            while file.tell() < MEGABYTES * 1_000_000:
                file.write(rest)
        yield name, path
        path.unlink()


def measured(path: Path) -> tuple[int, float, int]:
    """Exit status, CPU seconds and KiB of memory at most of one process."""
    child = subprocess.run([sys.executable, "-c", CHILD, str(path)], check=True, capture_output=True, text=True)
    status, seconds, memory = child.stdout.splitlines()[-1].split()
    return int(status), float(seconds), int(memory)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the check of a large log.")
    parser.add_argument("file", nargs="?", type=Path, help="a log; default: some made for the purpose")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        of_file = [(arguments.file.name, arguments.file)] if arguments.file else written(Path(folder))
        for name, path in of_file:
            measured(path)  # so that bytecode and pages are cached
            runs = [measured(path) for _ in range(arguments.runs)]
            seconds, memory = median(run[1] for run in runs), max(run[2] for run in runs)
            print(f"{name:<12} exit {runs[0][0]}  {seconds:5.2f} s CPU  {memory / 1024:5.1f} MiB", flush=True)


if __name__ == "__main__":
    main()
