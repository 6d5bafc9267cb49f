"""What shares a GPU with the model: adapters, a model that drafts its tokens, another model beside it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.model import Model
from kvcalc.core.request import ask
from kvcalc.core.sizing import measure
from kvcalc.core.units import format_bytes, many
from kvcalc.queries.options import Memory
from kvcalc.queries.source import Source, other_model

if TYPE_CHECKING:
    from kvcalc.core.adapters import Adapters
    from kvcalc.core.fitting import Allocator
    from kvcalc.core.overheads import Overhead
    from kvcalc.core.request import Request
    from kvcalc.core.sizing import Size
    from kvcalc.queries.engine import EngineQuestion

__all__ = ["Company", "company_of", "neighbours"]

# Of a process of its own on the same GPU, in hundredths of a GiB: CUDA's context and libraries, as vLLM's logs have it.
_PROCESS = (10, 21, 35)


class Company(NamedTuple):
    """The lines of memory, and the size of a draft's cache, which fills with the batch, where no engine counts it."""

    lines: "tuple[Overhead, ...]" = ()
    of_draft: "Size | None" = None

    def fitted(self, own: "Allocator") -> "Allocator":
        """How both caches fill one GPU."""
        draft = self.of_draft
        if draft is None:
            return own
        return own._replace(
            needed=own.needed + draft.bytes_per_gpu,
            holds=lambda sequences, tokens, free: own.holds(
                sequences, tokens, free - sequences * draft.rank_bytes(tokens)
            ),
            capacity=None,
        )


def company_of(source: Source, memory: Memory, size: "Size", posed: "EngineQuestion | None") -> Company:
    """What stands beside a sized question. Raises KvcalcError where it is not known what that takes."""
    lines: list[Overhead] = []
    request, of_draft = size.request, None
    draft = None if posed is None else posed.draft
    if posed is None and memory.draft is not None:
        draft = other_model(source, memory.draft, "--draft")
        of_draft = measure(
            ask(
                draft,
                context=_within(draft, request.context),
                batch=request.batch,
                tp=request.layout.tp,
                pp=request.layout.pp,
                dp=request.layout.dp,
            )
        )
    if draft is not None:
        lines.append(_weights_line("draft weights", draft, request))
    if posed is not None and posed.drafts_itself:
        lines += _own_draft(request)
    lora = memory.lora if posed is None else None  # an engine's own flags say it then
    return Company((*lines, *neighbours(source, request, lora, memory.beside)), of_draft)


def neighbours(
    source: Source, request: "Request", lora: "Adapters | None", beside: Sequence[str]
) -> "tuple[Overhead, ...]":
    """The lines of adapters and of other models. Raises KvcalcError."""
    from kvcalc.engines.adapters import adapter_line

    where = "as vLLM's lora/layers and SGLang's lora/mem_pool.py"
    adapters = () if lora is None else (adapter_line(request, lora, where),)
    return (*adapters, *(_beside(source, name) for name in beside))


def _within(model: Model, context: int) -> int:
    return context if model.max_context is None else min(context, model.max_context)


def _weights_line(name: str, model: Model, request: "Request") -> "Overhead":
    """The weights of another model, spread as the asked one is."""
    from kvcalc.core.overheads import Estimate, Overhead
    from kvcalc.core.weights import rank_weights, weigh

    layout = request.layout._replace(ep=1, dp=1)
    found = rank_weights(model, "auto", layout).fullest
    rule = f"{model.name}: {weigh(model, 'auto').source}, over {many(layout.tp, 'GPU')}"
    return Overhead(name, Estimate(*found), rule, model.source or "the preset")


def _own_draft(request: "Request") -> "list[Overhead]":
    """Layers of the checkpoint that draft tokens, which are loaded for that alone: each is one more of the last kind,
    and a matrix of two widths by one (DeepSeek-V3, arXiv 2412.19437, section 2.2).
    """
    from kvcalc.core.overheads import Estimate, Overhead
    from kvcalc.core.stored import Division, Stored

    model = request.facts
    if not model.draft or model.dimensions is None:
        return []
    stored = Stored(model, model.weights_dtype or model.dtype, kept=True)
    if stored.parts.even:
        return []
    one = stored.layer(stored.parts.layers[-1], Division(model, request.layout, ()))
    joined = 2 * model.dimensions.hidden**2 * model.dtype.block_bytes
    copies = len(model.draft)
    size = Estimate(*(copies * (part + joined) for part in one))
    rule = f"{many(copies, 'layer')} that draft: a last layer, and 2 x {model.dimensions.hidden:,}^2 to join two states"
    return [Overhead("draft layers", size, rule, "arXiv 2412.19437, section 2.2")]


def _beside(source: Source, name: str) -> "Overhead":
    """Another model, whole on the GPU in a process of its own: its weights, and the cache of one sequence."""
    from kvcalc.core.overheads import Estimate, Overhead
    from kvcalc.core.weights import rank_weights

    model = other_model(source, name, "--beside")
    one = measure(ask(model))
    weights = rank_weights(model, "auto").fullest
    process = [(hundredths << 30) // 100 for hundredths in _PROCESS]
    size = Estimate(*(part + one.bytes_total + more for part, more in zip(weights, process, strict=True)))
    rule = f"{model.name}: weights {format_bytes(weights.likely)}, a sequence of {one.request.context:,} tokens "
    rule += f"{format_bytes(one.bytes_total)}, CUDA's context; where it holds more, --vram takes what it leaves"
    return Overhead("beside", size, rule, model.source or "the preset")
