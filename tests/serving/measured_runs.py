"""Published serving runs beside the simulation of each. `measured_runs.csv` has the facts and their sources."""

import csv
import json
import tempfile
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import kvcalc

TABLE = Path(__file__).with_name("measured_runs.csv")
BLOCK = 16  # of vLLM, and of the trace that is made of a run
_SEEDS = range(8)  # of 64 requests each, where a run's arrivals are random and their seed is not known


class Metric(NamedTuple):
    """What a run measured of one time or rate, and what the simulation says of it."""

    name: str
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return abs(self.predicted / self.measured - 1)


class Run(NamedTuple):
    """One run: its row of the table, what was measured of it, and whether more was asked than the simulated server does.

    `closed`: a number of users, which is no trace; the closed form of `plan` answers for it.
    """

    row: dict[str, str]
    metrics: tuple[Metric, ...]
    overloaded: bool
    closed: bool

    @property
    def overload(self) -> bool:
        return self.row["overload"] == "yes"


def rows() -> list[dict[str, str]]:
    """The table."""
    with TABLE.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


@cache
def runs() -> tuple[Run, ...]:
    """All of them, simulated."""
    return tuple(_run(row) for row in rows())


def _run(row: dict[str, str]) -> Run:
    if row["kind"] == "users":
        return Run(row, tuple(_metrics(row, _planned(row))), overloaded=False, closed=True)
    documents = list(_simulated(row))
    said = {
        "ttft_mean": fmean(each["ttft_seconds"]["mean"] for each in documents),
        "ttft_p99": fmean(each["ttft_seconds"]["p99"] for each in documents),
        "tpot_mean": fmean(each["tpot_seconds"]["mean"] for each in documents),
        "e2e_mean": fmean(each["e2e_seconds"]["mean"] for each in documents),
        "e2e_p99": fmean(each["e2e_seconds"]["p99"] for each in documents),
        "requests_s": fmean(each["requests_per_second"] for each in documents),
    }
    overloaded = any(each["overloaded"] for each in documents)
    return Run(row, () if row["overload"] == "yes" else tuple(_metrics(row, said)), overloaded, closed=False)


def _metrics(row: dict[str, str], said: dict[str, float]) -> list[Metric]:
    return [Metric(name, float(row[name]), value) for name, value in said.items() if row[name]]


def _planned(row: dict[str, str]) -> dict[str, float]:
    best: Any = kvcalc.plan(
        row["preset"], users=int(row["users"]), input=int(row["input"]), output=int(row["output"]), engine=row["engine"],
        gpu=f"{row['tp']}x{row['gpu']}", tp=int(row["tp"]),
    ).to_dict()["best"]  # fmt: skip
    return {"ttft_mean": best["ttft_seconds"], "tpot_mean": best["tpot_seconds"]}


def _simulated(row: dict[str, str]) -> list[dict[str, Any]]:
    """The documents of a run: one with arrivals at equal gaps and prompts that come again, or one for each seed."""
    asked: dict[str, Any] = {"gpu": row["gpu"], "tp": int(row["tp"]), "engine": row["engine"]}
    if row["sequences"]:
        asked |= {"max_num_seqs": int(row["sequences"]), "max_num_batched_tokens": int(row["step_tokens"])}
    if row["kind"] == "poisson":
        lengths = {"input": int(row["input"]), "output": int(row["output"]), "requests": int(row["requests"])}
        rate = float(row["rate"])
        return [dict(kvcalc.simulate(row["preset"], rate=rate, seed=n, **lengths, **asked).to_dict()) for n in _SEEDS]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        path.write_text("".join(json.dumps(each) + "\n" for each in _requests(row)), encoding="utf-8")
        found = kvcalc.simulate(row["preset"], path, time_unit="s", prefix_cache=True, **asked)
        return [dict(found.to_dict())]


def _requests(row: dict[str, str]) -> list[dict[str, Any]]:
    """Prompts in turn, of which the first tokens are the same for all and the others each one's own."""
    shared, whole = int(row["shared"]) // BLOCK, -(-int(row["input"]) // BLOCK)
    own = [
        [*range(shared), *range(1000 * (n + 1), 1000 * (n + 1) + whole - shared)] for n in range(int(row["prompts"]))
    ]
    return [
        {
            "timestamp": i / float(row["rate"]),
            "input_length": int(row["input"]),
            "output_length": int(row["output"]),
            "hash_ids": own[i % len(own)],
            "block_size": BLOCK,
        }
        for i in range(int(row["requests"]))
    ]
