"""llama.cpp: every tensor of the recorded runs, from the metadata of the same GGUF file and the same settings."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.core.model import Model
from kvcalc.engines.base import Reservation

from ..sources.gguf_models import model_of, preset
from ..sources.llama_cpp_runs import RUNS as FILES
from .llama_cpp_asked import reserved
from .llama_cpp_runs import RUNS

_FLAGS = {"n_ctx": "-c", "n_seq_max": "-np", "n_batch": "-b", "n_ubatch": "-ub", "flash_attn": "-fa", "ctk": "-ctk",
          "ctv": "-ctv", "n_rs_seq": "--spec-type draft-mtp --spec-draft-n-max", "kv_unified": "-kvu",
          "swa_full": "--swa-full"}  # fmt: skip
_ALL = [(case, *run) for case, runs in RUNS.items() for run in runs]


def command(settings: str) -> str:
    """The settings of a run as llama-cli's flags: `n_ctx=1000 kv_unified` is `-c 1000 -kvu`."""
    words = (setting.partition("=") for setting in settings.split())
    return " ".join(["llama-cli", *(f"{_FLAGS[name]} {value}" for name, _, value in words)])


def file_of(case: str) -> Model:
    """The model of the GGUF file of a case."""
    file = next(file for file in FILES if file.case == case)
    return model_of(preset(file.arch, file.metadata["block_count"], file.metadata))


def tensors_of(run: str) -> Counter[tuple[str, int]]:
    """How many tensors of each part and size a run allocated; those of a compressor are added up."""
    found: Counter[tuple[str, int]] = Counter()
    for line in run.split("; "):
        count, parts, _, size = line.split()
        for part in parts:
            key, number = (("c", 0), int(count) * int(size)) if part == "c" else ((part, int(size)), int(count))
            found[key] += number if int(size) else 0
    return +found


def tensors_reserved(found: Reservation) -> Counter[tuple[str, int]]:
    """The same of an answer. Index keys are keys."""
    counts: Counter[tuple[str, int]] = Counter()
    for charge in found.allocation.charges:
        for name, size in charge.parts:
            part = name.removeprefix("index_")[0]
            counts["c" if part == "c" else part, 0 if part == "c" else size // charge.copies] += (
                size if part == "c" else charge.copies
            )
    return counts


@pytest.mark.parametrize(("case", "settings", "total", "run"), _ALL, ids=[f"{case} {run}" for case, run, _, _ in _ALL])
def test_every_tensor(case: str, settings: str, total: int, run: str) -> None:
    """A GGUF file and llama-cli's flags give the tensors that llama.cpp allocated: sizes, numbers, cells and streams."""
    found = reserved(file_of(case), command(settings))
    assert tensors_reserved(found) == tensors_of(run)
    assert found.reserved_total == total
    assert found.exact_total + sum(difference.bytes for difference in found.differences) == total
    values = found.allocation.values
    shapes = {
        tuple(map(int, shape.split("x")))
        for _, parts, shape, _ in map(str.split, run.split("; "))
        if parts in ("k", "v", "kv")
    }
    if shapes:
        assert (values["cells"], values["streams"]) in {shape[1:] for shape in shapes} or case.startswith("deepseek-v4")
        assert {shape[2] for shape in shapes} == {values["streams"]}
        if values["swa_cells"] is not None:
            assert values["swa_cells"] in {shape[1] for shape in shapes}


def test_all_runs_are_here(shared_json: Callable[[str], Any]) -> None:
    """The table has every recorded run of llama.cpp, with its bytes."""
    recorded = [run for run in shared_json("cases/engine_runs.json") if run["engine"] == "llama.cpp"]
    assert Counter((run["preset"], run["bytes_total"]) for run in recorded) == Counter(
        (case, total) for case, _, total, _ in _ALL
    )


def test_log_lines(shared_json: Callable[[str], Any]) -> None:
    """The lines that llama.cpp printed for each run, character for character; its warnings are not predicted."""
    runs = [run for run in shared_json("cases/engine_runs.json") if run["engine"] == "llama.cpp"]
    for run in runs:
        expected = [line for line in run["log_lines"] if "size = " in line]
        plain = {
            "n_batch": 2048,
            "n_ubatch": 512,
            "n_seq_max": 1,
            "n_rs_seq": 0,
            "flash_attn": "auto",
            "ctk": "f16",
            "ctv": "f16",
        }
        settings = [f"{k}={v}" for k, v in run["params"].items() if not isinstance(v, bool) and plain.get(k) != v]
        settings += [k for k, v in run["params"].items() if v is True]
        found = reserved(file_of(run["preset"]), command(" ".join(settings)))
        states = "llama_dsv4_comp_state"  # no line of these was recorded
        assert [line for line in found.allocation.log if not line.startswith(states)] == expected, run["case"]
