"""How much CPU the list of presets takes on top of the shortest question.

    python bench/listing.py [--runs N]

`kvcalc models` runs in turns with `kvcalc llama3-70b -q`, in a copy of the package that has 150 presets, for which the
limit is 60 ms, and in one that has all of them. Each run is a process of its own, measured as in startup.py. This is a
benchmark and no test: it exits 0 whatever it finds. POSIX only.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

from startup import WARM_UP, environment, positive, run

import kvcalc
from kvcalc.library.index import entries, folders

FLOOR = "llama3-70b"
LIMITED, LIMIT = 150, 0.060
FORMS = (([], False), ([], True), (["--json"], False), (["-q"], False))


def copy_of_package(folder: Path, count: int) -> Path:
    """A folder to import kvcalc from, with `count` of its presets, spread evenly over the alphabet."""
    package = Path(kvcalc.__file__).parent
    shutil.copytree(package, folder / "kvcalc", ignore=shutil.ignore_patterns("presets", "__pycache__"))
    (folder / "presets").mkdir()
    paths = [Path(entry.path) for entry in entries() if entry.path.startswith(folders()[-1])]
    floor = next(path for path in paths if path.stem == FLOOR)
    others = [path for path in paths if path != floor]
    for path in (floor, *(others[i * len(others) // (count - 1)] for i in range(count - 1))):
        shutil.copy(path, folder / "presets")
    return folder


def above_floor(arguments: list[str], folder: Path, runs: int, *, terminal: bool) -> float:
    """Median of the seconds that the list takes more than the shortest question."""
    env = environment(folder) | {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "kvcalc"]

    def pair() -> float:
        floor, _ = run([*command, FLOOR, "-q"], env, terminal=False)
        return run([*command, "models", *arguments], env, terminal=terminal)[0] - floor

    for _ in range(WARM_UP):
        pair()
    return median(pair() for _ in range(runs))


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of `kvcalc models` above the shortest question.")
    parser.add_argument("--runs", type=positive, default=21, metavar="N", help="pairs of each command; default: 21")
    runs = parser.parse_args().runs
    shipped = sum(entry.path.startswith(folders()[-1]) for entry in entries())
    print(f"CPU time above `kvcalc {FLOOR} -q`, medians of {runs} interleaved pairs\n")
    print(f"{'':28} {LIMITED:>4} presets   limit   {shipped:>4} presets")
    with tempfile.TemporaryDirectory(prefix="kvcalc-bench-") as folder:
        few, all_ = (copy_of_package(Path(folder) / str(count), count) for count in (LIMITED, shipped))
        for arguments, terminal in FORMS:
            label = " ".join(["kvcalc models", *arguments]) + (" (terminal)" if terminal else "")
            fewer, more = (above_floor(arguments, each, runs, terminal=terminal) for each in (few, all_))
            print(f"{label:28} {1000 * fewer:9.1f} ms {1000 * LIMIT:5.0f} ms {1000 * more:9.1f} ms")


if __name__ == "__main__":
    main()
