"""What the roofline asks of a card and of a model: their facts as plain rates, bytes and FLOPs."""

from kvcalc.core.card import Card
from kvcalc.core.dtypes import packed_bytes
from kvcalc.core.formula import attending, head_dims
from kvcalc.core.model import Model, Recurrent
from kvcalc.core.sharding import Layout
from kvcalc.errors import KvcalcError
from kvcalc.perf.flops import count, used_parameters
from kvcalc.perf.roofline import Demand, Machine
from kvcalc.perf.workload import Lengths

__all__ = ["demand_of", "machine_of"]


def machine_of(card: Card, layout: Layout, *, eight_bit: bool = False) -> Machine:
    """The rates of a card for one replica of a layout. Raises KvcalcError where one that counts is not published."""
    flops = (eight_bit and card.flops8) or card.flops16
    if not card.bandwidth or not flops or (layout.tp > 1 and not card.link):
        what = "bandwidth" if not card.bandwidth else "link between GPUs" if flops else "FLOP/s"
        raise KvcalcError(f"--gpu: the {what} of {card.label} is not known, and times follow from it")
    return Machine(card.bandwidth, flops, card.link, layout.tp, layout.pp)


def demand_of(model: Model, lengths: Lengths, weights_bytes: int, encoder_tokens: int | None = None) -> Demand:
    """What a model asks for. Raises KvcalcError where the number of its parameters is not known."""
    used = used_parameters(model)
    asked = count(model, encoder_tokens=encoder_tokens)
    prompt = lengths.mean_over(lambda tokens: asked.prompt(round(tokens)))
    squares = lengths.mean_over(lambda tokens: asked.prompt(round(tokens)) ** 2)
    return Demand(
        weights=weights_bytes,
        touched=weights_bytes * min(1.0, used / (model.parameters or used)),
        token=asked.linear,
        attention=asked.token(round(lengths.context)) - asked.linear,
        prompt=prompt,
        exchanged=2 * len(model.layers) * packed_bytes(model.dtype, _width(model)),
        variation=squares / prompt**2 - 1 if prompt else 0.0,
    )


def _width(model: Model) -> int:
    """Elements of a layer's output, which the ranks of tp sum up: no fact of a model, and at most its heads' widths.

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
