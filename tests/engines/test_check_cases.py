"""`kvcalc check` on what engines printed on public pages: each number comes out as it was printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvcalc.cli.main import run

from .log_cases import CASES, FURTHER, MODELS, Case

# Of the collection, but not of the engines that are checked.
ELSEWHERE = ("published-table", "whisper.cpp", "mistral.rs", "ik_llama.cpp")


@pytest.fixture
def checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Exit status and document of a check of some lines."""

    def checked(lines: tuple[str, ...], options: str) -> tuple[int, Any]:
        log = tmp_path / "engine.log"
        log.write_text("".join(f"{line}\n" for line in lines))
        for name, preset in MODELS.items():
            (tmp_path / f"{name}.yaml").write_text(preset)
        words = [str(tmp_path / f"{word}.yaml") if word in MODELS else word for word in options.split()]
        status = run(["check", str(log), *words, "--json"])
        return status, json.loads(capsys.readouterr().out)

    return checked


@pytest.mark.parametrize("case", [*CASES, *FURTHER], ids=lambda case: case.id)
def test_public_logs_agree(case: Case, checked: Callable[..., tuple[int, Any]]) -> None:
    """The numbers of a public log are those that its engine is predicted to print."""
    status, document = checked(case.log, case.options)
    verdicts = [line["verdict"] for line in document["lines"]]
    assert status == 0
    assert (verdicts.count("match"), verdicts.count("unknown"), len(verdicts)) == (
        case.compared, case.open, case.compared + case.open)  # fmt: skip
    assert document["verdict"] == ("unknown" if case.smaller else "match")
    assert ("smaller rank" in str(document["lines"])) == case.smaller


@pytest.mark.parametrize(
    ("name", "compared"),
    [("vllm-llama3.3-70b", 2), ("vllm-qwen3.6-35b-a3b", 3), ("llama-gemma2-2b", 12), ("ollama-two-models", 7)],
)
def test_whole_logs_agree(name: str, compared: int, checked: Callable[..., tuple[int, Any]]) -> None:
    """From the first line to the last nothing has to be said beside a log, nor left out of it."""
    log = (Path(__file__).parent.parent / "logs" / f"{name}.log").read_text()
    status, document = checked(tuple(log.splitlines()), "")
    assert (status, [line["verdict"] for line in document["lines"]]) == (0, ["match"] * compared)


def test_all_of_the_collection_is_here(shared_json: Callable[[str], Any]) -> None:
    """Every log of the collection that an engine of ours wrote has its row, with each of its printed numbers."""
    rows = {case.id: case for case in CASES}
    theirs = {case["id"]: case for case in shared_json("cases/engine_logs.json") if case["engine"] not in ELSEWHERE}
    assert sorted(rows) == sorted(theirs)
    for name, case in theirs.items():
        text = "\n".join(rows[name].log).replace(",", "")
        elsewhere = NOT_PRINTED["old"] if "KV self size" in text else NOT_PRINTED.get(name, ())
        missing = [
            (key, number) for key, number in case["printed"].items()
            if key not in elsewhere and _digits(number) not in text
        ]  # fmt: skip
        assert (name, missing) == (name, [])


# What stands in the collection and not in a line of the engine: sums by its author, or lines that are no start-up's.
NOT_PRINTED = {
    "E364": ("full_layers", "swa_layers", "full_per_token_bytes", "swa_per_token_bytes", "swa_full_tokens_ratio",
             "cell_size_bytes"),
    "old": ("layers",),  # llama.cpp had it in another line
}  # fmt: skip


def _digits(number: object) -> str:
    return str(number).removesuffix(".0")
