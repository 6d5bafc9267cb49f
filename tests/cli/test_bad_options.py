"""Command lines that cannot be answered: each ends in one line that names the option, and often a way out."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

Refused = Callable[..., tuple[str, str]]  # the fixture of conftest.py


class Bad(NamedTuple):
    """A command line, what its error line must contain, and what its hint must."""

    argv: list[str]
    says: tuple[str, ...]
    hint: tuple[str, ...] = ()


def of(option: str, *texts: str, says: str = "", hint: tuple[str, ...] = (), model: str = "llama3-70b") -> list[Bad]:
    """One option with several texts, each of which must be named with the option."""
    more = ["--vram", "80GB"] if option in ("--utilization", "--weights", "--overhead") else []
    return [Bad([model, *more, option, text], (f"{option}:", says), hint) for text in texts]


LARGE = "9" * 30
DIGITS = "9" * 5000

MODELS = [
    Bad(["llama3-7b"], ("'llama3-7b'",), ("llama3-70b",)),
    Bad(["lama3-70b"], ("'lama3-70b'",), ("llama3-70b",)),
    Bad(["zzzzzz"], ("'zzzzzz'",), ("kvcalc models",)),
    Bad(["size", "lama3-70b"], ("'lama3-70b'",), ("llama3-70b",)),
    Bad(["meta-llama/Meta-Lama-3-70B"], ("meta-llama/Meta-Lama-3-70B", "hub id")),
    Bad([""], ("''",)),
    Bad([" "], ("' '",)),
    Bad(["..."], ("'...'",)),
    Bad(["\x1b[31mred"], ("\\x1b[31mred",)),
    Bad(["line\nbreak"], ("line",)),
    Bad(["x" * 5000], ("xxx",)),
    Bad(["\uff4c\uff4c\uff41\uff4d\uff41\uff13-\uff17\uff10\uff42"], ("\uff4c\uff4c\uff41\uff4d\uff41\uff13",)),
    # verbs
    Bad(["modles"], ("'modles'",), ("models",)),
    Bad(["sise", "llama3-70b"], ("sise",), ("size",)),
    # words that belong to no verb or option
    Bad(["llama3-70b", "extra"], ("extra",)),
    Bad(["llama3-70b", "llama3-8b"], ("llama3-8b",)),
    Bad(["models", "llama3-70b", "extra"], ("extra",)),
    Bad(["--batch", "8"], ("MODEL",)),
    Bad(["size"], ("MODEL",)),
    Bad(["llama3-70b", "--contxt", "5"], ("--contxt",)),
    Bad(["llama3-70b", "--vramm=80GB"], ("--vramm",)),
    Bad(["llama3-70b", "-z"], ("-z",)),
    Bad(["llama3-70b", "--context"], ("--context",)),
    Bad(["llama3-70b", "-c"], ("-c",)),
    Bad(["llama3-70b", "--json=yes"], ("--json",)),
    Bad(["llama3-70b", "--block-size", "16"], ("--block-size", "has no blocks")),
    # simulate
    Bad(["simulate", "llama3-8b"], ("TRACE", "file of requests"), ("--rate",)),
    Bad(["simulate", "llama3-8b", "no.csv", "--gpu", "h100"], ("no.csv",)),
    Bad(["simulate", "llama3-8b", "--rate", "2"], ("--rate", "lengths"), ("--input",)),
    Bad(["simulate", "llama3-8b", "--input", "9", "--output", "9"], ("--input", "--rate")),
    Bad(["simulate", "llama3-8b", "--rate", "0", "--input", "9", "--output", "9"], ("--rate", "above zero")),
    Bad(["simulate", "llama3-8b", "--rate", "2", "--input", "9", "--output", "9"], ("--gpu",), ("--unlimited",)),
    Bad(["simulate", "llama3-8b", "--tier", "cpu=9GiB", "--gpu", "h100"], ("--tier", "no rate"), ("50GB/s",)),
    Bad(
        [
            "simulate",
            "llama3-8b",
            "--tier",
            "cpu=9GiB@5GB/s",
            "--gpu",
            "h100",
            "--rate",
            "2",
            "--input",
            "9",
            "--output",
            "9",
        ],
        ("--tier", "--prefix-cache"),
    ),
    Bad(["simulate", "llama3-8b", "--start-time", "5m", "--rate", "2", "--input", "9", "--output", "9"], ("--day",)),
    Bad(
        ["simulate", "llama3-8b", "--day", "-", "--rate", "2", "--input", "9", "--output", "9", "--gpu", "h100"],
        ("--rate", "--day"),
    ),
    Bad(
        ["simulate", "llama3-8b", "--day", "-", "--input", "9", "--output", "9", "--gpu", "h100", "--replicas", "2"],
        ("--replicas", "--day"),
    ),
    Bad(["simulate", "llama3-8b", "--step", "30ms"], ("--step", "--unlimited")),
    Bad(["simulate", "llama3-8b", "--unlimited"], ("--unlimited", "--step")),
    Bad(["simulate", "llama3-8b", "--burstiness", "2"], ("--burstiness", "--rate")),
    Bad(["simulate", "llama3-8b", "--router", "random"], ("--router", "least-loaded", "'random'")),
    Bad(["simulate", "llama3-8b", "--time-unit", "h"], ("--time-unit", "'h'")),
    Bad(
        ["simulate", "llama3-8b", "--vram", "80GB", "--rate", "2", "--input", "9", "--output", "9"],
        ("--vram",),
        ("--gpu",),
    ),
    Bad(
        [
            "simulate",
            "llama3-8b",
            "--gpu",
            "h100",
            "--engine",
            "llama.cpp",
            "--rate",
            "2",
            "--input",
            "9",
            "--output",
            "9",
        ],
        ("--engine", "llama.cpp"),
        ("vllm",),
    ),
    Bad(
        [
            "simulate",
            "llama3-8b",
            "--gpu",
            "h100",
            "--replicas",
            "auto",
            "--rate",
            "2",
            "--input",
            "9",
            "--output",
            "9",
        ],
        ("--replicas", "target"),
        ("--ttft",),
    ),
    Bad(
        ["simulate", "llama3-8b", "--gpu", "h100", "--capacity", "1m", "--rate", "2", "--input", "9", "--output", "9"],
        ("--capacity", "prefixes"),
        ("hash_ids",),
    ),
    Bad(["simulate", "llama3-8b", "--gpu", "h100", "--rate", "2", "--input", "9/8", "--output", "9"], ("--input",)),
    Bad(["llama3-70b", "--gpu", "a100"], ("--gpu", "not one card"), ("a100-40gb-sxm", "a100-80gb-sxm")),
    Bad(["llama3-70b", "--gpu", "h1000"], ("--gpu", "h1000", "table of GPUs"), ("--vram",)),
    Bad(["llama3-70b", "--gpu", "0xh100"], ("--gpu", "1 to")),
    Bad(["llama3-70b", "--gpu", "x\x1b[2J"], ("--gpu", "expected a GPU")),
    Bad(["llama3-70b", "--gpu", "h100", "--vram", "80GB"], ("--gpu", "--vram")),
    Bad(["llama3-70b", "--gpu", "8xh100", "--gpus", "4"], ("--gpus", "8xh100")),
    Bad(["llama3-70b", "--gpu", "8xh100", "--tp", "4"], ("--gpu:", "8 contradicts tp 4")),
    Bad(["--gpu", "8xh100", "--", "vllm", "serve", "meta-llama/Meta-Llama-3-70B", "-tp", "4"], ("8 contradicts tp 4",)),
    Bad(["--", "serve", "meta-llama/Meta-Llama-3-70B"], ("--", "serve", "command of an engine")),
    Bad(["llama3-70b", "--", "--tensor-parallel-size", "4"], ("--", "command of an engine"), ("--engine NAME",)),
]

WHOLE = (
    "0",
    "-1",
    "1.5",
    "1e9",
    "nan",
    "inf",
    "eight",
    "",
    " ",
    LARGE,
    DIGITS,
    "0x10",
    "\u0661\u0662",
    "1_000",
    "1,000",
    "+1",
)
OPTIONS = [
    *of("--context", *WHOLE, "4096 tokens", "128kb", "-4k", "0k", "0.3", "1.0001k",
        "k", "4k4", "maximum", "9999999m", "\x1b[0m"),
    *of("--batch", *WHOLE, "max", "1k"),
    *of("--encoder-tokens", "0", "-1", "many", "", "nan", LARGE, model="t5-small"),
    Bad(["llama3-70b", "--encoder-tokens", "100"], ("--encoder-tokens:", "Llama 3 70B")),
    Bad(["t5-small", "--context", "max"], ("--context:", "max", "T5 small")),
    # dtypes
    *of("--kv-dtype", "bf61", "BF61", hint=("bf16",)),
    *of("--k-dtype", "q8_00", hint=("q8_0",)),
    *of("--v-dtype", "fp-8", hint=("fp8",)),
    *of("--kv-dtype", "", "zzz", "16", "q4_k_m", "q4_k", "mxfp4", "none", "int2", "\x1b[31m"),
    *of("--k-dtype", ""),
    *of("--v-dtype", ""),
    *of("--kv-dtype", "fp8_ds_mla", "int8_per_token_head", "turboquant_4bit", says="engine"),
    Bad(["deepseek-v3", "--k-dtype", "fp8"], ("--k-dtype:", "fp8", "bf16", "DeepSeek V3"), ("--kv-dtype",)),
    Bad(["deepseek-v3", "--v-dtype", "fp8"], ("-dtype:", "fp8", "bf16", "DeepSeek V3"), ("--kv-dtype",)),
    Bad(["tiny-1.yaml", "--kv-dtype", "q8_0"], ("q8_0", "32", "8")),
    Bad(["tiny-1.yaml", "--kv-dtype", "nvfp4"], ("nvfp4", "16", "8")),
    # engines
    *[
        Bad([*verb, "--engine", text], ("--engine:", "version", f"'{text}'"))
        for verb in (["llama3-70b"], ["plan", "llama3-70b"], ["sweep", "llama3-70b"])
        for text in ("vllm@", "llama.cpp@")
    ],
    # KV heads
    *of("--kv-heads", *WHOLE, "65", "every"),
    Bad(["deepseek-v3", "--kv-heads", "8"], ("--kv-heads:", "DeepSeek V3")),
    Bad(["deepseek-v3", "--kv-heads", "all"], ("--kv-heads:", "DeepSeek V3")),
    Bad(["mamba-2.8b", "--kv-heads", "8"], ("--kv-heads:", "Mamba 2.8B")),
    Bad(["rwkv6-1.6b", "--kv-heads", "all"], ("--kv-heads:", "RWKV 6")),
    # parallelism
    *[bad for option in ("--tp", "--pp", "--dp", "--dcp", "--gpus") for bad in of(option, *WHOLE)],
    Bad(["llama3-70b", "--tp", "3"], ("--tp:", "3", "64")),
    Bad(["llama3-70b", "--gpus", "3"], ("3", "64")),
    Bad(["llama3-70b", "--tp", "128"], ("--tp:", "128", "64")),
    Bad(["gpt2", "--tp", "8"], ("--tp:", "8", "12")),
    Bad(["qwen2.5-7b", "--tp", "7"], ("--tp:", "7", "4")),
    Bad(["mamba-2.8b", "--tp", "3"], ("--tp:", "3", "5,120")),
    Bad(["rwkv6-1.6b", "--tp", "2"], ("--tp:", "2")),
    Bad(["deepseek-v3", "--tp", "3"], ("--tp:", "3", "128")),
    Bad(["llama3-70b", "--pp", "81"], ("--pp:", "81", "80")),
    Bad(["llama3-70b", "--dcp", "2"], ("--dcp:", "2", "1")),
    Bad(["llama3-70b", "--tp", "8", "--dcp", "3"], ("--dcp:", "3", "8")),
    Bad(["llama3-70b", "--tp", "8", "--dcp", "16"], ("--dcp:", "16", "8")),
    Bad(["llama3-70b", "--gpus", "8", "--tp", "4"], ("--gpus:", "8", "4")),
    Bad(["llama3-70b", "--gpus", "8", "--tp", "4", "--pp", "3"], ("--gpus:", "8", "4", "3")),
    Bad(["llama3-70b", "--gpus", "2", "--dp", "4"], ("--gpus:", "2", "4")),
    # budgets
    *[
        bad
        for option in ("--vram", "--kv-memory", "--overhead", "--weights")
        for bad in [
            *of(option, "80", hint=("80GB", "80GiB")),
            *of(option, "80G", hint=("80GB", "80GiB")),
            *of(option, "79.5M", hint=("79.5MB", "79.5MiB")),
            *of(option, "1t", hint=("1TB", "1TiB")),
            *of(option, "-5GB", "80XB", "1e9B", "nanGB", "infGB", "GB", "", " ",
                "80GBs", "80,5GB", "1.2.3GB", "8 0GB", "0x5GB"),
            *of(option, "8EiB", f"{LARGE}GB", f"{DIGITS}GB", "99999999TB", "\u0668\u0660GB", "80GB\x1b[31m", "all"),
        ]
    ],
    *of("--vram", "0GB", "0", "0.4B", "0.0001KB", "auto"),
    *of("--kv-memory", "0GB", "0", "0.4B"),
    *of("--utilization", "0", "0.0", "1.5", "1.0001", "-0.9", "nan", "inf", "90%", "1e-1", "", ".",
        "0,9", "all", DIGITS, "\u0660.\u0669"),
    *of("--weights", "q4_k_xl", "UD-Q5_K_XL"),
    *of("--weights", "fp61", hint=("fp16",)),
    *of("--weights", "nothing", "2bit"),
    *[
        Bad(["llama3-70b", "--kv-memory", "10GiB", option, text], ("--kv-memory", option))
        for option, text in (("--vram", "80GB"), ("--utilization", "0.9"), ("--weights", "int4"), ("--overhead", "1GB"))
    ],
    *[
        Bad(["llama3-70b", option, text], (f"{option}:", "budget"), ("--vram",))
        for option, text in (("--utilization", "0.9"), ("--weights", "int4"), ("--overhead", "1GB"))
    ],
    Bad(["tiny-1.yaml", "--vram", "80GB"], ("--weights:", "Tiny 1"), ("--weights none",)),
    Bad(["tiny-1.yaml", "--vram", "80GB", "--weights", "int4"], ("--weights:", "Tiny 1")),
    # output
    *of("--format", "tabel", hint=("table",)),
    *of("--format", "yaml", "xml", ""),
    *of("--units", "gib", "", "SI units"),
    *[
        Bad(["llama3-70b", *argv], tuple(word for word in argv if word.startswith("--")))
        for argv in (
            ["--json", "--quiet"], ["--get", "kv.bytes_total", "--quiet"],
            ["--get", "kv.bytes_total", "--format", "csv"], ["--json", "--format", "csv"],
            ["--quiet", "--format", "json"],
            ["--explain", "--quiet"], ["--explain", "--get", "kv.bytes_total"], ["--explain", "--format", "csv"],
        )
    ],
    Bad(["llama3-70b", "--get", "kv.bytes_totl"], ("--get:", "'kv.bytes_totl'"), ("kv.bytes_total",)),
    Bad(["llama3-70b", "--get", ""], ("--get:", "''")),
    Bad(["llama3-70b", "--get", "fit.max_batch"], ("--get:", "fit.max_batch"), ("--vram", "--kv-memory")),
    # models
    Bad(["models", "lama3-70b"], ("'lama3-70b'",), ("llama3-70b",)),
    Bad(["models", ""], ("''",)),
    *[Bad(["models", "--family", text], ("--family:",)) for text in ("zebra", "")],
    *[Bad(["models", "--attention", text], ("--attention:",)) for text in ("zebra", "")],
    Bad(["models", "--attention", "slidng"], ("--attention:", "'slidng'"), ("sliding",)),
    Bad(["models", "--check", "missing-1.yaml"], ("missing-1.yaml: no such file",), ("tiny-1.yaml",)),
    Bad(["preset", "./nope"], ("./nope: no such file",), ("kvcalc models",)),
    Bad(["models", "--check", ""], ("'': no such file",), ("kvcalc models",)),
    Bad(["models", "--check"], ("--check",)),
    Bad(["models", "--format", "xml"], ("--format:", "'xml'")),
    Bad(["models", "--format", "ymal"], ("--format:", "'ymal'"), ("yaml",)),
    Bad(["models", "--get", "nope"], ("--get:", "'nope'")),
    Bad(["models", "--batch", "8"], ("--batch",)),
]  # fmt: skip


@pytest.mark.parametrize("bad", MODELS + OPTIONS, ids=lambda bad: " ".join(ascii(word[:40])[1:-1] for word in bad.argv))
def test_a_question_without_an_answer_is_refused_in_one_line(
    bad: Bad, refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 2, nothing on standard output, one line that names the fault, and a hint where there is a way out."""
    monkeypatch.chdir(tmp_path)
    # a row of 8 elements, which fills no block
    text = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 1\nhead_dim: 8\nlayers: 2 full\n"
    Path("tiny-1.yaml").write_text(text, encoding="utf-8")
    error, hint = refused(*bad.argv)
    assert [word for word in bad.says if word not in error] == []
    assert [word for word in bad.hint if word not in hint] == []
    assert len(error) < 500


def test_a_latent_model_without_an_encoder_length_says_what_it_needs(refused: Refused, tmp_path: Path) -> None:
    """Cross-attention whose length neither the preset nor the request states cannot be sized."""
    path = tmp_path / "tiny-1.yaml"
    text = "name: Tiny 1\ndtype: bf16\nheads: 4\nkv_heads: 2\nhead_dim: 64\nlayers: 2 full+cross\n"
    path.write_text(text + "caches: {cross: {tokens: input}}\n", encoding="utf-8")
    assert "--encoder-tokens:" in refused(str(path))[0]


def test_a_misspelt_option_is_corrected(refused: Refused) -> None:
    """The nearest option stands in the error or its hint."""
    assert "--context" in " ".join(refused("llama3-70b", "--contxt", "5"))
