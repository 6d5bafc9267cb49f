"""How an engine runs, said in words of kvcalc, is what its own flags say."""

from typing import Any

import pytest

import kvcalc
from kvcalc.errors import KvcalcError

# Our option, and the flag or variable of each engine that means the same, by the engines' own help and documentation.
PAIRS = [
    ("vllm", {"max_num_seqs": 256}, ["--max-num-seqs", "256"]),
    ("vllm", {"max_num_batched_tokens": "4k"}, ["--max-num-batched-tokens", "4096"]),
    ("vllm", {"enforce_eager": True}, ["--enforce-eager"]),
    ("vllm@0.11", {"language_model_only": True}, ["--language-model-only"]),
    ("sglang", {"max_num_seqs": 64}, ["--max-running-requests", "64"]),
    ("sglang", {"max_num_batched_tokens": 4096}, ["--chunked-prefill-size", "4096"]),
    ("sglang", {"language_model_only": True}, ["--language-model-only"]),
    ("tensorrt-llm", {"max_num_seqs": 256}, ["--max_batch_size", "256"]),
    ("tensorrt-llm", {"max_num_batched_tokens": 2048}, ["--max_num_tokens", "2048"]),
    ("llama.cpp", {"max_num_batched_tokens": 256}, ["-ub", "256"]),
    ("ollama", {"max_num_batched_tokens": 1024}, ["num_batch=1024"]),
    ("mlx", {"max_num_seqs": 8}, ["--decode-concurrency", "8"]),
    ("mlx", {"max_num_batched_tokens": 512}, ["--prefill-step-size", "512"]),
]


@pytest.mark.parametrize(("engine", "said", "flags"), PAIRS)
def test_our_word_is_the_engines_flag(engine: str, said: dict[str, Any], flags: list[str]) -> None:
    """Not one key of the document differs."""
    asked: dict[str, Any] = {"context": 4096, "gpu": "a100-80gb-sxm", "engine": engine}
    ours = kvcalc.size("gemma3-4b", **asked, **said)
    theirs = kvcalc.size("gemma3-4b", **asked, flags=flags)
    assert ours.to_dict() == theirs.to_dict()
    grid = kvcalc.sweep("gemma3-4b", **asked, **said).rows()
    assert grid == kvcalc.sweep("gemma3-4b", **asked, flags=flags).rows()


@pytest.mark.parametrize(
    ("engine", "said", "hint"),
    [
        ("llama.cpp", {"max_num_seqs": 4}, "-np"),
        ("ollama", {"max_num_seqs": 4}, "OLLAMA_NUM_PARALLEL"),
        ("sglang", {"enforce_eager": True}, "--disable-decode-cuda-graph"),
        ("transformers", {"max_num_batched_tokens": 4}, "leave it out"),
        (None, {"max_num_seqs": 4}, "--engine"),
    ],
)
def test_an_engine_without_it_says_so(engine: str | None, said: dict[str, Any], hint: str) -> None:
    """One line with the option, and what to do instead."""
    with pytest.raises(KvcalcError) as caught:
        kvcalc.size("llama3-8b", gpu="h100", engine=engine, **said)
    assert str(caught.value).startswith(next(iter(said)))
    assert hint in (caught.value.hint or "")


def test_said_twice_is_refused() -> None:
    """Neither the option nor the flag behind -- wins."""
    with pytest.raises(KvcalcError, match="max_num_seqs: the engine's own flags"):
        kvcalc.size("llama3-8b", engine="vllm", max_num_seqs=4, flags=["--max-num-seqs", "4"])


def test_a_gpu_of_80_gib_gives_back_what_fewer_sequences_need() -> None:
    """Sorting samplers of vLLM 0.16 take 38 B for each logit: 768 sequences of 128,256 logits are 3.49 GiB."""
    asked: dict[str, Any] = {"gpu": "h100", "engine": "vllm@0.16", "context": 4096}
    many = kvcalc.size("llama3.1-8b", **asked, max_num_seqs=1024, batch=1).to_dict()["fit"]
    few = kvcalc.size("llama3.1-8b", **asked, max_num_seqs=256, batch=1).to_dict()["fit"]
    gained = few["kv_budget_bytes_per_gpu"] - many["kv_budget_bytes_per_gpu"]
    assert abs(gained / (768 * 128_256 * 38) - 1) < 0.03
