"""What llama.cpp takes on a device beside weights and cache: its compute buffer, the driver, the margin of --fit."""

from kvcalc.core.model import Model
from kvcalc.core.overheads import Estimate, Overhead, exactly, gain
from kvcalc.core.units import many
from kvcalc.engines.forward import gib
from kvcalc.engines.llama_cpp.buffers import Step, device_buffer, step_of
from kvcalc.engines.llama_cpp.context import Context, context_of
from kvcalc.engines.llama_cpp.versions import Version
from kvcalc.engines.question import Question

__all__ = ["memory"]

_SOURCE = "llama.cpp src/llama-context.cpp (graph_reserve) and ggml-alloc.c; ranges by printed buffers"
_MARGIN = 1 << 30  # --fit-target


def memory(question: Question, vram: int) -> tuple[Overhead, ...]:  # noqa: ARG001 - one signature for all engines
    """The device that has the output layer, on which the buffer is largest."""
    version, model, context = question.version, question.request.facts, context_of(question)
    assert isinstance(version, Version)
    devices = question.request.layout.pp
    pipelined = devices > 1 and not _kept_on_host(question)
    step = step_of(model, context, pipelined=pipelined)
    apple = question.card is not None and question.card.vendor == "Apple"
    size = gib(0.05, 0.15, 0.6) if apple else gib(0.3, 0.45, 1.2)
    lines = [
        _compute(question, context, step),
        Overhead("runtime", size, f"{'Metal' if apple else 'the driver'} and its context", _SOURCE),
    ]
    if version.context == 0 and question.settings.get("fit", True) is True:
        target = question.settings.get("fit_target")
        margin = target if isinstance(target, int) else _MARGIN
        rule = "--fit leaves it free on each device before it moves layers to the host"
        saving = gain("--fit-target 256", margin, 256 << 20)
        lines.append(Overhead("margin", Estimate(0, margin, margin), rule, "llama.cpp common/fit.cpp", saving=saving))
    return tuple(lines)


def _kept_on_host(question: Question) -> bool:
    """What keeps devices from working one behind the other: anything of a layer in host memory."""
    given = question.settings
    return bool(
        given.get("cpu_experts")
        or given.get("tensor_buffers")
        or given.get("kv_offload") is False
        or given.get("split_mode") not in (None, "layer")
    )


def _compute(question: Question, context: Context, step: Step | None) -> Overhead:
    if step is None:
        rule = f"the widths of {question.request.facts.name} are not known: `dimensions` in its preset"
        return Overhead("compute buffer", gib(0.1, 0.35, 2), rule, _SOURCE)
    size = device_buffer(step, last=True)
    cells, heads = f"{context.cells:,} cells", _heads(question.request.facts)
    half = device_buffer(_halved(step), last=True)
    saving = gain(f"-ub {step.rows // 2}", size.likely, half.likely) if step.rows > 1 else ""
    if step.flash:
        rule = f"{many(step.rows, 'token')} of a micro-batch (-ub) x {cells} of mask, or their logits"
    else:
        rule = f"{many(step.rows, 'token')} of a micro-batch (-ub) x {cells} x {heads} heads x 4 B, without -fa"
    return Overhead(
        "compute buffer", size if size.low < size.high else exactly(size.likely), rule, _SOURCE, saving=saving
    )


def _halved(step: Step) -> Step:
    """Half as many rows: everything of a micro-batch halves."""
    return step._replace(
        rows=step.rows // 2,
        activation=step.activation // 2,
        query=step.query // 2,
        logits=(step.logits[0], step.logits[1] // 2),
        mask=step.mask // 2,
        scores=step.scores // 2,
    )


def _heads(model: Model) -> int:
    return max((getattr(cache, "heads", 0) for cache in model.distinct_caches), default=0)
