"""The flags of llama-server and llama-cli that change the cache, and what a command line comes to.

From common/arg.cpp, common/common.{h,cpp}, common/fit.cpp and tools/server/server.cpp, llama.cpp 0c1e57098.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvcalc.commands.flags import Flag, Flags, FlagValues, Image, word
from kvcalc.core.dtypes import KV, dtype_called
from kvcalc.core.kinds import one_vector
from kvcalc.core.model import Model
from kvcalc.core.units import parse_integer
from kvcalc.engines.llama_cpp.effects import EFFECTS, partly
from kvcalc.engines.llama_cpp.flag_names import SWITCHES, WORDS
from kvcalc.engines.llama_cpp.flag_values import (
    ALL_LAYERS,
    cache_type,
    flash_attention,
    from_zero,
    gpu_layers,
    mebibytes,
    slots,
    switched_on,
    tensor_buffers,
    word_set,
)
from kvcalc.engines.llama_cpp.versions import Version
from kvcalc.engines.options import EngineOptions
from kvcalc.engines.uncounted import drafting
from kvcalc.errors import KvcalcError

__all__ = ["FLAGS", "model_of", "options_of", "stored"]

# tools.sh is the entrypoint of the full images, and takes the program as its first word (.devops/tools.sh).
_SERVERS = ("llama-server", "llama serve", "llama server", "tools.sh --server", "tools.sh -s")
_STARTING = ("llama-cli", "llama cli", "llama client", "tools.sh --run", "tools.sh -r")
_CLIENTS = (*_STARTING, "llama-completion", "llama completion", "tools.sh --run-legacy", "tools.sh -l")
# .devops/*.Dockerfile; tags go on with the device and the build: server-cuda-b9000.
_IMAGES = (
    Image("llama.cpp:server", "llama-server"),
    Image("llama.cpp:light", "llama-cli"),
    Image("llama.cpp:full", "tools.sh"),
)

_BARE = "on, without a word"
# need_n_rs_seq: what drafts so that the state must be kept for each token.
_DRAFTS = frozenset({"draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"})

# One flag for a model with its settings.
_FIM: dict[str, object] = {"n_ubatch": 1024, "n_batch": 1024, "n_ctx": 0}
_GPT_OSS: dict[str, object] = {"n_ubatch": 2048, "n_batch": 32768, "n_parallel": 2, "n_ctx": 262144}
_SHORTHANDS: dict[str, dict[str, object]] = {
    "--fim-qwen-1.5b-default": {"repo": "ggml-org/Qwen2.5-Coder-1.5B-Q8_0-GGUF", **_FIM},
    "--fim-qwen-3b-default": {"repo": "ggml-org/Qwen2.5-Coder-3B-Q8_0-GGUF", **_FIM},
    "--fim-qwen-7b-default": {"repo": "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF", **_FIM},
    "--fim-qwen-7b-spec": {"repo": "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF", "draft": True, **_FIM},
    "--fim-qwen-14b-spec": {"repo": "ggml-org/Qwen2.5-Coder-14B-Q8_0-GGUF", "draft": True, **_FIM},
    "--fim-qwen-30b-default": {"repo": "ggml-org/Qwen3-Coder-30B-A3B-Instruct-Q8_0-GGUF", **_FIM},
    "--gpt-oss-20b-default": {"repo": "ggml-org/gpt-oss-20b-GGUF", **_GPT_OSS},
    "--gpt-oss-120b-default": {"repo": "ggml-org/gpt-oss-120b-GGUF", **_GPT_OSS},
    "--vision-gemma-4b-default": {"repo": "ggml-org/gemma-3-4b-it-qat-GGUF", "n_ctx": 0},
    "--vision-gemma-12b-default": {"repo": "ggml-org/gemma-3-12b-it-qat-GGUF", "n_ctx": 0},
}


def _flag(key: str, names: str, parse: Any = None, env: str = "", **more: Any) -> Flag:
    """A flag whose variables are named without their prefix."""
    return Flag(key, tuple(names.split()), parse, env=tuple(f"LLAMA_ARG_{name}" for name in env.split()), **more)


FLAGS = Flags(
    (*_SERVERS, *_CLIENTS),
    (
        _flag("model", "-m --model", word, "MODEL"),
        _flag("url", "-mu --model-url", word, "MODEL_URL"),
        _flag("repo", "-hf -hfr --hf-repo", word, "HF_REPO"),
        _flag("n_ctx", "-c --ctx-size", from_zero, "CTX_SIZE"),
        _flag("per_slot", "--kv-unified-per-slot", from_zero, "KV_UNIFIED_PER_SLOT"),
        _flag("n_parallel", "-np --parallel", slots, "N_PARALLEL"),
        _flag("n_batch", "-b --batch-size", parse_integer, "BATCH"),
        _flag("n_ubatch", "-ub --ubatch-size", from_zero, "UBATCH"),
        _flag("k_type", "-ctk --cache-type-k", cache_type, "CACHE_TYPE_K"),
        _flag("v_type", "-ctv --cache-type-v", cache_type, "CACHE_TYPE_V"),
        _flag("flash_attn", "-fa --flash-attn", flash_attention, "FLASH_ATTN", bare=_BARE),
        _flag("swa_full", "--swa-full", env="SWA_FULL"),
        _flag("kv_unified", "-kvu --kv-unified", env="KV_UNIFIED"),
        _flag("kv_unified", "-no-kvu --no-kv-unified", env="NO_KV_UNIFIED", constant=False),
        _flag("split_mode", "-sm --split-mode", word, "SPLIT_MODE"),
        _flag("parts", "-ts --tensor-split", word, "TENSOR_SPLIT"),
        _flag("fit", "-fit --fit", switched_on, "FIT"),
        _flag("gpu_layers", "-ngl --gpu-layers --n-gpu-layers", gpu_layers, "N_GPU_LAYERS", apart=True),
        _flag("cpu_experts", "-ncmoe --n-cpu-moe", from_zero, "N_CPU_MOE", apart=True),
        _flag("cpu_experts", "-cmoe --cpu-moe", env="CPU_MOE", constant=ALL_LAYERS, apart=True),
        _flag("tensor_buffers", "-ot --override-tensor", tensor_buffers, "OVERRIDE_TENSOR", apart=True),
        _flag("main_gpu", "-mg --main-gpu", from_zero, "MAIN_GPU", apart=True),
        _flag("kv_offload", "-kvo --kv-offload", env="KV_OFFLOAD", apart=True),
        _flag("kv_offload", "-nkvo --no-kv-offload", env="NO_KV_OFFLOAD", constant=False, apart=True),
        _flag("op_offload", "--op-offload", apart=True),
        _flag("op_offload", "--no-op-offload", constant=False, apart=True),
        _flag("fit_target", "-fitt --fit-target", mebibytes, "FIT_TARGET", apart=True),
        _flag("rope_scaling", "--rope-scaling", word, "ROPE_SCALING_TYPE"),
        _flag("rope_scale", "--rope-scale --rope-freq-scale", word, "ROPE_SCALE ROPE_FREQ_SCALE"),
        _flag("override", "--override-kv", word),
        _flag("spec_type", "--spec-type", word_set, "SPEC_TYPE"),
        _flag("drafted", "--spec-draft-n-max --draft --draft-n --draft-max", from_zero, "SPEC_DRAFT_N_MAX DRAFT_MAX"),
        _flag("draft", "-md --model-draft --spec-draft-model", word, "SPEC_DRAFT_MODEL MODEL_DRAFT"),
        _flag("draft", "-hfd -hfrd --hf-repo-draft --spec-draft-hf", word, "SPEC_DRAFT_HF_REPO HFD_REPO"),
        _flag("draft_k", "-ctkd --cache-type-k-draft --spec-draft-type-k", cache_type, "SPEC_DRAFT_CACHE_TYPE_K"),
        _flag("draft_v", "-ctvd --cache-type-v-draft --spec-draft-type-v", cache_type, "SPEC_DRAFT_CACHE_TYPE_V"),
        _flag("file", "-hff --hf-file", word, "HF_FILE"),
        *(_flag("shorthand", name, constant=name) for name in _SHORTHANDS),
    ),
    WORDS,
    SWITCHES,
    underscores=True,
    images=_IMAGES,
    wordless=("", *_SERVERS, *_CLIENTS),
    many=frozenset({"--control-vector-layer-range", "--control-vector-scaled", "--lora-scaled"}),
    effects=EFFECTS,
)


# common_params_handle_model in common/arg.cpp: beside a repository or an address, -m is only where the file is kept.
_NAMING = ("repo", "url", "model")
_AT_HUB = re.compile(r"(?:https?://)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)/resolve/.+", re.ASCII)


def model_of(program: str, read: FlagValues) -> str | None:  # noqa: ARG001 - one signature for all engines
    """A file, or the hub id of a repository without its quantisation: `org/name:Q4_K_M` is org/name."""
    values = _values(read)
    model = str(next((values[key] for key in _NAMING if values.get(key)), ""))
    at_hub = _AT_HUB.fullmatch(model) if values.get("url") == model else None
    if at_hub:
        return at_hub[1]
    return (model.partition(":")[0] if values.get("repo") == model else model) or None


_STORED = re.compile(
    r"(?:^|[-_.:/])((?:UD-)?(?:I?Q[1-8]_[A-Z0-9_]{1,20}|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|B?F16|F32|FP16))(?=$|[-.])",
    re.IGNORECASE,
)
_UNPACKED = ("F16", "BF16", "F32", "FP16")


def stored(program: str, read: FlagValues, model: Model) -> str | None:  # noqa: ARG001 - one signature for all engines
    """The file that a command names, in words, where it packs the weights; None where its tensors are counted."""
    values = _values(read)
    named = [str(values[key]) for key in ("file", *_NAMING) if values.get(key)]
    found = next((match[1].upper() for name in named if (match := _STORED.search(name))), "")
    return None if model.gguf or found in _UNPACKED else f"a {found or 'GGUF'} file"


def _values(read: FlagValues) -> Mapping[str, Any]:
    return {**_SHORTHANDS.get(str(read.values.get("shorthand")), {}), **read.values}


def options_of(program: str, read: FlagValues, model: Model) -> EngineOptions:
    """What a command says. Without a program, and where nothing speaks of tokens, --context and --batch count."""
    values, version = _values(read), read.version
    assert isinstance(version, Version)
    settings = {key: values[key] for key in _KEPT if key in values}
    if (shares := _shares(values)) is not None:
        settings["shares"] = shares
    if settings.get("flash_attn") == _BARE:
        settings["flash_attn"] = "on"
    if values.get("split_mode") == "tensor":
        if settings.get("flash_attn") == "off":
            raise KvcalcError("-fa: off contradicts -sm tensor, which needs flash attention", "leave one of them out")
        settings["flash_attn"] = "on"
    options = _types(values, model)
    if program or {"n_ctx", "n_parallel", "per_slot"} & values.keys():
        told = _sequences(program, values, version)
        n_ctx = _n_ctx(values, model, version, told)
        sequences: Any = told["n_seq_max"]
        if n_ctx < sequences:
            raise KvcalcError(f"-c: expected a token for each of {sequences:,} sequences, got {n_ctx:,}")
        options |= {"context": n_ctx // sequences, "batch": sequences}
        fitted = version.context == 0 and "n_ctx" not in values and "per_slot" not in values and values.get("fit", True)
        settings |= {**told, "n_ctx": n_ctx, "fitted": fitted}
    if (devices := _devices(values)) > 1:
        options["pp"] = devices
    drafts, warnings = _drafts(values, model, version)
    if values.get("flash_attn") == _BARE and version.flash == "auto":  # pull request 15434: no switch any more
        warnings += ("-fa: expected on, off or auto behind it, without which llama.cpp does not start: on is used",)
    if "override" in values:
        warnings += ("--override-kv: may change the cache, and was not looked at",)
    draft = [drafting("-md")] if values.get("draft") else [drafting("--spec-type")] if drafts else []
    return EngineOptions(
        options, settings | drafts, warnings=warnings, uncounted=(*partly(read.uncounted, model), *draft)
    )


_KEPT = (
    "n_batch", "n_ubatch", "flash_attn", "swa_full", "kv_unified", "gpu_layers", "cpu_experts", "tensor_buffers",
    "main_gpu", "kv_offload", "op_offload", "fit_target", "split_mode", "fit",
)  # fmt: skip


def _devices(values: Mapping[str, Any]) -> int:
    """Equal devices that have layers of their own; 1 where -ts does not say so. Zeros are no shares."""
    parts = re.split("[,/]+", str(values.get("parts", "")))
    equal = len(set(parts)) == 1 and re.fullmatch("[0.]*", parts[0]) is None
    return len(parts) if equal and values.get("split_mode", "layer") == "layer" else 1


def _shares(values: Mapping[str, Any]) -> tuple[Fraction, ...] | None:
    """The shares of -ts, None where it says none."""
    parts = [part for part in re.split("[,/]+", str(values.get("parts", ""))) if part]
    if not all(re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", part) for part in parts):
        return None
    shares = tuple(Fraction(part) for part in parts)
    return shares if sum(shares) else None


def _types(values: Mapping[str, Any], model: Model) -> dict[str, object]:
    """-ctk and -ctv. Where one vector is key and value, llama_init_from_model wants the same for both."""
    types = {f"{part}_dtype": values[f"{part}_type"] for part in "kv" if f"{part}_type" in values}
    single = any(map(one_vector, model.distinct_caches))
    if types and single and len({types.get("k_dtype", "f16"), types.get("v_dtype", "f16")}) > 1:
        flag, name = ("-ctv", types["k_dtype"]) if types.get("k_dtype", "f16") != "f16" else ("-ctk", types["v_dtype"])
        raise KvcalcError(
            f"{flag}: one vector serves as key and value in {model.name}, so both have one type",
            f"give {flag} {name} as well",
        )
    if types and single:
        types = {"k_dtype": types.get("k_dtype", "f16"), "v_dtype": types.get("v_dtype", "f16")}
    return types


def _sequences(program: str, values: Mapping[str, Any], version: Version) -> dict[str, object]:
    """How many sequences there are, and whether they share their cells: llama-server's default is 4 that do."""
    parallel, unified = values.get("n_parallel"), bool(values.get("kv_unified", False))
    # A number below zero stands for the default of the server also in llama-cli, which starts it (tools/cli/cli.cpp).
    server = program in _SERVERS or (program in _STARTING and parallel is not None and parallel < 0)
    auto = parallel is None or parallel < 0 or (parallel == 1 and version.one_is_auto and not unified)
    if server and auto and version.slots > 1:
        return {"n_seq_max": version.slots, "kv_unified": True}
    if parallel is not None and parallel < 0:
        if not server:
            raise KvcalcError(f"-np: expected a number of sequences, got {parallel}")
        parallel = None
    return {"n_seq_max": parallel or 1, "kv_unified": unified}


def _n_ctx(values: Mapping[str, Any], model: Model, version: Version, told: Mapping[str, Any]) -> int:
    """-c, or what stands for it: the limit of the model, for each stream where --fit is on."""
    n_ctx, per_slot = values.get("n_ctx"), values.get("per_slot")
    if n_ctx:
        return int(n_ctx)
    if n_ctx is None and per_slot:
        return int(per_slot * told["n_seq_max"])
    if n_ctx is None and version.context != 0:
        if version.context is None:
            raise KvcalcError("-c: expected a number of tokens, since the default of this build is not known here")
        return version.context
    fits = version.context == 0 and values.get("fit", True)
    if fits and values.get("rope_scaling") == "yarn" and "rope_scale" in values:
        # common_params_fit_impl reads the limit after llama_init_from_model has scaled it, if the file's scale differs.
        raise KvcalcError("-c: expected a number of tokens, since YaRN scales the limit that stands for it", "give -c")
    if model.max_context is None:
        raise KvcalcError(f"-c: no limit is published for {model.name}", "give a number of tokens")
    return model.max_context * (int(told["n_seq_max"]) if fits and not told["kv_unified"] else 1)


def _drafts(values: Mapping[str, Any], model: Model, version: Version) -> tuple[dict[str, object], tuple[str, ...]]:
    """Settings of speculative decoding: states that are kept for drafts, and a second context for draft layers."""
    kinds = values.get("spec_type", frozenset())
    settings: dict[str, object] = {}
    if kinds & _DRAFTS:
        settings["n_rs_seq"] = values.get("drafted", version.drafted)
    if values.get("draft") or kinds & (_DRAFTS - {"draft-mtp"}):
        return settings, ("the cache of the draft model is not counted: size it on its own, at the same context",)
    if "draft-mtp" not in kinds:
        return settings, ()
    if not model.draft:
        return settings, (f"no draft layers of {model.name} are known here: their cache is not counted",)
    formats = (dtype_called(values.get(f"draft_{part}", "f16"), KV, f"-ct{part}d") for part in "kv")
    return {**settings, "draft_types": tuple(formats)}, ()
