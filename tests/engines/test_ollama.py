"""Ollama: llama.cpp with Ollama's own settings; names of models as `ollama run` takes them."""

from collections.abc import Callable
from typing import Any

import pytest

from kvcalc.api import load
from kvcalc.cli.main import run
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import Reservation, reserve
from kvcalc.engines.ollama.model_names import preset_of
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch

Refused = Callable[..., tuple[str, str]]
MIB = 1024 * 1024


def reservation(engine: str, model: str, command: str, **options: Any) -> Reservation:
    started = launch(engine, command.split())
    facts = load(model)
    stated = started.engine.options_of(started.program, started.read, facts)
    request = ask(facts, **{**options, **stated.options})
    return reserve(started.engine, Question(request, measure(request).placement, started.version, stated.settings))


# Public logs and notes of Ollama: cells, and MiB as printed.
LOGS = (
    # a derivation note of 2026: Qwen3.x 27B with 4 drafted tokens, RS 748.12 of which R 28.12 and S 720.00
    ("qwen3.6-27b", "num_ctx=200704 OLLAMA_KV_CACHE_TYPE=q4_0 draft_num_predict=4",
     {"cells": 200704, "k": "1764.00", "v": "1764.00", "rs": "748.12"}),
    # the same note gives 6,664 MiB of K and V in q8_0
    ("qwen3.6-27b", "num_ctx=200704 OLLAMA_KV_CACHE_TYPE=q8_0 draft_num_predict=4",
     {"cells": 200704, "k": "3332.00", "v": "3332.00", "rs": "748.12"}),
    # a tutorial of 2026: Mistral 7B, num_ctx 4096, Metal
    ("mistral-7b-v0.3", "OLLAMA_CONTEXT_LENGTH=4096", {"cells": 4096, "k": "256.00", "v": "256.00", "rs": "0.00"}),
    # a note of 2026 on an H100: Llama 3.3 70B, num_ctx 131072
    ("llama3.3-70b", "num_ctx=131072", {"cells": 131072, "k": "20480.00", "v": "20480.00", "rs": "0.00"}),
)  # fmt: skip


@pytest.mark.parametrize(("model", "command", "printed"), LOGS)
def test_public_logs_come_out(model: str, command: str, printed: dict[str, object]) -> None:
    """The trunk's K, V and recurrent state; a context for drafts stands apart in Ollama's log."""
    found = reservation("ollama", model, command)
    parts: dict[str, int] = {}
    for charge in found.allocation.charges:
        if charge.exact:  # draft layers are not part of the question's size
            for name, size in charge.parts:
                parts[name] = parts.get(name, 0) + size
    state = parts.get("r_bytes", 0) + parts.get("s_bytes", 0)
    assert found.allocation.values["cells"] == printed["cells"]
    got = {"k": parts["k_bytes"], "v": parts["v_bytes"], "rs": state}
    assert {name: f"{size / MIB:.2f}" for name, size in got.items()} == {k: printed[k] for k in got}


SETTINGS = (
    # window of 128 and one micro-batch, in multiples of 256: 512, 1,024 and 2,048 tokens of batch
    ("", {"context": 4096}, {"swa_cells": 768, "n_batch": 512, "n_ubatch": 512, "kv_unified": False}),
    ("", {"context": 4097}, {"swa_cells": 1280, "n_ubatch": 1024}),
    ("", {"context": 32768}, {"swa_cells": 1280, "n_ubatch": 1024}),
    ("", {"context": 131072}, {"swa_cells": 2304, "n_ubatch": 2048, "cells": 131072, "streams": 1}),
    # it is the context of all sequences that decides
    ("OLLAMA_NUM_PARALLEL=4 OLLAMA_CONTEXT_LENGTH=4096", {},
     {"swa_cells": 1280, "n_ubatch": 1024, "cells": 4096, "streams": 4, "num_ctx": 4096, "num_parallel": 4}),
    ("", {"context": 4096, "batch": 9}, {"n_ubatch": 2048, "streams": 9}),
    ("num_ctx=131072 num_batch=128", {}, {"swa_cells": 256, "n_batch": 128, "n_ubatch": 128}),
    ("OLLAMA_CONTEXT_LENGTH=4096 num_ctx=8192", {}, {"num_ctx": 8192}),  # the request's own counts
    ("OLLAMA_CONTEXT_LENGTH=0 OLLAMA_NUM_PARALLEL=0", {}, {"num_ctx": 4096, "num_parallel": 1}),
    ("OLLAMA_FLASH_ATTENTION=0 num_ctx=131072", {}, {"n_ubatch": 512, "flash_attn": "off"}),
    ("OLLAMA_FLASH_ATTENTION=1", {}, {"flash_attn": "on"}),
    ("OLLAMA_KV_CACHE_TYPE=Q8_0", {}, {"type_k": "q8_0", "type_v": "q8_0"}),
)  # fmt: skip


@pytest.mark.parametrize(("command", "options", "values"), SETTINGS)
def test_settings_are_handed_on(command: str, options: dict[str, int], values: dict[str, object]) -> None:
    """gpt-oss 20B, by server/sched.go and llm/llama_server.go."""
    found = reservation("ollama", "gpt-oss-20b", command, **options)
    assert {key: found.allocation.values[key] for key in values} == values


# Layers x cells x bytes of K and V a token; before 0.30.
OWN = (
    # one pool of 2 x 8,192 cells for 10 full layers; 52 with 2 x (1,024 + 1) + 512 = 2,562, in blocks of 256: 2,816
    ("gemma3-27b", "OLLAMA_NUM_PARALLEL=2 num_ctx=8192", (10 * 16384 + 52 * 2816) * 2 * 16 * 128 * 2),
    ("gemma3-27b", "num_ctx=8192", (10 * 8192 + 52 * 1536) * 2 * 16 * 128 * 2),
    ("gemma3-27b", "num_ctx=1000", 62 * 1024 * 2 * 16 * 128 * 2),  # no longer than the window: everything
    # 4,096 tokens and a batch for the window of 128
    ("gpt-oss-20b", "num_ctx=131072", (12 * 131072 + 12 * 4608) * 2 * 8 * 64 * 2),
    ("gpt-oss-20b", "num_ctx=4096", 24 * 4096 * 2 * 8 * 64 * 2),
    ("llama4-scout", "num_ctx=32768", 48 * 32768 * 2 * 8 * 128 * 2),  # chunks are only masked
    ("llama3-8b", "OLLAMA_NUM_PARALLEL=3 num_ctx=1000", 32 * 3072 * 2 * 8 * 128 * 2),  # 3,000 in blocks of 256
    ("llama3-8b", "OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=1 num_ctx=4096", 32 * 4096 * 2 * 8 * 128 // 32 * 34),
)  # fmt: skip


@pytest.mark.parametrize(("model", "command", "size"), OWN)
def test_older_versions_have_one_pool(model: str, command: str, size: int) -> None:
    """kvcache/causal.go, by hand."""
    assert reservation("ollama@0.12.3", model, command).reserved_total == size


NAMES = (
    ("llama3:70b", "llama3-70b"),
    ("llama3:70b-instruct-q4_K_M", "llama3-70b"),
    ("qwen3:8b-q4_K_M", "qwen3-8b"),
    ("qwen3:30b-a3b", "qwen3-30b-a3b"),
    ("qwen3:30b-a3b-instruct-2507-q8_0", "qwen3-30b-a3b"),
    ("gemma3:27b-it-qat", "gemma3-27b"),
    ("gemma3n:e4b", "gemma3n-e4b"),
    ("mixtral:8x7b", "mixtral-8x7b"),
    ("gpt-oss:20b", "gpt-oss-20b"),
    ("Qwen2.5:0.5B", "qwen2.5-0.5b"),
    ("registry.ollama.ai/library/llama3:8b", "llama3-8b"),
    ("phi4", "phi-4"),
    ("phi4:latest", "phi-4"),
    ("mistral-nemo", "mistral-nemo-12b"),
    ("qwq:latest", "qwq-32b"),
    ("hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q4_K_M", "bartowski/Llama-3.2-3B-Instruct-GGUF"),
    ("huggingface.co/ggml-org/gpt-oss-20b-GGUF", "ggml-org/gpt-oss-20b-GGUF"),
)
PRESETS = ("gemma3-27b", "gemma3n-e4b", "gpt-oss-20b", "gpt-oss-120b", "llama3-70b", "llama3-8b", "mistral-nemo-12b",
           "mixtral-8x7b", "phi-4", "phi-4-mini", "qwen2.5-0.5b", "qwen2.5-7b", "qwen3-30b-a3b", "qwen3-8b", "qwen3-coder-480b",
           "qwq-32b")  # fmt: skip


@pytest.mark.parametrize(("model", "preset"), NAMES)
def test_names_of_its_library_lead_to_presets(model: str, preset: str) -> None:
    """The tag's size belongs to the name, its variant and format do not change the cache."""
    assert preset_of(model, PRESETS) == preset


@pytest.mark.parametrize(
    ("model", "says", "hint"),
    [
        ("qwen3", "ollama: 'qwen3': the name alone means any of 2 sizes", "one of qwen3-30b-a3b, qwen3-8b in front"),
        (
            "gpt-oss:latest",
            "ollama: 'gpt-oss:latest': the name alone means any of 2",
            "one of gpt-oss-20b, gpt-oss-120b",
        ),
        ("qwen3:4b", "ollama: 'qwen3:4b': no preset is called 'qwen3-4b'", "one of qwen3-30b-a3b, qwen3-8b in front"),
        ("nosuch:7b", "ollama: 'nosuch:7b': no preset is called 'nosuch-7b'", "give the model in front"),
        ("someone/model:7b", "ollama: 'someone/model:7b': Ollama keeps the model", "give the model in front"),
        ("evil\x1b[2J:7b", "ollama: 'evil\\x1b[2J:7b': no preset", "give the model in front"),
    ],
)
def test_a_name_that_could_be_several_is_refused(model: str, says: str, hint: str) -> None:
    """With the names that it may mean."""
    with pytest.raises(KvcalcError) as error:
        preset_of(model, PRESETS)
    assert error.value.message.startswith(says)
    assert str(error.value.hint).startswith(hint)


@pytest.mark.parametrize(
    ("command", "tokens"),
    [
        ("ollama run llama3:8b", 4096),
        ("ollama run llama3:8b tell a story --verbose --keepalive 5m --think=high", 4096),
        ("OLLAMA_CONTEXT_LENGTH=8192 ollama run --nowordwrap llama3:8b", 8192),
        ("docker exec -e OLLAMA_CONTEXT_LENGTH=2048 -it ollama ollama run llama3:8b", 2048),
    ],
)
def test_a_command_names_its_model(capsys: pytest.CaptureFixture[str], command: str, tokens: int) -> None:
    """The words behind it are the prompt, and variables in front count."""
    assert run(["--get", "engine.num_ctx", "--", *command.split()]) == 0
    assert capsys.readouterr() == (f"{tokens}\n", "")


def test_a_server_needs_its_model_in_front(capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    """`ollama serve` names none."""
    assert refused("--", "ollama", "serve")[0].startswith("MODEL: expected a model")
    words = ["llama3-70b", "--get", "engine.streams", "--", "OLLAMA_NUM_PARALLEL=4", "ollama", "serve"]
    assert run(words) == 0
    assert capsys.readouterr().out == "4\n"


def test_some_models_run_alone(capsys: pytest.CaptureFixture[str], refused: Refused) -> None:
    """OLLAMA_NUM_PARALLEL is passed over, as Ollama does with a warning of its own; --batch is not."""
    words = ["qwen3.5-27b", "--get", "engine.num_parallel", "--", "OLLAMA_NUM_PARALLEL=4", "ollama", "serve"]
    assert run(words) == 0
    out, err = capsys.readouterr()
    assert out == "1\n"
    assert err.startswith("kvcalc: warning: OLLAMA_NUM_PARALLEL: Ollama runs qwen35 with one sequence at a time")
    assert run(["lfm2-2.6b", "--engine", "ollama", "--kv-memory", "1TB", "--get", "fit.max_batch"]) == 0
    assert capsys.readouterr().out == "1\n"
    assert refused("nemotron-h-8b", "--engine", "ollama", "--batch", "2")[0].startswith(
        "--batch: Ollama runs nemotron_h"
    )


def test_a_context_above_the_limit_is_lowered(capsys: pytest.CaptureFixture[str]) -> None:
    """As llm/server.go does: Llama 3 8B has 8,192 tokens."""
    words = ["llama3-8b", "--get", "engine.num_ctx", "--engine", "ollama", "--", "OLLAMA_CONTEXT_LENGTH=32768"]
    assert run(words) == 0
    out, err = capsys.readouterr()
    assert (out, err.split(": ")[1]) == ("8192\n", "warning")
    assert "lowers num_ctx from 32,768 to the model's limit of 8,192" in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("llama3-8b --engine ollama -- OLLAMA_KV_CACHE_TYPE=q6_K", "OLLAMA_KV_CACHE_TYPE: expected one of f32, f16"),
        ("llama3-8b --engine ollama -- OLLAMA_NUM_PARALLEL=many", "OLLAMA_NUM_PARALLEL: expected a whole number"),
        ("llama3-8b --batch 2 --engine ollama -- OLLAMA_NUM_PARALLEL=2", "--batch: the engine's own flags behind"),
        ("llama3-8b --engine ollama --k-dtype q8_0", "--k-dtype: Ollama has one type for keys and values"),
        ("llama3-8b --engine ollama -- OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION=0",
         "OLLAMA_KV_CACHE_TYPE: q8_0 needs flash attention"),
        ("llama3-8b --engine ollama --tp 2", "--tp: "),
        ("llama3-8b --engine ollama@0.12 -- OLLAMA_KV_CACHE_TYPE=q5_0 OLLAMA_FLASH_ATTENTION=1",
         "OLLAMA_KV_CACHE_TYPE: Ollama before 0.30 has no q5_0 cache"),
        ("llama3-8b --engine ollama@0.12 -- OLLAMA_KV_CACHE_TYPE=q8_0", "OLLAMA_KV_CACHE_TYPE: Ollama before 0.30 keeps q8_0"),
        ("deepseek-v3 --engine ollama@0.12", "ollama: how versions before 0.30 keep latent 512 + 64 is not known"),
        ("jamba-1.5-mini --engine ollama@0.12", "ollama: how versions before 0.30 keep"),
        ("command-r7b --engine ollama@0.12 --context 8k", None),
        ("laguna-s-2.1 --engine ollama@0.12", "ollama: how versions before 0.30 keep the windows of laguna is not known"),
    ],
)  # fmt: skip
def test_what_ollama_does_not_do_is_refused(refused: Refused, argv: str, says: str | None) -> None:
    """In one line that names the variable or the option."""
    if says is None:
        assert run([*argv.split(), "--quiet"]) == 0
    else:
        assert refused(*argv.split())[0].startswith(says)


@pytest.mark.parametrize(
    ("argv", "tokens"),
    [
        # server/routes.go: from 47 GiB on 262,144, from 23 GiB on 32,768, else 4,096, and never above the model's limit
        ("llama3.1-8b --vram 80GiB --engine ollama", 131072),
        ("llama3.1-8b --vram 47GiB --engine ollama", 131072),
        ("llama3.1-8b --vram 46GiB --engine ollama", 32768),
        ("llama3.1-8b --vram 23GiB --engine ollama", 32768),
        ("llama3.1-8b --vram 22GiB --engine ollama", 4096),
        ("llama3.1-8b --vram 24GiB --pp 2 --engine ollama", 131072),
        ("llama3.1-8b --gpu rtx4090 --engine ollama", 32768),
        ("llama3-8b --vram 80GiB -- ollama run llama3", 8192),
        ("llama3.1-8b --vram 80GiB --context 5000 --engine ollama", 5000),
        ("llama3.1-8b --vram 80GiB --engine ollama -- num_ctx=6000", 6000),
        ("llama3.1-8b --vram 80GiB --engine ollama@0.11", 4096),
        ("llama3.1-8b --engine ollama", 4096),
    ],
)
def test_the_default_context_goes_by_the_memory(capsys: pytest.CaptureFixture[str], argv: str, tokens: int) -> None:
    """Where --vram or --gpu says how much there is, all GPUs of the server count together."""
    front, _, behind = argv.partition(" -- ")
    run([*front.split(), "--get", "request.context", *(["--", *behind.split()] if behind else [])])
    assert int(capsys.readouterr().out) == tokens


def test_what_is_assumed_of_the_machine_stands_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """A script must be able to see that 4,096 tokens are a guess about the memory."""
    assert run(["llama3.1-8b", "--engine", "ollama", "--get", "engine.notes"]) == 0
    assert "num_ctx as Ollama has it below 23 GiB of VRAM" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "among"), [("deepseek-r1:8b", "deepseek-r1-distill-llama-8b"), ("mistral", "mistral-7b-v0.3")]
)
def test_the_family_of_a_name_comes_before_its_look_alikes(model: str, among: str, refused: Refused) -> None:
    """ministral is no mistral, and a size that was asked for is in the presets that are named."""
    assert among in refused("--", "ollama", "run", model)[1]
