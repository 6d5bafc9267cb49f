"""llama.cpp: what a command line comes to, and what is refused in one line."""

from collections.abc import Callable

import pytest

import kvcalc
from kvcalc.cli.main import run
from kvcalc.engines.llama_cpp.engine import ENGINE
from kvcalc.errors import KvcalcError
from kvcalc.launch.command import launch

from .llama_cpp_asked import model_with, question_of, reserved

PLAIN = {"layers": "1 full", "max_context": 32768}


# (command, build, context of one sequence, sequences, unified); the model's limit is 32,768 tokens.
ASKED = [
    # server.cpp: n_parallel -1 means 4 slots that share everything, whatever -kvu says.
    ("llama-server -c 16384", "", 4096, 4, True),
    ("llama-server -c 16384 -np -1 --no-kv-unified", "", 4096, 4, True),
    ("llama-server -c 16384 -np 4", "", 4096, 4, False),
    ("llama-server -c 16384 --parallel 4 --kv-unified", "", 4096, 4, True),
    ("llama-server -c 16384 -np 1", "", 16384, 1, False),
    ("llama-server --ctx_size 16384 --parallel 2", "", 8192, 2, False),
    ("LLAMA_ARG_CTX_SIZE=16384 LLAMA_ARG_N_PARALLEL=2 LLAMA_ARG_KV_UNIFIED=1 llama-server", "", 8192, 2, True),
    ("LLAMA_ARG_KV_UNIFIED=1 LLAMA_ARG_NO_KV_UNIFIED=1 llama-server -c 16384 -np 2", "", 8192, 2, False),
    ("docker run --gpus all -v models:/m ghcr.io/ggml-org/llama.cpp:server -c 16384 -np 2", "", 8192, 2, False),
    ("llama serve -c 16384", "", 4096, 4, True),
    # Before November 2025 there was one slot, and then -np 1 was taken for the default for a while.
    ("llama-server -c 16384", "b6500", 16384, 1, False),
    ("llama-server -c 16384 -np 1", "b7000", 4096, 4, True),
    ("llama-server -c 16384 -np 1", "b7500", 16384, 1, False),
    ("llama-server -c 16384 -np 4", "b5000", 4096, 4, False),
    # llama-cli has one sequence.
    ("llama-cli -c 16384", "", 16384, 1, False),
    # -c 0 and no -c are the limit of the model, for each stream as long as --fit is on.
    ("llama-server", "", 8192, 4, True),
    ("llama-server -np 2", "", 32768, 2, False),
    ("llama-server -np 2 -c 0", "", 32768, 2, False),
    ("llama-server -np 2 -c 0 --fit off", "", 16384, 2, False),
    ("llama-server -np 2 -kvu", "", 16384, 2, True),
    ("llama-cli", "b6500", 4096, 1, False),
    ("llama-cli -c 0", "b6500", 32768, 1, False),
    # --kv-unified-per-slot sizes the pool where -c does not, and only then.
    ("llama-server --kv-unified-per-slot 2048", "", 2048, 4, True),
    ("llama-server --kv-unified-per-slot 2048 -np 3", "", 2048, 3, False),
    ("llama-server --kv-unified-per-slot 2048 -c 16384", "", 4096, 4, True),
    # One flag for a model and its settings; others still count.
    ("llama-server --gpt-oss-20b-default", "", 131072, 2, False),
    ("llama-server --gpt-oss-20b-default -c 16384", "", 8192, 2, False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "build", "context", "sequences", "unified"), ASKED, ids=lambda value: str(value)[:60]
)
def test_sequences_and_context(command: str, build: str, context: int, sequences: int, unified: bool) -> None:
    """-c is taken literally: it is what all sequences have together."""
    question = question_of(model_with(**PLAIN), command, build)
    found = question.request
    assert (found.context, found.batch, question.settings["kv_unified"]) == (context, sequences, unified)


def test_the_literal_context_counts() -> None:
    """-c 1000 for three is 333 for each, and llama.cpp pads 1,000: not 999."""
    values = reserved(model_with(**PLAIN), "llama-cli -c 1025 -np 3 -kvu").allocation.values
    assert (values["cells"], values["n_ctx"]) == (1280, 1280)  # 3 x 341 = 1,023 would be 1,024 cells


def test_without_a_program_kvcalc_s_own_options_count() -> None:
    """Flags alone may leave context and batch to --context and --batch: n_ctx is their product."""
    model = model_with(**PLAIN)
    values = reserved(model, "-ctk q8_0 -ub 256", context=1000, batch=3).allocation.values
    assert (values["n_ctx"], values["cells"], values["streams"], values["n_ubatch"]) == (3072, 1024, 3, 256)
    values = reserved(model, "-kvu", context=1000, batch=3).allocation.values
    assert (values["n_ctx"], values["cells"], values["streams"]) == (3072, 3072, 1)


@pytest.mark.parametrize(
    ("flags", "flash", "k", "v"),
    [
        ("", "auto", "fp16", "fp16"), ("-fa", "on", "fp16", "fp16"), ("-fa off -ctk q8_0", "off", "q8_0", "fp16"),
        ("-fa 1", "on", "fp16", "fp16"), ("-ctk f32 -ctv bf16", "auto", "fp32", "bf16"),
        # A quantised V switches flash attention on, and so does -sm tensor.
        ("-ctv q4_0", "on", "fp16", "q4_0"), ("--cache-type-v iq4_nl -fa auto", "on", "fp16", "iq4_nl"),
        ("-sm tensor", "on", "fp16", "fp16"),
    ],
)  # fmt: skip
def test_types_and_flash_attention(flags: str, flash: str, k: str, v: str) -> None:
    """K and V are f16 whatever the model computes in, and each has a type of its own."""
    values = reserved(model_with(**PLAIN), f"llama-cli -c 256 {flags}").allocation.values
    assert (values["flash_attn"], values["type_k"], values["type_v"]) == (flash, k, v)


REFUSED = [
    (PLAIN, "llama-cli -c 256 -ctk fp8", "", "-ctk: expected one of f32, f16, bf16, q8_0"),
    (PLAIN, "llama-cli -c 256 -ctk Q8_0", "", "-ctk: expected one of"),  # ggml's names are lower case
    (PLAIN, "llama-cli -c 32k", "", "-c: expected a whole number"),
    (PLAIN, "llama-cli -c -1", "", "-c: expected a whole number"),
    (PLAIN, "llama-server -np 0", "", "-np: expected"),
    (PLAIN, "llama-completion -np -1", "", "-np: expected a number of sequences"),
    (PLAIN, "llama-cli -c 255 -np 256", "", "-c: expected a token for each"),
    (PLAIN, "llama-cli -c 4096 -np 257", "", "-np: expected 1 to 256, got '257'"),
    (PLAIN, "llama-cli -b 0", "", "-b: expected"),
    (PLAIN, "llama-cli -fa perhaps", "", "-fa: expected on, off or auto"),
    (PLAIN, "llama-cli -c 256 -fa off -ctv q8_0", "", "-ctv: a q8_0 cache of V needs flash attention"),
    (PLAIN, "llama-cli -c 256 -ctv q8_0", "b6000", "-ctv: a q8_0 cache of V needs flash attention"),  # off by default
    (PLAIN, "llama-cli -c 256 -fa off -sm tensor", "", "-fa: off contradicts -sm tensor"),
    ({**PLAIN, "model_type": "grok-1"}, "llama-cli -c 256 -ctv q8_0", "", "-ctv: a q8_0 cache of V needs flash attention"),
    # 4 heads of 80 are 320, which blocks of 32 fill; one head is not.
    ({**PLAIN, "kv_heads": 4, "head_dim": 80}, "llama-cli -c 256 -ctk q8_0", "",
     "-ctk: q8_0 has blocks of 32 elements, which heads of 80"),
    ({**PLAIN, "k_dim": 96, "v_dim": 80, "head_dim": None, "kv_heads": 4}, "llama-cli -c 256 -ctk q4_0 -ctv q4_0", "",
     "-ctv: q4_0 has blocks of 32 elements, which heads of 80"),
    ({"layers": "1 full", "max_context": None}, "llama-server", "", "-c: no limit is published for x-1"),
    (PLAIN, "llama-cli", "b3000", "-c: expected a number of tokens, since the default of this build"),
    ({**PLAIN, "model_type": "opt"}, "llama-cli -c 256", "", "llama.cpp: x-1 has no GGUF architecture"),
    ({**PLAIN, "model_type": None}, "llama-cli -c 256", "", "llama.cpp: x-1 has no GGUF architecture"),
    ({**PLAIN, "model_type": "gemma3n_text"}, "llama-cli -c 256", "", "llama.cpp: the first 20 layers of a Gemma 3n"),
    ({**PLAIN, "model_type": "gemma3_text", "layers": "short, long",
      "caches": {"short": {"kind": "sliding", "window": 64}, "long": {"kind": "sliding", "window": 96}}},
     "llama-cli -c 256", "", "llama.cpp: x-1 has windows of"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "command", "build", "says"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_llama_cpp_refuses(facts: dict[str, object], command: str, build: str, says: str) -> None:
    """One line that names the flag or the model."""
    with pytest.raises(KvcalcError) as error:
        reserved(model_with(**facts), command, build)
    assert error.value.message.startswith(says)


def test_heads_that_blocks_do_not_fill_are_no_matter_without_flash_attention() -> None:
    """Heads of 80 may be q8_0 in K with -fa off: 4 x 80 elements are ten blocks of 34 bytes."""
    model = model_with(**{**PLAIN, "kv_heads": 4, "head_dim": 80})
    found = reserved(model, "llama-cli -c 256 -fa off -ctk q8_0")
    assert found.allocation.charges[0].parts == (("k_bytes", 10 * 34 * 256), ("v_bytes", 4 * 80 * 2 * 256))


@pytest.mark.parametrize(("flags", "way_out"), [("-ctk q8_0", "-ctv q8_0"), ("-ctv q4_0", "-ctk q4_0"), ("-ctk q8_0 -ctv q5_0", "")])  # fmt: skip
def test_one_vector_has_one_type(flags: str, way_out: str) -> None:
    """Latents are K and V at once (pull request 25871); the hint names the flag that is missing."""
    with pytest.raises(KvcalcError, match="one vector serves as key and value") as error:
        reserved(kvcalc.load("deepseek-v2-lite"), f"llama-cli -c 256 {flags}")
    assert way_out in (error.value.hint or "")
    assert reserved(kvcalc.load("deepseek-v2-lite"), "llama-cli -c 256 -ctk q8_0 -ctv q8_0").reserved_total


def test_the_grammar_of_its_own_flags_is_complete() -> None:
    """What a real command has is either understood or known to change nothing: no warning."""
    command = (
        "llama-server -m model.gguf -ngl 99 -c 32768 -np 4 -ctk q8_0 -ctv q8_0 -ub 1024 -fa on --no-mmap --mlock -t 8 "
        "-ts 3,1 -ot exps=CPU --jinja --host 0.0.0.0 --port 8080 --temp 0.6 --top-k 20 --min-p 0 --metrics -cb -cram 0 "
        "--chat-template-kwargs {} --n-cpu-moe 20 --swa-checkpoints 4 --no-warmup --reasoning-format auto -a name -nkvo"
    )
    started = launch(None, command.split())
    assert (started.engine, started.program, started.model, started.warnings) == (
        ENGINE,
        "llama-server",
        "model.gguf",
        (),
    )


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        ("-hf unsloth/Qwen3-8B-GGUF:Q4_K_M", "unsloth/Qwen3-8B-GGUF"), ("--hf-repo org/name", "org/name"),
        ("-m a.gguf -hf org/name", "org/name"),
        ("-mu https://huggingface.co/org/name/resolve/main/a.gguf -m a.gguf", "org/name"), ("-mu https://x.y/a.gguf", "https://x.y/a.gguf"), ("--gpt-oss-20b-default", "ggml-org/gpt-oss-20b-GGUF"), ("-c 1", None),
    ],
)  # fmt: skip
def test_the_model_that_a_command_names(flags: str, model: str | None) -> None:
    """Beside a repository or an address -m is where the file is kept (arg.cpp); the quantisation is left out."""
    assert launch(None, ["llama-server", *flags.split()]).model == model


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--override-kv a=int:1", "--override-kv: may change the cache"),
        ("-md draft.gguf", "the cache of the draft model is not counted"),
        ("--spec-type draft-eagle3", "the cache of the draft model is not counted"),
        ("--spec-type draft-mtp", "no draft layers of x-1 are known"),
    ],
)
def test_what_is_not_counted_is_said(flags: str, says: str) -> None:
    """A warning, since the number is less than what is reserved."""
    started = launch(None, ["llama-cli", *flags.split()])
    stated = ENGINE.options_of(started.program, started.read, model_with(**PLAIN))
    assert [warning.startswith(says) for warning in stated.warnings] == [True]


def test_a_command_and_options_that_contradict(refused: Callable[..., tuple[str, str]]) -> None:
    """The context is said twice."""
    message, _ = refused("qwen3-8b", "--context", "4k", "--", "llama-server", "-c", "8192")
    assert message.startswith("--context: the engine's own flags behind -- say it too")
    message, _ = refused("qwen3-8b", "--dp", "2", "--", "llama-server", "-c", "8192", "-np", "2")
    assert message.startswith("--dp: the flags behind -- describe one server")
    message, _ = refused("qwen3-8b", "--engine", "llama.cpp", "--tp", "2")
    assert message.startswith("--tp: no rule for splitting the heads of a cache in llama.cpp")
    message, _ = refused("qwen3-8b", "--engine", "llama.cpp", "--kv-dtype", "fp8")
    assert message == "--kv-dtype: llama.cpp has no fp8 cache"


def test_the_whole_way(capsys: pytest.CaptureFixture[str]) -> None:
    """A command in front of which stands kvcalc: gpt-oss in q8_0, 4 slots, a micro-batch of 1,024.

    12 layers of 8 x 64 x 34 / 32 x 2 = 1,088 B a cell: 4 x 8,192 cells, and 4 x (128 + 1,024 padded to 1,280).
    """
    command = "kvcalc gpt-oss-20b --get engine.reserved_bytes_total -- llama-server -m x.gguf -c 32768 -np 4 -ctk q8_0 -ctv q8_0 -ub 1024"
    assert run(command.split()[1:]) == 0
    assert int(capsys.readouterr().out) == 12 * 1088 * 4 * (8192 + 1280)


def asked(command: str) -> int:
    """The exit status of kvcalc with these words."""
    return run(command.split())


def test_a_fit_asks_llama_cpp(capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen3 8B takes 147,456 B a token and 8,192 are 1,207,959,552 B: six of them in 7.5 GB, and 256 at most."""
    assert asked("qwen3-8b --engine llama.cpp --context 8192 --kv-memory 7.5GB --get fit.max_batch") == 0
    assert asked("qwen3-8b --engine llama.cpp --context 1 --kv-memory 1TB --get fit.max_batch") == 0
    assert asked("qwen3-8b --engine llama.cpp --context 1 --kv-memory 1TB --get fit.binding") == 0
    assert capsys.readouterr().out.split() == ["6", "256", "engine"]


def test_t5_has_one_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    """llama.cpp aborts with two: an answer says so, and no budget is enough."""
    assert asked("t5-small --engine llama.cpp --batch 2 --kv-memory 1TB --get fit.max_batch") == 1
    out, err = capsys.readouterr()
    assert out.split() == ["1"]
    assert "aborts with more than one sequence of a T5" in err
    for key in ("fits", "binding", "max_context", "context_binding"):
        asked(f"t5-small --engine llama.cpp --batch 2 --kv-memory 1TB --get fit.{key}")
    assert capsys.readouterr().out.split() == ["false", "engine", "0", "engine"]


@pytest.mark.parametrize(
    ("engine", "command", "warned"),
    [
        (None, "llama-server -c 4096 c 32768", "'c', '32768': llama-server takes no such words"),
        (None, "llama-server -c 4096 --lora-scaled a.gguf 0.5", None),
        (None, "llama-cli -c 4096 -fa on", None),
        (None, "llama-cli -fa --mlock -c 4096", "-fa: expected on, off or auto behind it"),
        ("llama.cpp@b6325", "-c 4096 -fa", "-fa: expected on, off or auto behind it"),
        ("llama.cpp@b5000", "llama-cli -fa --mlock -c 4096", None),
    ],
)
def test_what_llama_cpp_would_not_start_with_is_named(engine: str | None, command: str, warned: str | None) -> None:
    """Its parser refuses words without a flag, and -fa without a word since pull request 15434 (b6325)."""
    started = launch(engine, command.split())
    warnings = (*started.warnings, *ENGINE.options_of(started.program, started.read, model_with(**PLAIN)).warnings)
    assert [text.startswith(warned or "") for text in warnings] == [True] * (warned is not None)
