"""Commands written for a plan's row: what they say, and that they are read back to the same plan."""

import json
import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.cli.main import run
from kvcalc.commands.start import Start
from kvcalc.core.sharding import Layout
from kvcalc.core.units import Fraction
from kvcalc.launch.registry import all_engines
from kvcalc.launch.write import commands_for

from ..examples import examples

LLAMA = Start("meta-llama/Meta-Llama-3-70B", 8192, 100, Layout(4, 1, 2), "fp8", utilization=Fraction(92, 100))

# By the engines' own help: vLLM 0.33 and SGLang 0.5.23 start all replicas, trtllm-serve and llama-server one.
COMMANDS = [
    (LLAMA, "vllm", 1,
     ("vllm serve meta-llama/Meta-Llama-3-70B --tensor-parallel-size 4 --data-parallel-size 2 --max-model-len 8192"
      " --max-num-seqs 100 --kv-cache-dtype fp8 --gpu-memory-utilization 0.92")),
    (LLAMA, "sglang", 1,
     ("python -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-70B --tp-size 4 --dp-size 2"
      " --context-length 8192 --max-running-requests 100 --kv-cache-dtype fp8_e4m3 --mem-fraction-static 0.92")),
    (LLAMA, "tensorrt-llm", 2,
     ("trtllm-serve meta-llama/Meta-Llama-3-70B --tp_size 4 --max_seq_len 8192 --max_batch_size 100"
      " --kv_cache_dtype fp8 --kv_cache_free_gpu_memory_fraction 0.92")),
    # 8,192 tokens for each of 8 sequences are 65,536
    (Start("Qwen/Qwen3-8B", 8192, 8, Layout(1, 4, 3), "q8_0", "q4_0"), "llama.cpp", 3,
     "llama-server -m Qwen3-8B-Q4_0.gguf -c 65536 -np 8 -ctk q8_0 -ctv q8_0 -ngl 999 -ts 1,1,1,1"),
    # builds in which -np 1 stood for the default of 4
    (Start("models/Qwen3-8B/", 4096, version="b7000"), "llama.cpp", 1,
     "llama-server -m Qwen3-8B-F16.gguf -c 4096 -np 1 -ngl 999 -kvu"),
    (Start("here/it is.gguf", 4096, 2, kv_dtype="fp32"), "llama.cpp", 1,
     "llama-server -m 'here/it is.gguf' -c 8192 -np 2 -ctk f32 -ctv f32 -ngl 999"),
    (Start("$(reboot); 'x'", 4096, weights="fp8"), "vllm", 1,
     """vllm serve '$(reboot); '"'"'x'"'"'' --max-model-len 4096 --max-num-seqs 1 --quantization fp8"""),
    (Start("deepseek-ai/DeepSeek-V3", 4096, 2, Layout(8, dcp=8), "fp8_ds_mla"), "vllm", 1,
     ("vllm serve deepseek-ai/DeepSeek-V3 --tensor-parallel-size 8 --decode-context-parallel-size 8"
      " --max-model-len 4096 --max-num-seqs 2 --kv-cache-dtype fp8_ds_mla")),
]  # fmt: skip


@pytest.mark.parametrize(("start", "engine", "servers", "line"), COMMANDS)
def test_commands(start: Start, engine: str, servers: int, line: str) -> None:
    """A plan's row can be pasted into a shell: the engine's own flags, and a hostile name stays one word."""
    written = commands_for(start)[engine]
    assert (shlex.join(written.words), written.servers, written.refused) == (line, servers, None)
    assert shlex.split(line) == list(written.words)


@pytest.mark.parametrize(
    ("start", "engine", "why"),
    [
        (LLAMA, "llama.cpp", "--tp: no rule for splitting the heads of a cache in llama.cpp is known"),
        (LLAMA._replace(kv_dtype="int8"), "vllm", "--kv-dtype: the command of vllm has no word for a 'int8' cache"),
        (LLAMA._replace(kv_dtype="nvfp4"), "sglang", "--kv-dtype: the command of sglang has no word for a 'nvfp4' cache"),
        (LLAMA._replace(layout=Layout(4, dcp=2)), "sglang", "--dcp: "),
        (LLAMA._replace(layout=Layout(4, dcp=2)), "tensorrt-llm", "--dcp: "),
        (LLAMA._replace(weights="int4"), "vllm", "--weights: vllm makes no 'int4' weights"),
        (LLAMA._replace(weights="fp8"), "tensorrt-llm", "--weights: tensorrt-llm makes no 'fp8' weights"),
        (LLAMA._replace(layout=Layout(), kv_dtype=None, weights="fp8"), "llama.cpp", "--weights: no GGUF file holds"),
        (Start("m", 1, 257), "llama.cpp", "--batch: llama.cpp has at most 256 sequences, got 257"),
        (Start("--trust-remote-code", 1), "vllm", "MODEL: "),
        (Start(" ", 1), "sglang", "MODEL: "),
    ],
)  # fmt: skip
def test_what_an_engine_cannot(start: Start, engine: str, why: str) -> None:
    """Where an engine cannot be started so, the row says why in a line, and shows no command that does something else."""
    written = commands_for(start)[engine]
    assert written.words == ()
    assert written.refused is not None
    assert written.refused.startswith(why)
    assert "\n" not in written.refused


def test_engines_with_a_command() -> None:
    """A plan lists the servers that people deploy, and each of their programs is one that kvcalc reads."""
    written = commands_for(Start("m", 4096))
    assert list(written) == ["llama.cpp", "sglang", "tensorrt-llm", "vllm"]
    programs = {engine.name: engine.flags.programs for engine in all_engines()}
    for name, each in written.items():
        assert any(set(program.split()) <= set(each.words) for program in programs[name])


FORMATS = {
    "vllm": (None, "bf16", "fp8", "fp8_e5m2", "nvfp4", "int8_per_token_head", "turboquant_k8v4"),
    "sglang": (None, "bf16", "fp8_e4m3", "fp8_e5m2"),
    "tensorrt-llm": (None, "fp8", "nvfp4"),
    "llama.cpp": (None, "bf16", "q8_0", "q4_0"),
}
# Plain heads, windows, latents, states, several kinds at once; by the hub ids that commands have.
MODELS = {
    "llama3-70b": "meta-llama/Meta-Llama-3-70B",
    "gemma3-27b": "google/gemma-3-27b-it",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "deepseek-v3": "deepseek-ai/DeepSeek-V3",
    "qwen3-next-80b": "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "mistral-7b-v0.1": "mistralai/Mistral-7B-v0.1",
}
EXPERTS = ("gpt-oss-20b", "deepseek-v3", "qwen3-next-80b")
SHARED = {
    "vllm": (Layout(4, ep=4), Layout(1, 1, 4, sharing=4), Layout(2, 1, 2, ep=4, sharing=2)),
    "sglang": (Layout(4, ep=2), Layout(1, 1, 4, sharing=4), Layout(2, 1, 2, ep=4, sharing=2)),
    "tensorrt-llm": (Layout(4, ep=2),),
}
PLAIN = ("llama3-70b", "gemma3-27b", "mistral-7b-v0.1")  # whose checkpoints have 16 bits, and known parameters
LAYOUTS = {
    "vllm": (Layout(), Layout(4), Layout(1, 4), Layout(2, 2, 3), Layout(8, dcp=8), Layout(1, 1, 2)),
    "sglang": (Layout(), Layout(4), Layout(1, 4), Layout(2, 2, 3), Layout(1, 1, 2)),
    "tensorrt-llm": (Layout(), Layout(4), Layout(1, 4), Layout(2, 2)),
    "llama.cpp": (Layout(), Layout(1, 4), Layout(1, 3)),
}  # several servers of the last two are asked of one by one


@pytest.mark.parametrize("engine", FORMATS)
@settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_read_back(engine: str, data: st.DataObject, capsys: pytest.CaptureFixture[str]) -> None:
    """`kvcalc --gpu ... -- COMMAND` with the words of a plan's row answers as the row's own options do."""
    model = data.draw(st.sampled_from(sorted(MODELS)))
    start = Start(
        MODELS[model],
        data.draw(st.sampled_from((1, 100, 4096, 8191, 131072))),
        data.draw(st.integers(1, 256)),
        data.draw(st.sampled_from(LAYOUTS[engine] + (SHARED.get(engine, ()) if model in EXPERTS else ()))),
        data.draw(st.sampled_from(FORMATS[engine])),
        data.draw(st.sampled_from((None, "fp8"))) if engine in ("vllm", "sglang") and model in PLAIN else None,
        None
        if engine == "llama.cpp"
        else data.draw(st.sampled_from((Fraction(92, 100), Fraction(1, 2), Fraction(8765, 10000)))),
        experts=model in EXPERTS,
    )
    written = commands_for(start)[engine]
    assert written.refused is None
    if written.servers > 1:  # replicas with experts, which vLLM would make share them
        assert (engine, model in EXPERTS, written.servers) == ("vllm", True, start.layout.dp)
        start = start._replace(layout=start.layout._replace(dp=1))
    gpus = ["--gpu", f"{start.layout.gpus}xh100", "--json"]
    front = [MODELS[model]] if engine == "llama.cpp" else []
    words = list(written.words)
    limits = {"vllm": "--max-num-seqs", "tensorrt-llm": "--max_batch_size", "sglang": "--max-running-requests"}
    limit = [] if engine not in limits else ["--max-num-seqs", words[words.index(limits[engine]) + 1]]
    front += ["--batch", str(start.sequences * start.layout.dp)] if limit else []
    command = _asked([*front, *gpus, "--", *words], capsys)
    options = {
        "context": start.context, "batch": start.sequences * start.layout.dp, "kv-dtype": start.kv_dtype,
        "weights": start.weights, "utilization": start.utilization, **start.layout.sizes,
    }  # fmt: skip
    said = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    said += ["--dp-attention"] * (start.layout.sharing > 1) + limit
    direct = _asked([model, "--engine", engine, *gpus, *said], capsys)
    assert command == direct


def _asked(argv: list[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """The question as it was understood, and its answer; what only depends on the way it was asked left out."""
    status = run(argv)
    out, err = capsys.readouterr()
    if status == 2:
        return status, err.partition("\n")[0].partition(": error: ")[2]
    tree = json.loads(out)
    for key in ("max_running_requests", "log_lines", "log"):  # SGLang runs what the flag allows, and else an estimate
        tree["engine"].pop(key, None)
    if tree["engine"]["name"] == "sglang":
        for key in ("max_batch", "binding", "fits"):
            tree["fit"].pop(key)
    tree["request"].pop("weights")  # what is in force stands in `fit`
    warnings = [each for each in tree["warnings"] if not each.startswith(("weights ", "the batch is the most"))]
    return tree["request"], tree["kv"], tree["engine"], tree["fit"], warnings


@pytest.mark.parametrize(
    ("argv", "key", "value"),
    [
        # the most at once, for each of the replicas; --batch in front says another
        ("-- vllm serve google/gemma-3-27b-it --max-num-seqs 7 -dp 3", "request.batch", "21"),
        ("--batch 5 -- vllm serve google/gemma-3-27b-it --max-num-seqs 7", "request.batch", "5"),
        ("--dp 2 -- trtllm-serve openai/gpt-oss-20b --max_batch_size 6", "request.batch", "12"),
        ("-- sglang serve --model-path openai/gpt-oss-20b --max-running-requests 9", "request.batch", "9"),
        # a command that says how many stages there are has no tensor parallelism by --gpu
        ("--gpu 4xh100 -- vllm serve openai/gpt-oss-20b -pp 4", "request.tp", "1"),
        ("--gpu 4xh100 -- vllm serve openai/gpt-oss-20b", "request.tp", "4"),
        # 36 layers and the output on 4 equal devices, 37 / 4 = 9.25: layers 0 to 9 are on the first, and each takes
        # 2 x 8 heads x 128 x 2 B x 4,096 cells = 16,777,216 B
        ("qwen3-8b -- llama-server -c 4096 -np 1 -ts 1,1,1,1", "engine.reserved_bytes_per_gpu", "167772160"),
        ("qwen3-8b -- llama-server -c 4096 -np 1 -ts 1/1 -sm layer", "request.pp", "2"),
        ("qwen3-8b -- llama-server -c 4096 -np 1 -ts 3,1", "request.pp", "1"),
        ("qwen3-8b -- llama-server -c 4096 -np 1 -ts 1,1 -sm row", "request.pp", "1"),
        ("qwen3-8b -- llama-server -c 4096 -np 1 -ts 0,0", "request.pp", "1"),
        # argparse takes the beginning of a name where no other begins so
        ("-- vllm serve openai/gpt-oss-20b --tensor-par 4 --max_model=5000", "request.tp", "4"),
        ("-- vllm serve openai/gpt-oss-20b --tensor-par 4 --max_model=5000", "request.context", "5000"),
        ("-- sglang serve --model-p openai/gpt-oss-20b --context-l 5000", "request.context", "5000"),
        ("-- vllm serve openai/gpt-oss-20b --max-num 4", "request.batch", "1"),  # of seqs, of batched tokens
        # 8.19B parameters in 8 bits; a checkpoint that is packed already stays as it is
        ("--gpu h100 -- vllm serve Qwen/Qwen3-8B -q fp8", "fit.weights_bytes_per_gpu", "8190000000"),
        ("--gpu h100 --weights bf16 -- vllm serve Qwen/Qwen3-8B -q fp8", "fit.weights_bytes_per_gpu", "16380000000"),
    ],
)
def test_what_the_reader_takes_into_account(
    argv: str, key: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a command says of its sequences, devices and weights counts, where no option in front says another."""
    command = shlex.split(argv)
    at = command.index("--")
    run([*command[:at], "--get", key, *command[at:]])
    assert capsys.readouterr().out == f"{value}\n"


def test_a_batch_that_is_only_the_most(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the most sequences do not all fit, a warning says that the server starts nevertheless."""
    command = shlex.split("--gpu h100 --json -- vllm serve Qwen/Qwen3-8B --max-num-seqs 256")
    assert run(command) == 1
    assert json.loads(capsys.readouterr().out)["warnings"] == [
        "the batch is the most that the command allows at once: it starts, and fewer or shorter sequences may fit"
    ]
    assert run(["--batch", "256", *command]) == 1
    assert json.loads(capsys.readouterr().out)["warnings"] == []
