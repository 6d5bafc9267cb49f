"""Every cell of a grid is what `kvcalc MODEL` says of that cell."""

import contextlib
import io
import json
from functools import cache
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.cli.main import run

from ..examples import examples

MODELS = """
    llama3-70b gemma3-27b gpt-oss-20b deepseek-v3.2 deepseek-v4-flash qwen3-next-80b jamba-1.5-mini whisper-tiny
    llama4-scout gemma3n-e4b mamba-2.8b openelm-270m minimax-m3 rwkv6-1.6b
""".split()  # noqa: SIM905 - one a word
CONTEXTS = st.sampled_from(["1", "127", "512", "1024", "4095", "4096", "5000", "32k", "100000"])
BATCHES = st.sampled_from(["1", "2", "3", "7", "64"])
DTYPES = st.sampled_from(["auto", "fp8", "q8_0", "fp32", "int4"])
SPLITS = st.sampled_from([[], ["--pp", "2"], ["--dp", "2"], ["--pp", "3", "--dp", "2"], ["--dcp", "2"]])
BUDGETS = st.sampled_from(
    [[], ["--kv-memory", "3GiB"], ["--vram", "80GB"], ["--gpu", "h200"], ["--vram", "24GB", "--weights", "none"]]
)
ENGINES = st.sampled_from([None, None, "vllm", "sglang", "tensorrt-llm", "llama.cpp", "transformers", "mlx", "ollama"])


def asked(*argv: str) -> tuple[int, Any]:
    """Status and document of a command line, or its error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([*argv, "--json"])
    if status == 2:
        return status, err.getvalue().splitlines()[0].removeprefix("kvcalc: error: ")
    return status, json.loads(out.getvalue())


@cache
def one(*argv: str) -> tuple[int, Any]:
    return asked(*argv)


def lists(values: st.SearchStrategy[Any], most: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=1, max_size=most, unique=True)


@settings(max_examples=examples(40))
@given(
    st.sampled_from(MODELS), lists(CONTEXTS, 3), lists(BATCHES, 2), lists(DTYPES, 2), lists(st.sampled_from("1234"), 2),
    SPLITS, BUDGETS, ENGINES,
)  # fmt: skip
def test_a_cell_is_what_the_size_verb_says(
    model: str, contexts: list[str], batches: list[str], dtypes: list[str], tps: list[str], split: list[str],
    budget: list[str], engine: str | None,
) -> None:  # fmt: skip
    """Bytes, per token, per GPU and reserved; with a budget how many fit; and where that refuses, the same reason."""
    rest = [*split, *budget, *(["--engine", engine] if engine else [])]
    axes = ["-c", ",".join(contexts), "-b", ",".join(batches), "--kv-dtype", ",".join(dtypes), "--tp", ",".join(tps)]
    status, grid = asked("sweep", model, *axes, *rest)
    cells = [
        (model, "-c", context, "-b", batch, "--kv-dtype", dtype, "--tp", tp, *rest)
        for dtype in dtypes for tp in tps for context in contexts for batch in batches
    ]  # fmt: skip
    answers = [one(*cell) for cell in cells]
    if status == 2:
        assert {answer[0] for answer in answers} == {2}
        assert grid == answers[0][1]
        return
    assert len(grid["rows"]) == len(answers)
    for row, (cell_status, size) in zip(grid["rows"], answers, strict=True):
        if cell_status == 2:
            assert row["refused"] == size
            continue
        assert row["refused"] is None
        assert {key: row[key] for key in ("context", "batch", "tp", "k_dtype", "v_dtype")} == {
            key: size["request"][key] for key in ("context", "batch", "tp", "k_dtype", "v_dtype")
        }
        kv = ("bytes_per_token", "bytes_per_sequence", "bytes_total", "bytes_total_per_gpu")
        assert {key: row[key] for key in kv} == {key: size["kv"][key] for key in kv}
        assert row["textbook_bytes_total"] == (size["textbook"] and size["textbook"]["bytes_total"])
        reserved = ("reserved_bytes_total", "reserved_bytes_per_gpu")
        assert {key: row[key] for key in reserved} == {key: size["engine"] and size["engine"][key] for key in reserved}
        fit = ("kv_budget_bytes_per_gpu", "max_batch", "capacity_tokens", "fits", "binding")
        assert {key: row[key] for key in fit} == {key: size["fit"] and size["fit"][key] for key in fit}
    fits = {answer[1]["fit"]["fits"] for answer in answers if answer[0] != 2 and answer[1]["fit"]}
    assert status == (1 if fits == {False} else 0)
