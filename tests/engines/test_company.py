"""What shares a GPU with a model: adapters, drafts, other models, against published sizes and arithmetic by hand."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import kvcalc
from kvcalc.cli.main import run
from kvcalc.core.adapters import Adapters, adapter_bytes
from kvcalc.core.request import ask
from kvcalc.library import loader

Asked = Callable[..., Any]
MIB, GIB = 2**20, 2**30


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str]) -> Asked:
    """The document of a command line."""

    def asked(*argv: str) -> Any:
        at = argv.index("--") if "--" in argv else len(argv)  # behind it are the engine's own words
        assert run([*argv[:at], "--json", *argv[at:]]) in (0, 1)
        return json.loads(capsys.readouterr().out)

    return asked


def line(document: Any, name: str) -> Any:
    (found,) = (each for each in document["fit"]["overheads"] if each["name"] == name)
    return found


# Llama 3.1 8B: q 4,096 to 4,096, k and v to 1,024, o 4,096 to 4,096; gate and up 4,096 to 14,336, down back; 32 layers.
# d_in + d_out of all is 8,192 + 2 x 5,120 + 8,192 + 3 x 18,432 = 81,920. At tp 2 each matrix has one side whole: into
# q 4,096 + 2,048, k and v 4,096 + 512, gate and up 4,096 + 7,168; out of o 2,048 + 4,096, down 7,168 + 4,096: 55,296.
@pytest.mark.parametrize(
    ("preset", "adapters", "tp", "sharded", "likely"),
    [
        ("qwen1.5-7b", Adapters(1, 8), 1, False, 39_976_960),  # 38.125 MiB: triton-inference-server/tensorrtllm_backend #559
        ("llama3.1-8b", Adapters(1, 16), 1, False, 32 * 16 * 2 * 81_920),
        ("llama3.1-8b", Adapters(4, 16), 1, False, 4 * 32 * 16 * 2 * 81_920),
        ("llama3.1-8b", Adapters(1, 16), 2, False, 32 * 16 * 2 * 55_296),
        ("llama3.1-8b", Adapters(1, 16), 2, True, 32 * 16 * 2 * 81_920 // 2),
    ],
)  # fmt: skip
def test_room_for_adapters(preset: str, adapters: Adapters, tp: int, sharded: bool, likely: int) -> None:
    model = loader.load(preset)
    found = adapter_bytes(model, adapters, ask(model, tp=tp).layout, sharded=sharded)
    assert found.likely == found.low == likely
    assert model.dimensions is not None
    vocab, hidden = model.dimensions.vocab or 0, model.dimensions.hidden  # the most has both tables
    assert found.high - likely == 2 * adapters.number * adapters.rank * 2 * (-(-vocab // tp) + hidden)


def test_adapters_of_experts() -> None:
    """Qwen3-30B-A3B: 128 experts of 2,048 to 768 twice and back, in 48 layers; attention q 2,048 to 4,096, k and v to
    512, o 4,096 to 2,048. Engines that adapt no experts have the second alone.
    """
    model = loader.load("qwen3-30b-a3b")
    found = adapter_bytes(model, Adapters(1, 16), ask(model).layout)
    attention, experts = 2 * 6_144 + 2 * 2_560, 128 * 3 * (2_048 + 768)
    assert found.low == 48 * 16 * 2 * attention
    assert found.likely == 48 * 16 * 2 * (attention + experts)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_option_is_the_engines_flags(asked: Asked, engine: str) -> None:
    flags = {
        "vllm": ("--enable-lora", "--max-loras", "4", "--max-lora-rank", "16"),
        "sglang": ("--enable-lora", "--max-loras-per-batch", "4", "--max-lora-rank", "16"),
    }[engine]
    ours = asked("llama3.1-8b", "--gpu", "h100", "--engine", engine, "--lora", "4:16")
    theirs = asked("llama3.1-8b", "--gpu", "h100", "--engine", engine, "--", *flags)
    bare = asked("llama3.1-8b", "--gpu", "h100", "--engine", engine)
    assert ours["fit"] == theirs["fit"]
    assert ours["request"]["lora"] == "4:16"
    assert line(ours, "adapters")["bytes"] == 4 * 80 * MIB
    assert bare["fit"]["kv_budget_bytes_per_gpu"] - ours["fit"]["kv_budget_bytes_per_gpu"] == 4 * 80 * MIB


def test_every_verb_counts_the_same() -> None:
    options: dict[str, Any] = {
        "gpu": "2xh100",
        "engine": "vllm",
        "lora": "8:64",
        "beside": "qwen3-0.6b",
        "context": 8192,
    }
    fit = kvcalc.size("llama3.1-8b", **options).to_dict()["fit"]
    for verb in (kvcalc.sweep, kvcalc.compare):
        row = verb("llama3.1-8b", **options).rows()[0]
        assert row["kv_budget_bytes_per_gpu"] == fit["kv_budget_bytes_per_gpu"]
        assert row["max_batch"] == fit["max_batch"]


def test_a_plan_keeps_the_room_and_its_command_asks_for_it(asked: Asked) -> None:
    """Read back, the command has the bytes of the row."""
    best = asked("plan", "llama3.1-8b", "--gpu", "h100", "--users", "8", "--engine", "vllm", "--lora", "4:16")["best"]
    words = best["engine_flags"]["vllm"].split()
    assert words[-5:] == ["--enable-lora", "--max-loras", "4", "--max-lora-rank", "16"]
    again = asked("--gpu", f"{best['gpus']}xh100", "--", *words)
    assert again["fit"]["kv_budget_bytes_per_gpu"] == best["kv_budget_bytes_per_gpu"]


def test_a_draft_has_weights_and_a_cache(asked: Asked) -> None:
    """Llama 3.2 1B: 1.236B parameters of 2 B; 16 layers x 8 x 64 x 2 x 2 B = 32,768 B a token beside the 131,072 of 8B:
    a sequence of 4,096 tokens has 640 MiB of both.
    """
    found = asked("llama3.1-8b", "--vram", "40GiB", "--draft", "llama3.2-1b")
    weights = line(found, "draft weights")["bytes"]
    assert weights == pytest.approx(1.236e9 * 2, rel=0.01)
    assert found["fit"]["kv_bytes_per_gpu"] == 640 * MIB
    assert found["fit"]["max_batch"] == found["fit"]["kv_budget_bytes_per_gpu"] // (640 * MIB)
    shared = asked("llama3.1-8b", "--vram", "40GiB", "--tp", "2", "--draft", "llama3.2-1b")
    assert line(shared, "draft weights")["bytes"] == pytest.approx(weights / 2, rel=0.01)


def test_a_draft_of_an_engine(asked: Asked) -> None:
    """Its weights come off, its layers stand in the pool as they did, and nothing is left uncounted."""
    flags = ("--spec-method", "draft_model", "--spec-model", "llama3.2-1b", "--spec-tokens", "3")
    ours = asked("llama3.1-8b", "--gpu", "h100", "--engine", "vllm", "--draft", "llama3.2-1b")
    theirs = asked("llama3.1-8b", "--gpu", "h100", "--engine", "vllm", "--", *flags)
    assert ours["fit"] == theirs["fit"]
    assert ours["fit"]["fits"] is True
    assert not any("draft" in warning for warning in ours["warnings"])
    assert line(ours, "draft weights")["bytes"] == pytest.approx(1.236e9 * 2, rel=0.01)


def test_layers_that_draft_are_loaded(asked: Asked) -> None:
    """DeepSeek V3's: 11.5B parameters of its own (its paper: 14B less the two tables that it shares), in fp8 on 8 ranks,
    and the matrix that joins two states in 16 bits.
    """
    command = ("vllm", "serve", "deepseek-ai/DeepSeek-V3", "-tp", "8", "--max-model-len", "32k", "--speculative-config")
    found = asked("--gpu", "8xh200", "--", *command, '{"method": "mtp", "num_speculative_tokens": 1}')
    assert line(found, "draft layers")["bytes"] == pytest.approx(11.5e9 / 8, rel=0.2)
    assert not any("draft" in warning for warning in found["warnings"])


def test_another_model_beside_it(asked: Asked) -> None:
    """Qwen3 0.6B: 0.6B parameters of 2 B, 28 x 8 x 128 x 2 x 2 B = 114,688 B for each of 4,096 tokens, and the context of
    a process; whole on each GPU of two.
    """
    one, two = (
        line(asked("llama3.1-8b", "--gpu", gpu, "--beside", "qwen3-0.6b"), "beside") for gpu in ("h100", "2xh100")
    )
    cache = 4_096 * 114_688
    assert one == two
    assert 0.59e9 * 2 + cache + GIB // 10 < one["bytes"] < 0.76e9 * 2 + cache + GIB // 2
    both = asked("llama3.1-8b", "--gpu", "h100", "--beside", "qwen3-0.6b", "--beside", "qwen3-0.6b")
    assert sum(each["bytes"] for each in both["fit"]["overheads"] if each["name"] == "beside") == 2 * one["bytes"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["llama3.1-8b", "--lora", "4:16"], "--lora: has no effect without a budget"),
        (["llama3.1-8b", "--gpu", "h100", "--lora", "4"], "--lora: expected N:RANK, such as 4:16, got '4'"),
        (["llama3.1-8b", "--gpu", "h100", "--lora", "0:16"], "--lora: expected 1 to 100,000, got '0'"),
        (["llama3.1-8b", "--gpu", "h100", "--engine", "vllm", "--lora", "1:24"], "expected one of 1, 8, 16, 32"),
        (["llama3.1-8b", "--gpu", "h100", "--engine", "vllm", "--lora", "1:1024"], "expected one of 1, 8, 16, 32"),
        (["llama3.1-8b", "--gpu", "h100", "--engine", "llama.cpp", "--lora", "1:8"], "what llama.cpp keeps for it is not"),
        (["llama3.1-8b", "--kv-memory", "10GB", "--lora", "1:8"], "--kv-memory: contradicts --lora"),
        (["llama3.1-8b", "--gpu", "h100", "--draft", "nosuch"], "--draft: no preset is called 'nosuch'"),
        (["llama3.1-8b", "--gpu", "h100", "--beside", "nosuch"], "--beside: no preset is called 'nosuch'"),
        (["llama3.1-8b", "--gpu", "h100", "--lora", "1:8", "--engine", "vllm", "--", "--enable-lora"], "say it too"),
        (["simulate", "llama3.1-8b", "--rate", "1", "--input", "100", "--output", "10", "--requests", "5", "--gpu", "h100",
          "--draft", "llama3.2-1b"], "--draft: how many"),
        (["sweep", "llama3.1-8b", "--gpu", "h100", "--draft", "llama3.2-1b"], "--draft: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_asked(capsys: pytest.CaptureFixture[str], argv: list[str], said: str) -> None:
    assert run(argv) == 2
    told = capsys.readouterr().err.splitlines()
    assert said in told[0]
    assert len(told) <= 2
