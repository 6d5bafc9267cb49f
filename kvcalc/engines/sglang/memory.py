"""The share of a GPU's memory that SGLang takes by default, and what it has taken before it counts.

The share follows from the card and from what is captured.
"""

from math import log2

from kvcalc.core.model import Latent
from kvcalc.core.overheads import Overhead
from kvcalc.core.units import Fraction
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
    return Fraction(max(round(1000 * (total - reserved) / total), 1), 1000)


def scheduler(question: Question, vram: int) -> Limits:
    """--max-running-requests, 2,048 and more by default (`pool.py`), and a chunk of prefill beside the sequences."""
    chunk = next(row[1] for row in _CARDS if row[0] is None or vram / 2**20 < row[0])
    given = integer(question.settings.get("chunked_prefill_size"))
    running = integer(question.settings.get("max_running_requests")) or 2048
    return Limits(running, (given or chunk) + running, chunked=given != -1)


_BASELINE = "sglang kv_cache_configurator.py, _profile_available_bytes, and bootstrap.py; sizes by public logs"


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all engines
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
        rule = "features of images in flight; the range is assumed, not measured"
        lines.append(
            Overhead("encoder", gib(0, 0.2, 1.0), rule, "sglang kv_cache_configurator.py, mm_runtime_reservation_gb")
        )
    return tuple(lines)
