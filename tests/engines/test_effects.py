"""Flags that change the memory and are not counted: each is named where a verdict would rest on it."""

import shlex

import pytest

from kvcalc.commands.effects import Effect, Uncounted, effects, found, said, settled, touching
from kvcalc.launch.command import launch
from kvcalc.launch.registry import all_engines
from kvcalc.library import loader

GIB = 2**30


def uncounted(command: str, model: str = "llama3.1-8b") -> dict[str, str]:
    """The flags of a command that change the memory, each with what a GPU may hold instead."""
    started = launch(None, shlex.split(command))
    stated = started.engine.options_of(started.program, started.read, loader.load(model))
    return {each.flag: each.effect.way for each in stated.uncounted}


def test_tables_name_flags_that_their_engine_has() -> None:
    """A flag of a table is passed over or read: a name that the engine does not have would be unknown."""
    for engine in all_engines():
        flags = engine.flags
        known = flags.words | flags.switches | {name for flag in flags.flags for name in flag.names}
        assert [name for name in flags.effects if name.startswith("-") and name not in known] == [], engine.name


@pytest.mark.parametrize(
    ("command", "ways"),
    [
        # vLLM's documentation of each: engine_args of 0.33
        ("vllm serve m --cpu-offload-gb 10", {}),
        ("vllm serve m --offload-group-size=10", {"--offload-group-size 10": "less"}),
        ("vllm serve m --offload_group_size 10", {"--offload-group-size 10": "less"}),
        ("vllm serve m --cpu-offload-gb 0", {}),
        ("vllm serve m --offload-group-size 10 --offload-group-size 0", {}),
        ("vllm serve m --enable-lora", {}),  # counted, see test_company
        ("vllm serve m --enable-lora --lora-target-modules q_proj", {"--enable-lora": "more"}),
        ("vllm serve m --enable-lora --no-enable-lora", {}),
        ("vllm serve m --load-format bitsandbytes", {"--load-format bitsandbytes": "either"}),
        ("vllm serve m --load-format safetensors", {}),
        ("vllm serve m --quantization bitsandbytes", {"--quantization bitsandbytes": "less"}),
        ("vllm serve m --quantization fp8", {}),  # counted: 8 bits a parameter
        ("vllm serve m --enforce-eager -O3", {"-O3": "either"}),  # without graphs counted, see test_vllm_memory
        ("vllm serve m --kv-transfer-config '{\"kv_connector\":\"NixlConnector\"}'", {"--kv-transfer-config": "more"}),
        ("vllm serve m --spec-method ngram --spec-tokens 3", {}),
        ("VLLM_CPU_KVCACHE_SPACE=40 vllm serve m", {"VLLM_CPU_KVCACHE_SPACE 40": "either"}),
        ("vllm serve m --swap-space 4 --seed 1 --trust-remote-code", {}),
        ("sglang serve m --enable-hierarchical-cache", {}),
        ("sglang serve m --enable-flexkv", {"--enable-flexkv": "host"}),
        ("sglang serve m --disaggregation-mode prefill", {"--disaggregation-mode prefill": "either"}),
        ("sglang serve m --disaggregation-mode null", {}),
        ("sglang serve m --cpu-offload-gb 8 --quantization awq",
         {"--quantization awq": "less"}),
        ("sglang serve m --ep-size 8", {"--ep-size 8": "either"}),
        ("sglang serve m --ep-size 1", {}),
        # common/arg.cpp: 33 are the 32 layers of Llama 3.1 8B and the output's
        ("llama-server -m m.gguf -ngl 32", {"-ngl 32": "less"}),
        ("llama-server -m m.gguf -ngl 33", {}),
        ("llama-server -m m.gguf -ngl 10 -ngl 99", {}),
        ("llama-server -m m.gguf -ngl 99 --gpu-layers 10", {"--gpu-layers 10": "less"}),
        ("LLAMA_ARG_N_GPU_LAYERS=10 llama-server -m m.gguf", {"LLAMA_ARG_N_GPU_LAYERS 10": "less"}),
        ("LLAMA_ARG_N_GPU_LAYERS=10 llama-server -m m.gguf -ngl all", {}),
        ("llama-server -m m.gguf --n-cpu-moe 20", {"--n-cpu-moe 20": "less"}),
        ("llama-server -m m.gguf -nkvo", {"-nkvo": "less"}),
        ("llama-server -m m.gguf -nkvo --kv-offload", {}),
        ("llama-server -m m.gguf --mmproj p.gguf", {"--mmproj p.gguf": "more"}),
        ("llama-server -m m.gguf -t 8 --mlock", {}),
        ("OLLAMA_GPU_OVERHEAD=1073741824 ollama serve", {"OLLAMA_GPU_OVERHEAD 1073741824": "more"}),
        ("mlx_lm.generate --model m --adapter-path a", {"--adapter-path a": "more"}),
        ("trtllm-serve m --ep_size 4", {"--ep_size 4": "either"}),
    ],
)  # fmt: skip
def test_what_a_command_leaves_uncounted(command: str, ways: dict[str, str]) -> None:
    """A flag of memory is named with its word; one that changes nothing, or is counted, is not."""
    assert uncounted(command) == ways


def test_a_checkpoint_that_is_packed_may_say_so() -> None:
    """`--quantization` of a model whose weights are counted as packed says nothing new."""
    assert uncounted("vllm serve m --quantization modelopt", "llama3.1-70b-fp8") == {}


def test_a_budget_of_the_cache_alone() -> None:
    """Beside --kv-memory, what changes weights does not matter, and what moves the cache does."""
    table = {**effects("a", "-a", "keeps weights on the host", "less"),
             **effects("b", "-b", "keeps the cache on the host", "less", cache=True)}  # fmt: skip
    both = found([("-a", ""), ("-b", "")], table)
    assert [each.flag for each in touching(both, cache_alone=True)] == ["-b"]
    assert [each.flag for each in touching(both, cache_alone=False)] == ["-a", "-b"]


def one(way: str, most: int | None = None) -> Uncounted:
    return Uncounted("-x 1", Effect("x", "does it", way, most))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fits", "lacking", "flags", "answer"),
    [
        (True, 0, [], True),
        (True, 0, [one("less")], True),
        (False, GIB, [], False),
        (False, GIB, [one("more"), one("host")], False),
        (False, GIB, [one("less")], None),
        (False, GIB, [one("either")], None),
        (False, GIB, [one("less", 2 * GIB)], None),
        (False, 3 * GIB, [one("less", 2 * GIB)], False),
        (False, 3 * GIB, [one("less", 2 * GIB), one("either", GIB)], None),
        (False, 9 * GIB, [one("less", 2 * GIB), one("less")], None),
    ],
)
def test_what_may_rest_on_such_a_flag(fits: bool, lacking: int, flags: list[Uncounted], answer: bool | None) -> None:
    """No "does not fit" rests on a flag by which a GPU may hold less, unless more is lacking than it can give."""
    assert settled(fits, lacking, flags) is answer


def test_the_line_that_names_a_flag() -> None:
    """A flag's word comes from the user's text, and reaches no terminal as it is."""
    line = said(Uncounted("--x \x1b[2J" + "y" * 200, Effect("x", "keeps it", "less")))
    assert "\x1b" not in line
    assert len(line) < 200
