"""Work that other processes share: the bytes of the answer are those of one process, and so are the errors."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import kvcalc
from kvcalc.errors import KvcalcError
from kvcalc.jobs import Begun, Fewest, Workers, in_order
from kvcalc.launch.registry import all_engines

MORNING, AGENTS = "tests/traces/morning.csv", "tests/traces/agents.jsonl"

# One of each: the candidates of a search, a curve, the same replay without a tier, and a grid.
QUESTIONS = {
    "auto": f"simulate llama3.1-8b {MORNING} --gpu l4 --gpus auto --ttft 2s --tpot 100ms --json",
    "curve": f"simulate llama3.1-8b {AGENTS} --capacity 20k,40k,80k --json",
    "what if": f"simulate llama3.1-8b {AGENTS} --gpu l4 --prefix-cache --tier cpu=64GiB@25GB/s --json",
    "seeds": "simulate llama3.1-8b --gpu l4 --rate 1 --input 500 --output 90 --requests 90 --seeds 4 --replicas auto --ttft 1s --json",
    "grid": "sweep gemma3-27b --engine vllm,mlx,transformers -c 1k..60k:+3k -b 1..30 --vram 80GB --format csv",
    "refused": "sweep llama3-8b --context 1k --engine vllm --block-size 7",
}


def outcome(argv: list[str]) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-m", "kvcalc", *argv], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", QUESTIONS)
def test_two_processes_print_the_bytes_of_one(name: str) -> None:
    """Status, answer, order, warnings and errors are the same, whoever did the work."""
    argv = QUESTIONS[name].split()
    alone = outcome(argv)
    assert alone[1] or alone[0] == 2
    assert outcome([*argv, "--jobs", "2"]) == alone


def test_each_seed_is_asked_as_it_would_be_alone() -> None:
    """On the replicas that the first one needs."""
    asked: dict[str, Any] = {"gpu": "l4", "rate": 1, "input": "500/900", "output": 90, "requests": 90, "ttft": "1s"}
    found = kvcalc.simulate("llama3.1-8b", **asked, seeds=3, seed=4, replicas="auto").to_dict()
    assert [row["seed"] for row in found["by_seed"]] == [4, 5, 6]
    for row in found["by_seed"]:
        alone = kvcalc.simulate(
            "llama3.1-8b", **asked, seed=row["seed"], replicas=found["request"]["replicas"]
        ).to_dict()
        times = [alone[f"{name}_seconds"]["p95"] for name in ("ttft", "tpot", "e2e")]
        assert times == [row[f"{name}_p95_seconds"] for name in ("ttft", "tpot", "e2e")]
        assert (row["attained"], row["overloaded"]) == (alone["attainment"]["all"], alone["overloaded"])
    assert kvcalc.simulate("llama3.1-8b", **asked).to_dict()["by_seed"] == []


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (f"{MORNING} --gpu l4 --seeds 2", "--seeds: requests of a file are no draws"),
        ("--rate 1 --input 9 --output 9 --gpu l4 --seeds 0", "--seeds: expected 1 to 1,000"),
        ("--rate 1 --input 9 --output 9 --seeds 2 --step 1s --unlimited", "--seeds: is not known with --step"),
        (
            "--rate 1 --input 9 --output 9 --gpu l4 --seeds 2 --prefill 1 --decode 1",
            "--seeds: is not known with --prefill",
        ),
    ],
)
def test_seeds_that_mean_nothing_are_refused(words: str, line: str, refused: Callable[..., tuple[str, str]]) -> None:
    """Each in one line."""
    assert refused("simulate", "llama3.1-8b", *words.split())[0].startswith(line)


@pytest.mark.parametrize("verb", ["simulate llama3.1-8b --rate 1 --input 9 --output 9 --gpu l4", "sweep llama3-8b"])
@pytest.mark.parametrize("number", ["0", "-1", "two", "62", ""])
def test_no_number_of_processes_but_one_to_sixty_one(
    verb: str, number: str, refused: Callable[..., tuple[str, str]]
) -> None:
    """61 is what the standard library takes on every system."""
    line, _ = refused(*verb.split(), f"--jobs={number}")
    assert line.startswith("--jobs: expected")


def test_a_short_question_imports_nothing_for_it() -> None:
    """Who asks for one process does not pay for several."""
    code = "import sys; from kvcalc.cli.main import run; run(sys.argv[1:]); print([m for m in sys.modules if m.split('.')[0] in ('multiprocessing', 'concurrent')])"
    for argv in (["llama3-8b", "-q"], ["sweep", "llama3-8b", "-c", "1k,2k", "-q"], ["simulate", "llama3.1-8b", MORNING, "--gpu", "l4", "-q"]):  # fmt: skip
        done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("engine", [engine.name for engine in all_engines()])
def test_the_cells_of_every_engine_are_worked_out_elsewhere(engine: str, two: Executor) -> None:
    """A task has nothing that cannot be sent, such as a function that was made inside another one."""
    grid: dict[str, Any] = {"engine": engine, "context": "1k..9k:+4k", "batch": [1, 7], "vram": "80GB"}
    assert kvcalc.sweep("llama3-8b", **grid, executor=two).rows() == kvcalc.sweep("llama3-8b", **grid).rows()


@pytest.fixture(scope="module")
def two() -> Any:
    """Two processes that are started afresh."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        yield pool


def test_any_executor_may_be_handed_in(two: Executor) -> None:
    """Processes or threads; the documents are equal, and an executor may be gone before its rows are read."""
    asked: dict[str, Any] = {"gpu": "l4", "replicas": "auto", "ttft": "2s", "tpot": "100ms"}
    grid: dict[str, Any] = {"engine": ["vllm", "sglang"], "context": "1k..9k:+1k", "batch": [1, 7]}
    alone = kvcalc.simulate("llama3.1-8b", MORNING, **asked).to_dict()
    assert kvcalc.simulate("llama3.1-8b", MORNING, **asked, executor=two).to_dict() == alone
    with ThreadPoolExecutor(3) as threads:
        cells = kvcalc.sweep("llama3-8b", **grid, executor=threads)
    assert cells.to_dict() == kvcalc.sweep("llama3-8b", **grid).to_dict()


@pytest.mark.parametrize("what", [3, "two", ThreadPoolExecutor, object()])
def test_what_takes_no_work_is_refused(what: Any) -> None:
    """A class is no executor, and neither is a number of processes."""
    with pytest.raises(KvcalcError, match=r"executor: expected an executor of concurrent\.futures, got"):
        kvcalc.sweep("llama3-8b", executor=what)


def refuse(number: int) -> int:
    if number == 2:
        raise KvcalcError("--gpu: not this one", "another")
    time.sleep(0.05 if number == 0 else 0)
    return 10 * number


def leave(_: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_answers_come_in_the_order_of_their_tasks(two: Executor) -> None:
    """The first task takes longest; the error of the third comes third, with its hint."""
    found = in_order(Workers(two), refuse, [(0,), (1,), (2,)])
    assert [next(found), next(found)] == [0, 10]
    with pytest.raises(KvcalcError, match="--gpu: not this one") as caught:
        next(found)
    assert caught.value.hint == "another"


@pytest.mark.skipif(sys.platform == "win32", reason="a process is killed by a signal")
def test_a_process_that_is_killed_is_one_line() -> None:
    """As where the system's memory gave out."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool, pytest.raises(KvcalcError) as caught:
        Begun(Workers(pool), leave, 1).result()
    assert caught.value.message == "a process that worked on a part ended before its answer"
    assert not isinstance(caught.value, BrokenExecutor)


class Recorded(Executor):
    """Does each task when it is asked for, and keeps what was asked."""

    def __init__(self) -> None:
        self.tasks: list[int] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.tasks.append(args[0])
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@pytest.mark.parametrize("least", [1, 2, 3, 5, 6, 8, 13, 64, 65])
@pytest.mark.parametrize("at_once", [1, 2, 3, 8])
def test_a_search_that_guesses_takes_the_steps_of_one_that_does_not(least: int, at_once: int) -> None:
    """By halves, whichever way each of them turns; 65 is above the most that is tried."""

    def searched(workers: Workers | None) -> tuple[tuple[int, int] | None, list[int]]:
        asked: list[int] = []

        def does(number: int) -> bool:
            asked.append(number)
            return number >= least

        return Fewest(workers, 64).search(int, lambda count: (count,), does), asked

    recorded = Recorded()
    alone, guessed = searched(None), searched(Workers(recorded, at_once))
    assert guessed == alone
    assert alone[0] == ((least, least) if least <= 64 else None)
    assert set(alone[1]) <= set(recorded.tasks)
    assert at_once > 1 or recorded.tasks == alone[1]


@pytest.mark.skipif(sys.platform == "win32", reason="ends by a signal")
def test_processes_end_with_the_one_that_began_them(tmp_path: Path) -> None:
    """Killed from outside, it leaves nobody behind."""
    code = (
        "import sys, multiprocessing as m\n"
        "from kvcalc.cli.jobs import JobsWords, workers\n"
        "import time\n"
        "if __name__ == '__main__':\n"
        "    words = JobsWords(); words.jobs = '2'\n"
        "    with workers(words) as several:\n"
        "        several.executor.submit(abs, 1).result()\n"
        "        print(*[child.pid for child in m.active_children()], flush=True)\n"
        "        time.sleep(60)\n"
    )
    script = tmp_path / "main.py"
    script.write_text(code, encoding="utf-8")
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert children
    deadline = time.monotonic() + 20
    while any(alive(pid) for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
