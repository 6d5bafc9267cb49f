"""Arguments of `generate` and the command lines of transformers, as people type them."""

from collections.abc import Callable

import pytest

from kvcalc.cli.main import run

Refused = Callable[..., tuple[str, str]]
FULL = 4096 * 131072  # Llama 3 8B, 4,096 tokens, bf16

SPELLINGS = (
    ("cache_implementation=static max_cache_len=8192", 2 * FULL),
    ("--cache-implementation static --max-cache-len 8192", 2 * FULL),
    ("--cache_implementation=static --max_cache_len=8192", 2 * FULL),
    ("--max-cache-len 8192 cache_implementation=static", 2 * FULL),
    ('cache_implementation="static", max_cache_len=8192,', 2 * FULL),
    ("cache_implementation=hybrid max_cache_len=4097", FULL + 131072),
    ("cache_implementation=static", FULL),
    ("cache_implementation=dynamic", FULL),
    ("past_key_values=DynamicCache(config=model.config)", FULL),
    ("cache_implementation=quantized", FULL * 9 // 32),
    ("cache_implementation=quantized nbits=2", FULL * 5 // 32),
    ("cache_implementation=quantized backend=hqq nbits=8 q_group_size=32", FULL * 9 // 16),
    ("cache_implementation=quantized cache_config={'backend':'hqq','nbits':8}", FULL * 17 // 32),
    ('--cache-config {"nbits":2} --cache-implementation quantized', FULL * 5 // 32),
    ("cache_implementation=quantized backend=fp8", FULL // 2 + 32 * 8),
    ("num_beams=4", 4 * FULL),
    ("--num-beams 4 --num_return_sequences=2", 4 * FULL),
    ("dtype=float32", 2 * FULL),
    ("torch_dtype=torch.float32", 2 * FULL),
    ("dtype=auto", FULL),
    ("max_length=8193", 2 * FULL),
    ("max_new_tokens=100", FULL),
    ("do_sample=True --temperature 0.7 top_p=0.9 --repetition-penalty 1.1 use_cache=True", FULL),
)


@pytest.mark.parametrize(("flags", "size"), SPELLINGS)
def test_arguments_mean_what_they_mean_there(capsys: pytest.CaptureFixture[str], flags: str, size: int) -> None:
    """As flags or as KEY=VALUE, with hyphens or underscores, as in Python or not; nothing is warned of."""
    argv = ["llama3-8b", "--engine", "transformers", "--get", "engine.reserved_bytes_total", "--", *flags.split()]
    assert run([word for word in argv if word]) == 0
    assert capsys.readouterr() == (f"{size}\n", "")


PROGRAMS = (
    ("transformers serve llama3-8b --port 8080 --host 0.0.0.0 --trust-remote-code", FULL, "DynamicCache"),
    ("transformers serve llama3-8b --compile --dtype float32", 2 * FULL, "StaticCache"),
    ("transformers chat llama3-8b", FULL, "DynamicCache"),
    ("transformers chat llama3-8b http://localhost:8000/v1 max_new_tokens=100 num_beams=2", 2 * FULL, "DynamicCache"),
    ("/opt/venv/bin/transformers chat llama3-8b do_sample=False cache_implementation=static", FULL, "StaticCache"),
)


@pytest.mark.parametrize(("command", "size", "cache"), PROGRAMS)
def test_its_own_programs_are_understood(
    capsys: pytest.CaptureFixture[str], command: str, size: int, cache: str
) -> None:
    """The model is the command's, and --compile asks for a static cache."""
    for key, value in (("reserved_bytes_total", size), ("cache_class", cache)):
        assert run(["--get", f"engine.{key}", "--", *command.split()]) == 0
        assert capsys.readouterr() == (f"{value}\n", "")


WARNINGS = (
    ("no_such_argument=1", "'--no-such-argument' of transformers is not known"),
    ("--no-such-flag 3", "'--no-such-flag 3' of transformers is not known"),
    ("max_cache_len=8192", "max_cache_len changes nothing without cache_implementation=static"),
    ("max_new_tokens=4096", "max_new_tokens 4,096 leaves no prompt in 4,096 tokens"),
)


@pytest.mark.parametrize(("flags", "says"), WARNINGS)
def test_what_changes_nothing_is_said(capsys: pytest.CaptureFixture[str], flags: str, says: str) -> None:
    """Arguments that nobody knows, or that contradict the rest."""
    argv = ["llama3-8b", "--engine", "transformers", "--get", "engine.reserved_bytes_total", "--", *flags.split()]
    assert run(argv) == 0
    out, err = capsys.readouterr()
    assert (out, says in err) == (f"{FULL}\n", True)


REFUSALS = (
    ("static", "--: expected an argument of generate() as KEY=VALUE, got 'static'"),
    ("cache_implementation=offloaded", "cache_implementation: which layers of an offloaded cache"),
    ("cache_implementation=offloaded_static", "cache_implementation: which layers of an offloaded_static cache"),
    ("cache_implementation=paged", "cache_implementation: how many pages"),
    ("--continuous-batching", "cache_implementation: how many pages"),
    ("cache_implementation=fast", "--cache-implementation: expected one of dynamic, quantized, static"),
    ("past_key_values=StaticCache(max_cache_len=9)", "past_key_values: expected DynamicCache()"),
    ("past_key_values=DynamicCache() cache_implementation=static", "past_key_values: transformers takes it or"),
    ("use_cache=False", "use_cache: without a cache there is nothing to size"),
    ("assistant_model=llama3-8b", "assistant_model: what it keeps beside the cache is not known"),
    ("guidance_scale=3", "guidance_scale: what it keeps beside the cache is not known"),
    ("use_mtp=true", "use_mtp: what its draft layers keep is not known"),
    ("max_length=4096 max_new_tokens=20", "max_length: transformers heeds max_new_tokens alone"),
    ("max_length=1", "max_length: expected 2 or more"),
    ("num_beams=0", "--num-beams: expected 1 to"),
    ("max_new_tokens=x", "--max-new-tokens: expected a whole number above zero, got 'x'"),
    ("cache_config=4", "--cache-config: expected a dictionary"),
    ("dtype=int4", "--dtype: expected a dtype, got 'int4'"),
    ("backend=hqq", "backend: changes nothing alone"),
    ("nbits=4", "nbits: changes nothing alone"),
    ("cache_implementation=quantized nbits=3", "nbits: quanto has no 3 bits"),
    ("cache_implementation=quantized backend=fp8 nbits=8", "nbits: the fp8 backend has one scale"),
    ("cache_implementation=quantized backend=hqq nbits=3 axis_key=1", "nbits: hqq fails with 3 bits along axis 1"),
    ("cache_implementation=quantized q_group_size=1000", "q_group_size: 1000 does not divide the 1,024 elements"),
    ("cache_implementation=quantized axis_value=2", "--axis-value: expected one of 0, 1"),
)


@pytest.mark.parametrize(("flags", "says"), REFUSALS)
def test_faulty_and_unknown_arguments_are_refused(refused: Refused, flags: str, says: str) -> None:
    """One line that names the argument, and the way out."""
    assert refused("llama3-8b", "--engine", "transformers", "--", *flags.split())[0].startswith(says)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--kv-dtype int4 --engine transformers -- nbits=2", "--kv-dtype: int4 contradicts quanto with 2 bits"),
        ("--kv-dtype fp8 --engine transformers -- cache_implementation=static", "--kv-dtype: this format is that of"),
        ("--context 4096 --engine transformers -- max_length=4096", "--context: the engine's own flags behind --"),
        ("--kv-dtype fp16 --engine transformers -- dtype=float32", "--kv-dtype: the engine's own flags behind --"),
        ("--engine transformers@5.15 -- cache_implementation=quantized prefill_chunk_size=512", "prefill_chunk_size: "),
    ],
)
def test_what_contradicts_our_own_options_is_refused(refused: Refused, options: str, says: str) -> None:
    """Nothing is said twice."""
    assert refused("llama3-8b", *options.split())[0].startswith(says)
