"""The simulation against published serving runs: the errors that it may have, by what was measured."""

from statistics import median

from .measured_runs import Run, runs


def _errors(name: str, *, closed: bool = False) -> list[float]:
    """Of the runs that were not asked for too much: open loops are simulated, closed ones are planned."""
    return [each.error for run in runs() if run.closed is closed for each in run.metrics if each.name == name]


def _dense() -> list[Run]:
    """Open loops but for the one of a model with linear attention, whose prompts take several times their matrices."""
    return [run for run in runs() if not run.closed and "qwen3.5" not in run.row["id"]]


def test_all_facts_are_there() -> None:
    """Eight runs of inference-sim's and four of pegainfer's, one of which asks for more than the server can do."""
    assert len(runs()) == 12
    assert [run.row["id"] for run in runs() if run.overload] == ["170634-llama-2-7b-tp1-reasoning-stage0"]


def test_an_overload_is_called_one_and_nothing_else() -> None:
    """4,068 of 4,800 requests failed in the one run, and none in the others."""
    assert [run.overloaded for run in runs()] == [run.overload for run in runs()]


def test_errors_of_open_loops() -> None:
    """The aims: half of the runs within 15 % in TPOT and end to end, 35 % in the first token and 10 % in throughput."""
    assert median(_errors("tpot_mean")) <= 0.15
    assert median(_errors("e2e_mean")) <= 0.15
    assert median(_errors("e2e_p99")) <= 0.25
    assert median(_errors("ttft_mean")) <= 0.35
    assert max(_errors("requests_s")) <= 0.10


def test_no_run_of_a_dense_model_is_far_off() -> None:
    """Where prompts are found in the cache the first token is half a step, the next one and its own, and 10 ms: each run
    within 20 %. Before steps were scheduled ahead and with 60 ms for the front end it was 86 to 191 % too much.
    """
    for run in _dense():
        for each in run.metrics:
            assert each.error <= (0.30 if each.name == "ttft_p99" else 0.20), (run.row["id"], each)


def test_closed_loops_keep_their_time_per_token() -> None:
    """1, 8 and 16 users by the closed form of `plan`. Their first tokens are not explained: 198 ms for a prompt of 1,024
    tokens that comes alone.
    """
    assert max(_errors("tpot_mean", closed=True)) <= 0.15
