"""vLLM's command line, as far as it concerns the cache."""

from kvcalc.engines._vllm_settings import Version
from kvcalc.engines._vllm_specs import Settings
from kvcalc.flags import Flag, Flags, Read, word
from kvcalc.model import Attention, Layer, Model
from kvcalc.reserving import Asked, Question
from kvcalc.units import parse_integer

FLAGS = Flags(
    ("vllm serve", "vllm.entrypoints.openai.api_server"),
    (
        Flag("model", ("--model",), word),
        Flag("max_model_len", ("--max-model-len",), parse_integer),
        Flag("block_size", ("--block-size",), parse_integer),
        Flag("max_num_batched_tokens", ("--max-num-batched-tokens",), parse_integer),
        Flag("async_scheduling", ("--async-scheduling",)),
        Flag("async_scheduling", ("--no-async-scheduling",), constant=False),
        Flag("enable_prefix_caching", ("--enable-prefix-caching",)),
        Flag("enable_prefix_caching", ("--no-enable-prefix-caching",), constant=False),
        Flag("disable_hybrid", ("--disable-hybrid-kv-cache-manager",)),
        Flag("disable_hybrid", ("--no-disable-hybrid-kv-cache-manager",), constant=False),
        Flag("mamba_cache_mode", ("--mamba-cache-mode",), word),
        Flag("mamba_cache_dtype", ("--mamba-cache-dtype",), word),
        Flag("mamba_ssm_cache_dtype", ("--mamba-ssm-cache-dtype",), word),
        Flag("gdn_backend", ("--gdn-prefill-backend",), word),
        Flag("packed", ("--x-packed",), word),
    ),
)


def asked(program: str, read: Read, model: Model) -> Asked:  # noqa: ARG001
    values = dict(read.values)
    values.pop("model", None)
    options = {}
    if "max_model_len" in values:
        options["context"] = values.pop("max_model_len")
    return Asked(options, values)


def model_of(program: str, read: Read) -> str | None:
    if program == "vllm serve" and read.others:
        return read.others[0]
    model = read.values.get("model")
    return model if isinstance(model, str) else None


def without_windows(question: Question, layers: list[Layer]) -> list[Layer]:
    """Layers with their windows widened to the whole context where vLLM's manager of several kinds is off.

    By flag, and by default for Llama 4, whose chunks it does not manage (`config/vllm.py`).
    """
    model_type = question.request.model.model_type or ""
    off = question.knobs.get("disable_hybrid", model_type.startswith("llama4"))
    full = any(isinstance(c, Attention) and c.reach == "full" for layer in layers for c in layer)
    if not off or not full:
        return layers
    return [
        tuple(
            c._replace(reach="full", span=None) if isinstance(c, Attention) and c.reach in ("sliding", "chunked") else c
            for c in layer
        )
        for layer in layers
    ]


def facts(question: Question, settings: Settings) -> tuple[str, ...]:
    return (f"blocks of {settings.block:,} tokens",)


def log(version: Version, tokens: int, length: int, concurrency: float) -> tuple[str, ...]:
    """The lines that vLLM prints."""
    size, most = (
        f"GPU KV cache size: {tokens:,} tokens",
        f"Maximum concurrency for {length:,} tokens per request: {concurrency:.2f}x",
    )
    return (f"{size}, {most}",) if version.lines == 1 else (size, most)
