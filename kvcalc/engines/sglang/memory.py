"""The share of a GPU's memory that SGLang takes by default, and what it has taken before it counts.

The share follows from the card and from what is captured.
"""

from math import isqrt, log2

from kvcalc.core.kinds import encodes
from kvcalc.core.model import Attention, Compressed, Indexer, Latent, VisionTower
from kvcalc.core.overheads import Estimate, Overhead
from kvcalc.core.units import Fraction
from kvcalc.engines.adapters import adapters_of
from kvcalc.engines.forward import gib
from kvcalc.engines.question import Question
from kvcalc.engines.sglang.flags import integer
from kvcalc.errors import KvcalcError
from kvcalc.serving.rules import Limits

__all__ = ["memory", "scheduler", "utilization"]

# Below how many MiB: tokens of a chunk of prefill, largest batch whose decode is captured with tp below 4, and from 4.
_CARDS: tuple[tuple[int | None, int, int, int], ...] = (
    (20 * 1024, 2048, 8, 8),
    (35 * 1024, 4096, 48, 160),
    (60 * 1024, 4096, 32, 160),
    (160 * 1024, 8192, 256, 512),
    (None, 16384, 512, 512),
)
_VIT_L = 24, 1024  # layers and channels
# Types whose images are off without --enable-multimodal, by the type of their language part.
_TEXT_ALONE = ("gemma3", "gemma3_text", "llama4", "llama4_text", "step3_vl")
# Lengths of prefill that are captured, up to a chunk (`cuda_graph_hook.py`).
_GRAPHS = (
    *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64), *range(1280, 4097, 256),
    *range(4608, 16385, 512),
)  # fmt: skip


def utilization(question: Question, vram: int) -> Fraction:
    """The default of --mem-fraction-static (`arg_groups/memory_hook.py`), from the card's memory in MiB.

    It leaves room for activations of a chunk of prefill, for the graphs of decode and of prefill, and for ranks.
    """
    layout, total = question.request.layout, vram / 2**20
    groups = integer(question.settings.get("attention_groups")) or layout.sharing
    if groups != layout.sharing:
        raise KvcalcError("--attn-dp-size: how much of the weights each GPU holds is not known", "give --kv-memory")
    ranks = layout.tp * groups
    chunk, few, many_ranks = next(row[1:] for row in _CARDS if row[0] is None or total < row[0])
    chunk = integer(question.settings.get("chunked_prefill_size")) or chunk
    batch = few if ranks < 4 else many_ranks
    batch = min(batch, integer(question.settings.get("max_running_requests")) or batch)
    latent = any(isinstance(cache, Latent) for cache in question.request.model.distinct_caches)
    graphs: float = 2 * batch + (1536 if latent else 8 * sum(1 for length in _GRAPHS if length <= chunk))
    if groups > 1:  # reserve_for_graph_mb: padding of each group
        graphs += batch * groups * (4.5 if batch > 300 else 3)
    reserved = 512 + 1.5 * max(chunk, 2048) + ranks * layout.pp / 8 * 1024 + graphs
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    share = Fraction(max(round(1000 * (total - reserved) / total), 1), 1000)
    return left_for_images(share, tower) if (tower := _tower(question)) else share


def left_for_images(share: Fraction, tower: VisionTower) -> Fraction:
    """0.95 of the share, less a tenth of it for each tower as large as ViT-L that is in it beyond one, at 0.8 to 1.05
    of that (`adjust_mem_fraction_for_vlm` in memory_hook.py; where the file has not these names, ViT-L's are taken).

    Public figures: 0.9248 of it for Qwen's tower of 1,152 channels, 0.836 of 0.88 for ViT-L; 0.826 by a log of
    Kimi K2.5 on MI355X, whose share is 0.908 without images.
    """
    layers, hidden = tower.num_hidden_layers or _VIT_L[0], tower.hidden_size or _VIT_L[1]
    whole = _VIT_L[0] * _VIT_L[1] ** 2
    factor = min(max(11 * whole - layers * hidden**2, 8 * whole), 21 * whole // 2)  # tenths of `whole`
    return Fraction(share.part * 95 * factor, share.of * 1000 * whole)


def _tower(question: Question) -> VisionTower | None:
    """The tower for images that SGLang serves: of some models none unless it is asked to (`model_config.py`).

    Of a tower whose shape is not known the parameters are: 12 for each of layers x width^2.
    """
    model = question.request.model
    if model.model_type in _TEXT_ALONE and not question.settings.get("multimodal"):
        return None
    if model.vision is None and model.encoder_parameters and not any(map(encodes, model.distinct_caches)):
        return VisionTower(_VIT_L[0], isqrt(model.encoder_parameters // (12 * _VIT_L[0])))
    return model.vision


def scheduler(question: Question, vram: int) -> Limits:
    """--max-running-requests, 2,048 and more by default (`pool.py`), and a chunk of prefill beside the sequences."""
    chunk = next(row[1] for row in _CARDS if row[0] is None or vram / 2**20 < row[0])
    given = integer(question.settings.get("chunked_prefill_size"))
    running = integer(question.settings.get("max_running_requests")) or 2048
    return Limits(running, (given or chunk) + running, chunked=given != -1)


_BASELINE = "sglang kv_cache_configurator.py, _profile_available_bytes, and bootstrap.py; sizes by public logs"


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:
    """What comes off the share: the share is of what is free before the weights, and the context and the ranks'
    buffers are there by then. The pool is what is free behind the weights, less all that the share leaves out.

    Logs: 22.76 and 23.09 GiB free of 24 GB cards (23.5 to 23.7), 283.6 of 288 on an MI355X. Activations and graphs lie
    in what the share leaves, and take nothing off the pool.
    """
    card, tp = question.card, question.request.layout.tp
    rocm = card is not None and card.vendor == "AMD"
    size = gib(1.0, 2.0, 4.5) if rocm else gib(0.3, 0.6, 1.1)
    lines = [Overhead("runtime", size, f"{'ROCm' if rocm else 'CUDA'}'s context, before the weights", _BASELINE)]
    if tp > 1:
        step = log2(tp)
        rule = f"buffers between GPUs: 0.2 GiB x log2({tp}); the range is assumed, as no log of several GPUs was read"
        lines.append(Overhead("communication", gib(0.05 * step, 0.2 * step, 0.4 * step), rule, _BASELINE))
    if question.request.model.encoder_parameters is not None:
        rule = "100 MB of images' features, and 1 GiB more where they are passed on by CUDA IPC"
        size = gib(100 / 1024, 100 / 1024, 1 + 100 / 1024)
        lines.append(Overhead("encoder", size, rule, "sglang kv_cache_configurator.py, mm_runtime_reservation_gb"))
    lines += adapters_of(question, "sglang lora/mem_pool.py, LoRAMemoryPool")
    if rocm and _aiter(question):
        rule = "AITER keeps 15 % of the share back above 8,192 tokens of context, whoever states it"
        size = Estimate(*(15 * vram * tenths // 1000 for tenths in _AITER_SHARE))
        lines.append(Overhead("workspace", size, rule, "sglang arg_groups/attention_hook.py"))
    return tuple(lines)


# Tenths of the memory that the share is: the default of large cards, and what people state.
_AITER_SHARE = (7, 9, 10)


def _aiter(question: Question) -> bool:
    """The kernels are AITER's and the context is long: 0.85 of --mem-fraction-static is used, also where it is stated
    (SGLANG_AITER_HONOR_EXPLICIT_MEM_FRACTION is off by default).

    They are the default of ROCm for heads, and for latents with 16 or 128 heads on a rank; else Triton's are
    (`_get_default_attn_backend`). So Kimi K2.5 with 8 on a rank keeps its share in the log above.
    """
    request, model = question.request, question.request.model
    most = integer(question.settings.get("context_length")) or request.context  # the limit that a plan prints
    backend, caches = question.settings.get("backend"), model.distinct_caches
    if backend is not None or any(isinstance(cache, Indexer | Compressed) for cache in caches):
        return backend == "aiter" and most > 8192  # sparse models have kernels of their own
    latent = next((cache for cache in caches if isinstance(cache, Latent)), None)
    heads = latent is not None and latent.heads // request.layout.tp in (16, 128)
    return most > 8192 and (heads if latent else any(isinstance(cache, Attention) for cache in caches))
