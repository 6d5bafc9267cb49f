"""What flags that count in one way change in another, which does not: the same of several engines."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kvcalc.commands.effects import Effect, Uncounted
from kvcalc.core.dtypes import COMPUTE, WEIGHTS, DType
from kvcalc.core.hosted import divisible
from kvcalc.core.model import Model

__all__ = ["Loaded", "drafting", "kept_on_host", "loaded_in_16_bits", "packed_otherwise"]


def packed_otherwise(word: object, counted: Sequence[str], model: Model) -> Iterator[Uncounted]:
    """A `--quantization` that says how weights are packed which are not, by the model's facts. `counted`: words that
    count, since the engine makes such weights of 16 bits.
    """
    packed = (model.weights_dtype or model.dtype).name not in COMPUTE
    if isinstance(word, str) and not packed and word.lower() not in ("none", *counted):
        what = "says that the weights are packed, which those of the model's facts are not"
        yield Uncounted(f"--quantization {word}", Effect("quantization", what, "less"))


def drafting(flag: str) -> Uncounted:
    """What a flag that asks for drafts adds beside their cache."""
    return Uncounted(flag, Effect("drafts", "loads the weights that draft tokens", "more"))


def kept_on_host(
    values: Mapping[str, object], model: Model, uncounted: Sequence[Uncounted]
) -> tuple[int, tuple[Uncounted, ...]]:
    """Bytes of each GPU's weights that `offload` leaves on the host, and what is left uncounted: none are counted where
    other flags choose what goes there, or where it is not known which part of the weights the layers are.
    """
    size, chosen = values.get("offload"), any(each.effect.key == "offload choice" for each in uncounted)
    if not isinstance(size, int) or not size or chosen or not divisible(model):
        return 0, tuple(uncounted)
    return size, tuple(each for each in uncounted if each.effect.key != "offload")


class Loaded(NamedTuple):
    """What an engine makes of a checkpoint in fp32.

    Attributes:
        computed: The dtype that it computes and caches in.
        weights: The dtype that it loads the weights into; None where they are packed, or only their bytes are known.
        uncounted: That these bytes are of fp32.
    """

    computed: DType
    weights: DType | None = None
    uncounted: tuple[Uncounted, ...] = ()


def loaded_in_16_bits(model: Model, computed: str) -> Loaded | None:
    """The same for an engine whose `auto` is `computed` then; None for a checkpoint in another dtype."""
    if model.dtype.name != "fp32":
        return None
    dtype = COMPUTE[computed]
    if model.weights_dtype is not None:
        return Loaded(dtype)
    if model.parameters is None:  # weights are measured bytes
        effect = Effect("dtype", "loads weights that are stored in fp32", "less")
        return Loaded(dtype, uncounted=(Uncounted(f"--dtype {computed}", effect),))
    return Loaded(dtype, WEIGHTS[computed])
