"""The widths of the weights under `dimensions` in a preset."""

from typing import get_args

from kvcalc.core.model import Dimensions, FeedForward
from kvcalc.errors import shown
from kvcalc.preset import notation
from kvcalc.preset.fields import Reader

__all__ = ["read_dimensions"]

_WORDS: tuple[FeedForward, ...] = get_args(FeedForward)

_OF_EXPERTS = ("top_k", "expert_intermediate", "expert_hidden", "shared_intermediate")


def read_dimensions(top: Reader, layers: int) -> Dimensions | None:
    """The value under `dimensions` of a model of so many layers; None where there is none, or it is faulty."""
    inner = top.inner("dimensions")
    if inner is None:
        return None
    before = len(inner.problems)
    if inner.data.get("hidden") is None:
        inner.missing("the width of the model", "hidden")
    found = Dimensions(
        hidden=inner.integer("hidden") or 0,
        vocab=inner.integer("vocab"),
        intermediate=inner.integer("intermediate"),
        gated=inner.get("gated") is None or inner.flag("gated"),
        tied=inner.flag("tied"),
        q_lora_rank=inner.integer("q_lora_rank", 0) or 0,
        query_gate=inner.flag("query_gate"),
        experts=inner.integer("experts", 0) or 0,
        top_k=inner.integer("top_k"),
        expert_intermediate=inner.integer("expert_intermediate"),
        expert_hidden=inner.integer("expert_hidden", 0) or 0,
        shared_intermediate=inner.integer("shared_intermediate", 0) or 0,
        feed_forward=_feed_forward(inner, layers),
    )
    inner.close()
    if not found.experts:
        for key in _OF_EXPERTS:
            if inner.data.get(key):
                inner.note("expected `experts` beside it", key)
    elif (found.top_k or 0) > found.experts:
        inner.note(f"expected at most the {found.experts:,} experts, got {found.top_k:,}", "top_k")
    return found if len(inner.problems) == before else None


def _feed_forward(inner: Reader, layers: int) -> tuple[FeedForward, ...]:
    """A word for each layer, in the notation of `layers`."""
    text = inner.text("feed_forward")
    if text is None:
        return ()
    try:
        names = notation.expand(text)
    except ValueError as error:
        inner.note(str(error), "feed_forward")
        return ()
    words: list[FeedForward] = []
    for layer in names:
        word = next((word for word in _WORDS if layer == ((word,) if word != notation.NONE else ())), None)
        if word is None:
            inner.note(f"expected dense, moe or none for each layer, got {shown('+'.join(layer))}", "feed_forward")
            return ()
        words.append(word)
    if layers and len(words) != layers:
        inner.note(f"expected {layers}, the number of layers described, got {len(words)}", "feed_forward")
    return tuple(words)
