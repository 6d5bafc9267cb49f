"""What each device and the host hold, where an engine's flags leave a part of the model to the host."""

from typing import TYPE_CHECKING, NamedTuple

from kvcalc.core.units import Fraction
from kvcalc.engines.allocation import Device

if TYPE_CHECKING:
    from kvcalc.core.memory import MemorySplit
    from kvcalc.queries.engine import EngineQuestion

__all__ = ["PLACED", "HeldDevice", "held", "verdict"]

# Settings that place layers, experts or the cache, and the effects of the flags that make them.
_PLACING = ("gpu_layers", "cpu_experts", "tensor_buffers", "kv_offload", "shares")
PLACED = frozenset({"layers", "cache", "experts", "tensors"})
_BUFFER = "compute buffer"  # which each device has of its own


class HeldDevice(NamedTuple):
    """A device, bytes of what else it must have room for, and whether all of it fits: None where the range of its
    buffer decides, and for the host, whose memory is not known.
    """

    device: Device
    beside: int
    fits: bool | None


def held(posed: "EngineQuestion", memory: "MemorySplit") -> tuple[HeldDevice, ...]:
    """Each device and, last, the host; nothing where no flag places anything."""
    engine, question = posed.engine, posed.question
    if engine.devices is None or memory.vram is None or memory.whole_weights is None:
        return ()
    if not any(question.settings.get(name) not in (None, True) for name in _PLACING):
        return ()
    apart = sum(line.size.likely for line in memory.overheads if line.inside and line.name != _BUFFER)
    room = (memory.utilization or Fraction(1, 1)).floor(memory.vram) - apart
    *devices, host = engine.devices(question, memory.whole_weights, question.request.layout.pp)
    return (*(HeldDevice(each, apart, _fits(each, room)) for each in devices), HeldDevice(host, 0, None))


def _fits(device: Device, room: int) -> bool | None:
    fixed = device.likely - device.compute.likely
    if fixed + device.compute.high <= room:
        return True
    return None if fixed + device.compute.low <= room else False


def verdict(devices: tuple[HeldDevice, ...]) -> bool | None:
    """Whether all devices have room; None where the range of a buffer decides."""
    seen = {each.fits for each in devices[:-1]}
    return False if False in seen else None if None in seen else True
