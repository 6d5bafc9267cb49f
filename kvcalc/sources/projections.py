"""Whether the tensors of a model are those of the layers that its metadata, or its config.json, describes.

Both stand in the same files and can contradict each other: an edited configuration, a half-fetched model. Compared is
what is plain: which layers there are, and the rows of separate projections of keys and values, which are KV heads x the
width of a head. Fused, packed and renamed projections say nothing here, and neither do layers that share a cache.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvcalc.sources.faults import Phrase, fault

__all__ = ["Described", "Heads", "PlacedTensor", "Words", "check_projections", "placed"]


class Heads(NamedTuple):
    """KV heads of one layer of plain attention, and the widths of a key and of a value (0: the key is the value)."""

    number: int
    k_dim: int
    v_dim: int


class Described(NamedTuple):
    """One layer as it is described: plain attention or None, and whether it keeps a cache, for which it has weights."""

    heads: Heads | None
    keeps: bool


class PlacedTensor(NamedTuple):
    """One tensor of a layer: the part of its name behind the layer, and its rows if they are not packed."""

    layer: int
    name: str
    rest: str
    rows: int | None


class Words(NamedTuple):
    """What a format calls these things: for messages, and to know the tensors by."""

    key: str  # the projection of the keys, behind the layer
    value: str
    layer: str  # what stands before the number of a layer
    layers: str  # the key that counts the layers
    kv_heads: str
    width: str
    way_out: str


# Tensors that only a draft layer (multi-token prediction) has, which checkpoints keep behind the model's own layers
# even where no key counts it: model.layers.61.eh_proj of DeepSeek V3, and the same in GGUF as blk.61.nextn.eh_proj.
_DRAFT = re.compile(r"nextn\.|(eh_proj|enorm|hnorm|shared_head|embed_tokens)\.")


def placed(pattern: re.Pattern[str], name: str, rows: int | None) -> PlacedTensor | None:
    """A tensor whose name `pattern` takes apart into the number of its layer and the rest; None for another."""
    match = pattern.fullmatch(name)
    return PlacedTensor(int(match[1]), name, match[2], rows) if match else None


def check_projections(
    file: str, layers: Sequence[Described], drafts: int, tensors: Iterable[PlacedTensor], words: Words
) -> None:
    """Raise KvcalcError if the tensors are not those of `layers`, behind which there may be `drafts` more.

    Without a single tensor of a layer there is nothing to compare: a vocabulary, or names that are not known here.
    """
    held = list(tensors)
    if not held:
        return
    _check_count(file, layers, drafts, held, words)
    for tensor in held:
        heads = layers[tensor.layer].heads if tensor.layer < len(layers) else None
        if heads is not None and tensor.rows is not None and tensor.rest in (words.key, words.value):
            width = heads.k_dim if tensor.rest == words.key else heads.v_dim
            if width and tensor.rows != heads.number * width:
                raise fault(file, tensor.name, _expected(heads.number, width, words), _got(tensor.rows, width),
                            words.way_out)  # fmt: skip


def _check_count(file: str, layers: Sequence[Described], drafts: int, held: list[PlacedTensor], words: Words) -> None:
    drafted = {tensor.layer for tensor in held if _DRAFT.match(tensor.rest)}
    there = {tensor.layer for tensor in held}
    extra = next((n for n in sorted(there - drafted) if n >= len(layers) + drafts), None)
    said = f"{words.layers} {len(layers) + drafts:,}"
    if extra is not None:
        got = Phrase(f"tensors of {words.layer}{extra}, of {max(there) + 1:,} layers")
        raise fault(file, words.layers, f"no layer behind {words.layer}{len(layers) + drafts - 1}, by {said}", got,
                    words.way_out)  # fmt: skip
    lacking = [n for n, layer in enumerate(layers) if layer.keeps and n not in there]
    if lacking:
        got = Phrase(f"none of {words.layer}{lacking[0]}, and {len(there):,} layers in all")
        raise fault(file, words.layers, f"tensors of every layer, by {said}", got, words.way_out)


def _expected(count: int, width: int, words: Words) -> str:
    if not count:
        return f"no such tensor, by {words.kv_heads} 0"
    heads = "KV head" if count == 1 else "KV heads"
    return f"{count * width:,} rows, {count:,} {heads} x {width:,} by {words.kv_heads} and {words.width}"


def _got(rows: int, width: int) -> Phrase:
    count, rest = divmod(rows, width)
    return Phrase(f"{rows:,}" if rest or not count else f"{rows:,}, {count:,} x {width:,}")
