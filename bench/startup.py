"""How much CPU kvcalc takes on top of the least that a Typer program can take.

    python bench/startup.py [--runs N] [--json]

Each command runs in turns with a floor: an empty Typer program with the same imports. What is measured is user and
system time of the whole process, so that a busy machine disturbs little, with bytecode cached for both. This is a
benchmark and no test: it exits 0 whatever it finds, and the limits are there to be compared with. POSIX only.
"""

import argparse
import json
import os
import platform
import pty
import shutil
import struct
import sys
import tempfile
from fcntl import ioctl
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from termios import TIOCSWINSZ
from typing import NamedTuple

FLOOR = """\
import typer
import yaml


def main() -> None:
    print(10737418240)


typer.run(main)
"""

TABLE_FLOOR = """\
import typer
import yaml
from rich.console import Console
from rich.table import Table


def main() -> None:
    table = Table("model", "bytes")
    table.add_row("llama3-70b", "10737418240")
    table.add_row("llama3-8b", "4294967296")
    Console().print(table)


typer.run(main)
"""

LIMIT = 1.35
WARM_UP = 2
ROWS, COLUMNS = 40, 120


class Case(NamedTuple):
    """A command line of kvcalc, the floor it is held against, and what its output must hold."""

    arguments: str
    floor: str
    terminal: bool
    expected: str
    limit: float | None


CASES = (
    Case("llama3-70b --batch 8 -q", FLOOR, False, "10737418240", LIMIT),
    Case("llama3-70b --batch 8", TABLE_FLOOR, True, "10,737,418,240 B", LIMIT),
    Case("llama3-70b --json", FLOOR, False, '"bytes_total": 1342177280', None),
    Case("models", FLOOR, False, "llama3-70b", None),
)


class Result(NamedTuple):
    """CPU seconds of the interleaved runs, pair by pair."""

    kvcalc: list[float]
    floor: list[float]

    @property
    def ratio(self) -> float:
        return median(k / f for k, f in zip(self.kvcalc, self.floor, strict=True))

    @property
    def difference(self) -> float:
        return median(k - f for k, f in zip(self.kvcalc, self.floor, strict=True))


class CommandError(Exception):
    """A command that did not do what is to be measured."""


def environment(folder: Path) -> dict[str, str]:
    """Bytecode is cached, but outside of the tree; no settings of the person who runs this take part."""
    dropped = ("PYTHONDONTWRITEBYTECODE", "KVCALC_PRESETS", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CI")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {
        "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        "XDG_CONFIG_HOME": str(folder / "no-configuration"),
        "TERM": "xterm-256color",
        "LC_ALL": "C.UTF-8",
    }


def run(command: list[str], env: dict[str, str], *, terminal: bool) -> tuple[float, str]:
    """CPU seconds and output of a command whose output goes to a terminal of our own, or to a pipe."""
    if terminal:
        ours, theirs = pty.openpty()
        ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        given = theirs
    else:
        ours, theirs = os.pipe()
        given = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, given, 0), *((os.POSIX_SPAWN_DUP2, theirs, stream) for stream in (1, 2))]
    pid = os.posix_spawn(command[0], command, env, file_actions=actions)
    for descriptor in {given, theirs}:
        os.close(descriptor)
    output = drain(ours)
    _, status, usage = os.wait4(pid, 0)
    if status:
        raise CommandError(f"{' '.join(command)} exited {os.waitstatus_to_exitcode(status)}: {output.strip()[-300:]}")
    return usage.ru_utime + usage.ru_stime, output


def drain(descriptor: int) -> str:
    """All that comes out of a descriptor, which is then closed."""
    pieces = []
    try:
        while piece := os.read(descriptor, 65536):
            pieces.append(piece)
    except OSError:  # how Linux says that nobody is left at the other end of a terminal
        pass
    finally:
        os.close(descriptor)
    return b"".join(pieces).decode(errors="replace")


def measure(case: Case, kvcalc: list[str], folder: Path, runs: int) -> Result:
    """Interleaved runs of a command and its floor, after a warm-up that also fills the bytecode cache."""
    program = folder / "floor.py"
    program.write_text(case.floor, encoding="utf-8")
    env = environment(folder)
    commands = [*kvcalc, *case.arguments.split()], [sys.executable, str(program)]

    def pair() -> list[tuple[float, str]]:
        return [run(command, env, terminal=case.terminal) for command in commands]

    for _ in range(WARM_UP):
        output = pair()[0][1]
    if case.expected not in output:
        raise CommandError(f"expected {case.expected} in the output, got {output.strip()[-300:]}")
    pairs = [pair() for _ in range(runs)]
    return Result([ours[0] for ours, _ in pairs], [floor[0] for _, floor in pairs])


def installed() -> list[str]:
    """The command that people type, if it is installed beside this interpreter."""
    script = shutil.which("kvcalc", path=os.path.dirname(sys.executable))
    return [script] if script else [sys.executable, "-m", "kvcalc"]


def setting() -> dict[str, str]:
    """The versions on which the numbers depend."""
    found = {"python": platform.python_version()}
    for package in ("typer", "rich", "pyyaml"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found


def label(case: Case) -> str:
    return f"kvcalc {case.arguments}" + (" (terminal)" if case.terminal else "")


def as_text(results: dict[Case, Result | CommandError], runs: int) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in setting().items())
    lines = [
        f"CPU time of whole processes, medians of {runs} interleaved pairs; {versions}",
        "",
        f"{'':42} {'kvcalc':>9} {'floor':>9} {'more':>9} {'ratio':>6} {'limit':>6}",
    ]
    for case, result in results.items():
        if isinstance(result, CommandError):
            lines.append(f"{label(case):42} failed: {result}")
            continue
        numbers = (median(result.kvcalc), median(result.floor), result.difference)
        limit = "-" if case.limit is None else f"{case.limit:.2f}"
        amounts = " ".join(f"{1000 * seconds:6.1f} ms" for seconds in numbers)
        lines.append(f"{label(case):42} {amounts} {result.ratio:6.2f} {limit:>6}")
    return "\n".join(lines)


def as_json(results: dict[Case, Result | CommandError], runs: int) -> str:
    rows = []
    for case, result in results.items():
        row: dict[str, object] = {"command": f"kvcalc {case.arguments}", "terminal": case.terminal, "limit": case.limit}
        if isinstance(result, CommandError):
            row["error"] = str(result)
        else:
            row |= {
                "kvcalc_seconds": median(result.kvcalc),
                "floor_seconds": median(result.floor),
                "difference_seconds": result.difference,
                "ratio": result.ratio,
            }
        rows.append(row)
    return json.dumps({"runs": runs, "versions": setting(), "cases": rows}, indent=2)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU time of kvcalc against an empty Typer program.")
    parser.add_argument("--runs", type=positive, default=21, metavar="N", help="pairs of each command; default: 21")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    results: dict[Case, Result | CommandError] = {}
    with tempfile.TemporaryDirectory(prefix="kvcalc-bench-") as folder:
        for case in CASES:
            try:
                results[case] = measure(case, installed(), Path(folder), options.runs)
            except CommandError as error:
                results[case] = error
    print(as_json(results, options.runs) if options.json else as_text(results, options.runs))


if __name__ == "__main__":
    main()
