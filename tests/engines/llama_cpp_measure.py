"""Ask a real llama.cpp what it allocates for the models and parameters of llama_cpp_measured.py. Run by hand:

    pip install llama-cpp-python==0.3.36
    python tests/engines/llama_cpp_measure.py             # measures every run again, and says which differ
    python tests/engines/llama_cpp_measure.py --json      # one JSON object a run, with the lines of the log
    python tests/engines/llama_cpp_measure.py MODEL 'n_ctx=1000 n_seq_max=3 type_k=q8_0'

No file and no weights are needed: llama_model_init_from_user builds a model of the right shapes from metadata alone, and
its tensors are never written or read. Parameters are fields of llama_context_params, with the defaults of llama.cpp's
own tools (swa_full false); n_ctx 0 takes the model's. Only what is of no consequence to the cache is made small:
vocabulary, feed-forward layers, experts, low ranks of queries.

The log rounds to hundredths of a MiB. The exact bytes are the sum of `context` over llama_get_memory_breakdown, read
through its C++ name, so this works where the compiler lays out std::map as GCC's library does. Each run has a process of
its own, since llama.cpp ends the process where an assertion fails.
"""

import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import llama_cpp
from llama_cpp import llama_cpp as api
from llama_cpp_measured import MODELS, RUNS, brief  # the facts, which lie beside this file and are no package

LIBRARIES = Path(llama_cpp.__file__).parent / "lib"
GGUF = ctypes.CDLL(str(LIBRARIES / "libggml-base.so"))
LLAMA = api._lib

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30}
FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}
CONTEXT_TYPES = {"default": 0, "mtp": 1}

# What an architecture's loader asks for and the cache does not depend on (src/models/ARCH.cpp).
SMALL = {
    "feed_forward_length": 32, "attention.layer_norm_rms_epsilon": 1e-5, "attention.layer_norm_epsilon": 1e-5,
    "logit_scale": 1.0, "expert_feed_forward_length": 32, "expert_shared_feed_forward_length": 32,
    "leading_dense_block_count": 1, "expert_weights_scale": 1.0, "expert_weights_norm": True, "residual_scale": 1.0,
    "expert_shared_count": 1, "attention.relative_buckets_count": 8, "time_mix_extra_dim": 32,
    "time_decay_extra_dim": 32, "attention.decay_lora_rank": 32, "attention.iclr_lora_rank": 32,
    "attention.value_residual_mix_lora_rank": 32, "attention.gate_lora_rank": 32, "attention.q_lora_rank": 32,
    "hyper_connection.count": 4, "hyper_connection.epsilon": 1e-6, "hyper_connection.sinkhorn_iterations": 2,
    "hyper_connection.low_rank": 8, "hyper_connection.magnitude": 2.0, "attention.output_group_count": 8,
    "attention.output_lora_rank": 32, "attention.compress_rope_freq_base": 160000.0, "hash_layer_count": 0,
    "swiglu_clamp_exp": 10.0, "rope.freq_base_swa": 10000.0, "attention.group_norm_epsilon": 1e-5,
    "attention.group_norm_groups": 8, "embedding_length_per_layer_input": 32, "kda.gate_lower_bound": -5.0,
    "attn_res.block_size": 12, "activation.situ_beta": 4.0, "activation.situ_linear_beta": 25.0,
    "attention.indexer.local_blocks": 1, "interleave_moe_layer_step": 1, "rescale_every_n_layers": 6,
    "rope.dimension_sections": [16, 8, 8, 0], "altup.active_idx": 0, "altup.num_inputs": 4, "embedding_length": 256,
    "ple.heads_per_ngram": 2, "ple.eos_token_id": 0, "ple.layer_multipliers": [1, 3, 5],
    "ple.head_offsets": [0, 128, 256, 384], "ple.head_vocab_sizes": [128] * 4,
}  # fmt: skip
EXPERTS = {"expert_count": 2, "expert_used_count": 1, "expert_gating_func": 2}
_WITH_EXPERTS = """
    gpt-oss llama4 deepseek2 deepseek32 glm-dsa minimax-m3 deepseek4 qwen3next qwen35moe kimi-linear kimi-k3 lfm2moe
    smallthinker cohere2moe exaone-moe glm5-next qwen4exp dots3note hy_v4 bailingmoe3 minimax-01 jamba mimo2 step35
    laguna afmoe mellum maple grok qwen3moe mistral4 granite_swa glm4moe nemotron_h_moe
"""

ERROR = 4  # GGML_LOG_LEVEL_ERROR

_log: list[str] = []
_errors: list[str] = []


@api.llama_log_callback
def _collect(level: int, text: bytes, _: object) -> None:
    _log.append(text.decode(errors="replace"))
    if level == ERROR:
        _errors.append(_log[-1].strip())


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
def _leave_as_it_is(tensor: int, _: int) -> None:
    """Where llama.cpp would have a tensor filled."""


def _function(library: ctypes.CDLL, name: str, result: object, *arguments: object) -> Callable[..., object]:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments
    return function


_SETTERS = {bool: ("bool", ctypes.c_bool, 7), int: ("u32", ctypes.c_uint32, 4), float: ("f32", ctypes.c_float, 6)}

_LONG = ("layer_multipliers", "head_offsets", "head_vocab_sizes")


def _set(gguf: int, key: str, value: object) -> None:
    """Write one value of the metadata, of the type that it has in Python; lists have elements of one type."""
    name = key.encode()
    if isinstance(value, str):
        _function(GGUF, "gguf_set_val_str", None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)(
            gguf, name, value.encode()
        )
    elif isinstance(value, list) and isinstance(value[0], str):
        array = (ctypes.c_char_p * len(value))(*(each.encode() for each in value))
        _function(GGUF, "gguf_set_arr_str", None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t)(
            gguf, name, array, len(value)
        )
    elif isinstance(value, list):
        _, kind, number = ("u64", ctypes.c_uint64, 10) if key.endswith(_LONG) else _SETTERS[type(value[0])]
        signature = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
        _function(GGUF, "gguf_set_arr_data", None, *signature)(
            gguf, name, number, (kind * len(value))(*value), len(value)
        )
    else:
        suffix, kind, _ = _SETTERS[type(value)]
        _function(GGUF, f"gguf_set_val_{suffix}", None, ctypes.c_void_p, ctypes.c_char_p, kind)(gguf, name, value)


def metadata_of(arch: str, given: dict[str, object]) -> dict[str, object]:
    """All metadata of a model: `given`, and what its loader needs beside."""
    small = {key: value for key, value in SMALL.items() if key not in given}
    if arch in _WITH_EXPERTS.split():
        small |= {key: value for key, value in EXPERTS.items() if key not in given}
    small["expert_gating_func"] = 4 if arch == "deepseek4" else 2
    tokens = [f"tok_{i}" for i in range(128)]
    return {
        "general.architecture": arch,
        "tokenizer.ggml.model": "test",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0] * len(tokens),
        **{f"{arch}.{key}": value for key, value in {"vocab_size": len(tokens), **small, **given}.items()},
    }


def load(arch: str, given: dict[str, object], *, simulated: bool = False) -> int | None:
    """A model from metadata. `simulated`: tensors and caches are counted, and not allocated."""
    api.llama_log_set(_collect, None)
    api.llama_backend_init()
    gguf = _function(GGUF, "gguf_init_empty", ctypes.c_void_p)()
    for key, value in metadata_of(arch, given).items():
        _set(gguf, key, value)
    params = api.llama_model_default_params()
    params.n_gpu_layers, params.no_alloc, params.load_mtp = 0, simulated, True
    signature = (ctypes.c_void_p, type(_leave_as_it_is), ctypes.c_void_p, api.llama_model_params)
    start = _function(LLAMA, "llama_model_init_from_user", ctypes.c_void_p, *signature)
    return start(gguf, _leave_as_it_is, None, params)


def context_params(words: str) -> api.llama_context_params:
    """`n_ctx=1000 kv_unified type_k=q8_0` as llama_context_params."""
    params = api.llama_context_default_params()
    params.swa_full = False
    params.n_threads = params.n_threads_batch = 1
    for word in words.split():
        name, equals, value = word.partition("=")
        if name in {"type_k", "type_v"}:
            setattr(params, name, TYPES[value])
        elif name == "flash_attn":
            params.flash_attn_type = FLASH_ATTN[value]
        elif name == "ctx_type":
            params.ctx_type = CONTEXT_TYPES[value]
        else:
            setattr(params, name, int(value) if equals else True)
    return params


def context_bytes(context: int) -> int:
    """Bytes of all buffers that hold a cache: the sum over std::map<buffer type, {model, context, compute}>."""
    name = "_Z26llama_get_memory_breakdownPK13llama_context"
    found = (ctypes.c_uint64 * 6)()  # compare, then the header: colour, parent, leftmost, rightmost; then the count
    _function(LLAMA, name, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(ctypes.addressof(found), context)
    return sum(node[6] for node in _nodes(found[2]))


def _nodes(address: int) -> Iterator[ctypes.Array[ctypes.c_uint64]]:
    """Nodes of a red-black tree: colour, parent, left, right, key, then the value: model, context, compute."""
    if address:
        node = (ctypes.c_uint64 * 8).from_address(address)
        yield from _nodes(node[2])
        yield node
        yield from _nodes(node[3])


def measure(arch: str, given: dict[str, object], words: str) -> dict[str, object]:
    """What one context allocates: bytes and what the log says of its caches, or why it was refused."""
    simulated = "simulated" in words
    model = load(arch, given, simulated=simulated)
    if model is None:
        return {"bytes": None, "said": _reason(), "log": _log}
    _log.clear()
    start = _function(LLAMA, "llama_init_from_model", ctypes.c_void_p, ctypes.c_void_p, api.llama_context_params)
    context = start(model, context_params(words.replace("simulated", "")))
    lines = [" ".join(line.split()) for line in "".join(_log).splitlines()]
    if context is None:
        return {"bytes": None, "said": _reason(), "log": lines}
    said = [said for line in lines if (said := brief(line)) is not None]
    return {"bytes": context_bytes(context), "said": said, "log": [line for line in lines if "graph" not in line]}


def _reason() -> str:
    """The first error, which is the one that counts (those that follow say that something failed), or the last word."""
    return (_errors or _log)[0 if _errors else -1].strip().partition(": ")[2]


def measured_apart(arch: str, given: dict[str, object], words: str) -> dict[str, object]:
    """`measure` in a process of its own; what an assertion said becomes the reason of the refusal."""
    reader, writer = os.pipe()
    messages, message = os.pipe()
    os.environ["GGML_NO_BACKTRACE"] = "1"
    child = os.fork()
    if not child:
        os.close(reader)
        os.dup2(message, 1)
        os.dup2(message, 2)
        found = json.dumps(measure(arch, given, words)).encode()
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(found)
        os._exit(0)
    os.close(writer)
    os.close(message)
    with os.fdopen(reader, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    with os.fdopen(messages, "rb") as pipe:
        said = pipe.read().decode(errors="replace").splitlines()
    if found:
        return json.loads(found)
    reason = next((line[line.index("GGML_ASSERT") :] for line in said if "GGML_ASSERT" in line), "")
    return {"bytes": None, "said": f"aborts: {reason}", "log": said}


def main(words: list[str]) -> None:
    """Measure what was asked for."""
    if len(words) == 2:
        arch, given = MODELS[words[0]]
        print(json.dumps(measured_apart(arch, given, words[1]), indent=1))
        return
    differing = 0
    for run in RUNS:
        arch, given = MODELS[run.model]
        found = measured_apart(arch, given, run.params)
        if "--json" in words:
            print(json.dumps({"model": run.model, "arch": arch, "metadata": given, "params": run.params, **found}))
        if (found["bytes"], found["said"]) != (run.bytes, run.said):
            differing += 1
            print(f"{run.model} {run.params}: {found['bytes']} {found['said']}", file=sys.stderr)
    print(f"{len(RUNS)} runs, {differing} differ from what is recorded", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
