"""Launch commands: start-up lines of real deployments, typed behind -- or pasted as text, and never run."""

import io
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kvcalc
from kvcalc.cli.main import run
from kvcalc.commands.budget import Budget
from kvcalc.commands.manifests import read as read_text
from kvcalc.commands.shell import Command
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.engines.base import reserve
from kvcalc.engines.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import Launch, launch
from kvcalc.launch.programs import EngineProgram, programs_in
from kvcalc.launch.registry import all_engines

from .launch_lines import COMMANDS, TEXTS, Line

Refused = Callable[..., tuple[str, str]]


def pasted(text: str, *words: str, engine: str | None = None) -> Launch:
    """The command in a text on standard input; `words` are assignments and the name of one command."""
    front = [one for one in words if "=" in one]
    return launch(engine, [*front, "-", *(one for one in words if "=" not in one)], text.encode)


def check(line: Line, started: Launch) -> None:
    """The command is found, its model is named, and its settings reach the engine."""
    assert (started.program, started.named) == (line.program, line.model)
    assert [warning[: len(start)] for warning, start in zip(started.warnings, line.warns, strict=True)] == [*line.warns]
    model = kvcalc.load(line.front or str(started.model))
    stated = started.engine.options_of(started.program, started.read, model)
    request = ask(model, **stated.options)  # type: ignore[arg-type]  # what an engine states
    question = Question(request, measure(request).placement, started.version, stated.settings)
    values = reserve(started.engine, question).allocation.values
    assert {key: values[key] for key in line.values} == line.values


@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: f"{line.seen}: {line.text[:40]}")
def test_commands_of_real_deployments(line: Line) -> None:
    """As words that a shell has split, and as text: the same, with all that stands around the program."""
    check(line, pasted(line.text))
    words = shlex.split(line.text)
    if not any(operator in words for operator in (">", "&", "<")):  # a shell keeps those for itself
        check(line, launch(line.engine, words))
        check(line, launch(line.engine, [line.text]))  # all of it in quotes


@pytest.mark.parametrize("line", TEXTS, ids=lambda line: f"{line.seen}: {line.text.strip()[:40]}")
def test_texts_of_real_deployments(line: Line) -> None:
    """Units, compose files, manifests and scripts as their owners have them."""
    check(line, pasted(line.text, *line.chosen, engine=line.engine))


ENGINES = all_engines()

# (text, program, the first words behind it, version)
OTHERS = [
    # repositories and issues of 2024 to 2026, made short
    ("CUDA_VISIBLE_DEVICES=0,1 uv run vllm serve Qwen/Qwen3.6-27B --port 8000 --tensor-parallel-size 4",
     "vllm serve", ("Qwen/Qwen3.6-27B", "--port"), None),
    ("nohup uv run vllm serve mistralai/Mistral-7B-Instruct-v0.3 --dtype bfloat16 > m.log 2>&1 &",
     "vllm serve", ("mistralai/Mistral-7B-Instruct-v0.3", "--dtype"), None),
    ("MODEL=deepseek-ai/DeepSeek-R1-Distill-Qwen-32B\nsrun vllm serve $MODEL \\\n  --tensor-parallel-size 4",
     "vllm serve", ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "--tensor-parallel-size"), None),
    ("docker run --gpus all vllm/vllm-openai \\\n  --model Qwen/Qwen2.5-14B-Instruct-AWQ --gpu-memory-utilization 0.30",
     "vllm serve", ("--model", "Qwen/Qwen2.5-14B-Instruct-AWQ"), None),
    ("docker run --gpus all --rm vllm/vllm-openai:v0.4.0 --model meta-llama/Llama-3-70B", "vllm serve", ("--model",), "v0.4.0"),
    ("conda run --no-capture-output -n serve python -m vllm.entrypoints.openai.api_server --model x",
     "vllm.entrypoints.openai.api_server", ("--model", "x"), None),
    ('VLLM_ARGS=(\n  --model "$NAME"\n  --tensor-parallel-size 4\n)\nvllm serve "${VLLM_ARGS[@]}" >> v.log 2>&1 &',
     "vllm serve", ("--model", "$NAME", "--tensor-parallel-size"), None),
    ("services:\n  vllm:\n    image: vllm/vllm-openai:latest\n    command: >\n      --model meta-llama/Meta-Llama-3.1-8B-Instruct\n      --enable-lora\n",
     "vllm serve", ("--model", "meta-llama/Meta-Llama-3.1-8B-Instruct", "--enable-lora"), None),
    ('containers:\n- name: vllm\n  image: vllm/vllm-openai:v0.6.6\n  args:\n  - "--model"\n  - "/models/V4"\n  - "--max-num-seqs"\n  - "64"  # most\n',
     "vllm serve", ("--model", "/models/V4", "--max-num-seqs", "64"), "v0.6.6"),
    ('containers:\n- name: vllm\n  image: vllm/vllm-openai:nightly\n  command: [python3, -m, vllm.entrypoints.openai.api_server]\n  args: ["--model=a/b"]\n',
     "vllm.entrypoints.openai.api_server", ("--model=a/b",), None),
    ('containers:\n- image: vllm/vllm-openai:latest\n  command: ["/bin/sh", "-c"]\n  args: [\n    "vllm serve meta-llama/Llama-3.2-1B-Instruct"\n  ]\n',
     "vllm serve", ("meta-llama/Llama-3.2-1B-Instruct",), None),
    ('podTemplate:\n  spec:\n    containers:\n    - image: vllm/vllm-openai:v0.26.0\n      args:\n      - $(FUSION_MODEL_PATH)\n      - --tensor-parallel-size\n      - "8"\n',
     "vllm serve", ("$(FUSION_MODEL_PATH)", "--tensor-parallel-size", "8"), "v0.26.0"),
    ('docker run --gpus all --shm-size 32g --env "HF_TOKEN=x" --ipc=host lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path a/b --tp 8',
     "sglang.launch_server", ("--model-path", "a/b", "--tp", "8"), None),
    ("exec python3 -m sglang.launch_server \\\n  --model-path /m/Qwen3-235B-A22B-FP8 \\\n  --tp 8 --dp 8 --enable-dp-attention 2>&1 | tee s.log &",
     "sglang.launch_server", ("--model-path", "/m/Qwen3-235B-A22B-FP8", "--tp", "8", "--dp", "8", "--enable-dp-attention"), None),
    ("trtllm-serve qat_model_mxfp4/ \\\n  --max_seq_len 128000 --tp_size 4", "trtllm-serve", ("qat_model_mxfp4/", "--max_seq_len"), None),
    ("trtllm-llmapi-launch trtllm-serve /m/x --config serving.yaml", "trtllm-serve", ("/m/x", "--config"), None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "program", "words", "version"), OTHERS, ids=lambda value: str(value)[:40])
def test_other_engines_are_found_alike(text: str, program: str, words: tuple[str, ...], version: str | None) -> None:
    """What stands around a program is no engine's own business."""
    _, commands = read_text(text.encode(), "<stdin>", {}, Budget("<stdin>"))
    found = [one for command in commands for one in programs_in(command, ENGINES, Budget("--"), strict=True)]
    assert [(one.program, one.words[: len(words)], one.version) for one in found] == [(program, words, version)]


# What starts no engine, though it names one: from the same repositories.
NAMED_ONLY = (
    "sudo cp build/bin/llama-server /usr/local/bin/",
    "sudo setcap 'cap_net_bind_service=+ep' /usr/local/bin/llama-server",
    'pkill -f "ollama serve" >/dev/null 2>&1 || true',
    "sudo pkill -f 'ollama serve'",
    'echo "run: llama-server -m model.gguf"',
    "docker rm -f llama-server",
    "docker pull ollama/ollama",
    "docker build -t local/llama.cpp:server-cuda .",
    "docker run -d --name llama-server nginx",
    "systemctl --user enable --now llama-server",
    "command -v llama-server >/dev/null || exit 1",
    "ollama pull llama3",
    "# llama-server -m model.gguf",
    "cat <<EOF\nllama-server -m model.gguf\nEOF",
    "curl -d '{\"prompt\": \"vllm serve x\"}' localhost",
    "env LLAMA_ARG_CTX_SIZE=44000 ./start-server.sh model.gguf",
)  # fmt: skip


@pytest.mark.parametrize("text", NAMED_ONLY)
def test_a_text_that_only_names_an_engine_starts_none(text: str) -> None:
    """A script has many words, and an answer about the wrong ones would be worse than none."""
    with pytest.raises(KvcalcError, match=r"^<stdin>: no command of an engine is found in this script$"):
        pasted(text)


BRANCHES = """
if [ "$MODEL" = "venice" ]; then
    CTX_SIZE=8192
else
    CTX_SIZE=4096
fi
exec llama-server --model m.gguf --ctx-size ${CTX_SIZE}
"""
ADDED = 'ARGS=(-c 4096)\nif gpu; then\n  ARGS+=(-np 4)\nfi\nllama-server -m m.gguf "${ARGS[@]}"\n'
ELSEWHERE = "containers:\n- image: ollama/ollama\n  env:\n  - name: OLLAMA_NUM_PARALLEL\n    valueFrom: {configMapKeyRef: {name: a, key: b}}\n"

# (text, the line, what the hint must hold)
REFUSED = [
    (BRANCHES, "--ctx-size: $CTX_SIZE has several values in this text", "-- CTX_SIZE=VALUE ..."),
    (ADDED, "--: $ARGS has several values in this text", "-- ARGS=VALUE ..."),
    (ELSEWHERE, "OLLAMA_NUM_PARALLEL: ${OLLAMA_NUM_PARALLEL} has no value here", "-- OLLAMA_NUM_PARALLEL=VALUE ..."),
    ("llama-server -m m.gguf -c $CTX", "-c: $CTX has no value here", "-- CTX=VALUE ..."),
    ("llama-server.exe -m m.gguf -c %CTX%", "-c: %CTX% has no value here", "-- CTX=VALUE ..."),
    ("main() {\n  llama-server -m m.gguf -np $1\n}", "-np: $1 has no value here", "in its place"),
    ("llama-server -m m.gguf -ub $(nproc)", "-ub: $(nproc) is not run here", "in its place"),
    ("services: {a: {image: llama.cpp:server, command: '-c ${N}'}}", "-c: ${N} has no value here", "-- N=VALUE ..."),
    ("spec:\n  containers:\n  - image: llama.cpp:server\n    args: [-c, $(N)]", "-c: $(N) has no value here", "-- N=VALUE ..."),
    # issue: a fork's type; a quantised V without flash attention comes later, from the engine
    ("llama-server -m m.gguf -np 1 -c 1024 -ctk q8_0 -ctv turbo4 -fa on", "-ctv: expected one of f32, f16", ""),
    ("llama-server -m m.gguf -ctk $KV", "-ctk: $KV has no value here", "-- KV=VALUE ..."),
    ("ollama serve & ollama run llama3.1:8b & ollama run llama3.2:3b", "<stdin>: expected one command of an engine, got ollama serve (line 1), ollama run (line 1)", "leave the others out"),
    ("", "<stdin>: no command of an engine is found in this script", "such as llama-server"),
    ("[Service]\nEnvironment=A=1\n", "<stdin>: no command of an engine is found in this unit", "--engine NAME"),
    ("echo it's\nllama-server", "<stdin>: line 1: a quote is opened and not closed", ""),
    ("[Service]\nExecStart=/bin/llama-server -m 'x\n", "<stdin>:2: a quote is opened and not closed", ""),
    ("services:\n  a:\n    command: -m 'x\n", "<stdin>: a: a quote is opened and not closed", ""),
    ("services: [b\n", "<stdin>:2: ", ""),
    ("services:\n  a:\n    image: {{ .Values.image }}\n", "<stdin>: ", "helm template"),
    ("services:\n  a: {image: x}\n  a: {image: y}\n", "<stdin>:3: ", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says", "way_out"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_a_text_leaves_open_is_refused(text: str, says: str, way_out: str) -> None:
    """A flag that changes the cache must have a value: one line that names the flag, the variable and the way out."""
    with pytest.raises(KvcalcError) as error:
        pasted(text)
    assert error.value.message.startswith(says)
    assert way_out in (error.value.hint or "")


@pytest.mark.parametrize(
    ("text", "front", "values"),
    [
        (BRANCHES, "CTX_SIZE=8192", {"model": "m.gguf", "n_ctx": 8192}),
        (ADDED, "ARGS=-c 4096 -np 2", {"model": "m.gguf", "n_ctx": 4096, "n_parallel": 2}),
        (ELSEWHERE, "OLLAMA_NUM_PARALLEL=3", {"num_parallel": 3}),
        ("llama-server -m m.gguf -c %CTX%", "CTX=5", {"model": "m.gguf", "n_ctx": 5}),
        ("spec:\n  containers:\n  - image: llama.cpp:server\n    args: [-c, $(N)]", "N=5", {"n_ctx": 5}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_value_may_be_given_in_front(text: str, front: str, values: dict[str, object]) -> None:
    """As the hint says; what is given counts more than what the text says."""
    assert pasted(text, front).read.values == values


def test_a_flag_that_cannot_change_the_cache_may_be_left_open() -> None:
    """Ports and threads come from elsewhere in every script."""
    started = pasted('llama-server -m m.gguf -c 512 --port "$PORT" -t $(nproc) --api-key ${KEY:?needed}')
    assert (started.read.values, started.warnings) == ({"model": "m.gguf", "n_ctx": 512}, ())


@pytest.mark.parametrize(
    ("text", "what"),
    [("services: {a: {image: ollama/ollama, env_file: .env}}", "env_file"),
     ("[Service]\nEnvironmentFile=-/etc/default/ollama\nExecStart=/usr/bin/ollama serve\n", "EnvironmentFile"),
     ("containers:\n- image: ollama/ollama\n  envFrom: [{configMapRef: {name: a}}]\n", "envFrom")],
)  # fmt: skip
def test_files_of_variables_are_named(text: str, what: str) -> None:
    """They may set what nobody has looked at."""
    assert pasted(text).warnings == (f"{what} is not read here, and what it may set was not looked at",)


def answered(monkeypatch: pytest.MonkeyPatch, text: str | bytes, *argv: str) -> int:
    """The exit status with a text on standard input."""
    content = text.encode() if isinstance(text, str) else text
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    return run([*argv])


TWO = """
services:
  chat: {image: "ghcr.io/ggml-org/llama.cpp:server", command: "-m /models/Qwen3-8B-Q4_K_M.gguf -c 8192 -np 1"}
  embed: {image: "ghcr.io/ggml-org/llama.cpp:server", command: "-m /models/e.gguf --embedding -c 2048 -np 1"}
"""


def test_the_whole_way_of_a_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], refused: Refused
) -> None:
    """Refused with a choice, then with a model's name, and the hints work as they are typed.

    Qwen3 8B takes 147,456 B a token.
    """
    assert answered(monkeypatch, TWO, "--", "-") == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.endswith("<stdin>: expected one command of an engine, got llama-server (chat), llama-server (embed)")
    assert hint == "  hint: name one of them: -- - chat"
    assert answered(monkeypatch, TWO, "--", "-", "chat") == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error == "kvcalc: error: /models/Qwen3-8B-Q4_K_M.gguf: no such file"
    assert hint == "  hint: give the model in front: kvcalc qwen3-8b -- - chat"
    assert answered(monkeypatch, TWO, "-q", "--get", "kv.bytes_total", *hint.split()[-4:]) == 2  # contradict each other
    capsys.readouterr()
    assert answered(monkeypatch, TWO, "--get", "engine.reserved_bytes_total", *hint.split()[-4:]) == 0
    assert capsys.readouterr() == (f"{147456 * 8192}\n", "")
    assert refused("-", "--", "-")[0] == "-: standard input cannot be the model and the command"
    assert answered(monkeypatch, TWO, "--", "-", "chat", "embed") == 2
    assert answered(monkeypatch, b"GGUF\3", "--", "-") == 2
    assert "expected a start-up command, or a file with one, got a GGUF file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "says", "way_out"),
    [
        ("llama-server -m /models/foo.gguf", "/models/foo.gguf: no such file", "kvcalc MODEL -- llama-server ..."),
        ("llama-server -m /m/Meta-Llama-3-8B-Instruct.Q4_K_M.gguf", "/m/Meta-Llama", "kvcalc llama3-8b -- llama-server ..."),
        ("docker run llama.cpp:server -m /m/gpt-oss-20b-MXFP4.gguf", "/m/gpt-oss", "kvcalc gpt-oss-20b -- llama-server ..."),
        ("mlx_lm.chat --model /m/Qwen3-30B-A3B-4bit", "/m/Qwen3", "kvcalc qwen3-30b-a3b -- mlx_lm.chat ..."),
        ("llama-server -c 512", "MODEL: expected a model, and the command names none", "kvcalc MODEL -- llama-server ..."),
        ("llama-server -m $M -c 512", "MODEL: $M has no value here", "kvcalc MODEL -- llama-server ..."),
        ("llama-server -hf unsloth/Qwen3-8B-Instruct-GGUF", "unsloth/Qwen3-8B-Instruct-GGUF: ", "kvcalc qwen3-8b -- llama-server ..."),
        ("ollama run nosuch:7b", "ollama: 'nosuch:7b'", "kvcalc MODEL -- ollama ..."),
    ],
)  # fmt: skip
def test_a_model_that_is_elsewhere_must_be_given_in_front(
    refused: Refused, command: str, says: str, way_out: str
) -> None:
    """Deployments name paths of their own machines; the preset that the name speaks of is offered, and not taken."""
    message, hint = refused("--", *command.split())
    assert message.startswith(says)
    assert hint.endswith(way_out)
    assert "no such file" not in message or hint == f"  hint: give the model in front: {way_out}"


def test_a_faulty_model_that_is_here_says_its_own_fault(refused: Refused, tmp_path: Path) -> None:
    """Another model would be no way out."""
    (tmp_path / "x.gguf").write_bytes(b"GGUF\3\0")
    message, hint = refused("--", "llama-server", "-m", str(tmp_path / "x.gguf"))
    assert ("x.gguf: " in message, "in front" in hint) == (True, False)


def test_flags_alone_need_a_model_and_their_engine(refused: Refused) -> None:
    """The hint repeats the engine, without which flags say nothing."""
    _, hint = refused("--engine", "llama.cpp", "--", "-c", "512", "-m", "/m/Qwen3-8B.gguf")
    assert hint == "  hint: give the model in front: kvcalc qwen3-8b --engine llama.cpp -- ..."


def test_options_of_kvcalc_behind_the_dashes_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`--vram` is no flag of llama-server's, and a fit that was asked for would be missed."""
    assert run(["qwen3-8b", "-q", "--", "llama-server", "-c", "512", "--vram", "24GB"]) == 0
    assert "kvcalc: warning: --vram: options of kvcalc stand in front of --\n" in capsys.readouterr().err


def test_model_in_front_wins(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the command names."""
    for model in ("/models/foo.gguf", "$M"):
        assert run(["qwen3-0.6b", "--get", "model.name", "--", "llama-server", "-m", model]) == 0
    assert capsys.readouterr().out.splitlines() == ["Qwen3 0.6B"] * 2


# A fit beside the weights of the published checkpoint, while something else is run.
WEIGHTS = [
    ("llama3-8b", "", "llama-server -m /m/x-Q4_K_M.gguf -c 512", "a Q4_K_M file"),
    ("llama3-8b", "", "llama-server -hf org/x:UD-Q3_K_XL -c 512", "a UD-Q3_K_XL file"),
    ("llama3-8b", "", "llama-server -hf org/x --hf-file x.i1-IQ4_XS.gguf -c 512", "a IQ4_XS file"),
    ("llama3-8b", "", "llama-server -c 512", "a GGUF file"),
    ("llama3-8b", "", "llama-server -m x-BF16.gguf -c 512", None),
    ("llama3-8b", "--weights 4.9GB", "llama-server -m /m/x-Q4_K_M.gguf -c 512", None),
    ("llama3-8b", "--weights none", "llama-server -m /m/x-Q4_K_M.gguf -c 512", None),
    ("", "", "ollama run llama3:8b", "a GGUF file"),
    ("", "", "ollama run llama3:8b-instruct-q4_K_M", "a Q4_K_M file"),
    ("", "", "ollama run llama3:8b-instruct-fp16", None),
    ("llama3-8b", "", "ollama serve", "a GGUF file"),
    ("llama3-8b", "", "mlx_lm.server --model mlx-community/Meta-Llama-3-8B-Instruct-4bit", "4-bit weights"),
    ("llama3-8b", "", "mlx_lm.server --model mlx-community/gpt-oss-20b-mxfp4", "mxfp4 weights"),
    ("llama3-8b", "", "mlx_lm.server --model meta-llama/Meta-Llama-3-8B-Instruct", None),
    ("gpt-oss-20b", "", "mlx_lm.server --model mlx-community/gpt-oss-20b-MXFP4-Q8", None),  # packed as published
]  # fmt: skip


@pytest.mark.parametrize(("model", "option", "command", "runs"), WEIGHTS)
def test_weights_that_are_not_the_published_ones_are_named(
    capsys: pytest.CaptureFixture[str], model: str, option: str, command: str, runs: str | None
) -> None:
    """8.03 billion parameters of 16 bits are no file of four bits: a fit that counts them says so, and the way out."""
    words = [*model.split(), "--vram", "80GB", *option.split(), "--get", "fit.fits", "--", *command.split()]
    assert run(words) == 0
    out, err = capsys.readouterr()
    assert out == "true\n"
    expected = f"kvcalc: warning: weights counted as 8.03B parameters x 16 bits (bf16), while what runs is {runs}: --weights SIZE takes its size\n"
    assert err == expected or (runs is None and "while what runs" not in err)


def test_without_a_budget_weights_are_no_matter(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither are they where the cache has memory of its own."""
    assert run(["llama3-8b", "-q", "--", "llama-server", "-m", "x-Q4_K_M.gguf", "-c", "512"]) == 0
    assert run(["llama3-8b", "-q", "--kv-memory", "1GB", "--", "llama-server", "-m", "x-Q4_K_M.gguf", "-c", "512"]) == 0
    assert capsys.readouterr().err == ""


VERSIONS = [
    ("ghcr.io/ggml-org/llama.cpp:server-cuda-b7000", "b7000"),
    ("ghcr.io/ggml-org/llama.cpp:server-cuda13", None),
    ("ghcr.io/ggml-org/llama.cpp:server", None),
    ("mirror.example:5000/hub/ggml-org/llama.cpp:server-b9000@sha256:00ff", "b9000"),
    ("llama.cpp:server-1.2.3", None),  # no build
]  # fmt: skip


@pytest.mark.parametrize(("image", "version"), VERSIONS)
def test_a_tag_may_name_the_version(image: str, version: str | None) -> None:
    """Where nothing else is asked for."""
    words = ["docker", "run", image, "-c", "512"]
    assert launch(None, words).version_asked == version
    assert launch("llama.cpp@b6000", words).version_asked == "b6000"


@pytest.mark.parametrize(
    "image", ["llama.cpp", "llama.cpp:servers", "myllama.cpp:server", "ollama/ollama-x", "notollama/ollama", "ollama"]
)
def test_other_images_are_not_taken_for_an_engine_s(image: str) -> None:
    """A name must be the whole of its part of a path."""
    assert [*programs_in(Command((), {}, "", image), ENGINES, Budget("--"), strict=True)] == []


def test_flags_alone_are_not_searched_for_programs() -> None:
    """`-a llama-server` is an alias, and `-c` in front of it still counts."""
    started = launch("llama.cpp", ["-c", "4096", "-a", "llama-server"])
    assert (started.program, started.read.values) == ("", {"n_ctx": 4096})


def test_abbreviations_are_argparse_s() -> None:
    """MLX-LM takes the beginning of a name, if it is one name's only; llama.cpp does not."""
    assert launch(None, ["mlx_lm.generate", "--max-tok", "5"]).read.values == {"max_tokens": 5}
    assert launch(None, ["mlx_lm.generate", "--max", "5"]).warnings != ()
    assert launch(None, ["llama-server", "--ctx-si", "5"]).warnings != ()


def test_nothing_is_run_or_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Commands, substitutions, redirections and here-documents of a text leave nothing behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.system", lambda _: pytest.fail("run"))
    text = "touch a; $(touch b) > c; `touch d`\ncat > e <<X\n$(touch f)\nX\nllama-server -m m.gguf -t $(touch g) > h\n"
    assert pasted(text).read.values == {"model": "m.gguf"}
    assert [*tmp_path.iterdir()] == []


DOUBLING = "A=xxxxxxxxxx\n" + "A=$A$A\n" * 60 + "llama-server -m $A -c $A\n"
LAUGHS = "a: &a {command: x}\n" + "".join(
    f"{b}: &{b} {{" + ", ".join(f"k{i}: *{a}" for i in range(9)) + "}\n"
    for a, b in zip("abcdefghij", "bcdefghijk", strict=True)
)
MERGES = "a: &a {" + ", ".join(f"k{i}: 1" for i in range(20_000)) + "}\nb:\n" + "- <<: *a\n" * 20_000

HOSTILE = {
    "binary": bytes(range(256)) * 20,
    "NUL": b"llama-server\0 -m x",
    "UTF-16": "llama-server -m x".encode("utf-16"),
    "above 1 MiB": b"llama-server -m x " + b"#" * 2**20,
    "long script": b"llama-server -m x\n" + b": x\n" * 100_000,
    "open quotes": b'"' + b"$()" * 50_000,
    "deep substitutions": b"$(" * 100_000,
    "deep defaults": b"${A:-" * 50_000,
    "deep quotes": ("bash -c '" * 30 + "llama-server -m x").encode(),
    "backslashes": b"\\" * 200_000,
    "percent": b"a%" * 100_000,
    "arrays": b"A=(" * 80_000,
    "here-documents": b"<<a " * 60_000,
    "exports": b"".join(b"export A%d=1\nsudo x\n" % i for i in range(8_000)),
    "many commands": b"".join(b"ollama serve %d\n" % i for i in range(12_000)),
    "doubling variables": DOUBLING.encode(),
    "many of a long variable": b"A=" + b"x" * 9_000 + b"\n" + b"echo $A\n" * 25_000,
    "shells in shells": ("bash -c " + shlex.quote("bash -c " + shlex.quote("sudo " * 3_000)) + "\n").encode() * 5,
    "docker run docker run": b"docker run " * 20_000,
    "YAML deep": b"services: " + b"[" * 5_000,
    "YAML laughs": LAUGHS.encode(),
    "YAML merges": MERGES.encode(),
    "YAML merges a text": b"a: {<<: text}\n",
    "YAML tag": b"services: !!python/object/apply:os.system [ls]\n",
    "YAML in itself": b"services: &a {b: *a, command: [x]}\n",
    "YAML names": b'services: {"\\e[31m": {image: llama.cpp:server, command: -c $X}}\n',
    "unit": b"[Service]\n" + b"ExecStart=\\\n" * 50_000,
    "control characters": b"llama-server -c \x1b]0;title\x07\n",
    "control characters in a name": b"llama-server -m x -c $\x1b[2J\n",
    "right to left": "llama-server -c \u202e4096\n".encode(),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_hostile_texts_end_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """Whatever is pasted: exit status 2, one line and perhaps a hint, without control characters, and soon."""
    assert answered(monkeypatch, content, "--", "-") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert 1 <= len(err.splitlines()) <= 2
    assert len(err) < 4_000
    assert err.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "words", [["-"] * 3, ["- "], ["\x1b[2J"], ["a" * 100_000], ["bash", "-c", "'" * 9_999], ["docker", "run"] * 5_000,
              ["env", "X=" + "y" * 100_000], ["a b"] * 5_000, ["-c", "llama-server"]],
    ids=lambda words: str(words)[:20],
)  # fmt: skip
def test_hostile_words_end_in_one_line(monkeypatch: pytest.MonkeyPatch, refused: Refused, words: list[str]) -> None:
    """The same behind --."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    message, _ = refused("--", *words)
    assert len(message) < 400


def test_a_started_command_knows_its_engine() -> None:
    """The same words, found behind words that run others and in front of words of their own."""
    found = [
        *programs_in(
            Command(("sudo", "-u", "x", "A=1", "vllm", "serve", "m", "-q")), ENGINES, Budget("--"), strict=True
        )
    ]
    vllm = next(engine for engine in ENGINES if engine.name == "vllm")
    expected = EngineProgram(vllm, "vllm serve", ("m", "-q"), {"A": "1"})
    assert found == [expected]


@pytest.mark.parametrize(
    ("engine", "command", "named"),
    [
        ("ollama", "llama-server -c 32768", "ollama contradicts --, where llama-server starts llama.cpp"),
        ("mlx", "ollama run llama3:8b", "mlx contradicts --, where ollama run starts ollama"),
        ("llama.cpp", "docker run x vllm serve a/b", "llama.cpp contradicts --, where vllm serve starts vllm"),
    ],
)
def test_an_engine_and_another_ones_command_contradict(engine: str, command: str, named: str) -> None:
    """The flags of one engine mean nothing to another, and its default size would pass for the command's."""
    with pytest.raises(KvcalcError, match=rf"^--engine: {re.escape(named)}$"):
        launch(engine, command.split())
    with pytest.raises(KvcalcError, match="contradicts <stdin>"):
        pasted(command, engine=engine)
