"""The same question about memory has one answer, to the byte, whichever verb is asked."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvcalc
from kvcalc.cards.names import card_called
from kvcalc.errors import KvcalcError
from kvcalc.queries import check, tradeoff
from kvcalc.queries.options import NamedGpu, Workload
from kvcalc.queries.source import Source

MODELS = (
    "llama3.1-8b", "qwen3-30b-a3b", "gemma3-27b", "deepseek-v2-lite", "jamba-1.5-mini", "gpt-oss-20b", "mamba-2.8b",
    "llama3.3-70b",
)  # fmt: skip
CARDS = ("h100", "a100-40gb-sxm", "l4", "mi300x", "b200", "rtx4090", "m3-max-40")
ENGINES = (None, "vllm", "vllm@0.11.2", "vllm@0.8.5", "sglang", "tensorrt-llm", "llama.cpp", "mlx", "transformers")
RUNS: tuple[dict[str, Any], ...] = ({}, {"max_num_seqs": 64}, {"max_num_batched_tokens": 4096}, {"enforce_eager": True})

question = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(CARDS),
        "engine": st.sampled_from(ENGINES),
        "tp": st.sampled_from((1, 2, 4, 8)),
        "context": st.sampled_from((1024, 4096, 8192)),
        "batch": st.sampled_from((1, 3, 64)),
        "run": st.sampled_from(RUNS),
    }
)


def asked(model: str, run: dict[str, Any], options: dict[str, Any]) -> Any:
    """What size says; the reason where it is refused."""
    try:
        return kvcalc.size(model, **options, **run).to_dict()
    except KvcalcError as error:
        return error.message


@given(question)
def test_size_sweep_compare_and_fit_agree(question: dict[str, Any]) -> None:
    """The budget, what fits and the tokens, or the reason why there is no answer."""
    model, run = question.pop("model"), question.pop("run")
    document = asked(model, run, question)
    if isinstance(document, str):
        for ask in (kvcalc.sweep, kvcalc.compare):
            with pytest.raises(KvcalcError) as caught:
                ask(model, **question, **run)
            assert caught.value.message == document
        return
    fit = document["fit"]
    for ask in (kvcalc.sweep, kvcalc.compare):
        row = ask(model, **question, **run).rows()[0]
        for key in ("kv_budget_bytes_per_gpu", "max_batch", "fits", "binding"):
            assert row[key] == fit[key], key
    if not run:
        without = {key: value for key, value in question.items() if key != "gpu"}
        again = kvcalc.fit(kvcalc.size(model, **without), gpu=question["gpu"]).to_dict()
        assert again["fit"] == fit


@given(question)
def test_tradeoff_has_the_memory_of_the_size(question: dict[str, Any]) -> None:
    """Tradeoff names no engine: its memory is what the size of the same card has."""
    model, run = question["model"], dict[str, Any]()
    options = {**question, "engine": None}
    del options["model"], options["run"]
    document = asked(model, run, options)
    if isinstance(document, str):
        return
    number, card = card_called(question["gpu"])
    wanted = tradeoff.TradeoffQuestion(
        Source(model),
        input=question["context"] - 10,
        output=10,
        workload=Workload(batch=question["batch"]),
        gpu=NamedGpu(question["gpu"], number, card),
        tp=question["tp"],
    )
    try:
        found = tradeoff.answer(wanted)
    except KvcalcError:  # of times, for which a link between cards must be known
        return
    assert found.memory is not None
    assert found.memory.kv_budget == document["fit"]["kv_budget_bytes_per_gpu"]
    named = [(line.name, line.size.likely) for line in found.memory.overheads]
    assert named == [(line["name"], line["bytes"]) for line in document["fit"]["overheads"]]


@given(question)
def test_check_estimates_what_size_says(question: dict[str, Any]) -> None:
    """A log of vLLM that states all of the question: its estimate of the cache's memory is the budget of the size."""
    model, run, gpu, tp = question["model"], question["run"], question["gpu"], question["tp"]
    options = {"gpu": gpu, "tp": tp, "context": question["context"], "batch": 1, "engine": "vllm@0.20.2"}
    document = asked(model, run, options)
    settings = "".join(f", '{name}': {value}" for name, value in run.items())
    log = (
        f"vLLM API server version 0.20.2\nnon-default args: {{'model': '{model}', 'max_model_len': "
        f"{question['context']}, 'tensor_parallel_size': {tp}, 'kv_cache_dtype': 'auto'{settings}}}\n"
        "Available KV cache memory: 30.00 GiB\nGPU KV cache size: 100,000 tokens\n"
        f"Maximum concurrency for {question['context']:,} tokens per request: 10.00x\n"
    )
    number, card = card_called(gpu)
    wanted = check.CheckQuestion(kvcalc.load(model), gpu=NamedGpu(gpu, number, card), engine="vllm")
    try:
        found = check.answer(io.BytesIO(log.encode()), "a log", wanted)
    except KvcalcError:
        return
    if isinstance(document, str) or not found.checked:
        return
    (cache,) = (each for each in found.checked[0].estimated if each.expected.quantity == "cache")
    assert cache.expected.predicted == document["fit"]["kv_budget_bytes_per_gpu"]
