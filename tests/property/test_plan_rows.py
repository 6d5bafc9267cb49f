"""Rows of a plan: each command is read back to the row's memory, and cards beside a row never make it worse."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kvcalc
from kvcalc.cli.main import run

from ..examples import PHASES, examples

MODELS = ("llama3.1-8b", "qwen3-30b-a3b", "gemma3-27b", "gpt-oss-20b", "deepseek-v2-lite", "llama3.3-70b")
CARDS = ("h100", "a100-40gb-sxm", "l4", "l40s", "mi300x", "b200", "h200", "rtx4090")
FULL: tuple[dict[str, Any], ...] = ({"users": 8, "context": 8192}, {"users": 100, "context": 4096})
LENGTHS: tuple[dict[str, Any], ...] = (
    {"input": 1155, "output": 211, "rate": 5.0},
    {"input": 1155, "output": 211, "rate": 5.0, "ttft": "2s", "tpot": "50ms"},
    {"input": 4000, "output": 500, "users": 64},
)
PRICES = {
    "h100": 2.5, "a100-40gb-sxm": 1.2, "l4": 0.7, "l40s": 1.1, "mi300x": 2.0, "b200": 5.0, "h200": 3.3, "rtx4090": 0.4,
}  # fmt: skip
# What a row and the size of its command both say of one GPU
MEMORY = ("vram_bytes_per_gpu", "weights_bytes_per_gpu", "overhead_bytes_per_gpu", "kv_budget_bytes_per_gpu")

few = settings(
    max_examples=examples(60),
    deadline=None,
    derandomize=True,
    database=None,
    phases=PHASES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


# How the server is told to run, where its engine has a flag for it
RUNS: tuple[dict[str, Any], ...] = ({}, {"max_num_seqs": 12}, {"max_num_batched_tokens": 4096}, {"enforce_eager": True})
LACKING = {("llama.cpp", "max_num_seqs")} | {
    (name, "enforce_eager") for name in ("sglang", "tensorrt-llm", "llama.cpp")
}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
@few
@given(st.sampled_from(MODELS), st.sampled_from(CARDS), st.sampled_from(FULL + LENGTHS), st.sampled_from(RUNS))
def test_a_rows_command_has_its_memory(
    engine: str, capsys: pytest.CaptureFixture[str], model: str, card: str, load: dict[str, Any], pins: dict[str, Any]
) -> None:
    """The same split of the same memory to the byte, the same tokens, and where lengths are full as many sequences."""
    if engine == "llama.cpp" and load not in FULL:  # its row counts what grows at the mean length, its command at -c
        load = FULL[0]
    if any((engine, name) in LACKING for name in pins):
        with pytest.raises(kvcalc.KvcalcError, match=next(iter(pins))):
            kvcalc.plan(model, engine=engine, gpu=card, **load, **pins)
        return
    found = kvcalc.plan(model, engine=engine, gpu=card, **load, **pins).to_dict()
    for row in found["options"][:2]:
        words = row["engine_flags"].get(engine)
        if words is None:
            continue
        servers = row["servers"][engine]
        front = [model] if engine == "llama.cpp" else ["--batch", str(-(-row["users"] // servers))]
        status = run([*front, "--gpu", f"{row['gpus'] // servers}x{card}", "--json", "--", *shlex.split(words)])
        fit = json.loads(capsys.readouterr().out)["fit"]
        assert (status, fit["fits"]) == (0, True)
        assert {key: fit[key] for key in MEMORY} == {key: row[key] for key in MEMORY}
        assert fit["overheads"] == row["overheads"]
        assert fit["capacity_tokens"] * servers == row["capacity_tokens"]
        if "max_num_seqs" in pins:
            assert {"12", str(12 * row["tp"])} & set(shlex.split(words))
            assert row["users"] <= 12 * row["dp"]
        if load in FULL and engine != "sglang":  # which counts no more than its command lets run
            assert fit["max_batch"] * servers == row["max_batch"]


def _size(row: dict[str, Any]) -> int:
    return int(row["gpus"] * row["vram_bytes_per_gpu"])


@few
@given(
    st.sampled_from(MODELS),
    st.sampled_from((None, "vllm", "sglang", "tensorrt-llm")),
    st.lists(st.sampled_from(CARDS), min_size=3, max_size=4, unique=True),
    st.sampled_from(FULL + LENGTHS),
)
def test_one_card_more_is_never_worse(model: str, engine: str | None, cards: list[str], load: dict[str, Any]) -> None:
    """The best row of more cards is as sure, and has no more memory, than that of fewer; others keep their numbers.

    Memory that differs by less than a twentieth is as much.
    """
    fewer, more = (
        kvcalc.plan(model, engine=engine, gpu=some, **load).to_dict()["options"] for some in (cards[:-1], cards)
    )
    if fewer:
        before, after = fewer[0], more[0]
        assert not (after["tight"] and not before["tight"])
        assert after["tight"] < before["tight"] or _size(after) <= 1.05 * _size(before)
    names = {row["gpu"] for row in fewer}
    assert [row for row in more if row["gpu"] in names] == fewer


@few
@given(
    st.sampled_from(MODELS),
    st.sampled_from((None, "vllm", "sglang", "tensorrt-llm")),
    st.lists(st.sampled_from(CARDS), min_size=2, max_size=4, unique=True),
    st.sampled_from(LENGTHS),
)
def test_nothing_slower_and_larger_stands_first(
    model: str, engine: str | None, cards: list[str], load: dict[str, Any]
) -> None:
    """No row that its own clock calls slower, with more GPUs, more memory and by prices dearer, stands before one that
    is as sure.
    """
    for prices in (None, {name: PRICES[name] for name in cards}):
        rows = kvcalc.plan(model, engine=engine, gpu=cards, prices=prices, **load).to_dict()["options"]
        for place, row in enumerate(rows):
            for behind in rows[place + 1 :]:
                slower = (row["tpot_seconds"] or 0) > (behind["tpot_seconds"] or 0)
                larger = row["gpus"] > behind["gpus"] and _size(row) > 1.05 * _size(behind)
                dearer = prices is None or row["price_per_hour"] > behind["price_per_hour"]
                assert not (slower and larger and dearer and row["tight"] >= behind["tight"])


@few
@given(
    st.sampled_from(MODELS),
    st.sampled_from(("vllm", "sglang", "tensorrt-llm", "llama.cpp")),
    st.sampled_from(CARDS),
    st.floats(0.5, 40),
    st.floats(1, 4),
)
def test_more_requests_never_need_fewer_gpus(model: str, engine: str, card: str, rate: float, more: float) -> None:
    """Nor are they refused: where a server takes only so many sequences (llama.cpp 256), more servers share them."""

    def least(rate: float) -> int:
        found = kvcalc.plan(model, engine=engine, gpu=card, input=1155, output=211, rate=rate).to_dict()["options"]
        for row in found:
            if engine == "llama.cpp" and row["engine_flags"][engine] is not None:
                words = shlex.split(row["engine_flags"][engine])
                assert int(words[words.index("-np") + 1]) <= 256
        return found[0]["gpus"] if found else 10**6

    assert least(rate * more) >= least(rate)


def test_how_an_engine_runs_is_said_of_one() -> None:
    """Without an engine the option is refused by name; times that the clock does not know are said to be others."""
    with pytest.raises(kvcalc.KvcalcError, match="max_num_seqs: says how an engine runs, and none is named"):
        kvcalc.plan("llama3.1-8b", gpu="h100", max_num_seqs=3)
    found = kvcalc.plan("llama3.1-8b", engine="vllm", gpu="h100", input=1155, output=211, enforce_eager=True).to_dict()
    assert any("--enforce-eager" in warning for warning in found["warnings"])
    assert "--enforce-eager" in found["options"][0]["engine_flags"]["vllm"]
    assert "--enforce-eager" in found["options"][0]["command"]


def test_sixteen_at_once_are_seven_servers_for_a_hundred() -> None:
    """100 / 16 = 6.25, however much memory there is; a server is told 16 and no other number."""
    found = kvcalc.plan("llama3.1-8b", engine="vllm", gpu="h100", users=100, context=4096, max_num_seqs=16).to_dict()
    best = found["options"][0]
    assert (best["gpus"], found["request"]["max_num_seqs"]) == (7, 16)
    assert "--max-num-seqs 16 " in best["engine_flags"]["vllm"] + " "
