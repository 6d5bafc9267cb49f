"""What a model asks of a machine: bytes of weights, FLOPs, kernels and sums over ranks, before any split over GPUs."""

from typing import NamedTuple

from kvcalc.core.dtypes import COMPUTE, packed_bytes
from kvcalc.core.formula import attending, head_dims
from kvcalc.core.model import Model, Recurrent
from kvcalc.perf.flops import Flops, count
from kvcalc.perf.kernels import Blocks, blocks_of
from kvcalc.perf.machine import HALF_SPEED
from kvcalc.perf.workload import Lengths

__all__ = ["NOTHING_FOUND", "Demand", "Found", "Work", "demand_of", "prompt_attention", "work_of"]


class Found(NamedTuple):
    """What of a prompt stands in the cache already: so many tokens, or a share of it. The last token never does."""

    tokens: int = 0
    share: float = 0.0

    def of(self, prompt: float) -> float:
        """Tokens of a prompt of that length that are not computed again."""
        return max(0.0, min(prompt - 1, max(float(self.tokens), self.share * prompt)))


NOTHING_FOUND = Found()


class Demand(NamedTuple):
    """One model in one format, with bytes and FLOPs of all GPUs together.

    Each token reads `always` bytes of the weights, and of the `routed` ones the part of the experts that it is sent to,
    which is `drawn`. `distinct`: experts are known, so that tokens that meet count once. `held` has what no text reads
    too: embeddings but for one row, and towers for images or sound. `dense` and `expert` are FLOPs of a token through
    what it reads; `flops` has those of attention. `exchanged` are bytes of a token in one sum over ranks. `unknown` are
    the causes of doubt, in words.
    """

    flops: Flops
    held: int
    always: float
    routed: float
    drawn: float
    dense: float
    expert: float
    exchanged: float
    blocks: Blocks
    distinct: bool = True
    unknown: tuple[str, ...] = ()

    def read(self, tokens: float) -> float:
        """Bytes of weights that a pass over so many tokens reads.

        Of R bytes of experts, n tokens that choose evenly and each for itself meet R x (1 - (1 - k/E)^n). Kernels of
        experts take that time in measured tables, from four tokens on. Where k/E is not known, no two tokens meet.
        """
        tokens = max(tokens, 1.0)
        met = 1 - (1 - self.drawn) ** tokens if self.distinct else min(1.0, self.drawn * tokens)
        return self.always + self.routed * met


class _Parts(NamedTuple):
    """Parameters in all experts that tokens are sent to, and the share of them that one token meets."""

    routed: float
    drawn: float
    distinct: bool = True


def demand_of(
    model: Model,
    weights: int,
    format_: str,
    *,
    used: int | None = None,
    encoder_tokens: int | None = None,
    quantised: bool = False,
) -> Demand:
    """What a model asks for with `weights` bytes of them in a format, `quantised` where inputs are converted to it too.

    `used` are the parameters of one token, where the asker knows better. Raises KvcalcError where their number is not
    known.
    """
    flops = count(model, used, encoder_tokens)
    total = float(max(model.parameters or flops.parameters, flops.parameters))
    hidden = model.dimensions.hidden if model.dimensions is not None else _width(model)
    parts = _parts(model, flops.parameters, total)
    routed = _routed_bytes(model, weights, format_, parts.routed, total)
    rest = total - parts.routed
    read = max(0.0, 1 - _unread(model) / rest) if rest else 0.0
    expert = 2 * parts.routed * parts.drawn if parts.distinct else 0.0
    unknown = (
        () if parts.distinct else ("the model's experts are not known, so that a batch is taken to read the most",)
    )
    return Demand(
        flops=flops,
        held=weights,
        always=(weights - routed) * read,
        routed=routed,
        drawn=parts.drawn,
        dense=max(flops.linear - expert - 2 * _unread(model), 0.0),
        expert=min(expert, float(flops.linear)),
        exchanged=packed_bytes(COMPUTE["bf16"], hidden),
        blocks=blocks_of(model, hidden, quantised=quantised),
        distinct=parts.distinct,
        unknown=unknown,
    )


def _parts(model: Model, used: int, total: float) -> _Parts:
    """The experts' part of the parameters. Without their width that of one token tells: used = rest + routed x k/E."""
    dims = model.dimensions
    if used >= total:
        return _Parts(0.0, 0.0)
    if dims is None or not dims.experts or not dims.top_k:
        return _Parts(total, used / total, distinct=False)
    drawn = dims.top_k / dims.experts
    layers = dims.feed_forward.count("moe") if dims.feed_forward else len(model.layers)
    matrices = (3 if dims.gated else 2) * (dims.expert_hidden or dims.hidden) * (dims.expert_intermediate or 0)
    counted = float(layers * dims.experts * matrices)
    return _Parts(counted if 0 < counted < total else min(total, (total - used) / max(1 - drawn, 1e-9)), drawn)


def _routed_bytes(model: Model, weights: int, format_: str, routed: float, total: float) -> float:
    """Bytes of the experts. MXFP4 checkpoints have nothing else in that format (gpt-oss); others are counted evenly."""
    evenly = weights * routed / total
    if format_ != "mxfp4" or model.weights_dtype is None or model.weights_dtype.name != format_:
        return evenly
    rest = packed_bytes(model.dtype, round(total - routed))
    return float(weights - rest) if rest < weights else evenly


def _unread(model: Model) -> float:
    """Parameters that no decoded token reads: rows of the embeddings but its own, and towers for images or sound."""
    dims = model.dimensions
    rows = 0 if dims is None or dims.tied or not dims.vocab else dims.vocab * dims.hidden
    return float(rows + (model.encoder_parameters or 0))


def _width(model: Model) -> int:
    """Elements of a layer's output where the model's dimensions are not known: at most its heads' widths.

    The heads' values together are as wide in Llama, Mistral and Qwen2, and up to 2.3 times as wide elsewhere
    (DeepSeek V3: 128 x 128 for a width of 7,168), so that exchanges are rather over- than underestimated.
    """
    heads = [cache.heads * head_dims(cache)[1] for layer in model.distinct_layers for cache in attending(layer)]
    states = [
        max(c.width, c.inner, c.heads * c.head_dim, c.v_heads * c.v_dim)
        for c in model.distinct_caches
        if isinstance(c, Recurrent)
    ]
    return max(heads or states)


class Work(NamedTuple):
    """What requests of one mix of lengths ask for, each on average.

    `attention`: FLOPs of one new token at the mean context. `prompt_tokens` are those that are computed, and `prompt`
    the FLOPs of attention to them as a kernel at full speed would do in that time. `variation` is the squared
    coefficient of variation of a prompt's work.
    """

    attention: float
    prompt_tokens: float
    prompt: float
    variation: float = 0.0


def work_of(flops: Flops, lengths: Lengths, found: Found = NOTHING_FOUND) -> Work:
    """The work of a mix of lengths, with a part of each prompt found in the cache."""

    def attention(prompt: float) -> float:
        return prompt_attention(flops, prompt, found.of(prompt)) * (1 + HALF_SPEED / prompt)

    def whole(prompt: float) -> float:
        return flops.linear * (prompt - found.of(prompt)) + attention(prompt)

    mean = lengths.mean_over(whole)
    return Work(
        attention=flops.token(round(lengths.context)) - flops.linear,
        prompt_tokens=lengths.mean_over(lambda prompt: prompt - found.of(prompt)),
        prompt=lengths.mean_over(attention),
        variation=max(0.0, lengths.mean_over(lambda prompt: whole(prompt) ** 2) / mean**2 - 1) if mean else 0.0,
    )


def prompt_attention(flops: Flops, tokens: float, found: float = 0.0) -> float:
    """FLOPs of attention in a prompt of so many tokens, of which the first `found` stand in the cache."""
    before = round(found)
    first = flops.prompt(before) - flops.linear * before if before else 0
    return float(flops.prompt(round(tokens)) - flops.linear * round(tokens) - first)
