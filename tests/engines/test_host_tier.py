"""A second cache in the host's memory, against arithmetic by hand from the engines' sources."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.cli.main import run

Asked = Callable[..., Any]
GIB = 2**30
LLAMA = 2 * 32 * 8 * 128 * 2  # B of a token of Llama 3.1 8B: keys and values, 32 layers, 8 heads of 128, 16 bits
QWEN = 2 * 36 * 8 * 128 * 2  # of Qwen3 8B: 147,456 B, as SGLang's own numbers have it


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """The document of a question to an engine, with its own flags."""

    def asked(model: str, engine: str, *flags: str, gpu: str = "h100") -> Any:
        assert run([model, "--gpu", gpu, "--engine", engine, "--json", "--", *flags]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    return asked


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (2, 2)])
def test_vllms_size_is_that_of_all_ranks(asked: Asked, tp: int, pp: int) -> None:
    """40 GiB of 131,072 B a token are 327,680 tokens on any number of ranks (config/vllm.py: not divided)."""
    flags = ("-tp", str(tp), "-pp", str(pp), "--kv-offloading-size", "40")
    found = asked("llama3.1-8b", "vllm", *flags, gpu=f"{tp * pp}xh100")["engine"]
    assert found["host_tier_tokens"] == 40 * GIB // LLAMA == 327_680
    assert found["host_tier_bytes"] == 40 * GIB
    assert found["host_tier_bytes_high"] == 40 * GIB * 192 // 100  # vllm #53042: 769 GiB for 400


def test_a_latent_lies_on_each_rank(asked: Asked) -> None:
    """Every rank copies its own blocks, and under tp each has the whole latent: half the tokens on two ranks."""
    one, two = (
        asked("deepseek-v2-lite", "vllm", "-tp", tp, "--kv-offloading-size", "27", gpu=f"{tp}xh100")["engine"]
        for tp in "12"
    )
    token = 27 * 576 * 2  # 27 layers of 512 + 64 in 16 bits
    assert one["host_tier_tokens"] == 27 * GIB // (one["block_size"] * token) * one["block_size"]
    assert two["host_tier_tokens"] == 27 * GIB // (2 * two["block_size"] * token) * two["block_size"]


def test_lmcache_keeps_chunks(asked: Asked) -> None:
    """1 GiB of Llama's tokens on two ranks is 8,192 tokens, 32 chunks of 256; a part of a chunk is none."""
    flags = ("-tp", "2", "--kv-offloading-backend", "lmcache", "--kv-offloading-size")
    whole, less = (asked("llama3.1-8b", "vllm", *flags, size, gpu="2xh100")["engine"] for size in ("1", "0.99"))
    assert (whole["host_tier_tokens"], less["host_tier_tokens"]) == (32 * 256, 31 * 256)
    assert whole["host_tier_bytes_high"] is None


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_gpu_holds_the_same(asked: Asked, engine: str) -> None:
    """What the host keeps takes nothing on the GPU, and is not called uncounted."""
    flags = {"vllm": ("--kv-offloading-size", "40"), "sglang": ("--enable-hierarchical-cache",)}[engine]
    bare, found = asked("qwen3-8b", engine), asked("qwen3-8b", engine, *flags)
    assert found["fit"] == bare["fit"]
    assert found["warnings"] == bare["warnings"]
    assert "host_tier_tokens" not in bare["engine"]


def test_sglangs_size_is_that_of_each_rank(asked: Asked) -> None:
    """int(40e9 // size_per_token), and a page more (HostKVCache): 271,267 + 1, on two ranks 542,534 + 1."""
    flags = ("--enable-hierarchical-cache", "--hicache-size", "40", "--page-size", "1")
    one, two = (asked("qwen3-8b", "sglang", *flags, "--tp", tp, gpu=f"{tp}xh100")["engine"] for tp in "12")
    assert (one["host_tier_tokens"], two["host_tier_tokens"]) == (271_268, 542_535)
    assert (one["host_tier_bytes"], two["host_tier_bytes"]) == (271_268 * QWEN, 542_535 * QWEN)


@pytest.mark.parametrize(("word", "ratio"), [((), 2), (("--hicache-ratio", "3"), 3)])
def test_sglangs_ratio_is_of_the_pool(asked: Asked, word: tuple[str, ...], ratio: int) -> None:
    """Without a size, the tokens of the GPU's pool times the ratio, which is 2 by default, and a page more."""
    found = asked("qwen3-8b", "sglang", "--enable-hierarchical-cache", "--page-size", "64", *word)["engine"]
    assert found["host_tier_tokens"] == ratio * found["capacity_tokens"] + 64


@pytest.mark.parametrize(
    ("model", "engine", "flags"),
    [
        ("gemma3-27b", "vllm", ("--kv-offloading-size", "40")),
        ("gpt-oss-20b", "sglang", ("--enable-hierarchical-cache", "--hicache-size", "40")),
    ],
)
def test_several_kinds_share_it_by_no_known_rule(asked: Asked, model: str, engine: str, flags: tuple[str, ...]) -> None:
    """Windows have blocks or pools of their own: the bytes are said, the tokens are not."""
    found = asked(model, engine, *flags)["engine"]
    assert found["host_tier_tokens"] is None
    assert found["host_tier_bytes"] == {"vllm": 40 * GIB, "sglang": 40 * 10**9}[engine]


@pytest.mark.parametrize(
    ("engine", "flags", "said"),
    [
        ("vllm", ("--kv-offloading-size", "much"), "--kv-offloading-size: expected a size"),
        (
            "vllm",
            ("--kv-offloading-backend", "disk"),
            "--kv-offloading-backend: expected native or lmcache, got 'disk'",
        ),
        ("sglang", ("--hicache-ratio", "0"), "--hicache-ratio: expected a number above 0"),
        ("sglang", ("--hicache-size", "x"), "--hicache-size: expected a size"),
        (
            "sglang",
            ("--enable-hierarchical-cache", "--disable-radix-cache"),
            "--enable-hierarchical-cache: sglang refuses it with --disable-radix-cache",
        ),
    ],
)
def test_what_the_engines_refuse(
    engine: str, flags: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line, status 2."""
    assert run(["qwen3-8b", "--gpu", "h100", "--engine", engine, "--", *flags]) == 2
    assert said in capsys.readouterr().err
