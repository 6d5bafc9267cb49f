"""What an engine's own flags come to: options of ours, and settings of its own."""

from collections.abc import Mapping
from typing import NamedTuple

from kvcalc.commands.effects import Uncounted
from kvcalc.commands.flags import FlagValues
from kvcalc.core.dtypes import DType
from kvcalc.core.units import Fraction

__all__ = ["EngineOptions", "model_flag"]


class EngineOptions(NamedTuple):
    """What an engine's flags say.

    Attributes:
        options: Options of ours, under the names of `request.ask`.
        settings: The engine's own settings.
        warnings: What the asker should know.
        utilization: The fraction of the memory that the engine may use, where a flag says it.
        kv_memory: The bytes that each GPU has for the cache, where a flag says them.
        defaults: Options of ours that hold where nobody says another.
        draft: The model that drafts tokens, in the engine's words, whose layers are to stand as the model's draft
            layers.
        sequences: Sequences of one replica, where nobody says another number.
        loaded: What the engine packs the weights into as it loads them; None where it takes them as they are stored.
        on_host: Bytes of each GPU's weights that lie in the host's memory.
        uncounted: Flags that change the memory by no rule that is here; what may rest on them `commands.effects` says.
    """

    options: Mapping[str, object] = {}
    settings: Mapping[str, object] = {}
    warnings: tuple[str, ...] = ()
    utilization: Fraction | None = None
    kv_memory: int | None = None
    defaults: Mapping[str, object] = {}
    draft: str | None = None
    sequences: int | None = None
    loaded: DType | None = None
    on_host: int = 0
    uncounted: tuple[Uncounted, ...] = ()


def model_flag(program: str, read: FlagValues) -> str | None:  # noqa: ARG001 - one signature for all engines
    """The model that the flag with the key `model` names."""
    model = read.values.get("model")
    return model if isinstance(model, str) else None
